"""A section: its runs are read as whole records and merged key range by key range.

    rows of each run ─▶ (lookup) ─▶ merge function ─▶ RecordRows, and changelog rows

Columns are gathered in threads while the next range is cut and decoded.

The lookup merges keys of level 0 with one older record, that of the lowest level above:

    files of the section    level 0 ─┐            level 1, 2 … ─┐
    files above it          ─────────┼── per key ──────────────┴▶ the lowest one is merged; if it is
                                     │                            above the section, its position
                                     ▼                            gets a deletion vector
                                 all are merged

Changelog rows of a key:

    before    -      a      a      a
    after     b      -      b      a
    rows      +I b   -D a   -U a   none, with `changelog-producer.row-deduplicate`;
                            +U b   else -U a, +U a

Source: `org.apache.paimon.mergetree.compact.LookupMergeFunction`, `FirstRowMergeFunctionWrapper`,
`LookupChangelogMergeFunctionWrapper`, `FullChangelogMergeFunctionWrapper`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.numpy_columns import Flags, flags_at, from_numpy, to_numpy
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.write_tasks import CompactTask
from paimon_assets.engine.data.compact import record_read
from paimon_assets.engine.data.key_order import KeyOrder, Order
from paimon_assets.engine.data.merge import records as merging
from paimon_assets.engine.data.merge import sort_merge
from paimon_assets.engine.data.merge.deduplicate import only
from paimon_assets.engine.data.merge.equal_rows import equal_values
from paimon_assets.engine.data.read.data_files import POSITION
from paimon_assets.engine.data.read.merge_file_split_read import file_ranks, runs_by_age
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.lsm import Section
from paimon_assets.engine.spec.merge.engine_traits import EngineTraits, LookupStrategy
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema.schema import KEPT_SINCE, SEQUENCE_NUMBER, VALUE_KIND
from paimon_assets.engine.spec.types.data_types import RowKind
from paimon_assets.engine.spec.values import Value

Run = Sequence[DataFileMeta]


class SectionPlan(Value):
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
    merge: sort_merge.MergePlan

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
        producer = self.context.schema.typed_options.get(opt.CHANGELOG_PRODUCER)
        full = producer is opt.ChangelogProducer.FULL_COMPACTION
        read = record_read.RecordRead(
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
        read.prepare([run[0] for run in self.runs])
        streams = [read.rows(run) for run in self.runs]
        if not self.above_runs or self.task.above is None:
            return streams
        lookup = record_read.RecordRead(
            context=self.context,
            split=self.task.above,
            file_io=file_io,
            names=self.merge.keys if self.keys_only else self.merge.columns,
            runs=count,
            ranks=ranks,
            has_levels=True,
            numbers={file.file_name: number for number, file in enumerate(self.above)},
            predicate=record_read.within_keys(files, self.context),
            threads=threads,
        )
        lookup.prepare([run[0] for run in self.above_runs])
        return [*(lookup.rows(run) for run in self.above_runs), *streams]


def plan_section(
    context: ReadContext, task: CompactTask, section: Section, *, looked_up: bool
) -> SectionPlan:
    options = context.schema.typed_options
    runs = sorted(section, key=lambda run: max(file.max_sequence_number for file in run))
    above = _files_above(context, task.above, section) if looked_up and task.above else ()
    by_age = runs_by_age([*above, *runs])
    fields = options.get(opt.SEQUENCE_FIELD) if len(runs) + len(above) > 1 else ()
    columns = context.schema.field_names
    if task.keeps_deletes:
        columns = (*columns, KEPT_SINCE.name)
    strategy = LookupStrategy.of(context.schema)
    newest_wins = (
        EngineTraits.of(context.schema).newest_wins
        and by_age
        and not fields
        and not options.get(opt.IGNORE_DELETE)
        and not strategy.produces_changelog
    )
    return SectionPlan(
        context=context,
        task=task,
        runs=tuple(runs),
        above_runs=above,
        looked_up=looked_up,
        keys_only=strategy.first_stays or newest_wins,
        merge=sort_merge.MergePlan(
            keys=context.schema.trimmed_primary_keys,
            sequence_fields=fields,
            descending=options.get(opt.SEQUENCE_SORT_ORDER) is opt.SortOrder.DESCENDING,
            runs_by_age=by_age,
            whole_above_0=strategy.merges_whole_rows,
            columns=columns,
        ),
    )


def _files_above(context: ReadContext, above: DataSplit, section: Section) -> tuple[Run, ...]:
    """Return the files above that may share keys with the section, level by level."""
    ranges = [record_read.comparable_range(file, context) for run in section for file in run]
    low, high = min(first for first, _ in ranges), max(last for _, last in ranges)
    levels: dict[int, list[DataFileMeta]] = {}
    for file in above.data_files:
        first, last = record_read.comparable_range(file, context)
        if first <= high and last >= low:
            levels.setdefault(file.level, []).append(file)
    return tuple(
        sorted(levels[level], key=lambda file: record_read.comparable_range(file, context)[0])
        for level in sorted(levels, reverse=True)
    )


_CHANGE_KINDS = (RowKind.INSERT, RowKind.DELETE, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER)


class RecordRows(Value):
    """Rows as a data file of a primary-key table holds them, in key order."""

    columns: tuple[Any, ...]
    """The table's columns, in order."""
    numbers: npt.NDArray[np.int64]
    """`_SEQUENCE_NUMBER` of each row."""
    kinds: merging.Kinds
    """`_VALUE_KIND` of each row."""

    def batch(self, names: Sequence[str]) -> pa.RecordBatch:
        """Return the first columns by name, then numbers and kinds."""
        columns = [*self.columns[: len(names)], from_numpy(self.numbers), from_numpy(self.kinds)]
        names = [*names, SEQUENCE_NUMBER.name, VALUE_KIND.name]
        return pa.RecordBatch.from_arrays(columns, names=names)

    def filter(self, mask: Flags) -> RecordRows:
        if mask.all():
            return self
        arrow_mask = from_numpy(mask)
        return RecordRows(
            columns=tuple(column.filter(arrow_mask) for column in self.columns),
            numbers=self.numbers[mask],
            kinds=self.kinds[mask],
        )


