"""The compaction job on a real catalog: its config, plan, report and errors."""

import base64

import dagster as dg
import pyarrow as pa
import pytest

from paimon_assets import EmbeddedExecutor, Schema
from paimon_assets.assets import CompactionConfig, build_compaction_job, paimon_asset
from paimon_assets.assets.jobs.compaction import COMPACTION_POOL
from paimon_assets.engine import embedded
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from tests.testkit import asset_tables
from tests.testkit.tables import new_table

pytestmark = pytest.mark.slow

KEY = dg.AssetKey(["ops", "planes"])


@paimon_asset("ops.planes", asset_tables.PLANES)
def the_planes() -> pa.Table:
    """Two planes."""
    return asset_tables.planes(("N1", 2, "Turbo"), ("N2", 5, "Jet"))


@paimon_asset("ops.planes", asset_tables.PLANES)
def no_planes() -> None:
    """Nothing new."""


@dg.asset(deps=[the_planes], automation_condition=dg.AutomationCondition.eager())
def below() -> None: ...


@pytest.fixture
def table(paimon, instance):
    """The table of the asset, with six runs on level 0 of each bucket."""
    assert asset_tables.run(the_planes, paimon, instance=instance).success
    table = paimon.catalog().get_table("ops.planes")
    for seats in range(5):
        rows = asset_tables.planes(("N1", seats, "Turbo"), ("N2", seats, "Jet"))
        table.new_write_builder().write(rows, EmbeddedExecutor())
    return table


def compact(paimon, instance=None, job=None, **config):
    job = job or build_compaction_job([the_planes])
    return asset_tables.job_run(job, "compact", CompactionConfig(**config), paimon, instance)


def observations(result, key=KEY):
    return asset_tables.observations_of(result, key)


def materializations(result, key=KEY):
    return [
        asset_tables.values_of(event.materialization.metadata)
        for event in result.get_asset_materialization_events()
        if event.asset_key == key
    ]


def lines_of(metadata, name):
    """Return the lines of a table by their first column."""
    return {next(iter(record.data.values())): record.data for record in metadata[name]}


def rows(table):
    found = table.new_read_builder().to_arrow().to_pylist()
    return sorted(found, key=lambda row: row["tailnum"])


def failure(result):
    """Return the description of the first failed step."""
    [event] = [event for event in result.all_events if event.is_step_failure]
    return event.step_failure_data.user_failure_data.description


def test_compaction_is_one_snapshot_and_materialization(paimon, instance, table):
    before = rows(table)
    result = compact(paimon, instance, strategy="full")
    assert result.success
    snapshot = table.latest_snapshot()
    assert snapshot.commit_kind is CommitKind.COMPACT
    assert snapshot.properties["dagster.run-id"] == result.run_id
    assert rows(table) == before
    [metadata] = materializations(result)
    assert metadata["paimon/snapshot_id"] == snapshot.id
    size = lines_of(metadata, "paimon/table_size")
    assert (size["before"]["files"], size["after"]["files"]) == (12, 2)
    assert (size["before"]["read amplification"], size["after"]["read amplification"]) == (6, 1)
    assert size["after"]["bytes"] < size["before"]["bytes"]
    done = lines_of(metadata, "paimon/compacted")
    assert (done["read"]["files"], done["written"]["files"]) == (12, 2)
    assert metadata["paimon/total_files"] == 2
    assert metadata["paimon/added_rows"] == 0
    numbers = [name for name, value in metadata.items() if type(value) in (int, float)]
    assert len(numbers) <= 14
    assert not observations(result)


def test_compaction_is_observation_on_request(paimon, instance, table):
    job = build_compaction_job([the_planes], materializes=False)
    [metadata] = observations(result := compact(paimon, instance, job, strategy="full"))
    assert metadata["paimon/snapshot_id"] == table.latest_snapshot().id
    assert not materializations(result)


def test_dry_run_shows_plan_and_writes_nothing(paimon, instance, table):
    snapshot = table.latest_snapshot()
    result = compact(paimon, instance, strategy="full", dry_run=True)
    [metadata] = observations(result)
    assert table.latest_snapshot() == snapshot
    assert metadata["paimon/dry_run"]
    assert metadata["paimon/files_after_expected"] == 2
    assert metadata["paimon/read_amplification_after_expected"] == 1
    lines = [record.data for record in metadata["paimon/plan"]]
    assert [line["bucket"] for line in lines] == [0, 1]
    assert {line["why"] for line in lines} == {"full"}
    assert {(line["runs"], line["runs afterwards"]) for line in lines} == {(6, 1)}


