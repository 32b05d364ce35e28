"""Full compaction of overlapping runs, against only decoding and encoding the same rows.

    python -m tools.bench.bench_compaction [rows, default 2000000] [--buckets 1] [--spark] [--java]
    python -m tools.bench.bench_compaction --upserts [--scale 1.0] [--java]

A primary-key table gets eight upserts of random keys, so that every run overlaps all other runs and
about half of the rows is left. These are timed on copies of it: pyarrow alone decodes every file
and encodes as many rows as a compaction leaves (the floor), the compaction in this process, and, if
asked, on Spark local[2] and by Java Paimon (`make interop-java` fetches it). Java's seconds are
those inside its process; the first compaction is printed alone: later ones find warm code.
Then reads before and after. Prints medians; the data is seeded.

`--upserts` takes the table of `make bench` instead: two million rows in two buckets and three
upserts of half a million each, 2.3 million keys.
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

from paimon_assets import EmbeddedExecutor, Schema, Table, open_catalog, open_table
from tests.interop.environment import HOME, ROOT, java_peer
from tests.testkit.oracle import Oracle
from tools.bench.workload import COLUMNS, TABLES, UPSERTS, columns_of, load_input

RUNS = 8


def upsert(keys: int, count: int, seed: int) -> pa.Table:
    """Rows of unique random keys below `keys`."""
    ids = np.random.default_rng(seed).choice(keys, count, replace=False)
    return columns_of(ids, seed)


def decode_and_encode(table: Table, left_rows: int, target: Path) -> None:
    """Read every file, and write as many rows as a compaction leaves, by pyarrow alone."""
    writer: pq.ParquetWriter | None = None
    left = left_rows
    for entry in table.state.live_files():
        read = pq.read_table(table.state.file_path(entry))
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


def time_work(work: Callable[[], Any]) -> Seconds:
    started, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - started, time.process_time() - used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, nargs="?", default=2_000_000)
    parser.add_argument("--buckets", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--java", action="store_true", help="needs .interop-venv and a JDK")
    parser.add_argument("--upserts", action="store_true", help="the table of `make bench`")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of its row counts")
    options = parser.parse_args()
    if options.java and not HOME.exists():
        parser.error("Java Paimon is absent; `make interop-java` fetches it")
    with tempfile.TemporaryDirectory() as directory:
        measure(options, Path(directory))


def random_runs(home: Path, rows: int, buckets: int) -> Table:
    schema = Schema.of(COLUMNS, primary_keys=["id"], options={"bucket": str(buckets)})
    table = open_catalog(str(home)).create_table("db.original", schema)
    for number in range(RUNS):
        drawn = upsert(rows * 6 // 10, rows // RUNS, number)
        table.new_write_builder().write(drawn, EmbeddedExecutor())
    return table


def upsert_table(home: Path, scale: float) -> Table:
    """Return the primary-key table of `make bench`."""
    declared = TABLES["pk"]
    schema = Schema.of(
        declared.columns, primary_keys=declared.primary_keys, options=declared.options
    )
    table = open_catalog(str(home)).create_table("db.original", schema)
    for number in range(UPSERTS + 1):
        rows = load_input(f"pk{number}", scale, home / "input")
        table.new_write_builder().write(rows, EmbeddedExecutor())
    return table


def measure(options: argparse.Namespace, home: Path) -> None:
    open_catalog(str(home)).create_database("db")
    if options.upserts:
        table = upsert_table(home, options.scale)
    else:
        table = random_runs(home, options.rows, options.buckets)
    files = [entry.file for entry in table.state.live_files()]
    size, rows = sum(file.file_size for file in files), sum(file.row_count for file in files)
    before, _ = time_work(lambda: table.new_read_builder().to_arrow())
    left = table.new_read_builder().with_columns(["id"]).to_arrow().num_rows
    print(f"{rows:,} rows in {len(files)} files, {size:,} bytes; {left:,} keys")

    def copy_table() -> Table:
        copy = home / "db.db" / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(table.path, copy)
        return open_table(str(copy))

    def compact_copy(executor: Any) -> Seconds:
        builder = copy_table().new_compaction_builder().with_strategy("full")
        return time_work(lambda: builder.run(executor))

    executors: dict[str, Any] = {"embedded": EmbeddedExecutor()}
    if options.spark:
        started = time.perf_counter()
        executors["spark local[2]"] = spark_executor()
        session = time.perf_counter() - started
        first, _ = compact_copy(executors["spark local[2]"])  # workers start, and load the engine
        print(f"spark: session {session:.2f} s, first compaction {first:.2f} s, not counted below")
    plain = home / "plain.parquet"
    floor = median(
        [time_work(lambda: decode_and_encode(table, left, plain)) for _ in range(options.repeat)]
    )
    report("pyarrow decode + encode", floor, rows, size, floor)
    if options.java:
        measure_java(options, home, copy_table, left, (rows, size, floor))
    for name, executor in executors.items():
        seconds = median([compact_copy(executor) for _ in range(options.repeat)])
        report(f"full compaction, {name}", seconds, rows, size, floor)
    after, _ = time_work(
        lambda: open_table(str(home / "db.db" / "copy")).new_read_builder().to_arrow()
    )
    print(f"read before {before:.2f} s, after {after:.2f} s; {left:,} rows")


def measure_java(
    options: argparse.Namespace,
    home: Path,
    copy_table: Callable[[], Table],
    left: int,
    against: tuple[int, int, Seconds],
) -> None:
    """Let Java Paimon compact copies: by one writer, and by two at once."""
    for writers in (1, 2):
        exchange = home / f"java-{writers}"
        exchange.mkdir()
        runs: list[Seconds] = []
        command = java_peer(home, heap="4g")
        with Oracle(command, exchange=exchange, working_directory=ROOT) as java:
            for _ in range(options.repeat + 1):
                copy = copy_table()
                wall, cpu = java.call("compact_seconds", table="db.copy", writers=writers)
                runs.append((wall, cpu))
                found = sum(entry.file.row_count for entry in copy.state.live_files())
                if found != left:
                    raise AssertionError(f"Java left {found} rows of {left} keys")
        for name, seconds in (("first", runs[0]), ("warm", median(runs[1:]))):
            report(f"Java, {writers} writer{'s' * (writers > 1)}, {name}", seconds, *against)


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
