"""Avro types ⇄ Arrow types, and columns between the two.

fastavro yields plain values, so a column is first built in the Arrow type that stores them
(numbers, bytes, lists, …) and then converted to its logical type, which copies only decimals.

    Avro                                stored as        logical type
    int date, time-millis               int32            date32, time32(ms)
    long timestamp-millis/-micros       int64            timestamp without zone (TIMESTAMP)
    long local-timestamp-millis/…       int64            timestamp in UTC (… WITH LOCAL TIME ZONE)
    bytes decimal                       binary           decimal128
    map; array of {key, value} "map"    map; list        map

The two kinds of timestamps have the opposite meaning of the Avro specification.
Source: `org.apache.paimon.format.avro.AvroSchemaConverter`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from paimon_assets.engine.codec.arrow.arrow_types import LTZ_ZONE, timestamp_type
from paimon_assets.engine.errors import FormatError, UnsupportedFeatureError

Json: TypeAlias = Any
Array: TypeAlias = "pa.Array[Any]"

_NAMESPACE = "org.apache.paimon.avro.generated"
_DECIMAL_BYTES = 16
_MOST_DIGITS = 38
_SIGN_BIT = 0x80
_INT_BITS = 32
_PRIMITIVES: Mapping[str, Any] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: Mapping[str, Any] = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "timestamp-millis": timestamp_type("ms", None),
    "timestamp-micros": timestamp_type("us", None),
    "local-timestamp-millis": timestamp_type("ms", LTZ_ZONE),
    "local-timestamp-micros": timestamp_type("us", LTZ_ZONE),
}
_PRIMITIVE_NAMES = {arrow_type: name for name, arrow_type in _PRIMITIVES.items()}
_LOGICAL_NAMES = {arrow_type: name for name, arrow_type in _LOGICAL.items()}


@dataclass(frozen=True, slots=True)
class Shape:
    """The Arrow shape of an Avro type."""

    stored: Any
    """Arrow type of fastavro's values."""
    logical: Any
    """Arrow type of the column."""
    inner: tuple[Shape, ...] = ()
    """The shapes of elements, of keys and values, or of fields."""

    def column(self, values: Sequence[Any]) -> Array:
        """Return values of fastavro as a column."""
        return self.read(pa.array(values, self.stored))

    def read(self, stored: Array) -> Array:
        """Turn a column of type `stored` into one of type `logical`."""
        if pat.is_decimal(self.logical):
            return _decimals(stored, self.logical)
        children = [shape.read(part) for shape, part in _inner(stored, self.inner)]
        return _retype(stored, self.logical, children)

    def write(self, logical: Array) -> Array:
        """Turn a column of type `logical` into one of type `stored`."""
        if pat.is_decimal(self.logical):
            return _decimal_bytes(logical)
        children = [shape.write(part) for shape, part in _inner(logical, self.inner)]
        return _retype(logical, self.stored, children)


def _retype(array: Any, target: Any, children: list[Any]) -> Array:
    """Return the same values under another type."""
    if not children:
        return array.view(target)  # type: ignore[no-any-return]
    is_struct = pat.is_struct(target)
    if len(children) > 1 and not is_struct:  # keys and values are in a struct of their own
        is_map = pat.is_map(target)
        entries = [target.key_field, target.item_field] if is_map else list(target.value_type)
        children = [pa.StructArray.from_arrays(children, fields=entries)]
    buffers = array.buffers()[: 1 if is_struct else 2]
    retyped: Array = pa.Array.from_buffers(target, len(array), buffers, children=children)
    return retyped


def _inner(array: Any, shapes: Sequence[Shape]) -> Iterator[tuple[Shape, Any]]:
    """Return the columns inside a column with their shapes: elements, entries, or fields."""
    if not shapes:
        return iter(())
    if pat.is_map(array.type):
        parts = [array.keys, array.items]
    else:
        fields = array.values if pat.is_list(array.type) else array
        entries = pat.is_struct(array.type) or len(shapes) > 1
        parts = [fields.field(number) for number in range(len(shapes))] if entries else [fields]
    return zip(shapes, parts, strict=True)