def test_picture_shows_table_before_and_after(paimon, instance, table):
    [metadata] = materializations(compact(paimon, instance, strategy="full"))
    head, _, data = metadata["paimon/picture"].removesuffix(")").partition("base64,")
    assert head == "![before, after](data:image/svg+xml;"
    drawn = base64.b64decode(data).decode()
    assert ">before: 12 files, " in drawn
    assert ">after: 2 files, " in drawn
    levels = [record.data for record in metadata["paimon/levels"]]
    assert [(line["when"], line["level"], line["runs"]) for line in levels] == [
        ("before", 0, 12),
        ("after", 5, 2),
    ]


def test_nothing_to_do_commits_nothing(paimon, instance, table):
    assert compact(paimon, instance, strategy="full").success
    snapshot = table.latest_snapshot()
    result = compact(paimon, instance, strategy="full")
    assert result.success
    assert table.latest_snapshot() == snapshot
    assert observations(result) == [{}]  # a line, no picture


def test_observed_compaction_requests_no_downstream_run(paimon, instance, table):
    defs = dg.Definitions(assets=[the_planes, below], resources={"paimon": paimon})

    def tick(cursor):
        return dg.evaluate_automation_conditions(
            defs=defs, instance=instance, cursor=cursor, asset_selection=dg.AssetSelection.all()
        )

    dg.materialize([below], instance=instance)
    before = tick(None)
    job = build_compaction_job([the_planes], materializes=False)
    assert compact(paimon, instance, job, strategy="full").success
    after = tick(before.cursor)
    assert after.total_requested == 0
    assert asset_tables.run(the_planes, paimon, instance=instance).success
    assert tick(after.cursor).total_requested == 1


def test_compaction_keeps_data_version(paimon, instance, table):
    changed = table.latest_snapshot().id
    assert compact(paimon, instance, strategy="full").success
    result = asset_tables.run(no_planes, paimon, instance=instance)
    [event] = result.asset_materializations_for_node("ops__planes")
    assert asset_tables.data_snapshot_of(event) == changed
    assert asset_tables.metadata_of(result, KEY)["paimon/snapshot_id"] == changed + 1


def test_tables_outside_config_are_skipped(paimon, instance, table):
    job = build_compaction_job([the_planes, "ops.other"])
    result = compact(paimon, instance, job, tables=["ops.planes"])
    assert result.success
    ended = {e.step_key for e in result.all_events if e.is_step_success}
    assert ended == {"compact.choose_tables", "compact.ops__planes"}


def test_tables_without_asset_are_compacted(paimon, instance, table):
    paimon.catalog().create_table("ops.weather", asset_tables.WEATHER)
    job = build_compaction_job([the_planes])
    result = compact(paimon, instance, job, tables=["ops.*"], strategy="full")
    assert result.success
    assert len(materializations(result)) == 1
    assert len(observations(result, dg.AssetKey(["ops", "weather"]))) == 1


def test_failed_table_stops_no_other(paimon, instance, table):
    result = compact(
        paimon, instance, build_compaction_job(), tables=["ops.gone", "ops.planes"], strategy="full"
    )
    assert not result.success
    assert "1 of 2 tables failed" in failure(result)
    assert "ops.gone" in failure(result)
    assert table.latest_snapshot().commit_kind is CommitKind.COMPACT


def test_missing_declared_table_is_skipped(paimon, instance):
    result = compact(paimon, instance)
    assert result.success
    assert observations(result) == []
    assert "does not exist" in failure(compact(paimon, instance, tables=["ops.planes"]))


def test_steps_run_in_pool_of_their_writers():
    job = build_compaction_job([the_planes])
    pools = {op.name: op.pool for op in job.all_node_defs if isinstance(op, dg.OpDefinition)}
    assert pools["compaction_job__ops__planes"] == the_planes.op.pool == "paimon/ops.planes"
    assert pools["compaction_job__other_tables"] == COMPACTION_POOL


def test_definitions_with_assets_and_two_jobs_load(paimon):
    jobs = [build_compaction_job([the_planes]), build_compaction_job([the_planes], "another_job")]
    defs = dg.Definitions(assets=[the_planes], jobs=jobs, resources={"paimon": paimon})
    dg.Definitions.validate_loadable(defs)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"parallelism": -1}, "parallelism is -1"),
        ({"partition_idle_time": "soon"}, "partition_idle_time is 'soon'"),
        ({"tables": ["nothing.*"]}, "nothing"),
        ({"partitions": "seats > 1"}, "not by 'seats'"),
    ],
)
def test_invalid_config_is_refused(paimon, instance, table, config, reason):
    result = compact(paimon, instance, **config)
    assert not result.success
    assert reason in failure(result)


