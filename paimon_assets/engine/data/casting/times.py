"""DATE, TIME and timestamps ⇄ each other, text, and whole numbers of seconds.

Local times ⇄ instants in the zone of the cast; Arrow's time zone database has no summer time after
2037. Of text, Arrow's parsers read the usual forms (`2024-02-29`, `2024-02-29 12:30:00.123`), which
both dialects agree on; other forms are matched by regular expressions, each dialect by its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.arrow_types import LTZ_ZONE, timestamp_type, timestamp_unit
from paimon_assets.engine.codec.arrow.arrow_values import UNIT_NANOS
from paimon_assets.engine.codec.arrow.numpy_columns import Flags, Longs, from_numpy, valid_rows
from paimon_assets.engine.data.casting.cast import (
    UTC,
    Array,
    Cast,
    attempt,
    bytes_of,
    column_of,
    furthest,
    lengths_of,
    truth_of,
    values_of,
    with_nulls_as,
    with_nulls_of,
    without_ends,
)
from paimon_assets.engine.data.casting.numbers import zeros_behind
from paimon_assets.engine.spec.types.data_types import AtomicType, TypeRoot

_NANOS_PER_DAY = 86_400 * 10**9
_FAR = 2**62


def to_local(array: Array, cast: Cast) -> Array:
    """Return instants as local times of the zone, without zone."""
    if cast.zone == UTC:
        return array.view(timestamp_type(array.type.unit, None))
    local = pc.local_timestamp(array.cast(timestamp_type(array.type.unit, cast.zone)))
    return _check_wrapping(local, array, cast)


def to_instant(array: Array, cast: Cast) -> Array:
    """Return the instants of local times of the zone.

    Of an ambiguous time, Java takes the earlier instant; a time in a gap it moves forward by the
    gap. C++ refuses both.
    """
    unit = array.type.unit
    if cast.zone == UTC:
        return array.view(timestamp_type(unit, LTZ_ZONE))
    if not cast.is_java:
        reason = f"clocks in {cast.zone} show it twice or never"
        assumed = cast.apply(array, lambda part: pc.assume_timezone(part, cast.zone), reason)
        return _check_wrapping(assumed.cast(timestamp_type(unit, LTZ_ZONE)), array, cast)
    earliest = _earliest(array, cast)
    in_gap = values_of(pc.local_timestamp(earliest)) != values_of(array)
    day = _NANOS_PER_DAY // UNIT_NANOS[unit]
    before = column_of(values_of(array) - day, array.type, array)
    moved = values_of(_earliest(before, cast)) + day
    instants = np.where(in_gap, moved, values_of(earliest))
    return _check_wrapping(column_of(instants, timestamp_type(unit, LTZ_ZONE), array), array, cast)


def _earliest(array: Array, cast: Cast) -> Array:
    return pc.assume_timezone(array, cast.zone, ambiguous="earliest", nonexistent="earliest")


def _check_wrapping(result: Array, array: Array, cast: Cast) -> Array:
    """Refuse times that moving by some hours took out of 64 bits."""
    before, after = values_of(array), values_of(result)
    wrapped = ((before > _FAR) & (after < 0)) | ((before < -_FAR) & (after > 0))
    cast.check(wrapped & valid_rows(array), array, f"{result.type} cannot hold it")
    return result


SECONDS_PER_DAY = 86_400
_FIRST_DAY = -719_528
"""0000-01-01, where the calendars of Paimon's types begin."""
_LAST_DAY = 2_932_896
"""9999-12-31."""
_DAYS_PER_CYCLE = 3_652_425
"""Days of 10,000 years, after which the same dates come again."""


def _months(year: Longs, month: Longs) -> tuple[Longs, Longs]:
    """Return months as (days since 1970-01-01 of their first, days in them)."""
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    first, after = (each.astype("datetime64[D]").astype(np.int64) for each in (months, months + 1))
    return first, after - first


MILLIS_PER_SECOND = 1000
NANOS_PER_SECOND = 10**9
_MILLI_DIGITS = 3
_LARGEST = 2**63 - 1


def is_zoned(data_type: AtomicType) -> bool:
    return data_type.root is TypeRoot.TIMESTAMP_LTZ


