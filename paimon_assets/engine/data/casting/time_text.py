"""DATE, TIME and timestamps → text."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_assets.engine.data.casting.arrays import (
    Numbers,
    column_of,
    valid_rows,
    values_of,
    with_nulls_as,
    with_nulls_of,
    without_ends,
)
from paimon_assets.engine.data.casting.calendar import (
    DAYS_PER_CYCLE,
    FIRST_DAY,
    LAST_DAY,
    SECONDS_PER_DAY,
)
from paimon_assets.engine.data.casting.cast import Array, Cast
from paimon_assets.engine.data.casting.times import is_zoned, per_second
from paimon_assets.engine.data.casting.zones import to_local

_MILLI_DIGITS = 3


def date_to_text(array: Array, cast: Cast) -> Array:
    """Write `yyyy-mm-dd`; Java shows the last four digits of later years."""
    if not cast.is_java:
        return array.cast(pa.string())
    days = _in_four_digit_years(values_of(array), 1, array, cast)
    return array.cast(pa.string()) if days is None else _column(days, array).cast(pa.string())


def _column(values: Numbers, array: Array) -> Array:
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
    column = local if moved is None else _column(moved, local)
    text = column.cast(pa.string())
    stored = len(str(unit)) - 1
    digits = cast.source.precision or 0
    if digits == stored:
        return text
    spare = _zero_digits(with_nulls_as(values_of(column), column, 0), stored - digits)
    return with_nulls_of(without_ends(text.fill_null("0" * stored), spare), array)


def _zero_digits(counts: Numbers, most: int) -> npt.NDArray[np.int64]:
    """Return how many digits at the end are zero, up to a number."""
    found = np.zeros(len(counts), np.int64)
    for digits in range(1, most + 1):
        found[counts % 10**digits == 0] = digits
    return found


def time_to_text(array: Array, cast: Cast) -> Array:
    """Write `hh:mm:ss` and, unless the precision is 0, at least one digit of the fraction."""
    text = array.cast(pa.string())
    digits = min(cast.source.precision or 0, _MILLI_DIGITS)
    if not digits:
        return with_nulls_of(_cut_all(text, _MILLI_DIGITS + 1), array)
    millis = with_nulls_as(values_of(array), array, 0)
    spare = np.maximum(_zero_digits(millis, _MILLI_DIGITS - 1), _MILLI_DIGITS - digits)
    return with_nulls_of(without_ends(text.fill_null("0" * _MILLI_DIGITS), spare), array)


def _cut_all(text: Array, count: int) -> Array:
    filled = text.fill_null("0" * count)
    return without_ends(filled, np.full(len(text), count, np.int64))
