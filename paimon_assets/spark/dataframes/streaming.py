"""Structured Streaming into a table: every micro-batch one commit, exactly once.

    rows.writeStream.foreachBatch(streaming_sink(table)).option("checkpointLocation", …).start()

Spark repeats a batch whose end it did not note in the checkpoint, with the same number and rows.
The commit carries the query's id, which the checkpoint keeps over restarts, as its user and the
batch's number as its identifier: a repeated batch finds its commit and writes nothing.
"""

import logging
from collections.abc import Callable

from pyspark.errors import PySparkAttributeError
from pyspark.sql import DataFrame

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.table.table import Table
from paimon_assets.spark.executor import SparkExecutor
from paimon_assets.spark.failure import encoded_errors

logger = logging.getLogger(__name__)

_QUERY_ID = "sql.streaming.queryId"


def streaming_sink(
    table: Table, *, commit_user: str | None = None, commit_empty: bool = False
) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch`: it appends, or upserts by primary key.

    Args:
        table: Where to; each batch is written as its schema is then.
        commit_user: Who commits; default: the query, by the id in its checkpoint. Spark Connect
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
