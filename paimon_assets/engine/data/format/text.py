"""Text files: one STRING column, a row a line; decompressed by the suffix of the file's name."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.data.format.base import (
    FileFormat,
    FileToRead,
    FormatReader,
    short_batches,
)
from paimon_assets.engine.data.format.text_streams import BLOCK_BYTES, open_text_stream
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.segments.text_options import TextOptions
from paimon_assets.engine.spec.types.data_types import DataField

VALUE_COLUMN = "value"


class CountedRows(FormatReader):
    """The base of text readers, which count rows by reading them."""

    def __init__(self, file: FileToRead) -> None:
        """Open the file; see `FormatReader`."""
        self._text = (file.declared and file.declared.options) or TextOptions()
        super().__init__(file)

    @abstractmethod
    def _decode(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Parse some columns, or any one if `columns` is empty."""

    def _batches(
        self, names: list[str], predicate: Predicate | None, batch_rows: int, batch_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """Decode some columns; see `FormatReader`. Nothing is pruned: texts have no statistics."""
        for batch in short_batches(self._decode(names, batch_rows), batch_rows, batch_bytes):
            yield batch.select(names)

    def row_ranges(self, predicate: Predicate | None) -> Sequence[tuple[int, int]]:
        """Return all rows; see `FormatReader`. Cost: reads the file."""
        batches = self.batches([], predicate=None, batch_rows=1 << 20)
        return [(0, sum(batch.num_rows for batch in batches))]


def declared_fields(file: FileToRead) -> Sequence[DataField]:
    """Return the table's columns."""
    return () if file.declared is None else file.declared.fields


class TextReader(CountedRows):
    """One open text file."""

    title = "text"

    def _columns(self, file: FileToRead) -> pa.Schema:
        return pa.schema({VALUE_COLUMN: pa.string()})

    def _decode(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        rest, line_end = b"", (self._text.line_end or "\n").encode()
        with open_text_stream(self._file_io, self._path, self._text) as stream:
            while block := stream.read(BLOCK_BYTES):
                whole, end, rest = (rest + bytes(block)).rpartition(line_end)
                if end:
                    yield self._lines(whole)
        if rest:
            yield self._lines(rest)

    def _lines(self, block: bytes) -> pa.RecordBatch:
        line_end = self._text.line_end
        lines: Any = pc.list_flatten(pc.split_pattern(pa.array([block.decode()]), line_end or "\n"))
        if not line_end:
            lines = pc.utf8_rtrim(lines, characters="\r")
        return pa.RecordBatch.from_arrays([lines], names=[VALUE_COLUMN])


FORMAT = FileFormat(name="text", reader=TextReader, is_text=True)
