"""KeyGroups: keys of one record, which stay unchanged, and keys of several, to be folded.

    keys     0 1 2 3 4        all of them, in key order
    alone    r - r r -        the only record of its key
    groups     0     1        the other keys, with their records one after the other:
    places     0 1 2 3 4      group 0 has three, group 1 has two

Merge functions that fold change this value step by step: they drop records before a deletion and
records that are ignored, and mark the keys that are deleted.
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
from paimon_assets.engine.spec.types.data_types import RowKind


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyGroups:
    """The records of some keys: keys of one record, and keys of several."""

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
        """Distinguish keys of one record and of several."""
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
        """The number of groups."""
        return int(np.count_nonzero(self.alone < 0))

    def adds(self) -> Flags:
        """Return which places add."""
        if self.kinds is None:
            return np.ones(len(self.rows), dtype=np.bool_)
        return adds(self.kinds)

    def first(self, mask: Flags) -> Order:
        """Return the first place of each group where `mask` is true, `NOTHING` without one."""
        places = np.flatnonzero(mask)
        return self._spread(places[run_starts(self.groups[places])])

    def last(self, mask: Flags) -> Order:
        """Return the last place of each group where `mask` is true, `NOTHING` without one."""
        places = np.flatnonzero(mask)
        return self._spread(places[run_ends(self.groups[places])])

    def _spread(self, places: Order) -> Order:
        result = np.full(self.count, NOTHING, dtype=np.int64)
        result[self.groups[places]] = places
        return result

    def holds(self, mask: Flags) -> Flags:
        """Return which groups have a place where `mask` is true."""
        result = np.zeros(self.count, dtype=np.bool_)
        result[self.groups[mask]] = True
        return result

    def keep(self, mask: Flags) -> KeyGroups:
        """Return some of the places; groups may end up without any."""
        kinds = None if self.kinds is None else self.kinds[mask]
        return replace(self, groups=self.groups[mask], rows=self.rows[mask], kinds=kinds)

    def mark_deleted(self, deleted: Flags) -> KeyGroups:
        """Mark the rows of some groups as deleted."""
        if not deleted.any():
            return self
        results = np.zeros(len(self.alone), dtype=np.int8) if self.results is None else self.results
        results = results.copy()
        results[np.flatnonzero(self.alone < 0)[deleted]] = RowKind.DELETE
        return replace(self, results=results)

    def without_removed(self) -> KeyGroups:
        """Leave out the keys whose rows retract."""
        if self.results is None:
            return self
        stays = adds(self.results)
        if stays.all():
            return replace(self, results=None)
        group_stays = stays[self.alone < 0]
        numbers = np.cumsum(group_stays) - 1
        rest = self.keep(group_stays[self.groups])
        return replace(
            rest,
            newest=self.newest[stays],
            alone=self.alone[stays],
            results=None,
            groups=numbers[rest.groups],
        )

    def grouped(self) -> Grouped:
        """Return all places."""
        retracts = None if self.kinds is None else ~adds(self.kinds)
        return Grouped(count=self.count, groups=self.groups, rows=self.rows, retracts=retracts)

    def folded(self, fold: Callable[[str, Array], Outcome]) -> FoldedRows:
        """Return the rows of all keys; `fold` computes a column of the groups."""
        return FoldedRows(newest=self.newest, kinds=self.results, alone=self.alone, fold=fold)
