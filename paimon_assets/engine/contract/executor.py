"""Executor: reads splits, writes rows and runs tasks, in this process or on Spark.

Every executor passes the same behaviour suite (`tests/behaviour`).
"""

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future
from enum import StrEnum
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from paimon_assets.engine.contract.commit_message import WriteResult
from paimon_assets.engine.contract.context import ReadContext, WriteContext
from paimon_assets.engine.contract.split import Splits
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.spec.values import Value

T = TypeVar("T")


class TaskBatch(Value):
    """Tasks of one kind that may run in any order and at once, such as compactions.

    The module that makes the tasks and the one that runs them define the bytes; both encode with
    `contract.wire`.
    """

    name: str
    """Name of the task that `data.worker.task_of` returns."""
    shared: bytes = b""
    """Input of all tasks, such as the context of a write."""
    payloads: tuple[bytes, ...]
    weights: tuple[int, ...] = ()
    """Cost of each task, such as the bytes it reads, to deal them evenly; empty is all alike."""
    parallelism: int | None = None
    """Most tasks at a time; None leaves it to the executor."""
    file_io: FileIOSpec
    subject: str = ""
    """The table, and its snapshot: shown with the tasks."""

    @property
    def costs(self) -> tuple[int, ...]:
        """Cost of each task, at least 1."""
        return tuple(max(1, w) for w in self.weights) or (1,) * len(self.payloads)

    def at_a_time(self, cores: int) -> int:
        """Return how many tasks an executor of so many cores runs at a time."""
        return max(1, min(cores, self.parallelism or cores))


class TaskRunner(Protocol):
    """The part of an `Executor` that runs tasks."""

    def map_tasks(self, batch: TaskBatch) -> Iterator[tuple[int, bytes]]:
        """Run tasks and yield (number of the task, its result) as they finish, in any order.

        Of a batch that fails, the tasks that were running finish and are yielded too, then the
        first error is raised: the caller knows all files to delete.
        """


def as_ended(futures: Collection[Future[T]]) -> Iterator[Future[T]]:
    """Yield futures as they end, cancelled ones too: `as_completed` waits for these for ever."""
    ended: SimpleQueue[Future[T]] = SimpleQueue()
    for future in futures:
        future.add_done_callback(ended.put)
    for _ in futures:
        yield ended.get()


RowsT_contra = TypeVar("RowsT_contra", contravariant=True)
"""Rows that an executor takes: a RecordBatchReader, on Spark also a DataFrame."""

EXAMPLES = 20
"""Most repeated keys that are shown."""
ROWS = "rows"
"""Name of the number of rows in an example of a repeated key."""


class Curve(StrEnum):
    """The curve that makes one order of several columns."""

    ORDER = "order"
    """By the first column, then the next."""
    ZORDER = "zorder"
    """Along the Z-curve: filters on any of the columns skip files."""
    HILBERT = "hilbert"
    """Along the Hilbert curve, whose neighbours are always close."""


class ClusterOrder(Value):
    """How the rows of a partition are ordered in their files."""

    columns: tuple[str, ...]
    """Most significant first."""
    curve: Curve = Curve.ORDER


class RepeatedKeys(Value):
    """Keys of more than one row."""

    rows: int
    """Rows of any key."""
    keys: int = 0
    """Keys that several rows share."""
    rows_of_keys: int = 0
    """Rows that share their key."""
    examples: tuple[dict[str, Any], ...] = ()
    """Some of the keys: column → value, and how many rows (`ROWS`)."""


class Executor(TaskRunner, Protocol[RowsT_contra]):
    """Runs data-plane work. Nothing it writes is visible until its messages are committed.

    Work is repeatable: new file names per attempt, only returned messages are committed. Errors of
    the data plane reach the caller as the `PaimonError` they were, from whatever process.
    """

    def map_splits(self, context: ReadContext, splits: Splits) -> Iterator[pa.RecordBatch]:
        """Read splits into batches whose schema is exactly that of `context.columns`.

        Order: splits in the order given, rows of a split in key order if it was merged.
        """

    def row_schema(self, rows: RowsT_contra) -> pa.Schema:
        """Return the Arrow schema of rows, without reading one."""

    def map_rows(self, context: WriteContext, rows: RowsT_contra) -> WriteResult:
        """Write rows into data files, in their order wherever keys and sequences are equal.

        `rows` holds the table's columns by name, in any order; they are checked before a file is
        written (`InvalidInputError`).
        """


@runtime_checkable
class TakingExecutor(Protocol):
    """An executor with a test of the rows that it takes."""

    def takes(self, rows: object) -> bool:
        """Whether these are rows that `map_rows` takes."""


class CountingExecutor(Executor[RowsT_contra], TakingExecutor, Protocol[RowsT_contra]):
    """An executor that counts rows where they are read; every one that a kind names is."""

    def count_rows(self, context: ReadContext, splits: Splits) -> int:
        """Return how many rows `map_splits` would yield; they do not come to the caller."""

    def repeated_keys(
        self, context: ReadContext, splits: Splits, key: Sequence[str]
    ) -> RepeatedKeys:
        """Find the values of some of `context.columns` that several rows share.

        Nulls count as equal.
        """


@runtime_checkable
class ClusteringExecutor(Protocol):
    """An executor that brings the rows of a partition into another order."""

    def cluster(
        self, read: ReadContext, splits: Splits, write: WriteContext, order: ClusterOrder
    ) -> WriteResult:
        """Read splits of one partition and write their rows in another order, file after file.

        `read` has all columns of the table, which has neither primary key nor buckets.
        """


class RewritingExecutor(Protocol):
    """An executor that copies rows of one plan into files of another."""

    def rewrite(self, read: ReadContext, splits: Splits, write: WriteContext) -> WriteResult:
        """Read splits and write their rows; they do not pass through the caller's memory.

        `read` has all columns of the table; `write` may be another bucket count of it.
        """
