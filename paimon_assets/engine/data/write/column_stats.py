"""Statistics of a file: the smallest value, the largest value and the nulls of each column.

Every column has an entry, because some engines index statistics by position: without statistics,
its values and null count are null. Nested columns, BYTES columns, and floating-point columns with
NaN have no statistics.
Source: `org.apache.paimon.statistics.SimpleColStatsCollector`.
"""

import re
from collections.abc import Collection, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
from msgspec import Struct, field

from paimon_assets.engine.codec.arrow.arrow_values import internals
from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.data.format.base import FormatWriter
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.metadata import data_file
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.types import data_types
from paimon_assets.engine.spec.types.literals import Internal
from paimon_assets.engine.spec.values import Value

LONGEST_BOUND = 4096
"""Bytes of a text; Parquet's writer has no longer bounds."""
_MAX_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_WITHOUT_ORDER = frozenset({data_types.TypeRoot.BLOB, data_types.TypeRoot.VARIANT})


class StatsKind(StrEnum):
    NONE = "none"
    COUNTS = "counts"
    TRUNCATE = "truncate"
    FULL = "full"


class StatsMode(Value):
    kind: StatsKind
    length: int = 0
    """Characters, for `truncate`."""


FULL = StatsMode(kind=StatsKind.FULL)


def parse_stats_mode(text: str) -> StatsMode:
    """Parse none, counts, full or truncate(n).

    >>> parse_stats_mode("truncate(16)").length
    16
    """
    plain = text.strip().lower()
    truncate = re.fullmatch(r"truncate\((\d+)\)", plain)
    if truncate and int(truncate[1]) > 0:
        return StatsMode(kind=StatsKind.TRUNCATE, length=int(truncate[1]))
    if plain not in (StatsKind.NONE, StatsKind.COUNTS, StatsKind.FULL):
        message = (
            f"Table option '{opt.STATS_MODE.key}' has the value '{text}': expected none, counts, "
            "full or truncate(n)."
        )
        raise InvalidInputError(message, kind="option-value", option=opt.STATS_MODE.key)
    return StatsMode(kind=StatsKind(plain))


def stats_modes(
    fields: Sequence[data_types.DataField], options: opt.Options, level: int = 0
) -> tuple[StatsMode, ...]:
    """Return the mode of each column: its own option, else the level's, else the table's."""
    per_level = options.get(opt.STATS_MODE_PER_LEVEL)
    default = parse_stats_mode(per_level.get(level, options.get(opt.STATS_MODE)))
    first = options.get(opt.STATS_KEEP_FIRST_COLUMNS)
    modes = []
    for number, column in enumerate(fields):
        own = options.get(opt.COLUMN_STATS_MODE.of(column.name))
        general = default if first < 0 or number < first else StatsMode(kind=StatsKind.NONE)
        modes.append(parse_stats_mode(own) if own else general)
    return tuple(modes)


class _ColumnStats(Struct):
    """The running statistics of one column; extremes are internal values."""

    minimum: Any = None
    maximum: Any = None
    nulls: int = 0
    unknown: bool = False
    rows: int = 0
    """The number of rows that the extremes are known of without the file's footer."""

    def add(
        self, column: data_types.DataField, mode: StatsMode, values: Any, bounded: Collection[str]
    ) -> None:
        self.nulls += values.null_count
        if mode.kind is StatsKind.COUNTS or values.null_count == len(values):
            return
        if column.type.root in data_types.BINARY_ROOTS:  # Java would compare them as signed bytes
            return
        lengths: Any = pc.binary_length(values) if pat.is_string(values.type) else None
        if column.name in bounded and (lengths is None or pc.max(lengths).as_py() <= LONGEST_BOUND):
            return
        self.rows += len(values)
        if pat.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
            # NaN is the largest value for some engines and no value for other engines.
            self.unknown = True
            return
        extremes: Any = pc.min_max(values)
        ends = extremes["min"], extremes["max"]
        try:
            low, high = (internals(pa.repeat(end, 1), column.type)[0] for end in ends)
        except UnicodeDecodeError:  # bytes that became a STRING may be invalid UTF-8
            self.unknown = True
            return
        self.extend(column, low, high)

    def extend(self, column: data_types.DataField, low: Any, high: Any) -> None:
        if isinstance(low, Decimal):
            declared: Any = column.type
            limit = Decimal(10) ** (declared.precision - declared.scale)
            self.unknown |= not -limit < low <= high < limit  # as sums may be
        self.minimum = low if self.minimum is None else min(self.minimum, low)
        self.maximum = high if self.maximum is None else max(self.maximum, high)


