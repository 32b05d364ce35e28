"""`format("paimon_assets")`: Paimon tables as a Python Data Source, to read and write.

Options: `path` (a table directory), or `warehouse` and `table` (`db.t`, `db.t$snapshots`);
`columns` (`id,amount`); `where` (`dt = '2024-01-01' AND amount > 3`); `versionAsOf` (a snapshot or
tag) and `timestampAsOf` (UTC, if it has no offset); Paimon's own keys such as `scan.snapshot-id`;
those of the storage. All else is refused. Options of `register` are the defaults of reads, and stay
out of plans: give secrets there.

Spark does not pass the needed columns to a Python Data Source. It could pass filters (4.1 and
later), but keeps a plan with them for further actions of the same DataFrame with other filters:
hence `columns` and `where`. The snapshot is kept, too: a DataFrame or temporary
view always reads that of its first action. Nor does Spark ask for a size: it assumes the largest.

A stream's offset is the id of the last snapshot that was read; 0 is before the first. The first
batch reads the table as it is, later ones its changes, as `ReadBuilder.between` returns them.
From Spark 4.2 on, `read.stream.maxRowsPerTrigger` limits a later batch to the snapshots that have
so many rows in all, but at least one snapshot.

Spark gives a data source its rows as they lie, and offers no shuffle: rows of one bucket would come
to several tasks. So tables with buckets are written by `write_dataframe` alone. A stream makes one
snapshot of each batch under the id that its checkpoint has for the query: a batch that Spark
repeats finds its commit, as with `streaming_sink`.

One task reads a system table; the driver does where the options hold secrets of a catalog, such as
the token of a server, which no task gets.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pyspark.sql import SparkSession, datasource
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # Spark 4.0 and 4.1 have no limits
    ReadMaxRows = None  # type: ignore[assignment, misc]
    SupportsTriggerAvailableNow = object  # type: ignore[assignment, misc]

from paimon_assets.engine import errors
from paimon_assets.engine.codec.arrow.arrow_types import empty_batch
from paimon_assets.engine.contract.commit_message import WriteResult
from paimon_assets.engine.contract.wire import dump, dump_split, load, load_error
from paimon_assets.engine.data.write.input_check import InputCheck
from paimon_assets.engine.fileio.opening import file_io_for
from paimon_assets.engine.spec.schema.schema import BucketMode
from paimon_assets.engine.table.read.read_builder import Plan, ReadBuilder
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.write.write_builder import WriteBuilder
from paimon_assets.spark import types as spark_types
from paimon_assets.spark.failure import encoded_errors
from paimon_assets.spark.packing import LARGE_BYTES, pack, pieces, unpack
from paimon_assets.spark.preflight import check_workers
from paimon_assets.spark.table_location import MAX_ROWS, WAREHOUSE, WHERE, Location
from paimon_assets.spark.worker import RowSource, read_split_rows, write_unrouted

_HAS_STREAMS = hasattr(datasource, "DataSourceStreamArrowWriter")
"""Streams of Spark 4.0 would come row by row."""

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as _StreamArrowWriter
else:
    _StreamArrowWriter = getattr(datasource, "DataSourceStreamArrowWriter", object)

_SINK = "`writeStream.foreachBatch(streaming_sink(table))`, of paimon_assets.spark"

FORMAT = "paimon_assets"
_SNAPSHOT = "snapshot"
_BEFORE_FIRST = 0


def system_schema(location: Location) -> StructType:
    return spark_types.arrow_to_spark_schema(location.system_table().arrow_schema)


class ReadRows(DataSourceReader):
    """Rows that the driver has read, some a partition."""

    def __init__(self, schema: StructType) -> None:
        self._schema = schema

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Unpack the rows of a partition; Spark calls it without a value if there are none."""
        if partition is not None and partition.value is not None:
            yield unpack(partition.value, spark_types.spark_arrow_schema(self._schema))


class SystemTableReader(ReadRows):
    """Reads a system table from the table's metadata, where the task runs or on the driver."""

    def __init__(self, location: Location, schema: StructType) -> None:
        super().__init__(schema)
        self._location = location

    def partitions(self) -> Sequence[InputPartition]:
        """Return the rows, in partitions, if the driver reads them; else one for the task."""
        if not self._location.has_catalog_secrets:
            return [InputPartition(None)]
        with encoded_errors():
            found = (piece for rows in self._rows() for piece in pieces(rows, LARGE_BYTES))
            return [InputPartition(pack(piece)) for piece in found]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        with encoded_errors():
            yield from self._rows()

    def _rows(self) -> Iterator[pa.RecordBatch]:
        names, schema = self._schema.fieldNames(), spark_types.spark_arrow_schema(self._schema)
        for batch in self._location.system_table().to_reader():
            yield spark_types.to_spark_batch(batch.select(names), schema)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._location.has_catalog_secrets:
            return ReadRows, (self._schema,)
        return SystemTableReader, (self._location, self._schema)


