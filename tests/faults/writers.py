"""What the processes of these tests do; a server that imported this module forks them."""

import multiprocessing
import sys
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext
from multiprocessing.synchronize import Barrier

import pyarrow as pa

from paimon_assets.engine.contract.commit_message import WriteResult
from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.contract.tasks import TaskBatch
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.data.worker import run_task, write_rows
from paimon_assets.engine.embedded import EmbeddedExecutor, batches_of
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.table.api import open_table
from paimon_assets.engine.table.table import Table
from tests.faults.killing_file_io import Countdown, KillingFileIO, plain_directory

COMMIT_USER = "mortal"
BARRIER_SECONDS = 60.0
SURVIVED = 3


def fork_server() -> ForkServerContext:
    """Return a context whose processes start in milliseconds, with this module imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


class OneStorageExecutor:
    """The embedded executor, on a storage that was opened before."""

    def __init__(self, file_io: FileIO) -> None:
        self._file_io = file_io

    def map_splits(self, context: object, splits: object) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError("these processes only write")

    def map_rows(self, context: WriteContext, rows: pa.Table) -> WriteResult:
        return write_rows(context, batches_of(rows), self._file_io)

    def map_tasks(self, batch: TaskBatch) -> Iterator[tuple[int, bytes]]:
        for number, payload in enumerate(batch.payloads):
            yield number, run_task(batch.name, batch.shared, payload, self._file_io)


def write_until_killed(table_path: str, rows: pa.Table, steps: int) -> None:
    """Write and commit, and be killed after `steps` moments; return if there were fewer.

    Exits with `SURVIVED` if it was to die at its next write, and wrote nothing more.
    """
    countdown = Countdown(steps)
    file_io = KillingFileIO(LocalFileIO(), countdown)
    table = Table(FileStore.open(file_io, table_path))
    countdown.watch(plain_directory(table_path))
    writer = table.new_write_builder().with_commit_user(COMMIT_USER)
    writer.write(rows, OneStorageExecutor(file_io))
    if countdown.is_over:
        sys.exit(SURVIVED)


def commit_in_step_with_others(
    table_path: str, worker: int, commits: int, barrier: Barrier, acknowledged: "list[int]"
) -> None:
    """Make `commits` commits of one row each; all workers begin each commit at once.

    Args:
        table_path: A table of the columns `worker` and `number`.
        worker: Which process this is.
        commits: How many.
        barrier: Where the processes meet.
        acknowledged: Gets the snapshot id of every commit that was acknowledged.
    """
    try:
        for number in range(commits):
            acknowledged.append(_commit_one(table_path, worker, number, barrier))
    except BaseException:
        barrier.abort()  # the others would wait for this worker
        raise


def _commit_one(table_path: str, worker: int, number: int, barrier: Barrier) -> int:
    writer = open_table(table_path).new_write_builder().with_commit_user(f"worker-{worker}")
    writer = writer.with_commit_identifier(number)
    values = {"worker": worker, "number": number}
    row = pa.table({name: pa.array([value], pa.int32()) for name, value in values.items()})
    result = EmbeddedExecutor(threads=1).map_rows(writer.prepare(), row)
    barrier.wait(BARRIER_SECONDS)
    return writer.commit(result.messages).id
