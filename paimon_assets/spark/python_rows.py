"""DataFrames whose rows Python tasks make, so that a write may run in the same tasks.

    files ─▶ read (mapInArrow) ─▶ DataFrame ─▶ route (mapInArrow) ─▶ …     rows through the JVM
    files ─▶ read, then route (one mapInArrow) ─▶ …                        rows stay in Python

Spark turns rows that pass from one Python stage into another into its own rows and back, which
costs more than to read and to route them. A DataFrame remembers how its rows are made; what is
computed from it is another DataFrame, which does not.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from paimon_assets.spark.short_decimals import mapped_rows

ArrowMap = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonRows:
    """Rows that tasks of our own read, wherever that is called."""

    tasks: DataFrame
    """What the tasks are given; its Spark partitions are the tasks."""
    read: ArrowMap
    """Given the rows of `tasks`, returns the rows meant, in the Arrow types of the DataFrame."""
    numbers: int | None = None
    """How many tasks there are, if all that they are given is their numbers, from 0."""

    def frame(self, schema: StructType | str) -> DataFrame:
        """Return the rows as a lazy DataFrame."""
        if isinstance(schema, StructType):
            return mapped_rows(self.tasks, self.read, schema)
        return self.tasks.mapInArrow(self.read, schema)


_made: WeakKeyDictionary[DataFrame, PythonRows] = WeakKeyDictionary()


def remembering(frame: DataFrame, rows: PythonRows) -> DataFrame:
    """Return a DataFrame, which from now on remembers how its rows are made."""
    _made[frame] = rows
    return frame


def python_rows(frame: DataFrame) -> PythonRows | None:
    """Return how the rows of a DataFrame are made; None if they are something else's, or kept."""
    rows = _made.get(frame)
    return None if rows is None or frame.is_cached else rows
