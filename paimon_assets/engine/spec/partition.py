"""Partition values ⇄ directory names.

Folders name a FLOAT or DOUBLE as Java before 19 writes it: beyond 2^53 (of a FLOAT 2^24) and among
the smallest numbers it may have a digit more than the shortest text. Whole numbers below 2^63 lose
the digits that their bits do not tell.
Source: `org.apache.paimon.utils.PartitionPathUtils`, `jdk.internal.math.FloatingDecimal` of Java 8
to 18, as far as its texts show it.
"""

import datetime as dt
import math
import re
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.types.data_types import AtomicType, DataField, DataType, TypeRoot
from paimon_assets.engine.spec.types.literals import DAYS_OF_400_YEARS, Internal

_ESCAPED = "[\x00-\x1f\x7f\"#%'*/:=?\\\\{}\\[\\]^]"
_HEX = "(?:%[0-9A-Fa-f]{2})+"
_MIDNIGHT = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)


def escape(text: str) -> str:
    """Escape a partition name or value for a path.

    >>> escape("a/b c=%:")
    'a%2Fb c%3D%25%3A'
    """
    return re.sub(_ESCAPED, lambda match: f"%{ord(match[0]):02X}", text)


def unescape(text: str) -> str:
    """Return the text that a path has escaped.

    Java escapes no letter beyond ASCII; pyarrow, Polars and duckdb do, as UTF-8.

    >>> unescape("a%2Fb c%C3%BC")
    'a/b cü'
    """

    def decode(match: re.Match[str]) -> str:
        data = bytes.fromhex(match[0].replace("%", ""))
        with suppress(UnicodeDecodeError):
            return data.decode()
        return data.decode("latin-1")

    return re.sub(_HEX, decode, text)


def date_text(days: int) -> str:
    """Return a day since 1970 as Java does, in any year.

    >>> date_text(-719_528), date_text(2_932_897)
    ('0000-01-01', '+10000-01-01')
    """
    cycles, rest = divmod(days, DAYS_OF_400_YEARS)
    day = dt.date(1970, 1, 1) + dt.timedelta(days=rest)
    year = day.year + 400 * cycles
    sign = "+" if year > dt.MAXYEAR else "-" if year < 0 else ""
    return f"{sign}{abs(year):04d}-{day:%m-%d}"


def value_text(value: Internal, data_type: DataType, *, legacy: bool) -> str | None:
    """Return the directory text of a partition value, None for null."""
    if value is None:
        return None
    match data_type.root:
        case TypeRoot.BOOLEAN:
            return "true" if value else "false"
        case TypeRoot.DATE if not legacy:
            return date_text(int(value))
        case TypeRoot.TIME if not legacy and isinstance(data_type, AtomicType):
            seconds, fraction = divmod(int(value), 1000)
            clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
            digits = f"{fraction:03d}"[: data_type.precision or 0].rstrip("0") or "0"
            return f"{clock}.{digits}" if data_type.precision else clock
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ if isinstance(data_type, AtomicType):
            return _timestamp_text(int(value), data_type, legacy=legacy)
        case TypeRoot.DECIMAL if isinstance(value, Decimal):
            return f"{value:f}"
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return java_float_text(float(value), single=data_type.root is TypeRoot.FLOAT)
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            if legacy or not isinstance(value, bytes):
                raise InvalidInputError(
                    "A binary partition column has no usable directory name under "
                    "'partition.legacy-name' = true; set it to false.",
                    kind="partition-value",
                )
            return value.decode(errors="replace")
        case _:
            return str(value)


def _timestamp_text(nanos: int, data_type: AtomicType, *, legacy: bool) -> str:
    seconds, fraction = divmod(nanos, 1_000_000_000)
    days, second = divmod(seconds, 86_400)
    day, clock = date_text(days), str((_MIDNIGHT + dt.timedelta(seconds=second)).time())
    digits = f"{fraction:09d}"
    if legacy:
        # Java's LocalDateTime.toString: seconds only if needed, fraction in groups of three.
        if fraction:
            keep = 3 if digits[3:] == "000000" else 6 if digits[6:] == "000" else 9
            return f"{day}T{clock}.{digits[:keep]}"
        return f"{day}T{clock[:5] if clock.endswith(':00') else clock}"
    precision = data_type.precision or 0
    return f"{day} {clock}" + (f".{digits[:precision]}" if precision else "")


def partition_path(
    fields: Sequence[DataField], values: Sequence[Internal], *, default_name: str, legacy: bool
) -> str:
    """Return `name=value/name=value`, without slashes around; empty if unpartitioned."""
    spec = partition_spec(fields, values, default_name=default_name, legacy=legacy)
    return "/".join(
        f"{escape(name)}={escape(text if text.strip() else default_name)}"
        for name, text in spec.items()
    )


def partition_spec(
    fields: Sequence[DataField], values: Sequence[Internal], *, default_name: str, legacy: bool
) -> Mapping[str, str]:
    """Return column → text, as people read it in logs, metadata and system tables."""
    spec = {}
    for field, value in zip(fields, values, strict=True):
        text = value_text(value, field.type, legacy=legacy)
        spec[field.name] = default_name if text is None else text
    return spec


_FRACTION = 52
_SINGLE_FRACTION = 23
_LOG_2 = 0.301029995663981
_WHOLE_BITS = 62
"""Numbers below 2 to the power of 63 are counted in a Java long."""
_WORDS = (32, 64)
_POINT_FROM, _POINT_TO = -3, 8
"""Between these decimal exponents a text has no exponent."""


