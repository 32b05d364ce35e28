"""Predicate → mask of the rows of a batch that pass.

SQL's three-valued logic: a row passes only if the predicate is true. Predicates have no NOT over
other predicates, so an unknown part never makes the whole true, and leaves may return false for
"unknown".

Floating point compares as Java's `compareTo` does: NaN equals itself and is larger than every
number, -0.0 is smaller than 0.0. (Merges compare otherwise: see `data.key_order`.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import reduce
from typing import Any, TypeAlias, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.arrow_values import (
    UNIT_NANOS,
    to_scalar,
    total_order,
    total_order_words,
)
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.predicate.predicate import (
    And,
    CompareOp,
    Comparison,
    In,
    IsNull,
    Like,
    Or,
    Predicate,
    StartsWith,
)
from paimon_assets.engine.spec.types.data_types import TIMESTAMP_ROOTS, DataField

Mask: TypeAlias = Any
"""A `pa.BooleanArray` without nulls; the stubs do not know what kernels return."""

_COMPARE: Mapping[CompareOp, Callable[[Any, Any], Any]] = {
    CompareOp.EQ: pc.equal,
    CompareOp.NE: pc.not_equal,
    CompareOp.LT: pc.less,
    CompareOp.LE: pc.less_equal,
    CompareOp.GT: pc.greater,
    CompareOp.GE: pc.greater_equal,
}


def passing_rows(
    predicate: Predicate, column_of: Callable[[str], Any], fields: Mapping[str, DataField]
) -> Mask:
    """Evaluate a bound predicate."""
    match predicate:
        case And(children=children) | Or(children=children):
            masks = (passing_rows(child, column_of, fields) for child in children)
            return reduce(pc.and_ if isinstance(predicate, And) else pc.or_, masks)
        case IsNull(field=name, negated=negated):
            column = column_of(name)
            return pc.is_valid(column) if negated else pc.is_null(column)
        case StartsWith(field=name, prefix=prefix):
            return _true(pc.starts_with(column_of(name), prefix))
        case Like(field=name, pattern=pattern, negated=negated):
            matches: Any = pc.match_like(column_of(name), pattern)
            return _true(pc.invert(matches) if negated else matches)
        case Comparison(field=name, op=op, literal=literal):
            return _comparison(column_of(name), op, literal, fields[name])
        case In(field=name, literals=literals, negated=negated):
            return _membership(column_of(name), literals, fields[name], negated=negated)
        case _:
            assert_never(predicate)


def _true(mask: Any) -> Mask:
    return mask.fill_null(False) if mask.null_count else mask  # noqa: FBT003 - pyarrow's order


def _none(column: Any) -> Mask:
    return pa.repeat(pa.scalar(value=False), len(column))


def _comparison(column: Any, op: CompareOp, literal: Any, field: DataField) -> Mask:
    if literal is None:
        return _none(column)
    if field.type.root in TIMESTAMP_ROOTS:
        op, literal = _whole_units(op, int(literal), UNIT_NANOS[column.type.unit])
        if literal is None:
            return _true(pc.is_valid(column)) if op is CompareOp.NE else _none(column)
        return _compare(op, column.view(pa.int64()), pa.scalar(literal, pa.int64()))
    if pa.types.is_floating(column.type):
        return _compare_floats(op, column, float(literal), field)
    return _compare(op, column, to_scalar(literal, field.type))


def _compare_floats(op: CompareOp, column: Any, literal: float, field: DataField) -> Mask:
    """Compare numbers as Arrow does; a zero or NaN by its rank in Java's order."""
    if literal == 0 or math.isnan(literal):
        rank = pa.scalar(int(total_order_words(np.array([literal]))[0]), pa.uint64())
        return _compare(op, total_order(column), rank)
    mask = _compare(op, column, to_scalar(literal, field.type))
    if op in (CompareOp.GT, CompareOp.GE):
        return pc.or_(mask, _true(pc.is_nan(column)))
    return mask


def _whole_units(op: CompareOp, nanos: int, unit_nanos: int) -> tuple[CompareOp, int | None]:
    """Rewrite a comparison with nanoseconds into one with the column's unit.

    A literal between two values of the column equals no value (None); `<` becomes `<=` with the
    value below it. Literals beyond 64 bits become the first or last value.
    """
    whole, rest = divmod(nanos, unit_nanos)
    bound = 2**63 - 1
    if rest or not -bound <= whole <= bound:
        whole = max(-bound, min(whole, bound))
        match op:
            case CompareOp.EQ | CompareOp.NE:
                return op, None
            case CompareOp.LT | CompareOp.LE:
                return CompareOp.LE, whole
            case CompareOp.GT | CompareOp.GE:
                return CompareOp.GT, whole
            case _:
                assert_never(op)
    return op, whole


def _compare(op: CompareOp, column: Any, literal: Any) -> Mask:
    return _true(_COMPARE[op](column, literal))


def _membership(column: Any, literals: tuple[Any, ...], field: DataField, *, negated: bool) -> Mask:
    if negated and any(literal is None for literal in literals):
        return _none(column)
    values = [value for value in literals if value is not None]
    mask = pc.is_in(column, value_set=_value_set(values, field, column.type))
    return pc.and_(pc.invert(mask), pc.is_valid(column)) if negated else mask


def _value_set(literals: list[Any], field: DataField, arrow_type: Any) -> Any:
    """Return literals in the column's type, without those that it cannot hold: they equal nothing.

    `is_in` compares the bits of floating-point numbers: NaN equals NaN, the zeros differ.
    """
    values = []
    for literal in literals:
        with suppress(pa.ArrowInvalid, InvalidInputError):
            values.append(to_scalar(literal, field.type).cast(arrow_type))
    return pa.array(values, arrow_type)