class ChangelogRule(Value):
    """The rule of which merged rows give changelog rows."""

    updates: bool = True
    """Whether rows change at all; the first row of a key never does."""
    compared: tuple[int, ...] = ()
    """Numbers of the columns of which one must differ; if empty, every update counts."""

    def rows(
        self, before: RecordRows, after: RecordRows, was: Order, now: Order
    ) -> RecordRows | None:
        """Return the changes, in key order, of keys with the row numbers `was` and `now`."""
        inserts = np.flatnonzero((was < 0) & (now >= 0))
        deletes = np.flatnonzero((was >= 0) & (now < 0))
        updates = np.flatnonzero((was >= 0) & (now >= 0)) if self.updates else was[:0]
        if self.compared and len(updates):
            differs = np.zeros(len(updates), dtype=np.bool_)
            old, new = from_numpy(was[updates]), from_numpy(now[updates])
            for number in self.compared:
                differs |= ~equal_values(
                    before.columns[number].take(old), after.columns[number].take(new)
                )
            updates = updates[differs]
        # An update gives two rows of one key, -U before +U: a stable sort by key keeps them so.
        # `sources` counts the rows of `before`, then those of `after`.
        keys = np.concatenate([inserts, deletes, updates, updates])
        if not len(keys):
            return None
        offset = len(before.numbers)
        sources = np.concatenate(
            [offset + now[inserts], was[deletes], was[updates], offset + now[updates]]
        )
        kinds = np.repeat(
            np.array(_CHANGE_KINDS, dtype=np.int8),
            [len(inserts), len(deletes), len(updates), len(updates)],
        )
        order = np.argsort(keys, kind="stable")
        rows, indices = sources[order], from_numpy(sources[order])
        return RecordRows(
            columns=tuple(
                pc.take(pa.concat_arrays([old, new]), indices, boundscheck=False)
                for old, new in zip(before.columns, after.columns, strict=True)
            ),
            numbers=np.concatenate([before.numbers, after.numbers])[rows],
            kinds=kinds[order],
        )


class UpperRows(Value):
    """Rows in files above the section."""

    files: npt.NDArray[np.int64]
    """Number of each row's file."""
    positions: npt.NDArray[np.int64]


class KeyRange(Value):
    """A key range with the older records of its keys."""

    slices: Sequence[pa.RecordBatch]
    by_key: KeyOrder
    keys: Order
    """Row number → key number."""
    key_count: int
    before: Order
    """Key number → row number of its older record, or `NOTHING`."""
    changes: Flags
    """Which keys have a record of level 0."""
    upper: UpperRows | None
    """The records above the section of its keys."""


