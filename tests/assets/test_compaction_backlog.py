"""The sensor on the compaction backlog requests each compaction once."""

import datetime as dt
import json

import dagster as dg
import pyarrow as pa
import pytest

from paimon_assets import EmbeddedExecutor, Schema, assets
from tests.testkit.asset_tables import PLANES, WEATHER, planes
from tests.testkit.tables import new_table

JOB = assets.build_compaction_job(["ops.planes"])


@pytest.fixture
def table(paimon):
    return new_table(paimon.catalog(), PLANES, name="ops.planes")


def land(table, count=1):
    for _ in range(count):
        table.new_write_builder().write(planes(("N1", 1, "Jet")), EmbeddedExecutor())


def tick(paimon, instance, cursor=None, tables=("ops.*",), wait_seconds=300, **debt):
    sensor = assets.build_file_debt_sensor(
        JOB, tables=tables, debt=assets.FileDebt(**debt), minimum_interval_seconds=wait_seconds
    )
    with dg.build_sensor_context(
        instance=instance, cursor=cursor, resources={"paimon": paimon}
    ) as context:
        return sensor(context)


def test_backlog_requests_one_run(paimon, instance, table):
    land(table, 4)
    first = tick(paimon, instance)
    assert not first.run_requests
    land(table)
    second = tick(paimon, instance, first.cursor)
    [request] = second.run_requests
    assert request.tags["paimon/table"] == "ops.planes"
    assert request.run_config["ops"]["compact"]["config"]["tables"] == ["ops.planes"]
    assert not tick(paimon, instance, second.cursor).run_requests
    assert tick(paimon, instance, first.cursor).run_requests[0].run_key == request.run_key


def test_requested_run_clears_backlog(paimon, instance, table):
    land(table, 6)
    asked = tick(paimon, instance)
    [request] = asked.run_requests
    assert JOB.execute_in_process(
        run_config=request.run_config, resources={"paimon": paimon}, instance=instance
    ).success
    assert not tick(paimon, instance, asked.cursor).run_requests


def test_table_under_compaction_gets_no_second_run(paimon, instance, table):
    land(table, 6)
    run = instance.create_run_for_job(
        JOB, tags={"paimon/table": "ops.planes"}, status=dg.DagsterRunStatus.STARTED
    )
    waiting = tick(paimon, instance)
    assert not waiting.run_requests
    assert "is being compacted" in waiting.skip_reason.skip_message
    instance.report_run_failed(instance.get_run_by_id(run.run_id))
    assert tick(paimon, instance, waiting.cursor).run_requests


def test_failed_compaction_is_requested_again(paimon, instance, table):
    land(table, 6)
    ticked = tick(paimon, instance)
    keys = []
    for _ in range(3):
        [request] = ticked.run_requests
        keys.append(request.run_key)
        run = instance.create_run_for_job(JOB, tags=request.tags)
        assert not tick(paimon, instance, ticked.cursor, wait_seconds=0).run_requests, "it runs"
        instance.report_run_failed(instance.get_run_by_id(run.run_id))
        assert not tick(paimon, instance, ticked.cursor).run_requests, "not at once"
        ticked = tick(paimon, instance, ticked.cursor, wait_seconds=0)
    assert len(set(keys)) == 3


def test_run_is_full_if_no_option_asks(paimon, instance, table):
    land(table, 3)
    [request] = tick(paimon, instance, level_0_runs=3).run_requests
    assert request.run_config["ops"]["compact"]["config"]["strategy"] == "full"


def test_recreated_table_gets_run_of_its_own(paimon, instance, table):
    land(table, 5)
    asked = tick(paimon, instance)
    catalog = paimon.catalog()
    catalog.drop_table("ops.planes")
    assert json.loads(tick(paimon, instance, asked.cursor).cursor)["seen"] == {}
    land(catalog.create_table("ops.planes", PLANES), 5)
    [request] = tick(paimon, instance, asked.cursor).run_requests
    assert request.run_key != asked.run_requests[0].run_key


def rain(days):
    """Return one row of `WEATHER` for each day, which may be null."""
    nulls = pa.array(days, pa.date32())
    return pa.table({"origin": ["JFK"] * len(days), "temp": [1.0] * len(days), "day": nulls})


def evaluate(paimon, instance, check):
    """Evaluate a check of `ops.weather`; its asset writes nothing."""
    result = dg.materialize([quiet, check], resources={"paimon": paimon}, instance=instance)
    [evaluation] = result.get_asset_check_evaluations()
    return evaluation


@dg.asset(metadata={"dagster/table_name": "ops.weather"})
def quiet() -> None: ...


def test_small_files_of_append_table_request_run(paimon, instance, table):
    weather = paimon.catalog().create_table("ops.weather", WEATHER)
    check = assets.build_small_files_check(quiet)
    for files in range(1, 7):
        weather.new_write_builder().write(rain([None]), EmbeddedExecutor())
        due = files >= 5
        assert len(tick(paimon, instance).run_requests) == due
        assert bool(weather.new_compaction_builder().plan().units) == due
        assert evaluate(paimon, instance, check).passed == (not due)
    assert not tick(paimon, instance, small_files=None).run_requests
    [request] = tick(paimon, instance).run_requests
    assert request.run_config["ops"]["compact"]["config"]["strategy"] == "minor"


def test_two_files_partition_are_no_backlog(paimon, instance, table):
    schema = Schema.of(
        {"origin": "STRING", "temp": "DOUBLE", "day": "DATE"}, partition_keys=["day"]
    )
    weather = paimon.catalog().create_table("ops.weather", schema)
    month = [dt.date(2026, 1, day) for day in range(1, 31)]
    for days in (month, month[:1]):
        weather.new_write_builder().write(rain(days), EmbeddedExecutor())
        assert not tick(paimon, instance).run_requests
        assert evaluate(paimon, instance, assets.build_small_files_check(quiet)).passed


def test_deleted_rows_request_full_compaction(paimon, instance):
    schema = Schema.of(
        {"k": "INT", "kind": "STRING"},
        primary_keys=["k"],
        options={"bucket": "1", "rowkind.field": "kind"},
    )
    table = new_table(paimon.catalog(), schema, name="ops.deletes")
    for kind in ("+I", "-D"):
        rows = pa.table({"k": pa.array([1, 2], pa.int32()), "kind": [kind] * 2})
        table.new_write_builder().write(rows, EmbeddedExecutor())
    [request] = tick(paimon, instance).run_requests
    assert request.run_config["ops"]["compact"]["config"]["strategy"] == "full"


def test_unreadable_table_stops_no_other(paimon, instance, table):
    land(table, 5)
    broken = paimon.catalog().create_table("ops.broken", WEATHER)
    broken.new_write_builder().write(rain([None]), EmbeddedExecutor())
    broken.state.file_io.write_bytes(f"{broken.path}/snapshot/snapshot-2", b"{}")
    assert len(tick(paimon, instance).run_requests) == 1


def test_unreadable_cursor_is_ignored(paimon, instance, table):
    land(table, 5)
    assert tick(paimon, instance, cursor="not json").run_requests


def test_unmatched_names_are_reported(paimon, instance, table):
    found = tick(paimon, instance, tables=("gone.*", "ops.planes"))
    assert "gone" in found.skip_reason.skip_message
