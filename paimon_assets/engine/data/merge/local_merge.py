"""Merge the records of one write before they become a file, in which every key stands once.

    records in key order ─▶ slices of whole keys ─▶ merge function ─▶ columns, kinds, numbers

What a read would drop stays: a file must say to older files that a key is gone.
Source: `org.apache.paimon.mergetree.SortBufferWriteBuffer`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from paimon_assets.engine.data.key_order import KeyOrder, Order
from paimon_assets.engine.data.merge.function import MergeFunction
from paimon_assets.engine.data.merge.records import Array, Kinds, Records


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedPart:
    """Merged rows of some keys, in key order."""

    newest: Order
    """Row number of the record that each row takes its sequence number from."""
    kinds: Kinds | None
    """`_VALUE_KIND` of each row; None if every row adds."""
    columns: tuple[Array, ...]
    """The columns asked for."""


def merge_sorted(
    records: Records, function: MergeFunction, *, rows_at_once: int
) -> Iterator[MergedPart]:
    """Merge records to one row a key, keeping rows that retract.

    Args:
        records: All of them, in key order; `columns` are those to return.
        function: How records of one key become one row.
        rows_at_once: About how many records to merge at a time; a key is never cut.

    Raises:
        InvalidInputError: See `MergeFunction.merge`.

    Cost:
        Memory for the columns of one slice, besides the columns that `records` hands out.
    """
    if records.kinds is not None and not records.kinds.any():  # all are +I
        records = replace(records, kinds=None)
    for by_key in key_slices(records.by_key, rows_at_once):
        merged = function.merge(replace(records, by_key=by_key), keep_retracts=True)
        columns = (merged.column(name, records.column(name)) for name in records.columns)
        yield MergedPart(newest=merged.newest, kinds=merged.kinds, columns=tuple(columns))


def key_slices(by_key: KeyOrder, rows_at_once: int) -> Iterator[KeyOrder]:
    """Cut records in key order into slices of whole keys, of about `rows_at_once` records."""
    count, starts = len(by_key.order), np.flatnonzero(by_key.starts)
    begin = 0
    while begin < count:
        place = int(np.searchsorted(starts, begin + rows_at_once))
        end = int(starts[place]) if place < len(starts) else count
        yield KeyOrder(order=by_key.order[begin:end], starts=by_key.starts[begin:end])
        begin = end
