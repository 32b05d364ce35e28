"""External Parquet files whose dates and timestamps Spark reads as this engine does.

    TIMESTAMP           INT64 of milliseconds or microseconds, not adjusted to UTC
    … LOCAL TIME ZONE   INT64 of microseconds, adjusted to UTC
    DATE, both          not written in the calendar before 1582 (Spark 2, or Spark 3 if set so):
                        Spark moves old days to today's calendar, the engine takes them as they lie

Neither the table's metadata nor Spark's settings say what is in a file, but its footer does. All
else is the engine's:

    instants of milliseconds   Spark cuts the literal of a filter to them and skips row groups by
                               it: `t < 00:00:00.0005` loses a row of 00:00:00
    INT96                      Spark reads none as TIMESTAMP, shifts instants if a session says so,
                               and reaches further than nanoseconds do
    nanoseconds                Spark reads none
    finer than the column      the engine cuts what is finer
    inside of other types      left to the engine, for simplicity
"""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

import pyarrow.types as pat

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.codec.arrow.arrow_values import UNIT_NANOS
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.fileio.opening import open_file_io
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import (
    TIMESTAMP_ROOTS,
    ArrayType,
    DataType,
    MapType,
    RowType,
    TypeRoot,
)
from paimon_assets.spark.native.native_scan import names_in, stored_fields
from paimon_assets.spark.native.plain_files import FOOTERS_AT_ONCE, footer_of, has_julian_dates

_TIMES = TIMESTAMP_ROOTS | {TypeRoot.DATE}
_UNITS = {
    ("milliseconds", False): UNIT_NANOS["ms"],
    ("microseconds", False): UNIT_NANOS["us"],
    ("microseconds", True): UNIT_NANOS["us"],
}
"""(unit, is it an instant) → nanoseconds of the unit, of timestamps that Spark reads alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTimes:
    """The facts of a Parquet footer about dates and timestamps."""

    units: Mapping[str, tuple[int, bool]]
    """Column → (nanoseconds of its unit, is it an instant), of `_UNITS` alone."""
    has_julian_dates: bool


def with_plain_times(context: ReadContext, splits: Sequence[DataSplit]) -> list[DataSplit]:
    """Return the splits whose external files hold dates and timestamps in one calendar and unit.

    Cost:
        A footer for each Parquet file of others, if the read needs dates or timestamps.
    """
    fields = [field for field in stored_fields(context) if _roots_in(field.type) & _TIMES]
    if not fields or not any(_is_external(f) for split in splits for f in split.data_files):
        return list(splits)
    if any(_is_nested_timestamp(field.type) for field in fields):
        return [split for split in splits if not any(map(_is_external, split.data_files))]
    file_io = open_file_io(context.file_io)

    @cache
    def wanted_of(schema_id: int) -> Mapping[str, DataType]:
        return _timestamps_in(context, context.schemas_by_id[schema_id])

    def is_plain(split: DataSplit) -> bool:
        return all(
            _reads_alike(wanted_of(file.schema_id), times_of(file_io, split.path_of(file), file))
            for file in split.data_files
            if _is_external(file)
        )

    with ThreadPoolExecutor(FOOTERS_AT_ONCE, thread_name_prefix="footer") as pool:
        return [
            split for split, fits in zip(splits, pool.map(is_plain, splits), strict=True) if fits
        ]


def _is_external(file: DataFileMeta) -> bool:
    return file.external_path is not None


def _roots_in(data_type: DataType) -> frozenset[TypeRoot]:
    match data_type:
        case ArrayType(element=element):
            return _roots_in(element)
        case MapType(key=key, value=value):
            return _roots_in(key) | _roots_in(value)
        case RowType(fields=fields):
            return frozenset[TypeRoot]().union(*(_roots_in(field.type) for field in fields))
        case _:
            return frozenset({data_type.root})


def _is_nested_timestamp(data_type: DataType) -> bool:
    return data_type.root not in TIMESTAMP_ROOTS and bool(_roots_in(data_type) & TIMESTAMP_ROOTS)


def times_of(file_io: FileIO, path: str, file: DataFileMeta) -> FileTimes | None:
    """Read a footer; None if the file differs from the manifest, which the engine reports."""
    try:
        footer = footer_of(file_io, path, file.file_size)
    except PaimonError:
        return None
    leaves = [footer.schema.column(number) for number in range(footer.num_columns)]
    units: dict[str, tuple[int, bool]] = {}
    for leaf in leaves:
        if leaf.physical_type == "INT64" and leaf.logical_type.type == "TIMESTAMP":
            said = json.loads(leaf.logical_type.to_json())
            kind = (said["timeUnit"], said["isAdjustedToUTC"])
            if kind in _UNITS:
                units[leaf.path] = (_UNITS[kind], kind[1])
    return FileTimes(units=units, has_julian_dates=has_julian_dates(footer))


def _timestamps_in(context: ReadContext, schema: TableSchema) -> Mapping[str, DataType]:
    """Return the timestamps that are read, by their names in files of a schema."""
    named = zip(stored_fields(context), names_in(context, schema), strict=True)
    return {
        name: field.type
        for field, name in named
        if name is not None and field.type.root in TIMESTAMP_ROOTS
    }


def _reads_alike(wanted: Mapping[str, DataType], times: FileTimes | None) -> bool:
    if times is None or times.has_julian_dates:
        return False
    return all(_fits(kind, times.units.get(name)) for name, kind in wanted.items())


def _fits(wanted: DataType, unit: tuple[int, bool] | None) -> bool:
    """Whether a file's timestamps are of the kind of their column, and no finer."""
    if unit is None:
        return False
    nanos, is_instant = unit
    arrow_type = to_arrow_type(wanted)
    return (
        pat.is_timestamp(arrow_type)
        and nanos >= UNIT_NANOS[arrow_type.unit]
        and is_instant is (wanted.root is TypeRoot.TIMESTAMP_LTZ)
    )
