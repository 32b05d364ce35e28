"""MySQL's column types as texts, as in Canal's `mysqlType` → types and encodings."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_assets.cdc.records.change_batch import CdcOptions, TypeMapping
from paimon_assets.cdc.records.json_columns import Values, kernels
from paimon_assets.cdc.records.values import BYTES, Array, Encoding, fields_of, from_texts
from paimon_assets.engine.codec.arrow.numpy_columns import binary_of, parts_of_texts, to_numpy
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.types.data_types import (
    BINARY_ROOTS,
    CHARACTER_ROOTS,
    MAX_DECIMAL_PRECISION,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    TypeRoot,
    bigint,
    boolean,
    decimal,
    integer,
    string,
    timestamp,
)

_TYPE = re.compile(
    r"\s*(?P<name>[a-z ]*[a-z])\s*(?:\((?P<size>.*)\))?(?P<more>[a-z ]*)", re.IGNORECASE | re.DOTALL
)
_MEMBER = re.compile(r"'((?:[^']|'')*)'")
_DECIMALS = frozenset({"NUMERIC", "FIXED", "DECIMAL", "DEC"})
AS_TEXTS = "CdcOptions(type_mapping=frozenset({TypeMapping.TO_STRING}))"
_UNSIZED_DECIMAL = (38, 18)
_TEXTS = (
    *("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "JSON", "ENUM", "STRING"),
    *("GEOMETRY", "POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING"),
    *("MULTIPOLYGON", "GEOMETRYCOLLECTION", "GEOMCOLLECTION"),
)
_WHOLE = {
    "TINYINT": TypeRoot.TINYINT,
    "SMALLINT": TypeRoot.SMALLINT,
    "MEDIUMINT": TypeRoot.INT,
    "INT": TypeRoot.INT,
    "INTEGER": TypeRoot.INT,
    "BIGINT": TypeRoot.BIGINT,
    "LONG": TypeRoot.BIGINT,
    "SERIAL": TypeRoot.BIGINT,
}
_DOUBLE = AtomicType(root=TypeRoot.DOUBLE)
_SIMPLE: Mapping[str, DataType] = {
    "BOOLEAN": boolean(),
    "BOOL": boolean(),
    "YEAR": integer(),
    "FLOAT": AtomicType(root=TypeRoot.FLOAT),
    **dict.fromkeys(("REAL", "DOUBLE", "DOUBLE PRECISION"), _DOUBLE),
    "DATE": AtomicType(root=TypeRoot.DATE),
    **dict.fromkeys(("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"), BYTES),
    "SET": ArrayType(element=string()),
    **dict.fromkeys(_TEXTS, string()),
}
_WIDER = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT)
_JDBC_DATETIME = 19
"""Characters of a DATETIME without a fraction, which JDBC gives as its length."""
_MOST_FRACTION = 9


def mysql_type(text: str, options: CdcOptions) -> DataType:
    """Return the type of a MySQL column, as Paimon's Flink actions map it.

    >>> [str(mysql_type(text, CdcOptions())) for text in ("int(11) unsigned", "decimal(10,2)")]
    ['BIGINT', 'DECIMAL(10, 2)']

    Raises:
        UnsupportedFeatureError: Kind `cdc-type`: the type is unknown.
    """
    modes = options.type_mapping
    if TypeMapping.TO_STRING in modes:
        return string()
    name, sizes, is_unsigned = _parse(text)
    size = sizes[0] if sizes else 0
    if name in _WHOLE:
        is_unsigned |= name == "SERIAL"
        return _whole(name, size, options, is_unsigned=is_unsigned)
    if name in _DECIMALS:
        precision, scale = (*sizes, 0)[:2] if sizes else _UNSIZED_DECIMAL
        return decimal(precision, scale) if precision <= MAX_DECIMAL_PRECISION else string()
    if name == "LONGTEXT" and TypeMapping.LONGTEXT_TO_BYTES in modes:
        return BYTES
    if name in _SIMPLE:
        return _SIMPLE[name]
    found = _sized_type(name, size, options)
    if found is None:
        message = f"MySQL's type '{text}' is not read; all columns are texts by {AS_TEXTS}."
        raise UnsupportedFeatureError(message, kind="cdc-type", type=text)
    return found


def _sized_type(name: str, size: int, options: CdcOptions) -> DataType | None:
    match name:
        case "BIT":
            short = AtomicType(root=TypeRoot.BINARY, length=(size + 7) // 8)
            return boolean() if size <= 1 else short
        case "TIME":
            return AtomicType(root=TypeRoot.TIME, precision=min(size, 3))
        case "DATETIME" | "TIMESTAMP":
            fraction = max(0, size - _JDBC_DATETIME - 1) if size >= _JDBC_DATETIME else size
            return timestamp(min(fraction, _MOST_FRACTION))
        case "CHAR" | "VARCHAR":
            is_text = not size or TypeMapping.CHAR_TO_STRING in options.type_mapping
            return string() if is_text else AtomicType(root=TypeRoot(name), length=size)
        case "BINARY" | "VARBINARY":
            return AtomicType(root=TypeRoot.VARBINARY, length=size) if size else BYTES
        case _:
            return None


def _parse(text: str) -> tuple[str, list[int], bool]:
    match = _TYPE.match(text)
    if match is None:
        return text, [], False
    words = f"{match['name']} {match['more']}".upper().split()
    is_unsigned = "UNSIGNED" in words
    name = " ".join(word for word in words if word not in ("UNSIGNED", "ZEROFILL", "SIGNED"))
    size = match["size"] or ""
    sizes = [int(part) for part in size.split(",")] if re.fullmatch(r"[\d\s,]+", size) else []
    return name, sizes, is_unsigned


def _whole(name: str, size: int, options: CdcOptions, *, is_unsigned: bool) -> DataType:
    modes = options.type_mapping
    if name == "TINYINT" and size == 1 and not is_unsigned:
        is_flag = TypeMapping.TINYINT1_NOT_BOOL not in modes
        return boolean() if is_flag else integer(TypeRoot.TINYINT)
    if not is_unsigned:
        return integer(_WHOLE[name])
    if _WHOLE[name] is TypeRoot.BIGINT:
        return bigint() if TypeMapping.BIGINT_UNSIGNED_TO_BIGINT in modes else decimal(20, 0)
    return integer(_WIDER[_WIDER.index(_WHOLE[name]) + 1])


def mysql_encoding(text: str, options: CdcOptions) -> Encoding:
    """Return the encoding of the texts in which Canal writes a MySQL column."""
    name, sizes, _ = _parse(text)
    data_type = mysql_type(text, options)
    members = [member.replace("''", "'") for member in _MEMBER.findall(text)]
    decode: Callable[[Array], Array] | None = None
    if name == "ENUM":
        decode = partial(_enum, members=members)
    elif isinstance(data_type, ArrayType):
        decode = partial(_sets, members=members)
    elif data_type.root in BINARY_ROOTS:
        decode = partial(_bits, length=(sizes[0] + 7) // 8) if name == "BIT" else _latin1
    elif data_type.root not in CHARACTER_ROOTS:
        decode = partial(from_texts, data_type=data_type)
    if decode is None:
        return Encoding(data_type, Values.texts)
    return Encoding(data_type, lambda values: decode(values.texts()))


def mysql_fields(columns: Mapping[str, str], options: CdcOptions) -> tuple[DataField, ...] | None:
    """Return the columns of a DDL event; None if it tells none, or one whose type is unknown."""
    try:
        types = {name: mysql_type(text, options) for name, text in columns.items()}
    except UnsupportedFeatureError:
        return None
    return fields_of(types) or None


def _enum(texts: Array, members: list[str]) -> Array:
    """Canal writes the number of the member, from 1; 0 is the empty text of a wrong value."""
    is_number = kernels.match_substring_regex(texts, "^[0-9]+$")
    numbers = kernels.if_else(is_number, texts, None).cast(pa.int64())
    most: Any = len(members)
    if kernels.any(kernels.greater(numbers, most)).as_py():
        raise pa.ArrowInvalid(f"an ENUM of {len(members)} values has no such number")
    words = pa.array(["", *members], pa.string()).take(numbers)
    return kernels.if_else(is_number, words, texts)


def _sets(texts: Array, members: list[str]) -> Array:
    """Canal writes bits, the lowest for the first member; or the members with commas."""
    distinct = kernels.unique(texts)
    sets = []
    for text in distinct.to_pylist():  # few: a SET has at most 64 members
        if text is None or not text.isdecimal():
            sets.append(None if text is None else [part for part in text.split(",") if part])
            continue
        bits = int(text)
        if bits >> len(members):
            raise pa.ArrowInvalid(f"a SET of {len(members)} values has no bits {bits}")
        sets.append([member for number, member in enumerate(members) if bits >> number & 1])
    return pa.array(sets, pa.list_(pa.string())).take(kernels.index_in(texts, value_set=distinct))


def _bits(texts: Array, length: int) -> Array:
    numbers = to_numpy(kernels.fill_null(texts.cast(pa.uint64()), 0))
    held = numbers.astype(">u8").view(np.uint8).reshape(-1, 8)
    if held[:, : 8 - length].any():
        raise pa.ArrowInvalid(f"it is no BIT of {length} bytes")
    ends = np.arange(len(texts) + 1) * length
    return binary_of(ends, held[:, 8 - length :].ravel(), texts)


def _latin1(texts: Array) -> Array:
    """Canal writes bytes as the characters of ISO 8859-1."""
    ends, data = parts_of_texts(texts)
    leads = data >= 0xC0
    if (data[leads] > 0xC3).any():
        raise pa.ArrowInvalid("its text has characters that are no bytes")
    if not leads.any():
        return binary_of(ends, data, texts)
    values = data.copy()
    first = np.flatnonzero(leads)
    values[first] = (data[first] & 3) << 6 | (data[first + 1] & 0x3F)
    stays = np.ones(len(data), dtype=np.bool_)
    stays[first + 1] = False
    kept = np.concatenate([[0], np.cumsum(stays)])
    return binary_of(kept[ends], values[stays], texts)
