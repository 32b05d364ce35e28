"""DATE, TIME and timestamps; whole numbers of seconds → timestamps; all of them → text.

Local times ⇄ instants in the zone of the cast; Arrow's time zone database has no summer time after
2037. Days since 1970 ⇄ year, month and day of the proleptic Gregorian calendar.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.arrow_types import LTZ_ZONE, timestamp_type
from paimon_assets.engine.codec.arrow.arrow_values import UNIT_NANOS
from paimon_assets.engine.data.casting.arrays import (
    Numbers,
    column_of,
    furthest,
    valid_rows,
    values_of,
    with_nulls_as,
    with_nulls_of,
    without_ends,
)
from paimon_assets.engine.data.casting.cast import UTC, Array, Cast
from paimon_assets.engine.spec.types.data_types import AtomicType, TypeRoot

Int64s = npt.NDArray[np.int64]

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
FIRST_DAY = -719_528
"""0000-01-01, where the calendars of Paimon's types begin."""
LAST_DAY = 2_932_896
"""9999-12-31."""
DAYS_PER_CYCLE = 3_652_425
"""Days of 10,000 years, after which the same dates come again."""

_DAYS_BEFORE_MARCH = np.array([306, 337, 0, 31, 61, 92, 122, 153, 184, 214, 245, 275])
"""Days from 1 March to the first of each month, January first; the year begins in March."""
_MONTH_LENGTHS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


def days_of(year: Int64s, month: Int64s, day: Int64s) -> Int64s:
    """Return days since 1970-01-01; days may leave their month, months must be 1 to 12."""
    of_march = year - (month <= 2)  # January and February end the year before
    leap_days = of_march // 4 - of_march // 100 + of_march // 400
    since_march: Int64s = _DAYS_BEFORE_MARCH[month - 1] + day - 1
    return of_march * 365 + leap_days + since_march - 719_468


def month_lengths(year: Int64s, month: Int64s) -> Int64s:
    """Return the days of each month."""
    is_leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    lengths: Int64s = _MONTH_LENGTHS[month - 1] + ((month == 2) & is_leap)
    return lengths


MILLIS_PER_SECOND = 1000
NANOS_PER_SECOND = 10**9
_MILLI_DIGITS = 3
_LARGEST = 2**63 - 1


def is_zoned(data_type: AtomicType) -> bool:
    """Whether values are instants, not local times."""
    return data_type.root is TypeRoot.TIMESTAMP_LTZ


def per_second(arrow_type: pa.DataType) -> int:
    """Return the units of a timestamp in a second."""
    return NANOS_PER_SECOND // UNIT_NANOS[arrow_type.unit]  # type: ignore[attr-defined]


def scale(counts: Int64s, factor: int, array: Array, cast: Cast) -> Int64s:
    """Multiply counts of a time unit; raises where 64 bits do not hold the result."""
    if factor == 1:
        return counts
    limit = _LARGEST // factor
    if furthest(counts) > limit:
        is_bad = ((counts > limit) | (counts < -limit)) & valid_rows(array)
        cast.check(is_bad, array, f"{cast.arrow_type} cannot hold it")
    return counts * factor


def cut(counts: Int64s, divisor: int) -> Int64s:
    """Divide, toward zero."""
    if divisor == 1:
        return counts
    if counts.min(initial=0) < 0:
        counts = np.where(counts < 0, counts + (divisor - 1), counts)
    quotient: Int64s = counts // divisor
    return quotient


def _local(array: Array, cast: Cast) -> Array:
    return to_local(array, cast) if is_zoned(cast.source) else array


def local_type(cast: Cast) -> pa.DataType:
    """Return the target's Arrow type as local time."""
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


def millis_to_counts(millis: Int64s, array: Array, cast: Cast) -> Int64s:
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


def _whole_millis(counts: Int64s, unit: int) -> tuple[Int64s, int]:
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
        counts, unit = _java_digits(counts, unit, digits), 10**digits
    if target_unit >= unit:
        counts = scale(counts, target_unit // unit, array, cast)
    else:
        counts = cut(counts, unit // target_unit)
    return column_of(counts, cast.arrow_type, array)


def _java_digits(counts: Int64s, unit: int, digits: int) -> Int64s:
    """Return counts of a unit with so many digits of a second."""
    if digits >= _MILLI_DIGITS:
        floored: Int64s = counts // (unit // 10**digits)
        return floored
    millis, unit = _whole_millis(counts, unit)
    return cut(millis, unit // 10**digits)


def date_to_text(array: Array, cast: Cast) -> Array:
    """Write `yyyy-mm-dd`; Java writes the last four digits of later years."""
    if not cast.is_java:
        return array.cast(pa.string())
    days = _in_four_digit_years(values_of(array), 1, array, cast)
    return (array if days is None else _like_column(days, array)).cast(pa.string())


def _like_column(values: Numbers, array: Array) -> Array:
    return column_of(values.astype(values_of(array).dtype), array.type, array)


def _in_four_digit_years(counts: Numbers, per_day: int, array: Array, cast: Cast) -> Numbers | None:
    """Move years after 9999 to those of the same last digits; None if there are none."""
    counts = with_nulls_as(counts, array, 0).astype(np.int64)
    first, last = FIRST_DAY * per_day, (LAST_DAY + 1) * per_day - 1
    if first <= counts.min(initial=0) and counts.max(initial=0) <= last:
        return None
    cast.check((counts < first) & valid_rows(array), array, "it is before the year 0000")
    moved: Numbers = (counts - first) % (DAYS_PER_CYCLE * per_day) + first
    return moved


def timestamp_to_text(array: Array, cast: Cast) -> Array:
    """Write `yyyy-mm-dd hh:mm:ss` and the fraction.

    Java writes as many digits as the source has, C++ as the Arrow type has.
    """
    local = to_local(array, cast) if is_zoned(cast.source) else array
    if not cast.is_java:
        return local.cast(pa.string())
    unit = per_second(local.type)
    moved = _in_four_digit_years(values_of(local), unit * SECONDS_PER_DAY, local, cast)
    column = local if moved is None else _like_column(moved, local)
    text = column.cast(pa.string())
    stored = len(str(unit)) - 1
    digits = cast.source.precision or 0
    if digits == stored:
        return text
    spare = _zero_digits(with_nulls_as(values_of(column), column, 0), stored - digits)
    return with_nulls_of(without_ends(text.fill_null("0" * stored), spare), array)


def _zero_digits(counts: Numbers, most: int) -> npt.NDArray[np.int64]:
    """Return how many digits at the end are zero, up to a number."""
    zeros = np.zeros(len(counts), np.int64)
    for digits in range(1, most + 1):
        zeros[counts % 10**digits == 0] = digits
    return zeros


def time_to_text(array: Array, cast: Cast) -> Array:
    """Write `hh:mm:ss` and, unless the precision is 0, at least one digit of the fraction."""
    text = array.cast(pa.string())
    digits = min(cast.source.precision or 0, _MILLI_DIGITS)
    if not digits:
        fraction = _MILLI_DIGITS + 1
        counts = np.full(len(text), fraction, np.int64)
        return with_nulls_of(without_ends(text.fill_null("0" * fraction), counts), array)
    millis = with_nulls_as(values_of(array), array, 0)
    spare = np.maximum(_zero_digits(millis, _MILLI_DIGITS - 1), _MILLI_DIGITS - digits)
    return with_nulls_of(without_ends(text.fill_null("0" * _MILLI_DIGITS), spare), array)
