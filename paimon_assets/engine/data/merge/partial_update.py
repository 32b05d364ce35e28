"""Partial update: the last value of each column that is not null, or that of its sequence group.

    column                         its value
    in no sequence group           last non-null value
    in a group                     that of the group's newest record, null or not
    in a group, with a function    fold of all records that take part in the group

A -U or -D is refused, skipped, removes the row, or sets the columns of its groups to null. A key of
one record keeps it unchanged; a first record that retracts seeds the row with its values.

The order of a sequence group:

    arrival      1   2   3   4   5
    sequence     7   3   9   -   9      null takes no part
    in order     ✓       ✓       ✓      not smaller than all before: replaces the group's columns
    late             ✓

NaN is neither larger nor smaller than a number, so it is in order, and so is the number after it.
The last record in order wins. Functions inside the group read late records before the rest, the
last to arrive first, as Java prepends each of them.
Source: `org.apache.paimon.mergetree.compact.PartialUpdateMergeFunction`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow import numpy_columns as arrays
from paimon_assets.engine.data.key_order import Order, sort_keys
from paimon_assets.engine.data.merge import records as merging
from paimon_assets.engine.data.merge.aggregate.functions import Aggregate
from paimon_assets.engine.data.merge.aggregate.picks import last_non_null_value
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.merge.merge_rules import MergeRules, SequenceGroup
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import RowKind
from paimon_assets.engine.spec.values import Value


def sequence_ranks(columns: Sequence[arrays.Array], rows: Order) -> Order:
    """Return for each row a number that grows with its sequence; `NOTHING` if all of it is null."""
    indices = arrays.from_numpy(rows)
    fields: list[arrays.Array] = [column.take(indices) for column in columns]
    by_rank = sort_keys([part for column in fields for part in _with_restarts(column)])
    ranks = np.empty(len(rows), dtype=np.int64)
    ranks[by_rank.order] = np.cumsum(by_rank.starts)
    absent = np.ones(len(rows), dtype=np.bool_)
    for column in fields:
        absent &= ~arrays.valid_rows(column)
    ranks[absent] = merging.NOTHING
    return ranks


def _with_restarts(column: arrays.Array) -> list[arrays.Array]:
    """Return sort keys of a sequence field in order of arrival: its order restarts at each NaN."""
    if not pa.types.is_floating(column.type):
        return [column]
    nan = arrays.to_numpy(pc.is_nan(column).fill_null(False))  # noqa: FBT003
    if not nan.any():
        return [column]
    smallest = pa.scalar(float("-inf"), column.type)
    return [arrays.from_numpy(np.cumsum(nan)), pc.if_else(arrays.from_numpy(nan), smallest, column)]


class GroupOrder(Struct, frozen=True):
    """The order of the records of some keys in a sequence group."""

    groups: merging.KeyGroups
    """The records, place by place."""
    bases: arrays.Flags
    """Places whose record seeds the row with all its values."""
    takes_part: arrays.Flags
    """Places whose sequence is not null."""
    in_order: arrays.Flags
    """Places that take part and are not smaller than those before."""

    @staticmethod
    def of(groups: merging.KeyGroups, ranks: Order, bases: arrays.Flags) -> GroupOrder:
        """Order records by their ranks, see `sequence_ranks`; all by place."""
        takes_part = ranks >= 0
        # A group's number above the rank lets one running maximum serve all groups.
        width = int(ranks.max(initial=0)) + 1
        keys = groups.groups * width + np.maximum(ranks, 0)
        in_order = takes_part & (keys == np.maximum.accumulate(keys))
        return GroupOrder(groups, bases, takes_part, in_order)

    def winners(self, *, of_fields: bool) -> Order:
        """Return for each key the row of the group's columns, or `NOTHING`."""
        last = self.groups.last(self.in_order)
        # Keys without a sequence keep the values of their seed.
        places = np.where(last >= 0, last, self.groups.last(self.bases))
        is_null = places < 0
        if not of_fields:
            counts = self.groups.adds() | ~self.takes_part
            is_null |= ~counts[places]
        return np.where(is_null, merging.NOTHING, self.groups.rows[places])

    def as_grouped(self) -> merging.Grouped:
        """Return the records of a column with a function, in the order of the function."""
        adds = self.groups.adds()
        # A record that retracts may be a seed and take part too: it is there twice, as seed first.
        # Late records have negative numbers, so they precede the rest, the last to arrive first.
        seeds = np.flatnonzero(self.bases)
        rest = np.flatnonzero(self.takes_part & ~(self.bases & adds))
        places = np.concatenate([seeds, rest])
        arrivals = 2 * places
        arrivals[len(seeds) :] += 1
        late = np.zeros(len(places), dtype=np.bool_)
        late[len(seeds) :] = ~self.in_order[rest]
        retracts = np.zeros(len(places), dtype=np.bool_)
        retracts[len(seeds) :] = ~adds[rest]
        of_group = self.groups.groups[places]
        order = np.lexsort((np.where(late, -arrivals, arrivals), of_group))
        return merging.Grouped(
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


class PartialUpdate(merging.MergeFunction, Value):
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
        names = [name for name in schema.field_names if name in rules.aggregations]
        return PartialUpdate(
            rules=rules,
            table=table,
            aggregates={name: Aggregate.of(rules.aggregations[name], table) for name in names},
            group_of={
                name: group for group in rules.groups for name in (*group.fields, *group.columns)
            },
        )

    def needed_columns(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the columns, and the sequence fields of their groups and of those that remove."""
        fields = [name for group in self._groups_for(columns) for name in group.fields]
        return tuple(dict.fromkeys((*columns, *fields)))

    def _groups_for(self, columns: Sequence[str]) -> list[SequenceGroup]:
        groups = {self.group_of[name] for name in columns if name in self.group_of}
        return [group for group in self.rules.groups if group in groups or group.removes_record]

    def merge(self, records: merging.Records, *, keep_retracts: bool = False) -> merging.FoldedRows:
        groups = merging.KeyGroups.of(records)
        if self.rules.groups:
            return self._merge_grouped(groups, records, keep_retracts=keep_retracts)
        if groups.kinds is not None:
            groups = self._without_retracts(groups)
        if not keep_retracts:
            groups = groups.without_removed()
        grouped = groups.as_grouped()
        return groups.fold_rows(lambda _, values: last_non_null_value(values, grouped))

    def _without_retracts(self, groups: merging.KeyGroups) -> merging.KeyGroups:
        """Return groups whose records all add, with deleted ones marked."""
        adds = groups.adds()
        if groups.kinds is None or adds.all():
            return groups
        rules = self.rules
        if not rules.ignore_delete and not rules.remove_on_delete:
            message = (
                f"Table '{self.table}' has the merge engine partial-update, which takes no -U and"
                f" -D, but some of its records are. Set '{opt.IGNORE_DELETE.key}' to true to skip"
                f" them, '{opt.PARTIAL_UPDATE_REMOVE_ON_DELETE.key}' to true to remove rows, or"
                " sequence groups to empty their columns."
            )
            raise InvalidInputError(message, kind="retraction", table=self.table)
        deleted = ~groups.holds(adds)
        counts = adds | _first_retracts(groups)
        if rules.remove_on_delete:
            deletes = groups.kinds == RowKind.DELETE
            last = groups.last(deletes)
            counts[last[last >= 0]] = True
            counts &= np.arange(len(adds)) >= last[groups.groups]
            deleted |= deletes[merging.run_ends(groups.groups)]
        return _as_adds(groups, counts).mark_deleted(deleted).keep(counts)

    def _merge_grouped(
        self, groups: merging.KeyGroups, records: merging.Records, *, keep_retracts: bool
    ) -> merging.FoldedRows:
        sequence_groups = self._groups_for(records.columns)
        bases = np.zeros(len(groups.rows), dtype=np.bool_)
        if groups.kinds is not None:
            bases = _first_retracts(groups)
        if self.rules.ignore_delete:
            # A first record seeds the row even if it is ignored.
            counts = groups.adds() | bases
            no_adds = ~groups.holds(groups.adds())
            groups, bases = (
                _as_adds(groups, bases).mark_deleted(no_adds).keep(counts),
                bases[counts],
            )
        ranks: Ranks = {
            group: sequence_ranks([records.column(name) for name in group.fields], groups.rows)
            for group in sequence_groups
        }
        if not self.rules.ignore_delete:
            groups, ranks, bases = self._without_removed_rows(groups, ranks, bases)
        if not keep_retracts:
            stays = _is_in_result(groups)
            groups = groups.without_removed()
            ranks, bases = {group: rank[stays] for group, rank in ranks.items()}, bases[stays]
        orders = {group: GroupOrder.of(groups, ranks[group], bases) for group in sequence_groups}
        plain = groups.keep(groups.adds() | bases).as_grouped().as_adds()

        def fold(name: str, values: arrays.Array) -> merging.Outcome:
            group = self.group_of.get(name)
            if group is None:
                return last_non_null_value(values, plain)
            if name in self.aggregates:
                return self.aggregates[name](values, orders[group].as_grouped())
            return orders[group].winners(of_fields=name in group.fields)

        return groups.fold_rows(fold)

    def _without_removed_rows(
        self, groups: merging.KeyGroups, ranks: Ranks, bases: arrays.Flags
    ) -> tuple[merging.KeyGroups, Ranks, arrays.Flags]:
        """Restart keys at the last -D that removes their row, and mark deleted ones."""
        if groups.kinds is None:
            return groups, ranks, bases
        no_adds = ~groups.holds(groups.adds())
        deletes = groups.kinds == RowKind.DELETE
        deleted = no_adds
        removing = [group for group in ranks if group.removes_record]
        while removing and deletes.any():
            triggers = np.zeros(len(deletes), dtype=np.bool_)
            for group in removing:
                triggers |= GroupOrder.of(groups, ranks[group], bases).in_order & deletes
            if not triggers.any():
                break
            # A removal does not change the order of its own group, so the last one counts.
            # It does change that of other groups: then removals are applied one after the other.
            single = len(removing) == 1
            removals = groups.last(triggers) if single else groups.first(triggers)
            is_last = removals == merging.run_ends(groups.groups)
            deleted = np.where(removals >= 0, no_adds | is_last, deleted)
            seeds = arrays.flags_at(removals[removals >= 0], len(deletes))
            counts = np.arange(len(deletes)) >= removals[groups.groups]
            groups = _as_adds(groups, seeds).keep(counts)
            ranks = {group: rank[counts] for group, rank in ranks.items()}
            bases, deletes = (bases | seeds)[counts], (deletes & ~seeds)[counts]
            if single:
                break
        return groups.mark_deleted(deleted), ranks, bases


def _first_retracts(groups: merging.KeyGroups) -> arrays.Flags:
    """Return the places of first records that retract: they seed their rows."""
    return arrays.flags_at(merging.run_starts(groups.groups), len(groups.rows)) & ~groups.adds()


def _as_adds(groups: merging.KeyGroups, places: arrays.Flags) -> merging.KeyGroups:
    """Return the same places, some of them as records that add."""
    if groups.kinds is None:
        return groups
    kinds = np.where(places, np.int8(RowKind.INSERT), groups.kinds)
    return replace(groups, kinds=kinds)


def _is_in_result(groups: merging.KeyGroups) -> arrays.Flags:
    """Return the places of groups whose rows are not removed."""
    if groups.results is None:
        return np.ones(len(groups.rows), dtype=np.bool_)
    mask: arrays.Flags = groups.results[groups.alone < 0] == RowKind.INSERT
    return mask[groups.groups]
