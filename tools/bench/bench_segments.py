"""Importing a folder in place against copying it and against rewriting it; then reading it.

    python -m tools.bench.bench_segments [--files 2000] [--partitions 100] [--rows 1000] [--spark]

Reads are warmed: run once, then the median of three. Bytes are those that appear below the table's
directory. The rewrite is our own writer on what
pyarrow's dataset reads; `--spark` reads the folder by Spark's own reader, too.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Printed

from paimon_assets import EmbeddedExecutor, Schema, SegmentSource, Table, open_catalog

SCHEMA = Schema.of(
    {"id": "BIGINT", "qty": "INT", "price": "DOUBLE", "name": "STRING", "p": "INT"},
    partition_keys=["p"],
    options={"bucket": "-1"},
)


def build(folder: Path, files: int, partitions: int, rows: int) -> int:
    """Write the foreign files, as Spark lays them out; return their bytes."""
    draw = np.random.default_rng(7)
    total = 0
    for number in range(files):
        ids = np.arange(number * rows, (number + 1) * rows)
        data = pa.table(
            {
                "id": ids,
                "qty": draw.integers(0, 1000, rows).astype("int32"),
                "price": draw.random(rows),
                "name": pa.array(np.char.add("name-", (ids % 5000).astype(str))),
            }
        )
        path = folder / f"p={number % partitions}" / f"part-{number:05d}.snappy.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(data, path)
        total += path.stat().st_size
    return total


Taken = tuple[float, float]
"""Seconds, and seconds of the CPU in this process."""


def timed(work: Callable[[], Any]) -> tuple[Taken, Any]:
    """Return how long it took, and the result."""
    started, busy = time.perf_counter(), time.process_time()
    result = work()
    return (time.perf_counter() - started, time.process_time() - busy), result


def warmed(work: Callable[[], Any]) -> tuple[Taken, Any]:
    """Run once, then return the median of three more, and the result."""
    work()
    runs = [timed(work) for _ in range(3)]
    return sorted(taken for taken, _ in runs)[1], runs[0][1]


def bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def checksum(table: pa.Table) -> tuple[int, int]:
    """Return rows and the sum of their ids."""
    ids = table.column("id").to_numpy()
    return len(ids), int(ids.sum())


def rewrite(table: Table, folder: Path, executor: EmbeddedExecutor) -> None:
    scanner = ds.dataset(str(folder), format="parquet", partitioning="hive").scanner()
    table.new_write_builder().write(scanner.to_reader(), executor)


def spark_rows(folder: Path, executor: Any) -> tuple[int, int]:
    """Read a folder by Spark's own reader."""
    frame = executor.session.read.parquet(str(folder))
    row = frame.selectExpr("count(*)", "sum(id)", "sum(qty)", "sum(price)", "min(name)").first()
    return row[0], row[1]


def spark_table_rows(table: Table, executor: Any) -> tuple[int, int]:
    """Read an imported table by our Spark executor."""
    plan = table.new_read_builder().plan()
    frame = executor.to_dataframe(plan.context, plan.splits)
    row = frame.selectExpr("count(*)", "sum(id)", "sum(qty)", "sum(price)", "min(name)").first()
    return row[0], row[1]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench_segments")
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--rows", type=int, default=1000, help="of a file")
    parser.add_argument("--spark", action="store_true", help="also import and read by Spark")
    options = parser.parse_args(arguments)
    home = Path(tempfile.mkdtemp(prefix="bench-segments-"))
    printed = Printed("step", "seconds", "CPU", "per 1,000 files", "bytes written")

    def note(step: str, taken: Taken, written: int | None = None) -> None:
        seconds, busy = taken
        share = f"{seconds / options.files * 1000:.2f}"
        size = "" if written is None else f"{written:,}"
        printed.add_row(step, f"{seconds:.2f}", f"{busy:.2f}", share, size)

    try:
        folder = home / "foreign"
        size = build(folder, options.files, options.partitions, options.rows)
        _measure(home, folder, note, with_spark=options.spark)
    finally:
        shutil.rmtree(home)
    title = f"{options.files:,} files of {options.rows:,} rows, {size:,} bytes"
    Console().print(title)
    Console().print(printed)


def _measure(home: Path, folder: Path, note: Callable[..., None], *, with_spark: bool) -> None:
    catalog = open_catalog(str(home / "warehouse"))
    catalog.create_database("db")
    executor = EmbeddedExecutor()
    source = SegmentSource(path=str(folder), partition="p:int")
    imported = catalog.create_table("db.imported", SCHEMA)
    taken, _ = timed(lambda: imported.segments().add(source, executor))
    note("import", taken, bytes_below(Path(imported.path)))
    taken, _ = timed(lambda: shutil.copytree(folder, home / "copy"))
    note("copy", taken, bytes_below(home / "copy"))
    shutil.rmtree(home / "copy")
    rewritten = catalog.create_table("db.rewritten", SCHEMA)
    taken, _ = timed(lambda: rewrite(rewritten, folder, executor))
    note("rewrite", taken, bytes_below(Path(rewritten.path)))
    taken, ours = warmed(lambda: checksum(imported.new_read_builder().to_arrow(executor)))
    note("read all", taken)
    taken, theirs = warmed(
        lambda: checksum(ds.dataset(folder, format="parquet", partitioning="hive").to_table())
    )
    note("read all, pyarrow's dataset", taken)
    one = imported.new_read_builder().with_filter("p = 7 AND id < 100000")
    taken, _ = timed(lambda: one.to_arrow(executor))
    note("read one partition", taken)
    taken, _ = timed(lambda: imported.new_read_builder().plan())
    note("plan, comparing every file with its folder", taken)
    if ours != theirs:
        raise AssertionError(f"read {ours} instead of {theirs}")
    if with_spark:
        _measure_spark(catalog.create_table("db.by_spark", SCHEMA), source, folder, note)


def _measure_spark(
    table: Table, source: SegmentSource, folder: Path, note: Callable[..., None]
) -> None:
    from paimon_assets.spark.executor import SparkExecutor
    from paimon_assets.spark.session import SparkSettings, get_session, stop_session
    from paimon_assets.spark.shortcuts.native_read import NATIVE_READ

    executor = SparkExecutor(get_session(SparkSettings(master="local[2]", driver_memory="1g")))
    executor.session.range(10).count()
    taken, _ = timed(lambda: table.segments().add(source, executor))
    note("import, footers on Spark (first job)", taken)
    taken, theirs = warmed(lambda: spark_rows(folder, executor))
    note("read all, Spark's own reader", taken)
    taken, ours = warmed(lambda: spark_table_rows(table, executor))
    note("read all, our table on Spark", taken)
    executor.session.conf.set(NATIVE_READ, "false")
    taken, _ = warmed(lambda: spark_table_rows(table, executor))
    note("read all, our table on Spark by the engine", taken)
    stop_session()
    if ours != theirs:
        raise AssertionError(f"Spark read {ours} instead of {theirs}")


if __name__ == "__main__":
    main(sys.argv[1:])
