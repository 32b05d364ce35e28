"""DataFrames whose rows Python tasks make, so that a write may run in the same tasks.

    files ─▶ read (mapInArrow) ─▶ DataFrame ─▶ route (mapInArrow) ─▶ …     rows through the JVM
    files ─▶ read, then route (one mapInArrow) ─▶ …                        rows stay in Python

Spark turns rows that pass from one Python stage into another into its own rows and back, which
costs more than to read and to route them. A DataFrame remembers how its rows are made; one that is
computed from it does not.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import Splits
from paimon_assets.engine.contract.wire import dump_split
from paimon_assets.engine.spec.options.all_options import parse_memory
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.values import Value
from paimon_assets.spark.job_names import is_connect
from paimon_assets.spark.packing import columns
from paimon_assets.spark.shuffle import partition_slots


class SessionCache:
    """Objects in the JVM of a session, by key: those used last; DataFrames hold their session.

    They weigh `most` together; the newest is kept in any case.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._of: WeakKeyDictionary[SparkSession, OrderedDict[object, tuple[Any, int]]] = (
            WeakKeyDictionary()
        )
        self._lock = threading.Lock()

    def get(self, session: SparkSession, key: object) -> Any | None:
        with self._lock:
            made = self._of.setdefault(session, OrderedDict())
            if key in made:
                made.move_to_end(key)
            return made.get(key, (None, 0))[0]

    def keep(self, session: SparkSession, key: object, java: Any, weight: int = 1) -> None:
        with self._lock:
            made = self._of.setdefault(session, OrderedDict())
            made[key] = (java, weight)
            while len(made) > 1 and sum(each for _, each in made.values()) > self._most:
                made.popitem(last=False)

    def frame(self, session: SparkSession, key: object, make: Callable[[], DataFrame]) -> DataFrame:
        """Return the DataFrame kept under a key; `make` makes a first one, and each over Connect.

        Two of one key have the same columns to Spark: only for DataFrames that are never joined.
        """
        if is_connect(session):
            return make()
        java = self.get(session, key)
        if java is not None:
            return DataFrame(java, session)
        made = make()
        self.keep(session, key, made._jdf)  # noqa: SLF001 - the DataFrame would hold its session
        return made


ArrowMap = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class PythonRows(Value):
    """Rows that tasks of our own read, wherever that is called."""

    tasks: DataFrame
    """Input of the tasks; its Spark partitions are the tasks."""
    read: ArrowMap
    """Given the rows of `tasks`, returns the rows meant, in the Arrow types of the DataFrame."""
    numbers: int | None = None
    """How many tasks there are, if all that they are given is their numbers, from 0."""

    def frame(self, schema: StructType | str) -> DataFrame:
        return self.tasks.mapInArrow(self.read, schema)


def map_in_arrow(frame: DataFrame, work: ArrowMap, schema: str) -> DataFrame:
    """Return `frame.mapInArrow(…)`, which takes a column's name for SQL: `a.b` for a field."""
    if any(sign in name for name in frame.columns for sign in ".`"):
        frame = frame.toDF(*(f"c{number}" for number in range(len(frame.columns))))
    return frame.mapInArrow(work, schema)


_made: WeakKeyDictionary[DataFrame, PythonRows] = WeakKeyDictionary()


def remembering(frame: DataFrame, rows: PythonRows) -> DataFrame:
    _made[frame] = rows
    return frame


def python_rows(frame: DataFrame) -> PythonRows | None:
    """Return how the rows of a DataFrame are made; None if they are something else's, or kept."""
    rows = _made.get(frame)
    return None if rows is None or frame.is_cached else rows


_SCHEMA = columns(slot=pa.int32(), number=pa.int32(), split=pa.binary())
_SENT_TO_ALL_BYTES = 256 * 1024
"""Up to this every task gets all splits of a read: that costs less than a shuffle."""
_TASK_BYTES = 128 * 1024 * 1024
"""File bytes that one task reads: the default of `spark.sql.files.maxPartitionBytes`."""
_OPEN_FILE_BYTES = 256 * 1024
"""Bytes that are decoded while a file is opened. A Python task costs far more than that."""
ROW_BYTES, _TEXT_BYTES = 8, 20
"""Spark's estimate of a row without columns, and of a text."""
_numbers = SessionCache(64)


def split_rows(
    session: SparkSession, splits: Splits, tasks: Sequence[int], read: ArrowMap
) -> PythonRows:
    """Return the rows of splits, the i-th read in Spark partition `tasks[i]`, in order."""
    count, payloads = tasks[-1] + 1, [dump_split(split) for split in splits]
    if sum(map(len, payloads)) <= _SENT_TO_ALL_BYTES:
        of_tasks: list[list[bytes]] = [[] for _ in range(count)]
        for task, payload in zip(tasks, payloads, strict=True):
            of_tasks[task].append(payload)
        numbers = task_numbers(session, count)
        return PythonRows(tasks=numbers, read=partial(_read_splits, read, of_tasks), numbers=count)
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


def _read_splits(
    read: ArrowMap, splits: Sequence[Sequence[bytes]], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read the splits of the tasks whose numbers come."""
    return read(
        pa.record_batch([pa.array(splits[number], pa.binary())], ["split"])
        for batch in batches
        for number in map(int, batch["id"].to_numpy())
    )


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


def tasks_by_cost(splits: Splits, cores: int) -> list[int]:
    """Number the tasks of splits: neighbours share one of 128 MB or a core's share."""
    costs = [split.file_bytes + _OPEN_FILE_BYTES * len(split.data_files) for split in splits]
    total = max(1, sum(costs))
    count = max(cores, -(-total // _TASK_BYTES))
    middles = [end - cost / 2 for end, cost in zip(accumulate(costs), costs, strict=True)]
    shares = [int(middle * count / total) for middle in middles]
    numbers = {share: number for number, share in enumerate(dict.fromkeys(shares))}
    return [numbers[share] for share in shares]


def is_large_to_spark(session: SparkSession, context: ReadContext, splits: Splits) -> bool:
    """Whether Spark would not broadcast the rows of splits to a join."""
    text = str(session.conf.get("spark.sql.autoBroadcastJoinThreshold"))
    # Below 0 Spark broadcasts nothing.
    return not text.startswith("-") and parse_memory(text) < size_in_spark(context, splits)


def size_in_spark(context: ReadContext, splits: Splits) -> int:
    """Return the bytes that Spark would estimate for the rows of splits.

    Rows count before they are merged, and a row is at least as wide as it is in the files.
    """
    rows = sum(split.row_count for split in splits)
    stored = sum(split.file_bytes for split in splits)
    return max(rows, stored // row_bytes(context.schema.fields)) * row_bytes(context.fields)


def row_bytes(fields: Sequence[DataField]) -> int:
    """Return the bytes that Spark estimates for a row; a nested column counts as a text."""
    types: Sequence[Any] = to_arrow_schema(fields).types
    widths = [t.bit_width // 8 or 1 if pat.is_primitive(t) else _TEXT_BYTES for t in types]
    return ROW_BYTES + sum(widths)
