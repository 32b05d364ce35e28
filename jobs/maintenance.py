"""The maintenance job and its schedule, which is shipped stopped."""

import dagster as dg

from jobs.tables import MAINTAINED, MAINTENANCE_EXAMPLE
from paimon_assets.assets import MaintenanceConfig, build_maintenance_job

maintenance_job = build_maintenance_job(MAINTAINED, suggestion=MAINTENANCE_EXAMPLE)

nightly_maintenance = dg.ScheduleDefinition(
    name="nightly_maintenance",
    job=maintenance_job,
    run_config=dg.RunConfig(ops={"maintain": MaintenanceConfig()}),
    cron_schedule="0 5 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.STOPPED,
    description="Expires what is old enough by the options of each table, every night at five.",
)
