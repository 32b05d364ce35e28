"""The value of a predicate for one row in SQL: the model for pruning and filters."""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from paimon_assets.engine.spec.predicate import predicate as pred

_OPERATORS = {
    pred.CompareOp.EQ: operator.eq,
    pred.CompareOp.NE: operator.ne,
    pred.CompareOp.LT: operator.lt,
    pred.CompareOp.LE: operator.le,
    pred.CompareOp.GT: operator.gt,
    pred.CompareOp.GE: operator.ge,
}


def truth(predicate: pred.Predicate, row: Mapping[str, Any]) -> bool | None:
    """Return SQL's answer for one row: True, False or None (unknown)."""
    match predicate:
        case pred.And(children=children):
            answers = [truth(child, row) for child in children]
            return False if False in answers else None if None in answers else True
        case pred.Or(children=children):
            answers = [truth(child, row) for child in children]
            return True if True in answers else None if None in answers else False
        case pred.IsNull(field=name, negated=negated):
            return (row[name] is None) != negated
        case pred.Applied(field=name, test=test):
            return truth(test, {name: result(predicate, row[name])})
        case _:
            value = row[predicate.field]
            return None if value is None else _leaf_truth(predicate, _sort_key(value))


_RESULTS: Mapping[str, Callable[[Any], Any]] = {
    "lower": str.lower,
    "upper": str.upper,
    "trim": lambda text: text.strip(" "),
    "length": len,
    "abs": abs,
    "year": operator.attrgetter("year"),
    "month": operator.attrgetter("month"),
    "day": operator.attrgetter("day"),
    "hour": operator.attrgetter("hour"),
    "cast INT": int,
    "cast STRING": str,
    "cast DATE": lambda time: time.date(),
    "cast BOOLEAN": bool,
}


def result(leaf: pred.Applied, value: Any) -> Any:
    """Return the result of a function for one value, as Python computes it."""
    if value is None:
        return leaf.argument if leaf.function == "coalesce" else None
    if leaf.function == "coalesce":
        return value
    name = f"cast {leaf.argument!s}" if leaf.function == "cast" else leaf.function
    return _RESULTS[name](value)


def _sort_key(value: Any) -> Any:
    """Give a floating-point number the place Java's `compareTo` gives it: NaN last, -0.0 < 0.0."""
    if not isinstance(value, float):
        return value
    return (1, 0.0, 0.0) if math.isnan(value) else (0, value, math.copysign(1, value))


def _leaf_truth(
    predicate: pred.Comparison | pred.In | pred.StartsWith | pred.Like, value: Any
) -> bool | None:
    match predicate:
        case pred.Comparison(op=op, literal=literal):
            return None if literal is None else bool(_OPERATORS[op](value, _sort_key(literal)))
        case pred.StartsWith(prefix=prefix):
            return bool(value.startswith(prefix))
        case pred.Like(pattern=pattern, negated=negated):
            return _is_like(value, pattern) is not negated
        case pred.In(literals=literals, negated=negated):
            if value in [_sort_key(literal) for literal in literals]:
                return not negated
            return None if None in literals else negated


def _is_like(text: str, pattern: str) -> bool:
    """Match a pattern character by character, as the standard words it."""
    if not pattern:
        return not text
    head, rest = pattern[0], pattern[1:]
    if head == "%":
        return any(_is_like(text[start:], rest) for start in range(len(text) + 1))
    if head == "\\":
        head, rest = rest[0], rest[1:]
        return text[:1] == head and _is_like(text[1:], rest)
    return bool(text) and (head == "_" or text[0] == head) and _is_like(text[1:], rest)
