"""KeyGroups: keys of one record, which stay as they are, and keys of several, to be folded.

    keys     0 1 2 3 4        all of them, in key order
    alone    r - r r -        the row that stands for its key
    groups     0     1        the others, with their records side by side:
    places     0 1 2 3 4      group 0 has three, group 1 has two

Functions of engines that fold change this value step by step: they cut off what a deletion made
void, drop records that do not count, and note which keys are gone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from paimon_assets.engine.data.key_order import Flags, Order
from paimon_assets.engine.data.merge.records import (
    NOTHING,
    Array,
    FoldedRows,
    Grouped,
    Kinds,
    Outcome,
    Records,
    adds,
    run_ends,
    run_starts,
)
from paimon_assets.engine.spec.types.row_kind import RowKind


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyGroups:
    """The records of some keys, apart by whether the key has one or several."""

    newest: Order
    """Row of the newest record of each key."""
    alone: Order
    """Row of each key's only record, or `NOTHING`."""
    results: Kinds | None
    """`_VALUE_KIND` of each key's row; None if all add."""
    groups: Order
    """Group of each place, ascending."""
    rows: Order
    """Row of each place; within a group from the oldest to the newest."""
    kinds: Kinds | None
    """`_VALUE_KIND` of each place; None if no record retracts."""

    @staticmethod
    def of(records: Records) -> KeyGroups:
        """Distinguish the keys."""
        order, starts = records.by_key.order, np.flatnonzero(records.by_key.starts)
        lengths = np.diff(np.append(starts, len(order)))
        shared = lengths > 1
        newest = order[starts + lengths - 1]
        kinds = None if records.kinds is None else records.kinds[order]
        places = np.repeat(shared, lengths)
        results = None
        if kinds is not None:
            results = np.where(shared, np.int8(RowKind.INSERT), kinds[starts])
        return KeyGroups(
            newest=newest,
            alone=np.where(shared, NOTHING, newest),
            results=results,
            groups=np.repeat(np.arange(int(shared.sum())), lengths[shared]),
            rows=order[places],
            kinds=None if kinds is None else kinds[places],
        )

    @property
    def count(self) -> int:
        """How many groups there are."""
        return int(np.count_nonzero(self.alone < 0))

    def adds(self) -> Flags:
        """Return which places add."""
        if self.kinds is None:
            return np.ones(len(self.rows), dtype=np.bool_)
        return adds(self.kinds)

    def first(self, chosen: Flags) -> Order:
        """Return the first chosen place of each group, `NOTHING` where there is none."""
        places = np.flatnonzero(chosen)
        return self._spread(places[run_starts(self.groups[places])])

    def last(self, chosen: Flags) -> Order:
        """Return the last chosen place of each group, `NOTHING` where there is none."""
        places = np.flatnonzero(chosen)
        return self._spread(places[run_ends(self.groups[places])])

    def _spread(self, places: Order) -> Order:
        result = np.full(self.count, NOTHING, dtype=np.int64)
        result[self.groups[places]] = places
        return result

    def holds(self, chosen: Flags) -> Flags:
        """Return which groups have a chosen place."""
        result = np.zeros(self.count, dtype=np.bool_)
        result[self.groups[chosen]] = True
        return result

    def keep(self, kept: Flags) -> KeyGroups:
        """Leave out places that do not count; groups may end up without any."""
        kinds = None if self.kinds is None else self.kinds[kept]
        return replace(self, groups=self.groups[kept], rows=self.rows[kept], kinds=kinds)

    def removed(self, gone: Flags) -> KeyGroups:
        """Note that the rows of some groups are deleted."""
        if not gone.any():
            return self
        results = np.zeros(len(self.alone), dtype=np.int8) if self.results is None else self.results
        results = results.copy()
        results[np.flatnonzero(self.alone < 0)[gone]] = RowKind.DELETE
        return replace(self, results=results)

    def without_removed(self) -> KeyGroups:
        """Leave out the keys whose rows retract."""
        if self.results is None:
            return self
        kept = adds(self.results)
        if kept.all():
            return replace(self, results=None)
        kept_groups = kept[self.alone < 0]
        numbers = np.cumsum(kept_groups) - 1
        left = self.keep(kept_groups[self.groups])
        return replace(
            left,
            newest=self.newest[kept],
            alone=self.alone[kept],
            results=None,
            groups=numbers[left.groups],
        )

    def grouped(self) -> Grouped:
        """Return all places as they are."""
        retracts = None if self.kinds is None else ~adds(self.kinds)
        return Grouped(count=self.count, groups=self.groups, rows=self.rows, retracts=retracts)

    def folded(self, fold: Callable[[str, Array], Outcome]) -> FoldedRows:
        """Return the rows of all keys; `fold` makes a column of the groups."""
        return FoldedRows(newest=self.newest, kinds=self.results, alone=self.alone, fold=fold)
