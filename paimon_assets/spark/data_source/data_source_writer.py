"""`df.write.format("paimon_assets")`: rows into tables without buckets.

Mode `append` adds rows, `overwrite` replaces all of the table, each in one snapshot. A stream makes
one of each batch (`writeStream`, mode `append` or `complete`), under the id that its checkpoint has
for the query: a batch that Spark repeats finds its commit, as with `streaming_sink`.

Spark gives a data source its rows as they lie, and offers no shuffle: rows of one bucket would come
to several tasks. Tables with buckets are therefore written by `spark.tables.write_dataframe`.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from paimon_assets.engine.contract.commit_message import WriteResult
from paimon_assets.engine.contract.wire import dump, load, load_error
from paimon_assets.engine.data.write.input_check import InputCheck
from paimon_assets.engine.errors import InvalidInputError, PaimonError, UnsupportedFeatureError
from paimon_assets.engine.fileio.opening import file_io_for
from paimon_assets.engine.spec.schema.schema import BucketMode
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.write.write_builder import WriteBuilder
from paimon_assets.spark.data_source.location import Location
from paimon_assets.spark.failure import encoded_errors
from paimon_assets.spark.packing import empty_batch
from paimon_assets.spark.types import from_spark_schema, spark_arrow_schema
from paimon_assets.spark.worker import RowSource, write_unrouted

_HAS_STREAMS = hasattr(datasource, "DataSourceStreamArrowWriter")
"""Streams of Spark 4.0 would come row by row."""

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as _StreamArrowWriter
else:
    _StreamArrowWriter = getattr(datasource, "DataSourceStreamArrowWriter", object)

_SINK = (
    "`writeStream.foreachBatch(streaming_sink(table))`, of paimon_assets.spark.dataframes.streaming"
)


@dataclass
class Written(WriterCommitMessage):
    """The result of one task, or its error, as bytes of `contract.wire`."""

    result: bytes | None
    error: bytes | None


class TaskWriter(DataSourceArrowWriter):
    """Writes data files in Spark's tasks; holds the storage of the table, and no catalog."""

    def __init__(self, context: bytes, source: RowSource) -> None:
        self._context = context
        self._source = source

    def write(  # type: ignore[override]  # because writers of Arrow take batches, not rows
        self, iterator: "Iterator[pa.RecordBatch]"
    ) -> WriterCommitMessage:
        """Write the rows of one task."""
        answers = list(write_unrouted(self._context, self._source)(iterator))
        row = answers[-1].to_pylist()[0]
        return Written(result=row["result"], error=row["error"])

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Refuse; the driver has a `TableWriter` for that."""
        with encoded_errors():
            raise UnsupportedFeatureError(
                "This Spark hands out the writer of a data source in another order; nothing was"
                " committed. Write by `write_dataframe` of paimon_assets.spark.dataframes.tables.",
                kind="spark-format-write",
            )

    abort = commit


class TableWriter(TaskWriter):
    """Commits the files of all tasks once, on the driver.

    Spark sends the same writer to tasks and to the process of the driver that commits, pickled
    twice, for the tasks first. How to open the catalog is in the second only.
    """

    def __init__(
        self, location: Location, context: bytes, source: RowSource, *, overwrite: bool
    ) -> None:
        super().__init__(context, source)
        self._location = location
        self._overwrite = overwrite
        self._is_sent = False

    def __reduce__(self) -> tuple[Any, ...]:
        if self._is_sent:
            return _committing, (self._location, self._context, self._source, self._overwrite)
        self._is_sent = True
        return TaskWriter, (self._context, self._source)

    @classmethod
    def of(cls, location: Location, schema: StructType, *, overwrite: bool) -> "TableWriter":
        """Check the columns and prepare the write."""
        table = location.table()
        _refuse_buckets(table, "`write_dataframe` of paimon_assets.spark.dataframes.tables")
        from_spark_schema(schema)
        source = RowSource(schema=spark_arrow_schema(schema), is_packed=False)
        context = _builder(table, overwrite=overwrite).prepare()
        check = InputCheck(table=context.table, schema=context.schema)
        check.conform(empty_batch(source.table_schema))
        return cls(location, dump(context), source, overwrite=overwrite)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make one snapshot of the files of all tasks."""
        with encoded_errors():
            _commit(self.reopened(), messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove the files of a write of which a task failed."""
        with encoded_errors():
            self.reopened().abort(_result(messages).messages)

    def reopened(self) -> WriteBuilder:
        """Return the write on the table as it is now."""
        return _builder(self._location.table(), overwrite=self._overwrite)


def _committing(
    location: Location,
    context: bytes,
    source: RowSource,
    overwrite: bool,  # noqa: FBT001 - as pickles give it
) -> TableWriter:
    return TableWriter(location, context, source, overwrite=overwrite)


class TableStreamWriter(_StreamArrowWriter):
    """Writes the data files of a batch in Spark's tasks and commits them once, on the driver."""

    def __init__(self, writer: TableWriter, user: str) -> None:
        self._writer = writer
        self._user = user

    @classmethod
    def of(cls, location: Location, schema: StructType, *, overwrite: bool) -> "TableStreamWriter":
        """Check the columns and prepare the write of a batch."""
        _refuse_stream(location)
        writer = TableWriter.of(location, schema, overwrite=overwrite)
        return cls(writer, f"spark-query:{_query_of(location)}")

    def write(  # type: ignore[override]  # because writers of Arrow take batches, not rows
        self, iterator: "Iterator[pa.RecordBatch]"
    ) -> WriterCommitMessage:
        """Write the rows of one task."""
        return self._writer.write(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Make one snapshot of a batch, unless it was made when the batch came before."""
        with encoded_errors():
            builder = self._reopen(batchId)
            if builder.find_committed() is not None:
                builder.abort(_result(messages).messages)
            else:
                _commit(builder, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Remove the files of a batch of which a task failed."""
        with encoded_errors():
            self._reopen(batchId).abort(_result(messages).messages)

    def _reopen(self, number: int) -> WriteBuilder:
        builder = self._writer.reopened().with_commit_user(self._user)
        return builder.with_commit_identifier(number)


def _refuse_buckets(table: Table, way_out: str) -> None:
    if table.schema.bucket_mode is not BucketMode.BUCKET_UNAWARE:
        raise UnsupportedFeatureError(
            f"Spark gives a format no way to bring the rows of a bucket of table '{table.name}'"
            f" together; use {way_out}.",
            kind="spark-format-write",
            details={"table": table.name},
        )


def _refuse_stream(location: Location) -> None:
    _refuse_buckets(location.table(), _SINK)
    if not _HAS_STREAMS or location.checkpoint is None:
        reason = "is written by Spark 4.1 and later, with the option checkpointLocation"
        raise UnsupportedFeatureError(
            f"A stream of the Spark format {reason}, whose query the commits are of; else use "
            f"{_SINK}.",
            kind="spark-format-stream",
        )


def _query_of(location: Location) -> str:
    """Return the id of the query that writes, from its checkpoint."""
    path = f"{str(location.checkpoint).rstrip('/')}/metadata"
    try:
        content = file_io_for(path, location.options).read_bytes(path)
        return str(json.loads(content)["id"])
    except (PaimonError, ValueError, LookupError, TypeError) as error:
        raise InvalidInputError(
            f"The checkpoint's '{path}' does not say which query this is: {error}. Give the "
            f"checkpoint by its full URL, and the options of its storage; or use {_SINK}.",
            kind="spark-format-stream",
        ) from error


def _commit(builder: WriteBuilder, messages: Sequence[WriterCommitMessage | None]) -> None:
    result = _result(messages)
    errors = (each.error for each in messages if isinstance(each, Written))
    error = next((error for error in errors if error is not None), None)
    if error is not None:
        builder.abort(result.messages)
        raise load_error(error)
    if result.messages or builder.overwrites is not None:
        builder.commit(result.messages)


def _builder(table: Table, *, overwrite: bool) -> WriteBuilder:
    builder = table.new_write_builder()
    return builder.with_overwrite({}) if overwrite else builder


def _result(messages: Sequence[WriterCommitMessage | None]) -> WriteResult:
    return WriteResult.sum(
        load(WriteResult, each.result)
        for each in messages
        if isinstance(each, Written) and each.result is not None
    )
