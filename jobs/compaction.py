"""The compaction job, its schedule, and the sensor on file debt; both are shipped stopped."""

import dagster as dg

from jobs.tables import COMPACTED, COMPACTION_EXAMPLE
from paimon_assets.assets import CompactionConfig, build_compaction_job, build_file_debt_sensor

compaction_job: dg.JobDefinition = build_compaction_job(COMPACTED, suggestion=COMPACTION_EXAMPLE)

nightly_compaction = dg.ScheduleDefinition(
    name="nightly_compaction",
    job=compaction_job,
    run_config=dg.RunConfig(ops={"compact": CompactionConfig()}),
    cron_schedule="0 4 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.STOPPED,
    description="What is due by the options of each table, every night at four.",
)

demo_file_debt = build_file_debt_sensor(compaction_job, tables=COMPACTED, name="demo_file_debt")
