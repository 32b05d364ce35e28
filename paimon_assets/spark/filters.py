"""Spark's filters ⇄ predicates, where both mean the same rows.

    to_predicate    what Spark pushes down → a predicate for the engine
    to_column       a bound predicate → a condition for Spark

A filter that became a predicate is not evaluated again by Spark: what is not certain to agree for
every value stays with Spark. Left there are floating point (Spark's NaN equals itself and is above
all numbers), binaries, nested columns, times finer than Spark's microseconds, and texts by suffix.
"""

import datetime as dt
import operator
from collections.abc import Callable, Mapping
from functools import reduce
from operator import and_, or_
from typing import Any, assert_never

from pyspark.sql import Column
from pyspark.sql import functions as fn

from paimon_assets.engine.codec.arrow_values import to_scalar
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.predicate import (
    And,
    CompareOp,
    Comparison,
    In,
    IsNull,
    Leaf,
    Or,
    Predicate,
    StartsWith,
    bind,
    equal,
)
from paimon_assets.engine.spec.schema import TableSchema
from paimon_assets.engine.spec.types import (
    CHARACTER_ROOTS,
    INTEGER_ROOTS,
    TIMESTAMP_ROOTS,
    DataType,
    TypeRoot,
)

_SAME_ORDER = (
    INTEGER_ROOTS
    | CHARACTER_ROOTS
    | TIMESTAMP_ROOTS
    | {TypeRoot.BOOLEAN, TypeRoot.DECIMAL, TypeRoot.DATE}
)
_MICROS = 6
_COMPARE: Mapping[str, tuple[CompareOp, CompareOp]] = {
    "EqualTo": (CompareOp.EQ, CompareOp.NE),
    "GreaterThan": (CompareOp.GT, CompareOp.LE),
    "GreaterThanOrEqual": (CompareOp.GE, CompareOp.LT),
    "LessThan": (CompareOp.LT, CompareOp.GE),
    "LessThanOrEqual": (CompareOp.LE, CompareOp.GT),
}
"""Filter → what it compares with, and what its negation does."""


def compares_as_spark(data_type: DataType) -> bool:
    """Whether Spark and this engine agree on equality and order of all values of a type."""
    root = data_type.root
    precision = getattr(data_type, "precision", None) or 0
    return root in _SAME_ORDER and (root not in TIMESTAMP_ROOTS or precision <= _MICROS)


def to_predicate(pushed: Any, schema: TableSchema) -> Predicate | None:
    """Return a predicate of exactly the rows a filter passes, None if there is none.

    Args:
        pushed: A `pyspark.sql.datasource.Filter`; the classes came with Spark 4.1, so they are
            told apart by name.
        schema: Of the table.
    """
    kind, negated = type(pushed).__name__, False
    if kind == "Not":
        pushed = pushed.child
        kind, negated = type(pushed).__name__, True
    field = schema.by_name.get(pushed.attribute[0]) if len(pushed.attribute) == 1 else None
    make = _MAKERS.get(kind)
    if field is None or make is None or not compares_as_spark(field.type):
        return None
    predicate = make(field.name, pushed, negated)
    return predicate if predicate is not None and _can_bind(predicate, schema) else None


def _can_bind(predicate: Predicate, schema: TableSchema) -> bool:
    try:
        bind(predicate, schema)
    except InvalidInputError:
        # Spark compares after a cast of its own.
        return False
    return True


def _comparison(field: str, pushed: Any, negated: bool) -> Predicate | None:  # noqa: FBT001
    if pushed.value is None:
        return None
    return Comparison(field, _COMPARE[type(pushed).__name__][negated], pushed.value)


def _null_safe(field: str, pushed: Any, negated: bool) -> Predicate | None:  # noqa: FBT001
    # The negation is true for null, which no comparison is.
    return None if negated else equal(field, pushed.value)


def _membership(field: str, pushed: Any, negated: bool) -> Predicate | None:  # noqa: FBT001
    if any(value is None for value in pushed.value):
        return None
    return In(field, tuple(pushed.value), negated)


def _prefix(field: str, pushed: Any, negated: bool) -> Predicate | None:  # noqa: FBT001
    return None if negated else StartsWith(field, pushed.value)


_MAKERS: Mapping[str, Callable[[str, Any, bool], Predicate | None]] = {
    **dict.fromkeys(_COMPARE, _comparison),
    "EqualNullSafe": _null_safe,
    "In": _membership,
    "IsNull": lambda field, _, negated: IsNull(field, negated),
    "IsNotNull": lambda field, _, negated: IsNull(field, not negated),
    "StringStartsWith": _prefix,
}


_OPERATORS: Mapping[CompareOp, Callable[[Column, Column], Column]] = {
    CompareOp.EQ: operator.eq,
    CompareOp.NE: operator.ne,
    CompareOp.LT: operator.lt,
    CompareOp.LE: operator.le,
    CompareOp.GT: operator.gt,
    CompareOp.GE: operator.ge,
}
_MICRO_NANOS = 1000
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock
_LONG_BITS = 63


def to_column(predicate: Predicate, schema: TableSchema) -> Column | None:
    """Return a condition that is true for exactly the rows of a bound predicate, None if none is.

    Columns are named as in the schema.
    """
    match predicate:
        case And(children=children):
            return _joined([to_column(child, schema) for child in children], and_)
        case Or(children=children):
            return _joined([to_column(child, schema) for child in children], or_)
        case _:
            data_type = schema.column(predicate.field).type
            return _leaf(predicate, data_type) if compares_as_spark(data_type) else None


def _joined(parts: list[Column | None], join: Callable[[Column, Column], Column]) -> Column | None:
    known = [part for part in parts if part is not None]
    return reduce(join, known) if len(known) == len(parts) else None


def _leaf(predicate: Leaf, data_type: DataType) -> Column | None:
    column = fn.col(quoted(predicate.field))
    match predicate:
        case IsNull(negated=negated):
            return column.isNotNull() if negated else column.isNull()
        case StartsWith(prefix=prefix):
            return column.startswith(prefix)
        case Comparison(op=op, literal=literal):
            value = _literal(literal, data_type)
            return None if value is None else _OPERATORS[op](column, value)
        case In(literals=literals, negated=negated):
            values = [_literal(literal, data_type) for literal in literals]
            known = [value for value in values if value is not None]
            if not known or len(known) < len(values):
                return None
            return ~column.isin(known) if negated else column.isin(known)
        case _:
            assert_never(predicate)


def _literal(value: Any, data_type: DataType) -> Column | None:
    """Return a bound literal; None for null, and for what Spark's type cannot hold."""
    if value is None:
        return None
    if data_type.root in TIMESTAMP_ROOTS:
        return _moment(value, data_type.root)
    if data_type.root in INTEGER_ROOTS:
        return fn.lit(value) if -(2**_LONG_BITS) <= value < 2**_LONG_BITS else None
    try:
        return fn.lit(to_scalar(value, data_type).as_py())
    except (InvalidInputError, ValueError, OverflowError):
        return None


def _moment(nanos: int, root: TypeRoot) -> Column | None:
    micros, rest = divmod(nanos, _MICRO_NANOS)
    if rest:
        return None
    try:
        moment = _EPOCH + dt.timedelta(microseconds=micros)
    except OverflowError:
        return None
    kind = "timestamp_ntz" if root is TypeRoot.TIMESTAMP else "timestamp_ltz"
    zone = "" if root is TypeRoot.TIMESTAMP else "Z"
    return fn.expr(f"{kind}'{moment.isoformat(sep=' ')}{zone}'")


def quoted(name: str) -> str:
    """Return a column's name for `col`, whatever characters it has."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"
