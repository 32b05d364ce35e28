"""The one Definitions of this deployment, which `workspace.yaml` loads."""

import dagster as dg

from jobs.checks import flights_checks
from jobs.compaction import compaction_job, demo_file_debt, nightly_compaction
from jobs.ingestion import flights_new_files, ingestion_job, nightly_ingestion
from jobs.maintenance import maintenance_job, nightly_maintenance
from jobs.schema_evolution import schema_evolution_job
from jobs.segment_import import archive_new_segments, segment_import_job
from jobs.tables import ASSETS, CHECKS
from paimon_assets.assets import refuse_shared_tables
from resources import build_resources

refuse_shared_tables(ASSETS)

defs = dg.Definitions(
    assets=ASSETS,
    asset_checks=CHECKS,
    jobs=[
        ingestion_job,
        segment_import_job,
        schema_evolution_job,
        flights_checks,
        compaction_job,
        maintenance_job,
    ],
    schedules=[nightly_ingestion, nightly_compaction, nightly_maintenance],
    sensors=[flights_new_files, archive_new_segments, demo_file_debt],
    resources=build_resources(),
    # One process for all steps of a run: one Spark session instead of one per step and check.
    executor=dg.in_process_executor,
)
