"""Does a cast keep every value there is? Asked of types alone, or of the bounds of some values.

A cast that is allowed (`spec.types.cast_rules`) may still lose: numbers overflow or are rounded,
texts are cut, values become null, or cannot be read at all. Cost of the answer:

    both types     INT → BIGINT keeps everything, whatever is stored
    bounds         BIGINT → INT keeps everything between -2³¹ and 2³¹-1: file statistics suffice
    the values     STRING → INT: all must be read (`data.cast_losses`)
"""

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Any

from paimon_assets.engine.spec.types.cast_rules import FLOAT_ROOTS, is_widened_integer, same_type
from paimon_assets.engine.spec.types.data_types import (
    BINARY_ROOTS,
    CHARACTER_ROOTS,
    INTEGER_ROOTS,
    MAX_LENGTH,
    TIMESTAMP_ROOTS,
    AtomicType,
    DataType,
    TypeRoot,
)


class Loss(StrEnum):
    """The fate of a value that a cast does not keep."""

    OVERFLOW = "overflows"
    """Another number, far from it."""
    TRUNCATED = "is truncated"
    """Cut, rounded, or without its fraction."""
    NULLED = "becomes null"
    FAILED = "cannot be read"
    """Every read of the column fails."""
    FORBIDDEN = "is null"
    """A null in a column that becomes NOT NULL."""


_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}
_DIGITS = {TypeRoot.TINYINT: 3, TypeRoot.SMALLINT: 5, TypeRoot.INT: 10, TypeRoot.BIGINT: 19}
_WHOLE_BITS_OF_REAL = {TypeRoot.FLOAT: 24, TypeRoot.DOUBLE: 53}
_DIGITS_OF_REAL = {TypeRoot.FLOAT: 6, TypeRoot.DOUBLE: 15}
_LONGEST_REAL = 32
"""No FLOAT or DOUBLE has a longer text."""
_LARGEST_FLOAT = 3.4028234663852886e38
_NANOS = 10**9


def integer_range(root: TypeRoot) -> tuple[int, int]:
    return -(2 ** (_BITS[root] - 1)), 2 ** (_BITS[root] - 1) - 1


def keeps_all(source: DataType, target: DataType) -> bool:
    """Whether a cast keeps every value its source type has.

    >>> from paimon_assets.engine.spec.types.data_types import bigint, integer
    >>> keeps_all(integer(), bigint()), keeps_all(bigint(), integer())
    (True, False)
    """
    if same_type(source, target) or is_widened_integer(source, target):
        return True
    if not isinstance(source, AtomicType) or not isinstance(target, AtomicType):
        return False
    if target.root in CHARACTER_ROOTS:
        return _longest_text(source) <= (target.length or 0)
    if source.root in BINARY_ROOTS and target.root in BINARY_ROOTS:
        return (source.length or 0) <= (target.length or 0)
    is_decimal = source.root is TypeRoot.DECIMAL
    if target.root is TypeRoot.DECIMAL:
        room = (target.precision or 0) - (target.scale or 0)
        if source.root in INTEGER_ROOTS:
            return _DIGITS[source.root] <= room
        whole = (source.precision or 0) - (source.scale or 0)
        fits = whole <= room and (source.scale or 0) <= (target.scale or 0)
        return room > 0 if source.root is TypeRoot.BOOLEAN else is_decimal and fits
    if target.root not in FLOAT_ROOTS:
        return source.root is TypeRoot.BOOLEAN and target.root in INTEGER_ROOTS
    if source.root in INTEGER_ROOTS:
        return _BITS[source.root] <= _WHOLE_BITS_OF_REAL[target.root]
    if source.root is TypeRoot.DECIMAL:
        return (source.precision or 0) <= _DIGITS_OF_REAL[target.root]
    return source.root in (TypeRoot.BOOLEAN, TypeRoot.FLOAT)


def _longest_text(source: AtomicType) -> int:
    """Return the most characters a value has as text; more than any text for bytes."""
    root = source.root
    if root in INTEGER_ROOTS:
        return _DIGITS[root] + 1
    if root in FLOAT_ROOTS:
        return _LONGEST_REAL
    if root in BINARY_ROOTS:
        return MAX_LENGTH + 1
    match root:
        case TypeRoot.BOOLEAN:
            return len("false")
        case TypeRoot.DECIMAL:
            return (source.precision or 0) + len("-0.")
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return source.length or 0
        case _:
            return 0  # dates and times, which become STRING only


