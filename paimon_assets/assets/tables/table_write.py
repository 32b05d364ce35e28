"""A frame → one snapshot of a table → the materialization that Dagster shows.

`paimon_asset` and `PaimonIOManager` are two fronts of `TableWrite.materialize`; ingestion and
segments, which commit in their own way, report through the functions at the end.

    an earlier try committed ─▶ report its snapshot, write nothing
    else ─▶ rows ─▶ write mode, partitions, audit ─▶ one commit ─▶ consumers advance ─▶ report
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum, StrEnum
from functools import cached_property
from typing import Any

import dagster as dg
import pyarrow as pa
from pydantic import Field

from paimon_assets.assets import metadata as md
from paimon_assets.assets.failures import TRY_AGAIN, choice_of
from paimon_assets.assets.partitions import RunPartitions, only_rows_of
from paimon_assets.assets.provenance import Step
from paimon_assets.assets.resource import PaimonCatalogResource
from paimon_assets.assets.tables.audit import BatchAudit, BatchCheck
from paimon_assets.assets.tables.consumption import Consumed, advance
from paimon_assets.assets.tables.declared_table import EnsuredTable, ensure_table
from paimon_assets.engine.contract.commit_message import WriteReport
from paimon_assets.engine.contract.executor import CountingExecutor
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.control.commit.file_store_commit import Condition
from paimon_assets.engine.errors import AlreadyExistsError, InvalidInputError, PaimonError
from paimon_assets.engine.executors import spark_module
from paimon_assets.engine.spec.evolution.schema_diff import schema_diff
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.schema.schema import Schema, TableSchema
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.frames.frames import Frame, is_spark_frame, spark_name, to_rows
from paimon_assets.engine.table.read.read_builder import ReadBuilder
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.write.row_change import RowChangeOutcome, WhenMatched
from paimon_assets.engine.table.write.staged_batch import BatchRefusedError
from paimon_assets.engine.table.write.write_builder import WriteBuilder, WriteOutcome

SCHEMA_ID = "paimon/schema_id"
NOTHING_WRITTEN: md.Metadata = {"paimon/rows_in": 0, "paimon/rows_written": 0}
"""Numbers of a run that wrote no row, so that plots over time have no gaps."""

_ROWS_EXIST = "rows-exist"
NO_COLUMNS = TableSchema(id=0, fields=(), highest_field_id=-1)
"""The target of a frame for a table that does not exist: the frame's own types."""


class WriteMode(StrEnum):
    """The mode of a write: its effect on existing rows."""

    APPEND = "append"
    """Existing rows stay, new ones are added; a table with a primary key upserts."""
    UPSERT = "upsert"
    """Rows with the same primary key are replaced; the table must have one."""
    OVERWRITE = "overwrite"
    """All are replaced: those of the table, or of the run's partitions if the asset has some."""
    OVERWRITE_PARTITIONS = "overwrite_partitions"
    """Rows of the table partitions in which new rows lie are replaced."""
    ERROR_IF_EXISTS = "error_if_exists"
    """If there are some, in the table or the run's partitions, the run fails."""
    IGNORE = "ignore"
    """If there are some, in the table or the run's partitions, nothing is written."""
    DELETE = "delete"
    """Those that are equal to a row of the frame go: in the primary key, or without one in all
    columns the frame has. Null equals nothing."""


class WriteModeChoice(Enum):
    """The write modes, as the Launchpad has them."""

    append = "append"
    upsert = "upsert"
    overwrite = "overwrite"
    overwrite_partitions = "overwrite_partitions"
    error_if_exists = "error_if_exists"
    ignore = "ignore"
    delete = "delete"


class WriteConfig(dg.Config):
    """The config of a run that writes a table.

    >>> WriteConfig(mode=WriteModeChoice.append).mode.value == WriteMode.APPEND
    True
    """

    mode: WriteModeChoice | None = Field(
        default=None,
        description="Effect on existing rows, in this run; as the asset declares it if left "
        "out. delete: deletes the rows that the function returns.",
    )


