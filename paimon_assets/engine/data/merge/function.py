"""MergeFunction: how the records of one key become one row; and which one a table uses.

Source: `org.apache.paimon.mergetree.compact.MergeFunction`.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from paimon_assets.engine.data.key_order import KeyOrder, Order
from paimon_assets.engine.data.merge.deduplicate import Deduplicate
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.options import IGNORE_DELETE, MERGE_ENGINE, MergeEngine
from paimon_assets.engine.spec.schema import TableSchema


class MergeFunction(Protocol):
    """Chooses the rows that stand for their keys."""

    def select(self, by_key: KeyOrder, kinds: npt.NDArray[np.int8] | None) -> Order:
        """Return the rows that remain, in key order.

        Args:
            by_key: Rows in key order, within a key from the oldest to the newest.
            kinds: `_VALUE_KIND` of each row, by row number; None if no row retracts.
        """
        ...


def merge_function_of(schema: TableSchema, table: str) -> MergeFunction:
    """Return the merge function of a table.

    Raises:
        UnsupportedFeatureError: The table's merge engine is not merged here; names it.
    """
    engine: Any = schema.typed_options.get(MERGE_ENGINE)
    if engine is MergeEngine.DEDUPLICATE:
        return Deduplicate(ignore_retracts=schema.typed_options.get(IGNORE_DELETE))
    raise UnsupportedFeatureError(
        f"Table '{table}' has 'merge-engine' = '{engine}'; this engine merges 'deduplicate' only."
        " Files that need no merging (after a full compaction) can be read.",
        kind="merge-engine",
        details={"table": table, "merge_engine": str(engine)},
    )
