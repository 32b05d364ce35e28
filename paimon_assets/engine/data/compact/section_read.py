"""The files of a section as runs of whole records: every column, sequence number, row kind.

file ─▶ FileRead (live rows, columns by id) ─▶ + partition columns ─▶ + age, level, position
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from paimon_assets.engine.codec.rows.binary_row import deserialize_row
from paimon_assets.engine.codec.rows.key_range import ComparableKey, key_range
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.data.deletion import POSITION
from paimon_assets.engine.data.merge.sort_merge import FILE_LEVEL, FILE_RANK
from paimon_assets.engine.data.read.data_files import FileRead
from paimon_assets.engine.data.read.row_stage import RowStage
from paimon_assets.engine.data.threads import CALLER_ONLY, Threads
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.options.all_options import READ_BATCH_SIZE
from paimon_assets.engine.spec.predicate.predicate import CompareOp, Comparison, Predicate, all_of
from paimon_assets.engine.spec.schema.special_fields import SEQUENCE_NUMBER, VALUE_KIND
from paimon_assets.engine.spec.types.data_types import DataField

FILE_NUMBER = "_FILE_NUMBER"
"""Column of the number of a row's file among those that are looked up in."""

_ROWS_AT_HAND = 524_288
"""Rows decoded at a time over all runs of a section, so that many small runs need little memory."""
_MIN_BATCH_ROWS = 8192


@dataclass(frozen=True, kw_only=True)
class RecordRead:
    """The system columns to read of each file besides its values."""

    context: ReadContext
    split: DataSplit
    file_io: FileIO
    names: Sequence[str]
    """Columns of the table to read."""
    runs: int
    """How many runs are read at once."""
    ranks: Mapping[str, int] | None = None
    """File name → age; adds `FILE_RANK`."""
    has_levels: bool = False
    """Adds `FILE_LEVEL`."""
    numbers: Mapping[str, int] | None = None
    """File name → number; adds `FILE_NUMBER` and `POSITION`."""
    predicate: Predicate | None = None
    """Rules out stretches of a file."""
    threads: Threads = CALLER_ONLY

    @cached_property
    def stage(self) -> RowStage:
        """Knows the partition columns."""
        return RowStage(context=self.context, partition=self.split.partition)

    @cached_property
    def _read(self) -> FileRead:
        schema = self.context.schema
        batch_rows = max(_MIN_BATCH_ROWS, _ROWS_AT_HAND // max(1, self.runs))
        return FileRead(
            context=self.context,
            split=self.split,
            file_io=self.file_io,
            fields=self._stored_fields,
            system_fields=(SEQUENCE_NUMBER, VALUE_KIND) if schema.has_primary_key else (),
            predicate=self.predicate,
            batch_rows=min(schema.typed_options.get(READ_BATCH_SIZE), batch_rows),
            threads=self.threads,
            runs=self.runs,
        )

    @cached_property
    def _stored_fields(self) -> tuple[DataField, ...]:
        wanted = set(self.names) - self.stage.constants.keys()
        return tuple(field for field in self.context.schema.fields if field.name in wanted)

    def rows(self, run: Sequence[DataFileMeta]) -> Iterator[pa.RecordBatch]:
        """Yield the records of a run, file by file."""
        for file in run:
            for batch in self._read.batches(file, with_positions=self.numbers is not None):
                yield self._tag(batch, file)

    def _tag(self, batch: pa.RecordBatch, file: DataFileMeta) -> pa.RecordBatch:
        count = batch.num_rows
        columns = {name: batch.column(name) for name in batch.schema.names}
        for name, constant in self.stage.constants.items():
            if name in self.names:
                columns[name] = pa.repeat(constant, count)
        if self.ranks is not None:
            columns[FILE_RANK] = pa.repeat(self.ranks[file.file_name], count)
        if self.has_levels:
            columns[FILE_LEVEL] = pa.repeat(file.level, count)
        if self.numbers is not None:
            columns[FILE_NUMBER] = pa.repeat(self.numbers[file.file_name], count)
            columns[POSITION] = batch.column(POSITION)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def comparable_range(
    file: DataFileMeta, context: ReadContext
) -> tuple[ComparableKey, ComparableKey]:
    """Return the smallest and the largest key of a file."""
    return key_range(file, [field.type for field in context.schema.key_fields])


def within_keys(files: Sequence[DataFileMeta], context: ReadContext) -> Predicate | None:
    """Return what the first key column of every row between the files' keys fulfils."""
    types = [each.type for each in context.schema.key_fields]
    name = context.schema.trimmed_primary_keys[0]
    low = min(files, key=lambda file: comparable_range(file, context)[0])
    high = max(files, key=lambda file: comparable_range(file, context)[1])
    first, last = deserialize_row(low.min_key, types)[0], deserialize_row(high.max_key, types)[0]
    if first is None or last is None or isinstance(first, float):
        return None
    return all_of([Comparison(name, CompareOp.GE, first), Comparison(name, CompareOp.LE, last)])