def config_of_mode(mode: WriteMode) -> type[WriteConfig]:
    """Return the config that the Launchpad of an asset with this write mode opens with."""
    chosen = WriteModeChoice(mode.value)
    field = Field(default=chosen, description=WriteConfig.model_fields["mode"].description)
    return type(
        WriteConfig.__name__,
        (WriteConfig,),
        {"__annotations__": {"mode": WriteModeChoice}, "mode": field, "__module__": __name__},
    )


def write_mode(text: str, table: str) -> WriteMode:
    return choice_of(WriteMode, text, "Write mode", table, "write-mode")


def refuse_upsert_without_key(primary_keys: Sequence[str], table: str) -> None:
    if not primary_keys:
        owner = f"Table '{table}'" if table else "The schema"
        raise InvalidInputError(
            f"{owner} has no primary key, so the rows that an upsert replaces are unknown. "
            "Declare primary_keys, or use mode 'append' or 'overwrite'.",
            kind="write-mode",
            table=table,
        )


def create_for_frame(
    paimon: PaimonCatalogResource,
    identifier: Identifier,
    frame: Frame | None,
    keys: Schema,
    executor: str | None = None,
) -> tuple[EnsuredTable, Frame] | None:
    """Return the table of a frame's columns, created with the keys, and its rows.

    None of no frame, and of an empty one without columns.
    """
    if frame is None:
        return None
    runner = paimon.new_executor(executor)
    rows = to_rows(frame, runner, NO_COLUMNS, show_values=paimon.show_values)
    columns = runner.row_schema(rows)
    if not columns.names:
        return None
    schema = Schema.of(columns, primary_keys=keys.primary_keys, partition_keys=keys.partition_keys)
    return ensure_table(paimon.catalog(), identifier, schema), rows


@contextmanager
def dropping_unwritten(
    paimon: PaimonCatalogResource, identifier: Identifier, *, is_new: bool
) -> Iterator[None]:
    """Drop a table that was created for rows that were then refused, if it has no commit."""
    try:
        yield
    except (*TRY_AGAIN, BatchRefusedError):
        raise  # the next try, or a reader of the batch, needs the table
    except Exception:
        if is_new:
            catalog = paimon.catalog()
            with suppress(PaimonError):
                table = catalog.get_table(identifier)
                if table.latest_snapshot() is None and not table.branches.list():
                    catalog.drop_table(identifier)
        raise


class DeleteOutcome(WriteOutcome):
    """The outcome of a write that deletes rows."""

    rows_deleted: int


class Materialized(Value):
    """The result of a write."""

    result: dg.MaterializeResult[Any]
    by_partition: Mapping[str, md.Metadata]
    check_results: Sequence[dg.AssetCheckResult]
    """Results of the checks before the commit; `result` has them too."""


