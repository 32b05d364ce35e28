"""Values as both sides can say them in JSON, drawn and compared; times are numbers.

TIMESTAMP, LTZ   nanoseconds since 1970        DATE      days          TIME    milliseconds
DECIMAL          text with all of its scale    FLOAT     text, Java's  BYTES   base64
ARRAY, ROW       lists                         MAP       pairs, in the order of their keys
"""

import base64
import math
from collections.abc import Sequence
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.codec.arrow.arrow_values import UNIT_NANOS
from paimon_assets.engine.spec.types.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)

Plain = Any
PlainRow = list[Plain]

_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}
_TEXTS = (
    "", " ", "a", "A", "b", "a b", "x=y", "50%", "a/b", "ä", "日本", 'q"u', "c:d", "#[]{}", "\\",
    "null", "__DEFAULT_PARTITION__", "a,b", "1", "-7", "true", "2024-02-29", "12.50",
    "\U0001f600", "aaaaaaaaaa",
)  # fmt: skip
_DOUBLES = (
    "0.0", "-0.0", "1.0", "-1.5", "0.1", "NaN", "Infinity", "-Infinity", "1e+22", "5e-324", "2.5",
    "1e+38", "1.7976931348623157e+308", "123456789.0",
)  # fmt: skip
_DAY_NANOS = 86_400 * 10**9
_FIRST_NANOS, _LAST_NANOS = -62_135_596_800 * 10**9, 253_402_300_800 * 10**9 - 1
"""The years 1 to 9999."""
_NARROW = 9_223_372_036 * 10**9
"""The range of 64 bits of nanoseconds, in whole seconds."""


def draw_value(chance: Random, data_type: DataType, *, wide: bool = True) -> Plain:
    """Draw a value that is not null."""
    match data_type:
        case ArrayType(element=element):
            return [_inner(chance, element, wide) for _ in range(chance.randint(0, 3))]
        case MapType(key=key, value=value):
            keys = _distinct(
                draw_value(chance, key, wide=wide) for _ in range(chance.randint(0, 3))
            )
            return [[each, _inner(chance, value, wide)] for each in keys]
        case MultisetType(element=element):
            keys = _distinct(
                draw_value(chance, element, wide=wide) for _ in range(chance.randint(0, 3))
            )
            return [[each, chance.randint(1, 3)] for each in keys]
        case RowType(fields=fields):
            return [_inner(chance, field.type, wide) for field in fields]
        case AtomicType():
            return _atomic(chance, data_type, wide)
        case _:
            raise TypeError(str(data_type))


def _inner(chance: Random, data_type: DataType, wide: bool) -> Plain:
    if data_type.nullable and chance.random() < 0.25:
        return None
    return draw_value(chance, data_type, wide=wide)


def _distinct(values: Any) -> list[Plain]:
    return sorted({repr(value): value for value in values}.values(), key=repr)


def _atomic(chance: Random, data_type: AtomicType, wide: bool) -> Plain:
    root = data_type.root
    if root in _BITS:
        limit = 2 ** (_BITS[root] - 1)
        return chance.choice((0, 1, -1, 2, 7, limit - 1, -limit, chance.randrange(-limit, limit)))
    match root:
        case TypeRoot.BOOLEAN:
            return chance.random() < 0.5
        case TypeRoot.FLOAT:
            return real(float(chance.choice(_DOUBLES)), root)
        case TypeRoot.DOUBLE:
            return real(float(chance.choice((*_DOUBLES, str(chance.uniform(-1e6, 1e6))))), root)
        case TypeRoot.DECIMAL:
            limit = 10 ** (data_type.precision or 1)
            number = chance.choice(
                (0, 1, -1, limit - 1, 1 - limit, chance.randrange(1 - limit, limit))
            )
            return decimal_text(number, data_type.scale or 0)
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            text = chance.choice(_TEXTS)[: data_type.length]
            return text.rstrip(" ") if root is TypeRoot.CHAR else text
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            length = min(data_type.length or 1, 6)
            count = length if root is TypeRoot.BINARY else chance.randint(0, length)
            return base64.b64encode(chance.randbytes(count)).decode()
        case TypeRoot.DATE:
            return chance.choice(
                (0, -1, 19_782, -719_162, 2_932_896, chance.randrange(-9999, 30_000))
            )
        case TypeRoot.TIME:
            unit = 10 ** max(0, 3 - (data_type.precision or 0))
            millis = chance.choice((0, 86_399_999, 3_600_000, chance.randrange(86_400_000)))
            return millis // unit * unit
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return _nanos(chance, data_type.precision or 0, wide)
        case _:
            raise TypeError(str(data_type))


