"""SparkExecutor: the engine's Executor on Spark tasks.

    write, buckets     rows → route (mapInArrow) → repartition(task) → sort → write (mapInArrow)
    write, unaware     rows → write (mapInArrow)
    write, plain scan  files → read and route, or write (one mapInArrow), as above (`plain_scan`)
    read               splits, one a task → read (mapInArrow) → batches here, or a DataFrame

Rows never pass through the driver on the way into or out of a DataFrame; it gets the wire bytes of
commit messages. Files of failed or repeated attempts are named by no message and stay orphans.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial

import pyarrow as pa
from msgspec.structs import replace
from pyspark.errors import PySparkAttributeError
from pyspark.sql import DataFrame, Row, SparkSession

from paimon_assets.engine.codec.arrow.arrow_types import empty_batch, to_arrow_schema
from paimon_assets.engine.contract.commit_message import WriteResult
from paimon_assets.engine.contract.context import ReadContext, WriteContext
from paimon_assets.engine.contract.executor import (
    EXAMPLES,
    ROWS,
    ClusterOrder,
    Curve,
    RepeatedKeys,
    TaskBatch,
)
from paimon_assets.engine.contract.split import Splits
from paimon_assets.engine.contract.wire import dump, load, load_error
from paimon_assets.engine.data.write.dynamic_buckets import BucketRule
from paimon_assets.engine.data.write.input_check import InputCheck
from paimon_assets.engine.data.write.rolling_file import delete_unfinished
from paimon_assets.engine.data.write.row_key_extractor import (
    default_buckets,
    has_hashed_buckets,
    refuse_unroutable,
)
from paimon_assets.engine.data.write.table_write import written_paths
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import StorageError
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.fileio.opening import current_spec, open_file_io
from paimon_assets.engine.spec.options.all_options import DYNAMIC_BUCKET_ASSIGNERS, TARGET_FILE_SIZE
from paimon_assets.engine.spec.schema.schema import BucketMode, TableSchema
from paimon_assets.spark import packing, types, worker
from paimon_assets.spark.arrow_batches import sized_batches
from paimon_assets.spark.cluster import in_order, on_curve
from paimon_assets.spark.failure import Renewal, typed_errors, with_renewal
from paimon_assets.spark.job_names import name_of_read, named_jobs
from paimon_assets.spark.preflight import check_workers
from paimon_assets.spark.python_rows import (
    ArrowMap,
    PythonRows,
    map_in_arrow,
    python_rows,
    remembering,
    split_rows,
    tasks_by_bytes,
    tasks_by_cost,
)
from paimon_assets.spark.shortcuts import driver_read
from paimon_assets.spark.shortcuts.native_read.scans import read_natively
from paimon_assets.spark.shortcuts.plain_scan import scanned_rows
from paimon_assets.spark.shortcuts.size_estimate import with_size_estimate
from paimon_assets.spark.shuffle import partition_slots, write_tasks
from paimon_assets.spark.task_jobs import run_jobs

logger = logging.getLogger(__name__)

SparkRows = DataFrame | pa.Table | pa.RecordBatchReader
"""Rows that this executor takes. Those of Arrow are sent from this process's memory."""

_TARGET_WITHOUT_KEY = 256 * 1024 * 1024
_LOCAL_READ_BYTES = 32 * 1024 * 1024
"""File bytes of one job of a read into this process."""


