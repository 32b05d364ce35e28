"""EmbeddedExecutor: the data plane in this process.

A few splits are read at once by threads; Arrow and numpy release the GIL where the time goes. A
split runs a few batches ahead of the consumer at most: memory does not grow with the table.
"""

import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from queue import Full, Queue

import pyarrow as pa

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.contract.clustering import ClusterOrder
from paimon_assets.engine.contract.commit_message import WriteResult
from paimon_assets.engine.contract.context import ReadContext, WriteContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.tasks.task_batch import TaskBatch, as_ended
from paimon_assets.engine.data.compact.cluster import clustered
from paimon_assets.engine.data.memory_pool import prefer_jemalloc
from paimon_assets.engine.data.worker import read_split, run_task, write_rows
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.fileio.opening import open_file_io
from paimon_assets.engine.spec.options.all_options import WRITE_BUFFER_SIZE

ArrowRows = pa.Table | pa.RecordBatchReader
"""What this executor takes as rows."""

_BATCHES_AHEAD = 2
_STOP_POLL_SECONDS = 0.1


@dataclass(slots=True)
class _OpenSplit:
    """One split being read by a thread; None in the queue ends it."""

    batches: Queue[pa.RecordBatch | None] = field(
        default_factory=lambda: Queue(maxsize=_BATCHES_AHEAD)
    )
    done: Future[None] | None = None


class EmbeddedExecutor:
    """Executor of this process.

    Args:
        threads: Splits read at once; the number of cores by default.
    """

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or os.cpu_count() or 1
        prefer_jemalloc()

    def map_splits(
        self, context: ReadContext, splits: Sequence[DataSplit]
    ) -> Iterator[pa.RecordBatch]:
        """Read splits in order; see `contract.executor`."""
        file_io = open_file_io(context.file_io)
        if len(splits) <= 1 or self._threads == 1:
            for split in splits:
                yield from read_split(context, split, file_io)
            return
        yield from _read_ahead(context, splits, file_io, self._threads)

    def row_schema(self, rows: ArrowRows) -> pa.Schema:
        """Return the schema of rows; see `contract.executor`."""
        return rows.schema

    def map_rows(self, context: WriteContext, rows: ArrowRows) -> WriteResult:
        """Write rows in this process; see `contract.executor`."""
        return write_rows(context, batches_of(rows), open_file_io(context.file_io))

    def rewrite(
        self, read: ReadContext, splits: Sequence[DataSplit], write: WriteContext
    ) -> WriteResult:
        """Read and write in this process; see `contract.executor`."""
        schema = to_arrow_schema(read.fields)
        rows = pa.RecordBatchReader.from_batches(schema, self.map_splits(read, splits))
        return self.map_rows(write, rows)

    def cluster(
        self,
        read: ReadContext,
        splits: Sequence[DataSplit],
        write: WriteContext,
        order: ClusterOrder,
    ) -> WriteResult:
        """Sort in this process, on local disk beyond the write buffer; see `contract.executor`."""

        def rows(columns: tuple[str, ...] | None) -> Iterator[pa.RecordBatch]:
            chosen = read if columns is None else replace(read, columns=columns)
            return self.map_splits(chosen, splits)

        batches = clustered(
            rows,
            order,
            row_count=sum(split.row_count for split in splits),
            memory_bytes=write.schema.typed_options.get(WRITE_BUFFER_SIZE),
        )
        schema = to_arrow_schema(read.fields)
        return self.map_rows(write, pa.RecordBatchReader.from_batches(schema, batches))

    def map_tasks(self, batch: TaskBatch) -> Iterator[tuple[int, bytes]]:
        """Run tasks by threads, the costliest first; see `contract.executor`."""
        file_io = open_file_io(batch.file_io)
        costs = batch.costs
        order = sorted(range(len(costs)), key=lambda number: -costs[number])
        failure: Exception | None = None
        threads = batch.at_a_time(self._threads)
        with ThreadPoolExecutor(threads, thread_name_prefix="task") as pool:
            futures = {
                pool.submit(run_task, batch.name, batch.shared, batch.payloads[number], file_io): (
                    number
                )
                for number in order
            }
            try:
                for future in as_ended(futures):
                    if future.cancelled():
                        continue
                    error = future.exception()
                    if error is None:
                        yield futures[future], future.result()
                    elif not isinstance(error, Exception):
                        raise error
                    elif failure is None:
                        failure = error
                        pool.shutdown(wait=False, cancel_futures=True)
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
        if failure is not None:
            raise failure


def batches_of(rows: ArrowRows) -> Iterator[pa.RecordBatch]:
    """Yield the batches of `rows`, and an empty one if there is none: it carries the schema.

    Raises:
        InvalidInputError: Kind `input-rows`; they are not Arrow's.
    """
    if not isinstance(rows, pa.Table | pa.RecordBatchReader):
        raise InvalidInputError(
            "Rows are written from a pyarrow Table or RecordBatchReader, not from a"
            f" {type(rows).__module__}.{type(rows).__name__}; make one by pyarrow.table(…).",
            kind="input-rows",
        )
    batches: Iterable[pa.RecordBatch] = rows.to_batches() if isinstance(rows, pa.Table) else rows
    empty = True
    for batch in batches:
        empty = False
        yield batch
    if empty:
        yield pa.RecordBatch.from_pylist([], schema=rows.schema)


def _read_ahead(
    context: ReadContext, splits: Sequence[DataSplit], file_io: FileIO, threads: int
) -> Iterator[pa.RecordBatch]:
    """Read up to `threads` splits at once and yield their batches in split order."""
    stopped = threading.Event()

    def run(split: DataSplit, opened: _OpenSplit) -> None:
        try:
            for batch in read_split(context, split, file_io):
                if not _put(opened.batches, batch, stopped):
                    return
        finally:
            _put(opened.batches, None, stopped)

    waiting = deque(splits)
    running: deque[_OpenSplit] = deque()
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="read-split") as pool:
        try:
            while waiting or running:
                while waiting and len(running) < threads:
                    opened = _OpenSplit()
                    opened.done = pool.submit(run, waiting.popleft(), opened)
                    running.append(opened)
                current = running.popleft()
                while (batch := current.batches.get()) is not None:
                    yield batch
                if current.done is not None:
                    current.done.result()
        finally:
            stopped.set()


def _put(
    batches: "Queue[pa.RecordBatch | None]", batch: pa.RecordBatch | None, stopped: threading.Event
) -> bool:
    """Wait for room; False once the consumer has gone."""
    while not stopped.is_set():
        try:
            batches.put(batch, timeout=_STOP_POLL_SECONDS)
        except Full:
            continue
        return True
    return False
