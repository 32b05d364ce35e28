"""Tables and DataFrames in one call each, and a stream's batches into a table, each exactly once.

    rows.writeStream.foreachBatch(streaming_sink(table)).option("checkpointLocation", …).start()

Spark repeats a batch whose end it did not note in the checkpoint, with the same number and rows.
The commit carries the query's id, which the checkpoint keeps over restarts, as its user and the
batch's number as its identifier: a repeated batch finds its commit and writes nothing.
"""

import logging
from collections.abc import Callable
from weakref import ref

import pyarrow as pa
from msgspec.structs import replace
from pyspark.errors import PySparkAttributeError
from pyspark.sql import DataFrame, SparkSession

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.table.read.plan import CountPlan, counted_columns
from paimon_assets.engine.table.read.read_builder import Plan, ReadBuilder
from paimon_assets.engine.table.system.system_table import GlobalSystemTable, SystemTable
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.write.write_builder import WriteBuilder, WriteOutcome
from paimon_assets.spark.executor import SparkExecutor
from paimon_assets.spark.failure import encoded_errors
from paimon_assets.spark.types import arrow_to_spark_schema, spark_arrow_schema, to_spark_batch

logger = logging.getLogger(__name__)

_QUERY_ID = "sql.streaming.queryId"


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

    Of DataFrames computed from it, and of rows that Spark keeps, Spark counts the rows.

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


def streaming_sink(
    table: Table, *, commit_user: str | None = None, commit_empty: bool = False
) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch`: it appends, or upserts by primary key.

    >>> rows.writeStream.foreachBatch(streaming_sink(table)).start()     # doctest: +SKIP

    Args:
        table: The target; each batch is written with its schema of that time.
        commit_user: The committer; default: the query, by the id in its checkpoint. Spark Connect
            needs one. A name serves one checkpoint for ever: numbers of batches start again with a
            new checkpoint, and batches whose numbers this user committed before are left out.
        commit_empty: Make a snapshot of a batch without rows too.

    Raises:
        WorkerError: In the query, with the `PaimonError` inside (`failure.error_inside`); the
            batch is repeated when the query is started again.

    Cost:
        A plan and a commit a batch, beside the write. A repeated batch is looked for in the
        snapshots that have not expired: keep at least one of the query's.
    """

    def write_batch(batch: DataFrame, number: int) -> None:
        with encoded_errors():
            builder = (
                table.copy({})  # the caller's stays
                .refresh()
                .new_write_builder()
                .with_commit_user(commit_user or _query_user(batch))
                .with_commit_identifier(number)
            )
            if commit_empty:
                builder = builder.with_empty_commits()
            outcome = builder.write(batch, SparkExecutor(batch.sparkSession))
        if outcome.was_already_committed:
            logger.info("%s holds batch %d already; it is not written again", table.name, number)

    return write_batch


def _query_user(batch: DataFrame) -> str:
    try:
        query = batch.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    except PySparkAttributeError:
        query = None
    if not query:
        raise InvalidInputError(
            "The id of the streaming query is not known here; name a commit_user of this query's "
            "own, the same after every restart.",
            kind="streaming-query",
        )
    return f"spark-query:{query}"