def shape_of(avro: Json) -> Shape:
    """Return the Arrow shape of an Avro type; every field may be null."""
    if isinstance(avro, list):
        branches = [branch for branch in avro if branch != "null"]
        if len(branches) != 1:
            raise FormatError(f"the union {avro} has more than one type")
        return shape_of(branches[0])
    avro_type = {"type": avro} if isinstance(avro, str) else avro
    match avro_type["type"]:
        case str(name) if name in _PRIMITIVES:
            return Shape(_PRIMITIVES[name], _logical_type(avro_type))
        case "record":
            return _record_shape(avro_type)
        case "array" if avro_type.get("logicalType") == "map":
            key, value = _record_shape(avro_type["items"]).inner
            entry = pa.struct([pa.field("key", key.stored), pa.field("value", value.stored)])
            return Shape(pa.list_(entry), pa.map_(key.logical, value.logical), (key, value))
        case "array":
            element = shape_of(avro_type["items"])
            return Shape(pa.list_(element.stored), pa.list_(element.logical), (element,))
        case "map":
            key, value = shape_of("string"), shape_of(avro_type["values"])
            stored, logical = pa.map_(key.stored, value.stored), pa.map_(key.logical, value.logical)
            return Shape(stored, logical, (key, value))
        case dict() | list() as inner:
            return shape_of(inner)
        case other:
            raise FormatError(f"the type {other!r} is not one that Paimon writes")


def texts_as_bytes(arrow_type: Any) -> Any:
    """Return a type with bytes in place of texts, at any depth."""

    def inner(field: Any) -> Any:
        return field.with_type(texts_as_bytes(field.type))

    if pat.is_string(arrow_type):
        return pa.binary()
    if pat.is_list(arrow_type):
        return pa.list_(inner(arrow_type.value_field))
    if pat.is_map(arrow_type):
        return pa.map_(inner(arrow_type.key_field), inner(arrow_type.item_field))
    return (
        pa.struct([inner(field) for field in arrow_type])
        if pat.is_struct(arrow_type)
        else arrow_type
    )


def _record_shape(avro: Json) -> Shape:
    fields = [(field["name"], shape_of(field["type"])) for field in avro["fields"]]
    return Shape(
        pa.struct([pa.field(name, shape.stored) for name, shape in fields]),
        pa.struct([pa.field(name, shape.logical) for name, shape in fields]),
        tuple(shape for _, shape in fields),
    )


def _logical_type(avro: Json) -> Any:
    logical = avro.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(avro["precision"], avro.get("scale", 0))
    return _LOGICAL.get(logical, _PRIMITIVES[avro["type"]])


def _decimals(stored: Any, data_type: Any) -> Array:
    """Turn big-endian two's complement numbers of any length into decimals."""
    count = len(stored)
    ends = np.frombuffer(stored.buffers()[1], dtype=np.int32, count=count + 1).astype(np.int64)
    lengths = np.diff(ends)
    if lengths.max(initial=0) > _DECIMAL_BYTES:
        raise FormatError(f"a decimal of {lengths.max()} bytes is longer than {data_type} can be")
    data = np.frombuffer(stored.buffers()[2] or b"", dtype=np.uint8)
    numbers = np.zeros((count, _DECIMAL_BYTES), dtype=np.uint8)
    filled = np.flatnonzero(lengths)
    numbers[filled[data[ends[filled]] >= _SIGN_BIT]] = 0xFF
    of_row = np.repeat(np.arange(count), lengths)
    positions = np.arange(int(ends[-1] - ends[0])) - np.repeat(ends[:-1] - ends[0], lengths)
    numbers[of_row, positions + _DECIMAL_BYTES - lengths[of_row]] = data[ends[0] : ends[-1]]
    content: Any = np.ascontiguousarray(numbers[:, ::-1])
    buffers = [stored.buffers()[0], pa.py_buffer(content)]
    return _within(pa.Array.from_buffers(data_type, count, buffers))


