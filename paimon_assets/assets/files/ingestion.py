"""A table fed by files: each run ingests the files that landed since the last one, exactly once.

    folder ─▶ new files (ledger) ─▶ frame in path order ─▶ transform ─▶ one snapshot + ledger

The ledger (`assets.files.ledger`) travels with the snapshot: a crash anywhere leaves both, or
neither.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack

import dagster as dg
import pyarrow as pa
from pydantic import Field

from paimon_assets.assets.failures import dagster_failures
from paimon_assets.assets.files.ledger import (
    Ledger,
    Pending,
    Quarantined,
    compare,
    ledger_snapshot,
    load_ledger,
    names_text,
    property_of,
    write_ledger,
)
from paimon_assets.assets.files.source_files import (
    BadFile,
    FileSource,
    OnBadFile,
    OnChanged,
    checked_schema,
    read_files,
)
from paimon_assets.assets.metadata import Metadata, grid
from paimon_assets.assets.provenance import Step, step_of_asset
from paimon_assets.assets.resource import ExecutorKind, PaimonCatalogResource, table_or_none
from paimon_assets.assets.sensors import Ticked, define_sensor, digest_of, request_once
from paimon_assets.assets.tables.audit import BatchAudit
from paimon_assets.assets.tables.table_asset import AssetOptions, TableTarget, define_intake
from paimon_assets.assets.tables.table_write import (
    NOTHING_WRITTEN,
    result_of,
    result_of_earlier_try,
    result_of_write,
)
from paimon_assets.assets.translator import identifier_of_asset, resource_key_of
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.control.segments import FolderFile
from paimon_assets.engine.errors import (
    CommitConflictError,
    FormatError,
    InvalidInputError,
    PaimonError,
)
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.fileio.opening import file_io_for
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.words import counted, printable
from paimon_assets.engine.table.frames.frames import Frame, to_rows
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.write.write_builder import WriteBuilder, WriteOutcome

_FILES_SHOWN = 200
FILES_HAVE_NOT = {
    "partitions_def": "a file may hold rows of any partition",
    "check_specs": "checks are definitions of their own",
}
"""Options of `dg.asset` that an asset fed by files cannot have → why."""


class IngestConfig(dg.Config):
    """The config of an ingestion run."""

    source: str = Field(
        default="",
        description="Folder to read instead of the asset's own. Files keep their names: what was "
        "ingested under a name is not ingested again.",
    )
    max_files: int = Field(
        default=0, description="Most files one run takes in, in name order; 0 takes all new ones."
    )
    dry_run: bool = Field(
        default=False, description="Only report which files are new; write nothing."
    )


@dataclass(frozen=True, kw_only=True)
class Landing:
    """The files of a landing folder that a table has not ingested yet."""

    folder: str
    file_io: FileIO
    ledger: Ledger
    files: list[FolderFile]
    pending: Pending


def compare_landing(
    paimon: PaimonCatalogResource,
    table: Table | None,
    key: dg.AssetKey,
    source: FileSource,
    *,
    folder: str = "",
) -> Landing:
    """Compare the folder of a source with the ledger of an ingestion asset, if it has a table."""
    name, folder = source_name_of(key), source.folder_path(folder)
    file_io = file_io_for(folder, paimon.options)
    files = source.list_files(file_io, folder)
    ledger = Ledger(source=name)
    if table is not None:
        ledger = load_ledger(table, name, ledger_snapshot(table, name))
    pending = compare(files, ledger, table)
    return Landing(folder=folder, file_io=file_io, ledger=ledger, files=files, pending=pending)


def quarantine_value(quarantined: Sequence[Quarantined]) -> dg.TableMetadataValue:
    """Return files in quarantine as a table, each with the reason."""
    return grid(
        {"file": each.file.shown, "bytes": each.file.size, "reason": each.reason}
        for each in quarantined[:_FILES_SHOWN]
    )


def build_file_ingestion_asset(
    table: str | Identifier,
    schema: Schema,
    *,
    source: FileSource,
    transform: Callable[[Frame], Frame] | None = None,
    executor: ExecutorKind | None = None,
    warehouse: str | None = None,
    **options: Unpack[AssetOptions],
) -> dg.AssetsDefinition:
    """Make a table the asset of the files that land in a folder.

    Each run ingests the files it does not hold yet, in path order, and commits them with their
    ledger as one snapshot; `IngestConfig` bounds it. Without a new file nothing is committed.

    Args:
        table: `database.table`.
        schema: The declared table.
        source: The folder and what is in its files.
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
    if source.is_change_log:
        raise InvalidInputError(
            f"Files of format '{source.format}' are a change log: build_change_log_asset makes the "
            f"asset of table {table}.",
            kind="file-format",
        )
    if source.on_changed == OnChanged.AGAIN and not schema.primary_keys:
        raise InvalidInputError(
            f"Changed files cannot be taken in again by table {table}: without a primary key it "
            "would have their rows twice. Declare primary_keys, or on_changed='ignore'.",
            kind="source-changed",
        )
    return define_intake(
        TableTarget.of(table, schema, options, executor=executor, warehouse=warehouse),
        options,
        partial(ingest, source=source, make_run=partial(IngestionRun, transform=transform)),
        IngestConfig,
        description=f"Files of {source.format} format that land in a folder, exactly once each.",
        refused=FILES_HAVE_NOT,
    )