class Lookup(Value):
    """The lookup of a section's keys in higher levels."""

    plan: sort_merge.MergePlan
    keys_only: bool
    """The rows above hold no values: only their keys and positions are used."""
    drops_known: bool
    """First row: keys that are above already are not written again."""

    def find(self, section: Sequence[pa.RecordBatch], above: Sequence[pa.RecordBatch]) -> KeyRange:
        """Look up the keys of a key range's rows in those above."""
        # Runs above are older, and come first: the order of runs is that of age.
        slices = [*above, *section]
        # Arrays of rows have the `split` rows above first. One older record of a key counts: the
        # lowest above level 0, in the section if there is one, and above it only otherwise.
        by_key = sort_merge.record_order(slices, self.plan)
        keys, count = _key_numbers(by_key)
        split = sum(rows.num_rows for rows in above)
        levels = sort_merge.numbers(slices, sort_merge.FILE_LEVEL)
        is_above = np.arange(len(keys)) < split
        of_section, high = flags_at(keys[split:], count), ~is_above & (levels > 0)
        has_high = flags_at(keys[high], count)
        candidates = high | (is_above & (of_section & ~has_high)[keys])
        lowest = candidates.copy()
        lowest[by_key.order] &= sort_merge.lowest_of_each_key(by_key, levels, candidates)
        counts = lowest | (~is_above & (levels == 0))
        upper = lowest & is_above
        before = np.full(count, merging.NOTHING, dtype=np.int64)
        before[keys[lowest]] = np.flatnonzero(lowest)
        changes = flags_at(keys[~is_above & (levels == 0)], count)
        if self.drops_known:
            counts &= ~flags_at(keys[upper], count)[keys]
        if self.keys_only:
            counts &= ~is_above
        stays = counts.copy()
        stays[split:] = True
        above_slices, start = [], 0
        for rows in above:  # rows that are not merged are dropped, the rest renumbered
            mask = stays[start : start + rows.num_rows]
            start += rows.num_rows
            if mask.any():
                above_slices.append(rows.filter(from_numpy(mask)))
        renumbered = np.cumsum(stays) - 1
        upper_rows = None
        if upper.any():
            upper_rows = UpperRows(
                files=sort_merge.numbers(above, record_read.FILE_NUMBER).astype(np.int64)[
                    upper[:split]
                ],
                positions=sort_merge.numbers(above, POSITION)[upper[:split]],
            )
        left = only(by_key, counts[by_key.order])
        has_values = (before >= 0) & stays[before]
        return KeyRange(
            slices=[*above_slices, *section],
            by_key=KeyOrder(order=renumbered[left.order], starts=left.starts),
            keys=keys[stays],
            key_count=count,
            before=np.where(has_values, renumbered[before], merging.NOTHING),
            changes=changes,
            upper=upper_rows,
        )


def _key_numbers(by_key: KeyOrder) -> tuple[Order, int]:
    """Return row number → key number, and how many keys there are."""
    ordered = np.cumsum(by_key.starts) - 1
    keys = np.empty(len(ordered), dtype=np.int64)
    keys[by_key.order] = ordered
    return keys, int(ordered[-1]) + 1


Slices = Sequence[tuple[int, pa.RecordBatch]]
"""(number of the run, its rows); see `key_ranges`."""


class MergedRange(Value):
    rows: RecordRows
    changes: RecordRows | None = None
    """Rows for the changelog."""
    upper: UpperRows | None = None
    """The records above the section of its keys."""


Pending = Callable[[], MergedRange]
"""A range whose columns are being gathered in threads."""