def stored_bounds(low: Internal, high: Internal, mode: StatsMode) -> tuple[Internal, Internal]:
    """Return a column's smallest and largest value as stored, None where unknown."""
    has_bounds = mode.kind not in (StatsKind.NONE, StatsKind.COUNTS)
    if low is None or high is None or isinstance(low, bytes) or not has_bounds:
        return None, None
    return _bounds(_ColumnStats(minimum=low, maximum=high), mode)


class StatsCollector(Struct):
    """Collects the statistics of the rows of one file, a table of them at a time."""

    fields: tuple[data_types.DataField, ...]
    modes: tuple[StatsMode, ...]
    _columns: list[_ColumnStats] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Prepare the columns; those whose type has no order stay unknown."""
        self._columns = [
            _ColumnStats(
                unknown=not isinstance(column.type, data_types.AtomicType)
                or column.type.root in _WITHOUT_ORDER
                or mode.kind is StatsKind.NONE
            )
            for column, mode in zip(self.fields, self.modes, strict=True)
        ]

    def add(self, rows: pa.Table, bounded: Collection[str] = ()) -> None:
        """Add rows; the finished file knows the bounds of some columns."""
        for column, mode, stats in zip(self.fields, self.modes, self._columns, strict=True):
            if not stats.unknown:
                stats.add(column, mode, rows.column(column.name), bounded)

    def complete(self, file: FormatWriter) -> None:
        """Add the bounds that a finished file has."""
        bounded = file.bounded
        for column, mode, stats in zip(self.fields, self.modes, self._columns, strict=True):
            if not stats.unknown and mode.kind is not StatsKind.COUNTS and column.name in bounded:
                ends, other_rows = file.bounds(column.name)
                if ends:
                    stats.extend(column, min(ends), max(ends))
                stats.unknown |= other_rows > stats.rows

    def finish(self) -> data_file.SimpleStats:
        return self._serialize(range(len(self.fields)))

    def finish_dense(self, *, dense: bool) -> tuple[data_file.SimpleStats, tuple[str, ...] | None]:
        """Return the statistics, and the columns they describe; None is all of them."""
        numbers = [number for number, stats in enumerate(self._columns) if not stats.unknown]
        if not dense or len(numbers) == len(self.fields):
            return self.finish(), None
        return self._serialize(numbers), tuple(self.fields[number].name for number in numbers)

    def _serialize(self, numbers: Sequence[int]) -> data_file.SimpleStats:
        if not numbers:
            return data_file.EMPTY_STATS
        columns = [self._columns[number] for number in numbers]
        bounds = [_bounds(self._columns[number], self.modes[number]) for number in numbers]
        types = [self.fields[number].type for number in numbers]
        return data_file.SimpleStats(
            min_values=serialize_row([low for low, _ in bounds], types),
            max_values=serialize_row([high for _, high in bounds], types),
            null_counts=tuple(None if column.unknown else column.nulls for column in columns),
        )


def _bounds(stats: _ColumnStats, mode: StatsMode) -> tuple[Internal, Internal]:
    low, high = stats.minimum, stats.maximum
    if stats.unknown or low is None:
        return None, None
    if isinstance(low, float):
        # Zero has two signs, and in Java -0.0 is smaller; the bounds hold for both.
        return (-0.0 if low == 0 else low), (0.0 if high == 0 else high)
    if mode.kind is StatsKind.TRUNCATE and isinstance(low, str):
        shortened = truncate_max(high, mode.length)
        return (None, None) if shortened is None else (low[: mode.length], shortened)
    return low, high


def truncate_max(value: str, length: int) -> str | None:
    """Return a short value that is not below `value`: cut, its last character incremented.

    Characters are code points. None if no character can be incremented.

    >>> truncate_max("Two roads diverged in a yellow wood", 16)
    'Two roads diverh'
    """
    if len(value) <= length:
        return value
    text = value[:length].rstrip(chr(_MAX_CODE_POINT))
    if not text:
        return None
    following = ord(text[-1]) + 1
    if following in _SURROGATES:  # halves of a pair, not characters
        following = _SURROGATES.stop
    return text[:-1] + chr(following)
