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
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy
from paimon_assets.engine.data.key_order import Flags, Order, sort_keys
from paimon_assets.engine.data.merge.aggregate.functions import Aggregate
from paimon_assets.engine.data.merge.aggregate.picks import last_non_null_value
from paimon_assets.engine.data.merge.key_groups import KeyGroups
from paimon_assets.engine.data.merge.records import (
    NOTHING,
    Array,
    FoldedRows,
    Grouped,
    MergeFunction,
    Outcome,
    Records,
    is_valid,
    run_ends,
    run_starts,
)
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.merge.merge_rules import MergeRules, SequenceGroup
from paimon_assets.engine.spec.options.all_options import (
    IGNORE_DELETE,
    PARTIAL_UPDATE_REMOVE_ON_DELETE,
)
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.row_kind import RowKind


def sequence_ranks(columns: Sequence[Array], rows: Order) -> Order:
    """Return for each row a number that grows with its sequence; `NOTHING` if all of it is null."""
    indices = from_numpy(rows)
    taken: list[Array] = [column.take(indices) for column in columns]
    by_rank = sort_keys([part for column in taken for part in _with_restarts(column)])
    ranks = np.empty(len(rows), dtype=np.int64)
    ranks[by_rank.order] = np.cumsum(by_rank.starts)
    absent = np.ones(len(rows), dtype=np.bool_)
    for column in taken:
        absent &= ~is_valid(column)
    ranks[absent] = NOTHING
    return ranks


def _with_restarts(column: Array) -> list[Array]:
    """Return what orders a sequence field in order of arrival: with each NaN it starts anew."""
    if not pa.types.is_floating(column.type):
        return [column]
    nan = to_numpy(pc.is_nan(column).fill_null(False))  # noqa: FBT003
    if not nan.any():
        return [column]
    smallest = pa.scalar(float("-inf"), column.type)
    return [from_numpy(np.cumsum(nan)), pc.if_else(from_numpy(nan), smallest, column)]


@dataclass(frozen=True, slots=True)
class GroupOrder:
    """The order a sequence group gives the records of some keys."""

    groups: KeyGroups
    """The records, place by place."""
    bases: Flags
    """Places whose record seeds the row with all its values."""
    takes_part: Flags
    """Places whose sequence is not null."""
    in_order: Flags
    """Places that take part and are not smaller than those before."""

    @staticmethod
    def of(groups: KeyGroups, ranks: Order, bases: Flags) -> GroupOrder:
        """Order records by their ranks, see `sequence_ranks`; all by place."""
        takes_part = ranks >= 0
        # A group's number above the rank lets one running maximum serve all groups.
        width = int(ranks.max(initial=0)) + 1
        keys = groups.groups * width + np.maximum(ranks, 0)
        in_order = takes_part & (keys == np.maximum.accumulate(keys))
        return GroupOrder(groups, bases, takes_part, in_order)

    def winners(self, *, of_fields: bool) -> Order:
        """Return for each key the row the group's columns come from, or `NOTHING`."""
        last = self.groups.last(self.in_order)
        # Keys without a sequence keep what their first record seeded.
        chosen = np.where(last >= 0, last, self.groups.last(self.bases))
        nulled = chosen < 0
        if not of_fields:
            counts = self.groups.adds() | ~self.takes_part
            nulled |= ~counts[chosen]
        return np.where(nulled, NOTHING, self.groups.rows[chosen])

    def grouped(self) -> Grouped:
        """Return the records of a column with a function, in the order the function sees them."""
        adds = self.groups.adds()
        seeds = np.flatnonzero(self.bases)
        others = np.flatnonzero(self.takes_part & ~(self.bases & adds))
        places = np.concatenate([seeds, others])
        arrivals = 2 * places
        arrivals[len(seeds) :] += 1
        late = np.zeros(len(places), dtype=np.bool_)
        late[len(seeds) :] = ~self.in_order[others]
        retracts = np.zeros(len(places), dtype=np.bool_)
        retracts[len(seeds) :] = ~adds[others]
        of_group = self.groups.groups[places]
        order = np.lexsort((np.where(late, -arrivals, arrivals), of_group))
        return Grouped(
            count=self.groups.count,
            groups=of_group[order],
            rows=self.groups.rows[places][order],
            retracts=retracts[order],
            arrivals=arrivals[order],
            late=late[order],
            seeds=(np.arange(len(places)) < len(seeds))[order],
        )


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
