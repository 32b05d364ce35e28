"""The rows of a partition in the order of a curve, on Spark: ranges by the curve's values, sorted.

    sample ─▶ cells ─▶ rows with their places (mapInArrow) ─▶ repartition(range) ─▶ sort ─▶ write

Where the columns themselves are the order, Spark compares them, which orders as this engine does.
"""

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import LongType, StructField, StructType

from paimon_assets.engine.codec.arrow.numpy_columns import Longs, from_numpy
from paimon_assets.engine.contract.executor import ClusterOrder
from paimon_assets.engine.data.cluster import SAMPLE_ROWS, ClusterKeys
from paimon_assets.spark.python_rows import ArrowMap, PythonRows
from paimon_assets.spark.shuffle import partition_slots
from paimon_assets.spark.types import quote

_PLACE = "__paimon_place"
_RANGE = "__paimon_range"
_SEED = 1
"""The same sample, hence the same layout, each time."""


def in_order(frame: DataFrame, order: ClusterOrder, *, parts: int) -> DataFrame:
    """Return rows sorted, each Spark partition a range of the columns. Cost: a shuffle."""
    columns = [quote(name) for name in order.columns]
    return frame.repartitionByRange(parts, *columns).sortWithinPartitions(*columns)


def on_curve(
    rows: PythonRows, frame: DataFrame, order: ClusterOrder, *, row_count: int, parts: int
) -> DataFrame:
    """Return the rows of a partition, each Spark partition a range of a curve, and sorted.

    Cost:
        One shuffle of the rows, and a job that samples the sort columns. Ranges are as even as the
        sample is; Spark's own would read all rows once more.
    """
    fraction = min(1.0, SAMPLE_ROWS / max(1, row_count))
    columns = frame.select(*(frame[quote(name)] for name in order.columns))
    sample: pa.Table = columns.sample(fraction=fraction, seed=_SEED).toArrow()
    keys = ClusterKeys.of(order, sample)
    places = np.sort(_places(keys, sample))
    bounds = (
        np.unique(places[np.arange(1, parts) * len(places) // parts]) if len(places) else places
    )
    slots = np.array(partition_slots(len(bounds) + 1), dtype=np.int64)
    added = (StructField(name, LongType(), nullable=False) for name in (_PLACE, _RANGE))
    placed = StructType([*frame.schema.fields, *added])
    located = rows.tasks.mapInArrow(partial(_place, rows.read, keys, bounds, slots), placed)
    ranges = located.repartition(len(slots), fn.col(_RANGE).cast("int"))
    return ranges.sortWithinPartitions(_PLACE).drop(_PLACE, _RANGE)


def _place(
    read: ArrowMap,
    keys: ClusterKeys,
    bounds: Longs,
    slots: Longs,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Add the curve position and the slot of its range to each row."""
    for batch in read(batches):
        places = _places(keys, batch)
        reached = slots[np.searchsorted(bounds, places, side="right")]
        located = batch.append_column(_PLACE, from_numpy(places))
        yield located.append_column(_RANGE, from_numpy(reached))


def _places(keys: ClusterKeys, rows: pa.Table | pa.RecordBatch) -> Longs:
    types = [rows.schema.field(name).type for name in keys.order.columns]
    cast = (edges.cast(kind) for edges, kind in zip(keys.edges, types, strict=True))
    return replace(keys, edges=tuple(cast)).keys(rows).view("int64")
