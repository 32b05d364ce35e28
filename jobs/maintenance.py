"""The maintenance job and its schedule, which is shipped stopped."""

from jobs.tables import MAINTAINED, MAINTENANCE_EXAMPLE
from paimon_assets.assets import build_maintenance_job, build_maintenance_schedule

maintenance_job = build_maintenance_job(MAINTAINED, suggestion=MAINTENANCE_EXAMPLE)

nightly_maintenance = build_maintenance_schedule(
    maintenance_job, "0 5 * * *", name="nightly_maintenance"
)
