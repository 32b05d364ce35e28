"""Text → DATE, TIME, TIMESTAMP, TIMESTAMP WITH LOCAL TIME ZONE.

Arrow's parsers read the usual forms (`2024-02-29`, `2024-02-29 12:30:00.123`), which both dialects
agree on. Columns with other forms are taken apart by regular expressions, each dialect by its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.arrow_types import timestamp_type, timestamp_unit
from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.data.casting.arrays import (
    Mask,
    column_of,
    contains_byte,
    equals,
    lengths_of,
    truth_of,
    valid_rows,
    values_of,
)
from paimon_assets.engine.data.casting.cast import Array, Cast, attempt
from paimon_assets.engine.data.casting.times import (
    MILLIS_PER_SECOND,
    NANOS_PER_SECOND,
    SECONDS_PER_DAY,
    days_of,
    is_zoned,
    local_type,
    millis_to_counts,
    month_lengths,
    per_second,
    scale,
    to_instant,
)

Int64s = npt.NDArray[np.int64]

_DIGITS = r"^-?\d+$"
_BLANK = r"[\x00-\x20]*"
_BEHIND_BLANK = r"(?s)^([^ ]+) .*$"
_JAVA_DATE = (
    rf"^{_BLANK}(?P<y>\d+){_BLANK}(?:-{_BLANK}(?P<m>\d+){_BLANK}"
    rf"(?:-{_BLANK}(?P<d>\d+){_BLANK})?)?$"
)
_CPP_DATE = r"(?s)^[\t-\r ]*(?P<y>\d{1,4})(?:-(?P<m>\d{1,2})(?:-(?P<d>\d{1,2}).*|$)|$)"
_JAVA_TIMESTAMP = (
    r"^(?P<y>\d{4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})"
    r"(?: (?P<h>\d{1,2}):(?P<min>\d{1,2}):(?P<s>\d{1,2})(?:\.(?P<f>\d{0,9}))?)?$"
)
_TIME = (
    rf"^{_BLANK}(?P<h>\d+){_BLANK}(?::{_BLANK}(?P<min>\d+){_BLANK}"
    rf"(?::{_BLANK}(?P<s>\d+){_BLANK}(?:\.{_BLANK}(?P<f>\d*){_BLANK})?)?)?$"
)
_LONGEST_PART = 9
_DATE_LENGTH, _SECONDS_LENGTH = 10, 19
MOST_DIGITS = 9
"""The most digits of a fraction of a second."""
_DAY_MILLIS = SECONDS_PER_DAY * MILLIS_PER_SECOND
_FIRST_SECOND = -62_135_596_800
"""0001-01-01; Java's parser knows no year 0000."""
_EPOCH_UNITS = {0: 1, 3: 10**3, 6: 10**6, 9: 10**9}
"""Precision → units of a second that a text of digits counts in Java."""


def text_to_date(array: Array, cast: Cast) -> Array:
    """Parse dates; digits alone are a number of days."""
    plain = attempt(array, pa.date32())
    if plain is not None:
        return plain
    is_number = truth_of(pc.match_substring_regex(array, _DIGITS))
    days = np.zeros(len(array), np.int64)
    if is_number.any():
        numbers = _only(array, is_number)
        days[is_number] = values_of(cast.by_arrow(numbers, pa.int32()))[is_number]
    rows = valid_rows(array) & ~is_number
    if rows.any():
        text = array
        if cast.is_java:
            text = pc.replace_substring_regex(array, _BEHIND_BLANK, r"\1")
        parsed = _java_days if cast.is_java else _cpp_days
        days[rows] = parsed(text, rows, array, cast)[rows]
    return column_of(days.astype(np.int32), pa.date32(), array)


def _only(array: Array, rows: Mask) -> Array:
    """Return a column that is null except in some rows."""
    return pc.if_else(from_numpy(rows), array, pa.scalar(None, array.type))


def _numbers(
    text: Array, pattern: str, names: Sequence[str], rows: Mask, array: Array, cast: Cast
) -> tuple[Int64s, ...]:
    """Return the numbers that a pattern matches in each row, -1 where a part is left out."""
    parts = pc.extract_regex(_only(text, rows), pattern)
    cast.check(rows & ~valid_rows(parts), array)
    numbers = []
    for name in names:
        digits = pc.fill_null(pc.struct_field(parts, name), "")
        trimmed = pc.utf8_ltrim(digits, characters="0")
        cast.check(lengths_of(trimmed) > _LONGEST_PART, array)
        number = pc.if_else(equals(digits, ""), "-1", digits).cast(pa.int64())
        numbers.append(values_of(number))
    return tuple(numbers)


