"""The merge function of a table, which merges the records of one key into one row.

    deduplicate, first-row         choose a record: one index for all columns
    partial-update                 choose a record for each column
    aggregation                    fold the values of each column

Source: `org.apache.paimon.mergetree.compact.MergeFunction`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from paimon_assets.engine.spec.merge.merge_rules import merge_rules_of
from paimon_assets.engine.spec.options.all_options import MergeEngine
from paimon_assets.engine.spec.schema.schema import TableSchema

if TYPE_CHECKING:
    from paimon_assets.engine.data.merge.records import MergeFunction


def merge_function_of(schema: TableSchema, table: str) -> MergeFunction:
    rules = merge_rules_of(schema)
    match rules.traits.engine:
        case MergeEngine.DEDUPLICATE:
            from paimon_assets.engine.data.merge.deduplicate import Deduplicate

            return Deduplicate(ignore_retracts=rules.ignore_delete)
        case MergeEngine.FIRST_ROW:
            from paimon_assets.engine.data.merge.deduplicate import FirstRow

            return FirstRow(table=table, ignore_retracts=rules.ignore_delete)
        case MergeEngine.PARTIAL_UPDATE:
            from paimon_assets.engine.data.merge.partial_update import PartialUpdate

            return PartialUpdate.of(rules, schema, table)
        case MergeEngine.AGGREGATION:
            from paimon_assets.engine.data.merge.aggregation import Aggregation

            return Aggregation.of(rules, schema, table)
        case _:
            assert_never(rules.traits.engine)
