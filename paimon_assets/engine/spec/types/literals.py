"""Python values ⇄ the engine's internal values, by type.

Internal values are totally ordered and lose nothing: DATE is days, TIME is milliseconds of the day,
TIMESTAMP and TIMESTAMP_LTZ are *nanoseconds* since the epoch (a Python int has no limit), DECIMAL
is `decimal.Decimal`, CHAR/VARCHAR `str`, BINARY/VARBINARY `bytes`, the rest bool, int, float.
"""

import ctypes
import datetime as dt
import re
from calendar import monthrange
from collections.abc import Callable, Mapping
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal, InvalidOperation

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.types import data_types as types
from paimon_assets.engine.spec.types.cast_rules import FLOAT_ROOTS, holds_integer

Internal = bool | int | float | str | bytes | Decimal | None
Literal = Internal | dt.date | dt.datetime | dt.time

_NUMBERS = types.INTEGER_ROOTS | {
    types.TypeRoot.FLOAT,
    types.TypeRoot.DOUBLE,
    types.TypeRoot.DECIMAL,
}
_LONG_DIGITS = 19
"""No INT or BIGINT has more digits."""
_EXACT = Context(prec=1000)
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
DAYS_OF_400_YEARS = 146_097
"""After so many days the calendar repeats."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def to_internal(value: Literal, data_type: types.DataType, column: str) -> Internal:
    """Convert a literal to the internal value of `data_type`.

    Texts are parsed for every type, so that `"2024-01-01"` serves for a DATE.

    >>> to_internal("1970-01-03", types.AtomicType(root=types.TypeRoot.DATE), "d")
    2
    """
    if value is None:
        return None
    try:
        return _convert(value, data_type.root)
    except (ValueError, TypeError, InvalidOperation, OverflowError) as error:
        shown = repr(value) if isinstance(value, str | bytes) else str(value)
        message = f"Column '{column}' is {data_type}; {shown} is not a value of that type."
        raise InvalidInputError(message, kind="literal", column=column) from error


def number_below(value: Literal, data_type: types.DataType) -> Internal:
    """Return the greatest value below a number that a column's type does not have; else None.

    It is a power of ten where the number has more digits before its point than the type.

    >>> number_below(-1.5, types.integer()), number_below(2.0, types.integer())
    (-2, None)
    """
    digits, scale = _LONG_DIGITS, 0
    if isinstance(data_type, types.AtomicType) and data_type.root is types.TypeRoot.DECIMAL:
        digits, scale = (data_type.precision or 0) - (data_type.scale or 0), data_type.scale or 0
    elif data_type.root not in types.INTEGER_ROOTS:
        return None
    if not isinstance(value, int | float | Decimal):
        return None
    number = Decimal(str(value) if isinstance(value, float) else value)
    if not number.is_finite():
        return None
    below = Decimal((int(number.is_signed()), (1,), digits))
    if not number or number.adjusted() < digits:
        below = number.quantize(Decimal((0, (1,), -scale)), ROUND_FLOOR, _EXACT)
    if below == number:
        return None
    return int(below) if data_type.root in types.INTEGER_ROOTS else below


def _convert(value: Literal, root: types.TypeRoot) -> Internal:
    if root in types.CHARACTER_ROOTS:
        return _expect(value, str)
    if root in types.BINARY_ROOTS:
        return value.encode() if isinstance(value, str) else _expect(value, bytes)
    if root in _NUMBERS and isinstance(value, str) and ("_" in value or not value.isascii()):
        raise ValueError("expected digits")  # Python takes `1_0` and other scripts for numbers
    if root in types.INTEGER_ROOTS:
        return _integer(value)
    match root:
        case types.TypeRoot.BOOLEAN:
            return _boolean(value)
        case types.TypeRoot.FLOAT | types.TypeRoot.DOUBLE:
            if isinstance(value, bool):
                raise TypeError("a boolean is not a number")
            number = float(value)  # type: ignore[arg-type]  # because wrong types raise here
            # As a FLOAT column stores it, or 0.1 would match no row.
            return ctypes.c_float(number).value if root is types.TypeRoot.FLOAT else number
        case types.TypeRoot.DECIMAL:
            return _decimal(value)
        case types.TypeRoot.DATE:
            return _days(value)
        case types.TypeRoot.TIME:
            return _millis_of_day(value)
        case types.TypeRoot.TIMESTAMP | types.TypeRoot.TIMESTAMP_LTZ:
            return _nanos(value)
        case _:
            raise TypeError(f"no literals of type {root}")


def _expect(value: Literal, expected: type[str] | type[bytes]) -> str | bytes:
    if not isinstance(value, expected):
        raise TypeError(f"expected {expected.__name__}")
    return value


def _integer(value: Literal) -> int:
    if isinstance(value, bool):
        raise TypeError("a boolean is not an integer")
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return int(value)
    if not isinstance(value, float | Decimal) or not -(10**40) < value < 10**40:
        raise TypeError("expected an integer")  # an int of 1e9999999 would take minutes
    if value == int(value):
        return int(value)
    raise TypeError("expected an integer")


def _decimal(value: Literal) -> Decimal:
    number = value if isinstance(value, Decimal) else Decimal(str(value))
    if not number.is_finite():
        raise ValueError("expected a number")
    return number


def _boolean(value: Literal) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise TypeError("expected a boolean")
    return value


def _days(value: Literal) -> int:
    if isinstance(value, str):
        if value.startswith("0000-"):  # a year that Python does not have
            leap = dt.date.fromisoformat(f"0400{value[4:]}").toordinal()
            return leap - _EPOCH_DAY - DAYS_OF_400_YEARS
        value = dt.date.fromisoformat(value)
    if isinstance(value, dt.datetime):
        raise TypeError("expected a date without time")
    if isinstance(value, dt.date):
        return value.toordinal() - _EPOCH_DAY
    return _integer(value)


def _millis_of_day(value: Literal) -> int:
    if isinstance(value, str):
        value = dt.time.fromisoformat(value)
    if isinstance(value, dt.time):
        if value.microsecond % 1000:  # cut off, it would be another time
            raise ValueError("expected milliseconds")
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return seconds * 1000 + value.microsecond // 1000
    return _integer(value)


_FINE = r"(\.\d{6})(\d{1,3})(?!\d)"


def _nanos(value: Literal) -> int:
    if isinstance(value, str):
        fine = re.search(_FINE, value)
        if fine is None:
            return _nanos(dt.datetime.fromisoformat(value))
        # Python has no place for nanoseconds.
        text = value[: fine.start(2)] + value[fine.end(2) :]
        return _nanos(dt.datetime.fromisoformat(text)) + int(fine[2].ljust(3, "0"))
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC)
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        since = aware - _EPOCH
        micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        return micros * 1000 + getattr(value, "nanosecond", 0)  # which pandas' times have
    return _integer(value)


_BOOLEANS = frozenset({"t", "true", "y", "yes", "1", "f", "false", "n", "no", "0"})
_INTEGER = r"(?a)[+-]?(?:\d+(?:\.\d*)?|\.\d+)"
_REAL = (
    r"(?a)[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?"
    r"|0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+[fFdD]?)"
)
_DECIMAL = r"(?a)[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_NUMBER_OF_UNITS = r"(?a)-?\d+"
_DATE = r"(?a)\d{4}-\d{1,2}(?:-\d{1,2})?"
_TIME = r"(?a)\d{1,2}:\d{1,2}:\d{1,2}(?:\.\d{0,9})?"
_UNITS = frozenset({0, 3, 6, 9})
"""Precisions whose timestamps are also written as a number of their units."""


def default_refusal(data_type: types.DataType, text: str) -> str | None:
    """Return why a text is no default of a type, or None if it is one.

    >>> from paimon_assets.engine.spec.types.data_types import decimal, integer
    >>> default_refusal(integer(), "5"), default_refusal(integer(), "five")
    (None, "'five' is no INT")
    >>> default_refusal(decimal(3, 1), "99.95")
    "'99.95' is no DECIMAL(3, 1)"
    """
    if not isinstance(data_type, types.AtomicType):
        return f"columns of type {data_type.root} take no default"
    root = data_type.root
    if root in types.CHARACTER_ROOTS | types.BINARY_ROOTS:
        return None
    if root in types.INTEGER_ROOTS:
        whole = text.partition(".")[0].strip("+") or 0
        good = bool(re.fullmatch(_INTEGER, text)) and holds_integer(data_type, int(whole))
    elif root is types.TypeRoot.DECIMAL:
        good = _is_decimal(data_type, text)
    elif root in types.TIMESTAMP_ROOTS:
        good = _is_timestamp(data_type, text)
    else:
        check = _CHECKS.get(root)
        if check is None:
            return f"columns of type {root} take no default"
        good = check(text)
    return None if good else f"'{text}' is no {types.bare_text(data_type)}"


def _is_decimal(data_type: types.AtomicType, text: str) -> bool:
    if not re.fullmatch(_DECIMAL, text):
        return False
    precision, scale = data_type.precision or 0, data_type.scale or 0
    try:
        fitted = Decimal(text).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
    except InvalidOperation:  # more digits than any DECIMAL has
        return False
    return fitted.copy_abs() < Decimal(10) ** (precision - scale)


def _is_date(text: str) -> bool:
    if re.fullmatch(_NUMBER_OF_UNITS, text):
        return holds_integer(types.integer(), int(text))
    day = text.strip().partition(" ")[0]
    if not re.fullmatch(_DATE, day):
        return False
    year, month, day_of_month = ([int(part) for part in day.split("-")] + [1])[:3]
    return 1 <= month <= 12 and 1 <= day_of_month <= monthrange(year or 400, month)[1]


def _is_time(text: str) -> bool:
    if re.fullmatch(_NUMBER_OF_UNITS, text):
        return True
    if not re.fullmatch(_TIME, text):
        return False
    hour, minute, second = (int(part) for part in text.partition(".")[0].split(":"))
    return hour < 24 and minute < 60 and second < 60


def _is_timestamp(data_type: types.AtomicType, text: str) -> bool:
    if re.fullmatch(_NUMBER_OF_UNITS, text):
        return data_type.precision in _UNITS and holds_integer(types.bigint(), int(text))
    day, blank, time = text.partition(" ")
    if not re.fullmatch(_DATE, day) or day.count("-") != 2:
        return False
    year, month, day_of_month = (int(part) for part in day.split("-"))
    exists = year > 0 and 1 <= month <= 12 and 1 <= day_of_month <= 31  # 30 February is its last
    return exists and (not blank or time == "24:00:00" or _is_time(time))


_CHECKS: Mapping[types.TypeRoot, Callable[[str], bool]] = {
    types.TypeRoot.BOOLEAN: lambda text: text.lower() in _BOOLEANS,
    **dict.fromkeys(FLOAT_ROOTS, lambda text: re.fullmatch(_REAL, text.strip()) is not None),
    types.TypeRoot.DATE: _is_date,
    types.TypeRoot.TIME: _is_time,
}
"""Type → whether a text is one of its values."""
