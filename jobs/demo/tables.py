"""The demo's assets: files that land, the tables they feed, and a summary of all.

landing/flight_changes ─▶ demo/flights ──────────┐
                       └▶ demo/flights_unpadded  ├─▶ demo/daily_delays
landing/weather_reports ─▶ demo/weather ─────────┤
                           demo/planes ──────────┘

demo/flights ─▶ demo/departures ─▶ demo/departures/carrier_delay: one more column, written alone
"""

from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
from pydantic import Field

from jobs.demo.home import LANDING
from jobs.demo.landing import (
    DEFAULT_FILES,
    FLIGHTS_FOLDER,
    WEATHER_FOLDER,
    deliver,
    receive_changes,
    receive_weather,
    scale_of,
    seen_at,
)
from jobs.demo.schemas import DAILY_DELAYS, DEPARTURES, FLIGHTS, FLIGHTS_UNPADDED, PLANES, WEATHER
from paimon_assets.assets import (
    CheckOptions,
    FileSource,
    IngestConfig,
    PaimonCatalogResource,
    build_file_ingestion_asset,
    build_overflow_check,
    build_row_count_check,
    build_schema_check,
    build_source_overflow_check,
    build_unique_key_check,
    data_version_of,
    paimon_asset,
)
from paimon_assets.columns import build_rows_behind_check, column_asset
from paimon_assets.engine.errors import InvalidInputError
from resources.paimon import warehouse_when_loaded

WAREHOUSE = warehouse_when_loaded()
CODE_VERSION = "1"
CHANGES = FileSource(folder=seen_at(FLIGHTS_FOLDER))
REPORTS = FileSource(folder=seen_at(WEATHER_FOLDER))


class FlightChangesConfig(dg.Config):
    """How much of the year arrives, and in how many files."""

    every: int = Field(default=1, description="1 for all 336,776 flights, n for every n-th.")
    files: int = Field(default=DEFAULT_FILES, description="Files the change log arrives in.")


def ingestion_config(changes: FlightChangesConfig) -> dg.RunConfig:
    """The run config of the ingestion job; with the defaults it fills the Launchpad."""
    return dg.RunConfig(
        ops={
            "landing__flight_changes": changes,
            "demo__flights": IngestConfig(),
            "demo__flights_unpadded": IngestConfig(),
            "demo__weather": IngestConfig(),
        }
    )


@dg.asset(
    key=["landing", "flight_changes"],
    group_name="landing",
    kinds={"parquet", "pandas"},
    code_version=CODE_VERSION,
)
def flight_changes(
    context: dg.AssetExecutionContext, config: FlightChangesConfig, paimon: PaimonCatalogResource
) -> dg.MaterializeResult[None]:
    """The change log of a booking system, derived from the flights of 2013, in Parquet files.

    +I when scheduled, -U/+U at departure, -U/+U at landing, -D when cancelled. The operation time
    has seconds and is shared by -U and +U. The files are out of order, inside and among themselves.
    """
    try:
        received = receive_changes(LANDING, every=config.every, files=config.files)
    except InvalidInputError as error:
        raise dg.Failure(error.message, allow_retries=False) from error
    deliver(FLIGHTS_FOLDER, paimon.options)
    return _report_files(context, received, config.files, FLIGHTS_FOLDER)


@dg.asset(
    key=["landing", "weather_reports"],
    group_name="landing",
    kinds={"parquet", "pandas"},
    code_version=CODE_VERSION,
)
def weather_reports(
    context: dg.AssetExecutionContext, paimon: PaimonCatalogResource
) -> dg.MaterializeResult[None]:
    """The hourly weather of the three airports, a file per month."""
    received = receive_weather(LANDING)
    deliver(WEATHER_FOLDER, paimon.options)
    return _report_files(context, received, 12, WEATHER_FOLDER)


def _report_files(
    context: dg.AssetExecutionContext, new: list[Path], files: int, folder: str
) -> dg.MaterializeResult[None]:
    context.log.info("%d of %d files are new in %s.", len(new), files, seen_at(folder))
    return dg.MaterializeResult(
        metadata={
            "files": files,
            "new_files": len(new),
            "new_bytes": sum(path.stat().st_size for path in new),
            "folder": dg.MetadataValue.path(seen_at(folder)),
        }
    )


flights = build_file_ingestion_asset(
    "demo.flights",
    FLIGHTS,
    source=CHANGES,
    warehouse=WAREHOUSE,
    deps=[flight_changes],
    code_version=CODE_VERSION,
    description="Every flight that left New York in 2013, in its last state: the change log merged "
    "by operation time, where +U beats the -U of its second (`sequence.auto-padding`).",
)

flights_unpadded = build_file_ingestion_asset(
    "demo.flights_unpadded",
    FLIGHTS_UNPADDED,
    source=CHANGES,
    warehouse=WAREHOUSE,
    deps=[flight_changes],
    code_version=CODE_VERSION,
    description="The same files without padding, for comparison: where a -U arrived after its +U, "
    "the flight is gone.",
)

weather = build_file_ingestion_asset(
    "demo.weather",
    WEATHER,
    source=REPORTS,
    warehouse=WAREHOUSE,
    deps=[weather_reports],
    code_version=CODE_VERSION,
)


@paimon_asset("demo.planes", PLANES, warehouse=WAREHOUSE, code_version=CODE_VERSION)
def planes(context: dg.AssetExecutionContext, paimon: PaimonCatalogResource) -> Any:
    """The planes, by tail number; the register never changes, so it is loaded once."""
    if paimon.catalog().get_table("demo.planes").latest_snapshot() is not None:
        context.log.info("The register of planes is loaded already.")
        return None
    from jobs.demo.nycflights import read_planes

    return read_planes()


