"""One key range of a section: its records merged to one row a key, and the changelog of that.

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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.data.compact.section_read import FILE_NUMBER
from paimon_assets.engine.data.key_order import Flags, KeyOrder, Order
from paimon_assets.engine.data.merge.deduplicate import only
from paimon_assets.engine.data.merge.equal_rows import equal_values
from paimon_assets.engine.data.merge.records import (
    NOTHING,
    FoldedRows,
    Kinds,
    MergeFunction,
    Records,
    adds,
)
from paimon_assets.engine.data.merge.sort_merge import (
    FILE_LEVEL,
    MergePlan,
    as_read,
    counting_order,
    join,
    lowest_of_each_key,
    merged_column,
    numbers,
    record_order,
)
from paimon_assets.engine.data.read.data_files import POSITION
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.spec.schema.schema import SEQUENCE_NUMBER, VALUE_KIND
from paimon_assets.engine.spec.types.data_types import RowKind

_CHANGE_KINDS = (RowKind.INSERT, RowKind.DELETE, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRows:
    """Rows as a data file of a primary-key table holds them, in key order."""

    columns: tuple[Any, ...]
    """The table's columns, in order."""
    numbers: npt.NDArray[np.int64]
    """`_SEQUENCE_NUMBER` of each row."""
    kinds: Kinds
    """`_VALUE_KIND` of each row."""

    def filter(self, mask: Flags) -> RecordRows:
        """Return some of the rows."""
        if mask.all():
            return self
        arrow_mask = from_numpy(mask)
        return RecordRows(
            columns=tuple(column.filter(arrow_mask) for column in self.columns),
            numbers=self.numbers[mask],
            kinds=self.kinds[mask],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogRule:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class UpperRows:
    """Rows in files above the section."""

    files: npt.NDArray[np.int64]
    """Number of each row's file."""
    positions: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """A key range with the older records of its keys."""

    slices: Sequence[pa.RecordBatch]
    """The rows to merge."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """The lookup of a section's keys in higher levels."""

    plan: MergePlan
    keys_only: bool
    """The rows above hold no values: only their keys and positions are used."""
    drops_known: bool
    """First row: keys that are above already are not written again."""

    def find(self, section: Sequence[pa.RecordBatch], above: Sequence[pa.RecordBatch]) -> KeyRange:
        """Look up the keys of a key range's rows in those above."""
        # Runs above are older, and come first: the order of runs is that of age.
        slices = [*above, *section]
        by_key = record_order(slices, self.plan)
        keys, count = _key_numbers(by_key)
        split = sum(rows.num_rows for rows in above)
        levels = numbers(slices, FILE_LEVEL)
        is_above = np.arange(len(keys)) < split
        of_section, high = _mark(keys[split:], count), ~is_above & (levels > 0)
        has_high = _mark(keys[high], count)
        candidates = high | (is_above & (of_section & ~has_high)[keys])
        lowest = candidates.copy()
        lowest[by_key.order] &= lowest_of_each_key(by_key, levels, candidates)
        counts = lowest | (~is_above & (levels == 0))
        upper = lowest & is_above
        before = np.full(count, NOTHING, dtype=np.int64)
        before[keys[lowest]] = np.flatnonzero(lowest)
        changes = _mark(keys[~is_above & (levels == 0)], count)
        if self.drops_known:
            counts &= ~_mark(keys[upper], count)[keys]
        if self.keys_only:
            counts &= ~is_above
        stays = counts.copy()
        stays[split:] = True
        above_slices, start = [], 0
        for rows in above:  # rows that are not merged are dropped, the others renumbered
            mask = stays[start : start + rows.num_rows]
            start += rows.num_rows
            if mask.any():
                above_slices.append(rows.filter(from_numpy(mask)))
        renumbered = np.cumsum(stays) - 1
        upper_rows = None
        if upper.any():
            upper_rows = UpperRows(
                files=numbers(above, FILE_NUMBER).astype(np.int64)[upper[:split]],
                positions=numbers(above, POSITION)[upper[:split]],
            )
        left = only(by_key, counts[by_key.order])
        has_values = (before >= 0) & stays[before]
        return KeyRange(
            slices=[*above_slices, *section],
            by_key=KeyOrder(order=renumbered[left.order], starts=left.starts),
            keys=keys[stays],
            key_count=count,
            before=np.where(has_values, renumbered[before], NOTHING),
            changes=changes,
            upper=upper_rows,
        )


def _key_numbers(by_key: KeyOrder) -> tuple[Order, int]:
    """Return row number → key number, and how many keys there are."""
    ordered = np.cumsum(by_key.starts) - 1
    keys = np.empty(len(ordered), dtype=np.int64)
    keys[by_key.order] = ordered
    return keys, int(ordered[-1]) + 1


def _mark(keys: npt.NDArray[Any], count: int) -> Flags:
    mask = np.zeros(count, dtype=np.bool_)
    mask[keys] = True
    return mask


Slices = Sequence[tuple[int, pa.RecordBatch]]
"""(number of the run, its rows); see `key_ranges`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedRange:
    """The merged rows of one key range."""

    rows: RecordRows
    changes: RecordRows | None = None
    """Rows for the changelog."""
    upper: UpperRows | None = None
    """The records above the section of its keys."""


Pending = Callable[[], MergedRange]
"""A range whose columns are being gathered in threads."""


@dataclass(frozen=True, kw_only=True)
class RangeMerge:
    """The merge of one section, key range by key range."""

    plan: MergePlan
    """`columns` are all columns of the table."""
    function: MergeFunction
    drops_deletes: bool
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
        by_key = counting_order(section, self.plan)
        older = None if self.changelog is None else self._from_top(section, by_key)
        return self._merge(section, by_key, older, threads)

    def _from_top(self, section: Sequence[pa.RecordBatch], by_key: KeyOrder) -> KeyRange:
        """Take the records of the top level for the older ones."""
        keys, count = _key_numbers(by_key)
        on_top = numbers(section, FILE_LEVEL) == self.top_level
        before = np.full(count, NOTHING, dtype=np.int64)
        before[keys[on_top]] = np.flatnonzero(on_top)
        return KeyRange(
            slices=section,
            by_key=by_key,
            keys=keys,
            key_count=count,
            before=before,
            changes=_mark(keys[~on_top], count),
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
        kinds = numbers(slices, VALUE_KIND.name)
        keeps = self.changelog is not None or not self.drops_deletes
        records = Records(
            by_key=by_key,
            kinds=None if adds(kinds).all() else kinds,
            columns=names,
            column=lambda name: join(slices, name),
        )
        merged = self.function.merge(records, keep_retracts=keeps)
        sequence = numbers(slices, SEQUENCE_NUMBER.name)
        gathering = [threads.submit(merged_column, merged, slices, name) for name in names]
        row_kinds = merged.kinds
        if row_kinds is None:
            # A row has the kind of its record, and +I if it is merged from several.
            row_kinds = kinds[merged.newest]
            if isinstance(merged, FoldedRows):
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
                    columns=tuple(join(slices, name) for name in names),
                    numbers=sequence,
                    kinds=kinds,
                )
                now = np.full(older.key_count, NOTHING, dtype=np.int64)
                present = adds(row_kinds)
                now[older.keys[merged.newest[present]]] = np.flatnonzero(present)
                existed = (older.before >= 0) & adds(kinds)[older.before]
                was = np.where(older.changes & existed, older.before, NOTHING)
                now = np.where(older.changes, now, NOTHING)
                changes = self.changelog.rows(before, rows, was, now)
            return MergedRange(rows=self._filter(rows), changes=changes, upper=upper)

        return finish

    def _filter(self, rows: RecordRows) -> RecordRows:
        return rows.filter(adds(rows.kinds)) if self.drops_deletes else rows


def _whole(slices: Sequence[pa.RecordBatch], plan: MergePlan) -> RecordRows:
    return RecordRows(
        columns=tuple(as_read(join(slices, name), slices, name) for name in plan.columns),
        numbers=numbers(slices, SEQUENCE_NUMBER.name),
        kinds=numbers(slices, VALUE_KIND.name),
    )
