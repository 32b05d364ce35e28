"""The runs of a section and the columns they are merged by, as whole records.

file ─▶ FileRead (live rows, columns by id) ─▶ + partition columns ─▶ + age, level, position
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.rows.binary_row import ComparableKey, deserialize_row, key_range
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.write_tasks import CompactTask
from paimon_assets.engine.data.merge.sort_merge import FILE_LEVEL, FILE_RANK, MergePlan
from paimon_assets.engine.data.read.data_files import POSITION, FileRead, open_ahead
from paimon_assets.engine.data.read.merge_file_split_read import file_ranks, runs_by_age
from paimon_assets.engine.data.read.row_stage import RowStage, passing_rows
from paimon_assets.engine.data.threads import CALLER_ONLY, Threads
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.lsm.compact_steps import Section
from paimon_assets.engine.spec.merge.engine_traits import EngineTraits, LookupStrategy
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.options.all_options import (
    CHANGELOG_PRODUCER,
    IGNORE_DELETE,
    READ_BATCH_SIZE,
    SEQUENCE_FIELD,
    SEQUENCE_SORT_ORDER,
    ChangelogProducer,
    SortOrder,
)
from paimon_assets.engine.spec.predicate.predicate import CompareOp, Comparison, Predicate, all_of
from paimon_assets.engine.spec.schema.schema import SEQUENCE_NUMBER, VALUE_KIND

FILE_NUMBER = "_FILE_NUMBER"
"""Column of the number of a row's file among those of the lookup."""

_DECODED_ROWS = 524_288
"""Rows decoded at a time over all runs of a section, so that many small runs need little memory."""
_MIN_BATCH_ROWS = 8192


@dataclass(frozen=True, kw_only=True)
class RecordRead:
    """The read of whole records, with system columns besides the values."""

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
    expired: Predicate | None = None
    """Rules out rows."""
    threads: Threads = CALLER_ONLY

    @cached_property
    def _constants(self) -> Mapping[str, Any]:
        """The values of partition columns."""
        return RowStage(context=self.context, partition=self.split.partition).constants

    @cached_property
    def _read(self) -> FileRead:
        schema = self.context.schema
        stored = set(self.names) - self._constants.keys()
        batch_rows = max(_MIN_BATCH_ROWS, _DECODED_ROWS // max(1, self.runs))
        open_ahead(self.split, self.file_io)
        return FileRead(
            context=self.context,
            split=self.split,
            file_io=self.file_io,
            fields=tuple(field for field in schema.fields if field.name in stored),
            system_fields=(SEQUENCE_NUMBER, VALUE_KIND) if schema.has_primary_key else (),
            predicate=self.predicate,
            batch_rows=min(schema.typed_options.get(READ_BATCH_SIZE), batch_rows),
            threads=self.threads,
            runs=self.runs,
        )

    def rows(self, run: Sequence[DataFileMeta]) -> Iterator[pa.RecordBatch]:
        """Yield the records of a run, file by file."""
        for file in run:
            for batch in self._read.batches(file, with_positions=self.numbers is not None):
                count = batch.num_rows
                columns = {name: batch.column(name) for name in batch.schema.names}
                for name, constant in self._constants.items():
                    if name in self.names:
                        columns[name] = pa.repeat(constant, count)
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
    """Return the smallest and the largest key of a file."""
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


Run = Sequence[DataFileMeta]


@dataclass(frozen=True, kw_only=True)
class SectionPlan:
    """One section, and the files above it."""

    context: ReadContext
    task: CompactTask
    runs: tuple[Run, ...]
    """The runs of the section, the oldest first."""
    above_runs: tuple[Run, ...]
    """The runs of higher levels, the oldest first."""
    looked_up: bool
    """Whether keys of level 0 are looked up in the files above."""
    keys_only: bool
    """Whether only keys and positions are read of the files above."""
    merge: MergePlan

    @property
    def above(self) -> tuple[DataFileMeta, ...]:
        """The files above, as `FILE_NUMBER` counts them."""
        return tuple(file for run in self.above_runs for file in run)

    def streams(self, file_io: FileIO, threads: Threads) -> list[Iterator[pa.RecordBatch]]:
        """Return the records of every run, those above first."""
        files = [file for run in self.runs for file in run]
        all_files = [*self.above, *files]
        ranks = None if self.merge.runs_by_age else file_ranks(all_files, self.context.schema)
        count = len(self.runs) + len(self.above_runs)
        producer = self.context.schema.typed_options.get(CHANGELOG_PRODUCER)
        full = producer is ChangelogProducer.FULL_COMPACTION
        read = RecordRead(
            context=self.context,
            split=self.task.split,
            file_io=file_io,
            names=self.merge.columns,
            runs=count,
            ranks=ranks,
            has_levels=self.looked_up or self.merge.whole_above_0 or full,
            expired=self.task.expired,
            threads=threads,
        )
        streams = [read.rows(run) for run in self.runs]
        if not self.above_runs or self.task.above is None:
            return streams
        lookup = RecordRead(
            context=self.context,
            split=self.task.above,
            file_io=file_io,
            names=self.merge.keys if self.keys_only else self.merge.columns,
            runs=count,
            ranks=ranks,
            has_levels=True,
            numbers={file.file_name: number for number, file in enumerate(self.above)},
            predicate=within_keys(files, self.context),
            threads=threads,
        )
        return [*(lookup.rows(run) for run in self.above_runs), *streams]


def plan_section(
    context: ReadContext, task: CompactTask, section: Section, *, looked_up: bool
) -> SectionPlan:
    """Plan how to merge a section."""
    options = context.schema.typed_options
    runs = sorted(section, key=lambda run: max(file.max_sequence_number for file in run))
    above = _files_above(context, task.above, section) if looked_up and task.above else ()
    by_age = runs_by_age([*above, *runs])
    fields = options.get(SEQUENCE_FIELD) if len(runs) + len(above) > 1 else ()
    strategy = LookupStrategy.of(context.schema)
    newest_wins = (
        EngineTraits.of(context.schema).newest_wins
        and by_age
        and not fields
        and not options.get(IGNORE_DELETE)
        and not strategy.produces_changelog
    )
    return SectionPlan(
        context=context,
        task=task,
        runs=tuple(runs),
        above_runs=above,
        looked_up=looked_up,
        keys_only=strategy.first_stays or newest_wins,
        merge=MergePlan(
            keys=context.schema.trimmed_primary_keys,
            sequence_fields=fields,
            descending=options.get(SEQUENCE_SORT_ORDER) is SortOrder.DESCENDING,
            runs_by_age=by_age,
            whole_above_0=strategy.merges_whole_rows,
            columns=context.schema.field_names,
        ),
    )


def _files_above(context: ReadContext, above: DataSplit, section: Section) -> tuple[Run, ...]:
    """Return the files above that may share keys with the section, level by level."""
    ranges = [comparable_range(file, context) for run in section for file in run]
    low, high = min(first for first, _ in ranges), max(last for _, last in ranges)
    levels: dict[int, list[DataFileMeta]] = {}
    for file in above.data_files:
        first, last = comparable_range(file, context)
        if first <= high and last >= low:
            levels.setdefault(file.level, []).append(file)
    return tuple(
        sorted(levels[level], key=lambda file: comparable_range(file, context)[0])
        for level in sorted(levels, reverse=True)
    )
