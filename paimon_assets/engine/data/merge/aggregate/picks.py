"""Aggregate functions whose result is one of the values: the last, the first, the largest.

They return row numbers, so that each column is gathered once.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.data.key_order import Flags, Order, Words, order_words
from paimon_assets.engine.data.merge.records import (
    NOTHING,
    Array,
    Grouped,
    is_valid,
    run_ends,
    run_starts,
)


def last_value(values: Array, grouped: Grouped) -> Order:
    """Pick the last value, null or not; a record that retracts leaves null behind."""
    left = after_last_retract(grouped)
    if left.late is not None:
        # Late records are never the last, even where a retraction left nothing in front of them.
        left = left.keep(~left.late)
    return left.pick(run_ends(left.groups))


def last_non_null_value(values: Array, grouped: Grouped) -> Order:
    """Pick the last value that is not null; retracting one leaves null behind."""
    left = after_last_retract(grouped.valid(values))
    return left.pick(run_ends(left.groups))


def first_value(values: Array, grouped: Grouped) -> Order:
    """Pick the first value, null or not: the late record that arrived last, if there is one.

    What a group was seeded with gives way to the first record, unless that is late.
    """
    picked = _first_or_seed(grouped)
    for group, places in grouped.with_late():
        chosen = None
        seen = False
        for place in places:
            if _flag(grouped.seeds, place):
                chosen = place
            elif not seen:
                seen = True
                chosen = chosen if _flag(grouped.late, place) else place
            elif _flag(grouped.late, place):
                chosen = place
        picked[group] = NOTHING if chosen is None else grouped.rows[chosen]
    return picked


def first_non_null_value(values: Array, grouped: Grouped) -> Order:
    """Pick the first value that is not null.

    A late record takes its place, null or not, once there is one; as in Java.
    """
    picked = _first_or_seed(grouped.valid(values))
    valid = is_valid(values)[grouped.rows] if grouped.late is not None else None
    for group, places in grouped.with_late():
        chosen = None
        found = False
        for place in places:
            known = _flag(valid, place)
            if _flag(grouped.seeds, place):
                chosen = place if known else None
            elif not _flag(grouped.late, place):
                chosen = place if known and not found else chosen
                found = found or known
            elif not found and chosen is not None:
                found = True
            else:
                chosen = place if known else None
        picked[group] = NOTHING if chosen is None else grouped.rows[chosen]
    return picked


def _first_or_seed(grouped: Grouped) -> Order:
    """Pick the first record of each group that was not there before, else what was there.

    What took the place of an earlier first value stays: the first one has been seen.
    """
    picked = grouped.pick(run_starts(grouped.groups))
    if grouped.seeds is None:
        return picked
    others = grouped.keep(~grouped.seeds)
    found = others.pick(run_starts(others.groups))
    if grouped.before is not None:
        found[grouped.before.groups] = NOTHING
        seeds = grouped.keep(grouped.seeds)
        seeded = seeds.pick(run_starts(seeds.groups))
        picked[grouped.before.groups] = seeded[grouped.before.groups]
    return np.where(found == NOTHING, picked, found)


def _flag(flags: Flags | None, place: int) -> bool:
    return flags is not None and bool(flags[place])


def key_value(values: Array, grouped: Grouped) -> Order:
    """Pick the last value, whatever its record does: it is part of the key."""
    return grouped.pick(run_ends(grouped.groups))


def largest(values: Array, grouped: Grouped) -> Order:
    """Pick the largest value: text and bytes by unsigned bytes, NaN above all; true above false."""
    return _extreme(values, grouped, np.maximum.reduceat)


def smallest(values: Array, grouped: Grouped) -> Order:
    """Pick the smallest value, in the order of `largest`."""
    return _extreme(values, grouped, np.minimum.reduceat)


def _extreme(values: Array, grouped: Grouped, reduce: Callable[[Words, Order], Words]) -> Order:
    present = grouped.valid(values)
    starts = run_starts(present.groups)
    if not len(present.rows):
        return present.pick(starts)
    words = order_words(pa.chunked_array([values.take(from_numpy(present.rows))]))
    extremes = reduce(words, starts)
    lengths = np.diff(np.append(starts, len(words)))
    hits = np.flatnonzero(words == np.repeat(extremes, lengths))
    return present.pick(hits[run_starts(present.groups[hits])])


def after_last_retract(grouped: Grouped) -> Grouped:
    """Return the records that arrived after the last one of their group that retracts."""
    if grouped.retracts is None:
        return grouped
    return grouped.keep(later_than_retracts(grouped.groups, grouped)).without_retracts()


def later_than_retracts(items: Order, grouped: Grouped) -> Flags:
    """Return which records arrived after the last one that retracts the same item."""
    if grouped.retracts is None:
        return np.ones(len(items), dtype=np.bool_)
    arrived = grouped.arrived()
    last = np.full(int(items.max(initial=-1)) + 1, -1, dtype=np.int64)
    np.maximum.at(last, items[grouped.retracts], arrived[grouped.retracts])
    later: Flags = arrived > last[items]
    return later
