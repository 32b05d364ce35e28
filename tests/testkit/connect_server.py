"""A real Spark Connect server in a process of its own, on a port of the loopback address."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from paimon_assets.spark.java import find_java
from tests.testkit.processes import WORKER_START, running

ROOT = Path(__file__).resolve().parents[2]
_STARTED = re.compile(r"SparkConnectService\$?' on port (\d+)")
_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_SETTINGS = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.master": "local[2]",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


@contextmanager
def connect_server(home: Path) -> Iterator[str]:
    """Run a server while the block runs, and give its address."""
    spark = Path(pyspark.__file__).parent
    settings = [part for item in _SETTINGS.items() for part in ("--conf", "=".join(item))]
    command = [str(spark / "bin" / "spark-submit"), *settings, "--class", _CLASS, "spark-internal"]
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java()),
        "SPARK_HOME": str(spark),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join((WORKER_START, str(ROOT))),
    }
    # The shell script becomes the JVM, so that ending the process ends the server.
    with running(command, home, environment, _STARTED) as started:
        yield f"sc://127.0.0.1:{started.group(1)}"
