"""The jobs as a person runs them: config typed in the Launchpad, results read off the pages."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.demo.schemas import FLIGHT_ARCHIVE
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.table.api import open_catalog
from tests.testkit.webserver import LOCATION, Webserver, webserver

FLIGHTS = ("demo", "flights")

JOBS = """
query($repository: RepositorySelector!) {
  repositoryOrError(repositorySelector: $repository) { ... on Repository { jobs { name } } }
}"""
DEFAULT_CONFIG = """
query($selector: PipelineSelector!) {
  runConfigSchemaOrError(selector: $selector) { ... on RunConfigSchema { rootDefaultYaml } }
}"""
VALIDATE = """
query($pipeline: PipelineSelector!, $config: RunConfigData!) {
  isPipelineConfigValid(pipeline: $pipeline, runConfigData: $config, mode: "default") {
    __typename
    ... on RunConfigValidationInvalid { errors { message } }
  }
}"""
DRY_RUN = """
... on DryRunInstigationTick {
  evaluationResult { skipReason error { message } runRequests { runConfigYaml tags { key } } }
}"""
SCHEDULE = (
    "mutation($it: ScheduleSelector!) { scheduleDryRun(selectorData: $it, timestamp: 1704164400) {"
    + DRY_RUN
    + "}}"
)
SENSOR = (
    "mutation($it: SensorSelector!) { sensorDryRun(selectorData: $it, cursor: null) {"
    + DRY_RUN
    + "}}"
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ui")


@pytest.fixture(scope="module")
def ui(home: Path) -> Any:
    with webserver(home) as server:
        yield server


@pytest.fixture(scope="module")
def ingestion_run(ui: Webserver) -> Any:
    """The run that fills the flights table, with its checks."""
    config = "ops: {landing__flight_changes: {config: {every: 100, files: 3}}}"
    return ui.run("ingestion_job", config, [["landing", "flight_changes"], list(FLIGHTS)])


def flights(home: Path) -> Any:
    return open_catalog(str(home / "warehouse")).get_table("demo.flights")


def test_every_launchpad_opens_with_config_that_is_valid(ui: Webserver):
    jobs = [job["name"] for job in ui.ask(JOBS, repository=LOCATION)["repositoryOrError"]["jobs"]]
    jobs = [name for name in jobs if not name.startswith("__")]
    assert {"ingestion_job", "compaction_job", "schema_evolution_job"} < set(jobs)
    for job in jobs:
        selector = {**LOCATION, "pipelineName": job}
        found = ui.ask(DEFAULT_CONFIG, selector=selector)["runConfigSchemaOrError"]
        verdict = ui.ask(VALIDATE, pipeline=selector, config=found["rootDefaultYaml"])
        assert verdict["isPipelineConfigValid"]["__typename"] == "PipelineConfigValidationValid"
        wrong = ui.ask(VALIDATE, pipeline=selector, config="ops: {no_such_op: {}}")
        [error] = wrong["isPipelineConfigValid"]["errors"]
        assert "no_such_op" in error["message"]


def test_ingestion_shows_rows_columns_and_checks(ui: Webserver, home: Path, ingestion_run: Any):
    assert ingestion_run.status == "SUCCESS", ingestion_run.log()
    _, shown = ingestion_run.event("MaterializationEvent", *FLIGHTS)
    rows = flights(home).new_read_builder().to_arrow().num_rows
    assert shown["dagster/row_count"] == rows > 3000
    assert (shown["paimon/files_ingested"], shown["paimon/snapshot_id"]) == (3, 1)
    assert [line["snapshot"] for line in shown["paimon/recent_snapshots"]] == [1]
    assert ingestion_run.checks() == dict.fromkeys(
        ("overflow", "row_count", "schema", "source_overflow", "unique_key"), True
    )


def test_compaction_shows_table_before_and_after(ui: Webserver, home: Path, ingestion_run: Any):
    before = flights(home).latest_snapshot()
    form = "ops: {compact: {config: {tables: [demo.flights], strategy: full}}}"
    done = ui.run("compaction_job", form)
    text, shown = done.event("MaterializationEvent", *FLIGHTS)
    assert text.startswith(f"Snapshot {before.id + 1}: merged ")
    first, second = shown["paimon/table_size"]
    assert first["files"] >= second["files"] == shown["paimon/total_files"]
    assert {line["when"] for line in shown["paimon/levels"]} == {"before", "after"}
    assert shown["paimon/picture"].startswith("![before, after](data:image/svg+xml;base64,")


def test_lossy_change_is_stopped_and_harmless_passes(ui: Webserver, home: Path, ingestion_run: Any):
    def evolve(column: str, new_type: str) -> Any:
        change = {"action": "updateColumnType", "fieldNames": [column], "newDataType": new_type}
        config = {"table": "demo.flights", "changes": [{**change, "keepNullability": True}]}
        typed = {"ops": {"evolve_schema": {"config": {**config, "dry_run": False}}}}
        return ui.run("schema_evolution_job", json.dumps(typed))

    schemas = len(flights(home).schemas())
    refused = evolve("dep_delay", "TINYINT")
    assert refused.status == "FAILURE"
    text, shown = refused.failure()
    assert text.startswith("Table 'demo.flights' stays at schema ")
    assert "'dep_delay' INT → TINYINT" in text
    assert "on_overflow: allow" in text
    assert shown["paimon/lost_values"] > 0
    assert shown["paimon/overflow_examples"][0]["file"].startswith("month=")
    assert len(flights(home).schemas()) == schemas
    made = evolve("distance", "BIGINT")
    assert made.status == "SUCCESS", made.log()
    _, shown = made.event("ObservationEvent", *FLIGHTS)
    assert [line["what"] for line in shown["paimon/schema_diff"]] == ["column"]
    assert shown["paimon/schema_id"] == flights(home).schema.id


def test_folder_becomes_segment(ui: Webserver, home: Path):
    catalog = open_catalog(str(home / "warehouse"))
    catalog.create_database("demo", ignore_if_exists=True)
    table = catalog.create_table("demo.flight_archive", FLIGHT_ARCHIVE)
    fields = [field for field in FLIGHT_ARCHIVE.fields if field.name != "month"]
    schema = pa.schema([(field.name, to_arrow_type(field.type)) for field in fields])
    folder = home / "partner" / "month=8"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([{"flight": 1}], schema=schema), folder / "a.parquet")
    config = {"table": "demo.flight_archive", "path": str(folder.parent), "partition": "month:int"}
    typed = json.dumps({"ops": {"import_segment": {"config": config}}})
    done = ui.run("segment_import_job", typed)
    text, shown = done.event("MaterializationEvent", "demo", "flight_archive")
    assert text.startswith("Snapshot 1: ")
    assert [line["partition"] for line in shown["paimon/segments"]] == ["month=8"]
    [row] = table.new_read_builder().with_columns(["month", "flight"]).to_arrow().to_pylist()
    assert row == {"month": 8, "flight": 1}


def test_maintenance_reports_tables_and_skips_missing(ui: Webserver, ingestion_run: Any):
    done = ui.run("maintenance_job", "ops: {maintain: {config: {dry_run: true}}}")
    assert done.status == "SUCCESS", done.log()
    text, shown = done.event("ObservationEvent", *FLIGHTS)
    assert text.startswith("Dry run: ")
    assert shown["paimon/dry_run"] is True
    assert "Table demo.daily_delays is not there yet." in done.log()


def test_schedules_and_sensors_answer_dry_run(ui: Webserver, ingestion_run: Any):
    for name in ("nightly_ingestion", "nightly_compaction", "nightly_maintenance"):
        tick = ui.ask(SCHEDULE, it={**LOCATION, "scheduleName": name})["scheduleDryRun"]
        found = tick["evaluationResult"]
        assert found["error"] is None
        assert len(found["runRequests"]) == 1
    for name, reason in (
        ("flights_new_files", "file"),
        ("demo_file_debt", "No file debt"),
        ("archive_new_segments", "archive"),
    ):
        tick = ui.ask(SENSOR, it={**LOCATION, "sensorName": name})["sensorDryRun"]
        found = tick["evaluationResult"]
        assert found["error"] is None
        assert reason in (found["skipReason"] or ""), found
