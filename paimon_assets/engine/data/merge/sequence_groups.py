"""How a sequence group of a partial-update table orders the records of a key.

    arrival      1   2   3   4   5
    sequence     7   3   9   -   9      null takes no part
    in order     ✓       ✓       ✓      not smaller than all before: replaces the group's columns
    late             ✓

NaN is neither larger nor smaller than a number, so it is in order, and so is the number after it.

The last record in order wins. Functions inside the group see late records before the others, the
last to arrive first, as if each had been put in front of what there was.
Source: `org.apache.paimon.mergetree.compact.PartialUpdateMergeFunction`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy
from paimon_assets.engine.data.key_order import Flags, Order, sort_keys
from paimon_assets.engine.data.merge.key_groups import KeyGroups
from paimon_assets.engine.data.merge.records import NOTHING, Array, Grouped, is_valid


def sequence_ranks(columns: Sequence[Array], rows: Order) -> Order:
    """Return for each row a number that grows with its sequence; `NOTHING` if all of it is null."""
    indices = from_numpy(rows)
    taken: list[Array] = [column.take(indices) for column in columns]
    by_rank = sort_keys([part for column in taken for part in _with_restarts(column)])
    ranks = np.empty(len(rows), dtype=np.int64)
    ranks[by_rank.order] = np.cumsum(by_rank.starts)
    absent = np.ones(len(rows), dtype=np.bool_)
    for column in taken:
        absent &= ~is_valid(column)
    ranks[absent] = NOTHING
    return ranks


def _with_restarts(column: Array) -> list[Array]:
    """Return what orders a sequence field in order of arrival: with each NaN it starts anew."""
    if not pa.types.is_floating(column.type):
        return [column]
    nan = to_numpy(pc.is_nan(column).fill_null(False))  # noqa: FBT003
    if not nan.any():
        return [column]
    smallest = pa.scalar(float("-inf"), column.type)
    return [from_numpy(np.cumsum(nan)), pc.if_else(from_numpy(nan), smallest, column)]


@dataclass(frozen=True, slots=True)
class GroupOrder:
    """The order a sequence group gives the records of some keys."""

    groups: KeyGroups
    """The records, place by place."""
    bases: Flags
    """Places whose record seeds the row with all its values."""
    takes_part: Flags
    """Places whose sequence is not null."""
    in_order: Flags
    """Places that take part and are not smaller than those before."""

    @staticmethod
    def of(groups: KeyGroups, ranks: Order, bases: Flags) -> GroupOrder:
        """Order records by their ranks, see `sequence_ranks`; all by place."""
        takes_part = ranks >= 0
        # A group's number above the rank lets one running maximum serve all groups.
        width = int(ranks.max(initial=0)) + 1
        keys = groups.groups * width + np.maximum(ranks, 0)
        in_order = takes_part & (keys == np.maximum.accumulate(keys))
        return GroupOrder(groups, bases, takes_part, in_order)

    def winners(self, *, of_fields: bool) -> Order:
        """Return for each key the row the group's columns come from, or `NOTHING`."""
        last = self.groups.last(self.in_order)
        # Keys without a sequence keep what their first record seeded.
        chosen = np.where(last >= 0, last, self.groups.last(self.bases))
        nulled = chosen < 0
        if not of_fields:
            counts = self.groups.adds() | ~self.takes_part
            nulled |= ~counts[chosen]
        return np.where(nulled, NOTHING, self.groups.rows[chosen])

    def grouped(self) -> Grouped:
        """Return the records of a column with a function, in the order the function sees them."""
        adds = self.groups.adds()
        seeds = np.flatnonzero(self.bases)
        others = np.flatnonzero(self.takes_part & ~(self.bases & adds))
        places = np.concatenate([seeds, others])
        arrivals = 2 * places
        arrivals[len(seeds) :] += 1
        late = np.zeros(len(places), dtype=np.bool_)
        late[len(seeds) :] = ~self.in_order[others]
        retracts = np.zeros(len(places), dtype=np.bool_)
        retracts[len(seeds) :] = ~adds[others]
        of_group = self.groups.groups[places]
        order = np.lexsort((np.where(late, -arrivals, arrivals), of_group))
        return Grouped(
            count=self.groups.count,
            groups=of_group[order],
            rows=self.groups.rows[places][order],
            retracts=retracts[order],
            arrivals=arrivals[order],
            late=late[order],
            seeds=(np.arange(len(places)) < len(seeds))[order],
        )
