"""The one Definitions of this deployment: what `workspace.yaml` loads."""

import dagster as dg

from jobs.demo import tables
from jobs.ingestion import flights_new_files, ingestion_job, nightly_ingestion
from resources import build_resources

defs = dg.Definitions(
    assets=tables.assets,
    asset_checks=tables.checks,
    jobs=[ingestion_job],
    schedules=[nightly_ingestion],
    sensors=[flights_new_files],
    resources=build_resources(),
    # One process for all steps of a run: one Spark session instead of one per step and check.
    executor=dg.in_process_executor,
)
