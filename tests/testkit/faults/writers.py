"""The processes of these tests; a server that imported this module forks them."""

import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.context import ForkServerContext
from typing import Any
from uuid import uuid4

import pyarrow as pa
from msgspec.structs import replace

from paimon_assets import DataSplit, Table
from paimon_assets.engine.contract.commit_message import WriteResult
from paimon_assets.engine.contract.context import ReadContext, WriteContext
from paimon_assets.engine.contract.executor import ClusterOrder, TaskBatch
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.expire_snapshots import Retention, expire_snapshots
from paimon_assets.engine.control.maintenance.orphan_files import clean_orphan_files
from paimon_assets.engine.control.maintenance.tag_files import delete_tag
from paimon_assets.engine.data.cluster import sort_by_clusters
from paimon_assets.engine.data.worker import read_split, run_task, write_rows
from paimon_assets.engine.data.write.row_key_extractor import bucket_path
from paimon_assets.engine.embedded import batches_of
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.manifest import HASH_INDEX, IndexFileMeta
from paimon_assets.erasure import erase
from tests.testkit.faults.killing_file_io import Countdown, KillingFileIO, plain_directory
from tests.testkit.metadata_tables import FixedClock

COMMIT_USER = "mortal"
BARRIER_SECONDS = 60.0
SURVIVED = 3
DEATHS = {-signal.SIGKILL, -signal.SIGXFSZ, SURVIVED}
"""Exit codes of a process that was to die at some step."""

_SERVED = (
    "writers",
    "materializing",
    "following",
    "table_changes",
    "rest_servers",
    "dagster_homes",
)


def fork_server() -> ForkServerContext:
    """Return a context whose processes start in milliseconds, with their modules imported.

    A process of tests has one such server: the first list it is given is the one it keeps.
    """
    context = multiprocessing.get_context("forkserver")
    package = __name__.rpartition(".")[0]
    context.set_forkserver_preload([f"{package}.{name}" for name in _SERVED])
    return context


def exit_code(target: Callable[..., None], *arguments: object) -> int | None:
    """Run a function in a process of its own, and return how that ended."""
    process = fork_server().Process(target=target, args=arguments)
    process.start()
    process.join()
    return process.exitcode


class OneStorageExecutor:
    """The embedded executor, on a storage that was opened before."""

    def __init__(self, file_io: FileIO) -> None:
        self.file_io = file_io

    def map_splits(
        self, context: ReadContext, splits: Sequence[DataSplit]
    ) -> Iterator[pa.RecordBatch]:
        for split in splits:
            yield from read_split(context, split, self.file_io)

    def row_schema(self, rows: pa.Table) -> pa.Schema:
        return rows.schema

    def map_rows(self, context: WriteContext, rows: pa.Table) -> WriteResult:
        return write_rows(context, batches_of(rows), self.file_io)

    def rewrite(
        self, read: ReadContext, splits: Sequence[DataSplit], write: WriteContext
    ) -> WriteResult:
        return self.map_rows(write, pa.Table.from_batches(self.map_splits(read, splits)))

    def cluster(
        self,
        read: ReadContext,
        splits: Sequence[DataSplit],
        write: WriteContext,
        order: ClusterOrder,
    ) -> WriteResult:
        def rows(columns: tuple[str, ...] | None) -> Iterator[pa.RecordBatch]:
            chosen = read if columns is None else replace(read, columns=columns)
            return self.map_splits(chosen, splits)

        count = sum(split.row_count for split in splits)
        batches = sort_by_clusters(rows, order, row_count=count, memory_bytes=1 << 20)
        return self.map_rows(write, pa.Table.from_batches(batches))

    def map_tasks(self, batch: TaskBatch) -> Iterator[tuple[int, bytes]]:
        for number, payload in enumerate(batch.payloads):
            yield number, run_task(batch.name, batch.shared, payload, self.file_io)


class AllKindsExecutor(OneStorageExecutor):
    """Also writes a changelog file and an index file for the first bucket it writes."""

    def map_rows(self, context: WriteContext, rows: pa.Table) -> WriteResult:
        result = super().map_rows(context, rows)
        first, *rest = result.messages
        data = first.data_increment.new_files[0]
        changelog = data._replace(file_name=f"changelog-{uuid4()}-0.parquet")
        index = IndexFileMeta(
            index_type=HASH_INDEX, file_name=f"index-{uuid4()}-0", file_size=4, row_count=1
        )
        directory = bucket_path(context, first.partition, first.bucket)
        self.file_io.write_bytes(f"{directory}/{changelog.file_name}", b"rows")
        self.file_io.write_bytes(f"{context.table_path}/index/{index.file_name}", b"hash")
        increment = replace(
            first.data_increment, changelog_files=(changelog,), new_index_files=(index,)
        )
        amended = replace(first, data_increment=increment)
        return replace(result, messages=(amended, *rest))


@contextmanager
def mortal_table(table_path: str, steps: int) -> Iterator[Table]:
    """Lend a table to a process that is killed after `steps` steps.

    Exits with `SURVIVED` if it was to die at its next write, and wrote nothing more.
    """
    countdown = Countdown(steps)
    table = Table(FileStore.open(KillingFileIO(LocalFileIO(), countdown), table_path))
    countdown.watch(plain_directory(table_path))
    yield table
    if countdown.is_over:
        sys.exit(SURVIVED)


LATER = FixedClock(now=4_000_000_000_000)


def maintain(store: FileStore) -> None:
    """Delete whatever may be deleted."""
    expire_snapshots(store, retention=Retention(min_count=2, max_count=2, time_ms=0, limit=100))
    if store.tags.get_or_none("old") is not None:
        delete_tag(store, "old")
    clean_orphan_files(store, older_than_ms=0, dry_run=False, clock=LATER)


def maintain_until_killed(table_path: str, steps: int) -> None:
    with mortal_table(table_path, steps) as table:
        maintain(table._store)


def erase_until_killed(table_path: str, steps: int, where: str, history: Any) -> None:
    with mortal_table(table_path, steps) as table:
        executor = OneStorageExecutor(table._store.file_io)
        erase(table, where, history=history, orphans_older_than_ms=0, executor=executor)