class StreamPartition(InputPartition):
    """One split of one micro-batch, and how to read it; both as wire bytes."""

    def __init__(self, context: bytes, split: bytes) -> None:
        super().__init__(split)
        self.context = context


class SplitStreamReader(DataSourceStreamReader):
    """The reader of splits of any micro-batch."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, StreamPartition):
            yield from read_split_rows(partition.context, partition.value, self._schema)


class TableStreamReader(SplitStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches on the driver."""

    def __init__(
        self, table: Table, read: ReadBuilder, schema: StructType, max_rows: int | None = None
    ) -> None:
        super().__init__(spark_types.spark_arrow_schema(schema))
        self._table = table
        self._read = read
        self._max_rows = max_rows
        self._last: int | None = None
        """The snapshot that a query with `availableNow` ends at."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {_SNAPSHOT: _BEFORE_FIRST}

    def getDefaultReadLimit(self) -> "ReadLimit":  # noqa: N802 - Spark's name
        return ReadAllAvailable() if self._max_rows is None else ReadMaxRows(self._max_rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        with encoded_errors():
            self._last = self._newest()

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: Mapping[str, int] | None = None, limit: "ReadLimit | None" = None
    ) -> dict[str, int]:
        """Return the newest snapshot, or the last one within the limit; Spark 4.1 gives none."""
        with encoded_errors():
            last = self._newest() if self._last is None else self._last
            if start is None or start[_SNAPSHOT] == _BEFORE_FIRST:
                return {_SNAPSHOT: last}
            first = start[_SNAPSHOT]
            if ReadMaxRows is not None and isinstance(limit, ReadMaxRows):
                last = self._within(first, last, limit.max_rows)
            return {_SNAPSHOT: last}

    def _newest(self) -> int:
        newest = self._table.latest_snapshot()
        return _BEFORE_FIRST if newest is None else newest.id

    def _within(self, first: int, last: int, rows: int) -> int:
        """Return the last snapshot until which at most `rows` rows came after `first`."""
        for number in range(first + 1, last + 1):
            snapshot = self._table.snapshot(number)
            rows -= 0 if snapshot is None else abs(snapshot.delta_record_count)
            if rows < 0:
                return max(number - 1, first + 1)
        return last

    def partitions(
        self, start: Mapping[str, int], end: Mapping[str, int]
    ) -> Sequence[InputPartition]:
        """Return one partition for each split of the snapshots after `start`, up to `end`.

        Raises:
            WorkerError: With the `PaimonError` inside: a snapshot in between has expired, or the
                table was rolled back.
        """
        with encoded_errors():
            read, first, last = self._read.with_waiting_rows(), start[_SNAPSHOT], end[_SNAPSHOT]
            is_first = first == _BEFORE_FIRST
            plan = (read.at_snapshot(last) if is_first else read.between(first, last)).plan()
            context = dump(plan.context)
            return [StreamPartition(context, dump_split(split)) for split in plan.splits]

    def __reduce__(self) -> tuple[type[SplitStreamReader], tuple[pa.Schema]]:
        # Tasks get the reader of a split, and no metadata.
        return SplitStreamReader, (self._schema,)


def register(
    session: SparkSession, *, warehouse: str | None = None, options: Mapping[str, str] | None = None
) -> None:
    """Make `format("paimon_assets")` known to a session; a second call replaces the first.

    >>> register(spark, warehouse="/warehouse")                          # doctest: +SKIP
    >>> spark.read.format("paimon_assets").option("table", "db.t").load()  # doctest: +SKIP

    Args:
        session: Whose driver can import this package; its workers are sent it (`preflight`).
        warehouse: For reads and writes that name a `table` only.
        options: The options of the storage, such as `s3.secret-key`; never part of a plan.

    Raises:
        InvalidInputError: Kind `spark-worker`, as `check_workers`.
    """
    check_workers(session)
    defaults = {**(options or {}), **({} if warehouse is None else {WAREHOUSE: warehouse})}
    chosen: type[DataSource] = PaimonDataSource
    if defaults:
        chosen = type("PaimonDataSource", (PaimonDataSource,), {"defaults": defaults})
    session.dataSource.register(chosen)


class PaimonDataSource(DataSource):
    """One table, for one read or write of Spark. Spark makes it, see `register`."""

    defaults: ClassVar[Mapping[str, str]] = {}
    """Options of `register`; those of the read win."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of the table at the time travelled to, as Spark's types."""
        with encoded_errors():
            location = self._location
            if not location.is_system_table:
                return spark_types.to_spark_schema(_read(location, location.table()).fields())
            return _choose(system_schema(location), location.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch.

        Args:
            schema: Columns to read, some or all of the table's.

        Raises:
            WorkerError: With the `PaimonError` inside: there is no such table or column, or a
                column has another type than it had.
        """
        with encoded_errors():
            location = self._location
            if location.is_system_table:
                if location.where is not None:
                    message = "System tables take no option 'where'; filter the DataFrame."
                    raise errors.InvalidInputError(message, kind="spark-options", option=WHERE)
                have = _choose(system_schema(location), schema.fieldNames())
                _check_types(schema, have)
                return SystemTableReader(location, schema)
            return TableReader(_read_as(schema, location, location.table()), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        with encoded_errors():
            location = self._location
            table, max_rows = location.table(), location.max_rows
            if max_rows is not None and ReadMaxRows is None:
                message = (
                    "The option 'read.stream.maxRowsPerTrigger' needs Spark 4.2 or later; leave it "
                    "out, or follow the table by `table.new_read_builder().between(...)`."
                )
                raise errors.InvalidInputError(message, kind="spark-options", option=MAX_ROWS)
            return TableStreamReader(table, _read_as(schema, location, table), schema, max_rows)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001
        with encoded_errors():
            return TableWriter.of(self._location, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802 - Spark's name
        with encoded_errors():
            return TableStreamWriter.of(self._location, schema, overwrite=overwrite)

    @property
    def _location(self) -> Location:
        return Location.of(self.options, self.defaults)


class SplitReader(DataSourceReader):
    """The reader of splits in a task; its predicate is part of the context."""

    def __init__(self, context: bytes, schema: pa.Schema) -> None:
        self._context = context
        self._schema = schema

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Read one split; Spark calls it without a value if there are none."""
        if partition is not None and partition.value is not None:
            yield from read_split_rows(self._context, partition.value, self._schema)


class TableReader(DataSourceReader):
    """Plans one read on the driver."""

    def __init__(self, read: ReadBuilder, schema: StructType) -> None:
        self._read = read
        self._schema = schema

    @cached_property
    def _plan(self) -> Plan:
        with encoded_errors():
            return self._read.plan()

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition a split, with its wire bytes."""
        return [InputPartition(dump_split(split)) for split in self._plan.splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one split; tasks do it by the `SplitReader` they get instead."""
        make, parts = self.__reduce__()
        return make(*parts).read(partition)

    def __reduce__(self) -> tuple[type[SplitReader], tuple[bytes, pa.Schema]]:
        # Spark sends its reader to the tasks: they get the plan's context, and no metadata.
        context = dump(self._plan.context)
        return SplitReader, (context, spark_types.spark_arrow_schema(self._schema))


def _read(location: Location, table: Table) -> ReadBuilder:
    read = table.new_read_builder().with_options(location.table_options)
    return read.with_columns(location.columns).with_filter(location.where)


def _read_as(schema: StructType, location: Location, table: Table) -> ReadBuilder:
    read = _read(location, table).with_columns(schema.fieldNames())
    _check_types(schema, spark_types.to_spark_schema(read.fields()))
    return read


def _choose(schema: StructType, names: Sequence[str] | None) -> StructType:
    if names is None:
        return schema
    unknown = [name for name in names if name not in schema.fieldNames()]
    if unknown:
        message = (
            f"Column '{unknown[0]}' does not exist; there are {', '.join(schema.fieldNames())}."
        )
        raise errors.NotFoundError(message, kind="column-not-found", column=unknown[0])
    return StructType([schema[name] for name in names])


def _check_types(asked: StructType, have: StructType) -> None:
    """Refuse columns whose type is not the table's: Spark would misread the batches."""
    for wanted, column in zip(asked.fields, have.fields, strict=True):
        # Whether nulls may be inside is no matter of the batches.
        asked_type, type_now = wanted.dataType.simpleString(), column.dataType.simpleString()
        if asked_type != type_now:
            message = (
                f"Column '{wanted.name}' is {type_now} in the table, and {asked_type} in the "
                "DataFrame; load it again, or cast after loading."
            )
            raise errors.InvalidInputError(message, kind="spark-type", column=wanted.name)


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
        answers = list(write_unrouted(self._context, self._source, iterator))
        row = answers[-1].to_pylist()[0]
        return Written(result=row["result"], error=row["error"])

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Refuse; the driver has a `TableWriter` for that."""
        with encoded_errors():
            raise errors.UnsupportedFeatureError(
                "This Spark hands out the writer of a data source in another order; nothing was"
                " committed. Write by `write_dataframe` of paimon_assets.spark.",
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
            writer = partial(TableWriter, overwrite=self._overwrite)
            return writer, (self._location, self._context, self._source)
        self._is_sent = True
        return TaskWriter, (self._context, self._source)

    @classmethod
    def of(cls, location: Location, schema: StructType, *, overwrite: bool) -> "TableWriter":
        table = location.table()
        _refuse_buckets(table, "`write_dataframe` of paimon_assets.spark")
        spark_types.from_spark_schema(schema)
        source = RowSource(schema=spark_types.spark_arrow_schema(schema), is_packed=False)
        context = _builder(table, overwrite=overwrite).prepare()
        check = InputCheck(table=context.table, schema=context.schema)
        check.conform(empty_batch(source.table_schema))
        return cls(location, dump(context), source, overwrite=overwrite)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        with encoded_errors():
            _commit(self.reopen(), messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        with encoded_errors():
            self.reopen().abort(_result(messages).messages)

    def reopen(self) -> WriteBuilder:
        """Return the write on the table as it is now."""
        return _builder(self._location.table(), overwrite=self._overwrite)


class TableStreamWriter(_StreamArrowWriter):
    """Writes the data files of a batch in Spark's tasks and commits them once, on the driver."""

    def __init__(self, writer: TableWriter, user: str) -> None:
        self._writer = writer
        self._user = user

    @classmethod
    def of(cls, location: Location, schema: StructType, *, overwrite: bool) -> "TableStreamWriter":
        _refuse_buckets(location.table(), _SINK)
        if not _HAS_STREAMS or location.checkpoint is None:
            reason = "is written by Spark 4.1 and later, with the option checkpointLocation"
            raise errors.UnsupportedFeatureError(
                f"A stream of the Spark format {reason}, whose query the commits are of; else use "
                f"{_SINK}.",
                kind="spark-format-stream",
            )
        writer = TableWriter.of(location, schema, overwrite=overwrite)
        return cls(writer, f"spark-query:{_query_of(location)}")

    def write(  # type: ignore[override]  # because writers of Arrow take batches, not rows
        self, iterator: "Iterator[pa.RecordBatch]"
    ) -> WriterCommitMessage:
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
        with encoded_errors():
            self._reopen(batchId).abort(_result(messages).messages)

    def _reopen(self, number: int) -> WriteBuilder:
        builder = self._writer.reopen().with_commit_user(self._user)
        return builder.with_commit_identifier(number)


def _refuse_buckets(table: Table, way_out: str) -> None:
    if table.schema.bucket_mode is not BucketMode.BUCKET_UNAWARE:
        message = (
            f"Spark gives a format no way to bring the rows of a bucket of table '{table.name}'"
            f" together; use {way_out}."
        )
        raise errors.UnsupportedFeatureError(message, kind="spark-format-write", table=table.name)


def _query_of(location: Location) -> str:
    """Return the id of the query that writes, from its checkpoint."""
    path = f"{str(location.checkpoint).rstrip('/')}/metadata"
    try:
        content = file_io_for(path, location.options).read_bytes(path)
        return str(json.loads(content)["id"])
    except (errors.PaimonError, ValueError, LookupError, TypeError) as error:
        raise errors.InvalidInputError(
            f"The checkpoint's '{path}' does not say which query this is: {error}. Give the "
            f"checkpoint by its full URL, and the options of its storage; or use {_SINK}.",
            kind="spark-format-stream",
        ) from error


def _commit(builder: WriteBuilder, messages: Sequence[WriterCommitMessage | None]) -> None:
    result = _result(messages)
    failures = [each.error for each in messages if isinstance(each, Written)]
    for error in filter(None, failures):
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
