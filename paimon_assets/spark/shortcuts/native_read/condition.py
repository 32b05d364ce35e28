"""A predicate as a condition in Spark's SQL, where both agree on every value."""

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, assert_never

from paimon_assets.engine.codec.arrow.arrow_values import to_scalar
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types import data_types as types
from paimon_assets.spark.types import compares_as_spark, quote

_MOST_PARTS = 200
"""Conditions side by side: Spark nests them, and its stack ends before its memory."""
_MICRO_NANOS = 1000
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock
_LONG_BITS = 63


def to_condition(predicate: pred.Predicate, schema: TableSchema) -> str | None:
    """Return Spark's SQL that is true for exactly the rows of a bound predicate, None if none is.

    A predicate that may differ for some value has none (`compares_as_spark`). It is one text: a
    column put together in Python asks the JVM a dozen times for each comparison.
    """
    match predicate:
        case pred.And(children=children) | pred.Or(children=children):
            if len(children) > _MOST_PARTS:
                return None
            join = " AND " if isinstance(predicate, pred.And) else " OR "
            return _join([to_condition(child, schema) for child in children], join)
        case _:
            data_type = schema.column(predicate.field).type
            return _leaf(predicate, data_type) if compares_as_spark(data_type) else None


def _join(parts: Sequence[str | None], separator: str) -> str | None:
    known = [part for part in parts if part is not None]
    return f"({separator.join(known)})" if known and len(known) == len(parts) else None


def _leaf(predicate: pred.Leaf, data_type: types.DataType) -> str | None:
    column = quote(predicate.field)
    match predicate:
        case pred.IsNull(negated=negated):
            return f"{column} IS NOT NULL" if negated else f"{column} IS NULL"
        case pred.StartsWith(prefix=prefix):
            return f"startswith({column}, {_string(prefix)})"
        case pred.Like(pattern=pattern, negated=negated):
            return f"{column} {'NOT ' if negated else ''}LIKE {_string(pattern)}"
        case pred.Comparison(op=op, literal=literal):
            value = _literal(literal, data_type)
            return None if value is None else f"{column} {op.value} {value}"
        case pred.In(literals=literals, negated=negated):
            values = _join([_literal(literal, data_type) for literal in literals], ", ")
            return None if values is None else f"{column} {'NOT IN' if negated else 'IN'} {values}"
        case pred.Applied():
            return None
        case _:
            assert_never(predicate)


def _literal(value: Any, data_type: types.DataType) -> str | None:
    """Return a bound literal; None for null, and for values beyond Spark's type."""
    root = data_type.root
    if value is None:
        return None
    if root in types.INTEGER_ROOTS:
        return str(value) if -(2**_LONG_BITS) <= value < 2**_LONG_BITS else None
    try:
        if root in types.TIMESTAMP_ROOTS:
            micros, rest = divmod(value, _MICRO_NANOS)
            instant = (_EPOCH + dt.timedelta(microseconds=micros)).isoformat(sep=" ")
            is_local = root is types.TypeRoot.TIMESTAMP
            text = f"timestamp_ntz'{instant}'" if is_local else f"timestamp_ltz'{instant}Z'"
            return None if rest else text
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
