"""DataType ⇄ pyarrow.DataType: the only mapping between the two.

pyarrow's Parquet writer refuses null rows whose fields may not be null; merges leave such rows, and
`without_nulls_below` mends them. Java sends arrays without rows without offsets, where pyarrow's
`nbytes` ends the process; `with_offsets` adds them.
Source: `org.apache.paimon.arrow.ArrowFieldTypeConversion`.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.types as pat
from msgspec.structs import replace

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.types import data_types as types

ArrowType = pa.DataType
_FRACTION_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
LTZ_ZONE = "UTC"
"""Zone of the Arrow type of TIMESTAMP WITH LOCAL TIME ZONE: the values are instants."""

_PLAIN: dict[types.TypeRoot, ArrowType] = {
    types.TypeRoot.BOOLEAN: pa.bool_(),
    types.TypeRoot.TINYINT: pa.int8(),
    types.TypeRoot.SMALLINT: pa.int16(),
    types.TypeRoot.INT: pa.int32(),
    types.TypeRoot.BIGINT: pa.int64(),
    types.TypeRoot.FLOAT: pa.float32(),
    types.TypeRoot.DOUBLE: pa.float64(),
    types.TypeRoot.CHAR: pa.string(),
    types.TypeRoot.VARCHAR: pa.string(),
    types.TypeRoot.BINARY: pa.binary(),
    types.TypeRoot.VARBINARY: pa.binary(),
    types.TypeRoot.DATE: pa.date32(),
    types.TypeRoot.TIME: pa.time32("ms"),
    types.TypeRoot.BLOB: pa.large_binary(),
    types.TypeRoot.VARIANT: pa.struct(
        [
            pa.field("value", pa.binary(), nullable=False),
            pa.field("metadata", pa.binary(), nullable=False),
        ]
    ),
}


def to_arrow_type(data_type: types.DataType) -> ArrowType:
    """Return the Arrow type of a column of `data_type`.

    Nullability of the type itself belongs to the Arrow *field* (`to_arrow_field`); that of inner
    types is kept.

    >>> from paimon_assets.engine.spec.types.type_text import parse_type
    >>> to_arrow_type(parse_type("TIMESTAMP(3) WITH LOCAL TIME ZONE"))
    TimestampType(timestamp[ms, tz=UTC])
    """
    match data_type:
        case types.ArrayType(element=element):
            return pa.list_(_inner_field("element", element))
        case types.MultisetType(element=element):
            return _map(element, pa.field("value", pa.int32(), nullable=False))
        case types.MapType(key=key, value=value):
            return _map(key, _inner_field("value", value))
        case types.VectorType(element=element, length=length):
            return pa.list_(_inner_field("element", element), length)
        case types.RowType(fields=fields):
            return pa.struct([to_arrow_field(field) for field in fields])
        case types.AtomicType(root=types.TypeRoot.DECIMAL):
            return pa.decimal128(data_type.precision or 0, data_type.scale or 0)
        case types.AtomicType(root=types.TypeRoot.TIMESTAMP | types.TypeRoot.TIMESTAMP_LTZ as root):
            unit = timestamp_unit(data_type.precision or 0)
            return timestamp_type(unit, None if root is types.TypeRoot.TIMESTAMP else LTZ_ZONE)
        case types.AtomicType(root=root):
            return _PLAIN[root]
        case _:
            raise TypeError(f"not a complete data type: {data_type!r}")


def _inner_field(name: str, data_type: types.DataType) -> "pa.Field[Any]":
    return pa.field(name, to_arrow_type(data_type), nullable=data_type.nullable)


def _map(key: types.DataType, value_field: Any) -> ArrowType:
    key_field: Any = pa.field("key", to_arrow_type(key), nullable=False)
    return cast("ArrowType", pa.map_(key_field, value_field))


def timestamp_unit(precision: int) -> str:
    """Return the coarsest Arrow unit that holds `precision` fraction digits of a second."""
    return next(unit for unit, digits in _FRACTION_DIGITS.items() if precision <= digits)


def timestamp_type(unit: str, zone: str | None) -> ArrowType:
    """Return Arrow's timestamp of a unit (`s`, `ms`, `us`, `ns`), in a zone or without one."""
    return pa.timestamp(unit, tz=zone)  # type: ignore[call-overload,no-any-return]  # a unit


def to_arrow_field(field: types.DataField) -> "pa.Field[Any]":
    return _inner_field(field.name, field.type)


def to_arrow_schema(fields: Sequence[types.DataField]) -> pa.Schema:
    return pa.schema([to_arrow_field(field) for field in fields])


