"""SimpleStats of the rows of one file: smallest value, largest value and nulls of each column.

Full arity, so that engines that index statistics by position read them: a column without
statistics has null values and a null count. Nested columns have none, nor have floating-point
columns that hold NaN.
Source: `org.apache.paimon.statistics.SimpleColStatsCollector`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from paimon_assets.engine.codec.arrow_values import internals
from paimon_assets.engine.codec.binary_row import serialize_row
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.literals import Internal
from paimon_assets.engine.spec.options import STATS_MODE, Options, column_stats_mode
from paimon_assets.engine.spec.stats import EMPTY_STATS, SimpleStats
from paimon_assets.engine.spec.types import AtomicType, DataField, TypeRoot

_TRUNCATE = re.compile(r"truncate\((\d+)\)")
_MAX_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_MAX_BYTE = 0xFF
_WITHOUT_ORDER = frozenset({TypeRoot.BLOB, TypeRoot.VARIANT})


class StatsKind(StrEnum):
    """How much is kept of a column."""

    NONE = "none"
    COUNTS = "counts"
    TRUNCATE = "truncate"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsMode:
    """One column's `metadata.stats-mode`."""

    kind: StatsKind
    length: int = 0
    """Characters or bytes kept by `truncate`."""


FULL = StatsMode(kind=StatsKind.FULL)


def parse_stats_mode(text: str) -> StatsMode:
    """Parse none, counts, full or truncate(n).

    Raises:
        InvalidInputError: Anything else.

    >>> parse_stats_mode("truncate(16)").length
    16
    """
    plain = text.strip().lower()
    truncate = _TRUNCATE.fullmatch(plain)
    if truncate and int(truncate[1]) > 0:
        return StatsMode(kind=StatsKind.TRUNCATE, length=int(truncate[1]))
    if plain not in (StatsKind.NONE, StatsKind.COUNTS, StatsKind.FULL):
        raise InvalidInputError(
            f"Table option '{STATS_MODE.key}' has the value '{text}': expected none, counts, full "
            "or truncate(n).",
            kind="option-value",
            details={"option": STATS_MODE.key},
        )
    return StatsMode(kind=StatsKind(plain))


def stats_modes(fields: Sequence[DataField], options: Options) -> tuple[StatsMode, ...]:
    """Return the mode of each column: its own option, else the table's."""
    default = options.get(STATS_MODE)
    return tuple(
        parse_stats_mode(options.get(column_stats_mode(column.name)) or default)
        for column in fields
    )


@dataclass(slots=True)
class _ColumnStats:
    """What was seen of one column so far; extremes are internal values (`spec.literals`)."""

    minimum: Any = None
    maximum: Any = None
    nulls: int = 0
    unknown: bool = False

    def add(self, column: DataField, extremes: Any) -> None:
        """Take in smallest and largest value of further rows."""
        low = internals(pa.repeat(extremes["min"], 1), column.type)[0]
        high = internals(pa.repeat(extremes["max"], 1), column.type)[0]
        self.minimum = low if self.minimum is None else min(self.minimum, low)
        self.maximum = high if self.maximum is None else max(self.maximum, high)


@dataclass(slots=True)
class StatsCollector:
    """Collects the statistics of the rows of one file, a table of them at a time."""

    fields: tuple[DataField, ...]
    modes: tuple[StatsMode, ...]
    _seen: list[_ColumnStats] = field(init=False)

    def __post_init__(self) -> None:
        """Start with nothing seen; columns whose type has no order stay unknown."""
        self._seen = [
            _ColumnStats(
                unknown=not isinstance(column.type, AtomicType)
                or column.type.root in _WITHOUT_ORDER
                or mode.kind is StatsKind.NONE
            )
            for column, mode in zip(self.fields, self.modes, strict=True)
        ]

    def add(self, rows: pa.Table) -> None:
        """Look at more rows of the file; they hold the collector's columns by name."""
        for column, mode, seen in zip(self.fields, self.modes, self._seen, strict=True):
            if seen.unknown:
                continue
            values: Any = rows.column(column.name)
            seen.nulls += values.null_count
            if mode.kind is StatsKind.COUNTS or values.null_count == len(values):
                continue
            if pat.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
                # NaN is the largest value for some engines and no value for others.
                seen.unknown = True
                continue
            seen.add(column, pc.min_max(values))

    def finish(self) -> SimpleStats:
        """Return the statistics of all rows seen."""
        if not self.fields:
            return EMPTY_STATS
        bounds = [_bounds(seen, mode) for mode, seen in zip(self.modes, self._seen, strict=True)]
        types = [column.type for column in self.fields]
        return SimpleStats(
            min_values=serialize_row([low for low, _ in bounds], types),
            max_values=serialize_row([high for _, high in bounds], types),
            null_counts=tuple(None if seen.unknown else seen.nulls for seen in self._seen),
        )


def _bounds(seen: _ColumnStats, mode: StatsMode) -> tuple[Internal, Internal]:
    """Return what is stored as smallest and largest value, None where unknown."""
    low, high = seen.minimum, seen.maximum
    if seen.unknown or low is None:
        return None, None
    if isinstance(low, float):
        # Zero has two signs and one of them is smaller in Java; the bounds hold for both.
        return (-0.0 if low == 0 else low), (0.0 if high == 0 else high)
    if mode.kind is StatsKind.TRUNCATE and isinstance(low, str | bytes):
        shortened = truncate_max(high, mode.length)
        return (None, None) if shortened is None else (low[: mode.length], shortened)
    return low, high


def truncate_max(value: str | bytes, length: int) -> str | bytes | None:
    r"""Return a short value that is not below `value`: cut, its last character counted up.

    Characters are code points. None if no character can be counted up.

    >>> truncate_max("Two roads diverged in a yellow wood", 16)
    'Two roads diverh'
    >>> truncate_max(b"\x01\xff\xff", 2), truncate_max(b"\xff\xff\xff", 2)
    (b'\x02', None)
    """
    if len(value) <= length:
        return value
    if isinstance(value, bytes):
        kept = value[:length].rstrip(bytes([_MAX_BYTE]))
        return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
    text = value[:length].rstrip(chr(_MAX_CODE_POINT))
    if not text:
        return None
    following = ord(text[-1]) + 1
    if following in _SURROGATES:  # halves of a pair are no characters
        following = _SURROGATES.stop
    return text[:-1] + chr(following)