def _within(decimals: Any) -> Array:
    """Replace numbers with more digits than their type by null, as Java does."""
    precision, scale = decimals.type.precision, decimals.type.scale
    wide = pa.decimal128(_MOST_DIGITS, scale)
    numbers = decimals.view(wide)
    least, most = (pa.scalar(Decimal((sign, (9,) * precision, -scale)), wide) for sign in (1, 0))
    fits: Any = pc.and_(pc.greater_equal(numbers, least), pc.less_equal(numbers, most))
    if pc.all(fits, min_count=0).as_py():
        return decimals  # type: ignore[no-any-return]  # an array, as it came
    result: Any = pc.if_else(fits, decimals, pa.scalar(None, decimals.type))
    return result  # type: ignore[no-any-return]  # an array, as its arguments are


def _decimal_bytes(decimals: Any) -> Array:
    """Convert decimals to big-endian two's complement numbers of 16 bytes."""
    count = len(decimals)
    content = decimals.buffers()[1]
    start = decimals.offset * _DECIMAL_BYTES
    words = np.frombuffer(content, dtype=np.uint8, count=count * _DECIMAL_BYTES, offset=start)
    numbers: Any = np.ascontiguousarray(words.reshape(count, _DECIMAL_BYTES)[:, ::-1])
    fixed = pa.Array.from_buffers(
        pa.binary(_DECIMAL_BYTES), count, [None, pa.py_buffer(numbers)]
    ).cast(pa.binary())
    valid: Any = decimals.is_valid()
    result: Any = pc.if_else(valid, fixed, pa.scalar(None, pa.binary()))
    return result  # type: ignore[no-any-return]  # an array, as its arguments are


def avro_record(schema: pa.Schema, name: str = "record") -> dict[str, Json]:
    """Return the Avro record that stores columns of an Arrow schema."""
    return {
        "type": "record",
        "name": name,
        "namespace": _NAMESPACE,
        "fields": [_avro_field(field, f"{name}_{field.name}") for field in schema],
    }


def _avro_field(field: Any, name: str) -> dict[str, Json]:
    result = {"name": field.name, "type": _avro_type(field, name)}
    return {**result, "default": None} if field.nullable else result


def _avro_type(field: Any, name: str) -> Json:
    plain = _plain_type(field, name)
    return ["null", plain] if field.nullable else plain


def _plain_type(field: Any, name: str) -> Json:
    arrow_type = field.type
    if pat.is_decimal(arrow_type):
        precision, scale = arrow_type.precision, arrow_type.scale
        return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    if pat.is_list(arrow_type):
        return {"type": "array", "items": _avro_type(arrow_type.value_field, name)}
    if pat.is_struct(arrow_type):
        fields = [_avro_field(inner, f"{name}_{inner.name}") for inner in arrow_type]
        return {"type": "record", "name": name, "fields": fields}
    if pat.is_map(arrow_type):
        return _map_type(arrow_type, name)
    if pat.is_timestamp(arrow_type) and arrow_type.unit == "s":
        arrow_type = timestamp_type("ms", arrow_type.tz)
    if pat.is_integer(arrow_type) and arrow_type.bit_width < _INT_BITS:
        arrow_type = pa.int32()
    if arrow_type in _LOGICAL_NAMES:
        stored = "int" if arrow_type.bit_width == _INT_BITS else "long"
        return {"type": stored, "logicalType": _LOGICAL_NAMES[arrow_type]}
    if arrow_type in _PRIMITIVE_NAMES:
        return _PRIMITIVE_NAMES[arrow_type]
    raise UnsupportedFeatureError(
        f"Column '{field.name}' of Arrow type {field.type} cannot be stored in an Avro file; use"
        " another file format.",
        kind="avro-type",
        details={"column": field.name, "type": str(field.type)},
    )


def _map_type(arrow_type: Any, name: str) -> Json:
    if pat.is_string(arrow_type.key_type):
        return {"type": "map", "values": _avro_type(arrow_type.item_field, name)}
    fields = [
        {"name": "key", "type": _avro_type(arrow_type.key_field, f"{name}_key")},
        _avro_field(arrow_type.item_field.with_name("value"), f"{name}_value"),
    ]
    record = {"type": "record", "name": name, "fields": fields}
    return {"type": "array", "logicalType": "map", "items": record}
