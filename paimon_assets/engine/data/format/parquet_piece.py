"""A piece of a Parquet file: the row groups that Hadoop deals to a range of its bytes."""

from __future__ import annotations

from typing import Any

from paimon_assets.engine.data.format.base import FileToRead
from paimon_assets.engine.data.format.named_errors import named_errors
from paimon_assets.engine.data.format.parquet import ParquetReader
from paimon_assets.engine.spec.predicate.predicate import Predicate


class ParquetPiece(ParquetReader):
    """The row groups of an open file whose middle byte is in `[start, end)`.

    Of ranges that are the whole file together, each row group is in one.
    """

    def __init__(self, file: FileToRead, start: int, end: int) -> None:
        """Open the file; see `FormatReader`."""
        super().__init__(file)
        self._start, self._end = start, end

    @property
    def file_bytes(self) -> int:
        """The size of the whole file."""
        return int(self._source.size())

    @property
    def footer(self) -> Any:
        """The `pyarrow.parquet.FileMetaData` of the whole file."""
        return self._file.metadata

    def matching_row_groups(self, predicate: Predicate | None) -> list[int]:
        """Return those of the piece in which a row may pass."""
        groups = super().matching_row_groups(predicate)
        if self._start == 0 and self._end >= self.file_bytes:
            return groups
        last, leaves, found = self.file_bytes - 1, range(len(self._file.schema)), []
        with named_errors(self._path, self.title):
            for group, chunks in zip(groups, self._chunks.of(groups, leaves), strict=True):
                first = min(chunks[0].data_page_offset, chunks[0].dictionary_page_offset or last)
                middle = first + sum(chunk.total_compressed_size for chunk in chunks) // 2
                if self._start <= min(middle, last) < self._end:
                    found.append(group)
        return found