def _nanos(chance: Random, precision: int, wide: bool) -> int:
    unit = 10 ** (9 - precision)
    first, last = (-_NARROW, _NARROW)
    if wide and precision <= 6:
        first, last = _FIRST_NANOS, _LAST_NANOS
    drawn: int = chance.choice(
        (0, -1, 1_709_164_800 * 10**9, first, last, chance.randrange(-(10**9), 10**9),
         chance.randrange(first, last), chance.randrange(-(10**18), 2 * 10**18))
    )  # fmt: skip
    if not wide and drawn < 0:  # the range of both sides' ORC files
        unit = max(unit, 10**6)
        drawn = min(-(10**9), drawn)
    least: int = -(-first // unit) * unit
    found: int = max(drawn // unit * unit, least)
    return found


def decimal_text(unscaled: int, scale: int) -> str:
    """Write a DECIMAL as Java does: all digits of its scale, no exponent."""
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return format(Decimal((int(unscaled < 0 and bool(unscaled)), digits, -scale)), "f")


def real(value: float, root: TypeRoot) -> str:
    """Write a FLOAT or DOUBLE so that equal numbers have one text."""
    if root is TypeRoot.FLOAT:
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def said(value: Any, data_type: DataType) -> Plain:
    """Return an answer of Java as values are written here."""
    if value is None:
        return None
    match data_type:
        case ArrayType(element=element):
            return [said(each, element) for each in value]
        case MapType(key=key, value=inner):
            return _order_pairs([[said(a, key), said(b, inner)] for a, b in value])
        case MultisetType(element=element):
            return _order_pairs([[said(a, element), b] for a, b in value])
        case RowType(fields=fields):
            return [said(each, field.type) for each, field in zip(value, fields, strict=True)]
        case _:
            root = data_type.root
            if root in {TypeRoot.FLOAT, TypeRoot.DOUBLE}:
                return real(float(value), root)
            return value


def sorted_lists(value: Plain) -> Plain:
    """Return a list in the order of its elements' texts."""
    return sorted(value, key=repr) if isinstance(value, list) else value


def _order_pairs(pairs: list[list[Plain]]) -> list[list[Plain]]:
    return sorted(pairs, key=repr)


def arrow_rows(rows: Sequence[PlainRow], fields: Sequence[DataField]) -> pa.Table:
    schema = to_arrow_schema(fields)
    columns = [
        pa.array(
            [_arrow(row[n], field.type, schema.field(n).type) for row in rows], schema.field(n).type
        )
        for n, field in enumerate(fields)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _arrow(value: Plain, data_type: DataType, arrow: Any) -> Any:
    if value is None:
        return None
    match data_type:
        case ArrayType(element=element):
            return [_arrow(each, element, arrow.value_type) for each in value]
        case MapType(key=key, value=inner):
            return [
                (_arrow(a, key, arrow.key_type), _arrow(b, inner, arrow.item_type))
                for a, b in value
            ]
        case MultisetType(element=element):
            return [(_arrow(a, element, arrow.key_type), b) for a, b in value]
        case RowType(fields=fields):
            return {
                field.name: _arrow(each, field.type, arrow.field(n).type)
                for n, (each, field) in enumerate(zip(value, fields, strict=True))
            }
        case _:
            return internal(value, data_type, arrow)


def internal(value: Plain, data_type: DataType, arrow: Any = None) -> Any:
    """Return an atomic value as Arrow takes it; without `arrow`, as predicates do."""
    match data_type.root:
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return float(value)
        case TypeRoot.DECIMAL:
            return Decimal(value)
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return base64.b64decode(value)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ if arrow is not None:
            return value // UNIT_NANOS[arrow.unit]
        case _:
            return value


def plain_rows(table: pa.Table, fields: Sequence[DataField]) -> list[PlainRow]:
    """Return the rows that we read, in the form of this module."""
    columns = []
    for field in fields:
        column: Any = table.column(field.name)
        chunks = column.chunks or [pa.array([], column.type)]
        columns.append(_plain(pa.concat_arrays(chunks), field.type))
    return [list(row) for row in zip(*columns, strict=True)]


def _plain(array: Any, data_type: DataType) -> list[Plain]:
    match data_type:
        case ArrayType(element=element):
            return _slices(array, _plain(array.values, element))
        case MapType(key=key, value=inner):
            pairs = zip(_plain(array.keys, key), _plain(array.items, inner), strict=True)
            return [
                each and _order_pairs(each) for each in _slices(array, [list(p) for p in pairs])
            ]
        case MultisetType(element=element):
            pairs = zip(_plain(array.keys, element), array.items.to_pylist(), strict=True)
            return [
                each and _order_pairs(each) for each in _slices(array, [list(p) for p in pairs])
            ]
        case RowType(fields=fields):
            parts = [
                _plain(part, field.type)
                for part, field in zip(array.flatten(), fields, strict=True)
            ]
            valid = array.is_valid().to_pylist()
            return [
                [part[n] for part in parts] if is_valid else None
                for n, is_valid in enumerate(valid)
            ]
        case _:
            return _plain_atomic(array, data_type.root)


def _slices(array: Any, inner: list[Plain]) -> list[Plain]:
    offsets, valid = array.offsets.to_pylist(), array.is_valid().to_pylist()
    return [inner[offsets[n] : offsets[n + 1]] if valid[n] else None for n in range(len(array))]


def _plain_atomic(array: Any, root: TypeRoot) -> list[Plain]:
    match root:
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            unit = UNIT_NANOS[array.type.unit]
            return [
                None if each is None else each * unit for each in array.cast(pa.int64()).to_pylist()
            ]
        case TypeRoot.DATE | TypeRoot.TIME:
            found = array.cast(pa.int32()).to_pylist()
            return list(found)
        case TypeRoot.CHAR | TypeRoot.VARCHAR:  # bytes that became texts may be no UTF-8
            texts = array.cast(pa.binary()).to_pylist()
            return [each if each is None else each.decode(errors="replace") for each in texts]
        case _:
            return _plain_other(array.to_pylist(), root)


def _plain_other(found: list[Any], root: TypeRoot) -> list[Plain]:
    match root:
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return [None if each is None else real(each, root) for each in found]
        case TypeRoot.DECIMAL:
            return [None if each is None else format(each, "f") for each in found]
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return [None if each is None else base64.b64encode(each).decode() for each in found]
        case _:
            return found
