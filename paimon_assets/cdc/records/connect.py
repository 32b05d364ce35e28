"""Schemas of Kafka Connect, as Debezium writes them into envelopes → encodings of columns.

    connect type + name of its meaning (`io.debezium.time.Date`) + parameters ─▶ Encoding

The schema tells Debezium's handling modes: decimals are `bytes`, `double` or `string`, times
`Timestamp` or `MicroTimestamp`. Bytes as texts (`binary.handling.mode`) it does not: declare them.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
from msgspec.structs import replace

from paimon_assets.cdc.records.change_batch import BinaryMode, CdcOptions, TypeMapping
from paimon_assets.cdc.records.json_columns import Values, kernels
from paimon_assets.cdc.records.mysql import AS_TEXTS, mysql_type
from paimon_assets.cdc.records.values import (
    BYTES,
    Array,
    Encoding,
    array_decoder,
    binary,
    clock_texts,
    fields_of,
    iso,
    iso_texts,
    map_decoder,
    numbers,
    numbers_as,
    reversed_bytes,
    row_decoder,
    too_many_digits,
    unavailable_texts,
    unscale,
    with_calendar,
)
from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.data.cast_losses import losses_of
from paimon_assets.engine.data.casting.casting import cast_array
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.types import data_types as types
from paimon_assets.engine.spec.types.cast_rules import supports_cast

Schema: TypeAlias = Mapping[str, Any]

_LTZ = types.AtomicType(root=types.TypeRoot.TIMESTAMP_LTZ, precision=6)
_TIME = types.AtomicType(root=types.TypeRoot.TIME, precision=3)
_DATE = types.AtomicType(root=types.TypeRoot.DATE)
_FLOAT, _DOUBLE = (
    types.AtomicType(root=types.TypeRoot.FLOAT),
    types.AtomicType(root=types.TypeRoot.DOUBLE),
)
_PLAIN: Mapping[str, types.DataType] = {
    "boolean": types.boolean(),
    "int8": types.integer(types.TypeRoot.TINYINT),
    "int16": types.integer(types.TypeRoot.SMALLINT),
    "int32": types.integer(),
    "int64": types.bigint(),
    "float": _FLOAT,
    "float32": _FLOAT,
    "double": _DOUBLE,
    "float64": _DOUBLE,
    "string": types.string(),
}
_CONNECT, _TIMES, _DATA = "org.apache.kafka.connect.data.", "io.debezium.time.", "io.debezium.data."
_TIME_TYPES: Mapping[str, tuple[types.DataType, str]] = {
    _TIMES + "Date": (_DATE, "s"),
    _CONNECT + "Date": (_DATE, "s"),
    _TIMES + "Time": (_TIME, "ms"),
    _CONNECT + "Time": (_TIME, "ms"),
    _TIMES + "MicroTime": (_TIME, "us"),
    _TIMES + "NanoTime": (_TIME, "ns"),
    _TIMES + "Timestamp": (types.timestamp(3), "ms"),
    _CONNECT + "Timestamp": (types.timestamp(3), "ms"),
    _TIMES + "MicroTimestamp": (types.timestamp(6), "us"),
    _TIMES + "NanoTimestamp": (types.timestamp(9), "ns"),
}
"""Name → type and unit of its numbers; dates are days."""
_ISO: Mapping[str, types.DataType] = {
    _TIMES + "IsoDate": _DATE,
    _TIMES + "IsoTime": _TIME,
    _TIMES + "IsoTimestamp": types.timestamp(6),
    _TIMES + "ZonedTimestamp": _LTZ,
}
_DECIMAL, _BITS = _CONNECT + "Decimal", _DATA + "Bits"
_VARIABLE = _DATA + "VariableScaleDecimal"
_SOURCE_TYPE, _SOURCE_LENGTH = "__debezium.source.column.type", "__debezium.source.column.length"
_SOURCE_SCALE = "__debezium.source.column.scale"
_WIDE = 76
_UNSIGNED_DIGITS = 20
_NOT_BOOL = "CdcOptions(type_mapping=frozenset({TypeMapping.TINYINT1_NOT_BOOL}))"


def encodings_of(struct: Schema, options: CdcOptions) -> dict[str, Encoding]:
    """Return the encodings of a row's columns.

    Raises:
        UnsupportedFeatureError: Kind `cdc-type`: a column of a type that has none here.
    """
    texts = unavailable_texts(options.unavailable) if options.unavailable else ()
    found = {}
    for column in struct.get("fields") or ():
        form = _as_source(_form(column, options), column, options)
        if TypeMapping.TO_STRING in options.type_mapping:
            form = _as_text(form)
        has_default = column.get("default") is not None
        found[str(column["field"])] = replace(form, unavailable=texts, has_default=has_default)
    return found


def row_schema(envelope: Schema) -> Schema:
    """Return the schema of the rows in an envelope's schema, or itself if it is flattened."""
    by_name = {column.get("field"): column for column in envelope.get("fields") or ()}
    if by_name.keys() >= {"ddl", "tableChanges"}:
        return {}  # a change of schemas has no row
    if "op" in by_name and ("after" in by_name or "before" in by_name):
        row: Schema = by_name.get("after") or by_name["before"]
        return row
    return envelope


