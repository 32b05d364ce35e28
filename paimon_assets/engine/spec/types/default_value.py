"""Which texts may be the default value of a column: those Java's casts from STRING take.

The kernels of `data.casting` do the same to columns of texts; here one text is judged, without
Arrow. Source: `org.apache.paimon.utils.DefaultValueUtils`.
"""

import re
from calendar import monthrange
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

from paimon_assets.engine.spec.types.cast_rules import holds_integer
from paimon_assets.engine.spec.types.data_types import (
    BINARY_ROOTS,
    CHARACTER_ROOTS,
    INTEGER_ROOTS,
    TIMESTAMP_ROOTS,
    AtomicType,
    DataType,
    TypeRoot,
    bigint,
    integer,
)

_BOOLEANS = frozenset({"t", "true", "y", "yes", "1", "f", "false", "n", "no", "0"})
_INTEGER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)", re.ASCII)
_REAL = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?"
    r"|0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+[fFdD]?)",
    re.ASCII,
)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_NUMBER_OF_UNITS = re.compile(r"-?\d+", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{1,2}(?:-\d{1,2})?", re.ASCII)
_TIME = re.compile(r"\d{1,2}:\d{1,2}:\d{1,2}(?:\.\d{0,9})?", re.ASCII)
_EXACT = Context(prec=1000)
_UNITS = frozenset({0, 3, 6, 9})
"""Precisions whose timestamps are also written as a number of their units."""


def default_refusal(data_type: DataType, text: str) -> str | None:
    """Return why a text is no default of a type, or None if it is one.

    >>> from paimon_assets.engine.spec.types.data_types import decimal, integer
    >>> default_refusal(integer(), "5"), default_refusal(integer(), "five")
    (None, "'five' is no INT")
    >>> default_refusal(decimal(3, 1), "99.95")
    "'99.95' is no DECIMAL(3, 1)"
    """
    if not isinstance(data_type, AtomicType):
        return f"columns of type {data_type.root} take no default"
    root = data_type.root
    if root in CHARACTER_ROOTS | BINARY_ROOTS:
        return None
    if root in INTEGER_ROOTS:
        good = _is_integer(data_type, text)
    elif root is TypeRoot.DECIMAL:
        good = _is_decimal(data_type, text)
    elif root in TIMESTAMP_ROOTS:
        good = _is_timestamp(data_type, text)
    else:
        check = _CHECKS.get(root)
        if check is None:
            return f"columns of type {root} take no default"
        good = check(text)
    return None if good else f"'{text}' is no {str(data_type).removesuffix(' NOT NULL')}"


def _is_integer(data_type: AtomicType, text: str) -> bool:
    if not _INTEGER.fullmatch(text):
        return False
    return holds_integer(data_type, int(text.partition(".")[0].strip("+") or 0))


def _is_decimal(data_type: AtomicType, text: str) -> bool:
    if not _DECIMAL.fullmatch(text):
        return False
    precision, scale = data_type.precision or 0, data_type.scale or 0
    try:
        fitted = Decimal(text).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
    except InvalidOperation:  # more digits than any DECIMAL has
        return False
    return fitted.copy_abs() < Decimal(10) ** (precision - scale)


def _is_real(text: str) -> bool:
    return _REAL.fullmatch(text.strip()) is not None


def _is_date(text: str) -> bool:
    if _NUMBER_OF_UNITS.fullmatch(text):
        return holds_integer(integer(), int(text))
    day = text.strip().partition(" ")[0]
    if not _DATE.fullmatch(day):
        return False
    year, month, day_of_month = ([int(part) for part in day.split("-")] + [1])[:3]
    return 1 <= month <= 12 and 1 <= day_of_month <= monthrange(year or 400, month)[1]


def _is_time(text: str) -> bool:
    if _NUMBER_OF_UNITS.fullmatch(text):
        return True
    if not _TIME.fullmatch(text):
        return False
    hour, minute, second = (int(part) for part in text.partition(".")[0].split(":"))
    return hour < 24 and minute < 60 and second < 60


def _is_timestamp(data_type: AtomicType, text: str) -> bool:
    if _NUMBER_OF_UNITS.fullmatch(text):
        return data_type.precision in _UNITS and holds_integer(bigint(), int(text))
    day, blank, time = text.partition(" ")
    if not _DATE.fullmatch(day) or day.count("-") != 2:
        return False
    year, month, day_of_month = (int(part) for part in day.split("-"))
    exists = year > 0 and 1 <= month <= 12 and 1 <= day_of_month <= 31  # 30 February is its last
    return exists and (not blank or time == "24:00:00" or _is_time(time))


_CHECKS: Mapping[TypeRoot, Callable[[str], bool]] = {
    TypeRoot.BOOLEAN: lambda text: text.lower() in _BOOLEANS,
    TypeRoot.FLOAT: _is_real,
    TypeRoot.DOUBLE: _is_real,
    TypeRoot.DATE: _is_date,
    TypeRoot.TIME: _is_time,
}
"""Type → whether a text is one of its values."""
