"""Manifests: entries of data files and of index files, and which of these files are live.

Source: `org.apache.paimon.manifest`, `org.apache.paimon.index.IndexFileMeta`.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, SimpleStats
from paimon_assets.engine.spec.values import Value

FileIdentifier = tuple[bytes, int, int, str, tuple[str, ...], bytes | None, str | None]
"""(partition, bucket, level, name, extra files, embedded index, external path)."""


class FileKind(IntEnum):
    """The kind of a manifest entry: it adds or deletes its file."""

    ADD = 0
    DELETE = 1


class ManifestEntry(NamedTuple):
    """One change of the set of live files."""

    kind: FileKind
    partition: bytes
    """Serialized BinaryRow of the partition values."""
    bucket: int
    total_buckets: int
    """Bucket count when the file was written; -1 unaware or dynamic, -2 postpone."""
    file: DataFileMeta

    @property
    def identifier(self) -> FileIdentifier:
        """The identity of the file: equal for entries of the same file."""
        file = self.file
        return (
            self.partition,
            self.bucket,
            file.level,
            file.file_name,
            file.extra_files,
            file.embedded_file_index,
            file.external_path,
        )


class ManifestFileMeta(Value):
    """One record of a manifest list: a manifest and its counts."""

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats
    schema_id: int
    """Largest schema id of the files inside."""
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None


def live_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Return the ADD entries that no DELETE, before or after, names, in order. Cost: O(n)."""
    added: list[ManifestEntry] = []
    deleted: set[FileIdentifier] = set()
    for entry in entries:
        if entry.kind is FileKind.ADD:
            added.append(entry)
        else:
            deleted.add(entry.identifier)
    if not deleted:
        return added
    return [entry for entry in added if entry.identifier not in deleted]


DELETION_VECTORS_INDEX = "DELETION_VECTORS"
"""Type of index files that hold deletion vectors."""
HASH_INDEX = "HASH"
"""Type of index files that hold the key hashes of a dynamic bucket; readers do without."""


class DeletionVectorMeta(Value):
    """The place of one data file's deletion vector in its index file."""

    data_file_name: str
    offset: int
    """Byte at which the length field of the vector begins."""
    length: int
    """Bytes of the body for 32-bit vectors; 64-bit vectors count length field and checksum too."""
    cardinality: int | None = None
    """Deleted rows; None is unknown (before 1.0)."""


class GlobalIndexMeta(Value):
    """The coverage of a global index; readers may ignore such indexes."""

    row_range_start: int
    row_range_end: int
    """Last row id, inclusive."""
    index_field_id: int
    extra_field_ids: tuple[int, ...] | None = None
    index_meta: bytes | None = None
    source_meta: bytes | None = None


class IndexFileMeta(Value):
    index_type: str
    """`DELETION_VECTORS`, `HASH`, or the name of a global index."""
    file_name: str
    file_size: int
    row_count: int
    """Number of deletion vectors or of hashes."""
    deletion_vectors: tuple[DeletionVectorMeta, ...] | None = None
    """The vectors inside; None if the file holds none."""
    external_path: str | None = None
    global_index: GlobalIndexMeta | None = None


class IndexManifestEntry(Value):
    kind: FileKind
    partition: bytes
    """Serialized BinaryRow of the partition values."""
    bucket: int
    file: IndexFileMeta


def live_index_entries(entries: Iterable[IndexManifestEntry]) -> list[IndexManifestEntry]:
    """Return the ADD entries that no DELETE names, in order; names are unique over time."""
    listed = list(entries)
    deleted = {entry.file.file_name for entry in listed if entry.kind is FileKind.DELETE}
    return [
        entry
        for entry in listed
        if entry.kind is FileKind.ADD and entry.file.file_name not in deleted
    ]
