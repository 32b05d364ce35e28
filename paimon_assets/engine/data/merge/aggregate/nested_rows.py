"""Entries of maps, and rows in a list: small tables inside a column.

merge_map and merge_map_with_keytime put the entries of all maps of a group in one map;
nested_update and nested_partial_update do so with the rows of lists. Java does not define the order
of entries and keyed rows; here it is that of the first ones of their keys.
Source: `org.apache.paimon.mergetree.compact.aggregate.FieldMergeMapAgg`,
`FieldMergeMapWithKeyTimeAgg`, `FieldNestedUpdateAgg`, `FieldNestedPartialUpdateAgg`.
"""

from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_assets.engine.codec.arrow.numpy_columns import Array, flags_at, from_numpy, valid_rows
from paimon_assets.engine.data.key_order import Order, order_words, sort_keys
from paimon_assets.engine.data.merge.aggregate.lists import (
    Elements,
    codes,
    codes_of_numbers,
    joint_codes,
    last_of_each,
)
from paimon_assets.engine.data.merge.aggregate.picks import later_than_retracts
from paimon_assets.engine.data.merge.records import Grouped, gather, run_ends, run_starts
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.merge.merge_rules import FieldAggregation
from paimon_assets.engine.spec.options.all_options import NestedKeyNulls


def merge_maps(values: Array, grouped: Grouped) -> Array:
    """Return the newest entry of each map key; retracting a key removes its entry."""
    entries = Elements.of(values, grouped)
    inner = entries.grouped
    same = codes_of_numbers([inner.groups, codes(entries.content)[inner.rows]])
    is_later = later_than_retracts(same, inner)
    inner, same = inner.keep(is_later), same[is_later]
    return entries.rebuild(last_of_each(inner, same))


def merge_maps_by_time(values: Array, grouped: Grouped, settings: FieldAggregation) -> Array:
    """Return the entry of each map key with the latest time, the first of several.

    In all maps but the group's first, a null value removes the entry and a value without a time is
    skipped. A late map counts as the first, and the rest are merged into it.

    Cost:
        A Python loop over the entries of groups that have late records.
    """
    entries = Elements.of(values, grouped)
    inner, lists = entries.grouped, entries.lists
    items: Any = lists.items  # type: ignore[attr-defined]  # of a map
    # Without a declared time field it is the last one.
    field = settings.time_field
    times: Any = items.flatten()[items.type.get_field_index(field) if field else -1]
    has_value, has_time = valid_rows(items)[inner.rows], valid_rows(times)[inner.rows]
    words = order_words(times.take(from_numpy(inner.rows)))
    ranks: Order = np.unique(words, return_inverse=True)[1]
    same = codes_of_numbers([inner.groups, codes(entries.content)[inner.rows]])
    stepwise = np.zeros(inner.count, dtype=np.bool_)
    merged: list[int] = []
    for group, maps in entries.records.with_late():
        stepwise[group] = True
        merged += _merge_in_steps(entries, maps, same, np.where(has_time, ranks + 1, has_value - 1))
    # All entries of a group's first map count.
    map_groups = entries.records.groups
    first_maps = flags_at(run_starts(map_groups), len(map_groups))
    is_first = first_maps[entries.record_of]
    removes = ~has_value & ~is_first
    removals = Grouped(count=inner.count, groups=inner.groups, rows=inner.rows, retracts=removes)
    counts = later_than_retracts(same, removals) & ~removes & (is_first | has_time)
    counts &= ~stepwise[inner.groups]
    earliness = -np.arange(len(same))[counts]
    result = last_of_each(inner.keep(counts), same[counts], earliness, ranks[counts])
    if merged:
        steps = inner.keep(np.array(merged, dtype=np.int64))
        groups = np.concatenate([result.groups, steps.groups])
        rows = np.concatenate([result.rows, steps.rows])
        order = np.argsort(groups, kind="stable")
        result = Grouped(count=result.count, groups=groups[order], rows=rows[order])
    return entries.rebuild(result)


def _merge_in_steps(entries: Elements, maps: list[int], same: Order, ranks: Order) -> list[int]:
    """Merge the maps of one group in order of arrival; return the positions of their entries."""
    merged: dict[int, int] = {}
    for number, record in enumerate(maps):
        start, stop = np.searchsorted(entries.record_of, [record, record + 1]).tolist()
        own = {int(same[position]): position for position in range(start, stop)}
        late = entries.records.late is not None and bool(entries.records.late[record])
        first, second = (own, merged) if late else (merged, own)
        merged = dict(first) if number else own
        for key, position in second.items() if number else ():
            if ranks[position] < 0:
                merged.pop(key, None)
            elif ranks[position] > max(0, ranks[merged[key]] if key in merged else 0):
                merged[key] = position
    return list(merged.values())


