import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from paimon_assets.engine.errors import InvalidInputError
from tests.testkit.jvm_classes import sharing
from tests.testkit.processes import LONGEST_SECONDS

session_module = pytest.importorskip("paimon_assets.spark.session")
preflight = pytest.importorskip("paimon_assets.spark.preflight")
SparkSettings = session_module.SparkSettings

JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def test_explicit_settings_win_over_defaults():
    settings = SparkSettings(
        master="local[3]",
        driver_memory="4g",
        extra={"spark.ui.enabled": "true", JAVA_OPTIONS: "-Dmine=1"},
    )
    configuration = settings.configuration(warehouse="/w")
    assert configuration["spark.master"] == "local[3]"
    assert configuration["spark.driver.memory"] == "4g"
    assert configuration["spark.ui.enabled"] == "true"
    assert configuration[JAVA_OPTIONS].endswith(" -Dmine=1")
    assert configuration["spark.sql.session.timeZone"] == "UTC"
    assert configuration["spark.sql.warehouse.dir"] == "/w"


@pytest.mark.parametrize(
    ("master", "is_local", "is_connect"),
    [
        ("local", True, False),
        ("local[*]", True, False),
        ("local-cluster[2,1,1024]", False, False),
        ("spark://host:7077", False, False),
        ("sc://host:15002", False, True),
    ],
)
def test_masters_are_distinguished(master, is_local, is_connect):
    settings = SparkSettings(master=master)
    assert (settings.is_local, settings.is_connect) == (is_local, is_connect)


@pytest.mark.parametrize(
    ("extra", "variable", "expected"),
    [
        ({}, None, sys.executable),
        ({}, "/opt/python", "/opt/python"),
        ({"spark.executorEnv.PYSPARK_PYTHON": "./e/bin/python"}, "/o", "./e/bin/python"),
        ({"spark.pyspark.python": "/p", "spark.executorEnv.PYSPARK_PYTHON": "/o"}, None, "/p"),
    ],
)
def test_workers_run_configured_python(monkeypatch, extra, variable, expected):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if variable is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", variable)
    configuration = SparkSettings(extra=extra).configuration(warehouse="/w")
    assert session_module._launch_variables(configuration)["PYSPARK_PYTHON"] == expected


@pytest.mark.parametrize(
    ("master", "extra", "expected"),
    [
        ("yarn", {}, "1408m"),
        ("k8s://https://host", {"spark.executor.cores": "4"}, "4480m"),
        ("yarn", {"spark.executor.memoryOverhead": "2g"}, "2g"),
        ("yarn", {"spark.executor.pyspark.memory": "2g"}, None),
        ("spark://host:7077", {}, None),
    ],
)
def test_container_memory_includes_python(master, extra, expected):
    configuration = SparkSettings(master=master, extra=extra).configuration(warehouse="/w")
    assert configuration.get("spark.executor.memoryOverhead") == expected


def test_cluster_keeps_its_own_address_and_partitions():
    configuration = SparkSettings(master="yarn").configuration(warehouse="/w")
    assert "spark.driver.host" not in configuration
    assert "spark.sql.shuffle.partitions" not in configuration


@pytest.mark.spark
def test_repeated_start_returns_live_session(spark):
    assert session_module.get_session(SparkSettings(master="local[2]")) is spark


@pytest.mark.spark
def test_settings_that_can_change_are_changed(spark):
    key = "spark.sql.shuffle.partitions"
    before = spark.conf.get(key)
    session_module.get_session(SparkSettings(master="local[2]", extra={key: "7"}))
    assert spark.conf.get(key) == "7"
    spark.conf.set(key, before)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.way_out("spark-session-settings")
def test_settings_that_cannot_change_are_all_named():
    asked = SparkSettings(
        master="local[7]", driver_memory="9g", extra={"spark.executor.instances": "3"}
    )
    with pytest.raises(InvalidInputError) as caught:
        session_module.get_session(asked)
    assert caught.value.kind == "spark-session-settings"
    for part in ("local[2], asked for local[7]", "asked for 9g", "spark.executor.instances"):
        assert part in caught.value.message
    session_module.get_session(SparkSettings(master="local[2]"))


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_conflicting_settings_are_named_without_values():
    setting = "spark.hadoop.fs.s3a.secret.key"
    asked = SparkSettings(master="local[2]", extra={setting: "hunter2"})
    with pytest.raises(InvalidInputError, match=re.escape(setting)) as caught:
        session_module.get_session(asked)
    assert "hunter2" not in str(caught.value)


def test_token_of_connect_address_is_not_shown():
    settings = SparkSettings(master="sc://host:443/;use_ssl=true;token=hunter2")
    assert settings.shown_master == "sc://host:443/"


PROGRAM_WITHOUT_GRPC = """
import sys
sys.modules["grpc_status"] = None
from paimon_assets.engine.errors import InvalidInputError
from tests.testkit.processes import LONGEST_SECONDS
from paimon_assets.spark.session import SparkSettings, get_session
try:
    get_session(SparkSettings(master="sc://127.0.0.1:1/;token=hunter2"))
except InvalidInputError as error:
    print(error.kind, error.message)
"""


