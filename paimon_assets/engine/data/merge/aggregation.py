"""Aggregation: every column of a key's records is folded by a function of its own.

    records of a key, oldest first ─▶ per column: fields.<column>.aggregate-function ─▶ one row

A key of one record keeps it unchanged, even if it retracts.
Source: `org.apache.paimon.mergetree.compact.aggregate.AggregateMergeFunction`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.numpy_columns import Array, flags_at
from paimon_assets.engine.data.merge import records as merging
from paimon_assets.engine.data.merge.aggregate.functions import Aggregate
from paimon_assets.engine.spec.merge.merge_rules import MergeRules
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import RowKind
from paimon_assets.engine.spec.values import Value


class Aggregation(merging.MergeFunction, Value):
    """The merge function of `merge-engine` = `aggregation`."""

    aggregates: Mapping[str, Aggregate]
    """Column → function, for every column."""
    remove_on_delete: bool = False
    """`aggregation.remove-record-on-delete`: a -D removes the row."""

    @staticmethod
    def of(rules: MergeRules, schema: TableSchema, table: str) -> Aggregation:
        return Aggregation(
            aggregates={
                column.name: Aggregate.of(rules.aggregations[column.name], table)
                for column in schema.fields
            },
            remove_on_delete=rules.remove_on_delete,
        )

    def merge(self, records: merging.Records, *, keep_retracts: bool = False) -> merging.FoldedRows:
        groups = merging.KeyGroups.of(records)
        if self.remove_on_delete and groups.kinds is not None:
            groups = groups.mark_deleted(
                groups.kinds[merging.run_ends(groups.groups)] == RowKind.DELETE
            )
        if not keep_retracts:
            groups = groups.without_removed()
        grouped = _from_last_delete(groups) if self.remove_on_delete else groups.as_grouped()

        def fold(name: str, values: Array) -> merging.Outcome:
            return self.aggregates[name](values, grouped)

        return groups.fold_rows(fold)


def _from_last_delete(groups: merging.KeyGroups) -> merging.Grouped:
    """Restart each group at its last -D, whose values replace the earlier result."""
    if groups.kinds is None:
        return groups.as_grouped()
    last = groups.last(groups.kinds == RowKind.DELETE)
    seeds = flags_at(last[last >= 0], len(groups.kinds))
    counts = np.arange(len(seeds)) >= last[groups.groups]
    adding = replace(groups, kinds=np.where(seeds, np.int8(RowKind.INSERT), groups.kinds))
    grouped = replace(adding.as_grouped(), seeds=seeds).keep(counts)
    return replace(grouped, before=groups.as_grouped().keep(~counts).without_retracts())
