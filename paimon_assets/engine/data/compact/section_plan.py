"""SectionPlan: which runs a section is merged from, and which columns of them are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.tasks.compact_task import CompactTask
from paimon_assets.engine.data.compact.section_read import (
    RecordRead,
    comparable_range,
    within_keys,
)
from paimon_assets.engine.data.merge.sort_merge import MergePlan
from paimon_assets.engine.data.read.merge_file_split_read import file_ranks, runs_by_age
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.lsm.compact_steps import Section
from paimon_assets.engine.spec.merge.engine_traits import EngineTraits
from paimon_assets.engine.spec.merge.lookup import LookupStrategy
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.options.all_options import (
    CHANGELOG_PRODUCER,
    IGNORE_DELETE,
    SEQUENCE_FIELD,
    SEQUENCE_SORT_ORDER,
    ChangelogProducer,
    SortOrder,
)

Run = Sequence[DataFileMeta]


@dataclass(frozen=True, kw_only=True)
class SectionPlan:
    """One section, and what lies above it."""

    context: ReadContext
    task: CompactTask
    runs: tuple[Run, ...]
    """The runs of the section, the oldest first."""
    above_runs: tuple[Run, ...]
    """The runs of higher levels, the oldest first."""
    looked_up: bool
    """Whether keys of level 0 meet what is above."""
    keys_only: bool
    """Whether only the places of keys are of interest in higher levels."""
    merge: MergePlan

    @property
    def above(self) -> tuple[DataFileMeta, ...]:
        """The files above, as `FILE_NUMBER` counts them."""
        return tuple(file for run in self.above_runs for file in run)

    def streams(self, file_io: FileIO, threads: Threads) -> list[Iterator[pa.RecordBatch]]:
        """Return the records of every run, those above first."""
        every = [file for run in (*self.above_runs, *self.runs) for file in run]
        ranks = None if self.merge.runs_by_age else file_ranks(every, self.context.schema)
        files = [file for run in self.runs for file in run]
        count = len(self.runs) + len(self.above_runs)
        read = RecordRead(
            context=self.context,
            split=self.task.split,
            file_io=file_io,
            names=self.merge.columns,
            runs=count,
            ranks=ranks,
            has_levels=self._has_levels,
            threads=threads,
        )
        streams = [read.rows(run) for run in self.runs]
        if not self.above_runs or self.task.above is None:
            return streams
        looked_in = RecordRead(
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
        return [*(looked_in.rows(run) for run in self.above_runs), *streams]

    @property
    def _has_levels(self) -> bool:
        producer = self.context.schema.typed_options.get(CHANGELOG_PRODUCER)
        full = producer is ChangelogProducer.FULL_COMPACTION
        return self.looked_up or self.merge.whole_above_0 or full


def plan_section(
    context: ReadContext, task: CompactTask, section: Section, *, looked_up: bool
) -> SectionPlan:
    """Plan how to merge a section."""
    options = context.schema.typed_options
    runs = sorted(section, key=lambda run: max(file.max_sequence_number for file in run))
    above = _above(context, task, section) if looked_up else ()
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


def _above(context: ReadContext, task: CompactTask, section: Section) -> tuple[Run, ...]:
    """Return the files above that may share keys with the section, level by level."""
    if task.above is None:
        return ()
    ranges = [comparable_range(file, context) for run in section for file in run]
    low, high = min(first for first, _ in ranges), max(last for _, last in ranges)
    levels: dict[int, list[DataFileMeta]] = {}
    for file in task.above.data_files:
        first, last = comparable_range(file, context)
        if first <= high and last >= low:
            levels.setdefault(file.level, []).append(file)
    return tuple(
        sorted(levels[level], key=lambda file: comparable_range(file, context)[0])
        for level in sorted(levels, reverse=True)
    )
