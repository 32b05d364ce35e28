"""The code location of the soak's daemon: the deployment, and the triggers of its runs.

A change of `changes` or `audited` is asked for as it comes; the other tables, compaction and
maintenance by the minute; ingestion, segments, file debt and `below` by new data.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import dagster as dg

from tools.soak.deployment import Deployment

HOME = "SOAK_HOME"
RETAINED = "30 s"
"""How long snapshots are kept, so that some expire within the minutes there are."""
AS_THEY_COME = ("changes", "audited")
_BY_THE_MINUTE = ("sums", "marked", "log", "days", "still")
_EVERY_MINUTE = "* * * * *"
_INTERVAL = 5
_MOST_QUEUED = 4


def location_of(made: Deployment) -> dg.Definitions:
    come = [made.assets[name] for name in AS_THEY_COME]
    writers = dg.AssetSelection.assets(*(made.assets[name] for name in _BY_THE_MINUTE))

    @dg.sensor(target=come, minimum_interval_seconds=_INTERVAL)
    def batches() -> Iterator[dg.RunRequest]:
        for name in AS_THEY_COME:
            for path in made.batches.waiting(name):
                key = made.assets[name].key
                yield dg.RunRequest(run_key=path.stem, asset_selection=[key])

    by_the_minute = dg.ScheduleDefinition(
        job=dg.define_asset_job("writers", selection=writers),
        cron_schedule=_EVERY_MINUTE,
        should_execute=lambda _: any(map(made.batches.waiting, _BY_THE_MINUTE)),
    )
    upkeep = made.schedules(_EVERY_MINUTE, _EVERY_MINUTE, should_execute=_has_room)
    automation = dg.AutomationConditionSensorDefinition(
        "automation", target=dg.AssetSelection.all(), minimum_interval_seconds=_INTERVAL
    )
    return dg.Definitions.merge(
        made.definitions,
        dg.Definitions(
            jobs=[made.compaction, made.maintenance],
            schedules=[by_the_minute, *upkeep],
            sensors=[made.new_files, made.new_segments, made.file_debt, batches, automation],
            executor=dg.in_process_executor,
        ),
    )


def _has_room(context: dg.ScheduleEvaluationContext) -> bool:
    """Whether the queue is short: a slow machine does not fall behind for ever."""
    queued = dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED])
    return context.instance.get_runs_count(queued) <= _MOST_QUEUED


if HOME in os.environ:
    defs = location_of(Deployment(Path(os.environ[HOME]), RETAINED))
