"""The ingestion job, its schedule, and the sensor on new files; both are shipped stopped."""

import dagster as dg

from jobs.tables import INGESTED, INGESTION_CONFIG, LANDED, LANDED_FILES
from paimon_assets.assets import build_new_files_sensor

ingestion_job = dg.define_asset_job(
    "ingestion_job",
    selection=INGESTED,
    config=INGESTION_CONFIG,
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
    LANDED,
    source=LANDED_FILES,
    name="flights_new_files",
    target=dg.AssetSelection.assets(LANDED).downstream(),
)
