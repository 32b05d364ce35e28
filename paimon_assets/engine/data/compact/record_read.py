"""Whole records of files, with their system columns, for merges and changes of rows.

file ─▶ FileRead (live rows, columns by id) ─▶ + partition columns ─▶ + age, level, position
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.rows.binary_row import ComparableKey, deserialize_row, key_range
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.data.merge.sort_merge import FILE_LEVEL, FILE_RANK
from paimon_assets.engine.data.read.data_files import POSITION, FileRead
from paimon_assets.engine.data.read.row_stage import RowStage, passing_rows
from paimon_assets.engine.data.read.split_read import read_tracked
from paimon_assets.engine.data.threads import CALLER_ONLY, Threads
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.predicate.predicate import CompareOp, Comparison, Predicate, all_of
from paimon_assets.engine.spec.schema import schema as schemas
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.values import Value

_TRACKING = tuple(field.name for field in schemas.TRACKING_FIELDS)
FILE_NUMBER = "_FILE_NUMBER"
"""Column of the number of a row's file among those of the lookup."""

_DECODED_ROWS = 524_288
"""Rows decoded at a time over all runs of a section, so that many small runs need little memory."""
_MIN_BATCH_ROWS = 8192


class RecordRead(Value, dict=True):
    """The read of whole records, with system columns besides the values."""

    context: ReadContext
    split: DataSplit
    file_io: FileIO
    names: Sequence[str]
    """Columns of the table to read; one that files hold more if they hold none of these."""
    runs: int = 1
    ranks: Mapping[str, int] | None = None
    """File name → age; adds `FILE_RANK`."""
    has_levels: bool = False
    """Adds `FILE_LEVEL`."""
    numbers: Mapping[str, int] | None = None
    """File name → number; adds `FILE_NUMBER` and `POSITION`."""
    predicate: Predicate | None = None
    """Rules out stretches of a file."""
    expired: Predicate | None = None
    """Rules out rows."""
    tracked: bool = False
    """Adds the columns of row tracking."""
    threads: Threads = CALLER_ONLY

    @cached_property
    def _constants(self) -> Mapping[str, Any]:
        return RowStage(context=self.context, partition=self.split.partition).constants

    @cached_property
    def _read(self) -> FileRead:
        schema = self.context.schema
        stored = [field for field in schema.fields if field.name not in self._constants]
        # A batch without columns would not keep its number of rows.
        fields = [field for field in stored if field.name in self.names] or stored[:1]
        batch_rows = max(_MIN_BATCH_ROWS, _DECODED_ROWS // max(1, self.runs))
        return FileRead(
            context=self.context,
            split=self.split,
            file_io=self.file_io,
            fields=tuple(fields),
            system_fields=self._system_fields,
            predicate=self.predicate,
            batch_rows=min(schema.typed_options.get(opt.READ_BATCH_SIZE), batch_rows),
            threads=self.threads,
            runs=self.runs,
        )

    @property
    def _system_fields(self) -> tuple[DataField, ...]:
        if not self.context.schema.has_primary_key:
            return ()
        kept = (schemas.KEPT_SINCE,) if schemas.KEPT_SINCE.name in self.names else ()
        return (schemas.SEQUENCE_NUMBER, schemas.VALUE_KIND, *kept)

    def prepare(self, files: Sequence[DataFileMeta]) -> None:
        self._read.prepare(files)

    def _batches(self, file: DataFileMeta) -> Iterator[pa.RecordBatch]:
        if self.tracked:
            return read_tracked(self._read, [file], _TRACKING)
        return self._read.batches(file, with_positions=self.numbers is not None)

    def range_rows(self, files: Sequence[DataFileMeta]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one range of row ids, with tracking columns and `POSITION`."""
        for batch in read_tracked(self._read, files, _TRACKING):
            yield self._with_constants(batch)

    def _with_constants(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for name, constant in self._constants.items():
            if name in self.names:
                batch = batch.append_column(name, pa.repeat(constant, batch.num_rows))
        return batch

    def rows(self, run: Sequence[DataFileMeta]) -> Iterator[pa.RecordBatch]:
        for file in self._read.following(run):
            for batch in self._batches(file):
                count = batch.num_rows
                batch = self._with_constants(batch)  # noqa: PLW2901
                columns = {name: batch.column(name) for name in batch.schema.names}
                if self.ranks is not None:
                    columns[FILE_RANK] = pa.repeat(self.ranks[file.file_name], count)
                if self.has_levels:
                    columns[FILE_LEVEL] = pa.repeat(file.level, count)
                if self.numbers is not None:
                    columns[FILE_NUMBER] = pa.repeat(self.numbers[file.file_name], count)
                    columns[POSITION] = batch.column(POSITION)
                rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
                if self.expired is not None:
                    fields = self.context.schema.by_name
                    young: Any = pc.invert(passing_rows(self.expired, rows.column, fields))
                    rows = rows.filter(young)
                yield rows


def comparable_range(
    file: DataFileMeta, context: ReadContext
) -> tuple[ComparableKey, ComparableKey]:
    return key_range(file, [field.type for field in context.schema.key_fields])


def within_keys(files: Sequence[DataFileMeta], context: ReadContext) -> Predicate | None:
    """Return a predicate on the first key column that holds between the files' keys."""
    types = [each.type for each in context.schema.key_fields]
    name = context.schema.trimmed_primary_keys[0]
    low = min(files, key=lambda file: comparable_range(file, context)[0])
    high = max(files, key=lambda file: comparable_range(file, context)[1])
    first, last = deserialize_row(low.min_key, types)[0], deserialize_row(high.max_key, types)[0]
    if first is None or last is None or isinstance(first, float):
        return None
    return all_of([Comparison(name, CompareOp.GE, first), Comparison(name, CompareOp.LE, last)])
