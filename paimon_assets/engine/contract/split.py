"""DataSplit: files of one bucket that are read together. The only way work reaches a reader.

Source: `org.apache.paimon.table.source.DataSplit`; its binary form is `contract.wire`.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import counted


class DeletionFile(Value):
    """The place of one data file's deletion vector."""

    path: str
    offset: int
    length: int
    cardinality: int | None = None
    """Deleted rows; None is unknown."""


class DataSplit(Value):
    """Files of one bucket that must be read together.

    With its `ReadContext` it is readable on a machine that never saw the table.

    >>> [split.row_count for split in table.new_read_builder().plan().splits]
    [2]
    """

    snapshot_id: int
    """For reports only."""
    partition: bytes
    """Serialized BinaryRow: source of the partition columns' values."""
    bucket: int
    bucket_path: str
    """Directory of files without an external path."""
    total_buckets: int | None = None
    data_files: tuple[DataFileMeta, ...]
    deletion_files: tuple[DeletionFile | None, ...] | None = None
    """As long as `data_files`, or None if no file has deletions."""
    before_files: tuple[DataFileMeta, ...] = ()
    """Files of an older state: the split is then the difference from them to `data_files`."""
    before_deletion_files: tuple[DeletionFile | None, ...] | None = None
    """As long as `before_files`; not None, be it empty, makes the split a difference."""
    is_streaming: bool = False
    """Keep row kinds; neither merge nor drop deletes."""
    raw_convertible: bool = False
    """Files may be read one after the other, without merging."""
    is_fallback: bool | None = None
    """Whether the files are of the fallback branch; None if the table has none."""

    def __repr__(self) -> str:
        files = counted(len(self.before_files) + len(self.data_files), "file")
        return f"DataSplit({self.bucket_path}: {files}, {counted(self.row_count, 'row')})"

    @property
    def is_difference(self) -> bool:
        """Whether the split is read as the difference of two states."""
        return bool(self.before_files) or self.before_deletion_files is not None

    def path_of(self, file: DataFileMeta) -> str:
        """Return the full path of one of the split's files."""
        return file.external_path or f"{self.bucket_path}/{file.file_name}"

    @property
    def row_count(self) -> int:
        """Physical rows of all files."""
        return sum(file.row_count for file in (*self.before_files, *self.data_files))

    @property
    def file_bytes(self) -> int:
        return sum(file.file_size for file in (*self.before_files, *self.data_files))


Splits = Sequence[DataSplit]


def shift(split: DataSplit, offset: int) -> DataSplit:
    """Return a split whose files' schemas have other ids."""
    files = (file._replace(schema_id=file.schema_id + offset) for file in split.data_files)
    return replace(split, data_files=tuple(files))
