"""Tables and DataFrames in one call each."""

from dataclasses import replace
from weakref import ref

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from paimon_assets.engine.table.read.plan import CountPlan, counted_columns
from paimon_assets.engine.table.read.read_builder import Plan, ReadBuilder
from paimon_assets.engine.table.system import GlobalSystemTable, SystemTable
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.write.write_builder import WriteBuilder, WriteOutcome
from paimon_assets.spark.executor import SparkExecutor
from paimon_assets.spark.types import arrow_to_spark_schema, spark_arrow_schema, to_spark_batch


def to_spark(read: ReadBuilder, session: SparkSession) -> DataFrame:
    """Plan a read now and return its rows as a lazy DataFrame.

    Raises:
        PaimonError: As `ReadBuilder.plan`.
        UnsupportedFeatureError: A column has a type this Spark does not have.

    >>> to_spark(table.new_read_builder().with_filter("price > 3"), spark)    # doctest: +SKIP
    """
    frame = plan_to_spark(read.plan(), session)
    return frame if read.limit is None else frame.limit(read.limit)


def plan_to_spark(plan: Plan, session: SparkSession) -> DataFrame:
    """Return the rows of a plan as a lazy DataFrame, whose own `count()` asks the metadata.

    Of what is computed from it, and of rows that Spark keeps, Spark counts the rows.

    Raises:
        UnsupportedFeatureError: A column has a type this Spark does not have.
    """
    executor = SparkExecutor(session)
    frame = executor.to_dataframe(plan.context, plan.splits)
    if any(split.is_streaming or split.is_difference for split in plan.splits):
        return frame
    columns = counted_columns(plan.context.schema, plan.context.predicate)
    context = replace(plan.context, columns=tuple(columns))
    this, of_spark = ref(frame), type(frame).count

    def count() -> int:
        kept = this()
        if kept is not None and kept.is_cached:
            return of_spark(kept)
        return CountPlan.of(context, plan.splits).count(executor)

    frame.count = count  # type: ignore[method-assign]  # of this DataFrame alone
    return frame


def system_to_spark(table: SystemTable | GlobalSystemTable, session: SparkSession) -> DataFrame:
    """Return a system table as a DataFrame; its rows are read now, into this process.

    For large ones there is `format("paimon_assets")`, which reads in a task.

    Raises:
        UnsupportedFeatureError: A column has a type this Spark does not have.
        FormatError, StorageError: Metadata is damaged, or the storage failed.

    >>> system_to_spark(catalog.get_system_table("db.t$snapshots"), spark)    # doctest: +SKIP
    """
    schema = arrow_to_spark_schema(table.arrow_schema)
    arrow_schema = spark_arrow_schema(schema)
    batches = [to_spark_batch(batch, arrow_schema) for batch in table.to_reader()]
    return session.createDataFrame(pa.Table.from_batches(batches, arrow_schema), schema)


def write_dataframe(target: Table | WriteBuilder, frame: DataFrame) -> WriteOutcome:
    """Write a DataFrame's rows as one snapshot; those of a bucket are brought to one task.

    Args:
        target: A table, to append or, with a primary key, to upsert; or any write described by
            `table.new_write_builder()`, such as an overwrite.
        frame: The table's columns by name, in any order.

    Raises:
        InvalidInputError: The rows do not fit the table; nothing was committed.
        PaimonError: As `WriteBuilder.write`.

    >>> write_dataframe(table.new_write_builder().with_overwrite({"dt": "2024-01-01"}), frame)
    ... # doctest: +SKIP
    """
    builder = target.new_write_builder() if isinstance(target, Table) else target
    return builder.write(frame, SparkExecutor(frame.sparkSession))
