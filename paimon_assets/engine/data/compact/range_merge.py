"""One key range of a section: its records merged to one row a key, and what that changed.

    rows of each run ─▶ (lookup) ─▶ merge function ─▶ RecordRows, and changelog rows

Columns are gathered in threads while the next range is cut and decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_assets.engine.data.compact.changelog import ChangelogRule, RecordRows
from paimon_assets.engine.data.compact.lookup import FoundRange, Lookup, Place
from paimon_assets.engine.data.key_order import KeyOrder
from paimon_assets.engine.data.merge.records import (
    NOTHING,
    FoldedRows,
    Kinds,
    MergedRows,
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
    merged_column,
    numbers,
)
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.spec.schema.special_fields import SEQUENCE_NUMBER, VALUE_KIND
from paimon_assets.engine.spec.types.row_kind import RowKind

Slices = Sequence[tuple[int, pa.RecordBatch]]
"""(number of the run, its rows); see `key_ranges`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedRange:
    """The merged rows of one key range."""

    rows: RecordRows
    changes: RecordRows | None = None
    """Rows for the changelog."""
    found: Place | None = None
    """Where its keys were found above the section."""


Pending = Callable[[], MergedRange]
"""A range whose columns are being gathered."""


@dataclass(frozen=True, kw_only=True)
class RangeMerge:
    """The merge of one section, key range by key range."""

    plan: MergePlan
    """`columns` are all columns of the table."""
    function: MergeFunction
    drops_deletes: bool
    above_runs: int = 0
    """How many of the runs, which come first, are looked up in."""
    lookup: Lookup | None = None
    changelog: ChangelogRule | None = None
    top_level: int = 0
    """Without a lookup, what a key was before lies on this level."""

    def start(self, slices: Slices, threads: Threads) -> Pending | None:
        """Begin to merge a range; None if none of its keys is the section's."""
        section = [rows for number, rows in slices if number >= self.above_runs]
        if not section:
            return None
        if self.lookup is not None:
            above = [rows for number, rows in slices if number < self.above_runs]
            found = self.lookup.find(section, above)
            return self._merge(found.slices, found.by_key, found, threads)
        if len(section) == 1 and self.changelog is None:
            rows = _whole(section, self.plan)
            return lambda: MergedRange(rows=self._written(rows))
        by_key = counting_order(section, self.plan)
        found_before = None if self.changelog is None else self._from_top(section, by_key)
        return self._merge(section, by_key, found_before, threads)

    def _from_top(self, section: Sequence[pa.RecordBatch], by_key: KeyOrder) -> FoundRange:
        """Return what keys were: their records of the top level."""
        places = np.cumsum(by_key.starts) - 1
        keys = np.empty(len(places), dtype=np.int64)
        keys[by_key.order] = places
        count = int(places[-1]) + 1
        on_top = numbers(section, FILE_LEVEL) == self.top_level
        before = np.full(count, NOTHING, dtype=np.int64)
        before[keys[on_top]] = np.flatnonzero(on_top)
        changes = np.zeros(count, dtype=np.bool_)
        changes[keys[~on_top]] = True
        return FoundRange(
            slices=section,
            by_key=by_key,
            keys=keys,
            key_count=count,
            before=before,
            changes=changes,
            found=None,
        )

    def _merge(
        self,
        slices: Sequence[pa.RecordBatch],
        by_key: KeyOrder,
        found: FoundRange | None,
        threads: Threads,
    ) -> Pending:
        names = self.plan.columns
        place = None if found is None else found.found
        if not len(by_key.order):
            rows = _whole([rows.slice(0, 0) for rows in slices], self.plan)
            return lambda: MergedRange(rows=rows, found=place)
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
        waiting = [threads.submit(merged_column, merged, slices, name) for name in names]
        row_kinds = _kinds_of(merged, kinds)

        def finish() -> MergedRange:
            rows = RecordRows(
                columns=tuple(column.result() for column in waiting),
                numbers=sequence[merged.newest],
                kinds=row_kinds,
            )
            changes = None
            if self.changelog is not None and found is not None:
                before = RecordRows(
                    columns=tuple(join(slices, name) for name in names),
                    numbers=sequence,
                    kinds=kinds,
                )
                changes = _changes(self.changelog, before, rows, found, merged.newest)
            return MergedRange(rows=self._written(rows), changes=changes, found=place)

        return finish

    def _written(self, rows: RecordRows) -> RecordRows:
        return rows.keep(adds(rows.kinds)) if self.drops_deletes else rows


def _whole(slices: Sequence[pa.RecordBatch], plan: MergePlan) -> RecordRows:
    return RecordRows(
        columns=tuple(as_read(join(slices, name), slices, name) for name in plan.columns),
        numbers=numbers(slices, SEQUENCE_NUMBER.name),
        kinds=numbers(slices, VALUE_KIND.name),
    )


def _kinds_of(merged: MergedRows, kinds: Kinds) -> Kinds:
    """Return the kind of each row: that of its record, +I if it was made of several."""
    if merged.kinds is not None:
        return merged.kinds
    if not isinstance(merged, FoldedRows):
        return kinds[merged.newest]
    return np.where(merged.alone >= 0, kinds[merged.alone], np.int8(RowKind.INSERT))


def _changes(
    rule: ChangelogRule,
    before: RecordRows,
    after: RecordRows,
    found: FoundRange,
    newest: npt.NDArray[np.int64],
) -> RecordRows | None:
    now = np.full(found.key_count, NOTHING, dtype=np.int64)
    present = adds(after.kinds)
    now[found.keys[newest[present]]] = np.flatnonzero(present)
    existed = (found.before >= 0) & adds(before.kinds)[found.before]
    was = np.where(existed, found.before, NOTHING)
    return rule.rows(
        before,
        after,
        np.where(found.changes, was, NOTHING),
        np.where(found.changes, now, NOTHING),
    )
