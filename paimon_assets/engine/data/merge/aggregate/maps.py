"""merge_map and merge_map_with_keytime: entries of all maps of a group in one map.

Source: `org.apache.paimon.mergetree.compact.aggregate.FieldMergeMapAgg`,
`FieldMergeMapWithKeyTimeAgg`. Java does not define the order of entries; here it is that of the
first entries of their keys.
"""

from typing import Any

import numpy as np

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.data.key_order import Order, order_words
from paimon_assets.engine.data.merge.aggregate.lists import (
    Elements,
    codes,
    codes_of_numbers,
    last_of_each,
)
from paimon_assets.engine.data.merge.aggregate.picks import later_than_retracts
from paimon_assets.engine.data.merge.records import Array, Grouped, is_valid, run_starts
from paimon_assets.engine.spec.merge.merge_rules import FieldAggregation


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
    skipped. A late map counts as the first, and the others are merged into it.

    Cost:
        A Python loop over the entries of groups that have late records.
    """
    entries = Elements.of(values, grouped)
    inner, lists = entries.grouped, entries.lists
    items: Any = lists.items  # type: ignore[attr-defined]  # of a map
    # Without a declared time field it is the last one.
    field = settings.time_field
    times: Any = items.flatten()[items.type.get_field_index(field) if field else -1]
    has_value, has_time = is_valid(items)[inner.rows], is_valid(times)[inner.rows]
    words = order_words(times.take(from_numpy(inner.rows)))
    ranks: Order = np.unique(words, return_inverse=True)[1]
    same = codes_of_numbers([inner.groups, codes(entries.content)[inner.rows]])
    stepwise = np.zeros(inner.count, dtype=np.bool_)
    merged: list[int] = []
    for group, maps in entries.records.with_late():
        stepwise[group] = True
        merged += _merge_in_steps(entries, maps, same, np.where(has_time, ranks + 1, has_value - 1))
    # All entries of a group's first map count.
    first_maps = np.zeros(len(entries.records.groups), dtype=np.bool_)
    first_maps[run_starts(entries.records.groups)] = True
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
