"""The maintenance job and its schedule, which is shipped stopped."""

import dagster as dg

from jobs.compaction import COMPACTED
from paimon_assets.assets import MaintenanceConfig, build_maintenance_job

maintenance_job = build_maintenance_job(COMPACTED, suggestion=MaintenanceConfig(dry_run=True))

nightly_maintenance = dg.ScheduleDefinition(
    name="nightly_maintenance",
    job=maintenance_job,
    run_config=dg.RunConfig(ops={"maintain": MaintenanceConfig()}),
    cron_schedule="0 5 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.STOPPED,
    description="Expires what is old enough by the options of each table, every night at five.",
)
