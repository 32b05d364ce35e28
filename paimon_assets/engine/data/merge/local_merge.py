"""Merge the records of one write before they become a file, which holds each key once.

    records in key order ─▶ slices of whole keys ─▶ merge function ─▶ columns, kinds, numbers

Rows that retract stay: they delete keys of older files.
Source: `org.apache.paimon.mergetree.SortBufferWriteBuffer`.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from paimon_assets.engine.data.key_order import KeyOrder
from paimon_assets.engine.data.merge.records import Array, MergedRows, MergeFunction, Records


def merge_sorted(
    records: Records, function: MergeFunction, *, rows_at_once: int
) -> Iterator[tuple[MergedRows, list[Array]]]:
    """Merge records to one row a key, keeping rows that retract; yield them and their columns.

    Cost:
        Memory for the columns of one slice, besides the columns of `records`.
    """
    if records.kinds is not None and not records.kinds.any():  # all are +I
        records = replace(records, kinds=None)
    for by_key in key_slices(records.by_key, rows_at_once):
        merged = function.merge(replace(records, by_key=by_key), keep_retracts=True)
        yield merged, [merged.column(name, records.column(name)) for name in records.columns]


def key_slices(by_key: KeyOrder, rows_at_once: int) -> Iterator[KeyOrder]:
    """Cut records in key order into slices of whole keys, of about `rows_at_once` records."""
    count, starts = len(by_key.order), np.flatnonzero(by_key.starts)
    begin = 0
    while begin < count:
        key = int(np.searchsorted(starts, begin + rows_at_once))
        end = int(starts[key]) if key < len(starts) else count
        yield KeyOrder(order=by_key.order[begin:end], starts=by_key.starts[begin:end])
        begin = end
