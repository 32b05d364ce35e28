"""Aggregate functions whose result is one of the values: the last, the first, the largest.

They return row numbers, so that each column is gathered once.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from paimon_assets.engine.codec.arrow import numpy_columns as arrays
from paimon_assets.engine.data.key_order import Order, order_words
from paimon_assets.engine.data.merge.records import NOTHING, Grouped, run_ends, run_starts


def last_value(values: arrays.Array, grouped: Grouped) -> Order:
    """Pick the last value, null or not; a record that retracts leaves null behind."""
    rest = after_last_retract(grouped)
    if rest.late is not None:
        # Late records are never the last, even if a retraction removed all the rest.
        rest = rest.keep(~rest.late)
    return rest.pick(run_ends(rest.groups))


def last_non_null_value(values: arrays.Array, grouped: Grouped) -> Order:
    """Pick the last value that is not null; retracting one leaves null behind."""
    rest = after_last_retract(grouped.valid(values))
    return rest.pick(run_ends(rest.groups))


def first_value(values: arrays.Array, grouped: Grouped) -> Order:
    """Pick the first value, null or not: the late record that arrived last, if there is one.

    The first record replaces the seed of a group, unless that record is late.
    """
    result = _first_or_seed(grouped)
    for group, positions in grouped.with_late():
        first = None
        has_first = False
        for position in positions:
            if _flag(grouped.seeds, position):
                first = position
            elif not has_first:
                has_first = True
                first = first if _flag(grouped.late, position) else position
            elif _flag(grouped.late, position):
                first = position
        result[group] = NOTHING if first is None else grouped.rows[first]
    return result


def first_non_null_value(values: arrays.Array, grouped: Grouped) -> Order:
    """Pick the first value that is not null.

    Once there is one, a late record replaces it, null or not; as in Java.
    """
    result = _first_or_seed(grouped.valid(values))
    valid = arrays.valid_rows(values)[grouped.rows] if grouped.late is not None else None
    for group, positions in grouped.with_late():
        first = None
        has_first = False
        for position in positions:
            has_value = _flag(valid, position)
            if _flag(grouped.seeds, position):
                first = position if has_value else None
            elif not _flag(grouped.late, position):
                first = position if has_value and not has_first else first
                has_first = has_first or has_value
            elif not has_first and first is not None:
                has_first = True
            else:
                first = position if has_value else None
        result[group] = NOTHING if first is None else grouped.rows[first]
    return result


def _first_or_seed(grouped: Grouped) -> Order:
    """Pick the first record of each group that is not a seed, else the seed.

    A seed that replaced an earlier first value stays, because the group has had its first value.
    """
    result = grouped.pick(run_starts(grouped.groups))
    if grouped.seeds is None:
        return result
    added = grouped.keep(~grouped.seeds)
    first = added.pick(run_starts(added.groups))
    if grouped.before is not None:
        first[grouped.before.groups] = NOTHING
        seeds = grouped.keep(grouped.seeds)
        seed_rows = seeds.pick(run_starts(seeds.groups))
        result[grouped.before.groups] = seed_rows[grouped.before.groups]
    return np.where(first == NOTHING, result, first)


def _flag(flags: arrays.Flags | None, position: int) -> bool:
    return flags is not None and bool(flags[position])


def key_value(values: arrays.Array, grouped: Grouped) -> Order:
    """Pick the last value, even of a record that retracts: it is part of the key."""
    return grouped.pick(run_ends(grouped.groups))


def largest(values: arrays.Array, grouped: Grouped) -> Order:
    """Pick the largest value: text and bytes by unsigned bytes, NaN above all; true above false."""
    return _extreme(values, grouped, np.maximum.reduceat)


def smallest(values: arrays.Array, grouped: Grouped) -> Order:
    """Pick the smallest value, in the order of `largest`."""
    return _extreme(values, grouped, np.minimum.reduceat)


def _extreme(
    values: arrays.Array, grouped: Grouped, reduce: Callable[[arrays.Words, Order], arrays.Words]
) -> Order:
    present = grouped.valid(values)
    starts = run_starts(present.groups)
    if not len(present.rows):
        return present.pick(starts)
    words = order_words(pa.chunked_array([values.take(arrays.from_numpy(present.rows))]))
    extremes = reduce(words, starts)
    lengths = np.diff(np.append(starts, len(words)))
    hits = np.flatnonzero(words == np.repeat(extremes, lengths))
    return present.pick(hits[run_starts(present.groups[hits])])


def after_last_retract(grouped: Grouped) -> Grouped:
    """Return the records that arrived after the last one of their group that retracts."""
    if grouped.retracts is None:
        return grouped
    return grouped.keep(later_than_retracts(grouped.groups, grouped)).without_retracts()


def later_than_retracts(items: Order, grouped: Grouped) -> arrays.Flags:
    """Return which records arrived after the last one that retracts the same item."""
    if grouped.retracts is None:
        return np.ones(len(items), dtype=np.bool_)
    arrived = grouped.arrival_ranks()
    last = np.full(int(items.max(initial=-1)) + 1, -1, dtype=np.int64)
    np.maximum.at(last, items[grouped.retracts], arrived[grouped.retracts])
    later: arrays.Flags = arrived > last[items]
    return later