def java_float_text(value: float, *, single: bool) -> str:
    """Write a FLOAT or DOUBLE as Java's `toString` before Java 19.

    >>> [java_float_text(number, single=False) for number in (0.1, 1e7, 1e-4, -0.0)]
    ['0.1', '1.0E7', '1.0E-4', '-0.0']
    >>> [java_float_text(number, single=False) for number in (5e-324, 1e23, 1762351398209954800.0)]
    ['4.9E-324', '9.999999999999999E22', '1.76235139820995482E18']
    """
    if math.isnan(value) or math.isinf(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    lead = "-" if math.copysign(1, value) < 0 else ""
    if not value:
        return f"{lead}0.0"
    text, point = _digits(*_parts(abs(value), single=single))
    if _POINT_FROM < point < _POINT_TO:
        if point <= 0:
            return f"{lead}0.{'0' * -point}{text}"
        return f"{lead}{text[:point].ljust(point, '0')}.{text[point:] or '0'}"
    return f"{lead}{text[0]}.{text[1:] or '0'}E{point - 1}"


def _parts(value: float, *, single: bool) -> tuple[int, int, int]:
    """Return 53 bits, the exponent of the first of them, and how many a number like it has."""
    bits: int = struct.unpack(
        "<i" if single else "<q", struct.pack("<f" if single else "<d", value)
    )[0]
    width = _SINGLE_FRACTION if single else _FRACTION
    exponent, fraction = bits >> width, bits & ((1 << width) - 1)
    bias = 127 if single else 1023
    if exponent:
        significant = width + 1
        fraction |= 1 << width
    else:
        significant = fraction.bit_length()
        exponent = 1 - (width + 1 - significant)
        fraction <<= width + 1 - significant
    return fraction << (_FRACTION - width), exponent - bias, significant


def _digits(fraction: int, exponent: int, significant: int) -> tuple[str, int]:
    """Return digits, and the position of the point."""
    zeros = (fraction & -fraction).bit_length() - 1
    used = _FRACTION + 1 - zeros
    tiny = max(0, used - exponent - 1)
    if not tiny and exponent <= _WHOLE_BITS:
        # A whole number, but for the digits that its lowest bits do not tell.
        unknown_bits = exponent - significant - 1
        dropped = math.floor(unknown_bits * _LOG_2) if unknown_bits > 1 else 0
        kept, rest = divmod(fraction << exponent >> _FRACTION, 10**dropped)
        text = str(kept + (dropped > 0 and rest >= 10**dropped // 2))
        return text.rstrip("0"), len(text) + dropped
    decimal = math.floor(
        (fraction / (1 << _FRACTION) - 1.5) * 0.289529654 + 0.176091259 + exponent * _LOG_2
    )
    number_5, scale_5 = max(0, -decimal), max(0, decimal)
    number_2, scale_2 = number_5 + tiny + exponent, scale_5 + tiny
    half_2 = number_2 - significant
    number_2 -= used - 1
    common = min(number_2, scale_2)
    number_2, scale_2, half_2 = number_2 - common, scale_2 - common, half_2 - common
    half_2 -= used == 1  # below a power of two numbers lie closer
    if half_2 < 0:
        number_2, scale_2, half_2 = number_2 - half_2, scale_2 - half_2, 0
    number = (fraction >> zeros) * 5**number_5 << number_2
    scale, half = 5**scale_5 << scale_2, 5**number_5 << half_2
    most = max(_bits(used + number_2, number_5), _bits(scale_2 + 1, scale_5 + 1))
    word = next((word for word in _WORDS if most < word), None)
    return _make(number, scale, half, decimal, word)


def _bits(bits: int, power_of_5: int) -> int:
    power: int = 5**power_of_5
    return bits + (power - 1).bit_length()


def _make(number: int, scale: int, half: int, decimal: int, word: int | None) -> tuple[str, int]:
    """Make digits of `number / scale` until the rest is below `half`, or that far from ten.

    Java does so in its int or long of `word` bits where it can. Then `half` may run over, which
    ends the digits, too.
    """
    tens = scale * 10

    def ends() -> tuple[bool, bool]:
        if word is None:
            return number < half, number + half >= tens
        if half <= 0:
            return True, True
        return number < half, _wrap(number + half, word) > tens

    digits = []
    digit, rest = divmod(number, scale)
    number, half = rest * 10, _wrap(half * 10, word)
    low, high = ends()
    if digit or high:
        digits.append(digit)
    else:
        decimal -= 1
    if not _POINT_FROM <= decimal < _POINT_TO:
        low = high = False  # with an exponent there are two digits or more
    while not low and not high:
        digit, rest = divmod(number, scale)
        number, half = rest * 10, _wrap(half * 10, word)
        low, high = ends()
        digits.append(digit)
    text = int("".join(map(str, digits)))
    twice = 2 * number - tens
    if high and (not low or twice > 0 or (not twice and text % 2)):
        rounded = text + 1
        decimal += len(str(rounded)) > len(digits)
        text = rounded
    return str(text).rstrip("0") or "0", decimal + 1


def _wrap(number: int, word: int | None) -> int:
    if word is None:
        return number
    limit = 1 << (word - 1)
    return (number + limit) % (2 * limit) - limit
