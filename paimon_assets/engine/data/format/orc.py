"""ORC data files through pyarrow; for reading.

Source: `org.apache.paimon.format.orc`. TIME lies as milliseconds in an int, timestamps as
nanoseconds; `data.field_mapping` turns both into the Arrow types of their columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from pyarrow import orc

from paimon_assets.engine.data.format.named_errors import named_errors, open_data_file
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.predicate import Predicate


class OrcReader:
    """One open ORC file."""

    def __init__(self, file_io: FileIO, path: str, *, file_bytes: int | None = None) -> None:
        """Open the file and read its footer; errors as `ParquetReader`."""
        self._path = path
        self._source = open_data_file(file_io, path, file_bytes)
        try:
            with named_errors(path, "ORC"):
                self._file: Any = orc.ORCFile(self._source)
                self._schema: pa.Schema = self._file.schema
        except BaseException:
            self._source.close()
            raise

    @property
    def schema(self) -> pa.Schema:
        """Columns as they lie in the file."""
        return self._schema

    def batches(
        self,
        columns: Sequence[str],
        *,
        predicate: Predicate | None,
        batch_rows: int,
    ) -> Iterator[pa.RecordBatch]:
        """Decode some columns, stripe by stripe. See `FormatReader`.

        Nothing is pruned by `predicate`: pyarrow does not show ORC's statistics.
        """
        names = list(columns)
        positions = [self._schema.get_field_index(name) for name in names]
        with named_errors(self._path, "ORC"):
            for stripe in range(self._file.nstripes):
                rows = self._file.read_stripe(stripe, columns=positions).select(names)
                for start in range(0, rows.num_rows, batch_rows):
                    yield rows.slice(start, batch_rows)

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
