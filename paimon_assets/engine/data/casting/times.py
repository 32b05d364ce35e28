"""DATE, TIME, TIMESTAMP, TIMESTAMP WITH LOCAL TIME ZONE and whole numbers of seconds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_assets.engine.codec.arrow.arrow_types import LTZ_ZONE, timestamp_type
from paimon_assets.engine.codec.arrow.arrow_values import UNIT_NANOS
from paimon_assets.engine.data.casting.arrays import column_of, furthest, valid_rows, values_of
from paimon_assets.engine.data.casting.calendar import SECONDS_PER_DAY
from paimon_assets.engine.data.casting.cast import Array, Cast
from paimon_assets.engine.data.casting.zones import to_instant, to_local
from paimon_assets.engine.spec.types.data_types import AtomicType, TypeRoot

Int64s = npt.NDArray[np.int64]

MILLIS_PER_SECOND = 1000
NANOS_PER_SECOND = 10**9
_MOST_MILLI_DIGITS = 3
_LARGEST = 2**63 - 1


def is_zoned(data_type: AtomicType) -> bool:
    """Whether values are instants, not local times."""
    return data_type.root is TypeRoot.TIMESTAMP_LTZ


def per_second(arrow_type: pa.DataType) -> int:
    """Return how many units of a timestamp make a second."""
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
    # Java shows the instant in its zone, and takes what it shows as the instant.
    shown = to_local(column_of(counts, cast.arrow_type, array), cast)
    return shown.view(cast.arrow_type)


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
    """Drop what is finer than milliseconds, downward; return (counts, units of a second)."""
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
    """Return midnight."""
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
    wanted, digits = per_second(cast.arrow_type), cast.target.precision or 0
    if cast.is_java and digits < (cast.source.precision or 0):
        counts, unit = _java_digits(counts, unit, digits), 10**digits
    if wanted >= unit:
        counts = scale(counts, wanted // unit, array, cast)
    else:
        counts = cut(counts, unit // wanted)
    return column_of(counts, cast.arrow_type, array)


def _java_digits(counts: Int64s, unit: int, digits: int) -> Int64s:
    """Return counts of a unit with so many digits of a second."""
    if digits >= _MOST_MILLI_DIGITS:
        floored: Int64s = counts // (unit // 10**digits)
        return floored
    millis, unit = _whole_millis(counts, unit)
    return cut(millis, unit // 10**digits)
