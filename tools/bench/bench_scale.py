"""A primary-key table on a standalone cluster: what a row costs when there are ten times as many.

python -m tools.bench.bench_scale [--rows 1 10 100] [--buckets 64] [--home DIRECTORY]

Two workers with one core each, on this machine. Rows are counted in millions; the first number is
there to warm up. Each table is written, a tenth of its keys is written again, it is read merged,
compacted and read again. Seconds of CPU are of all processes, so that other work on the machine
hardly shows; memory is the most that was seen twice a second, without what processes share.
"""

import argparse
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from rich.console import Console
from rich.table import Table as RichTable

from paimon_assets import Schema, SparkExecutor, Table, open_catalog
from paimon_assets.spark.dataframes.tables import to_spark, write_dataframe
from paimon_assets.spark.session import SparkSettings, get_session, stop_session
from tests.testkit.standalone_cluster import standalone_cluster
from tools.bench.bench_connector import cpu_seconds
from tools.bench.bench_spark import consume

MILLION = 1_000_000
COLUMNS = {
    "id": "BIGINT NOT NULL",
    "k": "INT",
    "name": "STRING",
    "price": "DOUBLE",
    "ts": "TIMESTAMP(6)",
    "amount": "DECIMAL(12, 2)",
}
_KINDS = {
    "CoarseGrainedExecutorBackend": "executor JVM",
    "pyspark.daemon": "Python of a worker",
    "deploy.SparkSubmit": "driver JVM",
}
_SECONDS_BETWEEN = 0.5


@dataclass(kw_only=True)
class Peaks:
    """The most memory of each kind of process, in MB; of workers' Python, of one executor's."""

    mb: dict[str, float] = field(default_factory=dict)

    def look(self) -> None:
        totals: dict[tuple[str, int], float] = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                command = (entry / "cmdline").read_text()
                kind = next((kind for part, kind in _KINDS.items() if part in command), None)
                if entry.name == str(os.getpid()):
                    kind = "driver Python"
                if kind is None:
                    continue
                # All of an executor's Python is one session of processes.
                session = int((entry / "stat").read_text().rpartition(")")[2].split()[2])
                rollup = (entry / "smaps_rollup").read_text().split()
            except OSError:  # it has ended
                continue
            key = (kind, session if kind == "Python of a worker" else int(entry.name))
            totals[key] = totals.get(key, 0) + int(rollup[rollup.index("Pss:") + 1]) / 1000
        for (kind, _), size in totals.items():
            self.mb[kind] = max(self.mb.get(kind, 0), size)


@contextmanager
def watching(peaks: Peaks) -> Iterator[None]:
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_SECONDS_BETWEEN):
            peaks.look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def rows_of(session: SparkSession, count: int, step: int) -> DataFrame:
    """Return rows of the keys 0, step, 2 · step, … below count."""
    key = fn.col("id")
    return session.range(0, count, step, 16).select(
        key,
        (fn.xxhash64(key) % 1000).cast("int").alias("k"),
        fn.concat(fn.lit("name "), fn.pmod(fn.xxhash64(key), fn.lit(100_000))).alias("name"),
        (fn.rand(step) * 1000).alias("price"),
        fn.timestamp_micros(key * 1_000_003).cast("timestamp_ntz").alias("ts"),
        (fn.pmod(fn.xxhash64(key), fn.lit(1_000_000)) / 100).cast("decimal(12, 2)").alias("amount"),
    )


def steps(table: Table, session: SparkSession, rows: int) -> dict[str, Callable[[], Any]]:
    """Return what is measured, in order; each takes the table as the one before left it."""

    def read() -> Any:
        return consume(to_spark(table.refresh().new_read_builder(), session))

    def compact() -> Any:
        builder = table.refresh().new_compaction_builder().with_strategy("full")
        return builder.run(SparkExecutor(session))

    return {
        "write": lambda: write_dataframe(table, rows_of(session, rows, 1)),
        "upsert of a tenth": lambda: write_dataframe(table.refresh(), rows_of(session, rows, 10)),
        "read, merged": read,
        "compaction": compact,
        "read, compacted": read,
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; never judges."""
    parser = argparse.ArgumentParser(prog="bench_scale")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 10, 100], help="millions")
    parser.add_argument("--buckets", type=int, default=64)
    parser.add_argument("--home", type=Path, help="an existing directory for all files")
    options = parser.parse_args(arguments or [])
    home = Path(tempfile.mkdtemp(prefix="bench-scale-", dir=options.home))
    printed = RichTable("M rows", "step", "s", "CPU s", "CPU µs a row", "MB of memory")
    try:
        with standalone_cluster(home, cores=1, workers=2) as master:
            extra = {
                "spark.executor.memory": "1g",
                "spark.local.dir": str(home / "spark"),
                "spark.ui.enabled": "false",
            }
            settings = SparkSettings(master=master, driver_memory="512m", extra=extra)
            session = get_session(settings)
            catalog = open_catalog(str(home / "warehouse"))
            catalog.create_database("db")
            keyed = {"bucket": str(options.buckets), "write-only": "true"}
            schema = Schema.of(COLUMNS, primary_keys=["id"], options=keyed)
            for millions in options.rows:
                name, rows = f"db.t{millions}", millions * MILLION
                table = catalog.create_table(name, schema)
                for step, work in steps(table, session, rows).items():
                    peaks, cpu, start = Peaks(), cpu_seconds(), time.perf_counter()
                    with watching(peaks):
                        work()
                    wall, spent = time.perf_counter() - start, cpu_seconds() - cpu
                    memory = ", ".join(f"{kind} {mb:.0f}" for kind, mb in sorted(peaks.mb.items()))
                    counted = rows // 10 if step.startswith("upsert") else rows
                    figures = (f"{wall:.1f}", f"{spent:.1f}", f"{spent / counted * MILLION:.2f}")
                    printed.add_row(str(millions), step, *figures, memory)
                    sys.stderr.write(f"{millions} M, {step}: {' | '.join(figures)} | {memory}\n")
                catalog.drop_table(name)
            stop_session()
    finally:
        shutil.rmtree(home, ignore_errors=True)
    Console(width=150).print(printed)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