class RangeMerge(Value):
    plan: sort_merge.MergePlan
    """`columns` are all columns of the table."""
    function: merging.MergeFunction
    drops_deletes: bool
    now_ms: int = 0
    delete_retention_ms: int = 0
    """How long deletes stay nevertheless; the last column then has their time."""
    above_runs: int = 0
    """How many runs the lookup reads; they come first."""
    lookup: Lookup | None = None
    changelog: ChangelogRule | None = None
    top_level: int = 0
    """Without a lookup, the older record of a key is on this level."""

    def start(self, slices: Slices, threads: Threads) -> Pending | None:
        """Begin to merge a range; None if the section has no key in it."""
        section = [rows for number, rows in slices if number >= self.above_runs]
        if not section:
            return None
        if self.lookup is not None:
            above = [rows for number, rows in slices if number < self.above_runs]
            lookup = self.lookup.find(section, above)
            return self._merge(lookup.slices, lookup.by_key, lookup, threads)
        if len(section) == 1 and self.changelog is None:
            rows = _whole(section, self.plan)
            return lambda: MergedRange(rows=self._filter(rows))
        by_key = sort_merge.counting_order(section, self.plan)
        older = None if self.changelog is None else self._from_top(section, by_key)
        return self._merge(section, by_key, older, threads)

    def _from_top(self, section: Sequence[pa.RecordBatch], by_key: KeyOrder) -> KeyRange:
        """Take the records of the top level for the older ones."""
        keys, count = _key_numbers(by_key)
        on_top = sort_merge.numbers(section, sort_merge.FILE_LEVEL) == self.top_level
        before = np.full(count, merging.NOTHING, dtype=np.int64)
        before[keys[on_top]] = np.flatnonzero(on_top)
        return KeyRange(
            slices=section,
            by_key=by_key,
            keys=keys,
            key_count=count,
            before=before,
            changes=flags_at(keys[~on_top], count),
            upper=None,
        )

    def _merge(
        self,
        slices: Sequence[pa.RecordBatch],
        by_key: KeyOrder,
        older: KeyRange | None,
        threads: Threads,
    ) -> Pending:
        names = self.plan.columns
        upper = None if older is None else older.upper
        if not len(by_key.order):
            rows = _whole([rows.slice(0, 0) for rows in slices], self.plan)
            return lambda: MergedRange(rows=rows, upper=upper)
        kinds = sort_merge.numbers(slices, VALUE_KIND.name)
        keeps = self.changelog is not None or not self.drops_deletes or self.delete_retention_ms > 0
        records = merging.Records(
            by_key=by_key,
            kinds=None if merging.adds(kinds).all() else kinds,
            columns=names,
            column=lambda name: sort_merge.join(slices, name),
        )
        merged = self.function.merge(records, keep_retracts=keeps)
        sequence = sort_merge.numbers(slices, SEQUENCE_NUMBER.name)
        gathering = [
            threads.submit(sort_merge.merged_column, merged, slices, name) for name in names
        ]
        row_kinds = merged.kinds
        if row_kinds is None:
            # A row has the kind of its record, and +I if it is merged from several.
            row_kinds = kinds[merged.newest]
            if isinstance(merged, merging.FoldedRows):
                row_kinds = np.where(
                    merged.alone >= 0, kinds[merged.alone], np.int8(RowKind.INSERT)
                )

        def finish() -> MergedRange:
            rows = RecordRows(
                columns=tuple(column.result() for column in gathering),
                numbers=sequence[merged.newest],
                kinds=row_kinds,
            )
            changes = None
            if self.changelog is not None and older is not None:
                before = RecordRows(
                    columns=tuple(sort_merge.join(slices, name) for name in names),
                    numbers=sequence,
                    kinds=kinds,
                )
                # Key → its row before and after; NOTHING where no row adds, and both times for a
                # key without a record of level 0, which cannot have changed.
                now = np.full(older.key_count, merging.NOTHING, dtype=np.int64)
                present = merging.adds(row_kinds)
                now[older.keys[merged.newest[present]]] = np.flatnonzero(present)
                existed = (older.before >= 0) & merging.adds(kinds)[older.before]
                was = np.where(older.changes & existed, older.before, merging.NOTHING)
                now = np.where(older.changes, now, merging.NOTHING)
                changes = self.changelog.rows(before, rows, was, now)
            return MergedRange(rows=self._filter(rows), changes=changes, upper=upper)

        return finish

    def _filter(self, rows: RecordRows) -> RecordRows:
        if not self.drops_deletes:
            return rows
        added = merging.adds(rows.kinds)
        if not self.delete_retention_ms:
            return rows.filter(added)
        *columns, since = rows.columns
        since = pc.if_else(
            from_numpy(added), pa.scalar(None, pa.int64()), since.fill_null(self.now_ms)
        )
        young = to_numpy(since.fill_null(0)) > self.now_ms - self.delete_retention_ms
        return replace(rows, columns=(*columns, since)).filter(added | young)


def _whole(slices: Sequence[pa.RecordBatch], plan: sort_merge.MergePlan) -> RecordRows:
    return RecordRows(
        columns=tuple(
            sort_merge.as_read(sort_merge.join(slices, name), slices, name) for name in plan.columns
        ),
        numbers=sort_merge.numbers(slices, SEQUENCE_NUMBER.name),
        kinds=sort_merge.numbers(slices, VALUE_KIND.name),
    )
