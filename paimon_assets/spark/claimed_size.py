"""What a DataFrame of splits claims to hold, so that Spark joins it as what it is.

Spark estimates what a Python function returns by what it is given: here a few bytes of splits, so
that any table looks small enough to be sent through the driver to every task. No function of a
DataFrame sets an estimate. But Spark adds those of a union, and multiplies that of a sample with
replacement by its fraction. So rows are united with a sample of nothing: of two numbers of which
none passes, so many times as many that they would be as large. It has one task, which finds nothing
to read. Spark cannot see that no number passes, hence it does not leave it out.
The sample goes through the same function: Spark knows nothing of its columns, whatever their types.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.spec.options.option import parse_memory
from paimon_assets.engine.spec.types.data_types import DataField

_THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
_OF_TWO_NUMBERS = 16
_OF_A_ROW = 8
_OF_A_TEXT = 20
"""All as Spark estimates them; what is nested counts as a text."""


def with_claimed_size(
    frame: DataFrame,
    read: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    context: ReadContext,
    splits: Sequence[DataSplit],
) -> DataFrame:
    """Return a frame that claims the size of the rows of splits, if Spark would not broadcast them.

    Rows count before they are merged, and a row is at least as wide as it is in the files. What
    Spark may broadcast needs no claim, and stays as it is.

    Args:
        frame: The rows, as `read` returns them.
        read: What `mapInArrow` calls; given nothing it returns nothing.
        context: How they are read.
        splits: Where they come from.

    Cost: one more task an action, with nothing to do.
    """
    rows = sum(split.row_count for split in splits)
    stored = sum(split.file_bytes for split in splits)
    rows = max(rows, stored // row_bytes(context.schema.fields))
    claimed = rows * row_bytes(context.fields)
    limit = broadcast_limit(frame.sparkSession)
    if limit < 0 or claimed <= limit:
        return frame
    nothing = frame.sparkSession.range(0, 2, 1, 1).where(fn.col("id") + 1 < 1)
    fraction = claimed / _OF_TWO_NUMBERS
    sample = nothing.sample(withReplacement=True, fraction=fraction, seed=0)
    return frame.union(sample.mapInArrow(read, frame.schema))


def broadcast_limit(session: SparkSession) -> int:
    """Return up to how many bytes Spark broadcasts a side of a join; below 0, it never does."""
    text = str(session.conf.get(_THRESHOLD))
    return -1 if text.startswith("-") else parse_memory(text)


def row_bytes(fields: Sequence[DataField]) -> int:
    """Return about how many bytes Spark takes a row of these columns for."""
    widths: list[int] = [_width(column.type) for column in to_arrow_schema(fields)]
    return _OF_A_ROW + sum(widths)


def _width(arrow_type: pa.DataType) -> int:
    return arrow_type.bit_width // 8 or 1 if pa.types.is_primitive(arrow_type) else _OF_A_TEXT
