"""The rows of a DataFrame merged into a table, in one snapshot, once.

    DataFrame ─▶ packed, on disk ─┬─ small ─▶ here ─▶ tasks ─ row change (engine) ─▶ messages
                                  │            └─ rows that matched nothing ─ write ─▶ messages
                                  └─ large ─▶ with keys, on disk

    with keys, on disk ─┬─ bounds ─▶ plan (engine) ─▶ tasks ─▶ keys in their files
                        │                                            │
                        ├─ join ◀────────────────────────────────────┘
                        │    └─ repartition(task) ─ row change (engine) ─▶ messages
                        └─ rows that matched nothing ─ write ────────────▶ messages

The source is evaluated once. Up to `_HELD_BYTES` and `_HELD_ROWS` come to the driver, which sends
them to every task. More never does, and a task gets the rows that match its files only.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # ships no types
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from paimon_assets.engine.contract.commit_message import WriteReport, WriteResult
from paimon_assets.engine.contract.executor import TaskBatch
from paimon_assets.engine.contract.merge_on import MergeOn
from paimon_assets.engine.contract.wire import dump, load, load_error
from paimon_assets.engine.contract.write_tasks import RowChange, RowChangeResult, RowChangeTask
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.spec.predicate.predicate import Expression, Predicate
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.literals import Literal
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.write import row_change
from paimon_assets.spark.arrow_batches import sized_batches
from paimon_assets.spark.dataframes import merge_worker
from paimon_assets.spark.executor import SparkExecutor, parallelism
from paimon_assets.spark.failure import typed_errors, with_renewal
from paimon_assets.spark.job_names import named_jobs
from paimon_assets.spark.packing import ddl, unpack
from paimon_assets.spark.preflight import check_workers
from paimon_assets.spark.python_rows import map_in_arrow
from paimon_assets.spark.shortcuts.plain_scan import scanned_rows
from paimon_assets.spark.shuffle import partition_slots
from paimon_assets.spark.task_jobs import distribute, run_one_job
from paimon_assets.spark.types import from_spark_schema, spark_arrow_schema
from paimon_assets.spark.worker import ANSWER_SCHEMA

_TASKS_A_CORE = 4
_BROADCAST_BYTES = 8 * 1024 * 1024
_HELD_BYTES = 32 * 1024 * 1024
_HELD_ROWS = 262_144
"""Up to both, sending all rows to every task costs less than joining them with the rows of tasks,
and a task looks up as many rows of the table at once (`matches.ROWS_AT_ONCE`)."""


def merge_dataframe(
    target: Table | row_change.RowChangeBuilder,
    frame: DataFrame,
    *,
    on: Sequence[str],
    when_matched: row_change.WhenMatched
    | Mapping[str, Expression | Literal] = row_change.WhenMatched.UPDATE,
    inserts: bool = True,
) -> row_change.RowChangeOutcome:
    """Merge a DataFrame into a table: matching rows are updated or deleted, new ones inserted.

    Args:
        target: A table, or any change described by `table.new_row_change_builder()`.
        frame: The source, of any size; evaluated once, and kept on the executors' disks meanwhile,
            or if it is small, in memory.
        on: As in `RowChangeBuilder.merge`.
        when_matched: As there.
        inserts: As there.

    Raises:
        As `RowChangeBuilder.merge`; also errors of the DataFrame's evaluation.

    Cost:
        Of a source of up to 32 MB of Arrow and 262,144 rows, each task holds all. Of a larger one,
        reads the columns `on` of the files that may match, joins them with the source, and shuffles
        the rows that match. A task holds the source rows that match its files: those of a bucket,
        or of files of `source.split.target-size` together.

    >>> merge_dataframe(table, frame, on=["id"], when_matched=WhenMatched.KEEP)  # doctest: +SKIP
    """
    builder = target.new_row_change_builder() if isinstance(target, Table) else target
    store = builder.store
    with closing(FrameSource.of(store.label, store.schema, frame, on)) as source:
        return builder.merge_from(source, when_matched=when_matched, inserts=inserts)


class FrameSource(Struct, kw_only=True, dict=True):
    """A `MergeSource` on Spark. It holds disk space until it is closed."""

    on: MergeOn
    frame: DataFrame
    schema: TableSchema
    held_bytes: int = _HELD_BYTES
    """Of so many bytes of rows, as Arrow has them, this process and each task hold all."""
    broadcast_bytes: int = _BROADCAST_BYTES
    """A source of so many bytes is sent to the tasks that read keys; of a larger one, rows and keys
    meet in a shuffle."""
    inserted: Mapping[str, str] | None = None
    """Column of the table → the source's column that is inserted; its own name by default."""
    inserted_if: str | None = None
    """A boolean column of the source: rows where it is not true are not inserted."""
    _packed: DataFrame | None = None
    _held: row_change.ArrowSource | None = None
    """The source rows, if they are few; then the next fields are None."""
    _rows: DataFrame | None = None
    _matched: DataFrame | None = None
    """The source rows that match, once for each task that holds a row they match."""
    _size: int = 0

    @classmethod
    def of(cls, table: str, schema: TableSchema, frame: DataFrame, on: Sequence[str]) -> Self:
        """Check the columns of a source; nothing is evaluated yet.

        Raises:
            NotFoundError, InvalidInputError: As `MergeOn.of`; also kind `spark-type` for types
                Paimon does not have, `input-columns` for columns that occur twice.
        """
        from_spark_schema(frame.schema)
        twice = sorted({name for name in frame.columns if frame.columns.count(name) > 1})
        if twice:
            message = (
                f"The rows to merge into table '{table}' have columns that occur twice: "
                f"{', '.join(twice)}."
            )
            raise InvalidInputError(message, kind="input-columns", table=table, column=twice[0])
        checked = MergeOn.of(table, schema, on, frame.columns)
        return cls(on=checked, frame=frame, schema=schema)

    @property
    def columns(self) -> Sequence[str]:
        return self.frame.columns

    @cached_property
    def _source(self) -> merge_worker.SourceRows:
        return merge_worker.SourceRows(schema=spark_arrow_schema(self.frame.schema), on=self.on)

    @cached_property
    def _key_fields(self) -> list[StructField]:
        return [
            StructField(name, BinaryType() if kind == pa.binary() else LongType())
            for name, kind in zip(self._source.key_names, self.on.key_types(), strict=True)
        ]

    def predicate(self) -> Predicate | None:
        scanned = scanned_rows(self.frame)
        tasks, read = (self.frame, None) if scanned is None else (scanned.tasks, scanned.read)
        packs = partial(merge_worker.pack_source, self._source.schema, read)
        packed = map_in_arrow(tasks, packs, ddl(merge_worker.SOURCE_SCHEMA)).persist(
            StorageLevel.DISK_ONLY
        )
        self._packed = packed
        check_workers(self.frame.sparkSession)
        with typed_errors(), self._job("source of merge"):
            [totals] = packed.agg(sf.sum("size"), sf.sum("count")).collect()
            self._size, count = (total or 0 for total in totals)
            if self._size <= self.held_bytes and count <= _HELD_ROWS:
                rows = [bytes(row.rows) for row in packed.select("rows").collect()]
                self._held = self._from_memory(rows)
                predicate = self._held.predicate()
            else:
                predicate = self._evaluate(packed)
        _release(packed)
        self._packed = None
        return predicate

    def _from_memory(self, packed: Sequence[bytes]) -> row_change.ArrowSource:
        """Return the source rows as a source in this process's memory."""
        on, schema = self.on, self._source.schema
        rows = pa.Table.from_batches([unpack(data, schema) for data in packed], schema)
        runner = _OneJob(self.frame.sparkSession)
        held = row_change.ArrowSource.of(on.table, self.schema, rows, on.names, runner)
        if self.inserted is not None:
            columns = {name: rows.column(given) for name, given in self.inserted.items()}
            held.insertable = pa.table(columns)
        if self.inserted_if is not None:
            flags: Any = rows.column(self.inserted_if)
            held.inserted_if = np.array(flags.fill_null(False))  # noqa: FBT003 - a value
        return held

    def _evaluate(self, packed: DataFrame) -> Predicate | None:
        """Keep the source rows with their keys, and return their predicate."""
        source = self._source
        columns = zip(source.column_names, self.frame.schema.fields, strict=True)
        fields = [StructField(name, column.dataType) for name, column in columns]
        schema = StructType([*self._key_fields, *fields])
        keyed = packed.mapInArrow(partial(merge_worker.with_keys, source), schema)
        self._rows = rows = keyed.persist(StorageLevel.DISK_ONLY)
        bounded = rows.select(*source.on_names)
        parts = bounded.mapInArrow(
            partial(merge_worker.source_bounds, source), ddl(merge_worker.BOUNDS_SCHEMA)
        ).collect()
        examples = [sf.first(name).alias(name) for name in source.on_names]
        groups = rows.dropna(subset=source.key_names).groupBy(*source.key_names)
        double = groups.agg(sf.count("*").alias("rows"), *examples).where("rows > 1")
        count, *example = double.agg(sf.count("*"), *examples).collect()[0]
        if count:
            raise row_change.duplicates(
                self.on, count, dict(zip(self.on.names, example, strict=True))
            )
        bounds = [
            unpack(bytes(part.bounds), source.bounds_schema)
            for part in parts
            if part.bounds is not None
        ]
        return self.on.predicate(pa.Table.from_batches(bounds, source.bounds_schema))

    def _evaluate_source(self) -> DataFrame:
        if self._rows is None:
            raise ValueError("the predicate of a source is asked for first")
        return self._rows

    def change(
        self, change: RowChange, tasks: Sequence[RowChangeTask]
    ) -> Iterator[RowChangeResult]:
        if self._held is not None:
            yield from self._held.change(change, tasks)
            return
        if not tasks:
            self._forget_matches()
            return

        def run(spec: FileIOSpec) -> list[Row]:
            return self._change_rows(
                replace(change, read=replace(change.read, file_io=spec)), tasks
            )

        answers = with_renewal(change.read.file_io, run)
        for answer in answers:
            if answer.result is not None:
                yield load(RowChangeResult, bytes(answer.result))
        for answer in answers:
            if answer.error is not None:
                raise load_error(bytes(answer.error))

    def _change_rows(self, change: RowChange, tasks: Sequence[RowChangeTask]) -> list[Row]:
        """Run the tasks; those that match keep their source rows."""
        self._forget_matches()
        session, source, shared = self.frame.sparkSession, self._source, dump(change)
        most = _TASKS_A_CORE * parallelism(session)
        owners = distribute([task.input_bytes for task in tasks], most)
        slots = partition_slots(max(owners) + 1)
        columns = {
            "slot": [slots[owner] for owner in owners],
            "number": range(len(tasks)),
            "payload": [dump(task) for task in tasks],
        }
        payloads = session.createDataFrame(pa.table(columns, merge_worker.TASKS_SCHEMA))
        places = [StructField(name, IntegerType()) for name in ("slot", "number")]
        keys = payloads.repartition(len(slots), "slot").mapInArrow(
            partial(merge_worker.task_keys, shared, source),
            StructType([*places, *self._key_fields]),
        )
        # Spark cannot know how many keys a task gives: it would take them for few.
        how = "broadcast" if self._size <= self.broadcast_bytes else "merge"
        matched = self._evaluate_source().hint(how).join(keys, source.key_names)
        self._matched = matched.persist(StorageLevel.DISK_ONLY)
        work = (
            self._matched.select("slot", "number", *source.column_names)
            .unionByName(payloads, allowMissingColumns=True)
            .repartition(len(slots), "slot")
            .sortWithinPartitions("number", sf.isnull("payload"))
            .select("number", "payload", *source.column_names)
        )
        done = work.mapInArrow(
            partial(merge_worker.change_tasks, shared, source), ddl(ANSWER_SCHEMA)
        )
        with self._job("merge"):
            return done.collect()

    def insert(self, prepare: row_change.Prepare | None) -> WriteResult:
        if self._held is not None:
            return self._held.insert(prepare)
        rows, source = self._evaluate_source(), self._source
        if self._matched is not None:
            matched = self._matched.select(*source.key_names)
            rows = rows.join(matched, source.key_names, "left_anti")
        places = dict(zip(self.columns, source.column_names, strict=True))
        if self.inserted_if is not None:
            rows = rows.where(sf.col(places[self.inserted_if]))
        names = self.inserted
        if names is None:
            names = {name: name for name in self.columns if name in self.schema.by_name}
        rows = rows.select(*(sf.col(places[given]).alias(name) for name, given in names.items()))
        if prepare is None:
            with typed_errors(), self._job("count the inserts of a merge"):
                return WriteResult(report=WriteReport(rows_in=rows.count()))
        return SparkExecutor(self.frame.sparkSession).map_rows(prepare(), rows)

    @contextmanager
    def _job(self, action: str) -> Iterator[None]:
        session = self.frame.sparkSession
        name = named_jobs(session, f"{action} into {self.on.table}")
        with name, sized_batches(session, self.frame.schema):
            yield

    def close(self) -> None:
        self._forget_matches()
        _release(self._rows)
        _release(self._packed)
        self._rows = self._packed = self._held = None

    def _forget_matches(self) -> None:
        _release(self._matched)
        self._matched = None


class _OneJob(SparkExecutor):
    """The executor of rows that all tasks share: one job, to which they are sent once."""

    def map_tasks(self, batch: TaskBatch) -> Iterator[tuple[int, bytes]]:
        return run_one_job(self.session, batch, cores=parallelism(self.session))


def _release(frame: DataFrame | None) -> None:
    """Free the cached rows of a frame; an ended session or JVM has freed them already."""
    if frame is not None:
        with suppress(PySparkException, Py4JError, OSError):  # OSError: the JVM has ended
            frame.unpersist()
