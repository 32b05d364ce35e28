"""The maintenance job: deletions, reports, and tables that fail."""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from paimon_assets import EmbeddedExecutor, Schema, Table
from paimon_assets.assets import MaintenanceConfig, PaimonCatalogResource, build_maintenance_job
from paimon_assets.assets.jobs.maintenance import MaintenanceChoice
from paimon_assets.engine.table.upkeep.maintenance import MaintenanceTask
from tests.testkit.asset_tables import PLANES, job_run, planes, rows_of
from tests.testkit.metadata_tables import ORPHAN

EXPIRING = {
    "snapshot.num-retained.min": "2",
    "snapshot.num-retained.max": "2",
    "snapshot.time-retained": "0 s",
    "snapshot.expire.limit": "2",
}


def make(paimon: PaimonCatalogResource, name: str, commits: int = 6) -> Table:
    """Create a table, and overwrite it some times."""
    catalog = paimon.catalog()
    catalog.create_database("ods", ignore_if_exists=True)
    schema = Schema(
        fields=PLANES.fields,
        primary_keys=PLANES.primary_keys,
        options={**PLANES.options, **EXPIRING},
    )
    table = catalog.create_table(f"ods.{name}", schema)
    for number in range(commits):
        rows = planes((f"N{number}", number, None))
        table.new_write_builder().with_overwrite({}).write(rows, EmbeddedExecutor(1))
    return table


def run(paimon: PaimonCatalogResource, config: MaintenanceConfig, *tables: str) -> Any:
    """Run the job in this process."""
    return job_run(build_maintenance_job(tables), "maintain", config, paimon)


def summary(metadata: Any) -> list[tuple[str, str, int]]:
    """Return (table, task, count) of each line."""
    records = [record.data for record in metadata["paimon/summary"].records]
    return [(line["table"], line["task"], line["count"]) for line in records]


def output_metadata(result: Any) -> Any:
    [event] = [e for e in result.all_events if e.is_successful_output]
    return event.step_output_data.metadata


def data_files(table: Table) -> list[Path]:
    return [path for path in Path(table.path).rglob("bucket-*/*") if path.is_file()]


def test_config_names_tasks_of_engine():
    assert [choice.value for choice in MaintenanceChoice] == list(MaintenanceTask)
    assert [choice.name for choice in MaintenanceChoice] == [t.value for t in MaintenanceTask]


def test_tables_of_pattern_are_maintained(paimon):
    tables = [make(paimon, name) for name in ("a", "b")]
    before = [rows_of(table) for table in tables]
    result = run(paimon, MaintenanceConfig(tables=["ods.*"]))
    assert result.success
    for table, rows in zip(tables, before, strict=True):
        assert rows_of(table) == rows
        assert [snapshot.id for snapshot in table.snapshots()] == [6, 7]
        assert len(data_files(table)) == 1
    lines = summary(output_metadata(result))
    assert [line[:2] for line in lines] == [
        (table, task)
        for table in ("ods.a", "ods.b")
        for task in ("compact_manifests", "expire_snapshots")
    ]
    assert ("ods.a", "expire_snapshots", 5) in lines
    observed = result.get_asset_observation_events()
    metadata = observed[0].event_specific_data.asset_observation.metadata
    assert metadata["paimon/deleted_files"].value > 0
    shown = [record.data["task"] for record in metadata["paimon/tasks"].records]
    assert shown == ["compact_manifests", "expire_snapshots"], "none that had nothing to do"


def test_missing_declared_table_is_skipped(paimon):
    make(paimon, "a")
    result = run(paimon, MaintenanceConfig(), "ods.a", "ods.later")
    assert result.success
    assert ("ods.later", "none", 0) in summary(output_metadata(result))
    [event] = result.get_asset_observation_events()
    observation = event.asset_observation_data.asset_observation
    assert observation.asset_key == dg.AssetKey(["ods", "a"])
    assert observation.description.startswith("compact_manifests: ")
    assert "; expire_snapshots: 5 " in observation.description
    assert " 0 B" not in observation.description  # sizes of metadata are not known


def test_dry_run_changes_nothing(paimon):
    table = make(paimon, "a")
    result = run(paimon, MaintenanceConfig(dry_run=True), "ods.a")
    metadata = output_metadata(result)
    assert ("ods.a", "expire_snapshots", 2) in summary(metadata)
    assert len(table.snapshots()) == 6
    notes = {line.data["task"]: line.data["note"] for line in metadata["paimon/summary"].records}
    assert notes["compact_manifests"] == (
        "6 manifests to 1; by the default of manifest.target-file-size"
    )
    assert notes["expire_snapshots"] == (
        "by snapshot.time-retained = 0 s, snapshot.num-retained.max = 2, "
        "snapshot.num-retained.min = 2"
    )


def test_failed_table_stops_no_other(paimon):
    bad, good = make(paimon, "bad"), make(paimon, "good")
    for path in Path(bad.path, "snapshot").glob("snapshot-*"):
        path.write_text("{")
    result = run(paimon, MaintenanceConfig(tables=["ods.bad", "ods.none", "ods.good"]))
    assert not result.success
    assert len(good.snapshots()) == 2
    [event] = [e for e in result.all_events if e.is_step_failure]
    failure = event.step_failure_data.user_failure_data
    assert failure.description.startswith("2 of 3 tables failed.")
    assert "'ods.none' does not exist" in failure.description
    lines = summary(failure.metadata)
    assert ("ods.bad", "failed", 0) in lines
    assert ("ods.good", "expire_snapshots", 5) in lines


def test_orphans_are_deleted_only_on_request(paimon):
    table = make(paimon, "a", commits=1)
    orphan = data_files(table)[0].with_name(ORPHAN)
    orphan.write_bytes(b"12")
    only = MaintenanceConfig(tasks=[MaintenanceChoice.clean_orphans], orphans_older_than_hours=0)
    found = run(paimon, only, "ods.a")
    assert summary(output_metadata(found)) == [("ods.a", "clean_orphans", 1)]
    [event] = found.get_asset_observation_events()
    description = event.asset_observation_data.asset_observation.description
    assert description == "clean_orphans: 1 (1 file, 2 B), counted, not deleted."
    assert orphan.exists()
    run(paimon, only.model_copy(update={"delete_orphans": True}), "ods.a")
    assert not orphan.exists()
    assert len(data_files(table)) == 1


def test_table_gets_its_time_and_next_run_continues(paimon):
    table = make(paimon, "a", commits=12)
    work = table.maintenance()
    one_piece = type(work)(store=work.store, until_ms=1)
    report = one_piece.run(MaintenanceTask.EXPIRE_SNAPSHOTS)
    assert (report.count, report.is_complete) == (2, False)
    report = work.run(MaintenanceTask.EXPIRE_SNAPSHOTS)
    assert (report.count, report.is_complete) == (8, True)
    assert len(table.snapshots()) == 2


@pytest.mark.parametrize("name", ["orphans_older_than_hours", "seconds_per_table"])
def test_negative_values_are_refused(paimon, name):
    result = run(paimon, MaintenanceConfig(**{name: -1}), "ods.a")
    [event] = [e for e in result.all_events if e.is_step_failure]
    assert name in event.step_failure_data.user_failure_data.description


def test_analyze_runs_on_request(paimon):
    table = make(paimon, "a", commits=1)
    only = MaintenanceConfig(tasks=[MaintenanceChoice.analyze])
    result = run(paimon, only, "ods.a")
    assert summary(output_metadata(result)) == [("ods.a", "analyze", 1)]
    assert table.latest_snapshot().statistics is not None
