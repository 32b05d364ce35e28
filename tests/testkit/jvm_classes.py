"""Spark's classes as a JVM has them in memory: kept in a file once for a .venv, mapped by the next.

A JVM that loads Spark from its jars takes ten seconds of a core until it has answered two queries,
one with such an archive six. An archive fits the Java and the jars that it was made by; a JVM that
it does not fit loads from jars as ever.

Source: https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html
"""

import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pyarrow as pa

from tests.testkit.processes import JVM_OPTIONS, LONGEST_SECONDS

ROOT = Path(__file__).resolve().parents[2]
_OPTIONS = "SPARK_SUBMIT_OPTS"
_APPLICATION = "--application"


@cache
def archive() -> Path | None:
    """Return the path of the archive, made or not; None where Spark or Java is missing."""
    java = os.environ.get("JAVA_HOME") or shutil.which("java")
    try:
        spark = version("pyspark")
    except PackageNotFoundError:
        return None
    if java is None:
        return None
    made_by = f"{spark} {Path(java).resolve()} {JVM_OPTIONS}"
    return Path(sys.prefix) / f"spark-{sha256(made_by.encode()).hexdigest()[:16]}.jsa"


def sharing(options: str) -> str:
    """Return options of a JVM, and those by which it maps the archive, if there is one."""
    path = archive()
    if path is None or not path.exists():
        return options
    # Silent where it does not fit.
    return f"{options} -XX:SharedArchiveFile={path} -Xlog:disable"


def share_classes() -> None:
    """Let Sparks that this process or a child of it submits to map the archive, if there is one.

    Only beside `JVM_OPTIONS`: other options are the user's.
    """
    if os.environ.get(_OPTIONS) == JVM_OPTIONS:
        os.environ[_OPTIONS] = sharing(JVM_OPTIONS)


def begin_archive() -> "subprocess.Popen[bytes] | None":
    """Begin to make the archive in a process of its own, unless it is there or cannot be."""
    path = archive()
    if path is None or path.exists():
        return None
    return subprocess.Popen(
        [sys.executable, "-m", __name__],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def make_archive(path: Path) -> None:
    """Run the application on a JVM that keeps its classes when it ends.

    The application is Spark's child, not the other way round: only this function waits for it.
    """
    import pyspark

    from paimon_assets.spark.java import find_java

    spark = Path(pyspark.__file__).parent
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        made = Path(scratch) / "classes"
        environment = {
            **os.environ,
            "JAVA_HOME": str(find_java()),
            "SPARK_HOME": str(spark),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            _OPTIONS: f"{JVM_OPTIONS} -XX:ArchiveClassesAtExit={made} -Xlog:disable",
        }
        submit = [str(spark / "bin" / "spark-submit"), __file__, _APPLICATION]
        subprocess.run(submit, check=True, cwd=scratch, env=environment, timeout=LONGEST_SECONDS)
        made.replace(path)


def use_spark() -> None:
    """Let Spark load the classes of tests: plan, compute, exchange rows, read and write."""
    from paimon_assets.engine.spec.schema.schema import Schema
    from paimon_assets.engine.table.api import open_catalog
    from paimon_assets.spark.executor import SparkExecutor
    from paimon_assets.spark.session import SparkSettings, get_session

    session = get_session(SparkSettings(master="local[2]", driver_memory="1g"))
    catalog = open_catalog("warehouse")
    catalog.create_database("db")
    schema = Schema.of({"id": "BIGINT", "v": "STRING"}, primary_keys=["id"])
    table = catalog.create_table("db.t", schema)
    rows = pa.table({"id": [1, 2], "v": ["a", "b"]})
    table.new_write_builder().write(rows, SparkExecutor(session))
    frame = table.new_read_builder().to_spark(session)
    frame.join(session.range(9), "id").groupBy("v").count().orderBy("v").toArrow()
    frame.write.parquet("rows")
    session.read.parquet("rows").createOrReplaceTempView("rows")
    session.sql("SELECT id, row_number() OVER (ORDER BY id) FROM rows").collect()


if __name__ == "__main__":
    place = archive()
    if _APPLICATION in sys.argv:
        use_spark()
    elif place is not None:
        make_archive(place)
