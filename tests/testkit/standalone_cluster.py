"""A standalone Spark cluster: a master and workers in processes of their own, on the loopback.

Nothing of this process's environment reaches them but Java: no package, no Python path.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from paimon_assets.spark.java import find_java
from tests.testkit.jvm_classes import sharing
from tests.testkit.processes import JVM_OPTIONS, running

_SPARK = Path(pyspark.__file__).parent
_HOST = "127.0.0.1"
_MASTER_IS_UP = re.compile(r"Starting Spark master at (spark://\S+)")
_WORKER_IS_UP = re.compile(r"Successfully registered with master")


@contextmanager
def standalone_cluster(home: Path, *, cores: int = 2, workers: int = 1) -> Iterator[str]:
    """Run a master and workers while the block runs, and give the master's address."""
    ports = ["--host", _HOST, "--port", "0", "--webui-port", "0"]
    work = ["--cores", str(cores), "--memory", f"{cores}g", "--work-dir", str(home / "work")]
    with _daemon(home, "master.Master", ports, _MASTER_IS_UP) as started:
        address = started.group(1)
        with ExitStack() as daemons:
            for _ in range(workers):
                worker = _daemon(home, "worker.Worker", [*ports, *work, address], _WORKER_IS_UP)
                daemons.enter_context(worker)
            yield address


@contextmanager
def _daemon(
    home: Path, name: str, arguments: list[str], is_up: re.Pattern[str]
) -> Iterator[re.Match[str]]:
    environment = {
        "JAVA_HOME": str(find_java()),
        "PATH": "/usr/bin:/bin",
        "SPARK_DAEMON_JAVA_OPTS": sharing(JVM_OPTIONS),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_HOME": str(_SPARK),
        "SPARK_LOCAL_IP": _HOST,
        "SPARK_SCALA_VERSION": "2.13",
    }
    # A shell script that becomes the JVM.
    command = [str(_SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with running(command, home, environment, is_up) as started:
        yield started
