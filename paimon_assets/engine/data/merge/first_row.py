"""First row: the oldest record of a key wins.

Source: `org.apache.paimon.mergetree.compact.FirstRowMergeFunction`.
"""

from dataclasses import dataclass

import numpy as np

from paimon_assets.engine.data.key_order import Flags, KeyOrder
from paimon_assets.engine.data.merge.deduplicate import only
from paimon_assets.engine.data.merge.records import ChosenRows, MergeFunction, Records, adds
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.all_options import IGNORE_DELETE


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRow(MergeFunction):
    """The merge function of `merge-engine` = `first-row`."""

    table: str
    """For messages."""
    ignore_retracts: bool = False
    """`ignore-delete`: records that retract are ignored."""

    def merge(self, records: Records, *, keep_retracts: bool = False) -> ChosenRows:
        """Choose the oldest record of each key. See `MergeFunction`."""
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
            raise InvalidInputError(
                f"Table '{self.table}' has the merge engine first-row, which takes no -U and -D,"
                f" but some of its records are. Set '{IGNORE_DELETE.key}' to true to skip them.",
                kind="retraction",
                details={"table": self.table},
            )
