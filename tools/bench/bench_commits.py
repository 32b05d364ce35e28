"""Commits: milliseconds of small writes as a table grows, and of one commit with very many files.

    python -m tools.bench.bench_commits [--commits 200] [--pairs 5] [--files 10000] [--appends 1500]

A small write is ten rows through the front door; `metadata` is its part on metadata: looking for an
earlier commit, preparing the writer, and committing; the rest sorts and encodes the rows. The first
writes of new tables and the last of old ones are made by turns, because disks are faster at one
time than at another; so are as many plain files as a write makes, of no more than their bytes.

The last lines are commits of ten rows to one table: by one `Table` on a disk, by clients of a
catalog server and clients of S3, whose requests take 30 ms. Clients are threads of this process.
"""

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.table import Table as Printed

from paimon_assets import EmbeddedExecutor, Schema, Table, open_catalog
from paimon_assets.engine.contract.commit_message import CommitMessage, DataIncrement
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.managers.schema_manager import SchemaManager
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.data_file import EMPTY_ROW
from paimon_assets.engine.spec.paths import TablePaths
from tests.testkit.builders import data_file
from tests.testkit.rest_server import server_process
from tools.bench.slow_s3 import BUCKET, slow_s3

COLUMNS = {"id": "BIGINT", "v": "STRING"}
SCHEMAS = {
    "append": Schema.of(COLUMNS),
    "key": Schema.of(COLUMNS, primary_keys=["id"], options={"bucket": "2"}),
}
RETRIES = {"commit.max-retries": "1000", "commit.max-retry-wait": "100 ms"}
"""Of a table that many clients write; by default a wait may take ten seconds."""
WINDOW = 20
OVERWRITE_EACH = 10


@dataclass(kw_only=True)
class SmallWrites:
    """Ten rows written to one table again and again."""

    table: Table
    overwrites: bool
    """Whether each tenth write takes the place of all before."""
    done: int = 0
    executor: EmbeddedExecutor = field(default_factory=lambda: EmbeddedExecutor(threads=1))

    def once(self) -> tuple[float, float]:
        """Write; return (milliseconds in all, milliseconds on metadata)."""
        number, self.done = self.done, self.done + 1
        rows = pa.table({"id": pa.array(range(number, number + 10), pa.int64()), "v": ["x"] * 10})
        writer = self.table.new_write_builder().with_commit_user(f"user-{number}")
        if self.overwrites and number % OVERWRITE_EACH == OVERWRITE_EACH - 1:
            writer = writer.with_overwrite({})
        began = time.perf_counter()
        writer.find_committed()
        context = writer.prepare()
        prepared = time.perf_counter()
        result = self.executor.map_rows(context, rows)
        written = time.perf_counter()
        writer.commit(result.messages)
        ended = time.perf_counter()
        return 1e3 * (ended - began), 1e3 * (ended - written + prepared - began)


def files_of_one_write(table: Table) -> list[int]:
    """Return the sizes of the files that a write of ten rows makes."""
    folder = Path(table.path)

    def sizes() -> dict[Path, int]:
        return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}

    before = sizes()
    SmallWrites(table=table, overwrites=False).once()
    return [size for path, size in sizes().items() if path not in before]


def plain_files(folder: Path, sizes: list[int]) -> float:
    folder.mkdir(parents=True)
    began = time.perf_counter()
    for number, size in enumerate(sizes):
        (folder / str(number)).write_bytes(bytes(size))
    return 1e3 * (time.perf_counter() - began)


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


