"""Add-on: the difference of two states, and branches of many tables that are promoted or discarded.

Concept → modules:
    the difference of two states                     comparison
    rows that differ: a task, for any executor       task, rows
    promotion and discarding of branches             promotion
    an asset check on the share of changed rows      check
    CALL and the commands                            operations, command
"""

from typing import TYPE_CHECKING

from paimon_assets.lazy_door import lazy_door

if TYPE_CHECKING:
    from paimon_assets.review.check import build_diff_check as build_diff_check
    from paimon_assets.review.comparison import TableDiff as TableDiff
    from paimon_assets.review.comparison import diff as diff
    from paimon_assets.review.promotion import Promotion as Promotion
    from paimon_assets.review.promotion import discard as discard
    from paimon_assets.review.promotion import promote as promote
    from paimon_assets.review.task import DiffExample as DiffExample
    from paimon_assets.review.task import RowDiff as RowDiff

__all__, __getattr__, __dir__ = lazy_door(
    __name__,
    {
        "review.check": "build_diff_check",
        "review.comparison": "TableDiff diff",
        "review.promotion": "Promotion discard promote",
        "review.task": "DiffExample RowDiff",
    },
)
