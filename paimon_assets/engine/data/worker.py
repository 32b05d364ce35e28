"""The data plane's API for executors, in this process or on a Spark worker.

Without `threads`, the caller's thread does all the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_assets.engine.add_ons import TASKS
from paimon_assets.engine.contract.commit_message import WriteResult
from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.data.read.split_read import bytes_to_decode, read_split
from paimon_assets.engine.data.threads import CALLER_ONLY, Threads
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.base import FileIO

if TYPE_CHECKING:
    from paimon_assets.engine.data.write.moving_keys import BucketKeys

__all__ = ["bytes_to_decode", "read_split", "run_task", "stored_keys", "write_bucket", "write_rows"]

Task = Callable[[bytes, bytes, FileIO, Threads], bytes]
"""(shared, payload, storage, threads) → result; see `contract.executor`."""


def write_rows(
    context: WriteContext,
    rows: Iterable[pa.RecordBatch],
    file_io: FileIO,
    threads: Threads = CALLER_ONLY,
) -> WriteResult:
    """Write rows of any partitions and buckets, in order.

    At least one batch is required, even an empty one: its schema is checked.
    """
    from paimon_assets.engine.data.write import table_write

    keys = stored_keys(context, file_io, threads)
    return table_write.write_rows(context, rows, file_io, stored_keys=keys, threads=threads)


def stored_keys(
    context: WriteContext, file_io: FileIO, threads: Threads = CALLER_ONLY
) -> Iterator[BucketKeys]:
    """Yield the keys of a table with partition and bucket, if keys may change partition."""
    if context.key_read is not None:
        for split in context.key_read.splits:
            for batch in read_split(context.key_read.context, split, file_io, threads):
                yield split.partition, split.bucket, batch


def write_bucket(
    context: WriteContext,
    partition: bytes,
    bucket: int,
    rows: Iterable[pa.RecordBatch],
    file_io: FileIO,
    threads: Threads = CALLER_ONLY,
) -> WriteResult:
    """Write rows that all belong to one bucket of one partition, in order."""
    from paimon_assets.engine.data.write import table_write

    target = partition, bucket
    return table_write.write_rows(context, rows, file_io, target=target, threads=threads)


def run_task(
    name: str, shared: bytes, payload: bytes, file_io: FileIO, threads: Threads = CALLER_ONLY
) -> bytes:
    task = task_of(name)
    if task is None:
        raise InvalidInputError(
            f"There is no task '{name}'; driver and workers must run the same version of "
            "paimon-assets.",
            kind="task",
        )
    return task(shared, payload, file_io, threads)


def task_of(name: str) -> Task | None:
    """Import the function of a task; a worker loads the modules of its tasks alone."""
    from paimon_assets.engine.contract import report_tasks, write_tasks

    modules = {
        report_tasks.ANALYZE_TASK: ("analyze", "analyze_split"),
        report_tasks.COVERED_TASK: ("read.merge_file_split_read", "covered_rows"),
        write_tasks.COMPACT_TASK: ("compact.compact", "compact"),
        report_tasks.FOOTER_TASK: ("footer", "read_footers"),
        report_tasks.OVERFLOW_TASK: ("cast_losses", "count_losses"),
        write_tasks.POSTPONE_TASK: ("compact.compact", "place_postponed"),
        write_tasks.ROW_CHANGE_TASK: ("row_change", "change_rows"),
    }
    places = {task: (f"paimon_assets.engine.data.{at}", do) for task, (at, do) in modules.items()}
    module, function = (places | TASKS).get(name, ("", ""))
    task: Task | None = getattr(import_module(module), function) if module else None
    return task
