"""The data file formats behind one door: FormatReader, FormatWriter, and which format a file has.

Source: `org.apache.paimon.format.FileFormat`.
"""

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Protocol, Self

import pyarrow as pa

from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.options.all_options import FILE_FORMAT
from paimon_assets.engine.spec.predicate.predicate import Predicate


class FormatReader(Protocol):
    """One open data file. Close it, or use it as a context manager."""

    @property
    def schema(self) -> pa.Schema:
        """Columns as they lie in the file."""
        ...

    def batches(
        self, columns: Sequence[str], *, predicate: Predicate | None, batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Decode some columns, in the order asked for; rows in file order.

        Args:
            columns: Names of columns of the file; none is legal and yields only row counts.
            predicate: Bound, on the file's column names. Stretches of the file in which no row can
                pass are left out; the rows that remain are not filtered.
            batch_rows: Upper limit of rows a batch.

        Raises:
            FormatError: The bytes are damaged; names the file.
            StorageError: The storage failed while reading.
        """
        ...

    def row_ranges(self, predicate: Predicate | None) -> Sequence[tuple[int, int]]:
        """Return which rows `batches` yields under a predicate.

        Returns:
            Positions `[start, stop)` in the file, ascending; together as many as the rows.
        """
        ...

    def close(self) -> None:
        """Release the file."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class OpenFile:
    """The end of every reader's file: close it, or use the reader as a context manager."""

    _source: pa.NativeFile

    def close(self) -> None:
        """Release the file."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class FormatWriter(Protocol):
    """One data file being written."""

    @property
    def written_bytes(self) -> int:
        """Bytes handed to the storage so far; rows still being encoded do not count."""
        ...

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Append rows; their schema must be the writer's."""
        ...

    def close(self) -> int:
        """Finish the file and return its exact size in bytes."""
        ...

    def abort(self) -> None:
        """Stop without finishing; the caller deletes what may lie there."""
        ...


def unsupported_format(name: str, path: str) -> UnsupportedFeatureError:
    """Build the error for a file of a format that is not read or written."""
    return UnsupportedFeatureError(
        f"Data file '{path}' has the format '{name or 'unknown'}'; this engine reads and writes"
        f" parquet, orc and avro. Set '{FILE_FORMAT.key}' to one of them, or compact the table with"
        " an engine that knows the format.",
        kind="file-format",
        details={"path": path, "format": name},
    )
