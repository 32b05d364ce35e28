"""Timestamps of every year in ORC files: what pyarrow's nanoseconds do not hold, in microseconds.

Only for columns whose statistics reach beyond the years 1678 to 2261. Java counts a TIMESTAMP by
its JVM's calendar, which is the Julian one before October 1582, and keeps days as they are called.
Source: `org.apache.orc.impl.TreeReaderFactory`, `java.sql.Timestamp`.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_assets.engine.codec.orc_footer import OrcFooter, Read
from paimon_assets.engine.codec.orc_times import EPOCH, read_times
from paimon_assets.engine.data.format.orc_values import INSTANT, UTC_NAMES, offsets_of
from paimon_assets.engine.errors import FormatError

_MOST_MILLIS = 9_223_372_036_000
"""What 64 bits of nanoseconds hold, in whole seconds."""
_KEPT_NANOS = 999_999
_DAY = 86_400
GREGORIAN = -12_219_292_800
"""1582-10-15, the first day of the Gregorian calendar, in seconds."""
_MICROS = 1_000_000


def wide_columns(footer: OrcFooter) -> frozenset[str]:
    """Return the timestamp columns of a file that hold years beyond 1678 to 2261."""
    return frozenset(
        name
        for name, column in footer.columns.items()
        if column.milliseconds is not None
        and not -_MOST_MILLIS <= column.milliseconds[0] <= column.milliseconds[1] <= _MOST_MILLIS
    )


def read_wide(
    footer: OrcFooter,
    read: Read,
    stripe: int,
    number: int,
    column: str,
    path: str,
    *,
    zone: str,
    is_legacy: bool,
) -> Any:
    """Decode a timestamp column as microseconds, or as nanoseconds if it has them."""
    is_instant = footer.types[number].kind == INSTANT
    seconds, nanos, valid = read_times(footer, read, stripe, number, path)
    is_moved = zone not in UTC_NAMES and (is_legacy or not is_instant)
    if is_moved and not is_instant:
        seconds -= offsets_of(np.array([EPOCH], np.int64), zone, path)
    seconds -= (seconds < 0) & (nanos > _KEPT_NANOS)
    if is_moved:
        seconds += offsets_of(seconds, zone, path)
    if footer.is_julian and (is_legacy or not is_instant):
        seconds = _as_called(seconds)
    zone_name = "UTC" if is_instant else None
    values: Any
    if not (nanos % 1000).any():
        values = pa.array(seconds * _MICROS + nanos // 1000, mask=~valid)
        return values.cast(pa.timestamp("us", tz=zone_name))
    if (np.abs(seconds) * 1000 > _MOST_MILLIS).any():
        raise FormatError(
            f"Column '{column}' of ORC file '{path}' holds both nanoseconds and years outside 1678"
            " to 2261, which 64 bits do not hold. Leave the column out, or make it TIMESTAMP(6).",
            kind="orc-timestamp",
            details={"path": path, "column": column},
        )
    values = pa.array(seconds * _MICROS * 1000 + nanos, mask=~valid)
    return values.cast(pa.timestamp("ns", tz=zone_name))


def _as_called(seconds: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Give days before October 1582 the place of the day that is called so today."""
    old = seconds < GREGORIAN
    if not old.any():
        return seconds
    days = seconds[old] // _DAY
    # The Julian calendar's day, counted from March of the year 0 in cycles of four years.
    since = days + 719_470
    cycle, rest = since // 1461, since % 1461
    year = np.minimum(rest // 365, 3)
    day_of_year = rest - 365 * year
    months = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * months + 2) // 5
    year = year + 4 * cycle
    # The Gregorian one, counted alike.
    called = 365 * year + year // 4 - year // 100 + year // 400 + (153 * months + 2) // 5 + day
    moved = seconds.copy()
    moved[old] = (called - 719_468) * _DAY + seconds[old] % _DAY
    return moved