def per_second(arrow_type: pa.DataType) -> int:
    """Return the units of a timestamp in a second."""
    return NANOS_PER_SECOND // UNIT_NANOS[arrow_type.unit]  # type: ignore[attr-defined]


def scale(counts: Longs, factor: int, array: Array, cast: Cast) -> Longs:
    """Multiply counts of a time unit; raises where 64 bits do not hold the result."""
    if factor == 1:
        return counts
    limit = _LARGEST // factor
    if furthest(counts) > limit:
        is_bad = ((counts > limit) | (counts < -limit)) & valid_rows(array)
        cast.check(is_bad, array, f"{cast.arrow_type} cannot hold it")
    return counts * factor


def cut(counts: Longs, divisor: int) -> Longs:
    """Divide, toward zero."""
    if counts.min(initial=0) < 0:
        counts = np.where(counts < 0, counts + (divisor - 1), counts)
    return counts // divisor


def _local(array: Array, cast: Cast) -> Array:
    return to_local(array, cast) if is_zoned(cast.source) else array


def local_type(cast: Cast) -> pa.DataType:
    return timestamp_type(cast.arrow_type.unit, None)  # type: ignore[attr-defined]


def seconds_to_timestamp(array: Array, cast: Cast) -> Array:
    """Take whole numbers as seconds since 1970; Java's milliseconds wrap at 64 bits."""
    seconds = values_of(array).astype(np.int64, copy=False)
    unit = per_second(cast.arrow_type)
    if not cast.is_java:
        instants = column_of(scale(seconds, unit, array, cast), cast.arrow_type, array)
        if is_zoned(cast.target):
            return instants
        return to_local(instants.view(timestamp_type(cast.arrow_type.unit, LTZ_ZONE)), cast)  # type: ignore[attr-defined]
    if furthest(seconds) <= _LARGEST // MILLIS_PER_SECOND:
        counts = scale(seconds, unit, array, cast)
    else:
        counts = millis_to_counts(seconds * MILLIS_PER_SECOND, array, cast)
    if not is_zoned(cast.target):
        return column_of(counts, cast.arrow_type, array)
    # Java converts the instant to local time, and takes that for the instant.
    return to_local(column_of(counts, cast.arrow_type, array), cast).view(cast.arrow_type)


