"""Corrections of values that pyarrow's ORC reader returns otherwise than Java's.

    CHAR(n)      is padded with blanks            Java cuts them off
    TIMESTAMP    may be off by a second           if the writer's zone was not UTC, near 1970
    TIMESTAMP    may be off by minutes            in old years, where Java has other offsets
    instants     are moved by the writer's zone   if the table has `orc.timestamp-ltz.legacy.type`

A file stores a timestamp as seconds, cut toward zero, and fraction digits. If the fraction is a
millisecond or more, a reader subtracts one from seconds that are negative in the writer's zone.
pyarrow checks the sign after the conversion to UTC, so values between the two zeros are wrong.
Source: `org.apache.orc.impl.TreeReaderFactory`, `org.apache.paimon.format.orc`.
"""

import os
import struct
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from zoneinfo import TZPATH, ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy
from paimon_assets.engine.codec.orc_footer import OrcType
from paimon_assets.engine.errors import FormatError

_TIMESTAMP, _LIST, _MAP, _STRUCT, _CHAR, INSTANT = 9, 10, 11, 12, 17, 18
UTC_NAMES = frozenset({"UTC", "GMT", "Z", "Etc/UTC", "Etc/GMT", "Universal", "Zulu"})
_SECOND = 1_000_000_000
_FLOORED_NANOS = 999_999
"""Up to so many nanoseconds, seconds before 1970 are not cut toward zero."""
_DAY = 86_400
_FIRST_YEAR, _LAST_YEAR = 1900, 2093
"""Before the first, a zone of Java has its offset of today; after the last, years repeat."""
_REPEATED_YEARS = 28
_FIRST_START = int(datetime(_FIRST_YEAR, 1, 1, tzinfo=UTC).timestamp())

Types = tuple[OrcType, ...]
_Longs = npt.NDArray[np.int64]
Fixes = Mapping[int, Callable[[Any], Any]]
"""Kind of a type → correction of its values."""


def holds(types: Types, number: int, kinds: Collection[int]) -> bool:
    """Whether a type, or one inside it, is of some kinds."""
    orc_type = types[number]
    return orc_type.kind in kinds or any(holds(types, inner, kinds) for inner in orc_type.inner)


def fixes_of(zone: str, *, is_legacy: bool, path: str) -> Fixes:
    """Return the corrections for a stripe."""
    fixes: dict[int, Callable[[Any], Any]] = {_CHAR: partial(pc.utf8_rtrim, characters=" ")}
    if zone not in UTC_NAMES:
        fixes[_TIMESTAMP] = lambda column: _time(column, zone, path)
        if is_legacy:
            fixes[INSTANT] = lambda column: _move_back(column, zone, path)
    return fixes


def offsets_of(seconds: _Longs, zone: str, path: str) -> _Longs:
    """Return Java's offsets of a zone from UTC at instants, in seconds."""
    starts, offsets = _transitions(_zone(zone, path))
    years = seconds.astype("datetime64[s]").astype("datetime64[Y]")
    repeated = np.datetime64(str(_LAST_YEAR), "Y") - np.arange(_REPEATED_YEARS)
    day_of_kind = np.zeros(14, np.int64)
    day_of_kind[_kinds(repeated)] = _first_days(repeated)
    moved = (day_of_kind[_kinds(years)] - _first_days(years)) * _DAY
    near = np.where(years > repeated[0], seconds + moved, seconds)
    return offsets[np.searchsorted(starts, near, side="right")]


