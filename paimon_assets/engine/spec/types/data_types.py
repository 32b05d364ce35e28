"""Paimon's data types as frozen values.

Source: https://paimon.apache.org/docs/master/concepts/data-types/ and `org.apache.paimon.types`.
"""

from collections.abc import Iterator
from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import TypeVar

from msgspec.structs import replace

from paimon_assets.engine.spec.values import Value

TypeT = TypeVar("TypeT", bound="DataType")

MAX_LENGTH = 2_147_483_647
"""Length of STRING (a VARCHAR) and BYTES (a VARBINARY)."""

MAX_DECIMAL_PRECISION = 38
MAX_TIMESTAMP_PRECISION = 9


class TypeRoot(StrEnum):
    """The family a type belongs to; the value is its name in type texts."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    VARIANT = "VARIANT"
    BLOB = "BLOB"
    ARRAY = "ARRAY"
    MULTISET = "MULTISET"
    MAP = "MAP"
    ROW = "ROW"
    VECTOR = "VECTOR"


INTEGER_ROOTS = frozenset({TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT})
CHARACTER_ROOTS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
BINARY_ROOTS = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})
TIMESTAMP_ROOTS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
BITMAP_ROOTS = (
    CHARACTER_ROOTS
    | INTEGER_ROOTS
    | TIMESTAMP_ROOTS
    | {TypeRoot.BOOLEAN, TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DATE, TypeRoot.TIME}
)
"""Types that a bitmap index takes."""
BLOOM_ROOTS = (BITMAP_ROOTS - {TypeRoot.BOOLEAN}) | BINARY_ROOTS
"""Types that a bloom filter takes."""


class DataType(Value):
    """Base of all types: a root and whether values may be null."""

    root: TypeRoot
    nullable: bool = True

    def __str__(self) -> str:
        return bare_text(self) + ("" if self.nullable else " NOT NULL")


class AtomicType(DataType):
    """A type without inner types; unused parameters are None."""

    length: int | None = None
    """Characters of CHAR/VARCHAR, bytes of BINARY/VARBINARY."""
    precision: int | None = None
    """Digits of DECIMAL, fraction digits of TIME/TIMESTAMP/TIMESTAMP_LTZ."""
    scale: int | None = None
    """Fraction digits of DECIMAL."""


class ArrayType(DataType):
    root: TypeRoot = TypeRoot.ARRAY
    element: DataType


class MultisetType(DataType):
    """MULTISET<element>; stored as a map from element to its count."""

    root: TypeRoot = TypeRoot.MULTISET
    element: DataType


class MapType(DataType):
    root: TypeRoot = TypeRoot.MAP
    key: DataType
    value: DataType


class VectorType(DataType):
    """VECTOR<element, length>: a list of fixed length."""

    root: TypeRoot = TypeRoot.VECTOR
    element: DataType
    length: int


class RowType(DataType):
    root: TypeRoot = TypeRoot.ROW
    fields: tuple["DataField", ...]


class DataField(Value):
    """A named, typed column (or nested field) with an id that never changes."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None
    """Text, cast to the column's type when a writer gets no value or null."""


def not_null(data_type: TypeT) -> TypeT:
    """Return the same type, refusing nulls."""
    return replace(data_type, nullable=False)


def boolean() -> AtomicType:
    return AtomicType(root=TypeRoot.BOOLEAN)


def integer(root: TypeRoot = TypeRoot.INT) -> AtomicType:
    """One of TINYINT, SMALLINT, INT, BIGINT."""
    return AtomicType(root=root)


def bigint() -> AtomicType:
    return AtomicType(root=TypeRoot.BIGINT)


def string() -> AtomicType:
    """STRING, that is VARCHAR(2147483647)."""
    return AtomicType(root=TypeRoot.VARCHAR, length=MAX_LENGTH)


def timestamp(precision: int = 6) -> AtomicType:
    """TIMESTAMP(precision), without zone."""
    return AtomicType(root=TypeRoot.TIMESTAMP, precision=precision)


def decimal(precision: int, scale: int) -> AtomicType:
    return AtomicType(root=TypeRoot.DECIMAL, precision=precision, scale=scale)


@lru_cache(maxsize=1024)
def bare_text(data_type: DataType) -> str:
    """Write a type without its nullability; atomic ones as Paimon's schema files do.

    >>> bare_text(decimal(10, 2)), bare_text(not_null(string())), bare_text(timestamp(3))
    ('DECIMAL(10, 2)', 'STRING', 'TIMESTAMP(3)')
    """
    root = data_type.root
    match data_type:
        case ArrayType(element=element) | MultisetType(element=element):
            return f"{root}<{element}>"
        case MapType(key=key, value=value):
            return f"MAP<{key}, {value}>"
        case VectorType(element=element, length=length):
            return f"VECTOR<{element}, {length}>"
        case RowType(fields=fields):
            return f"ROW<{', '.join(f'{field.name} {field.type}' for field in fields)}>"
        case AtomicType(root=TypeRoot.DECIMAL, precision=precision, scale=scale):
            return f"DECIMAL({precision}, {scale})"
        case AtomicType(root=TypeRoot.TIMESTAMP_LTZ, precision=precision):
            return f"TIMESTAMP({precision}) WITH LOCAL TIME ZONE"
        case AtomicType(root=TypeRoot.TIME | TypeRoot.TIMESTAMP, precision=precision):
            return f"{root}({precision})"
        case AtomicType(length=length) if root in CHARACTER_ROOTS | BINARY_ROOTS:
            unlimited = {TypeRoot.VARCHAR: "STRING", TypeRoot.VARBINARY: "BYTES"}
            is_short = length != MAX_LENGTH or root not in unlimited
            return f"{root}({length})" if is_short else unlimited[root]
        case _:
            return str(root)


def inner_types(data_type: DataType) -> tuple[DataType, ...]:
    """Return the types right inside a type."""
    match data_type:
        case RowType(fields=fields):
            return tuple(field.type for field in fields)
        case MapType(key=key, value=value):
            return key, value
        case ArrayType(element=element) | MultisetType(element=element):
            return (element,)
        case VectorType(element=element):
            return (element,)
        case _:
            return ()


def types_within(data_type: DataType) -> Iterator[DataType]:
    """Yield a type, and every type inside it, outer ones first."""
    yield data_type
    for inner in inner_types(data_type):
        yield from types_within(inner)


def nested_fields(data_type: DataType) -> Iterator[DataField]:
    """Yield every field inside `data_type`, outer ones first."""
    for row in types_within(data_type):
        if isinstance(row, RowType):
            yield from row.fields


class RowKind(IntEnum):
    """Kind of a change; the value is the byte stored in `_VALUE_KIND`."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def short_text(self) -> str:
        """The two characters people write: +I, -U, +U, -D."""
        return SHORT_TEXTS[self]

    @property
    def is_add(self) -> bool:
        """Whether the record adds a row (+I, +U) rather than retracting one (-U, -D)."""
        return self in (RowKind.INSERT, RowKind.UPDATE_AFTER)


SHORT_TEXTS = dict(zip(RowKind, ("+I", "-U", "+U", "-D"), strict=True))
BY_SHORT_TEXT = {text: kind for kind, text in SHORT_TEXTS.items()}
