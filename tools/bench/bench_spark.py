"""The Spark executor beside Spark's own Parquet reader and writer, on the same rows.

python -m tools.bench.bench_spark [--scale 0.1] [--repeat 3] [--cores 2]

The input of every write is the same DataFrame over Parquet files. Spark's write stores rows as they
come; ours of a primary-key table hashes, shuffles, sorts and merges them too. A read is consumed by
the same aggregate, which touches every column. An append table is read three ways: as a DataFrame
(Spark's own reader on our files), by the engine alone, and as `format("paimon_assets")`.

A merge brings a DataFrame into a table; Spark joins both and writes Parquet anew.

A micro-batch is one small file through Structured Streaming, into a table and into plain Parquet.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as papq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from rich.console import Console
from rich.table import Table as RichTable

from paimon_assets import Schema, SparkExecutor, TableCatalog, open_catalog
from paimon_assets.spark.dataframes.merge import merge_dataframe
from paimon_assets.spark.dataframes.tables import streaming_sink, write_dataframe
from paimon_assets.spark.session import SparkSettings, get_session, stop_session
from paimon_assets.spark.shortcuts.native_read import NATIVE_READ
from tools.bench.workload import TABLES, UPSERTS, load_input

INPUTS = Path(__file__).resolve().parents[2] / ".bench" / "input"
INPUT_FILES = 4
"""Parquet files of an input, so that Spark reads it with all cores."""
MERGE_ROWS = 1_000_000
"""Of the table that is merged into."""
MICRO_BATCHES, MICRO_BATCH_ROWS = 12, 10_000
"""Of the streaming step; the median counts, without the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line of the report: our work, and Spark's beside it."""

    name: str
    rows: int
    seconds: float
    spark_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    session: SparkSession
    catalog: TableCatalog
    home: Path
    repeat: int

    @property
    def executor(self) -> SparkExecutor:
        return SparkExecutor(self.session)

    def frame(self, kind: str, scale: float) -> tuple[DataFrame, int]:
        """Return an input as a DataFrame over Parquet files, and its row count."""
        path = self.home / f"input-{kind}"
        rows = load_input(kind, scale, INPUTS)
        if not path.exists():
            path.mkdir()
            size = -(-rows.num_rows // INPUT_FILES)
            for number in range(INPUT_FILES):
                part = rows.slice(number * size, size)
                papq.write_table(part, path / f"{number}.parquet", compression="zstd")
        return self.session.read.parquet(str(path)), rows.num_rows

    def native_write(self, frame: DataFrame) -> None:
        """Write with Spark's own Parquet writer and the table's codec."""
        frame.write.mode("overwrite").option("compression", "zstd").parquet(str(self.native_path))

    @property
    def native_path(self) -> Path:
        """Where Spark's own files lie."""
        return self.home / "native"


def consume(frame: DataFrame) -> tuple[Any, ...]:
    """Compute every row and column of a DataFrame; the answer compares two of them."""
    hashes = [fn.sum(fn.hash(column).cast("bigint")) for column in frame.columns]
    return tuple(frame.agg(fn.count("*"), *hashes).collect()[0])


def timed(work: Callable[[], Any], repeat: int) -> float:
    """Return the median seconds of some runs."""
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def _new_table(bench: Bench, kind: str) -> None:
    declared = TABLES[kind]
    schema = Schema.of(
        declared.columns, primary_keys=declared.primary_keys, options=declared.options
    )
    bench.catalog.drop_table(f"db.{kind}", ignore_if_missing=True)
    bench.catalog.create_table(f"db.{kind}", schema)


def _write(bench: Bench, kind: str, frame: DataFrame) -> None:
    bench.catalog.get_table(f"db.{kind}").new_write_builder().write(frame, bench.executor)


def _frame_of(bench: Bench, kind: str) -> DataFrame:
    plan = bench.catalog.get_table(f"db.{kind}").new_read_builder().plan()
    return bench.executor.to_dataframe(plan.context, plan.splits)


def _write_step(bench: Bench, name: str, kind: str, source: str, scale: float) -> Step:
    frame, rows = bench.frame(source, scale)

    def ours() -> None:
        _new_table(bench, kind)
        _write(bench, kind, frame)

    seconds = timed(ours, bench.repeat)
    spark_seconds = timed(lambda: bench.native_write(frame), bench.repeat)
    return Step(name=name, rows=rows, seconds=seconds, spark_seconds=spark_seconds)


def _read_step(
    bench: Bench, name: str, rows: int, frame: Callable[[], DataFrame], column: str = "*"
) -> Step:
    """Read what the native write before wrote, and the same columns of ours."""

    def ours() -> tuple[Any, ...]:
        return consume(frame().select(column))

    def spark() -> tuple[Any, ...]:
        return consume(bench.session.read.parquet(str(bench.native_path)).select(column))

    if ours() != spark():
        raise RuntimeError(f"{name}: our rows differ from those of Spark")
    return Step(
        name=name,
        rows=rows,
        seconds=timed(ours, bench.repeat),
        spark_seconds=timed(spark, bench.repeat),
    )


def _append_read_steps(bench: Bench, rows: int) -> list[Step]:
    def frame() -> DataFrame:
        return _frame_of(bench, "append")

    def formatted() -> DataFrame:
        path = bench.catalog.get_table("db.append").path
        return bench.session.read.format("paimon_assets").load(path)

    steps = [
        _read_step(bench, "append read", rows, frame),
        _read_step(bench, "append read, one column", rows, frame, "id"),
        _read_step(bench, "append read, format", rows, formatted),
    ]
    bench.session.conf.set(NATIVE_READ, "false")
    steps.append(_read_step(bench, "append read, engine", rows, frame))
    bench.session.conf.unset(NATIVE_READ)
    return steps


def _stream_step(bench: Bench) -> Step:
    """Run the same micro-batches into a table and into Parquet; seconds of one batch."""
    session, source = bench.session, bench.home / "stream"
    columns = "id, id % 100 as k, cast(id as string) as name"
    batches = session.range(MICRO_BATCHES * MICRO_BATCH_ROWS).selectExpr(*columns.split(", "))
    batches.repartition(MICRO_BATCHES).write.parquet(str(source))
    declared = Schema.of(
        {"id": "BIGINT", "k": "BIGINT", "name": "STRING"},
        primary_keys=["id"],
        options={"bucket": "1"},
    )
    table = bench.catalog.create_table("db.stream", declared)

    def seconds(name: str, started: Callable[[Any], Any]) -> float:
        rows = session.readStream.schema(batches.schema).option("maxFilesPerTrigger", 1)
        writer = rows.parquet(str(source)).writeStream.trigger(availableNow=True)
        query = started(writer.option("checkpointLocation", str(bench.home / f"{name}.checkpoint")))
        query.awaitTermination()
        taken = [progress.durationMs["triggerExecution"] for progress in query.recentProgress]
        return float(statistics.median(taken[1:])) / 1000

    target = str(bench.home / "stream.parquet")
    return Step(
        name="upsert micro-batch, 1 bucket",
        rows=MICRO_BATCH_ROWS,
        seconds=seconds("ours", lambda writer: writer.foreachBatch(streaming_sink(table)).start()),
        spark_seconds=seconds("parquet", lambda writer: writer.format("parquet").start(target)),
    )


def _upsert_step(bench: Bench, number: int, scale: float) -> Step:
    frame, rows = bench.frame(f"pk{number}", scale)
    return Step(
        name=f"upsert {number}",
        rows=rows,
        seconds=timed(lambda: _write(bench, "pk", frame), 1),
        spark_seconds=timed(lambda: bench.native_write(frame), 1),
    )


def _merge_step(bench: Bench, scale: float) -> Step:
    """Merge a DataFrame, half of whose rows match a tenth of a table; Spark writes all anew."""
    session, rows = bench.session, int(MERGE_ROWS * scale)
    paths = [str(bench.home / name) for name in ("merge-target", "merge-source")]
    for path, ids in zip(paths, (session.range(rows), session.range(0, 2 * rows, 10)), strict=True):
        ids.selectExpr("id", "id % 1000 as k", "cast(id as string) as name").write.parquet(path)
    target, source = (session.read.parquet(path) for path in paths)
    declared = Schema.of({"id": "BIGINT", "k": "BIGINT", "name": "STRING"})
    table = bench.catalog.create_table("db.merged", declared)
    write_dataframe(table, target)
    both = target.join(source, "id", "full_outer")
    chosen = (fn.coalesce(source[name], target[name]).alias(name) for name in ("k", "name"))
    overwritten = both.select("id", *chosen)
    return Step(
        name="merge, source a fifth",
        rows=rows,
        seconds=timed(lambda: merge_dataframe(table, source, on=["id"]), 1),
        spark_seconds=timed(lambda: bench.native_write(overwritten), 1),
    )


def measure(bench: Bench, scale: float) -> list[Step]:
    """Run all steps; each native read reads what the native write before it wrote."""
    steps = [_write_step(bench, "append write", "append", "append", scale)]
    steps.extend(_append_read_steps(bench, steps[-1].rows))
    steps.append(_write_step(bench, "primary-key write", "pk", "pk0", scale))
    rows = steps[-1].rows
    steps.append(
        _read_step(bench, "primary-key read, one run", rows, lambda: _frame_of(bench, "pk"))
    )
    steps.extend(_upsert_step(bench, number, scale) for number in range(1, UPSERTS + 1))
    merged = _frame_of(bench, "pk")
    bench.native_write(merged)
    rows = merged.count()
    steps.append(_read_step(bench, "merged read, four runs", rows, lambda: _frame_of(bench, "pk")))
    steps.append(_merge_step(bench, scale))
    steps.append(_stream_step(bench))
    return steps


def first_python_stage(session: SparkSession) -> float:
    """Run the first job that needs Python workers, and return its seconds."""
    start = time.perf_counter()
    consume(session.range(1000).mapInArrow(lambda batches: batches, "id long"))
    return time.perf_counter() - start


def print_steps(console: Console, steps: list[Step]) -> None:
    table = RichTable("step", "rows", "ours s", "Spark Parquet s", "ratio", "M rows/s")
    for step in steps:
        table.add_row(
            step.name,
            f"{step.rows:,}",
            f"{step.seconds:.2f}",
            f"{step.spark_seconds:.2f}",
            f"{step.seconds / step.spark_seconds:.2f}",
            f"{step.rows / step.seconds / 1e6:.2f}",
        )
    console.print(table)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; never judges."""
    parser = argparse.ArgumentParser(prog="bench_spark")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of all row counts")
    parser.add_argument("--repeat", type=int, default=3, help="runs of a step; the median counts")
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args(arguments or [])
    home = Path(tempfile.mkdtemp(prefix="bench-spark-"))
    start = time.perf_counter()
    session = get_session(SparkSettings(master=f"local[{options.cores}]", driver_memory="3g"))
    session_seconds = time.perf_counter() - start
    try:
        catalog = open_catalog(str(home / "warehouse"))
        catalog.create_database("db")
        bench = Bench(session=session, catalog=catalog, home=home, repeat=options.repeat)
        console = Console(width=110)
        console.print(
            f"Spark {session.version}, local[{options.cores}], median of {options.repeat}"
        )
        console.print(f"session start {session_seconds:.1f} s")
        console.print(f"first Python stage {first_python_stage(session):.1f} s")
        print_steps(console, measure(bench, options.scale))
    finally:
        stop_session()
        shutil.rmtree(home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
