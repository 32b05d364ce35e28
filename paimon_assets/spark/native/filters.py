"""Predicates as conditions of Spark, where both mean the same rows.

What is not certain to agree for every value has none: floating point (Spark's NaN equals itself and
is above all numbers), binaries, nested columns, times finer than Spark's microseconds.
"""

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, assert_never

from paimon_assets.engine.codec.arrow.arrow_values import to_scalar
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.predicate.predicate import (
    And,
    Comparison,
    In,
    IsNull,
    Leaf,
    Like,
    Or,
    Predicate,
    StartsWith,
)
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import (
    CHARACTER_ROOTS,
    INTEGER_ROOTS,
    TIMESTAMP_ROOTS,
    DataType,
    TypeRoot,
)
from paimon_assets.spark.types import quoted

_SAME_ORDER = (
    INTEGER_ROOTS
    | CHARACTER_ROOTS
    | TIMESTAMP_ROOTS
    | {TypeRoot.BOOLEAN, TypeRoot.DECIMAL, TypeRoot.DATE}
)
_MICROS = 6
_MOST_PARTS = 200
"""Conditions side by side: Spark nests them, and its stack ends before its memory."""


def compares_as_spark(data_type: DataType) -> bool:
    """Whether Spark and this engine agree on equality and order of all values of a type."""
    root = data_type.root
    precision = getattr(data_type, "precision", None) or 0
    return root in _SAME_ORDER and (root not in TIMESTAMP_ROOTS or precision <= _MICROS)


_MICRO_NANOS = 1000
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock
_LONG_BITS = 63


def to_condition(predicate: Predicate, schema: TableSchema) -> str | None:
    """Return Spark's SQL that is true for exactly the rows of a bound predicate, None if none is.

    Columns are named as in the schema. It is one text: a column put together in Python asks the
    JVM a dozen times for each comparison.
    """
    match predicate:
        case And(children=children) | Or(children=children):
            if len(children) > _MOST_PARTS:
                return None
            join = " AND " if isinstance(predicate, And) else " OR "
            return _join([to_condition(child, schema) for child in children], join)
        case _:
            data_type = schema.column(predicate.field).type
            return _leaf(predicate, data_type) if compares_as_spark(data_type) else None


def _join(parts: Sequence[str | None], separator: str) -> str | None:
    known = [part for part in parts if part is not None]
    return f"({separator.join(known)})" if known and len(known) == len(parts) else None


def _leaf(predicate: Leaf, data_type: DataType) -> str | None:
    column = quoted(predicate.field)
    match predicate:
        case IsNull(negated=negated):
            return f"{column} IS NOT NULL" if negated else f"{column} IS NULL"
        case StartsWith(prefix=prefix):
            return f"startswith({column}, {_string(prefix)})"
        case Like(pattern=pattern, negated=negated):
            return f"{column} {'NOT ' if negated else ''}LIKE {_string(pattern)}"
        case Comparison(op=op, literal=literal):
            value = _literal(literal, data_type)
            return None if value is None else f"{column} {op.value} {value}"
        case In(literals=literals, negated=negated):
            values = _join([_literal(literal, data_type) for literal in literals], ", ")
            return None if values is None else f"{column} {'NOT IN' if negated else 'IN'} {values}"
        case _:
            assert_never(predicate)


def _literal(value: Any, data_type: DataType) -> str | None:
    """Return a bound literal; None for null, and for values beyond Spark's type."""
    if value is None:
        return None
    if data_type.root in TIMESTAMP_ROOTS:
        return _moment(value, data_type.root)
    if data_type.root in INTEGER_ROOTS:
        return str(value) if -(2**_LONG_BITS) <= value < 2**_LONG_BITS else None
    try:
        plain = to_scalar(value, data_type).as_py()
    except (InvalidInputError, ValueError, OverflowError):
        return None
    match plain:
        case dt.date():
            return f"date'{plain.isoformat()}'"
        case Decimal():
            return f"{plain:f}BD"
        case str():
            return _string(plain)
        case _:
            return str(plain)


def _string(text: str) -> str:
    """Return a text as its bytes: how quotes and backslashes are read is a setting of Spark."""
    return f"CAST(X'{text.encode().hex()}' AS STRING)"


def _moment(nanos: int, root: TypeRoot) -> str | None:
    micros, rest = divmod(nanos, _MICRO_NANOS)
    if rest:
        return None
    try:
        moment = _EPOCH + dt.timedelta(microseconds=micros)
    except OverflowError:
        return None
    kind = "timestamp_ntz" if root is TypeRoot.TIMESTAMP else "timestamp_ltz"
    zone = "" if root is TypeRoot.TIMESTAMP else "Z"
    return f"{kind}'{moment.isoformat(sep=' ')}{zone}'"
