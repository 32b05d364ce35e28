"""Can this partition, key range or file be skipped? Pure logic over bounds.

`may_match` answers False only if no row within the bounds can pass; in doubt it answers True.
"""

import math
from collections.abc import Callable
from typing import Any, assert_never

from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.values import Value


class Bounds(Value):
    """Bounds of a column's values; None is unknown."""

    minimum: Any = None
    maximum: Any = None
    null_count: int | None = None
    row_count: int | None = None
    is_exact: bool = False
    """Whether minimum and maximum are one value, that of every row, or every row is null: then the
    answer is exact, too."""

    @property
    def all_null(self) -> bool:
        """Whether every value is definitely null."""
        return self.null_count is not None and self.null_count == self.row_count

    @property
    def no_null(self) -> bool:
        """Whether definitely no value is null."""
        return self.null_count == 0


UNKNOWN = Bounds()


def exactly(value: Any) -> Bounds:
    """Bounds of one known value, such as a partition column's; whole partitions go by them."""
    if value is None:
        return Bounds(null_count=1, row_count=1, is_exact=True)
    return Bounds(minimum=value, maximum=value, null_count=0, row_count=1, is_exact=True)


def may_match(predicate: pred.Predicate | None, bounds_of: Callable[[str], Bounds]) -> bool:
    """Whether some row within the bounds might pass a bound predicate."""
    match predicate:
        case None | pred.Applied():  # a function may return anything
            return True
        case pred.And(children=children):
            return all(may_match(child, bounds_of) for child in children)
        case pred.Or(children=children):
            return any(may_match(child, bounds_of) for child in children)
        case pred.IsNull(field=field, negated=negated):
            bounds = bounds_of(field)
            return not bounds.all_null if negated else not bounds.no_null
        case pred.Comparison(field=field, op=op, literal=literal):
            return _comparison_may_match(op, literal, bounds_of(field))
        case pred.In(field=field, literals=literals, negated=negated):
            return _in_may_match(literals, bounds_of(field), negated=negated)
        case pred.StartsWith(field=field, prefix=prefix):
            return _prefix_may_match(prefix, bounds_of(field))
        case pred.Like(field=field, pattern=pattern, negated=negated):
            bounds = bounds_of(field)
            if bounds.is_exact and not bounds.all_null:
                return (pred.like_regex(pattern).fullmatch(bounds.minimum) is None) is negated
            if negated:
                return not bounds.all_null
            return _prefix_may_match(pred.like_prefix(pattern), bounds)
        case _:
            assert_never(predicate)


def _prefix_may_match(prefix: str, bounds: Bounds) -> bool:
    if bounds.all_null:
        return False
    above = bounds.maximum is None or bounds.maximum >= prefix
    below = bounds.minimum is None or bounds.minimum[: len(prefix)] <= prefix
    return above and below


def _comparison_may_match(op: pred.CompareOp, literal: Any, bounds: Bounds) -> bool:
    if bounds.all_null or literal is None:
        return False
    low, high = bounds.minimum, bounds.maximum
    if bounds.is_exact:
        low = high = _place(low)
        literal = _place(literal)
    elif isinstance(literal, float) and (
        literal == 0 or any(it != it for it in (literal, low, high))
    ):
        # Bounds neither distinguish the zeros, nor count NaN, which is unlike itself.
        return True
    match op:
        case pred.CompareOp.EQ:
            return (low is None or low <= literal) and (high is None or high >= literal)
        case pred.CompareOp.NE:
            return not (low is not None and low == high == literal)
        case pred.CompareOp.LT:
            return low is None or low < literal
        case pred.CompareOp.LE:
            return low is None or low <= literal
        case pred.CompareOp.GT:
            return high is None or high > literal
        case pred.CompareOp.GE:
            return high is None or high >= literal
        case _:
            assert_never(op)


def _place(value: Any) -> Any:
    """Return a key in Java's order: -0.0 is below 0.0, and NaN is above all numbers."""
    if not isinstance(value, float):
        return value
    if math.isnan(value):
        return math.inf, 1.0
    return value, math.copysign(1.0, value) if value == 0 else 0.0


def _in_may_match(literals: tuple[Any, ...], bounds: Bounds, *, negated: bool) -> bool:
    if bounds.all_null:
        return False
    if not negated:
        return any(
            _comparison_may_match(pred.CompareOp.EQ, literal, bounds) for literal in literals
        )
    if any(literal is None for literal in literals):
        return False
    low = bounds.minimum
    if bounds.is_exact:
        return _place(low) not in map(_place, literals)
    if isinstance(low, float) and low == 0:
        return True
    return not (low is not None and low == bounds.maximum and low in literals)
