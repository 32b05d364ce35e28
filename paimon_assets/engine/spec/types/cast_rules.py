"""Which type may become which: implicit casts, explicit casts, and those there are none of.

    column type ─▶ supports_cast ─▶ schema evolution allows or refuses the change
                                └▶ data.casting has a kernel for exactly these pairs

A cast is allowed where `org.apache.paimon.types.DataTypeCasts` allows it *and* Java Paimon 2.0 has
a rule that does it. Nullability is ignored: whether a column may become NOT NULL is decided
elsewhere.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from paimon_assets.engine.spec.types.data_types import (
    BINARY_ROOTS,
    CHARACTER_ROOTS,
    INTEGER_ROOTS,
    MAX_LENGTH,
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
)

Roots = frozenset[TypeRoot]

FLOAT_ROOTS: Roots = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
NUMERIC_ROOTS: Roots = INTEGER_ROOTS | FLOAT_ROOTS | {TypeRoot.DECIMAL}
DATETIME_ROOTS: Roots = TIMESTAMP_ROOTS | {TypeRoot.DATE, TypeRoot.TIME}
"""Dates, times, timestamps; Java casts them to STRING, but not to VARCHAR(n) or CHAR(n)."""

_WIDENED_INTEGERS = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT)


def _roots(*groups: TypeRoot | Iterable[TypeRoot]) -> Roots:
    found: set[TypeRoot] = set()
    for group in groups:
        found |= {group} if isinstance(group, TypeRoot) else set(group)
    return frozenset(found)


IMPLICIT: dict[TypeRoot, Roots] = {
    TypeRoot.BOOLEAN: frozenset(),
    **{
        root: frozenset(_WIDENED_INTEGERS[:position])
        for position, root in enumerate(_WIDENED_INTEGERS)
    },
    TypeRoot.FLOAT: _roots(INTEGER_ROOTS, TypeRoot.DECIMAL),
    TypeRoot.DOUBLE: NUMERIC_ROOTS - {TypeRoot.DOUBLE},
    TypeRoot.DECIMAL: NUMERIC_ROOTS,
    TypeRoot.CHAR: _roots(TypeRoot.CHAR),
    TypeRoot.VARCHAR: CHARACTER_ROOTS,
    TypeRoot.BINARY: _roots(TypeRoot.BINARY),
    TypeRoot.VARBINARY: BINARY_ROOTS,
    TypeRoot.DATE: _roots(TypeRoot.TIMESTAMP),
    TypeRoot.TIME: _roots(TypeRoot.TIMESTAMP),
    TypeRoot.TIMESTAMP: TIMESTAMP_ROOTS,
    TypeRoot.TIMESTAMP_LTZ: TIMESTAMP_ROOTS,
}
"""Target → sources whose values it takes without being asked, except for the same type."""

_TO_TEXT = _roots(NUMERIC_ROOTS, TypeRoot.BOOLEAN, CHARACTER_ROOTS, BINARY_ROOTS, DATETIME_ROOTS)
_TO_NUMBER = _roots(NUMERIC_ROOTS, TypeRoot.BOOLEAN, CHARACTER_ROOTS)
_TO_TIMESTAMP = _roots(DATETIME_ROOTS, CHARACTER_ROOTS, TypeRoot.INT, TypeRoot.BIGINT)

EXPLICIT: dict[TypeRoot, Roots] = {
    TypeRoot.BOOLEAN: _roots(INTEGER_ROOTS, CHARACTER_ROOTS),
    TypeRoot.TINYINT: _TO_NUMBER - {TypeRoot.TINYINT},
    TypeRoot.SMALLINT: _TO_NUMBER - {TypeRoot.SMALLINT},
    TypeRoot.INT: _roots(_TO_NUMBER, TIMESTAMP_ROOTS) - {TypeRoot.INT},
    TypeRoot.BIGINT: _roots(_TO_NUMBER, TIMESTAMP_ROOTS) - {TypeRoot.BIGINT},
    TypeRoot.FLOAT: _TO_NUMBER - {TypeRoot.FLOAT},
    TypeRoot.DOUBLE: _TO_NUMBER - {TypeRoot.DOUBLE},
    TypeRoot.DECIMAL: _TO_NUMBER,
    TypeRoot.CHAR: _TO_TEXT,
    TypeRoot.VARCHAR: _TO_TEXT,
    TypeRoot.BINARY: _roots(CHARACTER_ROOTS, BINARY_ROOTS),
    TypeRoot.VARBINARY: _roots(CHARACTER_ROOTS, BINARY_ROOTS),
    TypeRoot.DATE: _roots(TIMESTAMP_ROOTS, CHARACTER_ROOTS),
    TypeRoot.TIME: _roots(TIMESTAMP_ROOTS, CHARACTER_ROOTS),
    TypeRoot.TIMESTAMP: _TO_TIMESTAMP,
    TypeRoot.TIMESTAMP_LTZ: _TO_TIMESTAMP,
}
"""Target → sources that a change of type may ask for."""


def supports_cast(
    source: DataType, target: DataType, *, explicit: bool = True, float_to_boolean: bool = True
) -> bool:
    """Whether values of `source` may become values of `target`.

    ROW casts field by field of the same id, ARRAY, VECTOR and MAP cast their elements and values.

    >>> from paimon_assets.engine.spec.types.data_types import bigint, boolean, integer, string
    >>> supports_cast(integer(), bigint(), explicit=False), supports_cast(boolean(), string())
    (True, True)
    >>> supports_cast(integer(), string(), explicit=False)
    False
    """
    return (
        cast_refusal(source, target, explicit=explicit, float_to_boolean=float_to_boolean) is None
    )


def cast_refusal(
    source: DataType, target: DataType, *, explicit: bool = True, float_to_boolean: bool = True
) -> str | None:
    """Return why `source` cannot become `target`, or None if it can; for arguments see above.

    >>> from paimon_assets.engine.spec.types.data_types import boolean, decimal
    >>> cast_refusal(decimal(5, 2), boolean())
    'DECIMAL(5, 2) cannot become BOOLEAN'
    """
    if same_type(source, target):
        return None
    parts = _nested_parts(source, target)
    if parts is not None:
        refusals = (
            cast_refusal(inner, outer, explicit=explicit, float_to_boolean=float_to_boolean)
            for inner, outer in parts
        )
        return next((refusal for refusal in refusals if refusal), None)
    if _atomic_cast(source, target, explicit=explicit, float_to_boolean=float_to_boolean):
        return None
    if explicit or not _atomic_cast(source, target, explicit=True, float_to_boolean=True):
        return f"{_bare(source)} cannot become {_bare(target)}"
    return f"{_bare(source)} cannot become {_bare(target)} without an explicit cast"


def _atomic_cast(
    source: DataType, target: DataType, *, explicit: bool, float_to_boolean: bool
) -> bool:
    if not isinstance(source, AtomicType) or not isinstance(target, AtomicType):
        return False
    if source.root in IMPLICIT.get(target.root, ()):
        return True
    if not explicit:
        return False
    if source.root in FLOAT_ROOTS and target.root is TypeRoot.BOOLEAN:
        return float_to_boolean
    if source.root in DATETIME_ROOTS and target.root in CHARACTER_ROOTS:
        return target.root is TypeRoot.VARCHAR and target.length == MAX_LENGTH
    return source.root in EXPLICIT.get(target.root, ())


def _nested_parts(
    source: DataType, target: DataType
) -> tuple[tuple[DataType, DataType], ...] | None:
    """Return the pairs of inner types that must cast, or None if the pair is not nested alike."""
    match source, target:
        case RowType(), RowType():
            by_id = {field.id: field.type for field in source.fields}
            return tuple(
                (by_id[field.id], field.type) for field in target.fields if field.id in by_id
            )
        case ArrayType(), ArrayType():
            return ((source.element, target.element),)
        case VectorType(), VectorType() if source.length == target.length:
            return ((source.element, target.element),)
        case MapType(), MapType() if same_type(source.key, target.key):
            return ((source.value, target.value),)
        case _:
            return None


def same_type(source: DataType, target: DataType) -> bool:
    """Whether two types hold the same values; nullability and descriptions do not count."""
    return _bare(source) == _bare(target)


def is_widened_integer(source: DataType, target: DataType) -> bool:
    """Whether an integer type became a wider one: values, order and statistics stay the same."""
    if source.root not in _WIDENED_INTEGERS or target.root not in _WIDENED_INTEGERS:
        return False
    return _WIDENED_INTEGERS.index(source.root) < _WIDENED_INTEGERS.index(target.root)


def holds_integer(data_type: DataType, value: object) -> bool:
    """Whether an integer type has a value; null counts as one.

    >>> from paimon_assets.engine.spec.types.data_types import integer
    >>> holds_integer(integer(TypeRoot.TINYINT), 127), holds_integer(integer(TypeRoot.TINYINT), 128)
    (True, False)
    """
    limit = 1 << (8 << _WIDENED_INTEGERS.index(data_type.root)) - 1
    return value is None or (isinstance(value, int) and -limit <= value < limit)


def first_retyped(columns: Iterable[DataField], older: Mapping[int, DataField]) -> DataField | None:
    """Return the first column that an older schema holds in another type."""
    known = (column for column in columns if column.id in older)
    return next((each for each in known if not same_type(older[each.id].type, each.type)), None)


def _bare(data_type: DataType) -> DataType:
    match data_type:
        case ArrayType(element=element) | MultisetType(element=element):
            data_type = replace(data_type, element=_bare(element))
        case VectorType(element=element):
            data_type = replace(data_type, element=_bare(element))
        case MapType(key=key, value=value):
            data_type = replace(data_type, key=_bare(key), value=_bare(value))
        case RowType(fields=fields):
            bare = tuple(
                DataField(id=field.id, name=field.name, type=_bare(field.type)) for field in fields
            )
            data_type = replace(data_type, fields=bare)
        case _:
            pass
    return replace(data_type, nullable=True)