def move_milliseconds(stored: tuple[int, int], zone: str, path: str) -> tuple[int, ...]:
    """Move instants back by the writer's zone."""
    millis = np.array(stored, np.int64)
    if zone not in UTC_NAMES:
        millis += offsets_of(millis // 1000, zone, path) * 1000
    return tuple(millis.tolist())


def _kinds(years: Any) -> _Longs:
    """Return a number below 14 for each year; years of the same calendar have the same."""
    days = _first_days(years)
    return days % 7 * 2 + (_first_days(years + 1) - days > 365)


def _first_days(years: Any) -> _Longs:
    days: _Longs = years.astype("datetime64[D]").astype(np.int64)
    return days


@lru_cache(maxsize=16)
def _transitions(zone: tzinfo) -> tuple[_Longs, _Longs]:
    """Return when the offset of a zone changes, and the offsets before, between and after."""

    def offset(second: int) -> int:
        return _total_seconds(datetime.fromtimestamp(second, UTC).astimezone(zone).utcoffset())

    first, end = _FIRST_START, int(datetime(_LAST_YEAR + 1, 1, 1, tzinfo=UTC).timestamp())
    standard = min(offset(end), offset(end - 180 * _DAY))
    starts, offsets = [first], [standard, offset(first)]
    for day in range(first + _DAY, end, _DAY):
        if offset(day) == offsets[-1]:
            continue
        low, high = day - _DAY, day
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset(middle) == offsets[-1] else (low, middle)
        starts.append(high)
        offsets.append(offset(day))
    return np.array(starts, np.int64), np.array(offsets, np.int64)


@lru_cache(maxsize=16)
def _arrow_clock(zone: str) -> tuple[_Longs, _Longs]:
    """Return when the offset of a zone changes in Arrow's ORC reader, and the offsets between.

    The reader reads the zone's file; before the first change it uses the first offset that is not
    summer time. Source: `Timezone.cc` of Apache ORC, RFC 8536.
    """
    folders = filter(None, (os.environ.get("TZDIR"), *TZPATH))
    data = next(file for folder in folders if (file := Path(folder, zone)).is_file()).read_bytes()
    utc, standard, leaps, times, types, letters = struct.unpack_from(">6i", data, 20)
    header = 44 + times * 5 + types * 6 + letters + leaps * 8 + standard + utc
    times, types = struct.unpack_from(">2i", data, header + 32)
    starts = np.frombuffer(data, ">i8", times, header + 44).astype(np.int64)
    kinds = np.frombuffer(data, np.uint8, times, header + 44 + times * 8)
    layout = np.dtype([("offset", ">i4"), ("is_summer", "?"), ("letters", "u1")])
    rules = np.frombuffer(data, layout, types, header + 44 + times * 9)
    winters = [kind for kind in (*kinds, 0) if not rules["is_summer"][kind]]
    return starts, rules["offset"][[winters[0], *kinds]].astype(np.int64)


def _zone(name: str, path: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise unknown_zone(name, path) from error


def unknown_zone(name: str, path: str) -> FormatError:
    """Return the error of a file whose writer's zone this machine does not know."""
    return FormatError(
        f"ORC file '{path}' was written in the zone '{name}', which is not known here, so its"
        " timestamps cannot be read. Leave these columns out, or rewrite the table as parquet.",
        kind="orc-zone",
        details={"path": path, "zone": name},
    )


def _total_seconds(offset: timedelta | None) -> int:
    return 0 if offset is None else round(offset.total_seconds())


def as_java_reads(column: Any, types: Types, number: int, fixes: Fixes) -> Any:
    """Correct an array of a column."""
    if not holds(types, number, fixes):
        return column
    orc_type = types[number]
    if orc_type.kind in fixes:
        return fixes[orc_type.kind](column)

    def fixed(position: int, values: Any) -> Any:
        return as_java_reads(values, types, orc_type.inner[position], fixes)

    nulls = column.is_null()
    if orc_type.kind == _STRUCT:
        parts = [fixed(number, column.field(number)) for number in range(column.type.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(column.type), mask=nulls)
    if orc_type.kind == _LIST:
        inner = fixed(0, column.values)
        return pa.ListArray.from_arrays(column.offsets, inner, type=column.type, mask=nulls)
    if orc_type.kind == _MAP:
        entries: Any = (column.offsets, fixed(0, column.keys), fixed(1, column.items))
        return pa.MapArray.from_arrays(*entries, type=column.type, mask=nulls)
    return column


def _time(column: Any, zone: str, path: str) -> Any:
    counts = to_numpy(column.cast(pa.int64()))
    seconds, cut = counts // _SECOND, counts % _SECOND > _FLOORED_NANOS
    stored = seconds + (cut & (seconds < 0))
    offset = _total_seconds(datetime(1970, 1, 1, tzinfo=_zone(zone, path)).utcoffset())
    moved = stored - (cut & (stored - offset < 0)) - seconds
    try:
        starts, offsets = _arrow_clock(zone)
    except (StopIteration, OSError) as error:  # Arrow has the zone's file elsewhere
        raise unknown_zone(zone, path) from error
    old = seconds < max([*starts[:1], _FIRST_START]) + _DAY
    if old.any():
        # Of an ambiguous hour, Arrow's instant is the later one.
        instants = (
            seconds[old] - offsets[(starts + offsets[1:]).searchsorted(seconds[old], "right")]
        )
        moved[old] += instants + offsets_of(instants, zone, path) - seconds[old]
    return _shift(column, moved, zone, path) if moved.any() else column


def _move_back(column: Any, zone: str, path: str) -> Any:
    """Move instants back by the writer's zone."""
    seconds = to_numpy(column.cast(pa.int64())) // _SECOND
    return _shift(column, offsets_of(seconds, zone, path), zone, path)


def _shift(column: Any, seconds: _Longs, zone: str, path: str) -> Any:
    """Return timestamps later by some seconds each."""
    counts, moves = to_numpy(column.cast(pa.int64())), seconds * _SECOND
    moved = counts + moves
    if (((moved < counts) != (moves < 0)) & to_numpy(column.is_valid())).any():
        raise FormatError(
            f"ORC file '{path}' holds timestamps outside the years 1678 to 2261, written in the"
            f" zone '{zone}'. Leave the column out, or rewrite the table as parquet.",
            kind="orc-timestamp",
            details={"path": path, "zone": zone},
        )
    shifted = from_numpy(moved).cast(pa.timestamp("ns")).cast(column.type)
    return pc.if_else(column.is_valid(), shifted, pa.scalar(None, column.type))
