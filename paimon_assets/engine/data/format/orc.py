"""ORC data files through pyarrow.

TIME is stored as milliseconds in an int, timestamps as nanoseconds; `data.field_mapping` converts
both to the Arrow types of their columns. Values that pyarrow reads otherwise than Java are mended:

    CHAR(n)      is padded with blanks            Java cuts them off
    TIMESTAMP    may be off by a second           if the writer's zone was not UTC, near 1970
    TIMESTAMP    may be off by minutes            in old years, where Java has other offsets
    instants     are moved by the writer's zone   if the table has `orc.timestamp-ltz.legacy.type`

A file stores a timestamp as seconds, cut toward zero, and fraction digits. If the fraction is a
millisecond or more, a reader subtracts one from seconds that are negative in the writer's zone.
pyarrow checks the sign after the conversion to UTC, so values between the two zeros are wrong.

Unless `orc.timestamp-ltz.legacy.type` is false, Java moves instants (TIMESTAMP WITH
LOCAL TIME ZONE) by the zone of the writing process, and back by that of the reading one. This
reader moves them back by the zone in the file, if the file's own schema has the option.

Timestamps beyond pyarrow's nanoseconds are read as microseconds: in columns whose statistics reach
beyond the years 1678 to 2261. Java counts a TIMESTAMP by its JVM's calendar, which is the Julian
one before October 1582, and keeps the date.

ORC has no checksums. Rows whose number, nulls or bounds contradict the footer are refused; other
damage stays unnoticed.
Source: `org.apache.paimon.format.orc`, `org.apache.orc.impl.TreeReaderFactory`,
`java.sql.Timestamp`.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any
from zoneinfo import TZPATH, ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
from pyarrow import orc

from paimon_assets.engine.codec import orc_footer
from paimon_assets.engine.codec.arrow.arrow_types import without_nulls_below
from paimon_assets.engine.codec.arrow.arrow_values import UNIT_NANOS
from paimon_assets.engine.codec.arrow.numpy_columns import Array, Longs, from_numpy, to_numpy
from paimon_assets.engine.data.format import base
from paimon_assets.engine.data.format.calendars import UTC_NAMES, JulianTimes, moves_of
from paimon_assets.engine.data.nested import changed_field, leaves_of, parts_of, with_parts
from paimon_assets.engine.errors import FormatError, InvalidInputError
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.predicate.prune import UNKNOWN, Bounds
from paimon_assets.engine.spec.types.data_types import DataType, TypeRoot

_MAX_MILLIS = 9_223_372_036_000
"""The whole seconds that fit 64 bits of nanoseconds."""
_FLOORED_NANOS = 999_999
"""Up to so many nanoseconds, seconds before 1970 are not cut toward zero."""
_DAY = 86_400
_GREGORIAN = -12_219_292_800
"""1582-10-15, the first day of the Gregorian calendar, in seconds."""
_MICROS = 1_000_000

_Stats = Mapping[str, orc_footer.OrcColumnStats]

_REPLACED = "\ufffd"
"""Java's replacement in bounds for invalid UTF-8."""


def check(
    stripes: Iterable[pa.RecordBatch], statistics: _Stats, names: Sequence[str], path: str
) -> Iterator[pa.RecordBatch]:
    """Yield all stripes of a file, checked against its statistics."""
    columns = {name: statistics[name] for name in names if name in statistics}
    counts = dict.fromkeys(columns, 0)
    for stripe in stripes:
        for name, stats in columns.items():
            column: Array = stripe.column(name)
            counts[name] += len(column) - column.null_count
            _check_bounds(column, stats, name, path)
        yield stripe
    for name, stats in columns.items():
        if stats.value_count is not None and counts[name] != stats.value_count:
            raise _damage(path, name, f"has {counts[name]} values, not {stats.value_count}")