def small_writes(
    new_table: Callable[[], Table], folder: Path, options: argparse.Namespace, *, overwrites: bool
) -> list[str]:
    """Return the times of one kind of table and write, as printed."""
    sizes = files_of_one_write(new_table())
    first, last, plain = [], [], []
    for pair in range(options.pairs):
        old, new = (SmallWrites(table=new_table(), overwrites=overwrites) for _ in range(2))
        for _ in range(options.commits - WINDOW):
            old.once()
        for number in range(WINDOW):
            first.append(new.once())
            last.append(old.once())
            plain.append(plain_files(folder / f"{pair}-{number}", sizes))
    (begins, begins_metadata), (ends, ends_metadata) = _medians(first), _medians(last)
    return [
        f"{begins:.1f}",
        f"{ends:.1f}",
        f"{ends / begins:.2f}",
        f"{begins_metadata:.1f} → {ends_metadata:.1f}",
        f"{statistics.median(plain):.1f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--commits", type=int, default=200, help="of an old table")
    parser.add_argument("--pairs", type=int, default=5, help="of an old and a new table")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--appends", type=int, default=1_500)
    parser.add_argument("--clients", type=int, default=16)
    options = parser.parse_args()
    columns = ("table", "writes", f"first {WINDOW}", f"last {WINDOW}", "ratio", "metadata", "files")
    title = f"writes of ten rows, {options.commits} to an old table: median ms"
    printed = Printed(*columns, title=title)
    with tempfile.TemporaryDirectory() as directory:
        catalog = open_catalog(directory)
        catalog.create_database("d")
        for name, overwrites in itertools.product(SCHEMAS, (False, True)):
            numbers = itertools.count()

            def new_table(
                name: str = name, overwrites: bool = overwrites, numbers: Iterator[int] = numbers
            ) -> Table:
                table = f"d.{name}{overwrites:d}{next(numbers)}"
                return catalog.create_table(table, SCHEMAS[name])

            printed.add_row(
                name,
                "every tenth overwrites" if overwrites else "add",
                *small_writes(
                    new_table,
                    Path(directory, "plain", f"{name}{overwrites:d}"),
                    options,
                    overwrites=overwrites,
                ),
            )
        Console().print(printed)
        milliseconds = large_commit(options.files, Path(directory))
        Console().print(f"one commit of {options.files:,} files: {milliseconds:.0f} ms")
    for line in many_small(options.appends, options.clients):
        Console().print(line)


def rate(opened: Sequence[Table], appends: int) -> str:
    """Append ten rows many times, by a thread for each table; return a line of rates."""
    times: list[float] = []
    rows = pa.table({"id": pa.array(range(10), pa.int64()), "v": ["x"] * 10})

    def append(table: Table) -> None:
        for _ in range(appends // len(opened)):
            began = time.perf_counter()
            table.new_write_builder().write(rows, EmbeddedExecutor(threads=1))
            times.append(1e3 * (time.perf_counter() - began))

    began, cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(len(opened)) as pool:
        list(pool.map(append, opened))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    tenth = len(times) // 10
    return (
        f"{10 * len(times) / seconds:,.0f} rows/s, {len(times) / seconds:.0f} commits/s, "
        f"{statistics.median(times[:tenth]):.1f} → {statistics.median(times[-tenth:]):.1f} ms, "
        f"CPU of the clients {1e3 * cpu / len(times):.1f} ms a commit"
    )


def many_small(appends: int, clients: int) -> Iterator[str]:
    """Yield the lines of commits of ten rows."""
    schema = Schema.of(COLUMNS, options=RETRIES)
    with tempfile.TemporaryDirectory() as directory:
        catalog = open_catalog(directory)
        catalog.create_database("d")
        yield f"disk, one Table: {rate([catalog.create_table('d.t', schema)], appends)}"
        catalog.create_table("d.s", schema)
        with server_process(directory, "--insecure", log=Path(directory, "server.log")) as (
            _,
            client,
        ):
            options = {"metastore": "rest", "uri": f"http://127.0.0.1:{client.port}"}
            opened = [open_catalog(options=options).get_table("d.s") for _ in range(clients)]
            yield f"catalog server, {clients} clients: {rate(opened, appends // 4)}"
    with slow_s3(30) as options:
        catalog = open_catalog(f"s3://{BUCKET}/wh", options)
        catalog.create_database("d")
        yield f"S3 at 30 ms, one Table: {rate([catalog.create_table('d.t', schema)], 50)}"
        catalog.create_table("d.s", schema)
        opened = [
            open_catalog(f"s3://{BUCKET}/wh", options).get_table("d.s") for _ in range(clients)
        ]
        yield f"S3 at 30 ms, {clients} clients: {rate(opened, 160)}"


def _medians(times: list[tuple[float, float]]) -> tuple[float, float]:
    return statistics.median(t for t, _ in times), statistics.median(t for _, t in times)


if __name__ == "__main__":
    main()