class TableWrite(Value, dict=True):
    """One write of one step."""

    paimon: PaimonCatalogResource
    ensured: EnsuredTable
    step: Step
    mode: WriteMode = WriteMode.APPEND
    executor: str | None = None
    partitions: RunPartitions | None = None
    """The run's, if the asset has some; rows outside them are refused."""
    code_version: str | None = None
    checks: Sequence[BatchCheck] = ()
    consumed: tuple[Consumed, ...] = ()
    """Inputs whose consumers advance once the rows are committed."""

    @property
    def table(self) -> Table:
        return self.ensured.table

    @cached_property
    def _audit(self) -> BatchAudit:
        return BatchAudit(self.checks, self.table, self.paimon)

    def materialize(
        self, produce: Callable[[], dg.MaterializeResult[Any]], *, produces_again: bool = False
    ) -> Materialized:
        """Write the frame that `produce` returns, once, and report it.

        A retry reports the commit of the earlier try. Then `produce` is called only if it
        `produces_again`, for the results of its own checks.
        """
        earlier = self._identify().find_committed()
        if earlier is not None:
            advance(self.consumed, earlier.properties)
            own_checks = produce().check_results or () if produces_again else ()
            # Only an overwrite replaces rows that can be named without the frame.
            replaced = self._partition_read() if self.mode is WriteMode.OVERWRITE else None
            checks = self._audit.results(earlier, replaced)
            result = result_of_earlier_try(
                self.paimon, self.step, self.table, earlier, [*own_checks, *checks]
            )
            return self._materialize(result, earlier, checks)
        produced = produce()
        started = time.monotonic()
        outcome = self._write(produced.value)
        checks = self._audit.results()
        metadata: md.Metadata = {"paimon/write_seconds": round(time.monotonic() - started, 3)}
        metadata |= produced.metadata or {}
        results = [*(produced.check_results or ()), *checks]
        result = result_of_write(self.paimon, self.step, self.ensured, outcome, metadata, results)
        return self._materialize(result, outcome.snapshot if outcome else None, checks)

    def _materialize(
        self,
        result: dg.MaterializeResult[Any],
        snapshot: Snapshot | None,
        checks: Sequence[dg.AssetCheckResult],
    ) -> Materialized:
        by_partition: Mapping[str, md.Metadata] = {}
        if self.partitions is not None and snapshot is not None:
            by_partition = md.partition_metadata(self.table, snapshot, self.partitions)
        return Materialized(result=result, by_partition=by_partition, check_results=checks)

    def _partition_read(self) -> ReadBuilder:
        read = self.table.new_read_builder()
        return read if self.partitions is None else read.with_filter(self.partitions.predicate())

    def _write(self, frame: Frame | None) -> WriteOutcome | None:
        """Commit a frame as one snapshot; None if there is no frame, or the mode ignores it."""
        try:
            outcome = None if frame is None else self._write_frame(frame)
        except AlreadyExistsError as error:
            if self.mode is WriteMode.IGNORE and error.kind == _ROWS_EXIST:
                return None
            raise
        snapshot = outcome.snapshot if outcome is not None else None
        if snapshot is None and any(item.has_moved for item in self.consumed):
            snapshot = self._identify().commit(())
        advance(self.consumed, {} if snapshot is None else snapshot.properties)
        return outcome

    def _write_frame(self, frame: Frame) -> WriteOutcome:
        writer = self._in_mode(self._identify())
        if self.checks:
            writer = writer.with_audit(self._audit, branch=self.step.batch_name)
        executor, show = self.paimon.new_executor(self.executor), self.paimon.show_values
        if self.mode is WriteMode.DELETE:
            self._check_delete()
        rows = to_rows(frame, executor, self.table.schema, show_values=show)
        if not show:
            writer = writer.with_values_hidden()
        # Of a Spark frame the tasks refuse rows outside an overwrite: no job of its own.
        is_checked = self.mode is WriteMode.OVERWRITE and is_spark_frame(rows)
        if self.partitions is not None and not is_checked:
            rows = only_rows_of(self.partitions, rows, show_values=show)
        if self.mode is WriteMode.DELETE:
            return self._delete(rows, executor)
        return writer.write(rows, executor)

    def _delete(self, rows: Frame, executor: CountingExecutor[Any]) -> WriteOutcome:
        """Delete the rows of the table that are equal to rows of the frame."""
        builder = (
            self.table.new_row_change_builder()
            .with_commit_user(self.step.commit_user)
            .with_properties(self.step.properties(self.code_version))
        )
        if is_spark_frame(rows):
            on = self._compare(rows.columns)
            spark = spark_module("paimon_assets.spark.dataframes.merge")
            outcome: RowChangeOutcome = spark.merge_dataframe(
                builder,
                rows.select(*map(spark_name, on)).distinct(),
                on=on,
                when_matched=WhenMatched.DELETE,
                inserts=False,
            )
        else:
            table = rows.read_all() if isinstance(rows, pa.RecordBatchReader) else rows
            on = self._compare(table.column_names)
            keys = table.select(on).group_by(on).aggregate([])
            runner: Any = executor
            outcome = builder.merge(
                keys, on=on, when_matched=WhenMatched.DELETE, inserts=False, executor=runner
            )
        return DeleteOutcome(
            snapshot=outcome.snapshot, report=WriteReport(), rows_deleted=outcome.rows_matched or 0
        )

    def _compare(self, names: Sequence[str]) -> list[str]:
        return list(self.table.schema.primary_keys or names)

    def _check_delete(self) -> None:
        if self.consumed or self.checks:
            reason = "an input has a consumer" if self.consumed else "checks judge each batch"
            raise self._mode_error(
                f"Rows of table '{self.table.name}' cannot be deleted by an asset of which {reason}"
                ": use mode 'upsert' and a table with 'rowkind.field', or another asset."
            )

    def _mode_error(self, text: str, column: str | None = None) -> InvalidInputError:
        return InvalidInputError(text, kind="write-mode", table=self.table.name, column=column)

    def _identify(self) -> WriteBuilder:
        writer = self.table.new_write_builder().with_commit_user(self.step.commit_user)
        for item in self.consumed:
            writer = writer.with_condition(item.unless_consumed(self.table))
        positions = {item.key: item.position.to_text() for item in self.consumed}
        return writer.with_properties({**self.step.properties(self.code_version), **positions})

    def _in_mode(self, writer: WriteBuilder) -> WriteBuilder:
        match self.mode:
            case WriteMode.APPEND | WriteMode.DELETE:
                return writer
            case WriteMode.UPSERT:
                refuse_upsert_without_key(self.table.schema.primary_keys, self.table.name)
                return writer
            case WriteMode.ERROR_IF_EXISTS | WriteMode.IGNORE:
                return writer.with_condition(self._no_rows())
            case WriteMode.OVERWRITE_PARTITIONS:
                self._require_partition_keys()
                return writer.with_dynamic_overwrite()
            case WriteMode.OVERWRITE if self.partitions is None:
                return writer.with_overwrite({})
            case WriteMode.OVERWRITE:
                self._require_partition_keys()
                return writer.with_overwrite_where(self.partitions.predicate())

    def _require_partition_keys(self) -> None:
        keys = self.table.schema.partition_keys
        columns = [] if self.partitions is None else [item.name for item in self.partitions.fields]
        other = next((name for name in columns if name not in keys), None)
        if keys and other is None:
            return
        state = f"is partitioned by {', '.join(keys)}, not by '{other}'"
        raise self._mode_error(
            f"Mode '{self.mode}' replaces whole partitions, but table '{self.table.name}' "
            f"{state if keys else 'has no partitions'}. Declare partition_keys, or use mode "
            "'append' or 'upsert'.",
            other,
        )

    def _no_rows(self) -> Condition:
        """Refuse rows that are stored now, and return the commit condition that none came."""
        looked_at = self.table.latest_snapshot()
        self._refuse_rows()

        def check(latest: Snapshot | None) -> None:
            if latest is not None and latest != looked_at:
                self._refuse_rows()

        return check

    def _refuse_rows(self) -> None:
        read = self._partition_read().with_columns(self.table.schema.field_names[:1])
        with read.to_reader() as reader:
            if not any(batch.num_rows for batch in reader):
                return
        where = f" in partition '{self.partitions.label}'" if self.partitions else ""
        message = (
            f"Table '{self.table.name}' has rows{where} already, and its write mode is "
            f"'{self.mode}'. Nothing was committed."
        )
        raise AlreadyExistsError(message, kind=_ROWS_EXIST, table=self.table.name)


