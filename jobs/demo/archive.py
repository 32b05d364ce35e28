"""The demo's archive: months that Spark wrote long ago, read where they lie, and one of our own.

landing/flight_archive ─▶ archive/parquet ─┐   months 1 to 3, 4 to 6: not copied
                       └▶ archive/orc ─────┼─▶ demo/flight_archive
demo/flights ──────────────────────────────┘   month 7: written by the pipeline
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow as pa

from jobs.demo.home import LANDING
from jobs.demo.landing import deliver, scale_of, seen_at
from jobs.demo.schemas import FLIGHT_ARCHIVE
from jobs.demo.tables import CODE_VERSION, WAREHOUSE, flight_changes, flights
from paimon_assets.assets import PaimonCatalogResource, build_segment_asset, paimon_asset
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.table.segments.segment_import import SegmentSource

if TYPE_CHECKING:
    import pandas as pd

TABLE = "demo.flight_archive"
ARCHIVE_FOLDER = "archive"
FOLDER = LANDING / ARCHIVE_FOLDER
MONTHS: Mapping[str, range] = {"parquet": range(1, 4), "orc": range(4, 7)}
"""Format → months that lie in it."""
MONTH_OF_THE_PIPELINE = 7


def archived_flights(every: int, months: range) -> pa.Table:
    """Return the flights of some months that departed, in the archive's columns."""
    from jobs.demo.nycflights import read_flights

    source = read_flights(every)
    flown = source[source["month"].isin(months) & source["dep_time"].notna()]
    flown = flown.assign(status=flown["arr_delay"].isna().map({True: "diverted", False: "arrived"}))
    schema = pa.schema(
        [(field.name, _spark_type(to_arrow_type(field.type))) for field in FLIGHT_ARCHIVE.fields]
    )
    return pa.Table.from_pandas(flown, schema=schema, preserve_index=False)


def _spark_type(arrow_type: Any) -> Any:
    return pa.timestamp("us") if pa.types.is_timestamp(arrow_type) else arrow_type


def write_archive(session: Any, folder: Path, every: int) -> list[str]:
    """Write the missing parts of the archive by plain Spark; return the formats written."""
    missing = [name for name in MONTHS if not (folder / name / "_SUCCESS").exists()]
    for name in missing:
        frame = session.createDataFrame(archived_flights(every, MONTHS[name])).coalesce(1)
        writer = frame.write.mode("overwrite").partitionBy("month").format(name)
        writer.save(str(folder / name))
    return missing


def expected_archive(every: int = 1) -> "pd.DataFrame":
    """Return the rows of the whole table: the flights of months 1 to 7 that departed."""
    from jobs.demo.expectations import expected_flights

    expected = expected_flights(every)
    columns = [field.name for field in FLIGHT_ARCHIVE.fields]
    return expected[expected["month"] <= MONTH_OF_THE_PIPELINE][columns]


@dg.asset(
    key=["landing", "flight_archive"],
    group_name="landing",
    kinds={"parquet", "orc", "spark"},
    deps=[flight_changes],
    code_version=CODE_VERSION,
)
def flight_archive_files(
    context: dg.AssetExecutionContext, paimon: PaimonCatalogResource
) -> dg.MaterializeResult[None]:
    """Half a year of flights as plain Spark writes them: a Parquet and an ORC folder."""
    written: list[str] = []
    if any(not (FOLDER / name / "_SUCCESS").exists() for name in MONTHS):
        written = write_archive(paimon.spark.session(), FOLDER, scale_of(LANDING))
    context.log.info("Written now: %s.", ", ".join(written) or "nothing, all is there")
    deliver(ARCHIVE_FOLDER, paimon.options)
    return dg.MaterializeResult(metadata={"folder": dg.MetadataValue.path(seen_at(ARCHIVE_FOLDER))})


def source_of(name: str) -> SegmentSource:
    """Return the folder of one format as ADD SEGMENT takes it."""
    return SegmentSource(
        path=f"{seen_at(ARCHIVE_FOLDER)}/{name}", format=name, partition="month:int"
    )


def _segments(name: str) -> dg.AssetsDefinition:
    months = MONTHS[name]
    return build_segment_asset(
        TABLE,
        FLIGHT_ARCHIVE,
        source=source_of(name),
        key=["archive", name],
        deps=[flight_archive_files],
        warehouse=WAREHOUSE,
        code_version=CODE_VERSION,
        description=f"Months {months[0]} to {months[-1]} of {TABLE}: {name} files that Spark "
        "wrote, read where they lie.",
    )


archive_parquet = _segments("parquet")
archive_orc = _segments("orc")


@paimon_asset(
    TABLE,
    FLIGHT_ARCHIVE,
    executor="spark",
    warehouse=WAREHOUSE,
    deps=[archive_parquet, archive_orc, flights],
    code_version=CODE_VERSION,
)
def flight_archive(context: dg.AssetExecutionContext, paimon: PaimonCatalogResource) -> Any:
    """Flights of seven months: two folders of files that are not copied, and rows of demo.flights.

    The month of the pipeline is appended once.
    """
    table = paimon.catalog().get_table(TABLE)
    if any(entry.file.external_path is None for entry in table.state.live_files()):
        context.log.info("Month %d is there already.", MONTH_OF_THE_PIPELINE)
        return None
    columns = [field.name for field in FLIGHT_ARCHIVE.fields]
    read = paimon.catalog().get_table("demo.flights").new_read_builder()
    return paimon.spark_dataframe(
        read.with_columns(columns).with_filter(f"month = {MONTH_OF_THE_PIPELINE}")
    )


assets = [flight_archive_files, archive_parquet, archive_orc, flight_archive]
