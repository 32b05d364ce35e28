"""Schedules of ingestion, compaction and maintenance; automation on new data.

Each is shipped stopped, and runs with the config of its job's form; so does a cron of your own with
`dg.ScheduleDefinition`, which these save you to spell.
"""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from paimon_assets.assets.failures import naming_arguments
from paimon_assets.assets.files.source_files import IngestConfig
from paimon_assets.assets.jobs.compaction import COMPACTION_OP, CompactionConfig
from paimon_assets.assets.jobs.maintenance import MAINTENANCE_OP, MaintenanceConfig
from paimon_assets.assets.translator import identifier_of_asset

_UTC = "UTC"


@naming_arguments
def build_ingestion_schedule(
    asset: dg.AssetsDefinition,
    cron_schedule: str,
    *,
    config: IngestConfig | None = None,
    target: Any = None,
    name: str | None = None,
    timezone: str = _UTC,
) -> dg.ScheduleDefinition:
    """Ingest new files on a schedule. It is shipped stopped.

    >>> build_ingestion_schedule(orders, "0 3 * * *").name
    'shop__orders_schedule'

    Args:
        asset: From `build_file_ingestion_asset`.
        cron_schedule: When, such as `0 3 * * *`.
        config: The form of the run; its defaults ingest all new files.
        target: A job or selection that contains the asset; the asset by default.
        name: The name of the schedule; `<table>_schedule` by default.
        timezone: Of the cron.

    Raises:
        InvalidInputError: The asset is not of exactly one table.
    """
    description = f"Ingests new files for {identifier_of_asset(asset)}."
    op, chosen = asset.node_def.name, target if target is not None else asset
    ops = {op: config or IngestConfig()}
    return _schedule(chosen, op, name, cron_schedule, timezone, ops, description)


@naming_arguments
def build_compaction_schedule(
    job: dg.JobDefinition,
    cron_schedule: str,
    *,
    config: CompactionConfig | None = None,
    name: str | None = None,
    timezone: str = _UTC,
) -> dg.ScheduleDefinition:
    """Run a compaction job by the clock. It is shipped stopped.

    >>> from paimon_assets.assets import build_compaction_job
    >>> job = build_compaction_job(["sales.orders"])
    >>> build_compaction_schedule(job, "0 3 * * *").cron_schedule
    '0 3 * * *'

    Args:
        job: From `build_compaction_job`.
        cron_schedule: When, such as `0 4 * * *`.
        config: The form of the run; its defaults do the work due by the options of each table.
        name: The name of the schedule; `<job>_schedule` by default.
        timezone: Of the cron.
    """
    ops = {COMPACTION_OP: config or CompactionConfig()}
    return _schedule(job, job.name, name, cron_schedule, timezone, ops, "Compacts due files.")


@naming_arguments
def build_maintenance_schedule(
    job: dg.JobDefinition,
    cron_schedule: str,
    *,
    config: MaintenanceConfig | None = None,
    name: str | None = None,
    timezone: str = _UTC,
) -> dg.ScheduleDefinition:
    """Run a maintenance job by the clock; arguments as of `build_compaction_schedule`.

    >>> from paimon_assets.assets import build_maintenance_job
    >>> job = build_maintenance_job(["sales.orders"])
    >>> build_maintenance_schedule(job, "0 4 * * 0").cron_schedule
    '0 4 * * 0'
    """
    ops, description = {MAINTENANCE_OP: config or MaintenanceConfig()}, "Does the due maintenance."
    return _schedule(job, job.name, name, cron_schedule, timezone, ops, description)


def _schedule(
    target: Any,
    subject: str,
    name: str | None,
    cron: str,
    timezone: str,
    ops: Mapping[str, dg.Config],
    description: str,
) -> dg.ScheduleDefinition:
    return dg.ScheduleDefinition(
        name=name or f"{subject}_schedule",
        target=target,
        run_config=dg.RunConfig(ops=dict(ops)),
        cron_schedule=cron,
        execution_timezone=timezone,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description=description,
    )


def on_new_data() -> dg.AutomationCondition[Any]:
    """Ask for an asset when a table upstream has new data and its blocking checks passed.

    >>> @dg.asset(deps=[orders], automation_condition=on_new_data())
    ... def totals(): ...

    As `AutomationCondition.eager()`, which however asks after every run upstream: here a run that
    found nothing to write, a compaction or a dry run asks for nothing, because none of them changes
    the data version of the table. Upstream of a view are the tables of its query.
    """
    conditions = dg.AutomationCondition
    new_data = conditions.any_deps_match(
        conditions.data_version_changed() | conditions.will_be_requested()
    ).with_label("any_deps_have_new_data")
    eager = conditions.eager().replace("any_deps_updated", new_data)
    checked = conditions.all_deps_blocking_checks_passed()
    return (eager & checked).resolve_through_virtual().with_label("on_new_data")