def _form(schema: Schema, options: CdcOptions) -> Encoding:  # noqa: PLR0911
    kind, name = str(schema.get("type")), str(schema.get("name") or "")
    parameters: Mapping[str, str] = schema.get("parameters") or {}
    if name in _TIME_TYPES:
        data_type, unit = _TIME_TYPES[name]
        return Encoding(
            data_type,
            lambda values: numbers_as(values.numbers(), data_type, unit),
            as_text=lambda values: clock_texts(values.numbers(), unit),
        )
    if name in _ISO:
        data_type = _ISO[name]
        return Encoding(
            data_type,
            lambda values: iso(values.texts(), data_type),
            as_text=lambda values: iso_texts(values.texts(), data_type),
            is_iso=True,
        )
    if name.endswith(_DECIMAL) and kind == "bytes":
        return _decimal(parameters)
    if name == _VARIABLE:
        return Encoding(types.string(), _variable_decimals, is_number=True)
    if name == _BITS:
        length = (int(parameters.get("length", "1")) + 7) // 8
        bits = types.AtomicType(root=types.TypeRoot.BINARY, length=length)
        return Encoding(
            bits, lambda values: reversed_bytes(binary(values.texts(), BinaryMode.BASE64))
        )
    if kind == "bytes":
        return Encoding(BYTES, lambda values: binary(values.texts(), BinaryMode.BASE64))
    if kind == "array":
        element = _form(schema["items"], options)
        array = types.ArrayType(element=element.type)
        return Encoding(array, array_decoder(element.decode, array))
    if kind == "map" and schema["keys"].get("type") == "string":
        value = _form(schema["values"], options)
        mapping = types.MapType(key=replace(types.string(), nullable=False), value=value.type)
        return Encoding(mapping, map_decoder(value.decode, mapping))
    if kind == "struct" and not name.startswith(_DATA + "geometry."):
        inner = {str(part["field"]): _form(part, options) for part in schema["fields"]}
        row = types.RowType(fields=fields_of({key: form.type for key, form in inner.items()}))
        return Encoding(row, row_decoder([form.decode for form in inner.values()], row))
    is_text = kind not in _PLAIN and TypeMapping.TO_STRING in options.type_mapping
    if kind in ("map", "struct") or is_text:
        return Encoding(types.string(), Values.texts)  # as JSON
    if kind not in _PLAIN:
        raise UnsupportedFeatureError(
            f"Column '{schema.get('field')}' is of Connect's type '{kind}', which is not read; all "
            f"columns are texts by {AS_TEXTS}.",
            kind="cdc-type",
            column=str(schema.get("field")),
            type=kind,
        )
    plain = _PLAIN[kind]
    if plain == types.string():
        return Encoding(plain, Values.texts)
    return Encoding(plain, lambda values: numbers(values, plain))


