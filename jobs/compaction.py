"""The compaction job, its schedule, and the sensor on file debt; both are shipped stopped."""

import dagster as dg

from jobs.tables import COMPACTED, COMPACTION_EXAMPLE
from paimon_assets.assets import (
    build_compaction_job,
    build_compaction_schedule,
    build_file_debt_sensor,
)

compaction_job: dg.JobDefinition = build_compaction_job(COMPACTED, suggestion=COMPACTION_EXAMPLE)

nightly_compaction = build_compaction_schedule(
    compaction_job, "0 4 * * *", name="nightly_compaction"
)

demo_file_debt = build_file_debt_sensor(compaction_job, tables=COMPACTED, name="demo_file_debt")
