"""A cluster of two executors on this machine: own JVMs, blocks that arrive out of order."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testkit.processes import JVM_OPTIONS, LONGEST_SECONDS

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys

sys.path.insert(0, sys.argv[2])

from pyspark.sql import functions as fn

from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import open_catalog
from paimon_assets.spark.executor import SparkExecutor
from paimon_assets.spark.session.session import (
    SparkSettings,
    add_package,
    get_session,
    stop_session,
)

def where(batches):
    import paimon_assets
    import pyarrow as pa
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"path": [paimon_assets.__file__]})

settings = SparkSettings(
    master="local-cluster[2,1,512]",
    driver_memory="512m",
    extra={"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": sys.argv[3]},
)
session = get_session(settings)
add_package(session)
print(session.range(1).mapInArrow(where, "path string").collect()[0].path)

executor = SparkExecutor(session)
catalog = open_catalog(sys.argv[1])
catalog.create_database("db")
options = {"bucket": "3", "sequence.field": "second"}
columns = {"id": "BIGINT", "second": "BIGINT", "value": "BIGINT"}
table = catalog.create_table("db.t", Schema.of(columns, primary_keys=["id"], options=options))
rows = session.range(0, 60_000, 1, 6).selectExpr("id % 50 as id", "7L as second", "id as value")
table.new_write_builder().write(rows, executor)
print(sorted(table.new_read_builder().to_arrow(executor)["value"].to_pylist()))
stop_session()
"""


def test_order_is_kept_and_the_package_is_sent_to_executors_of_their_own(tmp_path):
    variables = {key: text for key, text in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), str(ROOT), JVM_OPTIONS],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env=variables,
        text=True,
        timeout=LONGEST_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    package, values = done.stdout.splitlines()
    assert "paimon_assets.zip" in package
    assert values == str(list(range(60_000 - 50, 60_000)))
