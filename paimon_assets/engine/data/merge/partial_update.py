"""Partial update: the last value of each column that is not null, or the order of its own group.

    column                         its value
    in no sequence group           last non-null value
    in a group                     that of the group's newest record, null or not
    in a group, with a function    fold of all records that take part in the group

A -U or -D is refused, skipped, removes the row, or empties the columns of its groups. A record that
stands alone is its key's row as it is; a first record that retracts seeds the row with its values.
Source: `org.apache.paimon.mergetree.compact.PartialUpdateMergeFunction`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from paimon_assets.engine.data.key_order import Flags, Order
from paimon_assets.engine.data.merge.aggregate.functions import Aggregate
from paimon_assets.engine.data.merge.aggregate.picks import last_non_null_value
from paimon_assets.engine.data.merge.key_groups import KeyGroups
from paimon_assets.engine.data.merge.records import (
    Array,
    FoldedRows,
    MergeFunction,
    Outcome,
    Records,
    run_ends,
    run_starts,
)
from paimon_assets.engine.data.merge.sequence_groups import GroupOrder, sequence_ranks
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.merge.merge_rules import MergeRules, SequenceGroup
from paimon_assets.engine.spec.options.all_options import (
    IGNORE_DELETE,
    PARTIAL_UPDATE_REMOVE_ON_DELETE,
)
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.row_kind import RowKind

Ranks = Mapping[SequenceGroup, Order]
"""Sequence group → rank of each place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialUpdate(MergeFunction):
    """The merge function of `merge-engine` = `partial-update`."""

    rules: MergeRules
    table: str
    """For messages."""
    aggregates: Mapping[str, Aggregate]
    """Column → function, for columns in groups that have one."""
    group_of: Mapping[str, SequenceGroup]
    """Column → its group, for those in one; sequence fields too."""

    @staticmethod
    def of(rules: MergeRules, schema: TableSchema, table: str) -> PartialUpdate:
        """Prepare the functions and groups of a table."""
        names = [name for name in schema.field_names if name in rules.aggregations]
        return PartialUpdate(
            rules=rules,
            table=table,
            aggregates={name: Aggregate.of(rules.aggregations[name], table) for name in names},
            group_of={
                name: group for group in rules.groups for name in (*group.fields, *group.columns)
            },
        )

    def needed(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the columns, and the sequence fields of their groups and of those that remove."""
        fields = [name for group in self._groups_for(columns) for name in group.fields]
        return tuple(dict.fromkeys((*columns, *fields)))

    def _groups_for(self, columns: Sequence[str]) -> list[SequenceGroup]:
        wanted = {self.group_of[name] for name in columns if name in self.group_of}
        return [group for group in self.rules.groups if group in wanted or group.removes_record]

    def merge(self, records: Records, *, keep_retracts: bool = False) -> FoldedRows:
        """Merge the records of each key. See `MergeFunction`."""
        groups = KeyGroups.of(records)
        if self.rules.groups:
            return self._merge_grouped(groups, records, keep_retracts=keep_retracts)
        if groups.kinds is not None:
            groups = self._without_retracts(groups)
        if not keep_retracts:
            groups = groups.without_removed()
        grouped = groups.grouped()
        return groups.folded(lambda _, values: last_non_null_value(values, grouped))

    def _without_retracts(self, groups: KeyGroups) -> KeyGroups:
        """Return groups whose records all add, and which of them are gone."""
        adds = groups.adds()
        if groups.kinds is None or adds.all():
            return groups
        rules = self.rules
        if not rules.ignore_delete and not rules.remove_on_delete:
            raise InvalidInputError(
                f"Table '{self.table}' has the merge engine partial-update, which takes no -U and"
                f" -D, but some of its records are. Set '{IGNORE_DELETE.key}' to true to skip them,"
                f" '{PARTIAL_UPDATE_REMOVE_ON_DELETE.key}' to true to remove rows, or sequence"
                " groups to empty their columns.",
                kind="retraction",
                details={"table": self.table},
            )
        bases = _first_retracts(groups)
        gone = ~groups.holds(adds)
        kept = adds | bases
        if rules.remove_on_delete:
            deletes = groups.kinds == RowKind.DELETE
            last = groups.last(deletes)
            kept[last[last >= 0]] = True
            kept &= np.arange(len(adds)) >= last[groups.groups]
            gone |= deletes[run_ends(groups.groups)]
        return _as_adds(groups, kept).removed(gone).keep(kept)

    def _merge_grouped(
        self, groups: KeyGroups, records: Records, *, keep_retracts: bool
    ) -> FoldedRows:
        wanted = self._groups_for(records.columns)
        bases = np.zeros(len(groups.rows), dtype=np.bool_)
        if groups.kinds is not None:
            bases = _first_retracts(groups)
        if self.rules.ignore_delete:
            # What is ignored seeds the row all the same, if it comes first.
            kept = groups.adds() | bases
            no_adds = ~groups.holds(groups.adds())
            groups, bases = _as_adds(groups, bases).removed(no_adds).keep(kept), bases[kept]
        ranks: Ranks = {
            group: sequence_ranks([records.column(name) for name in group.fields], groups.rows)
            for group in wanted
        }
        if not self.rules.ignore_delete:
            groups, ranks, bases = self._without_removed_rows(groups, ranks, bases)
        if not keep_retracts:
            kept = _kept_places(groups)
            groups = groups.without_removed()
            ranks, bases = {group: each[kept] for group, each in ranks.items()}, bases[kept]
        orders = {group: GroupOrder.of(groups, ranks[group], bases) for group in wanted}
        plain = groups.keep(groups.adds() | bases).grouped().as_adds()

        def fold(name: str, values: Array) -> Outcome:
            group = self.group_of.get(name)
            if group is None:
                return last_non_null_value(values, plain)
            if name in self.aggregates:
                return self.aggregates[name](values, orders[group].grouped())
            return orders[group].winners(of_fields=name in group.fields)

        return groups.folded(fold)

    def _without_removed_rows(
        self, groups: KeyGroups, ranks: Ranks, bases: Flags
    ) -> tuple[KeyGroups, Ranks, Flags]:
        """Start keys anew at the last -D that removes their row, and note which are gone."""
        if groups.kinds is None:
            return groups, ranks, bases
        no_adds = ~groups.holds(groups.adds())
        deletes = groups.kinds == RowKind.DELETE
        gone = no_adds
        removing = [group for group in ranks if group.removes_record]
        while removing and deletes.any():
            triggers = np.zeros(len(deletes), dtype=np.bool_)
            for group in removing:
                triggers |= GroupOrder.of(groups, ranks[group], bases).in_order & deletes
            if not triggers.any():
                break
            # One group's order is not disturbed by what it removes, so its last removal counts.
            # Several groups disturb each other: then the removals are found one after the other.
            single = len(removing) == 1
            found = groups.last(triggers) if single else groups.first(triggers)
            gone = np.where(found >= 0, no_adds | (found == run_ends(groups.groups)), gone)
            seeds = np.zeros(len(deletes), dtype=np.bool_)
            seeds[found[found >= 0]] = True
            kept = np.arange(len(deletes)) >= found[groups.groups]
            groups = _as_adds(groups, seeds).keep(kept)
            ranks = {group: each[kept] for group, each in ranks.items()}
            bases, deletes = (bases | seeds)[kept], (deletes & ~seeds)[kept]
            if single:
                break
        return groups.removed(gone), ranks, bases


def _first_retracts(groups: KeyGroups) -> Flags:
    """Return the places of first records that retract: they seed their rows."""
    first = np.zeros(len(groups.rows), dtype=np.bool_)
    first[run_starts(groups.groups)] = True
    return first & ~groups.adds()


def _as_adds(groups: KeyGroups, places: Flags) -> KeyGroups:
    """Return the same places, some of them as records that add."""
    if groups.kinds is None:
        return groups
    kinds = np.where(places, np.int8(RowKind.INSERT), groups.kinds)
    return replace(groups, kinds=kinds)


def _kept_places(groups: KeyGroups) -> Flags:
    """Return the places of groups whose rows are not removed."""
    if groups.results is None:
        return np.ones(len(groups.rows), dtype=np.bool_)
    kept: Flags = groups.results[groups.alone < 0] == RowKind.INSERT
    return kept[groups.groups]
