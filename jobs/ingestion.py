"""The ingestion job, its schedule, and the sensor on new files; both are shipped stopped."""

import dagster as dg

from jobs.demo.tables import CHANGES, FlightChangesConfig, flights
from paimon_assets.assets import IngestConfig, build_new_files_sensor


def ingestion_config(changes: FlightChangesConfig) -> dg.RunConfig:
    """The run config of the ingestion job; with the defaults it is what fills the Launchpad."""
    return dg.RunConfig(
        ops={
            "landing__flight_changes": changes,
            "demo__flights": IngestConfig(),
            "demo__flights_unpadded": IngestConfig(),
            "demo__weather": IngestConfig(),
        }
    )


ingestion_job = dg.define_asset_job(
    "ingestion_job",
    selection=dg.AssetSelection.groups("landing", "demo"),
    config=ingestion_config(FlightChangesConfig()),
    description="Takes in the files that landed since the last run, then brings the daily summary "
    "up to date. Without new files nothing is written.",
)

nightly_ingestion = dg.ScheduleDefinition(
    name="nightly_ingestion",
    job=ingestion_job,
    cron_schedule="0 3 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.STOPPED,
    description="The ingestion job, every night at three.",
)

flights_new_files = build_new_files_sensor(
    flights,
    source=CHANGES,
    name="flights_new_files",
    target=dg.AssetSelection.assets(flights).downstream(),
)
