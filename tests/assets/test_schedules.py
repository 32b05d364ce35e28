"""Built schedules are stopped and have a valid config."""

import dagster as dg

from paimon_assets import assets
from paimon_assets.assets.jobs.compaction import StrategyChoice
from tests.testkit.asset_tables import PLANES


def test_schedules_request_runs_with_valid_config() -> None:
    landed = assets.build_file_ingestion_asset(
        "air.planes", PLANES, source=assets.FileSource(folder="/none")
    )
    compaction, maintenance = (
        assets.build_compaction_job(["air.planes"]),
        assets.build_maintenance_job(),
    )
    defs = dg.Definitions(
        assets=[landed],
        schedules=[
            assets.build_ingestion_schedule(landed, "0 3 * * *"),
            assets.build_compaction_schedule(
                compaction,
                "0 4 * * *",
                config=assets.CompactionConfig(strategy=StrategyChoice.full),
            ),
            assets.build_maintenance_schedule(
                maintenance,
                "0 5 * * 0",
                config=assets.MaintenanceConfig(dry_run=True),
                timezone="Europe/Berlin",
            ),
        ],
        resources={"paimon": dg.ResourceDefinition.none_resource()},
    )
    for name, job, expected in (
        ("air__planes_schedule", None, {"max_files": 0}),
        ("compaction_job_schedule", compaction, {"strategy": "full"}),
        ("maintenance_job_schedule", maintenance, {"dry_run": True}),
    ):
        schedule = defs.resolve_schedule_def(name)
        assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
        with dg.build_schedule_context() as context:
            tick = schedule.evaluate_tick(context)
        [request] = tick.run_requests or []
        run_job = job or defs.resolve_job_def(schedule.job_name)
        assert dg.validate_run_config(run_job, request.run_config)
        [form] = request.run_config["ops"].values()
        assert expected.items() <= form["config"].items()
    assert defs.resolve_schedule_def("maintenance_job_schedule").execution_timezone == (
        "Europe/Berlin"
    )