def result_of_earlier_try(
    paimon: PaimonCatalogResource,
    step: Step,
    table: Table,
    snapshot: Snapshot,
    check_results: Sequence[dg.AssetCheckResult] = (),
) -> dg.MaterializeResult[Any]:
    """Return the materialization of the commit of an earlier try of this step."""
    step.log.info(
        "An earlier try of this step committed snapshot %d of %s; it is reported, not repeated.",
        snapshot.id,
        table.name,
    )
    metadata: md.Metadata = {"paimon/already_committed": True}
    return result_of(paimon, table, snapshot.id, metadata, check_results)


def result_of_write(
    paimon: PaimonCatalogResource,
    step: Step,
    ensured: EnsuredTable,
    outcome: WriteOutcome | None,
    metadata: md.Metadata,
    check_results: Sequence[dg.AssetCheckResult] = (),
) -> dg.MaterializeResult[Any]:
    """Return the materialization of a write; None or no snapshot means nothing was written."""
    table = ensured.table
    snapshot = None if outcome is None else outcome.snapshot
    if snapshot is not None and snapshot.schema_id != table.schema.id:
        table = table.refresh()  # the write has merged the rows' columns
    metadata = {**_schema_changes(step, table, ensured.schema_before), **metadata}
    if isinstance(outcome, DeleteOutcome):
        metadata = {"paimon/rows_deleted": outcome.rows_deleted, **metadata}
    if outcome is None or snapshot is None:
        step.log.info("Nothing to write: %s stays as it is.", table.name)
        return result_of(paimon, table, None, {**NOTHING_WRITTEN, **metadata}, check_results)
    report = outcome.report
    step.log.info(
        "Committed snapshot %d of %s: %s in, %s written.",
        snapshot.id,
        table.name,
        counted(report.rows_in, "row"),
        f"{report.rows_written:,}",
    )
    if report.sequence_wraps:
        step.log.warning(
            "%d rows of %s share one sequence value with more rows than its padding can number; "
            "among those the order is not certain.",
            report.sequence_wraps,
            table.name,
        )
    summary = {"paimon/summary": _summary(report, metadata)}
    metadata = {**summary, **md.report_metadata(report, table.schema), **metadata}
    return result_of(paimon, table, snapshot.id, metadata, check_results)