def _java_days(text: Array, rows: Mask, array: Array, cast: Cast) -> Int64s:
    year, month, day = _numbers(text, _JAVA_DATE, "ymd", rows, array, cast)
    month, day = np.where(month < 0, 1, month), np.where(day < 0, 1, day)
    is_bad = (year > 9999) | (month < 1) | (month > 12) | (day < 1)
    safe = np.where(is_bad | ~rows, 1, month)
    cast.check(rows & (is_bad | (day > month_lengths(year, safe))), array)
    return days_of(year, safe, day)


def _cpp_days(text: Array, rows: Mask, array: Array, cast: Cast) -> Int64s:
    """A part left out is the zeroth: its month or year ends one day earlier."""
    year, month, day = _numbers(text, _CPP_DATE, "ymd", rows, array, cast)
    is_bad = (month == 0) | (month > 12) | (day == 0) | (day > 31)
    cast.check(rows & is_bad, array)
    month, day = np.where(month < 0, 1, month), np.where(day < 0, 0, day)
    return days_of(year, np.where(rows, month, 1), day)


def text_to_time(array: Array, cast: Cast) -> Array:
    """Parse `h[:m[:s[.fff]]]`; digits alone are milliseconds."""
    is_number = truth_of(pc.match_substring_regex(array, _DIGITS))
    millis = np.zeros(len(array), np.int64)
    if is_number.any():
        numbers = _only(array, is_number)
        millis[is_number] = values_of(cast.by_arrow(numbers, pa.int64()))[is_number]
    rows = valid_rows(array) & ~is_number
    if rows.any():
        hour, minute, second = (
            np.maximum(part, 0)
            for part in _numbers(array, _TIME, ("h", "min", "s"), rows, array, cast)
        )
        of_day = ((hour * 60 + minute) * 60 + second) * MILLIS_PER_SECOND
        millis[rows] = (of_day + _round_millis(_only(array, rows)))[rows]
    cast.check(((millis < 0) | (millis >= _DAY_MILLIS)) & valid_rows(array), array)
    return column_of(millis.astype(np.int32), pa.time32("ms"), array)


def _round_millis(text: Array) -> Int64s:
    """Return the fraction of a second, rounded up from the fourth digit on."""
    digits = pc.struct_field(pc.extract_regex(text, _TIME), "f")
    padded = pc.utf8_rpad(pc.utf8_slice_codeunits(pc.fill_null(digits, ""), 0, 4), 4, "0")
    millis: Int64s = (values_of(padded.cast(pa.int64())) + 5) // 10
    return millis


def text_to_timestamp(array: Array, cast: Cast) -> Array:
    """Parse timestamps; Java takes digits alone as a number of the precision's unit."""
    local = _java_timestamps(array, cast) if cast.is_java else _cpp_timestamps(array, cast)
    return to_instant(local, cast) if is_zoned(cast.target) else local


def _java_timestamps(array: Array, cast: Cast) -> Array:
    plain = _usual_timestamps(array, cast)
    if plain is not None:
        return plain
    arrow_type = local_type(cast)
    is_number = np.zeros(len(array), dtype=bool)
    if not is_zoned(cast.target):
        is_number = truth_of(pc.match_substring_regex(array, _DIGITS))
    counts = np.zeros(len(array), np.int64)
    if is_number.any():
        counts[is_number] = _epochs(_only(array, is_number), cast)[is_number]
    rows = valid_rows(array) & ~is_number
    if rows.any():
        seconds, nanos = _parse_timestamps(array, rows, cast)
        digits = cast.target.precision or 0
        nanos = nanos // 10 ** (9 - digits) * 10 ** (9 - digits)
        unit = per_second(arrow_type)
        counts[rows] = _join(seconds, nanos, unit, _only(array, rows), cast)[rows]
    return column_of(counts, arrow_type, array)


