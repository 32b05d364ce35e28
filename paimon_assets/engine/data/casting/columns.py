"""cast_column: columns of any type, nested ones field by field.

ROW        fields of the same id; those the source lacks are null, those only it has are dropped
ARRAY      its elements; VECTOR likewise
MAP        its values; keys stay as they are
atomic     cast_array
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from paimon_assets.engine.codec.arrow.arrow_types import has_required_fields, to_arrow_type
from paimon_assets.engine.data.casting.arrays import values_of, with_nulls_as
from paimon_assets.engine.data.casting.cast import UTC, Array
from paimon_assets.engine.data.casting.casting import cast_array
from paimon_assets.engine.spec.options.all_options import (
    CAST_DIALECT,
    CAST_FLOAT_TO_BOOLEAN,
    CAST_TIME_ZONE,
    CastDialect,
    Options,
)
from paimon_assets.engine.spec.types.cast_rules import same_type
from paimon_assets.engine.spec.types.data_types import (
    ArrayType,
    DataType,
    MapType,
    RowType,
    VectorType,
)

ArrowType: TypeAlias = Any
"""A `pa.DataType` of some kind; the stubs want to know which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CastSettings:
    """The settings of a table's casts."""

    dialect: CastDialect = CastDialect.JAVA
    zone: str = UTC
    float_to_boolean: bool = True

    @staticmethod
    def of(options: Options) -> CastSettings:
        """Read a table's options."""
        return CastSettings(
            dialect=options.get(CAST_DIALECT),
            zone=options.get(CAST_TIME_ZONE),
            float_to_boolean=options.get(CAST_FLOAT_TO_BOOLEAN),
        )


def cast_column(
    array: Array, source: DataType, target: DataType, settings: CastSettings | None = None
) -> Array:
    """Cast a column to another type that `spec.types.cast_rules` allows."""
    settings = settings or CastSettings()
    arrow_type: ArrowType = to_arrow_type(target)
    if array.type.equals(arrow_type) and same_type(source, target):
        return array
    match source, target:
        case RowType(), RowType():
            columns = _fields(array, source, target, settings)
            fields = list(arrow_type)
            return pa.StructArray.from_arrays(columns, fields=fields, mask=array.is_null())
        case ArrayType(), ArrayType():
            elements = cast_column(array.flatten(), source.element, target.element, settings)
            bounds, nulls = _bounds(array), array.is_null()
            return pa.ListArray.from_arrays(bounds, elements, type=arrow_type, mask=nulls)
        case VectorType(), VectorType():
            held = array.values.slice(array.offset * source.length, len(array) * source.length)
            elements = cast_column(held, source.element, target.element, settings)
            nulls = array.is_null()
            return pa.FixedSizeListArray.from_arrays(elements, type=arrow_type, mask=nulls)
        case MapType(), MapType():
            entries = _as_lists(array)
            keys, items = entries.flatten().flatten()
            keys = cast_column(keys, source.key, target.key, settings)
            items = cast_column(items, source.value, target.value, settings)
            bounds, nulls = _bounds(entries), array.is_null()
            return pa.MapArray.from_arrays(bounds, keys, items, type=arrow_type, mask=nulls)
        case _:
            return cast_array(array, source, target, dialect=settings.dialect, zone=settings.zone)


def fit_column(array: Array, arrow_type: Any) -> Array:
    """Give a column another Arrow type of the same Paimon type.

    Arrow's own cast refuses a null row with NOT NULL fields, although these are null only below it.
    """
    held: Any = array.type
    if not has_required_fields(arrow_type) or held.id != arrow_type.id:
        return array.cast(arrow_type)
    nulls = array.is_null()
    if pat.is_map(arrow_type):
        entries = _as_lists(array)
        keys, items = entries.flatten().flatten()
        parts: Any = (
            fit_column(keys, arrow_type.key_type),
            fit_column(items, arrow_type.item_type),
        )
        return pa.MapArray.from_arrays(_bounds(entries), *parts, type=arrow_type, mask=nulls)
    if pat.is_list(arrow_type):
        elements = fit_column(array.flatten(), arrow_type.value_type)
        return pa.ListArray.from_arrays(_bounds(array), elements, type=arrow_type, mask=nulls)
    fields = list(arrow_type)
    if [field.name for field in held] != [field.name for field in fields]:
        return array.cast(arrow_type)
    columns = [
        fit_column(child, field.type) for child, field in zip(array.flatten(), fields, strict=True)
    ]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=nulls)


def _fields(array: Array, source: RowType, target: RowType, settings: CastSettings) -> list[Array]:
    children = {
        field.id: (child, field.type)
        for field, child in zip(source.fields, array.flatten(), strict=True)
    }
    columns = []
    for field in target.fields:
        child, held_type = children.get(field.id, (None, None))
        if child is None or held_type is None:
            missing: ArrowType = to_arrow_type(field.type)
            columns.append(pa.nulls(len(array), missing))
        else:
            columns.append(cast_column(child, held_type, field.type, settings))
    return columns


def _as_lists(array: Array) -> Array:
    """Return a column of maps as lists of (key, value)."""
    pairs = pa.struct([array.type.key_field, array.type.item_field])
    return array.view(pa.list_(pa.field("entries", pairs, nullable=False)))


def _bounds(lists: Array) -> Array:
    """Return where each list begins in the lists' flattened elements, and where the last ends."""
    lengths = values_of(pc.list_value_length(lists))
    bounds: Any = np.zeros(len(lists) + 1, np.int32)
    np.cumsum(with_nulls_as(lengths, lists, 0), out=bounds[1:])
    return pa.Array.from_buffers(pa.int32(), len(bounds), [None, pa.py_buffer(bounds)])
