"""What pyarrow's ORC reader gives otherwise than Java's, put right.

    CHAR(n)      comes filled up with blanks      Java cuts them off
    TIMESTAMP    may come a second wrong          if the writer's zone was not UTC, near 1970
    instants     come as they are stored          Java stored them by the clock of its zone (legacy)

A file holds a timestamp as seconds, cut toward zero, and the digits behind them; where those are a
millisecond or more, a reader takes one off negative seconds. Negative counts by the clock of the
writer's zone. pyarrow asks after it has moved the value to UTC, so it is wrong between the two.
Source: `org.apache.orc.impl.TreeReaderFactory`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy
from paimon_assets.engine.codec.orc_footer import OrcType
from paimon_assets.engine.errors import FormatError

_TIMESTAMP, _LIST, _MAP, _STRUCT, _CHAR, _INSTANT = 9, 10, 11, 12, 17, 18
_SECOND = 1_000_000_000
UTC_NAMES = frozenset({"UTC", "GMT", "Z", "Etc/UTC", "Etc/GMT", "Universal", "Zulu"})
_KEPT_NANOS = 999_999
"""Up to so many nanoseconds, seconds before 1970 were not cut toward zero."""

Types = tuple[OrcType, ...]


def holds(types: Types, number: int, kinds: frozenset[int]) -> bool:
    """Whether a type, or one inside it, is of some kinds."""
    found = types[number]
    return found.kind in kinds or any(holds(types, inner, kinds) for inner in found.inner)


def has_times(types: Types, number: int) -> bool:
    """Whether a type holds timestamps or instants."""
    return holds(types, number, frozenset({_TIMESTAMP, _INSTANT}))


@dataclass(frozen=True, slots=True)
class WriterZone:
    """The time zone of the process that wrote a stripe, as far as it changes what is read."""

    ahead: int = 0
    """Seconds by which its clock was ahead of UTC in 1970."""
    of_instants: str | None = None
    """Its name, if instants are stored by its clock and it is not UTC."""

    @classmethod
    def of(cls, zone: str, path: str, *, legacy_instants: bool) -> Self:
        """Look a zone up.

        Raises:
            FormatError: There is no such zone here; names it and the file.
        """
        ahead = _offset_in_1970(zone, path)
        return cls(ahead, zone if legacy_instants and zone not in UTC_NAMES else None)

    def instants(self, column: Any) -> Any:
        """Return the instants that were meant: what the zone's clock showed, as UTC."""
        if self.of_instants is None:
            return column
        local = pa.timestamp(column.type.unit, tz=self.of_instants)
        return pc.local_timestamp(column.cast(local)).cast(column.type)


def _offset_in_1970(zone: str, path: str) -> int:
    try:
        ahead = datetime(1970, 1, 1, tzinfo=ZoneInfo(zone)).utcoffset()
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise FormatError(
            f"ORC file '{path}' was written in the zone '{zone}', which is not known here, so its"
            " timestamps cannot be read.",
            kind="orc-zone",
            details={"path": path, "zone": zone},
        ) from error
    return 0 if ahead is None else round(ahead.total_seconds())


def as_java_reads(column: Any, types: Types, number: int, zone: WriterZone) -> Any:
    """Put an array of a column right.

    Args:
        column: As pyarrow read it; no slice.
        types: The types of the file.
        number: The column's.
        zone: Of who wrote it.
    """
    wrong = {_CHAR} | ({_TIMESTAMP} if zone.ahead else set())
    wrong |= {_INSTANT} if zone.of_instants else set()
    if not holds(types, number, frozenset(wrong)):
        return column
    found = types[number]

    def inside(position: int, values: Any) -> Any:
        return as_java_reads(values, types, found.inner[position], zone)

    match found.kind:
        case kind if kind == _CHAR:
            return pc.utf8_rtrim(column, characters=" ")
        case kind if kind == _TIMESTAMP:
            return _timed(column, zone.ahead) if zone.ahead else column
        case kind if kind == _INSTANT:
            return zone.instants(column)
        case _:
            return _rebuilt(column, found.kind, inside)


def _rebuilt(column: Any, kind: int, inside: Callable[[int, Any], Any]) -> Any:
    nulls = column.is_null()
    if kind == _STRUCT:
        parts = [inside(place, column.field(place)) for place in range(column.type.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(column.type), mask=nulls)
    if kind == _LIST:
        inner = inside(0, column.values)
        return pa.ListArray.from_arrays(column.offsets, inner, type=column.type, mask=nulls)
    if kind == _MAP:
        entries: Any = (column.offsets, inside(0, column.keys), inside(1, column.items))
        return pa.MapArray.from_arrays(*entries, type=column.type, mask=nulls)
    return column


def _timed(column: Any, ahead: int) -> Any:
    counts = to_numpy(column.cast(pa.int64()))
    seconds, cut = counts // _SECOND, counts % _SECOND > _KEPT_NANOS
    stored = seconds + (cut & (seconds < 0))
    moved = stored - (cut & (stored - ahead < 0)) - seconds
    if not moved.any():
        return column
    right = from_numpy(counts + moved * _SECOND).cast(column.type)
    return pc.if_else(column.is_valid(), right, pa.scalar(None, column.type))
