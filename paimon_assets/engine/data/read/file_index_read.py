"""Where the index of a data file lies: in its metadata, or in a file beside it.

Source: `org.apache.paimon.io.FileIndexEvaluator`.
"""

from dataclasses import dataclass

from paimon_assets.engine.codec.file_index.file_index import damaged_index
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.data_file import INDEX_SUFFIX, DataFileMeta


@dataclass(frozen=True, slots=True)
class FoundIndex:
    """A file index, and where it lies."""

    data: bytes
    path: str


def read_file_index(file_io: FileIO, split: DataSplit, file: DataFileMeta) -> FoundIndex | None:
    """Read the index of one of the split's files; None if it has none.

    Raises:
        NotFoundError: The file that should hold the index is gone; names it.
        FormatError: The file claims several indexes.
    """
    path = split.path_of(file)
    if file.embedded_file_index is not None:
        return FoundIndex(file.embedded_file_index, f"{path} (in the manifest)")
    names = [name for name in file.extra_files if name.endswith(INDEX_SUFFIX)]
    if not names:
        return None
    index_path = f"{path.rpartition('/')[0]}/{names[0]}"
    if len(names) > 1:
        raise damaged_index(index_path, f"there is another one beside it, {names[1]}")
    return FoundIndex(file_io.read_bytes(index_path), index_path)
