"""The size that Spark assumes for a read: large tables stay off the driver, at no gain of time.

A join of two tables of a million rows takes 3.2 s of CPU, and 2.7 without this: then one of them is
broadcast, as any table would be, however large, because Spark takes each for 232 bytes.

Spark chooses joins by sizes. It takes the result of a Python function for as large as its input:
here a few bytes of splits, so that any table would be sent through the driver to every task. No
function of a DataFrame sets an estimate. But Spark adds those of a union, and multiplies that of a
sample by its fraction. So the function's input is united with a sample of nothing that Spark
cannot see to be nothing, hence does not leave out: of an RDD, of which Spark knows neither columns
nor rows, and which has no task.

Connect has no RDDs. There it is a sample of two numbers of which none passes, so many times as many
that they would be as large. It has one task.
"""

from typing import Any

from msgspec.structs import replace
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import Splits
from paimon_assets.engine.spec.options.all_options import parse_memory
from paimon_assets.spark import python_rows
from paimon_assets.spark.job_names import is_connect

_OF_AN_RDD = "spark.sql.defaultSizeInBytes"
_WIDTHS = {"integer": 4, "long": 8, "binary": 100}
"""As Spark estimates them."""
_claiming = python_rows.SessionCache(64)
"""(number of tasks, claimed bytes) → their numbers."""


def with_size_estimate(
    rows: python_rows.PythonRows, context: ReadContext, splits: Splits
) -> python_rows.PythonRows:
    """Return the rows of a read, whose tasks get an input that Spark takes for as large as them.

    Rows that Spark may broadcast need no claim, and stay. Tasks of numbers are kept for the
    next read that claims the same.

    Cost:
        6 milliseconds in the driver, unless kept. Over Connect one more task an action, with
        nothing to do.
    """
    session = rows.tasks.sparkSession
    if not python_rows.is_large_to_spark(session, context, splits):
        return rows
    claimed = python_rows.size_in_spark(context, splits)
    if is_connect(session):
        return replace(rows, tasks=_beside_none(rows.tasks, claimed))
    if rows.numbers is None:
        return replace(rows, tasks=_beside_nothing(rows.tasks, claimed))
    key = rows.numbers, claimed
    tasks = _claiming.frame(session, key, lambda: _beside_nothing(rows.tasks, claimed))
    return replace(rows, tasks=tasks)


def _beside_nothing(tasks: DataFrame, claimed: int) -> DataFrame:
    """Return tasks united with a sample of an RDD that has no rows."""
    session = tasks.sparkSession
    java: Any = session._jsparkSession  # noqa: SLF001
    context: Any = session.sparkContext
    rows = context._jsc.emptyRDD()  # noqa: SLF001 - PySpark's own would run Python
    nothing = java.createDataFrame(rows, java.parseDataType(tasks.schema.json()))
    of_rdd = parse_memory(str(session.conf.get(_OF_AN_RDD)))
    sample = DataFrame(nothing, session).sample(fraction=min(1.0, claimed / of_rdd), seed=0)
    return tasks.union(sample)


def _beside_none(tasks: DataFrame, claimed: int) -> DataFrame:
    """Return tasks united with a sample of rows of which none passes a filter."""
    session, fields = tasks.sparkSession, tasks.schema.fields
    columns = [fn.lit(None).cast(field.dataType).alias(field.name) for field in fields]
    none = session.range(0, 2, 1, 1).where(fn.col("id") + 1 < 1).select(*columns)
    fraction = claimed / (
        python_rows.ROW_BYTES + sum(_WIDTHS[field.dataType.typeName()] for field in fields)
    )
    return tasks.union(none.sample(withReplacement=True, fraction=fraction, seed=0))
