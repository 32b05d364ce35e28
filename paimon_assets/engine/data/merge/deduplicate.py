"""Deduplicate: the newest record of a key wins; if it retracts, the key is deleted.

Source: `org.apache.paimon.mergetree.compact.DeduplicateMergeFunction`.
"""

from dataclasses import dataclass

import numpy as np

from paimon_assets.engine.data.key_order import Flags, KeyOrder, Order
from paimon_assets.engine.data.merge.records import ChosenRows, MergeFunction, Records, adds


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplicate(MergeFunction):
    """The merge function of `merge-engine` = `deduplicate`."""

    ignore_retracts: bool = False
    """`ignore-delete`: records that retract are ignored."""

    def merge(self, records: Records, *, keep_retracts: bool = False) -> ChosenRows:
        """Choose the newest record of each key. See `MergeFunction`."""
        kinds, by_key = records.kinds, records.by_key
        if kinds is None:
            return ChosenRows(newest_rows(by_key))
        if self.ignore_retracts:
            by_key = only(by_key, adds(kinds[by_key.order]))
        return ChosenRows.of(newest_rows(by_key), kinds, keep_retracts=keep_retracts)


def newest_rows(by_key: KeyOrder) -> Order:
    """Return the last row of each key, of any kind, in key order."""
    if by_key.starts.all():
        return by_key.order
    last = np.empty(len(by_key.starts), dtype=np.bool_)
    last[:-1] = by_key.starts[1:]
    last[-1:] = True
    return by_key.order[last]


def only(by_key: KeyOrder, mask: Flags) -> KeyOrder:
    """Return some of the places; keys without any are left out."""
    keys = np.cumsum(by_key.starts)[mask]
    starts = np.ones(len(keys), dtype=np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=starts[1:])
    return KeyOrder(order=by_key.order[mask], starts=starts)