_INPUTS = "paimon/inputs"
_SUMMARY = """
    SELECT f.month, f.day, f.origin,
           count(*)                       AS flights,
           count_if(f.status = 'diverted') AS diverted,
           avg(f.dep_delay)               AS mean_dep_delay,
           avg(f.arr_delay)               AS mean_arr_delay,
           avg(2013 - p.year)             AS mean_plane_age,
           avg(w.wind_speed)              AS mean_wind_speed
    FROM {flights} f
    LEFT JOIN {planes} p  ON p.tailnum = f.tailnum
    LEFT JOIN {weather} w ON w.origin = f.origin AND w.time_hour = f.time_hour
    GROUP BY f.month, f.day, f.origin
"""
_COLUMNS = {
    "flights": [
        "month",
        "day",
        "origin",
        "time_hour",
        "tailnum",
        "status",
        "dep_delay",
        "arr_delay",
    ],
    "planes": ["tailnum", "year"],
    "weather": ["origin", "time_hour", "wind_speed"],
}


@paimon_asset(
    "demo.daily_delays",
    DAILY_DELAYS,
    executor="spark",
    warehouse=WAREHOUSE,
    deps=[flights, planes, weather],
    code_version=CODE_VERSION,
)
def daily_delays(
    context: dg.AssetExecutionContext, paimon: PaimonCatalogResource
) -> dg.MaterializeResult[Any]:
    """Flights, planes and weather joined by Spark into one row per day and airport.

    Reads each table at one snapshot and remembers its data version, which a compaction leaves as it
    is; while none has a newer one there is nothing to do.
    """
    tables = {name: paimon.catalog().get_table(f"demo.{name}") for name in _COLUMNS}
    snapshots = {name: table.latest_snapshot() for name, table in tables.items()}
    ids = {name: snapshot.id if snapshot else 0 for name, snapshot in snapshots.items()}
    inputs = ", ".join(
        f"demo.{name} at data version {data_version_of(tables[name], snapshot).value}"
        for name, snapshot in snapshots.items()
        if snapshot
    )
    if _inputs_of_last_run(context) == inputs:
        context.log.info("Still the same inputs (%s).", inputs)
        return dg.MaterializeResult(metadata={_INPUTS: inputs})
    frames = {
        name: paimon.spark_dataframe(
            table.new_read_builder().with_columns(_COLUMNS[name]).at_snapshot(ids[name])
        )
        for name, table in tables.items()
    }
    summary = paimon.spark.session().sql(_SUMMARY, **frames)
    return dg.MaterializeResult(value=summary, metadata={_INPUTS: inputs})


@paimon_asset(
    "demo.departures",
    DEPARTURES,
    mode="overwrite",
    schema_policy="add",
    warehouse=WAREHOUSE,
    deps=[flights],
    code_version=CODE_VERSION,
)
def departures(
    context: dg.AssetExecutionContext, paimon: PaimonCatalogResource
) -> dg.MaterializeResult[Any]:
    """Every flight that departed, in an append table; made again when the flights have changed."""
    table = paimon.catalog().get_table("demo.flights")
    snapshot = table.latest_snapshot()
    if snapshot is None:
        context.log.info("No flights yet.")
        return dg.MaterializeResult()
    inputs = f"demo.flights at data version {data_version_of(table, snapshot).value}"
    if _inputs_of_last_run(context) == inputs:
        context.log.info("Still the same inputs (%s).", inputs)
        return dg.MaterializeResult(metadata={_INPUTS: inputs})
    read = table.new_read_builder().with_columns(field.name for field in DEPARTURES.fields)
    rows = read.at_snapshot(snapshot.id).to_reader()
    return dg.MaterializeResult(value=rows, metadata={_INPUTS: inputs})


FLIGHTS_IN_MEAN = 50


@column_asset(
    "demo.departures",
    columns={"carrier_delay": "DOUBLE"},
    reads=["carrier", "time_hour", "flight", "dep_delay"],
    warehouse=WAREHOUSE,
    code_version=CODE_VERSION,
)
def carrier_delay(rows: pa.Table) -> pa.Table:
    """The rolling delay of the carrier: the mean of its last 50 departures, this one included.

    The table is written as a whole, so all its rows are behind at once, and they are fewer than the
    function is given at a time: it sees every departure of a carrier.
    """
    flown = rows.to_pandas().sort_values(["carrier", "time_hour", "flight"])
    last = flown.groupby("carrier", sort=False)["dep_delay"].rolling(FLIGHTS_IN_MEAN, min_periods=1)
    mean = last.mean().droplevel("carrier").sort_index()
    return pa.table({"carrier_delay": mean.to_numpy()})


def _inputs_of_last_run(context: dg.AssetExecutionContext) -> str | None:
    event = context.instance.get_latest_materialization_event(context.asset_key)
    materialization = event.asset_materialization if event else None
    value = materialization.metadata.get(_INPUTS) if materialization else None
    return value.value if isinstance(value, dg.TextMetadataValue) else None


def _expected_rows() -> int:
    from jobs.demo.expectations import expected_flights

    return len(expected_flights(scale_of(LANDING)))


assets = [
    flight_changes,
    weather_reports,
    flights,
    flights_unpadded,
    weather,
    planes,
    daily_delays,
    departures,
    carrier_delay,
]

checks = [
    build_row_count_check(flights, _expected_rows, options=CheckOptions(blocking=True)),
    build_unique_key_check(flights, options=CheckOptions(blocking=True)),
    build_schema_check(flights, FLIGHTS),
    build_overflow_check(flights, FLIGHTS),
    build_source_overflow_check(flights, CHANGES),
    build_rows_behind_check(carrier_delay),
]
