"""Merge functions that choose a record of each key.

    deduplicate    the newest; if it retracts, the key is deleted
    first-row      the oldest

Source: `org.apache.paimon.mergetree.compact.DeduplicateMergeFunction`, `FirstRowMergeFunction`.
"""

import numpy as np

from paimon_assets.engine.codec.arrow.numpy_columns import Flags, changes
from paimon_assets.engine.data.key_order import KeyOrder, Order
from paimon_assets.engine.data.merge.records import ChosenRows, MergeFunction, Records, adds
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.all_options import IGNORE_DELETE
from paimon_assets.engine.spec.values import Value


class Deduplicate(MergeFunction, Value):
    """The merge function of `merge-engine` = `deduplicate`."""

    ignore_retracts: bool = False
    """`ignore-delete`: records that retract are ignored."""

    def merge(self, records: Records, *, keep_retracts: bool = False) -> ChosenRows:
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
    """Return the places in a mask; keys without any are left out."""
    keys = np.cumsum(by_key.starts)[mask]
    return KeyOrder(order=by_key.order[mask], starts=changes(keys))


class FirstRow(MergeFunction, Value):
    """The merge function of `merge-engine` = `first-row`."""

    table: str
    """For messages."""
    ignore_retracts: bool = False
    """`ignore-delete`: records that retract are ignored."""

    def merge(self, records: Records, *, keep_retracts: bool = False) -> ChosenRows:
        by_key, kinds = records.by_key, records.kinds
        if kinds is None:
            return ChosenRows(by_key.order[by_key.starts])
        added = adds(kinds[by_key.order])
        if self.ignore_retracts:
            by_key = only(by_key, added)
        else:
            self._refuse_retracts(by_key, added)
        first = by_key.order[by_key.starts]
        # A key of one record keeps it; if that retracts, a read has no row.
        return ChosenRows.of(first, kinds, keep_retracts=keep_retracts)

    def _refuse_retracts(self, by_key: KeyOrder, added: Flags) -> None:
        followed = ~np.append(by_key.starts[1:], np.True_)
        shared = ~by_key.starts | followed
        if (shared & ~added).any():
            message = (
                f"Table '{self.table}' has the merge engine first-row, which takes no -U and -D,"
                f" but some of its records are. Set '{IGNORE_DELETE.key}' to true to skip them."
            )
            raise InvalidInputError(message, kind="retraction", table=self.table)