def from_arrow_type(arrow_type: ArrowType, *, nullable: bool = True) -> types.DataType:
    """Return the Paimon type that holds every value of an Arrow type.

    For frames without a declared schema: unsigned integers widen, dictionaries count as their
    values, ids of nested fields are 0, 1, … per struct (`Schema.of` assigns real ones).

    >>> str(from_arrow_type(pa.timestamp("us"))), str(from_arrow_type(pa.uint32()))
    ('TIMESTAMP(6)', 'BIGINT')
    """
    plain = (known for arrow, known in _FROM_PLAIN if arrow.equals(arrow_type))
    found = _from_nested(arrow_type) or _from_parametrised(arrow_type) or next(plain, None)
    if found is None:
        message = f"Paimon has no type for Arrow's {arrow_type}; cast the column first."
        raise InvalidInputError(message, kind="arrow-type", arrow_type=str(arrow_type))
    return replace(found, nullable=nullable)


_FROM_PLAIN: tuple[tuple[ArrowType, types.AtomicType], ...] = (
    *((arrow, types.AtomicType(root=root)) for root, arrow in list(_PLAIN.items())[:7]),
    (pa.uint8(), types.AtomicType(root=types.TypeRoot.SMALLINT)),
    (pa.uint16(), types.AtomicType(root=types.TypeRoot.INT)),
    (pa.uint32(), types.AtomicType(root=types.TypeRoot.BIGINT)),
    (pa.uint64(), types.AtomicType(root=types.TypeRoot.DECIMAL, precision=20, scale=0)),
    (pa.float16(), types.AtomicType(root=types.TypeRoot.FLOAT)),
    (pa.date32(), types.AtomicType(root=types.TypeRoot.DATE)),
    (pa.date64(), types.AtomicType(root=types.TypeRoot.DATE)),
    *(
        (arrow, types.AtomicType(root=types.TypeRoot.VARCHAR, length=types.MAX_LENGTH))
        for arrow in (pa.string(), pa.large_string(), pa.string_view())
    ),
    *(
        (arrow, types.AtomicType(root=types.TypeRoot.VARBINARY, length=types.MAX_LENGTH))
        for arrow in (pa.binary(), pa.large_binary(), pa.binary_view())
    ),
)


def _from_parametrised(arrow_type: Any) -> types.AtomicType | None:
    if pat.is_timestamp(arrow_type):
        root = types.TypeRoot.TIMESTAMP_LTZ if arrow_type.tz else types.TypeRoot.TIMESTAMP
        return types.AtomicType(root=root, precision=_FRACTION_DIGITS[arrow_type.unit])
    if pat.is_time(arrow_type):
        return types.AtomicType(
            root=types.TypeRoot.TIME, precision=_FRACTION_DIGITS[arrow_type.unit]
        )
    if pat.is_fixed_size_binary(arrow_type):
        return types.AtomicType(root=types.TypeRoot.BINARY, length=arrow_type.byte_width)
    if pat.is_decimal(arrow_type):
        precision, scale = arrow_type.precision, arrow_type.scale
        if 0 <= scale <= precision <= types.MAX_DECIMAL_PRECISION:
            return types.AtomicType(root=types.TypeRoot.DECIMAL, precision=precision, scale=scale)
    return None


def _from_nested(arrow_type: Any) -> types.DataType | None:
    if pat.is_dictionary(arrow_type):
        return from_arrow_type(arrow_type.value_type)
    if pat.is_list(arrow_type) or pat.is_large_list(arrow_type):
        return types.ArrayType(element=_from_field(arrow_type.value_field))
    if pat.is_fixed_size_list(arrow_type):
        return types.VectorType(
            element=_from_field(arrow_type.value_field), length=arrow_type.list_size
        )
    if pat.is_map(arrow_type):
        key = from_arrow_type(arrow_type.key_type, nullable=False)
        return types.MapType(key=key, value=_from_field(arrow_type.item_field))
    if pat.is_struct(arrow_type) and arrow_type.num_fields:  # no file format has an empty one
        fields = tuple(
            types.DataField(id=position, name=field.name, type=_from_field(field))
            for position, field in enumerate(arrow_type)
        )
        return types.RowType(fields=fields)
    return None


def _from_field(field: "pa.Field[Any]") -> types.DataType:
    return from_arrow_type(field.type, nullable=field.nullable)


def without_nulls_below(table: pa.Table) -> pa.Table:
    """Take the nulls from fields that may have none, where the row around them is null."""
    for number, field in enumerate(table.schema):
        if has_required_fields(field.type):
            chunks = [_settle_nulls(chunk, required=False) for chunk in table.column(number).chunks]
            table = table.set_column(number, field, pa.chunked_array(chunks, field.type))
    return table


