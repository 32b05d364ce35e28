"""`make demo` at a small scale, as a person runs it: once, again, and over a damaged table."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from jobs.demo.expectations import difference, expected_flights, without_padding
from paimon_assets import EmbeddedExecutor, open_catalog
from tests.testkit.processes import LONGEST_SECONDS
from tests.testkit.warm_python import WarmPython, warm_python

ROOT = Path(__file__).resolve().parents[2]
EVERY = 100
PROGRAM = "jobs.demo.run"


def run_demo(
    home: Path, executor: str, *arguments: str, warm: WarmPython | None = None
) -> subprocess.CompletedProcess[str]:
    """Run it as a person does, or, `warm`, in a process that has imported all but the demo."""
    given = ["--every", str(EVERY), "--files", "5", *arguments]
    environment = {
        **os.environ,
        "PAIMON_DEMO_HOME": str(home),
        "PAIMON_WAREHOUSE": str(home / "warehouse"),
        "PAIMON_EXECUTOR": executor,
        "COLUMNS": "160",
    }
    if warm is not None:
        return warm.run(given, environment)
    return subprocess.run(
        [sys.executable, "-m", PROGRAM, *given],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
        timeout=LONGEST_SECONDS,
    )  # fmt: skip


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmPython]:
    with warm_python(PROGRAM, tmp_path_factory.mktemp("warm")) as host:
        yield host


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def first(home: Path) -> subprocess.CompletedProcess[str]:
    return run_demo(home, "embedded")


def test_first_run_has_expected_rows(first, home: Path):
    assert first.returncode == 0, first.stdout + first.stderr
    catalog = open_catalog(str(home / "warehouse"))
    flights = catalog.get_table("demo.flights").new_read_builder().to_arrow()
    assert difference(flights, expected_flights(EVERY)) is None
    assert catalog.get_table("demo.flights").state.iceberg_behind() == 0


def test_same_input_without_padding_loses_flights(first, home: Path):
    files = sorted((home / "landing" / "flights").glob("*.parquet"))
    catalog = open_catalog(str(home / "warehouse"))
    rows = catalog.get_table("demo.flights_unpadded").new_read_builder().to_arrow().num_rows
    assert rows == without_padding(files)
    assert rows < len(expected_flights(EVERY))


def test_run_logs_its_steps(first):
    assert "demo/flights" in first.stdout
    assert "passed" in first.stdout
    assert "rows after merge" in first.stdout


def test_flights_table_was_evolved_and_report_shows_it(first, home: Path):
    table = open_catalog(str(home / "warehouse")).get_table("demo.flights")
    # The last schema shows the table to Iceberg's readers.
    types = [str(schema.column("dep_delay").type) for schema in table.schemas()]
    assert types == ["SMALLINT", "INT", "INT"]
    assert "dep_delay SMALLINT → TINYINT would lose values" in first.stdout
    assert "dep_delay SMALLINT → INT keeps all" in first.stdout
    assert "5 of 5 checks of demo.flights pass" in first.stdout


def test_tables_were_maintained_and_report_shows_it(first, home: Path):
    table = open_catalog(str(home / "warehouse")).get_table("demo.flights")
    assert {run.level for bucket in table.state.shape().buckets for run in bucket.runs} == {5}
    assert "compaction_job, strategy full, demo.flights: Snapshot 2: " in first.stdout
    assert "maintenance_job, all tables: " in first.stdout
    assert "FAILED" not in first.stdout


def test_second_run_adds_nothing(first, home: Path, warm: WarmPython):
    catalog = open_catalog(str(home / "warehouse"))
    names = catalog.list_tables("demo")
    before = {name: catalog.get_table(f"demo.{name}").latest_snapshot() for name in names}
    again = run_demo(home, "embedded", warm=warm)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "Nothing new to ingest" in again.stdout
    assert "as declared, nothing to evolve" in again.stdout
    assert "demo.flights: Nothing to compact." in again.stdout
    assert "5 of 5 checks of demo.flights pass" in again.stdout
    assert "maintenance_job, all tables: " in again.stdout
    assert catalog.get_table("demo.flights").schema.id == 2
    assert {name: catalog.get_table(f"demo.{name}").latest_snapshot() for name in names} == before


def test_another_scale_in_same_place_is_refused_by_name(first, home: Path, warm: WarmPython):
    refused = run_demo(home, "embedded", "--every", "50", warm=warm)
    assert refused.returncode == 1
    assert "make clean" in refused.stdout


def test_table_follows_database_with_flights(tmp_path: Path, warm: WarmPython):
    done = run_demo(tmp_path, "embedded", "--cdc", warm=warm)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every value right" in done.stdout
    table = open_catalog(str(tmp_path / "warehouse")).get_table("demo.flights_followed")
    assert [str(each.column("air_time").type) for each in table.schemas()[1:]] == ["INT"]
    assert [each.id for each in table.snapshots()] == [1, 2]
    again = run_demo(tmp_path, "embedded", "--cdc", warm=warm)
    assert again.returncode == 0, again.stdout + again.stderr
    assert [each.id for each in table.snapshots()] == [1, 2]


def test_rest_server_run_is_same_and_stores_no_token(tmp_path: Path, warm: WarmPython):
    done = run_demo(tmp_path, "embedded", "--every", "1000", "--rest", warm=warm)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 of 5 checks of demo.flights pass" in done.stdout
    assert "FAILED" not in done.stdout
    audit = (tmp_path / "server.log").read_text()
    for operation in ("createTable", "commitTable", "alterTable"):
        assert f'"principal": "demo", "operation": "{operation}"' in audit
    digest = re.findall("[0-9a-f]{64}", (tmp_path / "principals.toml").read_text())
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    words = {word for path in files for word in re.findall(rb"[0-9a-f]{64}", path.read_bytes())}
    words |= {*re.findall(rb"[0-9a-f]{64}", (done.stdout + done.stderr).encode())}
    assert not [word for word in words if [hashlib.sha256(word).hexdigest()] == digest]


@pytest.mark.spark
def test_spark_run_is_same(tmp_path: Path, warm: WarmPython):
    done = run_demo(tmp_path, "spark", "--every", "1000", warm=warm)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "demo.daily_delays" in done.stdout
    assert "Spark (local[*]) started" in done.stdout
    assert "compaction_job, strategy full, demo.flights: Snapshot 2: " in done.stdout
    assert "FAILED" not in done.stdout
    again = run_demo(tmp_path, "spark", "--every", "1000", warm=warm)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "Nothing new to ingest" in again.stdout


@pytest.mark.spark
def test_spark_on_object_store_needs_no_jars(tmp_path: Path, warm: WarmPython):
    done = run_demo(tmp_path, "spark", "--every", "1000", "--s3", warm=warm)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("every value right") == 6  # all but the one that is lossy
    assert "5 new files in 's3://demo/landing/flights'" in done.stdout
    assert "dep_delay SMALLINT → INT keeps all" in done.stdout
    assert "compaction_job, strategy full, demo.flights: Snapshot 2: " in done.stdout
    assert "maintenance_job, all tables: " in done.stdout
    assert "FAILED" not in done.stdout
    assert not (tmp_path / "warehouse").exists()
    assert not list((tmp_path / "s3").rglob("snapshot-*"))


def test_wrong_table_makes_demo_fail(first, home: Path, tmp_path: Path, warm: WarmPython):
    copy = tmp_path / "demo"
    shutil.copytree(home, copy, ignore=shutil.ignore_patterns("dagster_home"))
    table = open_catalog(str(copy / "warehouse")).get_table("demo.planes")
    stray = table.new_read_builder().to_arrow().slice(0, 1).to_pylist()[0] | {"tailnum": "N0"}
    damage(table, stray)
    judged = run_demo(copy, "embedded", warm=warm)
    assert judged.returncode == 1
    assert "instead of 3,322" in judged.stdout


def damage(table, row) -> None:
    rows = pa.Table.from_pylist([row])
    table.new_write_builder().write(rows, EmbeddedExecutor())
