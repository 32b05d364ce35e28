"""A standalone cluster of two workers, one of which loses its executor again and again.

    python -m tools.bench.cluster_kills DATA [--seconds 20] [--demo-every 50]

The warehouse is on an S3 server behind 30 ms. DATA is that of bench_tpcds, small (scale 0.01). Runs
the demo, an append of computed columns, four writes of a key table and their compaction, and TPC-DS
1 to 10 over keyed tables. Ends with an error unless every answer is right.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sized
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from jobs.demo.s3_server import ROOT
from paimon_assets import Schema, Table, TableCatalog, open_catalog
from paimon_assets.engine.spec.options.catalog_options import VARIABLES
from paimon_assets.spark.dataframes.tables import to_spark, write_dataframe
from paimon_assets.spark.executor import SparkExecutor
from paimon_assets.spark.session import SparkSettings, get_session, stop_session
from tests.testkit.standalone_cluster import standalone_cluster
from tools.bench import bench_tpcds
from tools.bench.slow_s3 import BUCKET, slow_s3

_ROWS = 2_000_000
_STEP = 100_000
_MILLIS = 30
_SETTINGS = {
    "spark.executor.cores": "1",
    "spark.executor.memory": "1g",
    "spark.paimon_assets.readHere": "0",
}


def children(parent: int, name: str) -> list[int]:
    """Return the processes that a process started, whose command has a name in it."""
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(parent)],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = (line.split(maxsplit=1) for line in listed.stdout.splitlines())
    return [int(number) for number, command in lines if name in command]


def kill_executors(worker: int, seconds: float, ended: threading.Event, killed: list[int]) -> None:
    """Kill the executors of a worker, again and again."""
    while not ended.wait(seconds):
        for number in children(worker, "CoarseGrainedExecutorBackend"):
            os.kill(number, signal.SIGKILL)
            killed.append(number)


def check(label: str, answer: object, expected: object) -> None:
    if answer != expected:
        sys.exit(f"{label}: {str(answer)[:300]} and not {str(expected)[:300]}")


def frame_of(session: SparkSession, table: Table) -> DataFrame:
    return to_spark(table.refresh().new_read_builder(), session)


def append(session: SparkSession, catalog: TableCatalog) -> None:
    columns = {"id": "BIGINT", "text": "STRING", "price": "DECIMAL(12, 2)"}
    table = catalog.create_table("db.appended", Schema.of(columns))
    texts = ("id", "concat('row ', id) AS text", "CAST(id / 7 AS DECIMAL(12, 2)) AS price")
    rows = session.range(0, _ROWS, 1, 8).selectExpr(*texts)
    write_dataframe(table, rows)
    sums = ("count(*)", "sum(hash(id, text, price))")
    check(
        "append",
        frame_of(session, table).selectExpr(*sums).collect(),
        rows.selectExpr(*sums).collect(),
    )


def compact(session: SparkSession, catalog: TableCatalog) -> None:
    columns = {"id": "BIGINT NOT NULL", "value": "BIGINT"}
    options = {"bucket": "4", "write-only": "true"}
    table = catalog.create_table(
        "db.upserted", Schema.of(columns, primary_keys=["id"], options=options)
    )
    for number in range(4):
        ids = session.range(number * _STEP, (number + 2) * _STEP, 1, 4)
        write_dataframe(table, ids.selectExpr("id", f"id * 10 + {number} AS value"))
    newest = f"sum(id * 10 + least(id div {_STEP}, 3))"
    expected = session.range(5 * _STEP).selectExpr("count(*)", newest).collect()
    for label in ("four writes", "compaction"):
        check(
            label, frame_of(session, table).selectExpr("count(*)", "sum(value)").collect(), expected
        )
        table.refresh().new_compaction_builder().with_strategy("full").run(SparkExecutor(session))


def query(data: Path, session: SparkSession, catalog: TableCatalog) -> None:
    bench_tpcds.load(catalog, session, data, "keyed")
    texts = json.loads((data / "queries.json").read_text(encoding="utf-8"))
    run = bench_tpcds.runners(session, catalog, data, ["parquet", "keyed"])
    for number in range(1, 11):
        text = texts[str(number)].rstrip().rstrip(";")
        expected, answer = (bench_tpcds.answer(run[side](text)) for side in ("parquet", "keyed"))
        check(f"query {number}", answer, expected)
        print(f"query {number}: {len(answer)} rows", flush=True)


def run_demo(master: str, options: dict[str, str], home: Path, every: str) -> None:
    environment = {
        **os.environ,
        **{VARIABLES[key]: value for key, value in options.items()},
        "PAIMON_DEMO_HOME": str(home / "demo"),
        "PAIMON_DEMO_STORE": f"s3://{BUCKET}/landing",
        "PAIMON_WAREHOUSE": f"s3://{BUCKET}/demo",
        "SPARK_MASTER": master,
        "SPARK_SETTINGS": " ".join(f"{key}={value}" for key, value in _SETTINGS.items()),
    }
    command = [sys.executable, "-m", "jobs.demo.run", "--every", every]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)


def run_step(label: str, killed: Sized, step: Callable[[], None]) -> None:
    """Run a step, and print its seconds and how many executors were killed."""
    start, before = time.perf_counter(), len(killed)
    step()
    took = time.perf_counter() - start
    print(f"{label}: {took:.0f} s, {len(killed) - before} executors killed", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seconds", type=float, default=20, help="from kill to kill")
    parser.add_argument("--demo-every", default="50", help="takes every n-th flight")
    steps = ["demo", "append", "compaction", "TPC-DS"]
    parser.add_argument("--steps", nargs="*", choices=steps, default=steps)
    chosen = parser.parse_args()
    home, killed, ended = Path(tempfile.mkdtemp(prefix="cluster-")), list[int](), threading.Event()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with slow_s3(_MILLIS) as options, standalone_cluster(home, cores=1, workers=2) as master:
        worker = children(os.getpid(), "worker.Worker")[0]
        killer = threading.Thread(
            target=kill_executors, args=(worker, chosen.seconds, ended, killed)
        )
        killer.start()
        try:
            if "demo" in chosen.steps:
                run_step("demo", killed, lambda: run_demo(master, options, home, chosen.demo_every))
            session = get_session(SparkSettings(master=master, extra=_SETTINGS))
            catalog = open_catalog(f"s3://{BUCKET}/warehouse", options=options)
            catalog.create_database("db")
            step_of: dict[str, Callable[[SparkSession, TableCatalog], None]] = {
                "append": append,
                "compaction": compact,
                "TPC-DS": partial(query, chosen.data),
            }
            for label in (each for each in chosen.steps if each in step_of):
                run_step(label, killed, partial(step_of[label], session, catalog))
        finally:
            ended.set()
            killer.join()
            stop_session()


if __name__ == "__main__":
    main()
