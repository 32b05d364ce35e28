"""MergeFunction: how the records of one key become one row; and which one a table uses.

    deduplicate, first-row         choose a record: one index for all columns
    partial-update                 choose a record for each column
    aggregation                    fold the values of each column

Source: `org.apache.paimon.mergetree.compact.MergeFunction`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, assert_never

from paimon_assets.engine.data.merge.aggregation import Aggregation
from paimon_assets.engine.data.merge.deduplicate import Deduplicate
from paimon_assets.engine.data.merge.first_row import FirstRow
from paimon_assets.engine.data.merge.partial_update import PartialUpdate
from paimon_assets.engine.data.merge.records import MergedRows, Records
from paimon_assets.engine.spec.merge.merge_rules import merge_rules_of
from paimon_assets.engine.spec.options.all_options import MergeEngine
from paimon_assets.engine.spec.schema.schema import TableSchema


class MergeFunction(Protocol):
    """Makes one row of the records of each key.

    A key of one record keeps that record as it is; so whoever has only such keys need not call.
    """

    def needed(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that must be at hand to make `columns`: these first, then others."""
        ...

    def merge(self, records: Records, *, keep_retracts: bool = False) -> MergedRows:
        """Merge the records of each key.

        Args:
            records: All records of the keys they have.
            keep_retracts: Keep keys whose result retracts, as a data file must; a read drops them.

        Raises:
            InvalidInputError: A record retracts where the table's rules do not allow it.
        """
        ...


def merge_function_of(schema: TableSchema, table: str) -> MergeFunction:
    """Return the merge function of a primary-key table.

    Args:
        schema: Its options say how.
        table: Its name, for messages.

    Raises:
        InvalidInputError: The options contradict each other or the columns.
        UnsupportedFeatureError: An aggregate function is not computed here; names the column.
    """
    rules = merge_rules_of(schema)
    match rules.traits.engine:
        case MergeEngine.DEDUPLICATE:
            return Deduplicate(ignore_retracts=rules.ignore_delete)
        case MergeEngine.FIRST_ROW:
            return FirstRow(table=table, ignore_retracts=rules.ignore_delete)
        case MergeEngine.PARTIAL_UPDATE:
            return PartialUpdate.of(rules, schema, table)
        case MergeEngine.AGGREGATION:
            return Aggregation.of(rules, schema, table)
        case _:
            assert_never(rules.traits.engine)