def _summary(report: WriteReport, metadata: md.Metadata) -> str:
    """Return the run as a sentence."""
    taken: Any = metadata.get("paimon/files_ingested")
    text = f"{counted(taken, 'file')}: " if taken else ""
    text += f"{counted(report.rows_in, 'row')} in, {report.rows_written:,} written"
    for key, noun, place in (
        ("paimon/files_in_quarantine", "file", " in quarantine"),
        ("paimon/dead_letters", "dead letter", ""),
    ):
        count: Any = metadata.get(key)
        text += f", {counted(count, noun)}{place}" if count else ""
    return text


def result_of(
    paimon: PaimonCatalogResource,
    table: Table,
    snapshot_id: int | None,
    metadata: md.Metadata,
    check_results: Sequence[dg.AssetCheckResult] = (),
) -> dg.MaterializeResult[Any]:
    """Return the materialization of a snapshot, or of the newest for None: nothing was added."""
    snapshot = table.snapshot(snapshot_id)
    is_new = snapshot_id is not None
    state, version = md.state_of(table, snapshot, is_new=is_new, rows_shown=paimon.rows_shown)
    return dg.MaterializeResult(
        metadata={**metadata, **state, **metadata},  # the run before the table
        check_results=list(check_results),
        data_version=version,
    )


def _schema_changes(step: Step, table: Table, schema_before: int | None) -> md.Metadata:
    """Return the difference to the schema of the asset's last materialization.

    `schema_before` is the schema before the run, for an asset without a materialization.
    """
    last = md.last_number(step.instance, step.asset_key, SCHEMA_ID) if step.asset_key else None
    before = schema_before if last is None else last
    if before is None or before == table.schema.id:
        return {}
    # As stored: without options that the write alone has.
    schemas = {schema.id: schema for schema in table.schemas()}
    earlier = schemas.get(before)
    lines = schema_diff(earlier, schemas[table.schema.id]) if earlier is not None else ()
    if not lines:
        return {}
    return {md.DIFF: md.diff_table(lines), "paimon/schema_before": before}