def millis_to_counts(millis: Longs, array: Array, cast: Cast) -> Longs:
    """Return milliseconds in the target's unit; raises where that loses something."""
    unit = per_second(cast.arrow_type)
    if unit >= MILLIS_PER_SECOND:
        return scale(millis, unit // MILLIS_PER_SECOND, array, cast)
    is_bad = (millis % MILLIS_PER_SECOND != 0) & valid_rows(array)
    cast.check(is_bad, array, f"{cast.arrow_type} cannot hold it")
    return millis // MILLIS_PER_SECOND


def timestamp_to_seconds(array: Array, cast: Cast) -> Array:
    """Return seconds since 1970, cut toward zero, and of INT the low bits."""
    if not cast.is_java:
        local = array if is_zoned(cast.source) else to_instant(array, cast)
        seconds = cut(values_of(local), per_second(array.type))
    else:
        counts, unit = _whole_millis(values_of(array), per_second(array.type))
        seconds = cut(counts, unit)
    return column_of(seconds.astype(cast.arrow_type.to_pandas_dtype()), cast.arrow_type, array)


def _whole_millis(counts: Longs, unit: int) -> tuple[Longs, int]:
    """Round down to milliseconds; return (counts, units of a second)."""
    if unit <= MILLIS_PER_SECOND:
        return counts, unit
    return counts // (unit // MILLIS_PER_SECOND), MILLIS_PER_SECOND


def timestamp_to_date(array: Array, cast: Cast) -> Array:
    """Return days; Java cuts milliseconds of local times toward zero, so before 1970 a day late."""
    local = _local(array, cast)
    counts, unit = values_of(local), per_second(local.type)
    if cast.is_java and not is_zoned(cast.source) and counts.min(initial=0) < 0:
        counts, unit = _whole_millis(counts, unit)
        days = cut(counts, unit * SECONDS_PER_DAY)
    else:
        days = counts // (unit * SECONDS_PER_DAY)
    return column_of(days.astype(np.int32), pa.date32(), array)


def timestamp_to_time(array: Array, cast: Cast) -> Array:
    """Return the milliseconds of the day."""
    local = _local(array, cast)
    unit = per_second(local.type)
    of_day = values_of(local) % (unit * SECONDS_PER_DAY)
    if unit < MILLIS_PER_SECOND:
        millis = of_day * MILLIS_PER_SECOND
    else:
        millis = of_day // (unit // MILLIS_PER_SECOND)
    return column_of(millis.astype(np.int32), pa.time32("ms"), array)


def date_to_timestamp(array: Array, cast: Cast) -> Array:
    """Take dates as midnight."""
    factor = SECONDS_PER_DAY * per_second(cast.arrow_type)
    counts = scale(values_of(array).astype(np.int64), factor, array, cast)
    local = column_of(counts, local_type(cast), array)
    return to_instant(local, cast) if is_zoned(cast.target) else local


def time_to_timestamp(array: Array, cast: Cast) -> Array:
    """Return the time of the first of January 1970; an instant is that of UTC."""
    counts = millis_to_counts(values_of(array).astype(np.int64), array, cast)
    return column_of(counts, cast.arrow_type, array)


def timestamp_to_timestamp(array: Array, cast: Cast) -> Array:
    """Change zone, then precision.

    Java cuts digits downward, but those of milliseconds (precision 0 to 2) toward zero. C++ looks
    only at the unit that holds the precision, and cuts toward zero.
    """
    if is_zoned(cast.source) is is_zoned(cast.target):
        column = array
    else:
        column = to_instant(array, cast) if is_zoned(cast.target) else to_local(array, cast)
    counts, unit = values_of(column), per_second(column.type)
    target_unit, digits = per_second(cast.arrow_type), cast.target.precision or 0
    if cast.is_java and digits < (cast.source.precision or 0):
        if digits < _MILLI_DIGITS:
            counts, unit = _whole_millis(counts, unit)
            counts = cut(counts, unit // 10**digits)
        else:
            counts = counts // (unit // 10**digits)
        unit = 10**digits
    if target_unit >= unit:
        counts = scale(counts, target_unit // unit, array, cast)
    else:
        counts = cut(counts, unit // target_unit)
    return column_of(counts, cast.arrow_type, array)


def date_to_text(array: Array, cast: Cast) -> Array:
    """Write `yyyy-mm-dd`; Java writes the last four digits of later years."""
    return (_with_four_digit_years(array, 1, cast) if cast.is_java else array).cast(pa.string())


def has_late_years(array: Array) -> Flags:
    """Return which dates and timestamps are after the year 9999: no text of Java is theirs."""
    per_day = 1 if pa.types.is_date(array.type) else per_second(array.type) * SECONDS_PER_DAY
    counts = with_nulls_as(values_of(array), array, 0).astype(np.int64)
    flags: Flags = counts > min((_LAST_DAY + 1) * per_day - 1, np.iinfo(np.int64).max)
    return flags


def _with_four_digit_years(array: Array, per_day: int, cast: Cast) -> Array:
    """Move years after 9999 to those of the same last digits."""
    counts = with_nulls_as(values_of(array), array, 0).astype(np.int64)
    first, last = _FIRST_DAY * per_day, (_LAST_DAY + 1) * per_day - 1
    if first <= counts.min(initial=0) and counts.max(initial=0) <= last:
        return array
    cast.check((counts < first) & valid_rows(array), array, "it is before the year 0000")
    moved = (counts - first) % (_DAYS_PER_CYCLE * per_day) + first
    return column_of(moved.astype(values_of(array).dtype), array.type, array)


def timestamp_to_text(array: Array, cast: Cast) -> Array:
    """Write a timestamp: the source's digits of the fraction in Java, Arrow's in C++."""
    local = _local(array, cast)
    if not cast.is_java:
        return local.cast(pa.string())
    unit = per_second(local.type)
    column = _with_four_digit_years(local, unit * SECONDS_PER_DAY, cast)
    text = column.cast(pa.string())
    stored = len(str(unit)) - 1
    most = stored - (cast.source.precision or 0)
    if not most:
        return text
    counts = with_nulls_as(values_of(column), column, 0)
    spare = np.where(counts == 0, most, zeros_behind(counts, most))
    return with_nulls_of(without_ends(text.fill_null("0" * stored), spare), array)


def time_to_text(array: Array, cast: Cast) -> Array:
    """Write `hh:mm:ss` and, unless the precision is 0, at least one digit of the fraction."""
    text = array.cast(pa.string())
    digits = min(cast.source.precision or 0, _MILLI_DIGITS)
    if not digits:
        return pc.utf8_slice_codeunits(text, 0, len("hh:mm:ss"))
    millis = with_nulls_as(values_of(array), array, 0)
    zeros = np.where(millis == 0, _MILLI_DIGITS - 1, zeros_behind(millis, _MILLI_DIGITS - 1))
    spare = np.maximum(zeros, _MILLI_DIGITS - digits)
    return with_nulls_of(without_ends(text.fill_null("0" * _MILLI_DIGITS), spare), array)


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
_DAY_MILLIS = SECONDS_PER_DAY * MILLIS_PER_SECOND
_FIRST_SECOND = -62_135_596_800
"""0001-01-01; Java's parser knows no year 0000."""
_EPOCH_PRECISIONS = (0, 3, 6, 9)
"""Those whose units a text of digits counts in Java."""


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
        days[rows] = (_java_days if cast.is_java else _cpp_days)(array, rows, cast)[rows]
    return column_of(days.astype(np.int32), pa.date32(), array)


def _only(array: Array, rows: Flags) -> Array:
    """Return a column that is null except in some rows."""
    return pc.if_else(from_numpy(rows), array, pa.scalar(None, array.type))


def _match(text: Array, pattern: str, rows: Flags, array: Array, cast: Cast) -> Array:
    """Return the parts of some texts; raises for those that do not have the form."""
    parts: Array = pc.extract_regex(_only(text, rows), pattern)
    cast.check(rows & ~valid_rows(parts), array)
    return parts


def _numbers(parts: Array, names: Sequence[str], array: Array, cast: Cast) -> list[Longs]:
    """Return the named groups of a matched text as numbers, -1 where a text lacks one."""
    numbers = []
    for name in names:
        digits = pc.fill_null(pc.struct_field(parts, name), "")
        cast.check(lengths_of(pc.utf8_ltrim(digits, characters="0")) > _LONGEST_PART, array)
        is_absent = pc.equal(digits, pa.scalar(""))
        numbers.append(values_of(pc.if_else(is_absent, "-1", digits).cast(pa.int64())))
    return numbers


def _fraction(parts: Array, count: int) -> Longs:
    """Return so many digits of the fraction of a second as a number."""
    digits = pc.utf8_slice_codeunits(pc.fill_null(pc.struct_field(parts, "f"), ""), 0, count)
    return values_of(pc.utf8_rpad(digits, count, "0").cast(pa.int64()))


def _java_days(array: Array, rows: Flags, cast: Cast) -> Longs:
    text = array
    if (bytes_of(text) == ord(" ")).any():
        text = pc.replace_substring_regex(text, _BEHIND_BLANK, r"\1")
    parts = _match(text, _JAVA_DATE, rows, array, cast)
    year, month, day = _numbers(parts, "ymd", array, cast)
    month, day = np.where(month < 0, 1, month), np.where(day < 0, 1, day)
    is_bad = (year > 9999) | (month < 1) | (month > 12) | (day < 1)
    first, length = _months(year, month)
    cast.check(rows & (is_bad | (day > length)), array)
    return first + day - 1


def _cpp_days(array: Array, rows: Flags, cast: Cast) -> Longs:
    """A part left out is the zeroth: its month or year ends one day earlier."""
    parts = _match(array, _CPP_DATE, rows, array, cast)
    year, month, day = _numbers(parts, "ymd", array, cast)
    is_bad = (month == 0) | (month > 12) | (day == 0) | (day > 31)
    cast.check(rows & is_bad, array)
    month, day = np.where(month < 0, 1, month), np.where(day < 0, 0, day)
    return _months(year, month)[0] + day - 1


def text_to_time(array: Array, cast: Cast) -> Array:
    """Parse `h[:m[:s[.fff]]]`; digits alone are milliseconds."""
    is_number = truth_of(pc.match_substring_regex(array, _DIGITS))
    millis = np.zeros(len(array), np.int64)
    if is_number.any():
        numbers = _only(array, is_number)
        millis[is_number] = values_of(cast.by_arrow(numbers, pa.int64()))[is_number]
    rows = valid_rows(array) & ~is_number
    if rows.any():
        parts = _match(array, _TIME, rows, array, cast)
        clock = _numbers(parts, ("h", "min", "s"), array, cast)
        hour, minute, second = (np.maximum(part, 0) for part in clock)
        of_day = ((hour * 60 + minute) * 60 + second) * MILLIS_PER_SECOND
        # The fourth digit is rounded, further ones are cut.
        millis[rows] = (of_day + (_fraction(parts, 4) + 5) // 10)[rows]
    cast.check(((millis < 0) | (millis >= _DAY_MILLIS)) & valid_rows(array), array)
    return column_of(millis.astype(np.int32), pa.time32("ms"), array)


def text_to_timestamp(array: Array, cast: Cast) -> Array:
    """Parse timestamps; Java takes digits alone as a number of the precision's unit."""
    local = _java_timestamps(array, cast) if cast.is_java else _cpp_timestamps(array, cast)
    return to_instant(local, cast) if is_zoned(cast.target) else local


def _java_timestamps(array: Array, cast: Cast) -> Array:
    plain = _usual_timestamps(array, cast)
    if plain is not None:
        return plain
    arrow_type = local_type(cast)
    is_number = truth_of(pc.match_substring_regex(array, _DIGITS)) & (not is_zoned(cast.target))
    counts = np.zeros(len(array), np.int64)
    if is_number.any():
        counts[is_number] = _epochs(_only(array, is_number), cast)[is_number]
    rows = valid_rows(array) & ~is_number
    if rows.any():
        seconds, nanos = _parse_timestamps(array, rows, cast)
        seconds = np.where(rows, seconds, 0)
        step = 10 ** (9 - (cast.target.precision or 0))
        unit = per_second(arrow_type)
        # The first second of a unit may begin before its smallest value: count from its end.
        is_before = seconds < 0
        times: Longs = scale(seconds + is_before, unit, _only(array, rows), cast)
        times = times + nanos // step * step // (NANOS_PER_SECOND // unit) - unit * is_before
        wrapped = (is_before & (times > 0)) | ((seconds > 0) & (times < 0))
        cast.check(wrapped & rows, array, f"{cast.arrow_type} cannot hold it")
        counts[rows] = times[rows]
    return column_of(counts, arrow_type, array)


def _usual_timestamps(array: Array, cast: Cast) -> Array | None:
    """Let Arrow parse if all texts have the usual length and form, else return None."""
    lengths = lengths_of(array)
    usual = (lengths == _DATE_LENGTH) | (lengths >= _SECONDS_LENGTH) | ~valid_rows(array)
    if (bytes_of(array) == ord("T")).any() or not usual.all():
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


def _epochs(array: Array, cast: Cast) -> Longs:
    precision = cast.target.precision or 0
    if precision not in _EPOCH_PRECISIONS:
        cast.check(array.is_valid(), array, f"digits mean no time of precision {precision}")
    epochs = values_of(cast.by_arrow(array, pa.int64()))
    if precision:
        return epochs
    return millis_to_counts(epochs * MILLIS_PER_SECOND, array, cast)


def _parse_timestamps(array: Array, rows: Flags, cast: Cast) -> tuple[Longs, Longs]:
    """Return (seconds, nanoseconds), as Java's lenient calendar reads them."""
    parts = _match(array, _JAVA_TIMESTAMP, rows, array, cast)
    year, month, day, *clock = _numbers(parts, ("y", "m", "d", "h", "min", "s"), array, cast)
    hour, minute, second = (np.maximum(part, 0) for part in clock)
    nanos = _fraction(parts, 9)
    is_midnight_after = (hour == 24) & (minute == 0) & (second == 0) & (nanos == 0)
    is_bad = (year == 0) | (month < 1) | (month > 12) | (day < 1) | (day > 31)
    is_bad |= (hour > 23) & ~is_midnight_after
    cast.check(rows & (is_bad | (minute > 59) | (second > 59)), array)
    first, length = _months(year, month)
    days = first + np.minimum(day, length) - 1
    return days * SECONDS_PER_DAY + (hour * 60 + minute) * 60 + second, nanos


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
    nanos = _fraction(pc.extract_regex(array, r"\.(?P<f>\d{1,9})$"), 9)
    return column_of(values_of(whole) * NANOS_PER_SECOND + nanos, arrow_type, array)