def source_name_of(key: dg.AssetKey) -> str:
    """Return the name under which an ingestion asset keeps its ledger."""
    return key.to_user_string()


def ingest(
    context: dg.AssetExecutionContext,
    paimon: PaimonCatalogResource,
    config: IngestConfig,
    target: TableTarget,
    *,
    source: FileSource,
    make_run: Callable[..., "IngestionRun"],
) -> dg.MaterializeResult[Any]:
    """Run an ingestion asset; `make_run` takes the fields of `IngestionRun`."""
    with dagster_failures(target.identifier, context):
        if config.max_files < 0:  # the Launchpad does not know this limit
            raise InvalidInputError(
                f"max_files is {config.max_files}; give 0 for all new files, or how many at most.",
                kind="ingest-config",
            )
        ensured = target.ensure(paimon)
        table, step = ensured.table, step_of_asset(context)
        audit = BatchAudit(target.before_commit, table, paimon)
        newest = ledger_snapshot(table, source_name_of(context.asset_key))
        if newest is not None and step.made(newest.properties):
            return result_of_earlier_try(
                step, table, newest, audit.results(newest), rows_shown=paimon.rows_shown
            )
        landing = compare_landing(paimon, table, context.asset_key, source, folder=config.source)
        run = make_run(
            paimon=paimon,
            target=target,
            source=source,
            table=table,
            landing=landing,
            audit=audit,
            step=step,
            ledger=landing.ledger,
            files=(),
            quarantined=landing.pending.quarantined,
        )
        run.choose_files(config)
        if config.dry_run or not run.files:
            return run.nothing_written(config)
        step.log.info(
            "%s in '%s': %s.",
            counted(len(run.files), "new file"),
            landing.folder,
            names_text(run.files),
        )
        started = time.monotonic()
        outcome = run.write_readable()
        metadata = {
            **target.lineage,
            "paimon/write_seconds": round(time.monotonic() - started, 3),
            **run.metadata(),
        }
        return result_of_write(
            step, ensured, outcome, metadata, audit.results(), rows_shown=paimon.rows_shown
        )