def _decimal(parameters: Mapping[str, str]) -> Encoding:
    """Decimals as JSON numbers, or as base64 of the unscaled number."""
    scale = int(parameters.get("scale", "0"))
    digits = parameters.get("connect.decimal.precision")
    whole = _UNSIGNED_DIGITS if scale == 0 else types.MAX_DECIMAL_PRECISION
    precision = int(digits) if digits else whole
    if precision > types.MAX_DECIMAL_PRECISION or not 0 <= scale <= precision:
        return Encoding(
            types.string(),
            lambda values: _numbers(values, lambda texts: _wide(texts, scale), None),
            is_number=True,
        )
    kind = types.decimal(precision, scale)

    def exact(column: Array) -> Array:
        return unscale(column, scale, precision=precision)

    return Encoding(kind, lambda values: _numbers(values, exact, kind))


def _numbers(
    values: Values, of_bytes: Callable[[Array], Array], kind: types.DataType | None
) -> Array:
    quoted = values.starts_with('"')
    plain = values.where(~quoted)
    parsed = plain.texts() if kind is None else numbers(plain, kind)
    if not quoted.any():
        return parsed
    texts = values.where(quoted).texts()
    return kernels.coalesce(of_bytes(binary(texts, BinaryMode.BASE64)), parsed)


def _wide(column: Array, scale: int) -> Array:
    if abs(scale) > _WIDE:
        raise too_many_digits(_WIDE)
    texts = unscale(column, max(scale, 0), precision=_WIDE, width=32).cast(pa.string())
    more = kernels.binary_join_element_wise(texts, "0" * -scale, "")
    return kernels.if_else(kernels.equal(texts, "0"), texts, more)


def _variable_decimals(values: Values) -> Array:
    """Decimals of a scale each, as texts."""
    members = values.members()
    scales = kernels.fill_null(members["scale"].texts().cast(pa.int32()), 0)
    columns = binary(members["value"].texts(), BinaryMode.BASE64)
    found = pa.nulls(len(values), pa.string())
    for scale in kernels.unique(scales).to_pylist():
        inside: Any = kernels.equal(scales, scale)
        texts = _wide(kernels.if_else(inside, columns, None), scale)
        found = kernels.coalesce(found, texts)
    mask = from_numpy(values.has_value)
    return kernels.if_else(mask, found, None)


def _as_source(form: Encoding, schema: Schema, options: CdcOptions) -> Encoding:
    """Give a column the type of MySQL's column, if the connector tells it (`column.propagate`)."""
    parameters: Mapping[str, str] = schema.get("parameters") or {}
    name = str(parameters.get(_SOURCE_TYPE, "")).upper()
    if not name.startswith(("CHAR", "VARCHAR", "TINYINT", "LONGTEXT", "BIGINT UNSIGNED")):
        return form
    size = ",".join(parameters[key] for key in (_SOURCE_LENGTH, _SOURCE_SCALE) if key in parameters)
    word, _, rest = name.partition(" ")
    target = mysql_type(f"{word}({size}) {rest}" if size else name, options)
    if target == form.type or not supports_cast(form.type, target):
        return form

    def decode(values: Values) -> Array:
        losses = losses_of(form.decode(values), form.type, target)
        if losses.rows:
            raise pa.ArrowInvalid(f"it is no {target} ({name}); {_NOT_BOOL} keeps the numbers")
        if target != types.decimal(_UNSIGNED_DIGITS, 0):
            return losses.result
        # The connector's mode `long` gives numbers from 2^63 on as negative ones.
        is_wrapped = kernels.less(losses.result, pa.scalar(0, losses.result.type))
        shift = pa.scalar(Decimal(2**64), losses.result.type)
        shifted = kernels.add(losses.result, shift).cast(losses.result.type)
        return kernels.if_else(is_wrapped, shifted, losses.result)

    return Encoding(target, decode)


def _as_text(form: Encoding) -> Encoding:
    if form.type == types.string():
        return form
    if not supports_cast(form.type, types.string()):
        return Encoding(types.string(), Values.texts)
    if form.is_iso or form.type.root is types.TypeRoot.TIME:
        return Encoding(types.string(), form.as_text)
    decode = with_calendar(form, "has no text").decode
    return Encoding(
        types.string(), lambda values: cast_array(decode(values), form.type, types.string())
    )
