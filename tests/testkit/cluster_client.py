"""A process with a session on a standalone cluster; run by `test_cluster`.

python -m tests.testkit.cluster_client MASTER HOME
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from paimon_assets import PaimonError, Schema, SparkExecutor, open_catalog
from paimon_assets.spark.preflight import _Known, check_workers
from paimon_assets.spark.session import SparkSettings, get_session, stop_session
from tests.testkit.job_names import names_of_jobs
from tests.testkit.jvm_classes import sharing
from tests.testkit.packed_environment import base_interpreter, pack_environment
from tests.testkit.processes import JVM_OPTIONS

SCHEMA = Schema.of(
    {"id": "BIGINT", "second": "BIGINT", "value": "BIGINT"},
    primary_keys=["id"],
    options={"bucket": "3", "sequence.field": "second"},
)


def worker_of(session: Any) -> list[str]:
    """Return the interpreter of a worker, and where it has the package from."""

    def where(batches):
        import pyarrow as pa

        import paimon_assets

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"a": [sys.executable], "b": [paimon_assets.__file__]})

    return list(session.range(1).mapInArrow(where, "a string, b string").collect()[0])


def refusal(session: Any, work: Any, **context: str) -> dict[str, Any]:
    """Return the error of workers that are refused, with a context that differs for it."""
    spark = session.sparkContext
    before = {name: getattr(spark, name) for name in context}
    _Known.ready.clear()
    for name, value in context.items():
        setattr(spark, name, value)
    try:
        work()
    except PaimonError as error:
        return {"kind": error.kind, "message": error.message}
    finally:
        for name, value in before.items():
            setattr(spark, name, value)
        _Known.ready.clear()
    return {}


def main(master: str, home: Path) -> None:
    """Do all steps in one session; print the results as JSON."""
    archive = home / "environment.tar.gz"
    pack_environment(archive)
    os.environ["PYSPARK_PYTHON"] = "./environment/bin/python"
    session = get_session(
        SparkSettings(
            master=master,
            driver_memory="512m",
            extra={
                "spark.archives": f"{archive}#environment",
                "spark.executor.cores": "1",
                "spark.executor.memory": "512m",
                "spark.executor.extraJavaOptions": sharing(JVM_OPTIONS),
                "spark.sql.codegen.wholeStage": "false",
            },
        )
    )
    executor = SparkExecutor(session)
    catalog = open_catalog(str(home / "warehouse"))
    catalog.create_database("db")
    table = catalog.create_table("db.t", SCHEMA)
    rows = session.range(0, 60_000, 1, 6).selectExpr("id % 50 as id", "7L as second", "id as value")
    table.new_write_builder().write(rows, executor)
    read = table.new_read_builder().to_arrow(executor)
    outcome: dict[str, Any] = {
        "worker": worker_of(session),
        "values": sorted(read.column("value").to_numpy().tolist()),
        "pages": session.sparkContext.uiWebUrl,
        "jobs": names_of_jobs(session),
    }
    memory = open_catalog("memory://nowhere")
    memory.create_database("db")
    unseen = memory.create_table("db.t", SCHEMA).new_write_builder()

    def check() -> None:
        check_workers(session)

    outcome["refused"] = {
        "no_python": refusal(session, check, pythonExec="/nowhere/bin/python"),
        "no_packages": refusal(session, check, pythonExec=base_interpreter()),
        "other_version": refusal(session, check, pythonVer="3.1"),
        "storage": refusal(session, lambda: unseen.write(rows, executor)),
    }
    stop_session()
    sys.stdout.write(json.dumps(outcome))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
