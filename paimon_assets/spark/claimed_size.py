"""What a DataFrame of splits claims to hold, so that Spark joins it as what it is.

Spark takes what a Python function returns for as large as what it is given: here a few bytes of
splits, so that any table looks small enough to be sent through the driver to every task. No
function of a DataFrame sets an estimate. But Spark adds those of a union, and multiplies that of a
sample by its fraction. So what the function is given is united with a sample of nothing that Spark
cannot see to be nothing, hence does not leave out: of an RDD, of which Spark knows neither columns
nor rows, and which has no task.

Connect has no RDDs. There it is a sample of two numbers of which none passes, so many times as many
that they would be as large. It has one task.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.spec.options.option import parse_memory
from paimon_assets.engine.spec.types.data_types import DataField

_OF_AN_RDD = "spark.sql.defaultSizeInBytes"
_THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
_OF_A_ROW = 8
_OF_A_TEXT = 20
_WIDTHS = {"integer": 4, "long": 8, "binary": 100}
"""All as Spark estimates them; what is nested counts as a text."""


def with_claimed_size(
    tasks: DataFrame, context: ReadContext, splits: Sequence[DataSplit]
) -> DataFrame:
    """Return what the tasks of a read are given, as large to Spark as the rows they return.

    Rows count before they are merged, and a row is at least as wide as it is in the files. What
    Spark may broadcast needs no claim, and stays as it is.

    Args:
        tasks: What is given to the function that reads; given nothing it returns nothing.
        context: How they read.
        splits: What they read.

    Cost: over Connect one more task an action, with nothing to do.
    """
    session, claimed = tasks.sparkSession, _claim(context, splits)
    if not is_claimed(session, context, splits):
        return tasks
    nothing = _no_rows(session, tasks.schema)
    if nothing is not None:
        of_rdd = parse_memory(str(session.conf.get(_OF_AN_RDD)))
        return tasks.union(nothing.sample(fraction=min(1.0, claimed / of_rdd), seed=0))
    columns = [fn.lit(None).cast(field.dataType).alias(field.name) for field in tasks.schema.fields]
    none = session.range(0, 2, 1, 1).where(fn.col("id") + 1 < 1).select(*columns)
    fraction = claimed / (
        _OF_A_ROW + sum(_WIDTHS[field.dataType.typeName()] for field in tasks.schema.fields)
    )
    return tasks.union(none.sample(withReplacement=True, fraction=fraction, seed=0))


def is_claimed(session: SparkSession, context: ReadContext, splits: Sequence[DataSplit]) -> bool:
    """Whether Spark would not broadcast the rows of splits."""
    limit = broadcast_limit(session)
    return 0 <= limit < _claim(context, splits)


def _claim(context: ReadContext, splits: Sequence[DataSplit]) -> int:
    rows = sum(split.row_count for split in splits)
    stored = sum(split.file_bytes for split in splits)
    return max(rows, stored // row_bytes(context.schema.fields)) * row_bytes(context.fields)


def _no_rows(session: SparkSession, schema: StructType) -> DataFrame | None:
    """Return the rows of an RDD that has none; None over Connect."""
    java: Any = getattr(session, "_jsparkSession", None)
    if java is None:
        return None
    context: Any = session.sparkContext
    rows = context._jsc.emptyRDD()  # noqa: SLF001 - PySpark's own would run Python
    return DataFrame(java.createDataFrame(rows, java.parseDataType(schema.json())), session)


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