class SparkExecutor:
    """Runs data-plane work as Spark jobs of one session, local, on a cluster or through Connect.

    >>> rows = table.scan().to_arrow(SparkExecutor(spark))  # doctest: +SKIP
    """

    def __init__(self, session: SparkSession) -> None:
        self.session = session

    def map_splits(self, context: ReadContext, splits: Splits) -> Iterator[pa.RecordBatch]:
        """Read splits on Spark into this process, in split order.

        For results that this process consumes; for everything else there is `to_dataframe`.

        Raises:
            PaimonError: As `EmbeddedExecutor.map_splits`, from whichever task it came.

        Cost:
            A small Spark job for each 32 MB of files; two run, and their rows are held, at a time.
        """
        if not splits:
            return
        schema, renewal = to_arrow_schema(context.fields), Renewal(context.file_io)
        done, is_begun = 0, False
        while True:
            try:
                for row in self._pack_splits(replace(context, file_io=renewal.spec), splits[done:]):
                    if row.error is not None:
                        raise load_error(bytes(row.error))
                    is_begun = row.result is not None
                    if is_begun:
                        yield packing.unpack(bytes(row.result), schema)
                    else:
                        done += 1
            except StorageError as error:
                if is_begun:  # part of a split is with the caller
                    raise
                renewal.after(error)
            else:
                return

    def _pack_splits(self, context: ReadContext, splits: Splits) -> Iterator[Row]:
        check_workers(self.session, context.file_io, _some_path(splits))
        sizes = [split.file_bytes for split in splits]
        tasks = tasks_by_bytes(sizes, _LOCAL_READ_BYTES)
        packed = split_rows(self.session, splits, tasks, partial(worker.read_packed, dump(context)))
        frame = packed.frame(packing.ddl(worker.ANSWER_SCHEMA))
        with typed_errors():
            with named_jobs(self.session, name_of_read(context.table, splits)):
                rows = frame.toLocalIterator(prefetchPartitions=True)
            yield from rows

    def to_dataframe(self, context: ReadContext, splits: Splits) -> DataFrame:
        """Return the rows of splits as a lazy DataFrame, in no order.

        Tasks read the splits that no shortcut takes, several small ones each. An error of the
        data plane fails the Spark job that reads; `failure.error_inside` finds it.

        Raises:
            UnsupportedFeatureError: A column has a type this Spark does not have.
        """
        schema = types.to_spark_schema(context.fields)
        context = replace(context, file_io=current_spec(context.file_io))
        if not splits:
            return self.session.createDataFrame([], schema)
        few = driver_read.read_on_driver(self.session, context, splits)
        if few is not None:
            return few
        check_workers(self.session, context.file_io, _some_path(splits))
        native, left = read_natively(self.session, context, splits)
        if native is not None and not left:
            return native
        rest = driver_read.read_keys_on_driver(self.session, context, left)
        if rest is None:
            rows = self._python_rows(context, left, types.spark_arrow_schema(schema))
            frame = with_size_estimate(rows, context, left).frame(schema)
            rest = remembering(frame, rows)
        return rest if native is None else native.union(rest)

    def count_rows(self, context: ReadContext, splits: Splits) -> int:
        if driver_read.is_driver_read(self.session, context, splits):
            return EmbeddedExecutor().count_rows(context, splits)
        check_workers(self.session, context.file_io, _some_path(splits))
        name = f"count, {name_of_read(context.table, splits)}"

        def run(spec: FileIOSpec) -> int:
            renewed = replace(context, file_io=spec)
            native, left = read_natively(self.session, renewed, splits)
            with typed_errors(), named_jobs(self.session, name):
                total = 0 if native is None else native.count()
                if left:
                    tasks = tasks_by_cost(left, parallelism(self.session))
                    count = partial(worker.count_rows, dump(renewed))
                    counts = split_rows(self.session, left, tasks, count)
                    total += sum(
                        row.rows for row in counts.frame(packing.ddl(worker.COUNT_SCHEMA)).collect()
                    )
            return total

        return with_renewal(context.file_io, run)

    def repeated_keys(
        self, context: ReadContext, splits: Splits, key: Sequence[str]
    ) -> RepeatedKeys:
        def run(_: FileIOSpec) -> RepeatedKeys:
            frame = self.to_dataframe(context, splits)
            with named_jobs(self.session, f"repeated keys, {name_of_read(context.table, splits)}"):
                return repeated_keys(frame, key)

        return with_renewal(context.file_io, run)

    def takes(self, rows: object) -> bool:
        return isinstance(rows, SparkRows)

    def row_schema(self, rows: SparkRows) -> pa.Schema:
        if not isinstance(rows, DataFrame):
            return rows.schema
        schema = types.spark_arrow_schema(rows.schema)
        return worker.RowSource(schema=schema, is_packed=False).table_schema

    def map_rows(self, context: WriteContext, rows: SparkRows) -> WriteResult:
        """Write rows on Spark; those of one bucket by one task, in the order of the input.

        Order of a DataFrame: partition by partition, row by row, unless it has a column
        `packing.POSITION_COLUMN`, as DataFrames of `sources` have. Then that column
        decides, even after a shuffle.

        Raises:
            InvalidInputError: Rows do not fit the table; files of other tasks were removed.
        """
        return self._map(context, cache(lambda: self._source(rows, context)))

    def _map(
        self, context: WriteContext, rows: Callable[[], tuple[DataFrame, worker.RowSource]]
    ) -> WriteResult:
        """As `map_rows`; the rows are requested again where the job runs again."""
        refuse_unroutable(context.schema, context.table)

        def run(spec: FileIOSpec) -> WriteResult:
            frame, source = rows()
            check = InputCheck(table=context.table, schema=context.schema)
            check.conform(empty_batch(source.table_schema))
            return self._write(frame, source, replace(context, file_io=spec))

        return with_renewal(context.file_io, run)

    def _write(
        self, frame: DataFrame, source: worker.RowSource, context: WriteContext
    ) -> WriteResult:
        context_bytes, schema = dump(context), context.schema
        if schema.bucket_mode is BucketMode.BUCKET_UNAWARE:
            write = partial(worker.write_unrouted, context_bytes, source)
            answers = map_in_arrow(frame, write, packing.ddl(worker.ANSWER_SCHEMA))
        else:
            answers = self._route_rows(frame, source, context, context_bytes)
        check_workers(self.session, context.file_io, context.table_path)
        name = named_jobs(self.session, f"write {context.table}")
        with typed_errors(), name, sized_batches(self.session, frame.schema):
            return _result(context, answers.collect())

    def rewrite(self, read: ReadContext, splits: Splits, write: WriteContext) -> WriteResult:
        """Read and route by the same tasks; see `contract.executor`."""
        schema = to_arrow_schema(read.fields)
        if not splits:
            return self.map_rows(write, schema.empty_table())

        def rows() -> tuple[DataFrame, worker.RowSource]:
            stored = self._python_rows(read, splits, schema)
            return stored.tasks, worker.RowSource(schema=schema, is_packed=False, read=stored.read)

        return self._map(write, rows)

    def cluster(
        self, read: ReadContext, splits: Splits, write: WriteContext, order: ClusterOrder
    ) -> WriteResult:
        """Shuffle rows into ranges of about a file each; see `contract.executor`.

        This process sorts rows with columns of types that Spark lacks, or with nanoseconds, which
        Spark cuts.
        """
        if not types.holds_exactly(read.fields):
            return EmbeddedExecutor().cluster(read, splits, write, order)
        target = write.schema.typed_options.get(TARGET_FILE_SIZE) or _TARGET_WITHOUT_KEY
        parts = max(1, sum(split.file_bytes for split in splits) // target)
        rows = sum(split.row_count for split in splits)

        def sorted_rows() -> tuple[DataFrame, worker.RowSource]:
            frame = self.to_dataframe(read, splits)
            if order.curve is Curve.ORDER:
                return self._source(in_order(frame, order, parts=parts), write)
            stored = self._python_rows(read, splits, types.spark_arrow_schema(frame.schema))
            with named_jobs(self.session, f"sample {read.table}"):
                ordered = on_curve(stored, frame, order, row_count=rows, parts=parts)
            return self._source(ordered, write)

        return self._map(write, sorted_rows)

    def map_tasks(self, batch: TaskBatch) -> Iterator[tuple[int, bytes]]:
        """Run tasks as a few Spark jobs side by side; see `contract.executor`."""
        yield from run_jobs(self.session, batch, cores=batch.at_a_time(parallelism(self.session)))

    def _route_rows(
        self,
        frame: DataFrame,
        source: worker.RowSource,
        context: WriteContext,
        context_bytes: bytes,
    ) -> DataFrame:
        schema, cores = context.schema, parallelism(self.session)
        crossing = schema.bucket_mode is BucketMode.KEY_DYNAMIC
        assigned = crossing or schema.bucket_mode is BucketMode.HASH_DYNAMIC
        limit = schema.typed_options.get(DYNAMIC_BUCKET_ASSIGNERS) if assigned else 0
        groups = groups_of(schema, limit or cores)
        by_partition = bool(schema.partition_keys) and not crossing
        tasks = write_tasks(groups, parallelism=cores, partitioned=by_partition)
        tasks = min(tasks, limit or tasks)
        routing = worker.Routing(
            context=context_bytes, source=source, buckets=groups, slots=partition_slots(tasks)
        )
        route = partial(worker.route_rows, routing)
        routed = _distribute(map_in_arrow(frame, route, packing.ddl(worker.ROUTED_SCHEMA)), tasks)
        if assigned:
            # How many buckets there will be is only known then: all cores get some.
            tasks = write_tasks(1, parallelism=cores, partitioned=True)
            routing = replace(routing, buckets=1, slots=partition_slots(tasks))
            assign: ArrowMap = partial(worker.assign_routed, routing)
            if crossing:
                plain = worker.RowSource(schema=to_arrow_schema(schema.fields), is_packed=True)
                routing = replace(routing, source=plain)
                assign, source = partial(worker.place_routed, routing, source, groups), plain
            routed = _distribute(
                routed.mapInArrow(assign, packing.ddl(worker.ROUTED_SCHEMA)), tasks
            )
        logger.debug("writing %s by %d tasks", context.table, tasks)
        return routed.mapInArrow(
            partial(worker.write_routed, context_bytes, source), packing.ddl(worker.ANSWER_SCHEMA)
        )

    def _source(self, rows: SparkRows, context: WriteContext) -> tuple[DataFrame, worker.RowSource]:
        if isinstance(rows, DataFrame):
            # Refuses types Paimon does not have, by column name.
            types.from_spark_schema(rows.schema)
            source = worker.RowSource(schema=types.spark_arrow_schema(rows.schema), is_packed=False)
            own = scanned_rows(rows, context.table_path, context.file_io) or python_rows(rows)
            return (rows, source) if own is None else (own.tasks, replace(source, read=own.read))
        reader = rows.to_reader() if isinstance(rows, pa.Table) else rows
        schema = packing.without_dictionaries(reader.schema)
        plain = (batch.cast(schema) if schema != batch.schema else batch for batch in reader)
        packed = [
            packing.pack(piece)
            for chunk in packing.chunks(plain, packing.LARGE_BYTES)
            for piece in packing.pieces(packing.join_batches(chunk))
        ]
        source = worker.RowSource(schema=schema, is_packed=True)
        if not packed:
            return self.session.createDataFrame([], packing.ddl(worker.PACKED_SCHEMA)), source
        positions = [number << worker.ROWS_PER_TASK_BITS for number in range(len(packed))]
        table = pa.table({"position": positions, "rows": packed}, worker.PACKED_SCHEMA)
        return self.session.createDataFrame(table), source

    def _python_rows(self, context: ReadContext, splits: Splits, schema: pa.Schema) -> PythonRows:
        context = replace(context, file_io=current_spec(context.file_io))
        tasks = tasks_by_cost(splits, parallelism(self.session))
        read = partial(worker.read_rows, dump(context), schema)
        return split_rows(self.session, splits, tasks, read)


def _some_path(splits: Splits) -> str | None:
    """Return a file of a read that workers must see, if there is one."""
    return next((split.path_of(file) for split in splits for file in split.data_files), None)


def groups_of(schema: TableSchema, cores: int) -> int:
    """Return how many groups of a partition's rows (or of all) are distributed over tasks."""
    if schema.bucket_mode is BucketMode.HASH_DYNAMIC:
        return BucketRule.of(schema).assigners
    return default_buckets(schema) if has_hashed_buckets(schema) else cores


def _distribute(routed: DataFrame, tasks: int) -> DataFrame:
    """Bring every group of routed rows to its task, in order."""
    return routed.repartition(tasks, "task").sortWithinPartitions("partition", "bucket", "position")


def parallelism(session: SparkSession) -> int:
    """Return how many tasks of this session run at a time, as far as it is known."""
    try:
        return max(1, session.sparkContext.defaultParallelism)
    except PySparkAttributeError:
        # A Connect client does not know the cluster.
        return max(1, int(session.conf.get("spark.sql.shuffle.partitions") or 1))


def _result(context: WriteContext, answers: Sequence[Row]) -> WriteResult:
    """Join the answers of all tasks; after an error, deletes all files and raises it."""
    total = WriteResult.sum(
        load(WriteResult, bytes(answer.result)) for answer in answers if answer.result is not None
    )
    error = next((answer.error for answer in answers if answer.error is not None), None)
    if error is not None:
        paths = written_paths(context, total.messages)
        try:
            file_io = open_file_io(context.file_io)
        except StorageError:  # its credentials have ended; orphans are left
            logger.warning("table %s: files of a failed write are left", context.table)
        else:
            delete_unfinished(file_io, paths, context.table)
        raise load_error(bytes(error))
    return total


def repeated_keys(frame: DataFrame, key: Sequence[str]) -> RepeatedKeys:
    counted = frame.groupBy(*map(types.quote, key)).count().withColumnRenamed("count", ROWS)
    totals = counted.selectExpr(
        f"sum({ROWS}) AS all_rows",
        f"count_if({ROWS} > 1) AS shared_keys",
        f"sum(if({ROWS} > 1, {ROWS}, 0)) AS shared_rows",
    ).collect()[0]
    if not totals["shared_keys"]:
        return RepeatedKeys(rows=totals["all_rows"] or 0)
    worst = counted.where(f"{ROWS} > 1").orderBy(ROWS, ascending=False).limit(EXAMPLES)
    return RepeatedKeys(
        rows=totals["all_rows"],
        keys=totals["shared_keys"],
        rows_of_keys=totals["shared_rows"],
        examples=tuple(worst.toArrow().to_pylist()),
    )