@dataclass(kw_only=True)
class IngestionRun:
    """One run of an ingestion asset."""

    paimon: PaimonCatalogResource
    target: TableTarget
    source: FileSource
    table: Table
    landing: Landing
    audit: BatchAudit
    step: Step
    ledger: Ledger
    """Of what the table holds before the run, with the quarantine of the run."""
    files: tuple[FolderFile, ...]
    """Files that the run ingests."""
    quarantined: tuple[Quarantined, ...]
    """Files in quarantine, of this run and of those before."""
    files_left: int = 0
    """New files beyond `max_files`."""
    transform: Callable[[Frame], Frame] | None = None

    @property
    def has_quarantine(self) -> bool:
        """Whether a file that cannot be read is left out."""
        return self.source.on_bad_file == OnBadFile.QUARANTINE

    @property
    def paths(self) -> dict[str, FolderFile]:
        """Path → file, of those that the run ingests."""
        return {f"{self.landing.folder}/{file.name}": file for file in self.files}

    def forget(self, ledger: Ledger) -> None:
        """Take the files of the folder for new but those of another ledger."""
        pending = compare(self.landing.files, ledger, self.table)
        self.landing = replace(self.landing, ledger=ledger, pending=pending)
        self.ledger, self.quarantined = ledger, pending.quarantined

    def choose_files(self, config: IngestConfig) -> None:
        """Choose the new files that the run ingests."""
        source, landing, pending = self.source, self.landing, self.landing.pending
        folder = landing.folder
        source.check_folder(landing.file_io, folder, is_known=self.ledger.file_count > 0)
        if config.source and not landing.files:
            raise InvalidInputError(
                f"The run's source '{folder}' holds no {source.format} file to take in, or does "
                "not exist; correct it, or leave it out for the asset's own folder.",
                kind="source-folder",
                details={"folder": folder},
            )
        due = pending.new
        if source.on_changed == OnChanged.REFUSE:
            pending.refuse_changes(folder)
        elif source.on_changed == OnChanged.AGAIN:
            due = tuple(sorted((*due, *pending.changed)))
        self.files = due[: config.max_files or None]
        self.files_left = len(due) - len(self.files)

    def metadata(self) -> Metadata:
        """Return the numbers of the files that the run ingests and leaves."""
        shown = [{"file": f.shown, "bytes": f.size} for f in self.files[:_FILES_SHOWN]]
        metadata: Metadata = {
            "paimon/source": self.landing.folder,
            "paimon/files_ingested": len(self.files),
            "paimon/files_left": self.files_left,
            "paimon/files_in_ledger": self.ledger.file_count + len(self.files),
            "paimon/source_bytes": sum(file.size for file in self.files),
        }
        if shown:
            metadata["paimon/files"] = grid(shown)
        if self.landing.pending.changed:
            metadata["paimon/files_changed"] = len(self.landing.pending.changed)
        if self.has_quarantine:
            metadata["paimon/files_in_quarantine"] = len(self.quarantined)
        if self.quarantined:
            metadata["paimon/quarantine"] = quarantine_value(self.quarantined)
        return metadata

    def nothing_written(self, config: IngestConfig) -> dg.MaterializeResult[Any]:
        """Return the materialization of a run without a commit."""
        if config.dry_run:
            files = counted(len(self.files), "new file")
            note = f"Dry run: {files} would be ingested; nothing was written."
        else:
            before = counted(self.ledger.file_count, "file")
            note = (
                f"No new files in '{self.landing.folder}': it had {before} before; nothing was "
                "committed."
            )
        self.step.log.info(note)
        metadata = {**self.metadata(), **NOTHING_WRITTEN, "paimon/note": note}
        shown = self.paimon.rows_shown
        return result_of(self.table, None, metadata, self.audit.results(), rows_shown=shown)

    def write_readable(self) -> WriteOutcome:
        """Write the readable files; the others go to quarantine, if the source has one.

        Cost:
            Where damage shows only while a file is read, the others are read again.
        """
        while True:
            bad: dict[str, PaimonError] = {}
            try:
                outcome = self.write_once(bad)
                if outcome is not None:
                    return outcome
            except (FormatError, InvalidInputError) as error:
                path = str(error.details.get("path") or error.details.get("file"))
                if not self.has_quarantine or path not in self.paths:
                    raise
                bad[path] = error
            self._quarantine(bad)

    def _quarantine(self, bad: Mapping[str, PaimonError]) -> None:
        show, paths = self.paimon.show_values, self.paths
        added = []
        for path, error in bad.items():
            # A parser's message may quote a value.
            reason = "It is damaged, or a value does not fit; values are not shown."
            if show or isinstance(error, InvalidInputError):
                reason = error.message
            self.step.log.warning("'%s' is left out: %s", printable(path), reason)
            added.append(Quarantined(file=paths[path], reason=reason))
        self.ledger = self.ledger.with_quarantined(added)
        self.files = tuple(file for path, file in paths.items() if path not in bad)
        self.quarantined = (*self.quarantined, *added)

    def write_once(self, bad: dict[str, PaimonError]) -> WriteOutcome | None:
        """Write the files' rows and their ledger as one commit.

        None if files go to quarantine; they are added to `bad`, by path.
        """
        schema = self._schema(bad.__setitem__ if self.has_quarantine else None)
        if bad:
            return None
        frame: Frame = to_arrow_schema(self.table.schema.fields).empty_table()
        if schema is not None:
            frame = self._frame(schema)
            if self.transform is not None:
                frame = self.transform(frame)
        return self.commit(frame)

    def commit(
        self,
        frame: Frame,
        log: Mapping[str, Any] | None = None,
        described: Callable[[WriteBuilder], WriteBuilder] = lambda writer: writer,
    ) -> WriteOutcome:
        """Write a frame and the ledger of the files, with the state of their log, as one commit."""
        table, paimon = self.table, self.paimon
        executor = paimon.new_executor(self.target.executor)
        rows = to_rows(frame, executor, table.schema, show_values=paimon.show_values)
        ledger = replace(self.ledger.with_files(self.files), log=log or {})
        name = write_ledger(table, ledger, remembered=self.source.remembered_files)
        key = property_of(ledger.source)
        writer = (
            table.new_write_builder()
            .with_commit_user(key)  # of the source, so that each generation is committed once
            .with_commit_identifier(ledger.generation)
            .with_properties(self.step.properties(self.target.code_version))
            .with_properties({key: name})
            .with_empty_commits()  # files without rows are ingested too
            .with_last_check(self._refuse_changes_while_reading)
        )
        if not paimon.show_values:
            writer = writer.with_values_hidden()
        if self.target.before_commit:
            writer = writer.with_audit(self.audit, branch=self.step.batch_name)
        outcome = described(writer).write(rows, executor)
        if outcome.snapshot is None or outcome.snapshot.properties.get(key) != name:
            raise CommitConflictError(
                f"Another run ingested files of '{ledger.source}' into {table.name} at the same "
                "time; its commit stands and this one was dropped.",
                kind="ingestion-conflict",
            )
        return outcome

    def _refuse_changes_while_reading(self) -> None:
        """Refuse files that changed while they were read: their rows may be neither old nor new.

        Files that are gone do not matter; they were read.
        """
        folder = self.landing.folder
        read = Ledger(source=self.ledger.source).with_files(self.files)
        files = self.source.list_files(self.landing.file_io, folder)
        changed = compare(files, read).changed
        if changed:
            raise InvalidInputError(
                f"{names_text(changed)} in '{folder}' changed while being ingested; nothing was "
                "committed. Land files by rename, so that they appear whole, and run again.",
                kind="source-changed",
                details={"folder": folder, "files": len(changed)},
            )

    def _schema(self, on_bad: BadFile | None) -> pa.Schema | None:
        """Return the columns of the files, None without files."""
        expected = self.source.schema
        if expected is None and self.transform is None:
            expected = self.target.schema
        file_io = self.landing.file_io
        return checked_schema(file_io, [*self.paths], self.source, expected, on_bad)

    def _frame(self, schema: pa.Schema) -> Frame:
        source, paths = self.source, [*self.paths]
        size = sum(file.size for file in self.files)
        if self.paimon.executor_for(size, self.target.executor) == "embedded":
            return read_files(self.landing.file_io, paths, source, schema)
        return self.paimon.files_dataframe(paths, source.format, schema, source.options)


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
        version = "none" if table is None else table.state.created_ms
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
            f"{names_text(pending.changed)} in '{folder}' changed after being ingested; a run "
            "would fail. Restore them, or land the new rows under new names."
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
