"""EmbeddedExecutor: the data plane in this process.

A few splits are read at once by threads; Arrow and numpy release the GIL in the costly parts. A
split runs a few batches ahead of the consumer at most: memory does not grow with the table.

The threads are the process's, shared by all executors that were given no number of their own, and
handed down to whatever reads, writes, merges and casts (`data.threads`): nothing below makes more.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import cache
from itertools import islice
from typing import TypeVar

import pyarrow as pa
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.arrow_types import empty_batch, to_arrow_schema
from paimon_assets.engine.codec.row_files import process_end
from paimon_assets.engine.contract.commit_message import WriteResult
from paimon_assets.engine.contract.context import ReadContext, WriteContext
from paimon_assets.engine.contract.executor import ClusterOrder, RepeatedKeys, TaskBatch, as_ended
from paimon_assets.engine.contract.split import Splits
from paimon_assets.engine.data.threads import Threads, Work, prefer_jemalloc, read_ahead
from paimon_assets.engine.data.worker import read_split, run_task, write_rows
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.fileio.opening import open_file_io
from paimon_assets.engine.spec.options.all_options import WRITE_BUFFER_SIZE

ArrowRows = pa.Table | pa.RecordBatchReader
"""Rows that this executor takes."""

Batches = Generator[pa.RecordBatch, None, None]

T = TypeVar("T")
_FIRST_SECONDS, _SECONDS_BETWEEN = 2.0, 10.0
"""Of long work: until its first line of progress, and between the next ones."""
_BATCHES_AHEAD = 3
"""The batches ahead of each split that waits for its turn."""


class EmbeddedExecutor:
    """Executor of this process.

    >>> rows = table.scan().to_arrow(EmbeddedExecutor(threads=2))

    Args:
        threads: How many this executor has for itself, and tasks it runs at a time; by default it
            shares as many as there are cores with all other executors of this process.
        log: Gets a line of progress after two seconds of a write or of tasks, then every ten.
    """

    def __init__(
        self, threads: int | None = None, *, log: Callable[[str], None] | None = None
    ) -> None:
        self._threads = Threads(threads) if threads else _threads_of_process()
        self._log = log
        prefer_jemalloc()
        process_end()

    def map_splits(self, context: ReadContext, splits: Splits) -> Iterator[pa.RecordBatch]:
        """Read splits in order; see `contract.executor`.

        Raises:
            NotFoundError: A file is gone (kind `file-not-found`).
            InvalidInputError: A stored value cannot be cast to its column's type now (kind `cast`).
            FormatError: A file is damaged; names it.
            UnsupportedFeatureError: A file has a feature that this engine does not read.
            StorageError: The storage failed.
        """
        file_io = open_file_io(context.file_io)
        if len(splits) <= 1 or self._threads.count == 1:
            for split in splits:
                yield from read_split(context, split, file_io, self._threads)
            return
        yield from _read_ahead(context, splits, file_io, self._threads)

    def count_rows(self, context: ReadContext, splits: Splits) -> int:
        """Count the rows of a read; see `contract.executor`.

        Raises:
            PaimonError: As `map_splits`.
        """
        return sum(batch.num_rows for batch in self.map_splits(context, splits))

    def repeated_keys(
        self, context: ReadContext, splits: Splits, key: Sequence[str]
    ) -> RepeatedKeys:
        """Find them by their hashes (`data.repeated_keys`); see `contract.executor`.

        Raises:
            PaimonError: As `map_splits`.
        """
        fields = {field.name: field for field in context.fields}
        from paimon_assets.engine.data.repeated_keys import repeated_keys

        return repeated_keys(
            lambda: self.map_splits(context, splits),
            [fields[name] for name in key],
            sum(split.row_count for split in splits),
        )

    def takes(self, rows: object) -> bool:
        """Whether rows are Arrow's; see `contract.executor`."""
        return isinstance(rows, ArrowRows)

    def row_schema(self, rows: ArrowRows) -> pa.Schema:
        """Return the schema of rows; see `contract.executor`."""
        return rows.schema

    def map_rows(self, context: WriteContext, rows: ArrowRows) -> WriteResult:
        """Write rows in this process; see `contract.executor`.

        Raises:
            InvalidInputError: Rows do not fit the table; files written so far are removed.
            UnsupportedFeatureError: The table has a feature that this engine does not write.
            StorageError: The storage failed.
        """
        file_io = open_file_io(context.file_io)
        batches = batches_of(rows)
        if self._log is not None:
            total = rows.num_rows if isinstance(rows, pa.Table) else None
            text = f"Writing table {context.table}: {{}} rows"
            batches = _report_progress(
                batches, self._log, text, total, lambda batch: batch.num_rows
            )
        return write_rows(context, batches, file_io, self._threads)

    def rewrite(self, read: ReadContext, splits: Splits, write: WriteContext) -> WriteResult:
        """Read and write in this process; see `contract.executor`.

        Raises:
            PaimonError: As `map_splits` and `map_rows`.
        """
        schema = to_arrow_schema(read.fields)
        rows = pa.RecordBatchReader.from_batches(schema, self.map_splits(read, splits))
        return self.map_rows(write, rows)

    def cluster(
        self, read: ReadContext, splits: Splits, write: WriteContext, order: ClusterOrder
    ) -> WriteResult:
        """Sort in this process, on local disk beyond the write buffer; see `contract.executor`.

        Raises:
            PaimonError: As `map_splits` and `map_rows`.
        """

        def rows(columns: tuple[str, ...] | None) -> Iterator[pa.RecordBatch]:
            chosen = read if columns is None else replace(read, columns=columns)
            return self.map_splits(chosen, splits)

        from paimon_assets.engine.data.cluster import sort_by_clusters

        batches = sort_by_clusters(
            rows,
            order,
            row_count=sum(split.row_count for split in splits),
            memory_bytes=write.schema.typed_options.get(WRITE_BUFFER_SIZE),
        )
        schema = to_arrow_schema(read.fields)
        return self.map_rows(write, pa.RecordBatchReader.from_batches(schema, batches))

    def map_tasks(self, batch: TaskBatch) -> Iterator[tuple[int, bytes]]:
        """Run tasks by threads, the costliest first; see `contract.executor`.

        Raises:
            PaimonError: The first error of a task, once the tasks that were running have ended.
        """
        results, total = self._results(batch), len(batch.payloads)
        if self._log is None:
            return results
        text = f"{batch.name} of {batch.subject or 'a table'}: {{}} tasks"
        return _report_progress(results, self._log, text, total, lambda _: 1)

    def _results(self, batch: TaskBatch) -> Iterator[tuple[int, bytes]]:
        file_io = open_file_io(batch.file_io)
        costs = batch.costs
        order = sorted(range(len(costs)), key=lambda number: -costs[number])
        failure: Exception | None = None
        at_a_time = batch.at_a_time(self._threads.count)
        with ThreadPoolExecutor(at_a_time, thread_name_prefix="task") as pool:
            task = (batch.name, batch.shared)
            futures = {
                pool.submit(run_task, *task, batch.payloads[number], file_io, self._threads): number
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
    """Yield the batches of `rows`, or an empty one for the schema; refuses other rows."""
    if not isinstance(rows, ArrowRows):
        raise InvalidInputError(
            "Rows are written from a pyarrow Table or RecordBatchReader, not from a"
            f" {type(rows).__module__}.{type(rows).__name__}; make one by pyarrow.table(…).",
            kind="input-rows",
        )
    batches = iter(rows.to_batches() if isinstance(rows, pa.Table) else rows)
    first = next(batches, None)
    yield empty_batch(rows.schema) if first is None else first
    yield from batches


class News:
    """The log of long work: how far it is after two seconds, then every ten."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._due = _FIRST_SECONDS

    def tell(self, seconds: float, text: str) -> None:
        """Log a text if news are due so many seconds after the work began."""
        if seconds >= self._due:
            self._due = seconds + _SECONDS_BETWEEN
            self._log(text)


def _report_progress(
    items: Iterator[T],
    log: Callable[[str], None],
    text: str,
    total: int | None,
    size: Callable[[T], int],
) -> Iterator[T]:
    """Yield items; now and then log how many there were, and how long the rest may take."""
    news, began, done = News(log), time.monotonic(), 0
    for item in items:
        yield item
        done, seconds = done + size(item), time.monotonic() - began
        counted = f"{done:,}" if total is None else f"{done:,} of {total:,}"
        left = ""
        if total is not None and 0 < done < total:
            left = f", about {seconds * (total - done) / done:.0f} s left"
        news.tell(seconds, f"{text.format(counted)}, {seconds:.0f} s{left}.")


def _read_ahead(
    context: ReadContext, splits: Splits, file_io: FileIO, threads: Threads
) -> Iterator[pa.RecordBatch]:
    """Read up to `threads.count` splits at once and yield their batches in split order."""
    waiting = deque(splits)
    running = deque[tuple[Batches, Work[list[pa.RecordBatch]]]]()
    try:
        while waiting or running:
            while waiting and len(running) < threads.count:
                batches = read_split(context, waiting.popleft(), file_io, threads)
                running.append((batches, threads.submit(_first, batches)))
            batches, first = running.popleft()
            with closing(batches):
                yield from first.result()
                del first  # and its batches
                with closing(read_ahead(batches, threads)) as rest:
                    yield from rest
    finally:
        for batches, first in running:
            first.stop()
            batches.close()


def _first(batches: Iterator[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return list(islice(batches, _BATCHES_AHEAD))


@cache
def _threads_of_process() -> Threads:
    """Return the threads of all executors of this process that were given no number of their own.

    Cores are the process's: two executors side by side have no more of them than one.
    """
    return Threads(os.cpu_count() or 1)


os.register_at_fork(after_in_child=_threads_of_process.cache_clear)
