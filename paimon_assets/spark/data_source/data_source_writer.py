"""`df.write.format("paimon_assets")`: rows into tables without buckets.

Mode `append` adds rows, `overwrite` replaces all of the table, each in one snapshot.

Spark gives a data source its rows as they lie, and offers no shuffle: rows of one bucket would come
to several tasks. Tables with buckets are therefore written by `spark.tables.write_dataframe`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from paimon_assets.engine.contract.commit_message import WriteResult
from paimon_assets.engine.contract.wire.wire import dump_write_context, load_error
from paimon_assets.engine.contract.wire.wire_messages import load_write_result
from paimon_assets.engine.data.write.input_check import InputCheck
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.schema.schema import BucketMode
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.write.write_builder import WriteBuilder
from paimon_assets.spark.data_source.location import Location
from paimon_assets.spark.failure import encoded_errors
from paimon_assets.spark.packing import empty_batch
from paimon_assets.spark.types import from_spark_schema, spark_arrow_schema
from paimon_assets.spark.worker import RowSource, write_unrouted

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class Written(WriterCommitMessage):
    """The result of one task, or its error, as bytes of `contract.wire`."""

    result: bytes | None
    error: bytes | None


class TableWriter(DataSourceArrowWriter):
    """Writes data files in Spark's tasks and commits them once, on the driver."""

    def __init__(
        self, location: Location, context: bytes, source: RowSource, *, overwrite: bool
    ) -> None:
        self._location = location
        self._context = context
        self._source = source
        self._overwrite = overwrite

    @classmethod
    def of(cls, location: Location, schema: StructType, *, overwrite: bool) -> "TableWriter":
        """Check the columns and prepare the write.

        Raises:
            InvalidInputError: The columns do not fit the table.
            UnsupportedFeatureError: The table has buckets.
        """
        table = location.table()
        if table.schema.bucket_mode is not BucketMode.BUCKET_UNAWARE:
            raise UnsupportedFeatureError(
                f"Spark gives a format no way to bring the rows of a bucket of table '{table.name}'"
                " together; use `write_dataframe` of paimon_assets.spark.dataframes.tables.",
                kind="spark-format-write",
                details={"table": table.name},
            )
        from_spark_schema(schema)
        source = RowSource(schema=spark_arrow_schema(schema), is_packed=False)
        context = _builder(table, overwrite=overwrite).prepare()
        check = InputCheck(table=context.table, schema=context.schema)
        check.conform(empty_batch(source.table_schema))
        return cls(location, dump_write_context(context), source, overwrite=overwrite)

    def write(  # type: ignore[override]  # because writers of Arrow take batches, not rows
        self, iterator: "Iterator[pa.RecordBatch]"
    ) -> WriterCommitMessage:
        """Write the rows of one task."""
        answers = list(write_unrouted(self._context, self._source)(iterator))
        row = answers[-1].to_pylist()[0]
        return Written(result=row["result"], error=row["error"])

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make one snapshot of what all tasks wrote.

        Raises:
            WorkerError: With the `PaimonError` inside; nothing was committed, files were removed.
        """
        with encoded_errors():
            written = [message for message in messages if isinstance(message, Written)]
            result = _result(written)
            error = next((each.error for each in written if each.error is not None), None)
            if error is not None:
                self._reopened().abort(result.messages)
                raise load_error(error)
            if result.messages or self._overwrite:
                self._reopened().commit(result.messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove the files of a write of which a task failed."""
        written = [message for message in messages if isinstance(message, Written)]
        self._reopened().abort(_result(written).messages)

    def _reopened(self) -> WriteBuilder:
        return _builder(self._location.table(), overwrite=self._overwrite)


def _builder(table: Table, *, overwrite: bool) -> WriteBuilder:
    builder = table.new_write_builder()
    return builder.with_overwrite({}) if overwrite else builder


def _result(written: Sequence[Written]) -> WriteResult:
    return WriteResult.sum(
        load_write_result(each.result) for each in written if each.result is not None
    )
