"""Deduplicate: the newest record of a key wins; if it retracts, the key is gone.

Source: `org.apache.paimon.mergetree.compact.DeduplicateMergeFunction`.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paimon_assets.engine.data.key_order import Flags, KeyOrder, Order
from paimon_assets.engine.spec.row_kind import RowKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplicate:
    """The merge function of `merge-engine` = `deduplicate`."""

    ignore_retracts: bool = False
    """`ignore-delete`: records that retract count as if they had never been written."""

    def select(self, by_key: KeyOrder, kinds: npt.NDArray[np.int8] | None) -> Order:
        """Return the newest row of each key, without those that retract."""
        if kinds is None:
            return newest_rows(by_key)
        if self.ignore_retracts:
            return newest_rows(_only(by_key, adds(kinds[by_key.order])))
        newest = newest_rows(by_key)
        return newest[adds(kinds[newest])]


def newest_rows(by_key: KeyOrder) -> Order:
    """Return the last row of each key, in key order, whatever its kind."""
    if by_key.starts.all():
        return by_key.order
    last = np.empty(len(by_key.starts), dtype=np.bool_)
    last[:-1] = by_key.starts[1:]
    last[-1:] = True
    return by_key.order[last]


def _only(by_key: KeyOrder, kept: Flags) -> KeyOrder:
    keys = np.cumsum(by_key.starts)[kept]
    starts = np.ones(len(keys), dtype=np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=starts[1:])
    return KeyOrder(order=by_key.order[kept], starts=starts)


def adds(kinds: npt.NDArray[np.int8]) -> Flags:
    """Return True where a record adds its row (+I, +U) rather than retracting it (-U, -D)."""
    result: Flags = (kinds == RowKind.INSERT) | (kinds == RowKind.UPDATE_AFTER)
    return result