def test_config_without_tables_is_refused_if_none_is_declared(paimon, instance):
    assert "names no table" in failure(compact(paimon, instance, build_compaction_job()))


def test_partitions_and_idle_time_select_files(paimon, instance):
    schema = Schema.of(
        {"day": "STRING", "n": "INT"},
        partition_keys=["day"],
        options={"bucket": "-1", "compaction.min.file-num": "2"},
    )
    table = new_table(paimon.catalog(), schema, name="ops.days")
    for day in ("a", "b") * 3:
        rows = pa.table({"day": [day], "n": pa.array([1], pa.int32())})
        table.new_write_builder().write(rows, EmbeddedExecutor())
    job = build_compaction_job(["ops.days"])
    assert compact(paimon, instance, job, partition_idle_time="1 d").success
    assert len(table.state.live_files()) == 6
    assert compact(paimon, instance, job, partitions="day = 'a'").success
    assert len(table.state.live_files()) == 4


def test_retried_step_commits_once(paimon, instance, table, monkeypatch):
    snapshot = table.latest_snapshot().id
    file_io = asset_tables.FailsOnce(after_publish_of=f"snapshot-{snapshot + 1}")
    catalog = paimon.catalog()
    monkeypatch.setattr(catalog._catalog, "file_io", file_io)
    monkeypatch.setattr(type(paimon), "catalog", lambda _: catalog)
    monkeypatch.setattr("paimon_assets.assets.failures.RETRY_WAIT_SECONDS", 0)
    result = compact(paimon, instance, strategy="full")
    assert file_io.has_failed
    assert result.success
    assert table.latest_snapshot().id == snapshot + 1
    [metadata] = materializations(result)
    assert metadata["paimon/snapshot_id"] == snapshot + 1
    assert lines_of(metadata, "paimon/table_size")["before"]["read amplification"] == 6


def test_progress_is_logged(paimon, instance, table, monkeypatch):
    monkeypatch.setattr(embedded, "_FIRST_SECONDS", 0.0)
    monkeypatch.setattr(embedded, "_SECONDS_BETWEEN", 0.0)
    result = compact(paimon, instance, strategy="full", parallelism=1)
    text = "\n".join(entry.user_message for entry in instance.all_logs(result.run_id))
    assert "1 of 2 tasks" in text
    assert "2 of 2 tasks" in text
    assert "12 of 12 rows" in text


def test_sort_strategy_sorts_by_configured_columns(paimon, instance):
    table = new_table(paimon.catalog(), asset_tables.WEATHER, name="ops.weather")
    for origin in ("LGA", "JFK", "EWR"):
        rows = pa.table({"origin": [origin], "temp": [1.0], "day": pa.nulls(1, pa.date32())})
        table.new_write_builder().write(rows, EmbeddedExecutor())
    job = build_compaction_job(["ops.weather"])
    config = {"strategy": "sort", "sort_columns": ["origin"]}
    assert compact(paimon, instance, job, **config, dry_run=True).success
    assert table.latest_snapshot().id == 3
    assert compact(paimon, instance, job, **config).success
    assert table.new_read_builder().to_arrow()["origin"].to_pylist() == ["EWR", "JFK", "LGA"]
    refused = compact(paimon, instance, job, sort_columns=["origin"])
    assert "strategy sort and sort_columns go together" in failure(refused)


def test_postponed_rows_are_planned_and_assigned(paimon, instance):
    options = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}
    schema = Schema.of({"k": "INT"}, primary_keys=["k"], options=options)
    table = new_table(paimon.catalog(), schema, name="ops.waiting")
    rows = pa.table({"k": pa.array(range(9), pa.int32())})
    table.new_write_builder().write(rows, EmbeddedExecutor())
    job, key = build_compaction_job(["ops.waiting"]), dg.AssetKey(["ops", "waiting"])
    [planned] = observations(compact(paimon, instance, job, dry_run=True), key)
    assert planned["paimon/rows_waiting"] == 9
    assert [line.data["why"] for line in planned["paimon/plan"]] == ["waiting-rows"]
    assert compact(paimon, instance, job).success
    assert table.new_read_builder().to_arrow().num_rows == 9


def test_shipped_schedule_and_sensor_are_stopped(paimon):
    from jobs import compaction

    assert compaction.nightly_compaction.default_status is dg.DefaultScheduleStatus.STOPPED
    assert compaction.demo_file_debt.default_status is dg.DefaultSensorStatus.STOPPED
    with dg.build_schedule_context() as context:
        [request] = compaction.nightly_compaction.evaluate_tick(context).run_requests
    assert dg.validate_run_config(compaction.compaction_job, request.run_config)
