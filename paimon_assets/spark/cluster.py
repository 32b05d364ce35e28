"""The rows of a partition in the order of a curve, on Spark: ranges by the curve's values, sorted.

    sample ─▶ cells ─▶ place of each row (mapInArrow) ─▶ repartitionByRange ─▶ sort ─▶ write

Where the columns themselves are the order, Spark compares them, which orders as this engine does.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.contract.clustering import ClusterOrder, Curve
from paimon_assets.engine.data.compact.cluster import SAMPLE_ROWS, ClusterKeys

_PLACE = "__paimon_place"
_SEED = 1
"""The same sample, hence the same layout, each time."""

ArrowMap = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def in_order(frame: DataFrame, order: ClusterOrder, *, row_count: int, parts: int) -> DataFrame:
    """Return the rows, each Spark partition a range of the order, and sorted.

    Args:
        frame: Rows of one partition.
        order: What to sort by.
        row_count: How many rows there are, about.
        parts: How many ranges to make.

    Cost:
        One shuffle of the rows, and a job that samples the sort columns.
    """
    if order.curve is Curve.ORDER:
        columns = [f"`{name.replace('`', '``')}`" for name in order.columns]
        return frame.repartitionByRange(parts, *columns).sortWithinPartitions(*columns)
    names = [frame[f"`{name.replace('`', '``')}`"] for name in order.columns]
    fraction = min(1.0, SAMPLE_ROWS / max(1, row_count))
    sample: pa.Table = frame.select(*names).sample(fraction=fraction, seed=_SEED).toArrow()
    placed = StructType([*frame.schema.fields, StructField(_PLACE, LongType(), nullable=False)])
    located = frame.mapInArrow(_place(ClusterKeys.of(order, sample)), placed)
    return located.repartitionByRange(parts, _PLACE).sortWithinPartitions(_PLACE).drop(_PLACE)


def _place(keys: ClusterKeys) -> ArrowMap:
    """Return what appends each row's place on the curve."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            types = [batch.column(name).type for name in keys.order.columns]
            cast = zip(keys.edges, types, strict=True)
            known = replace(keys, edges=tuple(edges.cast(kind) for edges, kind in cast))
            yield batch.append_column(_PLACE, from_numpy(known.keys(batch).view("int64")))

    return run
