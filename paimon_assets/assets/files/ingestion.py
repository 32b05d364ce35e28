"""A table fed by a source: each run ingests the new files since the last one, exactly once.

    source ─▶ intake: new files (ledger) ─▶ frame in their order ─▶ transform ─▶ snapshot + ledger

The ledger (`assets.files.ledger`) travels with the snapshot: a crash anywhere leaves both, or
neither.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any, Generic, Protocol, TypeVar, Unpack, cast

import dagster as dg
from msgspec.structs import replace

from paimon_assets.assets.failures import TRY_AGAIN, dagster_failures, naming_arguments
from paimon_assets.assets.files import ledger as ledgers
from paimon_assets.assets.files.landing import Landing, compare_landing
from paimon_assets.assets.files.source_files import FileSource, IngestConfig, OnChanged
from paimon_assets.assets.files.sources import Intake, Opening, Source, source_name_of
from paimon_assets.assets.metadata import DATA_VERSION, Metadata
from paimon_assets.assets.provenance import Step, step_of_asset
from paimon_assets.assets.resource import ExecutorKind, PaimonCatalogResource, table_or_none
from paimon_assets.assets.sensors import Ticked, define_sensor, digest_of, request_once
from paimon_assets.assets.tables import table_write
from paimon_assets.assets.tables.audit import BatchAudit
from paimon_assets.assets.tables.declared_table import SchemaLike, declared_schema
from paimon_assets.assets.tables.table_asset import AssetOptions, TableTarget, define_intake
from paimon_assets.assets.translator import identifier_of_asset, resource_key_of
from paimon_assets.engine.contract.executor import CountingExecutor
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import CommitConflictError, FormatError, InvalidInputError
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.frames.frames import Frame, to_rows
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.write.write_builder import WriteBuilder, WriteOutcome

_Intake = TypeVar("_Intake", bound=Intake)
_MOST_FAILURES, _LONGEST_PAUSE = 5, 60.0
"""Failures one after the other that end the run; the pause doubles with each."""
FILES_HAVE_NOT = {
    "partitions_def": "a file may hold rows of any partition",
    "check_specs": "checks are definitions of their own",
}
"""Options of `dg.asset` that an asset fed by files cannot have → why."""


@naming_arguments
def build_file_ingestion_asset(
    table: str | Identifier,
    schema: SchemaLike,
    *,
    source: Source,
    transform: Callable[[Frame], Frame] | None = None,
    executor: ExecutorKind | None = None,
    warehouse: str | None = None,
    **options: Unpack[AssetOptions],
) -> dg.AssetsDefinition:
    """Make a table the asset of the files that land in a folder, or of another source of rows.

    >>> source = FileSource(folder="/landing/orders", format="csv")
    >>> orders = build_file_ingestion_asset("shop.orders", {"id": "BIGINT"}, source=source)

    Each run ingests the files it does not hold yet, in path order, and commits them with their
    ledger as one snapshot; `IngestConfig` bounds it. Without a new file nothing is committed.

    Args:
        table: `database.table`.
        schema: The declared table; a Schema of ours or of Arrow, or name → type.
        source: The folder and the format of its files; or topics (`paimon_assets.cdc.KafkaSource`).
        transform: From the frame of the new files (a Spark DataFrame on Spark, else a pyarrow
            RecordBatchReader) to the frame of the table's rows; anything `engine.table.frames`
            takes. A Spark frame has one column more, which remembers the order of rows: keep it
            (`withColumn`, not `select`) where rows of one key may have equal sequences.
        executor: `spark` or `embedded`; the resource's choice by default.
        warehouse: Root of the warehouse, to show the table's address before the first run.
        **options: As for `dg.asset`.

    Raises:
        InvalidInputError: `table` is no name; or the asset has partitions, which files have not,
            or check_specs, which nothing here could answer; or changed files shall be ingested
            again by a table without a primary key, which would have their rows twice.
    """
    schema = declared_schema(schema, (), ())
    source.check_rows(str(table), schema)
    target = TableTarget.of(table, schema, options, executor=executor, warehouse=warehouse)
    if getattr(source, "extra_columns", "error") == "add":
        target = target.with_columns_of_rows()
    return define_intake(
        target,
        options,
        partial(
            ingest, open_intake=source.open, ingestion=partial(RowIngestion, transform=transform)
        ),
        source.config,
        description=f"Rows of {source.title}, exactly once each.",
        refused=FILES_HAVE_NOT,
    )


def ingest(
    context: dg.AssetExecutionContext,
    paimon: PaimonCatalogResource,
    config: Any,
    target: TableTarget,
    *,
    open_intake: Callable[[Opening], Intake],
    ingestion: Callable[..., "Ingestion"],
    key: dg.AssetKey | None = None,
) -> dg.MaterializeResult[Any]:
    """Run an ingestion asset; `ingestion` takes the `IngestionRun` as `run`.

    The key is that of the table, if it is not the asset's.
    """
    key = key or context.asset_key

    def take(config: Any, *, reports: bool, is_first: bool) -> dg.MaterializeResult[Any] | None:
        ensured = target.ensure(paimon, dry_run=config.dry_run)
        table, step = ensured.table, step_of_asset(context)
        audit = BatchAudit(target.before_commit, table, paimon)
        newest = ledgers.ledger_snapshot(table, source_name_of(key))
        if is_first and newest is not None and step.is_made(newest.properties):
            results = audit.results(newest)
            return table_write.result_of_earlier_try(paimon, step, table, newest, results)
        opening = Opening(paimon=paimon, table=table, key=key, config=config, log=step.log)
        intake = open_intake(opening)
        run = IngestionRun(
            paimon=paimon, target=target, table=table, audit=audit, step=step, config=config,
            intake=intake,
        )  # fmt: skip
        work = ingestion(run=run)
        work.choose()
        if config.dry_run or intake.is_empty:
            return run.nothing_written(work.metadata()) if reports else None
        step.log.info("%s", intake.news())
        started = time.monotonic()
        outcome = None
        while outcome is None:
            try:
                outcome = work.write_once()
            except (FormatError, InvalidInputError) as error:
                if not intake.can_leave_out(error):
                    of_record = intake.name_record(error)
                    if of_record is error:
                        raise
                    raise of_record from None  # the cause may show a value
        metadata = {
            **target.lineage,
            "paimon/write_seconds": round(time.monotonic() - started, 3),
            **work.metadata(),
        }
        results = audit.results()
        return table_write.result_of_write(paimon, step, ensured, outcome, metadata, results)

    with dagster_failures(target.identifier, context):
        if getattr(config, "follow_seconds", 0) and not config.dry_run:
            return follow(context, key, config, partial(take, is_first=False))
        return cast("dg.MaterializeResult[Any]", take(config, reports=True, is_first=True))


@dataclass(frozen=True, kw_only=True)
class IngestionRun(Generic[_Intake]):
    """One run of an ingestion asset: its inputs and its commit."""

    paimon: PaimonCatalogResource
    target: TableTarget
    table: Table
    audit: BatchAudit
    step: Step
    config: Any
    intake: _Intake

    def executor(self) -> CountingExecutor[Any]:
        return self.paimon.new_executor(self.target.executor)

    def nothing_written(self, numbers: Metadata) -> dg.MaterializeResult[Any]:
        note = self.intake.nothing_note(dry_run=self.config.dry_run)
        self.step.log.info(note)
        metadata = {"paimon/summary": note, **table_write.NOTHING_WRITTEN, **numbers}
        results = self.audit.results()
        return table_write.result_of(self.paimon, self.table, None, metadata, results)

    def commit(
        self, frame: Frame, log: Mapping[str, Any] | None = None, writer: WriteBuilder | None = None
    ) -> WriteOutcome:
        """Write a frame and the ledger of the source, with the state of its log, as one commit."""
        table, paimon, executor = self.table, self.paimon, self.executor()
        rows = to_rows(frame, executor, table.schema, show_values=paimon.show_values)
        ledger = replace(self.intake.next_ledger(), log=log or {})
        name = ledgers.write_ledger(table, ledger, remembered=self.intake.remembered)
        key = ledgers.property_of(ledger.source)
        writer = (
            (writer or table.new_write_builder())
            .with_commit_user(key)  # of the source, so that each generation is committed once
            .with_commit_identifier(ledger.generation)
            .with_properties(self.step.properties(self.target.code_version))
            .with_properties({key: name})
            .with_empty_commits()  # a file without rows is ingested too
            .with_last_check(self.intake.check_unchanged)
            .with_condition(ledgers.unless_ingested(ledger))
        )
        if not paimon.show_values:
            writer = writer.with_values_hidden()
        if self.target.before_commit:
            writer = writer.with_audit(self.audit, branch=self.step.batch_name)
        outcome = writer.write(rows, executor)
        if outcome.snapshot is None or outcome.snapshot.properties.get(key) != name:
            raise CommitConflictError(
                f"Another run ingested from '{ledger.source}' into {table.name} at the same "
                "time; its commit counts and this one was dropped.",
                kind="ingestion-conflict",
            )
        return outcome


class Ingestion(Protocol):
    """Turns the new files or records of a source into one commit."""

    def choose(self) -> None:
        """Choose the files or records of the run."""

    def write_once(self) -> WriteOutcome | None:
        """Write the rows and their ledger as one commit; None if something was left out."""

    def metadata(self) -> Metadata:
        """Return the counts of taken and of remaining files or records."""


@dataclass(frozen=True, kw_only=True)
class RowIngestion:
    """Ingests the rows of a source as they are, or transformed."""

    run: IngestionRun[Intake]
    transform: Callable[[Frame], Frame] | None = None

    def choose(self) -> None:
        self.run.intake.choose(self.run.config)

    def metadata(self) -> Metadata:
        return self.run.intake.metadata()

    def write_once(self) -> WriteOutcome | None:
        run, intake = self.run, self.run.intake
        expected = None if self.transform is not None else run.target.schema
        frame = intake.frame(expected, run.target.executor)
        if frame is None:
            return None
        if self.transform is not None and not intake.is_empty:
            frame = self.transform(frame)
        return run.commit(frame)


@naming_arguments
def build_new_files_sensor(
    asset: dg.AssetsDefinition,
    *,
    source: FileSource,
    name: str | None = None,
    target: Any = None,
    max_files: int = 100,
    minimum_interval_seconds: int = 30,
) -> dg.SensorDefinition:
    """Request a run of an ingestion asset for the files its table does not hold yet.

    >>> sensor = build_new_files_sensor(orders, source=FileSource(folder="/landing/orders"))

    Files are requested once, and once more after a rollback. The sensor is shipped stopped.

    Args:
        asset: From `build_file_ingestion_asset`.
        source: The asset's.
        name: The name of the sensor; `<table>_new_files` by default.
        target: A job or selection that contains the asset; the asset by default.
        max_files: Most files of one run; 0 for all.
        minimum_interval_seconds: Between ticks.

    Raises:
        InvalidInputError: The asset is not of exactly one table.
    """
    identifier, resource_key = identifier_of_asset(asset), resource_key_of(asset)
    op_name = asset.node_def.name

    def tick(context: dg.SensorEvaluationContext, paimon: PaimonCatalogResource) -> Ticked:
        table = table_or_none(paimon, identifier)
        landing = compare_landing(paimon, table, asset.key, source)
        folder, pending = landing.folder, landing.pending
        again = pending.changed if source.on_changed == OnChanged.AGAIN else ()
        due = tuple(sorted((*pending.new, *again)))[: max_files or None]
        refused = pending.changed and source.on_changed == OnChanged.REFUSE
        if refused or not due:
            return dg.SkipReason(_why_nothing(landing, refused=bool(refused)))
        version = "none" if table is None else table.state.store.created_ms
        return request_once(
            context,
            f"{identifier}:{version}:{landing.ledger.generation}:{digest_of(due)}",
            f"{counted(len(due), 'new file')} in '{folder}'",
            config=dg.RunConfig(ops={op_name: IngestConfig(max_files=max_files)}),
        )

    return define_sensor(
        name or f"{op_name}_new_files",
        f"Requests an ingestion run when new files land for {identifier}.",
        tick,
        resource_key=resource_key,
        seconds=minimum_interval_seconds,
        target=target if target is not None else asset,
    )


def _why_nothing(landing: Landing, *, refused: bool) -> str:
    folder, pending, files = landing.folder, landing.pending, landing.files
    if refused:
        return (
            f"{ledgers.names_text(pending.changed)} in '{folder}' changed after being ingested; a "
            "run would fail. Restore them, or land the new rows under new names."
        )
    if not files:
        return f"No file matches in '{folder}', or the folder does not exist."
    bad = len(pending.quarantined)
    if bad:
        return (
            f"{len(files) - bad} of {counted(len(files), 'file')} of '{folder}' are ingested; "
            f"{bad} in quarantine until they change."
        )
    return f"Ingested: all {counted(len(files), 'file')} of '{folder}'."


def follow(
    context: dg.AssetExecutionContext,
    key: dg.AssetKey,
    config: Any,
    take: Callable[..., dg.MaterializeResult[Any] | None],
) -> dg.MaterializeResult[Any]:
    """Ingest again and again; return the materialization of the last commit.

    `take(config, reports=…)` commits once and returns the materialization; where nothing is
    new, None, or that of the table with `reports`. The config has `follow_seconds`,
    `commit_seconds`, and `later()`, the config of the further commits.

    This saves the start of a process that each run of a few seconds would pay. Materializations
    before the last are logged with their commits, so that sensors see them at once. An error that
    may not last is logged, and the run tries again; terminated, it leaves its last commit.
    """
    end, failures, now_config = time.monotonic() + config.follow_seconds, 0, config
    while True:
        began, pause = time.monotonic(), config.commit_seconds
        try:
            result = take(now_config, reports=began >= end)
        except TRY_AGAIN as error:
            failures += 1
            if failures > _MOST_FAILURES:
                raise
            pause = min(max(pause, 1.0) * 2**failures, _LONGEST_PAUSE)
            text = "%s The run continues in %.0f s; it ends after %d more failures like this."
            context.log.warning(text, error.message, pause, _MOST_FAILURES - failures)
        else:
            if result is not None and began >= end:
                return result
            if result is not None:
                version = result.data_version
                tags = {} if version is None else {DATA_VERSION: version.value}
                context.log_event(
                    dg.AssetMaterialization(asset_key=key, metadata=result.metadata, tags=tags)
                )
                # They are stored already, and would be kept until the step ends.
                deque(context.op_execution_context.consume_events(), maxlen=0)
            failures, now_config = 0, config.later()
        wake = began + pause
        Event().wait(max(0.0, (wake if failures else min(wake, end)) - time.monotonic()))