def has_required_fields(arrow_type: Any) -> bool:
    """Whether a row inside a type has a field that may not be null."""
    if pat.is_map(arrow_type):
        return has_required_fields(arrow_type.key_type) or has_required_fields(arrow_type.item_type)
    if pat.is_list(arrow_type):
        return has_required_fields(arrow_type.value_type)
    if not pat.is_struct(arrow_type):
        return False
    return any(not field.nullable or has_required_fields(field.type) for field in arrow_type)


def _settle_nulls(array: Any, *, required: bool) -> Any:
    held = array.type
    mask = None if required else array.is_null()
    if pat.is_struct(held):
        fields = list(held)
        columns = [
            _settle_nulls(child, required=not field.nullable)
            for child, field in zip(array.flatten(), fields, strict=True)
        ]
        return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)
    if array.offset and pat.is_nested(held):
        array = pa.concat_arrays([array])  # no slice: Arrow takes no mask beside sliced offsets
    if pat.is_map(held):
        items = _settle_nulls(array.items, required=not held.item_field.nullable)
        entries: Any = (array.offsets, array.keys, items)
        return pa.MapArray.from_arrays(*entries, type=held, mask=mask)
    if pat.is_list(held):
        inner = _settle_nulls(array.values, required=not held.value_field.nullable)
        return pa.ListArray.from_arrays(array.offsets, inner, type=held, mask=mask)
    if not required or not array.null_count:
        return array
    buffers = array.buffers()
    return pa.Array.from_buffers(held, len(array), [None, *buffers[1:]], offset=array.offset)


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch without rows, of any types: it carries the schema to check."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, each.type) for each in schema], schema=schema)


def with_offsets(array: Any) -> Any:
    """Return an array whose empty arrays, inside it too, have the offsets that pyarrow looks at."""
    kind = array.type
    if not len(array):
        return pa.nulls(0, kind)
    if pat.is_struct(kind):
        parts = [array.field(index) for index in range(kind.num_fields)]
    elif pat.is_map(kind):
        parts = [array.keys, array.items]
    elif pat.is_list(kind) or pat.is_large_list(kind):
        parts = [array.values]
    else:
        return array
    sound = [with_offsets(part) for part in parts]
    if all(part is each for part, each in zip(parts, sound, strict=True)):
        return array
    if pat.is_struct(kind):
        return pa.StructArray.from_arrays(sound, fields=list(kind), mask=array.is_null())
    if pat.is_map(kind):
        sound = [pa.StructArray.from_arrays(sound, fields=[kind.key_field, kind.item_field])]
    buffers, nulls = array.buffers()[:2], array.null_count
    return pa.Array.from_buffers(kind, len(array), buffers, nulls, array.offset, children=sound)


_TIME_DIGITS = 3
"""The time digits of a second: no format keeps more of a TIME."""


def infer_columns(schema: pa.Schema) -> dict[str, types.DataType]:
    """Return columns that hold rows of `schema` without loss, and can be written: name → type.

    Fixed-size lists become arrays, and times of a day TIME(3): rows with finer ones are refused
    when they are written.

    Raises:
        InvalidInputError: A column occurs twice, or is of an Arrow type no Paimon type can hold;
            names type and column.
    """
    twice = _repeat(schema.names)
    if twice:
        message = f"Column '{twice}' occurs twice; drop or rename one of them."
        raise InvalidInputError(message, kind="input-columns", column=twice)
    columns = {}
    for field in schema:
        try:
            columns[field.name] = inferred_type(field.type, nullable=field.nullable)
        except InvalidInputError as error:
            message = f"Column '{field.name}' cannot be stored: {error.message}"
            raise error.with_message(message, column=field.name) from error
    return columns


def inferred_type(arrow_type: pa.DataType, *, nullable: bool = True) -> types.DataType:
    """Return the type of a column made for values of an Arrow type; refuses types without one."""
    return _writable(from_arrow_type(arrow_type, nullable=nullable))


def _writable(data_type: types.DataType) -> types.DataType:
    match data_type:
        case types.AtomicType(root=types.TypeRoot.TIME):
            return replace(data_type, precision=min(data_type.precision or 0, _TIME_DIGITS))
        case types.ArrayType(element=element):
            return replace(data_type, element=_writable(element))
        case types.VectorType(element=element):
            return types.ArrayType(nullable=data_type.nullable, element=_writable(element))
        case types.MapType(key=key, value=value):
            return replace(data_type, key=_writable(key), value=_writable(value))
        case types.RowType(fields=fields):
            twice = _repeat([field.name for field in fields])
            if twice:
                message = f"it is a struct that names '{twice}' twice; rename one of them."
                raise InvalidInputError(message, kind="arrow-type")
            typed = tuple(replace(field, type=_writable(field.type)) for field in fields)
            return replace(data_type, fields=typed)
        case _:
            return data_type


def _repeat(names: list[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)
