"""The tasks of a read: which splits each has, and how they get there.

few splits    Spark's numbers, one a task ─▶ read, which has the splits of each      no shuffle
many          splits as rows ─▶ repartition ─▶ read                              each its own
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.wire import dump_split
from paimon_assets.spark.packing import columns
from paimon_assets.spark.python_rows import ArrowMap, PythonRows
from paimon_assets.spark.session_cache import SessionCache
from paimon_assets.spark.shuffle import partition_slots

_SCHEMA = columns(slot=pa.int32(), number=pa.int32(), split=pa.binary())
_SENT_TO_ALL_BYTES = 256 * 1024
"""Up to this every task gets all splits of a read: that costs less than a shuffle."""
_TASK_BYTES = 128 * 1024 * 1024
"""File bytes that one task reads: the default of `spark.sql.files.maxPartitionBytes`."""
_OPEN_FILE_BYTES = 256 * 1024
"""What is decoded while a file is opened. A Python task costs far more than that."""
_numbers = SessionCache(64)
"""How many tasks → their numbers."""


def split_rows(
    session: SparkSession, splits: Sequence[DataSplit], tasks: Sequence[int], read: ArrowMap
) -> PythonRows:
    """Return the rows of splits, the i-th read in Spark partition `tasks[i]`, in order."""
    count, payloads = tasks[-1] + 1, [dump_split(split) for split in splits]
    if sum(map(len, payloads)) <= _SENT_TO_ALL_BYTES:
        of_tasks: list[list[bytes]] = [[] for _ in range(count)]
        for task, payload in zip(tasks, payloads, strict=True):
            of_tasks[task].append(payload)
        numbers = task_numbers(session, count)
        return PythonRows(tasks=numbers, read=_with_splits(read, of_tasks), numbers=count)
    slots = partition_slots(count)
    located = {
        "slot": [slots[task] for task in tasks],
        "number": range(len(splits)),
        "split": payloads,
    }
    frame = session.createDataFrame(pa.table(located, _SCHEMA))
    ordered = frame.repartition(count, "slot").sortWithinPartitions("number")
    return PythonRows(tasks=ordered, read=read)


def task_numbers(session: SparkSession, count: int) -> DataFrame:
    """Return the numbers of tasks from 0, column `id`, each in a Spark partition of its own."""
    return _numbers.frame(session, count, lambda: session.range(0, count, 1, count))


def _with_splits(read: ArrowMap, of_tasks: Sequence[Sequence[bytes]]) -> ArrowMap:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return read(
            pa.record_batch([pa.array(of_tasks[number], pa.binary())], ["split"])
            for batch in batches
            for number in map(int, batch["id"].to_numpy())
        )

    return run


def tasks_by_bytes(sizes: Sequence[int], limit_bytes: int) -> list[int]:
    """Number the tasks of splits by their sizes: neighbours share one up to about `limit_bytes`."""
    tasks = []
    task, task_bytes = 0, 0
    for size in sizes:
        if task_bytes and task_bytes + size > limit_bytes:
            task, task_bytes = task + 1, 0
        tasks.append(task)
        task_bytes += size
    return tasks


def tasks_by_cost(splits: Sequence[DataSplit], cores: int) -> list[int]:
    """Number the tasks of splits: neighbours share one, of about Spark's 128 MB or a core's share.

    Opening a file counts as bytes, too.
    """
    costs = [split.file_bytes + _OPEN_FILE_BYTES * len(split.data_files) for split in splits]
    total = max(1, sum(costs))
    count = max(cores, -(-total // _TASK_BYTES))
    middles = [end - cost / 2 for end, cost in zip(accumulate(costs), costs, strict=True)]
    shares = [int(middle * count / total) for middle in middles]
    numbers = {share: number for number, share in enumerate(dict.fromkeys(shares))}
    return [numbers[share] for share in shares]
