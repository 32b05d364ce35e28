"""Equality of the values of two columns, for types of any depth; null equals null.

Floating point is compared bit by bit, as in Java's rows: NaN equals NaN, 0.0 is not -0.0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from paimon_assets.engine.codec.arrow import numpy_columns as arrays
from paimon_assets.engine.data.merge.records import ChosenRows, MergeFunction, Records
from paimon_assets.engine.spec.types.data_types import RowKind

_BITS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}


def equal_values(left: arrays.Array, right: arrays.Array) -> arrays.Flags:
    """Return for each row whether two arrays of one type and length hold the same.

    Cost:
        Vectorised; a step for each level of nesting.
    """
    left_valid, right_valid = arrays.valid_rows(left), arrays.valid_rows(right)
    same: arrays.Flags = left_valid == right_valid
    rows = np.flatnonzero(left_valid & right_valid)
    if len(rows):
        if len(rows) < len(left):
            left, right = left.take(arrays.from_numpy(rows)), right.take(arrays.from_numpy(rows))
        same[rows] = _equal_valid(left, right)
    return same


def _equal_valid(left: arrays.Array, right: arrays.Array) -> arrays.Flags:
    data_type = left.type
    if pa.types.is_struct(data_type):
        same: arrays.Flags = np.ones(len(left), dtype=np.bool_)
        structs: Any = left, right
        for left_field, right_field in zip(*(column.flatten() for column in structs), strict=True):
            same &= equal_values(left_field, right_field)
        return same
    if pa.types.is_nested(data_type):
        return _equal_lists(left, right)
    if data_type in _BITS:
        left, right = left.view(_BITS[data_type]), right.view(_BITS[data_type])
    equal: arrays.Array = pc.equal(left, right)
    flags: arrays.Flags = arrays.to_numpy(equal)
    return flags


def _equal_lists(left: arrays.Array, right: arrays.Array) -> arrays.Flags:
    """Compare lists and maps: of equal length, with equal items, in lists in the same order."""
    left_sizes, right_sizes = _sizes(left), _sizes(right)
    same: arrays.Flags = left_sizes == right_sizes
    rows = np.flatnonzero(same & (left_sizes > 0))
    if not len(rows):
        return same
    same[rows] = _equal_items(left, right, rows, _items)
    if pa.types.is_map(left.type) and not pa.types.is_nested(left.type.key_type):
        rows = rows[~same[rows]]
        if len(rows):
            same[rows] = _equal_items(left, right, rows, _by_key)
    return same


def _equal_items(
    left: arrays.Array, right: arrays.Array, rows: Any, items: Callable[[Any], arrays.Array]
) -> arrays.Flags:
    """Return for some rows whether their lists, of equal lengths above 0, have equal items."""
    left, right = left.take(arrays.from_numpy(rows)), right.take(arrays.from_numpy(rows))
    sizes = _sizes(left)
    starts = np.cumsum(sizes) - sizes
    same: arrays.Flags = np.logical_and.reduceat(equal_values(items(left), items(right)), starts)
    return same


def _by_key(maps: arrays.Array) -> arrays.Array:
    """Return the entries of all maps, those of each map sorted by key."""
    entries = _items(maps)
    sizes = _sizes(maps)
    rows = arrays.from_numpy(np.repeat(np.arange(len(sizes)), sizes))
    table = pa.table([rows, entries.field(0)], names=["row", "key"])  # type: ignore[attr-defined]
    order = pc.sort_indices(table, sort_keys=[("row", "ascending"), ("key", "ascending")])
    sorted_entries: arrays.Array = entries.take(order)
    return sorted_entries


def _sizes(values: Any) -> Any:
    offsets = arrays.to_numpy(values.offsets)
    return offsets[1:] - offsets[:-1]


def _items(values: Any) -> arrays.Array:
    """Return the items of all lists, one after the other, without items outside of lists."""
    first, end = values.offsets[0].as_py(), values.offsets[-1].as_py()
    if pa.types.is_map(values.type):
        parts = [values.keys, values.items]
        pairs: arrays.Array = pa.StructArray.from_arrays(parts, names=["key", "value"])
        return pairs.slice(first, end - first)
    items: arrays.Array = values.values.slice(first, end - first)
    return items


class Difference(MergeFunction, Struct, frozen=True):
    """A merge of two records at most: the old row of a key, the new one, or both."""

    columns: Sequence[str]

    def merge(self, records: Records, *, keep_retracts: bool = False) -> ChosenRows:
        """Keep rows that are in one state only, and the newer of two that are not equal."""
        order = records.by_key.order
        first = np.flatnonzero(records.by_key.starts)
        last = np.append(first[1:], len(order)) - 1
        newest = order[last]
        # A key has one row of each state at most, the old one first; two are a pair.
        pairs = np.flatnonzero(first != last)
        kinds = np.full(len(order), RowKind.INSERT, dtype=np.int8)
        if records.kinds is not None:
            kinds = records.kinds.copy()
        kinds[newest[pairs]] = RowKind.UPDATE_AFTER
        differs = np.ones(len(newest), dtype=np.bool_)
        old, new = arrays.from_numpy(order[first[pairs]]), arrays.from_numpy(newest[pairs])
        equal = np.ones(len(pairs), dtype=np.bool_)
        for name in self.columns:
            values = records.column(name)
            equal &= equal_values(values.take(old), values.take(new))
        differs[pairs] = ~equal
        return ChosenRows.of(newest[differs], kinds, keep_retracts=keep_retracts)