def _check_bounds(column: Array, stats: orc_footer.OrcColumnStats, name: str, path: str) -> None:
    comparable = column
    if pa.types.is_date32(column.type):
        comparable = column.view(pa.int32())
    is_known = pa.types.is_integer(comparable.type) or pa.types.is_string(comparable.type)
    if not is_known or type(stats.minimum) is not type(stats.maximum) or stats.minimum is None:
        return
    extremes: Any = pc.min_max(comparable)
    try:
        low, high = extremes["min"].as_py(), extremes["max"].as_py()
    except UnicodeDecodeError:  # BYTES that became STRING, whose bounds are of other texts
        return
    is_replaced = _REPLACED in f"{stats.minimum}{stats.maximum}"
    if is_replaced or low is None or type(low) is not type(stats.minimum):
        return
    if _order(low) < _order(stats.minimum) or _order(high) > _order(stats.maximum):
        raise _damage(path, name, "has values beyond the bounds")


def _order(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _damage(path: str, name: str, problem: str) -> FormatError:
    message = (
        f"Data file '{path}' is not readable as ORC: column '{name}' {problem} in its footer; "
        "its bytes were changed."
    )
    return FormatError(message, path=path, column=name)


_OUT_OF_RANGE = "out of range for nanosecond"
"""In pyarrow's message about a timestamp beyond 64 bits."""
_NO_ZONE = "Time zone file"
"""In its message about an unknown zone."""

_NTZ_TYPE: Any = pa.timestamp("us")
_IDS = frozenset({b"paimon.id", b"iceberg.id"})
"""Attributes of columns of tables."""


def _is_ntz(field: pa.Field[Any]) -> bool:
    """Whether Spark marked a column of microseconds as timestamps without a zone."""
    kind = (field.metadata or {}).get(b"spark.sql.catalyst.type")
    return kind == b"timestamp_ntz" and pat.is_int64(field.type)


class OrcReader(base.FormatReader):
    title = "ORC"

    def _columns(self, file: base.FileToRead) -> pa.Schema:
        self._file: Any = orc.ORCFile(self._source)
        self._file_options, self._table_bounds = file.options, file.bounds
        self._is_legacy = file.options is not None and file.options.get(opt.ORC_LEGACY_LTZ)
        self._has_plan = False
        schema = self._file.schema
        # Their instants: see above.
        has_dates = self._has_julian_dates(schema, is_own=bool(file.options or not file.declared))
        self._julian = JulianTimes(path=self._path, has_dates=True) if has_dates else None
        self._of_spark = frozenset(f.name for f in schema if _is_ntz(f))
        types = {name: pa.timestamp("us", schema.field(name).type.tz) for name in self._wide}
        types |= dict.fromkeys(self._of_spark, _NTZ_TYPE)
        return pa.schema(
            [f.with_type(types.get(f.name, f.type)) for f in schema],
            schema.metadata,  # type: ignore[arg-type]
        )

    def _has_julian_dates(self, schema: pa.Schema, *, is_own: bool) -> bool:
        """Whether dates are of the Julian calendar: Spark's always, Hive's by a mark in the file.

        Paimon and Iceberg, which number columns, leave that to Java's writer, and it is wrong.
        """
        if b"org.apache.spark.version" in (self._file.metadata or {}):
            return True
        if is_own or self._footer is None or not self._footer.names_julian:
            return False
        return not any(_IDS & (field.metadata or {}).keys() for field in schema)

    def _batches(
        self, names: list[str], predicate: Predicate | None, batch_rows: int, batch_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """Decode some columns, stripe by stripe. See `FormatReader`.

        Nothing is pruned by `predicate`: pyarrow does not show ORC's statistics.
        """
        wide = [name for name in names if name in self._wide]
        decoded = [name for name in names if name not in self._wide]
        positions = self._positions(decoded)
        self._plan(names)
        stripes = (
            self._stripe(stripe, positions, decoded) for stripe in range(self._file.nstripes)
        )
        statistics = {} if self._footer is None else self._footer.columns
        columns = sorted(set(positions))
        for number, stripe in enumerate(check(stripes, statistics, decoded, self._path)):
            rows = self._as_java_reads(stripe, columns, number).select(decoded)
            for at, name in enumerate(decoded):
                if name in self._of_spark:
                    rows = rows.set_column(at, name, rows.column(at).view(_NTZ_TYPE))
            if self._julian is not None:
                dates = [self._julian.mend(rows.column(name), name) for name in decoded]
                rows = pa.RecordBatch.from_arrays(dates, names=decoded) if decoded else rows
            for name in wide:
                rows = rows.append_column(name, self._wide_column(name, number))
            yield from base.short_batches([rows.select(names)], batch_rows, batch_bytes)

    def prepare(
        self, columns: Sequence[str], predicate: Predicate | None, batch_bytes: int
    ) -> None:
        """See `FormatReader`. The footers of stripes are waited for."""
        if self._open_ranged is not None:
            with self._errors():
                self._plan(columns)
            self._open_ranged.send_first()

    def _positions(self, names: Sequence[str]) -> list[int]:
        """Return the places of columns that pyarrow decodes."""
        own = self.schema.names
        if any("." in name and name.partition(".")[0] in own for name in names):
            return [*range(len(own))]  # pyarrow takes `a.b` for field b of a column a
        if names:
            return [self.schema.get_field_index(name) for name in names]
        # A stripe without columns would not keep its number of rows: decode one, and drop it.
        return [at for at, name in enumerate(self.schema.names) if name not in self._wide][:1]

    def _plan(self, names: Sequence[str]) -> None:
        """Say which streams are read, stripe by stripe."""
        footer = self._footer
        if self._open_ranged is None or footer is None:
            return
        if not self._has_plan:
            self._has_plan = True
            self._open_ranged.keep([(at, at + length) for at, length in footer.stripes])
        decoded = self._positions([name for name in names if name not in self._wide])
        roots = [*footer.types[0].inner, len(footer.types)]
        places = {*decoded, *(self.schema.get_field_index(name) for name in names)}
        types = {0}.union(*(range(roots[at], roots[at + 1]) for at in places))
        stripes = (footer.stripe(self._read, number) for number in range(len(footer.stripes)))
        self._open_ranged.plan(
            (at, at + length)
            for stripe in stripes
            for (number, kind), (at, length) in stripe.streams.items()
            if number in types and kind in orc_footer.DATA_STREAMS and length
        )

    def _stripe(self, stripe: int, positions: Sequence[int], names: Sequence[str]) -> Any:
        if not positions and self._footer is not None:
            nulls = pa.nulls(self._footer.stripe_rows[stripe])
            return pa.RecordBatch.from_arrays([nulls], names=["number of rows"])
        try:
            is_whole = len(positions) == len(self.schema)
            return self._file.read_stripe(stripe, columns=None if is_whole else positions)
        except (pa.ArrowException, OSError) as error:
            if _NO_ZONE in str(error) and self._footer is not None:
                zone = self._footer.stripe(self._read, stripe).zone
                raise unknown_zone(zone, self._path) from error
            if _OUT_OF_RANGE not in str(error):
                raise
            message = (
                f"ORC file '{self._path}' holds timestamps outside the years 1678 to 2261 inside"
                f" one of the columns {', '.join(names)}; they are read only in top-level"
                " columns, and if the file has statistics. Leave the column out, or rewrite the"
                " table as parquet."
            )
            raise FormatError(message, kind="orc-timestamp", path=self._path) from error

    def _wide_column(self, name: str, stripe: int) -> Any:
        """Decode a timestamp column as microseconds, or nanoseconds if some values need them."""
        footer, path = self._footer, self._path
        if footer is None:
            raise ValueError("there are no wide columns without a footer")
        number = footer.types[0].inner[self.schema.get_field_index(name)]
        is_instant = footer.types[number].kind == _INSTANT
        zone, as_local = self._zone(stripe, [number]), self._is_legacy or not is_instant
        seconds, nanos, valid = orc_footer.read_times(footer, self._read, stripe, number, path)
        is_moved = zone not in UTC_NAMES and as_local
        if is_moved and not is_instant:
            seconds -= offsets_of(np.array([orc_footer.EPOCH], np.int64), zone, path)
        seconds -= (seconds < 0) & (nanos > _FLOORED_NANOS)
        if is_moved:
            seconds += offsets_of(seconds, zone, path)
        if footer.is_julian and as_local:
            seconds += moves_of(seconds // _DAY) * _DAY
        is_fine = bool((nanos % 1000).any())
        if is_fine and (np.abs(seconds) * 1000 > _MAX_MILLIS).any():
            message = (
                f"Column '{name}' of ORC file '{path}' holds both nanoseconds and years outside"
                " 1678 to 2261, which 64 bits do not hold. Leave the column out, or make it"
                " TIMESTAMP(6)."
            )
            raise FormatError(message, kind="orc-timestamp", path=path, column=name)
        counts = seconds * _SECOND + nanos if is_fine else seconds * _MICROS + nanos // 1000
        values: Array = pa.array(counts, mask=~valid)
        arrow_type = pa.timestamp("ns" if is_fine else "us", "UTC" if is_instant else None)
        return values.cast(arrow_type)

    def _zone(self, stripe: int, numbers: Sequence[int]) -> str:
        """Return the zone of a stripe's writer, or UTC if the columns do not depend on it."""
        footer = self._footer
        zone = "" if footer is None else footer.stripe(self._read, stripe).zone
        if zone or footer is None or not self._is_legacy:
            return zone or "UTC"
        types = footer.types
        return self._assumed_zone if any(holds(types, n, {_INSTANT}) for n in numbers) else "UTC"

    @cached_property
    def _assumed_zone(self) -> str:
        """The zone of a file that names none: that of the table's casts."""
        footer, options = self._footer, self._file_options
        if footer is None or options is None:
            return "UTC"
        zone = options.get(opt.CAST_TIME_ZONE)
        for name, number in zip(self.schema.names, footer.types[0].inner, strict=True):
            column, bounds = footer.columns.get(name), self._table_bounds.get(name, UNKNOWN)
            is_instant = footer.types[number].kind == _INSTANT
            if not is_instant or column is None or column.milliseconds is None:
                continue
            stored, nanos = column.milliseconds, (bounds.minimum, bounds.maximum)
            is_julian = footer.is_julian and stored[0] < _GREGORIAN * 1000
            if is_julian or None in nanos:
                continue
            moved = np.array(stored, np.int64)
            if zone not in UTC_NAMES:
                moved += offsets_of(moved // 1000, zone, self._path) * 1000
            if moved.tolist() != [bound // 10**6 for bound in nanos]:
                message = (
                    f"ORC file '{self._path}' holds instants that its writer moved by the zone of"
                    f" its process ('{opt.ORC_LEGACY_LTZ.key}'), and does not name the zone. It is"
                    f" not '{zone}', as the table's statistics show. Set"
                    f" '{opt.CAST_TIME_ZONE.key}' to it."
                )
                raise FormatError(message, kind="orc-zone", path=self._path, column=name, zone=zone)
        return zone

    def row_ranges(self, predicate: Predicate | None) -> Sequence[tuple[int, int]]:
        return [(0, self._file.nrows)]

    def column_bounds(self, name: str) -> Bounds:
        return self._bounds.get(name, UNKNOWN)

    def _as_java_reads(self, rows: pa.RecordBatch, positions: Sequence[int], stripe: int) -> Any:
        footer = self._footer
        if footer is None:
            _refuse_timestamps_without_zone(rows, self._path)
        if footer is None or not positions:
            return rows
        numbers = [footer.types[0].inner[position] for position in positions]
        zone = self._zone(stripe, numbers)
        fixes = fixes_of(zone, is_legacy=self._is_legacy, path=self._path)
        columns = [
            as_java_reads(column, footer.types, number, fixes)
            for column, number in zip(rows.columns, numbers, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=rows.schema)

    def _read(self, offset: int, count: int) -> bytes:
        self._source.seek(offset)
        return bytes(self._source.read(count))

    @cached_property
    def _footer(self) -> orc_footer.OrcFooter | None:
        try:
            return orc_footer.read_orc_footer(self._read, self._source.size(), self._path)
        except FormatError:  # pyarrow can read files that are compressed with LZO
            return None

    @cached_property
    def _wide(self) -> frozenset[str]:
        """The timestamp columns that hold years beyond 1678 to 2261."""
        return frozenset(
            name
            for name, column in ({} if self._footer is None else self._footer.columns).items()
            if column.milliseconds is not None
            and not -_MAX_MILLIS <= column.milliseconds[0] <= column.milliseconds[1] <= _MAX_MILLIS
        )

    @cached_property
    def _bounds(self) -> dict[str, Bounds]:
        footer = self._footer
        if footer is None:
            return {}
        rows = footer.row_count

        def decode_bound(name: str, value: Any) -> Any:
            return value * 1000 if name in self._of_spark and value is not None else value

        all_bounds = {
            name: Bounds(
                minimum=decode_bound(name, column.minimum),
                maximum=decode_bound(name, column.maximum),
                null_count=None if column.value_count is None else rows - column.value_count,
                row_count=rows,
            )
            for name, column in footer.columns.items()
        }
        if self._julian is None:
            return all_bounds
        types = dict(zip(self.schema.names, self.schema.types, strict=True))
        return {name: self._julian.bounds(each, types[name]) for name, each in all_bounds.items()}


class OrcWriter(base.FormatWriter):
    def __init__(self, file: base.FileToWrite) -> None:
        options = file.options
        self._stored = pa.schema([changed_field(field, _stored_field) for field in file.schema])
        self._sink = file.file_io.open_output(file.path)
        self._writer: Any = orc.ORCWriter(
            self._sink,
            compression=_CODECS[file.codec],  # type: ignore[arg-type]  # one of its names
            stripe_size=options.get(opt.FILE_BLOCK_SIZE) or options.get(opt.ORC_STRIPE_SIZE),
            row_index_stride=options.get(opt.ORC_ROW_INDEX_STRIDE),
            dictionary_key_size_threshold=options.get(opt.ORC_DICTIONARY_THRESHOLD),
        )

    def write(self, rows: pa.Table) -> None:
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            for chunk in column.chunks:
                _refuse_timestamps(chunk, name)
        stored = without_nulls_below(rows).cast(self._stored)
        self._writer.write(_with_nulls_below(stored))

    def close(self) -> int:
        self._writer.write(self._stored.empty_table())  # without any row there would be no schema
        self._writer.close()
        return super().close()

    def abort(self) -> None:
        self._writer.is_open = False  # or it would write the footer when collected
        super().abort()


def _refuse_timestamps(values: Array, column: str) -> None:
    """Refuse timestamps that some engine could not read from an ORC file of pyarrow.

    Before 1970, Java cannot read its fractions of milliseconds. Inside other columns, this engine
    reads no values beyond 64 bits of nanoseconds.
    """
    is_inside = pat.is_nested(values.type)
    for leaf in leaves_of(values):
        if not pat.is_timestamp(leaf.type) or leaf.null_count == len(leaf):
            continue
        numbers, nanos = to_numpy(leaf.drop_null().cast(pa.int64())), UNIT_NANOS[leaf.type.unit]
        largest = (2**63 - 1) // (nanos if is_inside else max(1, nanos // UNIT_NANOS["us"]))
        milli = UNIT_NANOS["ms"] // nanos
        if not -largest <= int(numbers.min()) <= int(numbers.max()) <= largest:
            reason = "outside the years 1678 to 2261 inside it" if is_inside else "of no year"
        elif milli > 1 and (numbers[numbers < 0] % milli).any():
            reason = "before 1970 with fractions of a millisecond"
        else:
            continue
        message = (
            f"Column '{column}' holds timestamps {reason}, which ORC files written here cannot"
            f" hold. Set '{opt.FILE_FORMAT.key}' to parquet."
        )
        raise InvalidInputError(message, kind="orc-timestamp", column=column)


def _with_nulls_below(table: pa.Table) -> pa.Table:
    """Rebuild nested rows, so that fields of null rows are null.

    pyarrow's writer writes the fields of a null row inside a row, and reads the nulls of a slice
    from the start of the whole array: values would be in the wrong rows.
    """
    for index, field in enumerate(table.schema):
        if pat.is_nested(field.type):
            chunks = [*table.column(index).chunks, pa.array([], field.type)]
            whole = _nulls_below(pa.concat_arrays(chunks))  # of two arrays, so not a slice
            table = table.set_column(index, field, whole)
    return table


def _nulls_below(values: Array) -> Any:
    parts = [_nulls_below(part) for part in parts_of(values)]
    return with_parts(values, parts, values.type) if parts else values


def _stored_field(field: Any) -> Any:
    """Return a field as ORC stores it: TIME as an int, the id under Java's key."""
    number = (field.metadata or {}).get(b"PARQUET:field_id")
    stored = field.with_type(pa.int32()) if pat.is_time(field.type) else field
    return stored.with_metadata(None if number is None else {"paimon.id": number})


_CODECS = {
    "none": "uncompressed", "zstd": "zstd", "snappy": "snappy", "lz4": "lz4",
    "zlib": "zlib",  # as Java names it
    "gzip": "zlib",
}  # fmt: skip


def _unsafe(data_type: DataType, options: opt.Options) -> str | None:
    if data_type.root is not TypeRoot.TIMESTAMP_LTZ or not options.get(opt.ORC_LEGACY_LTZ):
        return None
    return f"other engines would shift it by their zone unless '{opt.ORC_LEGACY_LTZ.key}' = false"


_TIMESTAMP, _INSTANT = 9, 18
_SECOND = 1_000_000_000
_FIRST_YEAR, _LAST_YEAR = 1900, 2093
"""Before the first, a zone of Java has its offset of today; after the last, years repeat."""
_REPEATED_YEARS = 28
_FIRST_START = int(datetime(_FIRST_YEAR, 1, 1, tzinfo=UTC).timestamp())

Types = tuple[orc_footer.OrcType, ...]
Fixes = Mapping[int, Callable[[Any], Any]]
"""Kind of a type → correction of its values."""


def holds(types: Types, number: int, kinds: Collection[int]) -> bool:
    orc_type = types[number]
    return orc_type.kind in kinds or any(holds(types, inner, kinds) for inner in orc_type.inner)


def fixes_of(zone: str, *, is_legacy: bool, path: str) -> Fixes:
    fixes: dict[int, Callable[[Any], Any]] = {
        orc_footer.CHAR: partial(pc.utf8_rtrim, characters=" ")
    }
    if zone not in UTC_NAMES:
        fixes[_TIMESTAMP] = partial(_time, zone=zone, path=path)
        if is_legacy:
            fixes[_INSTANT] = partial(_move_back, zone=zone, path=path)
    return fixes


def offsets_of(seconds: Longs, zone: str, path: str) -> Longs:
    """Return Java's offsets of a zone from UTC at instants, in seconds."""
    starts, offsets = _transitions(_zone(zone, path))
    years = seconds.astype("datetime64[s]").astype("datetime64[Y]")
    repeated = np.datetime64(str(_LAST_YEAR), "Y") - np.arange(_REPEATED_YEARS)
    day_of_kind = np.zeros(14, np.int64)
    day_of_kind[_kinds(repeated)] = _first_days(repeated)
    moved = (day_of_kind[_kinds(years)] - _first_days(years)) * _DAY
    near = np.where(years > repeated[0], seconds + moved, seconds)
    return offsets[np.searchsorted(starts, near, side="right")]


def _kinds(years: Any) -> Longs:
    """Return a number below 14 for each year; years of the same calendar have the same."""
    days = _first_days(years)
    return days % 7 * 2 + (_first_days(years + 1) - days > 365)


def _first_days(years: Any) -> Longs:
    days: Longs = years.astype("datetime64[D]").astype(np.int64)
    return days


@lru_cache(maxsize=16)
def _transitions(zone: tzinfo) -> tuple[Longs, Longs]:
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
def _arrow_clock(zone: str) -> tuple[Longs, Longs]:
    """Return when the offset of a zone changes in Arrow's ORC reader, and the offsets between.

    The reader reads the zone's file; before the first change it uses the first offset that is not
    summer time. Source: `Timezone.cc` of Apache ORC, RFC 8536.
    """
    folders = filter(None, (os.environ.get("TZDIR"), *TZPATH))
    data = next(file for folder in folders if (file := Path(folder, zone)).is_file()).read_bytes()
    # The part with times of 32 bits is skipped; the one behind it has 64 bits.
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
    message = (
        f"ORC file '{path}' was written in the zone '{name}', which is not known here, so its"
        " timestamps cannot be read. Leave these columns out, or rewrite the table as parquet."
    )
    return FormatError(message, kind="orc-zone", path=path, zone=name)


def _refuse_timestamps_without_zone(rows: pa.RecordBatch, path: str) -> None:
    """Refuse timestamps of a file whose footers, with the zone, cannot be read."""
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if any(pat.is_timestamp(leaf.type) for leaf in leaves_of(column)):
            message = (
                f"ORC file '{path}' is compressed with LZO, so the zone of the timestamps in column"
                f" '{name}' is not readable. Leave the column out, or write the file again with"
                " another codec."
            )
            raise FormatError(message, kind="orc-timestamp", path=path, column=name)


def _total_seconds(offset: timedelta | None) -> int:
    return 0 if offset is None else round(offset.total_seconds())


def as_java_reads(column: Array, types: Types, number: int, fixes: Fixes) -> Any:
    if not holds(types, number, fixes):
        return column
    orc_type = types[number]
    if orc_type.kind in fixes:
        return fixes[orc_type.kind](column)
    parts = [
        as_java_reads(part, types, inner, fixes)
        for part, inner in zip(parts_of(column), orc_type.inner, strict=False)
    ]
    return with_parts(column, parts, column.type) if parts else column


def _time(column: Array, zone: str, path: str) -> Any:
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


def _move_back(column: Array, zone: str, path: str) -> Any:
    seconds = to_numpy(column.cast(pa.int64())) // _SECOND
    return _shift(column, offsets_of(seconds, zone, path), zone, path)


def _shift(column: Array, seconds: Longs, zone: str, path: str) -> Any:
    counts, moves = to_numpy(column.cast(pa.int64())), seconds * _SECOND
    moved = counts + moves
    if (((moved < counts) != (moves < 0)) & to_numpy(column.is_valid())).any():
        message = (
            f"ORC file '{path}' holds timestamps outside the years 1678 to 2261, written in the"
            f" zone '{zone}'. Leave the column out, or rewrite the table as parquet."
        )
        raise FormatError(message, kind="orc-timestamp", path=path, zone=zone)
    shifted = from_numpy(moved).cast(pa.timestamp("ns")).cast(column.type)
    return pc.if_else(column.is_valid(), shifted, pa.scalar(None, column.type))


FORMATS = (
    base.FileFormat(
        name="orc", reader=OrcReader, writer=OrcWriter, codecs=frozenset(_CODECS), unsafe=_unsafe
    ),
)
