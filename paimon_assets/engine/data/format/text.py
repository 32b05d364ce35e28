"""Text files: one STRING column, a row a line; whatever the compression of the file's name."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.data.format.base import (
    BATCH_BYTES,
    FileFormat,
    FileToRead,
    FormatReader,
    short_batches,
)
from paimon_assets.engine.data.format.named_errors import named_errors
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.predicate.predicate import Predicate

VALUE_COLUMN = "value"
BLOCK_BYTES = 4 * 1024 * 1024
_COMPRESSIONS: Mapping[str, Any] = {"gz": "gzip", "bz2": "bz2", "zst": "zstd", "lz4": "lz4"}


def open_text_stream(file_io: FileIO, path: str) -> Any:
    """Open the decompressed bytes of a text file, by the suffix of its name."""
    source = file_io.open_input(path)
    codec = _COMPRESSIONS.get(path.rpartition(".")[2].lower())
    return source if codec is None else pa.CompressedInputStream(source, codec)


class CountedRows(FormatReader):
    """The base of text readers, whose rows are known only by reading them."""

    @abstractmethod
    def _decoded(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Parse some columns, or any one if none is named."""

    def batches(
        self,
        columns: Sequence[str],
        *,
        predicate: Predicate | None,
        batch_rows: int,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[pa.RecordBatch]:
        """Decode some columns; see `FormatReader`. Nothing is pruned: texts have no statistics."""
        with named_errors(self._path, self.title):
            try:
                decoded = self._decoded(columns, batch_rows)
                for batch in short_batches(decoded, batch_rows, batch_bytes):
                    yield batch.select(list(columns))
            except (UnicodeDecodeError, KeyError) as error:
                raise FormatError(
                    f"Data file '{self._path}' is not readable as {self.title}: {error}",
                    details={"path": self._path},
                ) from error

    def row_ranges(self, predicate: Predicate | None) -> Sequence[tuple[int, int]]:
        """Return all rows; see `FormatReader`. Cost: reads the file."""
        batches = self.batches([], predicate=None, batch_rows=1 << 20)
        return [(0, sum(batch.num_rows for batch in batches))]


class TextReader(CountedRows):
    """One open text file."""

    title = "text"

    def _columns(self, file: FileToRead) -> pa.Schema:
        return pa.schema({VALUE_COLUMN: pa.string()})

    def _decoded(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        rest = b""
        with open_text_stream(self._file_io, self._path) as stream:
            while block := stream.read(BLOCK_BYTES):
                whole, newline, rest = (rest + bytes(block)).rpartition(b"\n")
                if newline:
                    yield self._lines(whole)
        if rest:
            yield self._lines(rest)

    def _lines(self, block: bytes) -> pa.RecordBatch:
        lines: Any = pc.list_flatten(pc.split_pattern(pa.array([block.decode()]), "\n"))
        return pa.RecordBatch.from_arrays(
            [pc.utf8_rtrim(lines, characters="\r")], names=[VALUE_COLUMN]
        )


FORMAT = FileFormat(name="text", reader=TextReader, is_text=True)