def test_connect_without_its_packages_names_extra(tmp_path):
    root = Path(__file__).resolve().parents[2]
    # A file: from 4.2 on, PySpark ends a `python -c` itself if packages of Connect are missing.
    program = tmp_path / "program.py"
    program.write_text(PROGRAM_WITHOUT_GRPC, encoding="utf-8")
    variables = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, program], capture_output=True, check=True, env=variables, text=True
    )
    assert "spark-connect Spark Connect (sc://127.0.0.1:1/) needs more packages" in done.stdout
    assert "pip install 'paimon-assets[connect]'" in done.stdout
    assert "hunter2" not in done.stdout


@pytest.mark.spark
def test_workers_run_same_python_package_and_utc(spark):
    def where(batches):
        import pyarrow as pa

        import paimon_assets

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"a": [sys.executable], "b": [paimon_assets.__file__]})

    (row,) = spark.range(1).mapInArrow(where, "a string, b string").collect()
    assert row.a == sys.executable
    assert Path(row.b).parent == session_module._PACKAGE
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_start_restores_environment():
    assert "PYSPARK_PYTHON" not in os.environ
    assert "PYSPARK_DRIVER_PYTHON" not in os.environ


def test_package_is_zipped_with_its_compiled_modules(tmp_path):
    archive = preflight.package_archive(tmp_path)
    with zipfile.ZipFile(archive) as package:
        names = package.namelist()
    assert "paimon_assets/__init__.py" in names
    assert "paimon_assets/engine/data/worker.py" in names
    assert not any("__pycache__" in name for name in names)
    program = (
        f"import sys; sys.path.insert(0, {str(archive)!r})\n"
        "import paimon_assets.engine.errors as it; print(it.__cached__ or it.__file__)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, check=True, cwd=tmp_path, text=True)
    assert done.stdout.strip() == f"{archive}/paimon_assets/engine/errors.pyc"


@pytest.mark.spark
def test_local_workers_are_not_checked(spark):
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", "asked")
    preflight.check_workers(spark)
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert not spark.sparkContext.statusTracker().getJobIdsForGroup("asked")


PROGRAM_OF_ANOTHER_PYTHON = """
import sys
import pyarrow as pa
from pyspark.sql import SparkSession
from paimon_assets import InvalidInputError, Schema, open_catalog
from paimon_assets.spark.data_source import register
from paimon_assets.spark.dataframes.sources import files_to_dataframe
from paimon_assets.spark.dataframes.tables import to_spark, write_dataframe

catalog = open_catalog(sys.argv[1])
catalog.create_database("db")
table = catalog.create_table("db.t", Schema.of({"id": "BIGINT"}, options={"bucket": "-1"}))
table.new_write_builder().write(pa.table({"id": [1]}))
session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
session.conf.set("spark.paimon_assets.readHere", "0")
session.conf.set("spark.paimon_assets.nativeRead", "false")
for work in (
    lambda: to_spark(table.new_read_builder(), session),
    lambda: write_dataframe(table, session.range(3)),
    lambda: files_to_dataframe(session, ["/nowhere"], "csv", pa.schema({"id": pa.int64()})),
    lambda: register(session),
):
    try:
        work()
    except InvalidInputError as error:
        print(error.kind, "PYSPARK_PYTHON" in error.message, sys.argv[2] in error.message)
"""


@pytest.mark.spark
def test_session_with_other_worker_python_is_refused(tmp_path):
    other = tmp_path / "other"
    venv.create(other, symlinks=True)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM_OF_ANOTHER_PYTHON, encoding="utf-8")
    root = str(Path(__file__).resolve().parents[2])
    path = f"{other}/bin{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, program, tmp_path / "warehouse", f"{other}/bin/python3"],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": root, "PATH": path, "SPARK_SUBMIT_OPTS": sharing("")},
        text=True,
        timeout=LONGEST_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["spark-worker True True"] * 4, done.stderr


PROGRAM_OF_TWO_SESSIONS = """
import os, signal
from pyspark import SparkContext
from paimon_assets.spark.session import SparkSettings, get_session, stop_session

def heap(session):
    return session.sparkContext._jvm.java.lang.Runtime.getRuntime().maxMemory() >> 20

first = get_session(SparkSettings(master="local[1]", driver_memory="512m"))
jvm = SparkContext._gateway.proc
print(heap(first))
stop_session()
print(jvm.poll())
second = get_session(SparkSettings(master="local[1]", driver_memory="640m"))
print(heap(second))
os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
SparkContext._gateway.proc.wait()
third = get_session(SparkSettings(master="local[1]", driver_memory="512m"))
print(third.range(5).count())
if os.fork() == 0:
    stop_session()
    os._exit(0)
os.wait()
print(third.range(6).count())
"""


@pytest.mark.spark
def test_new_session_follows_stopped_or_killed_one(tmp_path):
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM_OF_TWO_SESSIONS],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": root,
            # Not the options of other tests: the size of the heap depends on the garbage collector.
            "SPARK_SUBMIT_OPTS": sharing("-XX:TieredStopAtLevel=1"),
        },
        text=True,
        timeout=LONGEST_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["512", "0", "640", "5", "6"], done.stderr
    assert list(tmp_path.iterdir()) == []