def update_nested_rows(values: Array, grouped: Grouped, settings: FieldAggregation) -> Array:
    """Collect nested rows; with a nested key, the newest row of each.

    A retracted row removes the rows of its nested key (without one: rows equal to it).
    """
    elements = Elements.of(values, grouped)
    content, inner = _whole_rows(elements, settings)
    same = _same(content, inner, settings)
    if settings.has_limit and inner.retracts is not None:
        return elements.rebuild(inner.keep(_limit(inner, same, content, settings)))
    is_later = later_than_retracts(same, inner)
    inner, same = inner.keep(is_later), same[is_later]
    if settings.nested_key:
        inner = last_of_each(inner, same, _ranks(content, settings)[inner.rows])
    return elements.rebuild(_first_of_group(inner, settings.count_limit))


def update_nested_fields(values: Array, grouped: Grouped, settings: FieldAggregation) -> Array:
    """Merge nested rows with equal nested keys into one: the last value of each field."""
    elements = Elements.of(values, grouped)
    content, inner = _whole_rows(elements, settings)
    same = codes_of_numbers([inner.groups, _same(content, inner, settings)])
    order = np.argsort(same, kind="stable")
    ends = run_ends(same[order])
    rows = Grouped(count=len(ends), groups=same[order], rows=inner.rows[order])
    columns = []
    for column in content.flatten():
        present = rows.valid(column)
        columns.append(gather(column, present.pick(run_ends(present.groups))))
    merged = pa.StructArray.from_arrays(columns, fields=list(content.type))
    groups = inner.groups[order][ends]
    merged_rows = Grouped(count=inner.count, groups=groups, rows=np.arange(len(groups)))
    return elements.rebuild(merged_rows, merged)


def _whole_rows(elements: Elements, settings: FieldAggregation) -> tuple[Any, Grouped]:
    """Return all nested rows, and those that count: not null, and with a key."""
    content: Any = elements.content
    inner = elements.grouped.keep(valid_rows(content)[elements.grouped.rows])
    if settings.nested_key_nulls is NestedKeyNulls.MERGE or not settings.nested_key:
        return content, inner
    whole = np.ones(len(content), dtype=np.bool_)
    for name in settings.nested_key:
        whole &= valid_rows(_child(content, name))
    whole = whole[inner.rows]
    if settings.nested_key_nulls is NestedKeyNulls.ERROR and not whole.all():
        message = (
            f"Column '{settings.column}' has nested rows whose key"
            f" ({', '.join(settings.nested_key)}) holds a null, which"
            f" 'fields.{settings.column}.nested-key-null-strategy' forbids."
        )
        raise InvalidInputError(message, kind="nested-key-null", column=settings.column)
    return content, inner.keep(whole)


def _child(content: Any, name: str) -> Any:
    return content.flatten()[content.type.get_field_index(name)]


def _same(content: Any, inner: Grouped, settings: FieldAggregation) -> Order:
    """Return a number for each nested row, equal for those of one group that replace each other."""
    if settings.nested_key:
        identity = joint_codes([_child(content, name) for name in settings.nested_key])
    elif inner.retracts is None:
        return np.arange(len(inner.rows))
    else:
        identity = codes(content)
    return codes_of_numbers([inner.groups, identity[inner.rows]])


def _ranks(content: Any, settings: FieldAggregation) -> Order:
    """Return a number for each nested row that grows with its nested sequence."""
    if not settings.nested_sequence:
        return np.zeros(len(content), dtype=np.int64)
    by_rank = sort_keys([_child(content, name) for name in settings.nested_sequence])
    ranks = np.empty(len(content), dtype=np.int64)
    ranks[by_rank.order] = np.cumsum(by_rank.starts)
    return ranks


def _first_of_group(inner: Grouped, limit: int) -> Grouped:
    starts = run_starts(inner.groups)
    lengths = np.diff(np.append(starts, len(inner.groups)))
    positions = np.arange(len(inner.groups)) - np.repeat(starts, lengths)
    return inner.keep(positions < limit)


def _limit(inner: Grouped, same: Order, content: Any, settings: FieldAggregation) -> Order:
    """Return the positions of nested rows that remain, for a limit together with retractions.

    Cost:
        A Python loop over nested rows: a retraction makes room again, so each row depends on all
        before it. Only for columns with `count-limit` in merges that retract.
    """
    retracts: Any = inner.retracts
    ranks = _ranks(content, settings)[inner.rows]
    rows: dict[int, list[int]] = {}
    room: dict[int, int] = {}
    for position in np.lexsort((inner.arrival_ranks(), inner.groups)).tolist():
        group, equal = int(inner.groups[position]), rows.setdefault(int(same[position]), [])
        left = room.setdefault(group, settings.count_limit)
        if retracts[position]:
            room[group] = left + len(equal)
            equal.clear()
        elif settings.nested_key and equal:
            if ranks[position] >= ranks[equal[0]]:
                equal[0] = position
        elif left > 0:
            room[group] = left - 1
            equal.append(position)
    return np.array(sorted(chain.from_iterable(rows.values())), dtype=np.int64)
