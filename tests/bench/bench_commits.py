"""Commits: milliseconds of small writes as a table grows, and of one commit with very many files.

    python -m tests.bench.bench_commits [--commits 200] [--files 10000]

A small write is ten rows through the front door. `commit` is its part on metadata: looking for an
earlier commit, preparing the writer, and committing; the rest sorts and encodes the rows.
"""

import argparse
import itertools
import statistics
import tempfile
import time
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.table import Table as Printed

from paimon_assets.engine.contract.commit_message import CommitMessage, DataIncrement
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.schema_manager import SchemaManager
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.paths import TablePaths
from paimon_assets.engine.spec.schema import Schema
from paimon_assets.engine.spec.stats import EMPTY_ROW
from paimon_assets.engine.table.api import open_catalog
from paimon_assets.engine.table.table import Table
from tests.testkit.builders import data_file

COLUMNS = {"id": "BIGINT", "v": "STRING"}
SCHEMAS = {
    "append": Schema.of(COLUMNS),
    "key": Schema.of(COLUMNS, primary_keys=["id"], options={"bucket": "2"}),
}
WINDOW = 20
OVERWRITE_EACH = 10


def small_commits(table: Table, commits: int, *, overwrites: bool) -> list[tuple[float, float]]:
    """Write ten rows again and again.

    Args:
        table: Empty.
        commits: How many.
        overwrites: Whether each tenth write takes the place of all before.

    Returns:
        (milliseconds in all, milliseconds on metadata) of each write.
    """
    executor = EmbeddedExecutor(threads=1)
    found = []
    for number in range(commits):
        rows = pa.table({"id": pa.array(range(number, number + 10), pa.int64()), "v": ["x"] * 10})
        writer = table.new_write_builder().with_commit_user(f"user-{number}")
        if overwrites and number % OVERWRITE_EACH == OVERWRITE_EACH - 1:
            writer = writer.with_overwrite({})
        began = time.perf_counter()
        writer.find_committed()
        context = writer.prepare()
        prepared = time.perf_counter()
        result = executor.map_rows(context, rows)
        written = time.perf_counter()
        writer.commit(result.messages)
        ended = time.perf_counter()
        found.append((1e3 * (ended - began), 1e3 * (ended - written + prepared - began)))
    return found


def large_commit(files: int, directory: Path) -> float:
    """Commit many file names at once; return milliseconds."""
    path = str(directory / "large")
    SchemaManager(LocalFileIO(), TablePaths(table=path)).create(SCHEMAS["append"], time_millis=1)
    store = FileStore.open(LocalFileIO(), path)
    names = tuple(
        data_file(file_name=f"data-{number}.parquet", value_stats_cols=())
        for number in range(files)
    )
    message = CommitMessage(
        partition=EMPTY_ROW,
        bucket=0,
        total_buckets=-1,
        data_increment=DataIncrement(new_files=names),
    )
    began = time.perf_counter()
    FileStoreCommit(store).commit([message], commit_user="bench", commit_identifier=1)
    return 1e3 * (time.perf_counter() - began)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--commits", type=int, default=200)
    parser.add_argument("--files", type=int, default=10_000)
    options = parser.parse_args()
    columns = ("table", "writes", f"first {WINDOW}", f"last {WINDOW}", "ratio", "of it metadata")
    printed = Printed(*columns, title=f"{options.commits} small writes: median ms")
    with tempfile.TemporaryDirectory() as directory:
        catalog = open_catalog(directory)
        catalog.create_database("d")
        for name, overwrites in itertools.product(SCHEMAS, (False, True)):
            table = catalog.create_table(f"d.{name}{overwrites:d}", SCHEMAS[name])
            times = small_commits(table, options.commits, overwrites=overwrites)
            first, last = (_medians(part) for part in (times[:WINDOW], times[-WINDOW:]))
            printed.add_row(
                name,
                "every tenth overwrites" if overwrites else "add",
                f"{first[0]:.1f}",
                f"{last[0]:.1f}",
                f"{last[0] / first[0]:.2f}",
                f"{first[1]:.1f} → {last[1]:.1f}",
            )
        Console().print(printed)
        milliseconds = large_commit(options.files, Path(directory))
        Console().print(f"one commit of {options.files:,} files: {milliseconds:.0f} ms")


def _medians(times: list[tuple[float, float]]) -> tuple[float, float]:
    return statistics.median(t for t, _ in times), statistics.median(t for _, t in times)


if __name__ == "__main__":
    main()
