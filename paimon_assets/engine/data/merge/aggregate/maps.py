"""merge_map and merge_map_with_keytime: entries of all maps of a group in one map.

Source: `org.apache.paimon.mergetree.compact.aggregate.FieldMergeMapAgg`,
`FieldMergeMapWithKeyTimeAgg`. Java leaves the order of entries open; here an entry stands where its
key came first.
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


def merged_maps(values: Array, grouped: Grouped) -> Array:
    """Return the newest entry of each map key; retracting a key takes its entry out."""
    entries = Elements.of(values, grouped)
    inner = entries.grouped
    same = codes_of_numbers([inner.groups, codes(entries.content)[inner.rows]])
    left = later_than_retracts(same, inner)
    inner, same = inner.keep(left), same[left]
    return entries.rebuilt(last_of_each(inner, same))


def merged_maps_by_time(values: Array, grouped: Grouped, settings: FieldAggregation) -> Array:
    """Return the entry of each map key with the latest time, the first of several.

    In every map but the group's first, a null value takes the entry out and a value without a time
    is skipped. A late map counts as the first, and what there was is merged into it.

    Cost:
        A Python loop over the entries of groups that have late records.
    """
    entries = Elements.of(values, grouped)
    inner, lists = entries.grouped, entries.lists
    items: Any = lists.items  # type: ignore[attr-defined]  # of a map
    times: Any = items.flatten()[_time_position(items.type, settings)]
    has_value, has_time = is_valid(items)[inner.rows], is_valid(times)[inner.rows]
    words = order_words(times.take(from_numpy(inner.rows)))
    ranks: Order = np.unique(words, return_inverse=True)[1]
    same = codes_of_numbers([inner.groups, codes(entries.content)[inner.rows]])
    stepwise = np.zeros(inner.count, dtype=np.bool_)
    chosen = []
    for group, maps in entries.records.with_late():
        stepwise[group] = True
        chosen += _step_by_step(entries, maps, same, np.where(has_time, ranks + 1, has_value - 1))
    # The first map of a group is taken over as it is.
    first_maps = np.zeros(len(entries.records.groups), dtype=np.bool_)
    first_maps[run_starts(entries.records.groups)] = True
    is_first = first_maps[entries.record_of]
    takes_out = ~has_value & ~is_first
    removals = Grouped(count=inner.count, groups=inner.groups, rows=inner.rows, retracts=takes_out)
    left = later_than_retracts(same, removals) & ~takes_out & (is_first | has_time)
    left &= ~stepwise[inner.groups]
    earliness = -np.arange(len(same))[left]
    found = last_of_each(inner.keep(left), same[left], earliness, ranks[left])
    if chosen:
        stepped = inner.keep(np.array(chosen, dtype=np.int64))
        groups = np.concatenate([found.groups, stepped.groups])
        rows = np.concatenate([found.rows, stepped.rows])
        order = np.argsort(groups, kind="stable")
        found = Grouped(count=found.count, groups=groups[order], rows=rows[order])
    return entries.rebuilt(found)


def _step_by_step(entries: Elements, maps: list[int], same: Order, ranks: Order) -> list[int]:
    """Merge the maps of one group in order of arrival; return the places of the entries left."""
    merged: dict[int, int] = {}
    for position, record in enumerate(maps):
        start, stop = np.searchsorted(entries.record_of, [record, record + 1]).tolist()
        given = {int(same[place]): place for place in range(start, stop)}
        late = entries.records.late is not None and bool(entries.records.late[record])
        first, second = (given, merged) if late else (merged, given)
        merged = dict(first) if position else given
        for key, place in second.items() if position else ():
            if ranks[place] < 0:
                merged.pop(key, None)
            elif ranks[place] > max(0, ranks[merged[key]] if key in merged else 0):
                merged[key] = place
    return list(merged.values())


def _time_position(row_type: Any, settings: FieldAggregation) -> int:
    if not settings.time_field:
        return int(row_type.num_fields) - 1
    return int(row_type.get_field_index(settings.time_field))
