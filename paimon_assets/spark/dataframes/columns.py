"""Columns that a function makes of a table's rows as a DataFrame: no row comes to the driver.

    append table    ranges behind ─▶ what is read, `_ROW_ID` ─▶ function ─▶ merge by `_ROW_ID`
    primary key     rows behind: what is read, key, version ─▶ function ─▶ records

Rows of a DataFrame have no order, so the function keeps the columns that say which row is which.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import BooleanType, StructField, StructType

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.contract.commit_message import WriteReport, WriteResult
from paimon_assets.engine.contract.merge_on import MergeOn
from paimon_assets.engine.contract.write_tasks import RowChange, RowChangeResult, RowChangeTask
from paimon_assets.engine.control.commit.column_conflicts import (
    columns_unchanged_since,
    rows_kept_since,
)
from paimon_assets.engine.data.write.input_check import InputCheck
from paimon_assets.engine.errors import CommitConflictError, InvalidInputError
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options.all_options import ROWKIND_FIELD
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.schema.schema import ROW_ID, with_tracking
from paimon_assets.engine.spec.types.data_types import RowKind
from paimon_assets.engine.table.write.column_write import (
    ColumnWriteBuilder,
    ColumnWriteOutcome,
    RowsBehind,
    commit_columns,
)
from paimon_assets.engine.table.write.keyed_columns import Versions, record_context
from paimon_assets.engine.table.write.row_change import READ_CHANGED, Prepare, RowChangeBuilder
from paimon_assets.spark.dataframes.merge import FrameSource
from paimon_assets.spark.executor import SparkExecutor
from paimon_assets.spark.failure import encoded_errors, typed_errors
from paimon_assets.spark.types import spark_arrow_schema, to_spark_batch

Compute = Callable[[DataFrame], DataFrame]
_BEHIND = "__behind"


def write_columns(
    builder: ColumnWriteBuilder, compute: Compute, session: SparkSession
) -> ColumnWriteOutcome:
    """Write columns as `ColumnWriteBuilder.write` does, by a function from DataFrame to DataFrame.

    The function gets the columns that are read and some that say which row is which, `_ROW_ID` or
    the key and its version, and returns all of the latter, with the new columns: as
    `rows.withColumn(…)` does.

    Raises:
        As `ColumnWriteBuilder.write`; also what evaluating the DataFrame raises.
    """

    def attempt(named: ColumnWriteBuilder) -> ColumnWriteOutcome:
        snapshot = named.store.newest()
        if snapshot is None:
            return ColumnWriteOutcome(snapshot=None, report=WriteReport())
        if named.store.schema.has_primary_key:
            return _write_records(named, compute, session)
        return _write_ranges(named, snapshot, compute, session)

    return builder.planned(attempt)


def _made(
    builder: ColumnWriteBuilder, compute: Compute, rows: DataFrame, identity: Sequence[str]
) -> DataFrame:
    """Return what the function makes of rows: the identity of each, and the new columns."""
    frame = compute(rows)
    names = [*identity, *builder.columns]
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise InvalidInputError(
            f"Table '{builder.store.label}': the function returns a DataFrame without"
            f" {', '.join(missing)}. Return all columns it was given, and the new ones:"
            " rows.withColumn(…).",
            kind="input-columns",
            details={"table": builder.store.label, "column": missing[0]},
        )
    return frame.select(*(f"`{name}`" for name in names))


@dataclass(kw_only=True)
class _Matching:
    """A source of a merge that counts the rows it matched."""

    source: FrameSource
    rows_matched: int = field(init=False, default=0)

    @property
    def on(self) -> MergeOn:
        return self.source.on

    @property
    def columns(self) -> Sequence[str]:
        return self.source.columns

    def predicate(self) -> Predicate | None:
        return self.source.predicate()

    def change(
        self, change: RowChange, tasks: Sequence[RowChangeTask]
    ) -> Iterator[RowChangeResult]:
        self.rows_matched = 0
        for result in self.source.change(change, tasks):
            self.rows_matched += result.rows_matched
            yield result

    def insert(self, prepare: Prepare | None) -> WriteResult:
        return self.source.insert(prepare)


def _write_ranges(
    builder: ColumnWriteBuilder, snapshot: Snapshot, compute: Compute, session: SparkSession
) -> ColumnWriteOutcome:
    store = builder.store
    groups = builder.groups(snapshot)
    rows = RowsBehind.of(store, groups.counts())
    if builder.only_behind:
        groups = groups.behind()
    count = rows.behind if builder.only_behind else rows.total
    report = WriteReport(rows_in=count, rows_written=count)
    if not count:
        return ColumnWriteOutcome(snapshot=None, report=report, rows=rows)
    splits = list(groups.splits(builder.rows_at_once))
    read = store.rewrite_context(file.schema_id for split in splits for file in split.data_files)
    columns = tuple(dict.fromkeys((*builder.names_read, ROW_ID.name)))
    frame = SparkExecutor(session).to_dataframe(replace(read, columns=columns), splits)
    made = _made(builder, compute, frame, [ROW_ID.name])
    unchanged = columns_unchanged_since(
        store, snapshot, groups.files, {*builder.columns, *builder.reads}
    )
    schema = with_tracking(store.schema)
    with closing(FrameSource.of(store.label, schema, made, [ROW_ID.name])) as source:
        matching = _Matching(source=source)

        def condition(latest: Snapshot | None) -> None:
            if matching.rows_matched != count:
                raise InvalidInputError(
                    f"Table '{store.label}': the function was given {count} rows and returns"
                    f" {matching.rows_matched} of them. Return one for each.",
                    kind="column-rows",
                    details={"table": store.label, "stored": count},
                )
            try:
                unchanged(latest)
            except CommitConflictError as conflict:  # the values are made from older ones
                raise CommitConflictError(
                    conflict.message, kind=READ_CHANGED, details=conflict.details
                ) from conflict

        change = RowChangeBuilder(
            store=store,
            commit_user=builder.commit_user,
            commit_identifier=builder.commit_identifier,
            properties=builder.properties,
            condition=condition,
        )
        outcome = change.merge_from(matching, inserts=False)
    if outcome.snapshot is None:
        condition(snapshot)
    return ColumnWriteOutcome(snapshot=outcome.snapshot, report=report, rows=rows)


def _write_records(
    builder: ColumnWriteBuilder, compute: Compute, session: SparkSession
) -> ColumnWriteOutcome:
    store, rows = builder.store, builder.keyed_rows()
    executor = SparkExecutor(session)
    frame = executor.to_dataframe(rows.plan.context, rows.plan.splits)
    # Spark's types are not always those that the hash was made of.
    fields = tuple(replace(each, default_value=None) for each in rows.plan.context.fields)
    schema = replace(store.schema, fields=fields, partition_keys=(), primary_keys=())
    check = InputCheck(table=store.label, schema=schema)
    flagged = StructType([*frame.schema.fields, StructField(_BEHIND, BooleanType())])
    marked = frame.mapInArrow(
        partial(_marked, rows.versions, check, spark_arrow_schema(flagged)), flagged
    )
    with typed_errors():
        total, behind = marked.agg(sf.count("*"), sf.count_if(_BEHIND)).collect()[0]
    count = behind if builder.only_behind else total
    counts = RowsBehind(behind=behind, total=total)
    report = WriteReport(rows_in=count, rows_written=count)
    if not count:
        return ColumnWriteOutcome(snapshot=None, report=report, rows=counts)
    chosen = marked.where(_BEHIND) if builder.only_behind else marked
    made = _made(builder, compute, chosen.drop(_BEHIND), rows.identity)
    kind = store.schema.typed_options.get(ROWKIND_FIELD)
    if kind:
        made = made.withColumn(kind, sf.lit(RowKind.INSERT.short_text))
    messages = executor.map_rows(record_context(store), made).messages
    buckets = {(message.partition, message.bucket) for message in messages}
    committed = commit_columns(builder, messages, rows_kept_since(store, rows.snapshot, buckets))
    return ColumnWriteOutcome(snapshot=committed, report=report, rows=counts)


def _marked(
    versions: Versions, check: InputCheck, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Give rows their next version, and mark those that are behind."""
    with encoded_errors():
        for batch in batches:
            plain = check.conform(batch.rename_columns(schema.names[:-1]))
            rows, is_behind = versions.following(plain)
            marked = rows.append_column(_BEHIND, from_numpy(is_behind))
            yield to_spark_batch(marked, schema)
