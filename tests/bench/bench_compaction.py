"""Full compaction of overlapping runs, against only decoding and encoding the same rows.

    python tests/bench/bench_compaction.py [rows, default 2000000] [--buckets 1] [--spark]

A primary-key table gets eight upserts of random keys, so that every run overlaps all others and
about half of the rows is left. Three things are timed on copies of it: pyarrow alone decodes every
file and encodes as many rows as a compaction leaves (the floor), the compaction in this process,
and, if asked, on Spark local[2]. Then reads before and after. Prints medians; the data is seeded.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.spec.schema import Schema
from paimon_assets.engine.table.api import open_catalog, open_table
from paimon_assets.engine.table.table import Table

COLUMNS = {
    "id": "BIGINT",
    "k": "INT",
    "name": "STRING",
    "cat": "STRING",
    "price": "DOUBLE",
    "qty": "INT",
    "ts": "TIMESTAMP(6)",
}
RUNS = 8


def upsert(keys: int, count: int, seed: int) -> pa.Table:
    """Rows of unique random keys below `keys`."""
    random = np.random.default_rng(seed)
    ids = random.choice(keys, count, replace=False)
    return pa.table(
        {
            "id": ids,
            "k": random.integers(0, 1_000_000, count, dtype=np.int32),
            "name": np.char.add("user_", (ids * 2654435761 % 10**11).astype("U11")),
            "cat": np.array(["alpha", "beta", "gamma", "delta"])[random.integers(0, 4, count)],
            "price": random.random(count) * 1000,
            "qty": random.integers(1, 100, count, dtype=np.int32),
            "ts": pa.array(
                1_700_000_000_000_000 + random.integers(0, 10**13, count), pa.timestamp("us")
            ),
        }
    )


def decode_and_encode(table: Table, left_rows: int, target: Path) -> None:
    """Read every file, and write as many rows as a compaction leaves, by pyarrow alone."""
    writer: pq.ParquetWriter | None = None
    left = left_rows
    for entry in table.live_files():
        read = pq.read_table(table.file_path(entry))
        if writer is None:
            writer = pq.ParquetWriter(
                target,
                read.schema,
                compression="zstd",
                compression_level=1,
                use_dictionary=["cat"],  # type: ignore[arg-type]  # a list
            )
        writer.write_table(read.slice(0, max(0, left)), row_group_size=131_072)
        left -= read.num_rows
    if writer is not None:
        writer.close()


Seconds = tuple[float, float]
"""Wall clock, and CPU of this process."""


def timed(work: Callable[[], Any]) -> Seconds:
    started, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - started, time.process_time() - used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, nargs="?", default=2_000_000)
    parser.add_argument("--buckets", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--spark", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        measure(options, Path(directory))


def measure(options: argparse.Namespace, home: Path) -> None:
    embedded = EmbeddedExecutor()
    schema = Schema.of(COLUMNS, primary_keys=["id"], options={"bucket": str(options.buckets)})
    catalog = open_catalog(str(home))
    catalog.create_database("db")
    table = catalog.create_table("db.original", schema)
    for number in range(RUNS):
        rows = upsert(options.rows * 6 // 10, options.rows // RUNS, number)
        table.new_write_builder().write(rows, embedded)
    files = [entry.file for entry in table.live_files()]
    size = sum(file.file_size for file in files)
    before, _ = timed(lambda: table.new_read_builder().to_arrow())
    left = table.new_read_builder().with_columns(["id"]).to_arrow().num_rows
    print(f"{sum(f.row_count for f in files):,} rows in {len(files)} files, {size:,} bytes")

    def compacted(executor: Any) -> Seconds:
        copy = home / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(table.path, copy)
        builder = open_table(str(copy)).new_compaction_builder().with_strategy("full")
        return timed(lambda: builder.run(executor))

    executors: dict[str, Any] = {"embedded": embedded}
    if options.spark:
        started = time.perf_counter()
        executors["spark local[2]"] = spark_executor()
        session = time.perf_counter() - started
        first, _ = compacted(executors["spark local[2]"])  # workers start, and load the engine
        print(f"spark: session {session:.2f} s, first compaction {first:.2f} s, not counted below")
    floor = median(
        [
            timed(lambda: decode_and_encode(table, left, home / "plain.parquet"))
            for _ in range(options.repeat)
        ]
    )
    report("pyarrow decode + encode", floor, options.rows, size, floor)
    for name, executor in executors.items():
        seconds = median([compacted(executor) for _ in range(options.repeat)])
        report(f"full compaction, {name}", seconds, options.rows, size, floor)
    after, _ = timed(lambda: open_table(str(home / "copy")).new_read_builder().to_arrow())
    print(f"read before {before:.2f} s, after {after:.2f} s; {left:,} rows")


def median(runs: list[Seconds]) -> Seconds:
    return statistics.median(wall for wall, _ in runs), statistics.median(cpu for _, cpu in runs)


def report(name: str, seconds: Seconds, rows: int, size: int, floor: Seconds) -> None:
    wall, cpu = seconds
    print(
        f"{name:32} {wall:6.2f} s ({cpu:5.2f} CPU)  {rows / wall / 1e6:5.2f} M rows/s"
        f"  {size / wall / 1e6:6.1f} MB/s  {100 * floor[0] / wall:4.0f} % of the floor"
    )


def spark_executor() -> Any:
    from paimon_assets.spark.executor import SparkExecutor
    from paimon_assets.spark.session import SparkSettings, get_session

    session = get_session(SparkSettings(master="local[2]", app_name="bench", driver_memory="1g"))
    executor = SparkExecutor(session)
    session.range(1).collect()
    return executor


if __name__ == "__main__":
    main()
