"""Columns that a function makes of a table's rows as a DataFrame: no row is sent to the driver.

    ranges behind ─▶ columns read, `_ROW_ID` ─▶ function ─▶ merge by `_ROW_ID`

Rows of a DataFrame have no order, so the function keeps `_ROW_ID`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession

from paimon_assets.columns.write import ColumnWriteBuilder, ColumnWriteOutcome, RowsBehind
from paimon_assets.engine.contract.commit_message import WriteReport
from paimon_assets.engine.contract.write_tasks import RowChange, RowChangeResult, RowChangeTask
from paimon_assets.engine.control.commit.column_conflicts import columns_unchanged_since
from paimon_assets.engine.errors import CommitConflictError, InvalidInputError
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.schema.schema import ROW_ID, with_tracking
from paimon_assets.engine.table.write.row_change import READ_CHANGED, RowChangeBuilder
from paimon_assets.spark.dataframes.merge import FrameSource
from paimon_assets.spark.executor import SparkExecutor

Compute = Callable[[DataFrame], DataFrame]


def write_columns(
    builder: ColumnWriteBuilder, compute: Compute, session: SparkSession
) -> ColumnWriteOutcome:
    """Write columns as `ColumnWriteBuilder.write` does, by a function from DataFrame to DataFrame.

    The function gets the columns that are read and `_ROW_ID`, and returns `_ROW_ID` with the new
    columns, as `rows.withColumn(…)` does.

    Raises:
        As `ColumnWriteBuilder.write`; also errors of the DataFrame's evaluation.
    """

    def attempt(named: ColumnWriteBuilder) -> ColumnWriteOutcome:
        snapshot = named.store.snapshots.latest()
        if snapshot is None:
            return ColumnWriteOutcome(snapshot=None, report=WriteReport())
        return _write_ranges(named, snapshot, compute, session)

    return builder.write_by(attempt)


def _make_columns(builder: ColumnWriteBuilder, compute: Compute, rows: DataFrame) -> DataFrame:
    """Return the function's result for rows: the id of each, and the new columns."""
    frame = compute(rows)
    names = [ROW_ID.name, *builder.columns]
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise InvalidInputError(
            f"Table '{builder.store.label}': the function returns a DataFrame without"
            f" {', '.join(missing)}. Return all columns it was given, and the new ones:"
            " rows.withColumn(…).",
            kind="input-columns",
            table=builder.store.label,
            column=missing[0],
        )
    return frame.select(*(f"`{name}`" for name in names))


class _CountingSource(FrameSource, kw_only=True):
    """A source of a merge that counts the rows it matched."""

    rows_matched: int = 0

    def change(
        self, change: RowChange, tasks: Sequence[RowChangeTask]
    ) -> Iterator[RowChangeResult]:
        self.rows_matched = 0
        for result in super().change(change, tasks):
            self.rows_matched += result.rows_matched
            yield result


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
    made = _make_columns(builder, compute, frame)
    unchanged = columns_unchanged_since(
        store, snapshot, groups.files, {*builder.columns, *builder.reads}
    )
    schema = with_tracking(store.schema)
    with closing(_CountingSource.of(store.label, schema, made, [ROW_ID.name])) as source:

        def condition(latest: Snapshot | None) -> None:
            if source.rows_matched != count:
                raise InvalidInputError(
                    f"Table '{store.label}': the function was given {count} rows and returns"
                    f" {source.rows_matched} of them. Return one for each.",
                    kind="column-rows",
                    table=store.label,
                    stored=count,
                )
            try:
                unchanged(latest)
            except CommitConflictError as conflict:  # the values are made from older ones
                raise CommitConflictError(
                    conflict.message, kind=READ_CHANGED, **conflict.details
                ) from conflict

        change = RowChangeBuilder(
            store=store,
            commit_user=builder.commit_user,
            commit_identifier=builder.commit_identifier,
            properties=builder.properties,
            condition=condition,
        )
        outcome = change.merge_from(source, inserts=False)
    if outcome.snapshot is None:
        condition(snapshot)
    return ColumnWriteOutcome(snapshot=outcome.snapshot, report=report, rows=rows)
