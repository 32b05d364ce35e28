"""Nested columns and types: their parts, and the same with other parts."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy
from paimon_assets.engine.spec.types.data_types import DataType, TypeRoot, inner_types, types_within


def parts_of(column: Any) -> list[Any]:
    """Return the columns inside a column: fields, elements, or keys and values; of a flat one, [].

    Null lists and maps have no elements, null rows have null fields, in spite of stored children.
    """
    if pat.is_struct(column.type):
        return list(column.flatten())
    if pat.is_map(column.type):
        return list(_as_lists(column).flatten().flatten())
    if pat.is_fixed_size_list(column.type):
        size = column.type.list_size
        return [column.values.slice(column.offset * size, len(column) * size)]
    return [column.flatten()] if pat.is_list(column.type) else []


def with_parts(column: Any, parts: Sequence[Any], arrow_type: Any) -> Any:
    """Return a column of a nested type with new `parts_of`, and the nulls of `column`."""
    nulls = column.is_null()
    kind: Any = pa.StructArray
    if pat.is_struct(arrow_type):
        return kind.from_arrays(parts, fields=list(arrow_type), mask=nulls)
    if pat.is_fixed_size_list(arrow_type):
        kind = pa.FixedSizeListArray
        return kind.from_arrays(*parts, type=arrow_type, mask=nulls)
    lists = _as_lists(column) if pat.is_map(column.type) else column
    lengths: Any = pc.list_value_length(lists)
    bounds = np.zeros(len(column) + 1, np.int32)
    np.cumsum(to_numpy(lengths.fill_null(0)), out=bounds[1:])
    kind = pa.MapArray if pat.is_map(arrow_type) else pa.ListArray
    return kind.from_arrays(from_numpy(bounds), *parts, type=arrow_type, mask=nulls)


def leaves_of(column: Any) -> Iterator[Any]:
    """Yield the flat columns inside a column, at any depth; a flat one itself."""
    if not pat.is_nested(column.type):
        yield column
    for part in parts_of(column):
        yield from leaves_of(part)


def types_inside(arrow_type: Any) -> list[Any]:
    """Return the types of the columns that `parts_of` returns."""
    if pat.is_map(arrow_type):
        return [arrow_type.key_type, arrow_type.item_type]
    return [arrow_type.field(number).type for number in range(arrow_type.num_fields)]


def changed_field(field: Any, change: Callable[[Any], Any]) -> Any:
    """Return a field after `change` of every field inside it, and then of itself."""
    kind = field.type
    if pat.is_map(kind):
        kind = pa.map_(*(changed_field(each, change) for each in (kind.key_field, kind.item_field)))
    elif pat.is_list(kind):
        kind = pa.list_(changed_field(kind.value_field, change))
    elif pat.is_struct(kind):
        kind = pa.struct([changed_field(each, change) for each in kind])
    return change(field.with_type(kind))


def has_char(data_type: DataType) -> bool:
    return any(each.root is TypeRoot.CHAR for each in types_within(data_type))


def without_blanks(column: Any, data_type: DataType) -> Any:
    """Cut the blanks at the end of CHAR values, at any depth."""
    if data_type.root is TypeRoot.CHAR:
        return pc.utf8_rtrim(column, characters=" ")
    if not has_char(data_type):
        return column
    parts, types = parts_of(column), inner_types(data_type)
    parts[: len(types)] = map(without_blanks, parts, types)  # the counts of a multiset have no type
    return with_parts(column, parts, column.type)


def _as_lists(maps: Any) -> Any:
    """Return a column of maps as lists of rows (key, value), where all values may be null."""
    pairs = pa.struct([("key", maps.type.key_type), ("value", maps.type.item_type)])
    return maps.view(pa.list_(pa.field("entries", pairs, nullable=False)))
