"""A real Spark Connect server in a process of its own, on a port of the loopback address."""

import os
import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from paimon_assets.spark.java import find_java
from tests.testkit.processes import WORKER_START, end

ROOT = Path(__file__).resolve().parents[2]
_STARTED = re.compile(r"SparkConnectService' on port (\d+)")
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
    process = subprocess.Popen(
        command,
        cwd=home,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    log = iter(process.stderr or ())
    # A full pipe would stop the server.
    emptied = threading.Thread(target=deque, args=(log, 0), daemon=True)
    try:
        port = _port(log)
        emptied.start()
        yield f"sc://127.0.0.1:{port}"
    finally:
        end(process)
        if emptied.is_alive():
            emptied.join()
        if process.stderr is not None:
            process.stderr.close()


def _port(log: Iterator[str]) -> int:
    read = []
    for line in log:
        read.append(line)
        started = _STARTED.search(line)
        if started is not None:
            return int(started.group(1))
    raise RuntimeError(f"Spark Connect did not start: {''.join(read)[-2000:]}")
