"""Filters of polars → Predicate.

An Expr says which parts it has (`meta.pop`, the last one first), but not what it does with them: so
that is tried, and the result compared.
"""

from typing import Any

from paimon_assets.engine.spec.predicate.predicate import (
    CompareOp,
    Comparison,
    In,
    IsNull,
    Predicate,
    all_of,
    any_of,
)
from paimon_assets.engine.table.frames.arrow_filter import is_comparable


def weaker_filter(polars: Any, expression: Any) -> Predicate | None:
    """Return a filter that is true wherever a polars Expr is; None if there is none.

    Args:
        polars: The library.
        expression: The Expr.
    """
    parts = expression.meta.pop()[::-1]
    match parts:
        case [left, right] if expression.meta.eq(left & right):
            return all_of(weaker_filter(polars, side) for side in parts)
        case [left, right] if expression.meta.eq(left | right):
            sides = [weaker_filter(polars, side) for side in parts]
            return any_of([side for side in sides if side]) if None not in sides else None
        case [column, literal] if column.meta.is_column() and literal.meta.is_literal():
            return _comparison(polars, expression, column, literal, is_mirrored=False)
        case [literal, column] if column.meta.is_column() and literal.meta.is_literal():
            return _comparison(polars, expression, column, literal, is_mirrored=True)
        case [column] if column.meta.is_column():
            name = column.meta.output_name()
            if expression.meta.eq(column.is_null()):
                return IsNull(name)
            return IsNull(name, negated=True) if expression.meta.eq(column.is_not_null()) else None
        case _:
            return None


def _comparison(
    polars: Any, expression: Any, column: Any, literal: Any, *, is_mirrored: bool
) -> Predicate | None:
    name, value = column.meta.output_name(), polars.select(literal).to_series()
    values = value.to_list()
    if len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    if not all(one is not None and is_comparable(one) for one in values):
        return None
    if not is_mirrored and expression.meta.eq(column.is_in(literal)):
        return In(name, tuple(values))
    sides = (literal, column) if is_mirrored else (column, literal)
    for op in CompareOp:
        if len(values) == 1 and expression.meta.eq(op.compare(*sides)):
            return Comparison(name, op.mirrored if is_mirrored else op, values[0])
    return None
