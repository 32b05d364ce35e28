"""The data plane's API: what an executor calls, in this process or on a Spark worker.

Without `threads`, the caller's thread does all the work.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa

from paimon_assets.engine.contract.commit_message import WriteResult
from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.contract.report_tasks import ANALYZE_TASK, FOOTER_TASK, OVERFLOW_TASK
from paimon_assets.engine.contract.write_tasks import (
    COLUMN_TASK,
    COMPACT_TASK,
    POSTPONE_TASK,
    ROW_CHANGE_TASK,
)
from paimon_assets.engine.data.analyze import analyze_split
from paimon_assets.engine.data.cast_losses import count_losses
from paimon_assets.engine.data.column_update import write_columns
from paimon_assets.engine.data.compact.compact import compact, place_postponed
from paimon_assets.engine.data.footer import read_footers
from paimon_assets.engine.data.read.split_read import bytes_to_decode, read_split
from paimon_assets.engine.data.row_change import change_rows
from paimon_assets.engine.data.threads import CALLER_ONLY, Threads
from paimon_assets.engine.data.write import table_write
from paimon_assets.engine.data.write.moving_keys import BucketKeys
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.base import FileIO

__all__ = [
    "TASKS",
    "bytes_to_decode",
    "read_split",
    "run_task",
    "stored_keys",
    "write_bucket",
    "write_rows",
]

Task = Callable[[bytes, bytes, FileIO, Threads], bytes]
"""(shared, payload, storage, threads) → result; see `contract.executor`."""

TASKS: Mapping[str, Task] = {
    ANALYZE_TASK: analyze_split,
    COLUMN_TASK: write_columns,
    COMPACT_TASK: compact,
    FOOTER_TASK: read_footers,
    OVERFLOW_TASK: count_losses,
    POSTPONE_TASK: place_postponed,
    ROW_CHANGE_TASK: change_rows,
}


def write_rows(
    context: WriteContext,
    rows: Iterable[pa.RecordBatch],
    file_io: FileIO,
    threads: Threads = CALLER_ONLY,
) -> WriteResult:
    """Write rows of any partitions and buckets, in order.

    At least one batch is required, even an empty one: its schema is checked.
    """
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
    target = partition, bucket
    return table_write.write_rows(context, rows, file_io, target=target, threads=threads)


def run_task(
    name: str, shared: bytes, payload: bytes, file_io: FileIO, threads: Threads = CALLER_ONLY
) -> bytes:
    task = TASKS.get(name)
    if task is None:
        raise InvalidInputError(
            f"There is no task '{name}'; driver and workers must run the same version of "
            "paimon-assets.",
            kind="task",
        )
    return task(shared, payload, file_io, threads)