def _join(seconds: Int64s, nanos: Int64s, unit: int, array: Array, cast: Cast) -> Int64s:
    """Return seconds and nanoseconds as counts of a unit; where `array` is null, as anything."""
    seconds = np.where(valid_rows(array), seconds, 0)
    # The first second of a unit may begin before its smallest value: count from its end.
    is_before = seconds < 0
    counts: Int64s = scale(seconds + is_before, unit, array, cast)
    counts = counts + nanos // (NANOS_PER_SECOND // unit) - unit * is_before
    wrapped = (is_before & (counts > 0)) | ((seconds > 0) & (counts < 0))
    cast.check(wrapped & valid_rows(array), array, f"{cast.arrow_type} cannot hold it")
    return counts


def _usual_timestamps(array: Array, cast: Cast) -> Array | None:
    """Let Arrow parse if all texts have the usual length and form, else return None."""
    lengths = lengths_of(array)
    usual = (lengths == _DATE_LENGTH) | (lengths >= _SECONDS_LENGTH) | ~valid_rows(array)
    if contains_byte(array, "T") or not usual.all():
        return None
    arrow_type, digits = local_type(cast), cast.target.precision or 0
    written = max(int(lengths.max(initial=0)) - _SECONDS_LENGTH - 1, 0)
    if written > MOST_DIGITS:
        return None
    parsed_type = timestamp_type(timestamp_unit(max(written, digits)), None)
    parsed = attempt(array, parsed_type)
    if parsed is None:
        return None
    first = pc.min(parsed.view(pa.int64())).as_py()
    if first is not None and first < _FIRST_SECOND * per_second(parsed_type):
        return None
    if written <= digits:
        return parsed
    step = per_second(parsed_type) // 10**digits
    cut = values_of(parsed) // step * (per_second(arrow_type) // 10**digits)
    return column_of(cut, arrow_type, array)


def _epochs(array: Array, cast: Cast) -> Int64s:
    precision = cast.target.precision or 0
    if precision not in _EPOCH_UNITS:
        cast.check(array.is_valid(), array, f"digits mean no time of precision {precision}")
    epochs = values_of(cast.by_arrow(array, pa.int64()))
    if precision:
        return epochs
    return millis_to_counts(epochs * MILLIS_PER_SECOND, array, cast)


def _parse_timestamps(array: Array, rows: Mask, cast: Cast) -> tuple[Int64s, Int64s]:
    """Return (seconds, nanoseconds), as Java's lenient calendar reads them."""
    names = ("y", "m", "d", "h", "min", "s")
    year, month, day, *clock = _numbers(array, _JAVA_TIMESTAMP, names, rows, array, cast)
    hour, minute, second = (np.maximum(part, 0) for part in clock)
    nanos = _nanos(_only(array, rows))
    is_midnight_after = (hour == 24) & (minute == 0) & (second == 0) & (nanos == 0)
    is_bad = (year == 0) | (month < 1) | (month > 12) | (day < 1) | (day > 31)
    is_bad |= (hour > 23) & ~is_midnight_after
    cast.check(rows & (is_bad | (minute > 59) | (second > 59)), array)
    safe = np.where(rows, month, 1)
    days = days_of(year, safe, np.minimum(day, month_lengths(year, safe)))
    return days * SECONDS_PER_DAY + (hour * 60 + minute) * 60 + second, nanos


def _nanos(text: Array) -> Int64s:
    digits = pc.struct_field(pc.extract_regex(text, _JAVA_TIMESTAMP), "f")
    nanos: Int64s = values_of(pc.utf8_rpad(pc.fill_null(digits, ""), 9, "0").cast(pa.int64()))
    return nanos


def _cpp_timestamps(array: Array, cast: Cast) -> Array:
    """Let Arrow parse; nanoseconds outside 64 bits wrap, as they did in Arrow 17."""
    arrow_type = local_type(cast)
    parsed = attempt(array, arrow_type)
    if parsed is not None:
        return parsed
    if per_second(arrow_type) != NANOS_PER_SECOND:
        return cast.by_arrow(array, arrow_type)
    head = pc.replace_substring_regex(array, r"(:\d\d:\d\d)\.\d{1,9}$", r"\1")
    whole = attempt(head, timestamp_type("s", None))
    if whole is None:
        return cast.by_arrow(array, arrow_type)
    fraction = pc.struct_field(pc.extract_regex(array, r"\.(?P<f>\d{1,9})$"), "f")
    nanos = values_of(pc.utf8_rpad(pc.fill_null(fraction, ""), 9, "0").cast(pa.int64()))
    return column_of(values_of(whole) * NANOS_PER_SECOND + nanos, arrow_type, array)