def loss_within(source: DataType, target: DataType, low: Any, high: Any) -> Loss | bool | None:
    """Return the loss of the values between two bounds, both of which are stored values.

    >>> from paimon_assets.engine.spec.types.data_types import bigint, integer
    >>> loss_within(bigint(), integer(), 0, 7), loss_within(bigint(), integer(), 0, 2**31)
    (False, <Loss.OVERFLOW: 'overflows'>)
    """
    if keeps_all(source, target):
        return False
    if low is None or high is None or not isinstance(source, AtomicType):
        return None
    judge = _JUDGES.get(source.root)
    if judge is None or not isinstance(target, AtomicType):
        return None
    return judge(source, target, low, high)


def _of_whole(source: AtomicType, target: AtomicType, low: int, high: int) -> Loss | bool | None:
    root = target.root
    if root in INTEGER_ROOTS:
        return False if _is_whole_inside(low, high, root) else Loss.OVERFLOW
    if root in FLOAT_ROOTS:
        most = 2 ** _WHOLE_BITS_OF_REAL[root]
        return False if -most <= low and high <= most else None
    if root in CHARACTER_ROOTS:
        longest = max(len(str(low)), len(str(high)))
        return False if longest <= (target.length or 0) else Loss.TRUNCATED
    if root in TIMESTAMP_ROOTS:
        return _in_timestamps(target, low * _NANOS, high * _NANOS, Loss.OVERFLOW)
    match root:
        case TypeRoot.BOOLEAN:
            return False if low >= 0 and high <= 1 else Loss.TRUNCATED
        case TypeRoot.DECIMAL:
            return False if _has_room(target, low, high) else Loss.NULLED
        case _:
            return None


def _of_real(source: AtomicType, target: AtomicType, low: float, high: float) -> Loss | None:
    """Bounds tell nothing of fractions, and leave NaN out: nothing is definitely kept."""
    if target.root in INTEGER_ROOTS:
        least, most = integer_range(target.root)
        return None if least - 1 < low and high < most + 1 else Loss.OVERFLOW
    if target.root is TypeRoot.FLOAT and 2 * _LARGEST_FLOAT < max(-low, high) < math.inf:
        return Loss.OVERFLOW
    return None


def _of_decimal(
    source: AtomicType, target: AtomicType, low: Decimal, high: Decimal
) -> Loss | bool | None:
    if target.root in INTEGER_ROOTS:
        if not _is_whole_inside(int(low), int(high), target.root):
            return Loss.OVERFLOW
        return False if source.scale == 0 else None
    if target.root is TypeRoot.DECIMAL:
        if not _has_room(target, int(low), int(high)):
            return Loss.NULLED
        return False if (source.scale or 0) <= (target.scale or 0) else None
    return None


def _of_timestamp(
    source: AtomicType, target: AtomicType, low: int, high: int
) -> Loss | bool | None:
    if target.root in TIMESTAMP_ROOTS and source.root is target.root:
        if (target.precision or 0) < (source.precision or 0):
            return None
        return _in_timestamps(target, low, high, Loss.FAILED)
    if target.root is TypeRoot.INT and not _is_whole_inside(
        low // _NANOS + 1, high // _NANOS - 1, target.root
    ):
        return Loss.OVERFLOW
    return None


def _of_date(source: AtomicType, target: AtomicType, low: int, high: int) -> Loss | bool | None:
    if target.root is not TypeRoot.TIMESTAMP:
        return None
    nanos_of_day = 86_400 * _NANOS
    return _in_timestamps(target, low * nanos_of_day, high * nanos_of_day, Loss.FAILED)


def _in_timestamps(target: AtomicType, low: int, high: int, loss: Loss) -> Loss | bool:
    """Judge nanoseconds by the 64-bit range of the target's unit."""
    precision = target.precision or 0
    unit = next(nanos for digits, nanos in _UNITS if precision <= digits)
    least, most = integer_range(TypeRoot.BIGINT)
    return False if least * unit <= low and high <= most * unit else loss


_UNITS = ((0, _NANOS), (3, 10**6), (6, 10**3), (9, 1))
"""Fraction digits up to which a unit is used, and its nanoseconds."""


def _is_whole_inside(low: int, high: int, root: TypeRoot) -> bool:
    least, most = integer_range(root)
    return least <= low and high <= most


def _has_room(target: AtomicType, low: int, high: int) -> bool:
    room = (target.precision or 0) - (target.scale or 0)
    most: int = 10**room
    return max(abs(low), abs(high)) < most


_JUDGES: Mapping[TypeRoot, Callable[[AtomicType, AtomicType, Any, Any], Loss | bool | None]] = {
    **dict.fromkeys(INTEGER_ROOTS, _of_whole),
    **dict.fromkeys(FLOAT_ROOTS, _of_real),
    **dict.fromkeys(TIMESTAMP_ROOTS, _of_timestamp),
    TypeRoot.DECIMAL: _of_decimal,
    TypeRoot.DATE: _of_date,
}
"""Source → the losses that bounds of its values show."""
