"""A table fed by files: each run takes in the files that landed since the last one, exactly once.

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
    LeftOut,
    Pending,
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
from paimon_assets.assets.resource import (
    ExecutorKind,
    PaimonCatalogResource,
    resource_key_of,
    table_or_none,
)
from paimon_assets.assets.sensors import Ticked, define_sensor, digest_of, request_once
from paimon_assets.assets.tables.audit import BatchAudit
from paimon_assets.assets.tables.table_asset import AssetOptions, TableTarget, define_intake
from paimon_assets.assets.tables.table_write import (
    NOTHING_WRITTEN,
    result_of,
    result_of_earlier_try,
    result_of_write,
)
from paimon_assets.assets.translator import identifier_of_asset
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.control.segments.segment_folder import FolderFile
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
from paimon_assets.engine.table.write.write_builder import WriteOutcome

_FILES_SHOWN = 200
_REFUSED = {
    "partitions_def": "a file may hold rows of any partition",
    "check_specs": "checks are definitions of their own",
}


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
class _Batch:
    """The files of one run."""

    folder: str
    ledger: Ledger
    """What the table holds before the run."""
    files: tuple[FolderFile, ...]
    """What the run takes in."""
    left: int
    """New files beyond `max_files`."""
    changed: int = 0
    """Files among them that were taken in before, or that are left as they were."""
    left_out: tuple[LeftOut, ...] = ()
    """Files in quarantine, of this run and of those before."""
    sets_aside: bool = False
    """Whether files can be in quarantine."""

    @property
    def paths(self) -> list[str]:
        return [self.path_of(file) for file in self.files]

    def path_of(self, file: FolderFile) -> str:
        """Return the path of a file."""
        return f"{self.folder}/{file.name}"

    def without(self, bad: Mapping[str, str]) -> "_Batch":
        """Return the batch with some paths in quarantine, each for a reason."""
        found = [
            LeftOut(file=file, reason=bad[self.path_of(file)])
            for file in self.files
            if self.path_of(file) in bad
        ]
        names = {each.file.name for each in found}
        return replace(
            self,
            ledger=self.ledger.with_left_out(found),
            files=tuple(file for file in self.files if file.name not in names),
            left_out=(*self.left_out, *found),
        )

    def metadata(self) -> Metadata:
        shown = [{"file": f.shown, "bytes": f.size} for f in self.files[:_FILES_SHOWN]]
        metadata: Metadata = {
            "paimon/source": self.folder,
            "paimon/files_ingested": len(self.files),
            "paimon/files_left": self.left,
            "paimon/files_in_ledger": self.ledger.file_count + len(self.files),
            "paimon/source_bytes": sum(file.size for file in self.files),
        }
        if shown:
            metadata["paimon/files"] = grid(shown)
        if self.changed:
            metadata["paimon/files_changed"] = self.changed
        if self.sets_aside:
            metadata["paimon/files_in_quarantine"] = len(self.left_out)
        if self.left_out:
            metadata["paimon/quarantine"] = quarantine_value(self.left_out)
        return metadata


def quarantine_value(left_out: Sequence[LeftOut]) -> dg.TableMetadataValue:
    """Return files in quarantine as a table, each with the reason."""
    return grid(
        {"file": each.file.shown, "bytes": each.file.size, "reason": each.reason}
        for each in left_out[:_FILES_SHOWN]
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

    Each run takes in the files it does not hold yet, in path order, and commits them with their
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
            or check_specs, which nothing here could answer; or changed files shall be taken in
            again by a table without a primary key, which would have their rows twice.
    """
    if source.on_changed == OnChanged.AGAIN and not schema.primary_keys:
        raise InvalidInputError(
            f"Changed files cannot be taken in again by table {table}: without a primary key it "
            "would have their rows twice. Declare primary_keys, or on_changed='ignore'.",
            kind="source-changed",
        )
    return define_intake(
        TableTarget.of(table, schema, options, executor=executor, warehouse=warehouse),
        options,
        partial(_ingest, source=source, transform=transform),
        IngestConfig,
        description=f"Files of {source.format} format that land in a folder, exactly once each.",
        refused=_REFUSED,
    )


def source_name_of(key: dg.AssetKey) -> str:
    """Return the name under which an ingestion asset keeps its ledger."""
    return key.to_user_string()


def _ingest(
    context: dg.AssetExecutionContext,
    paimon: PaimonCatalogResource,
    config: IngestConfig,
    target: TableTarget,
    *,
    source: FileSource,
    transform: Callable[[Frame], Frame] | None,
) -> dg.MaterializeResult[Any]:
    """Take in what landed, once."""
    with dagster_failures(target.identifier):
        if config.max_files < 0:  # the Launchpad does not know this limit
            raise InvalidInputError(
                f"max_files is {config.max_files}; give 0 for all new files, or how many at most.",
                kind="ingest-config",
            )
        ensured = target.ensure(paimon)
        table = ensured.table
        audit = BatchAudit(target.before_commit, table, paimon)
        source_name = source_name_of(context.asset_key)
        newest = ledger_snapshot(table, source_name)
        step = step_of_asset(context)
        if newest is not None and step.made(newest.properties):
            return result_of_earlier_try(step, table, newest, audit.results(newest))
        file_io = file_io_for(source.folder_path(config.source), paimon.options)
        ledger = load_ledger(table, source_name, newest)
        batch = _next_batch(config, source, table, ledger, file_io)
        if config.dry_run or not batch.files:
            return _nothing_written(context, table, batch, config, audit.results())
        context.log.info(
            "%s in '%s': %s.",
            counted(len(batch.files), "new file"),
            batch.folder,
            names_text(batch.files),
        )
        started = time.monotonic()
        work = _Work(target, source, transform, table, file_io, batch, audit, step)
        outcome, batch = _write_readable(context, paimon, work)
        metadata = {
            **target.lineage,
            "paimon/write_seconds": round(time.monotonic() - started, 3),
            **batch.metadata(),
        }
        return result_of_write(step, ensured, outcome, metadata, audit.results())


def _next_batch(
    config: IngestConfig, source: FileSource, table: Table, ledger: Ledger, file_io: FileIO
) -> _Batch:
    folder = source.folder_path(config.source)
    source.check_folder(file_io, folder, is_known=ledger.file_count > 0)
    listed = source.list_files(file_io, folder)
    if config.source and not listed:
        raise InvalidInputError(
            f"The run's source '{folder}' holds no {source.format} file to take in, or does "
            "not exist; correct it, or leave it out for the asset's own folder.",
            kind="source-folder",
            details={"folder": folder},
        )
    pending = compare(listed, ledger, table)
    due = pending.new
    if source.on_changed == OnChanged.REFUSE:
        pending.refuse_changes(folder)
    elif source.on_changed == OnChanged.AGAIN:
        due = tuple(sorted((*due, *pending.changed)))
    taken = due[: config.max_files or None]
    return _Batch(
        folder=folder,
        ledger=ledger,
        files=taken,
        left=len(due) - len(taken),
        changed=len(pending.changed),
        left_out=pending.left_out,
        sets_aside=source.on_bad_file == OnBadFile.QUARANTINE,
    )


def _nothing_written(
    context: dg.AssetExecutionContext,
    table: Table,
    batch: _Batch,
    config: IngestConfig,
    checks: Sequence[dg.AssetCheckResult],
) -> dg.MaterializeResult[Any]:
    if config.dry_run:
        files = counted(len(batch.files), "new file")
        said = f"Dry run: {files} would be ingested; nothing was written."
    else:
        known = batch.ledger.file_count
        said = (
            f"No new files in '{batch.folder}': it had {counted(known, 'file')} before; nothing "
            "was committed."
        )
    context.log.info(said)
    metadata = {**batch.metadata(), **NOTHING_WRITTEN, "paimon/note": said}
    return result_of(table, None, metadata, checks)


@dataclass(frozen=True)
class _Work:
    """The work of one ingestion run."""

    target: TableTarget
    source: FileSource
    transform: Callable[[Frame], Frame] | None
    table: Table
    file_io: FileIO
    batch: _Batch
    audit: BatchAudit
    step: Step


def _write_readable(
    context: dg.AssetExecutionContext, paimon: PaimonCatalogResource, work: _Work
) -> tuple[WriteOutcome, _Batch]:
    """Write the files that can be read; what cannot goes to quarantine, if the source says so.

    Cost:
        Where damage shows only while a file is read, the others are read again.
    """
    sets_aside = work.source.on_bad_file == OnBadFile.QUARANTINE
    while True:
        bad: dict[str, PaimonError] = {}
        try:
            schema = _schema(work, bad.__setitem__ if sets_aside else None)
            if not bad:
                return _write(paimon, work, schema), work.batch
        except (FormatError, InvalidInputError) as error:
            path = str(error.details.get("path") or error.details.get("file"))
            if not sets_aside or path not in work.batch.paths:
                raise
            bad[path] = error
        reasons = {path: _reason(why, show=paimon.show_values) for path, why in bad.items()}
        for path, reason in reasons.items():
            context.log.warning("'%s' is left out: %s", printable(path), reason)
        work = replace(work, batch=work.batch.without(reasons))


def _reason(error: PaimonError, *, show: bool) -> str:
    """Return why a file is left out; what a parser says may quote a value."""
    if show or isinstance(error, InvalidInputError):
        return error.message
    return "It is damaged, or a value does not fit; values are not shown."


def _write(paimon: PaimonCatalogResource, work: _Work, schema: pa.Schema | None) -> WriteOutcome:
    """Write the files' rows and their ledger as one commit; without a schema there are none."""
    table, source = work.table, work.source
    executor = paimon.new_executor(work.target.executor)
    frame: Frame
    if schema is None:
        frame = to_arrow_schema(table.schema.fields).empty_table()
    else:
        frame = _frame(paimon, work, schema)
        if work.transform is not None:
            frame = work.transform(frame)
    rows = to_rows(frame, executor, table.schema, show_values=paimon.show_values)
    ledger = work.batch.ledger.with_files(work.batch.files)
    name = write_ledger(table, ledger, remembered=source.remembered_files)
    key = property_of(ledger.source)
    writer = (
        table.new_write_builder()
        .with_commit_user(key)  # of the source, so that each generation is committed once
        .with_commit_identifier(ledger.generation)
        .with_properties(work.step.properties(work.target.code_version))
        .with_properties({key: name})
        .with_empty_commits()  # files without rows are taken in too
        .with_last_check(lambda: _refuse_changes_since(work))
    )
    if not paimon.show_values:
        writer = writer.with_values_hidden()
    if work.target.before_commit:
        writer = writer.with_audit(work.audit, branch=work.step.batch_name)
    outcome = writer.write(rows, executor)
    if outcome.snapshot is None or outcome.snapshot.properties.get(key) != name:
        raise CommitConflictError(
            f"Another run ingested files of '{ledger.source}' into {table.name} at the same time; "
            "its commit stands and this one was dropped.",
            kind="ingestion-conflict",
        )
    return outcome


def _refuse_changes_since(work: _Work) -> None:
    """Refuse files that changed while they were read: their rows may be neither old nor new.

    Files that are gone do not matter; they were read.
    """
    batch = work.batch
    read = Ledger(source=batch.ledger.source).with_files(batch.files)
    changed = compare(work.source.list_files(work.file_io, batch.folder), read).changed
    if changed:
        raise InvalidInputError(
            f"{names_text(changed)} in '{batch.folder}' changed while being ingested; nothing was "
            "committed. Land files by rename, so that they appear whole, and run again.",
            kind="source-changed",
            details={"folder": batch.folder, "files": len(changed)},
        )


def _schema(work: _Work, on_bad: BadFile | None) -> pa.Schema | None:
    """Return the columns of the files, None if there is none."""
    expected = work.source.schema
    if expected is None and work.transform is None:
        expected = work.target.schema
    return checked_schema(work.file_io, work.batch.paths, work.source, expected, on_bad)


def _frame(paimon: PaimonCatalogResource, work: _Work, schema: pa.Schema) -> Frame:
    source, paths = work.source, work.batch.paths
    if paimon.executor_kind(work.target.executor) == "embedded":
        return read_files(work.file_io, paths, source, schema)
    return paimon.files_dataframe(paths, source.format, schema, source.options)


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
        folder = source.folder_path()
        listed = source.list_files(file_io_for(folder, paimon.options), folder)
        table = table_or_none(paimon, identifier)
        source_name = source_name_of(asset.key)
        ledger = Ledger(source=source_name)
        if table is not None:
            ledger = load_ledger(table, source_name, ledger_snapshot(table, source_name))
        pending = compare(listed, ledger, table)
        again = pending.changed if source.on_changed == OnChanged.AGAIN else ()
        due = tuple(sorted((*pending.new, *again)))[: max_files or None]
        refused = pending.changed and source.on_changed == OnChanged.REFUSE
        if refused or not due:
            return dg.SkipReason(_why_nothing(folder, listed, pending, refused=bool(refused)))
        version = "none" if table is None else table.created_ms
        return request_once(
            context,
            f"{identifier}:{version}:{ledger.generation}:{digest_of(due)}",
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


def _why_nothing(folder: str, listed: list[FolderFile], pending: Pending, *, refused: bool) -> str:
    if refused:
        return (
            f"{names_text(pending.changed)} in '{folder}' changed after being ingested; a run "
            "would fail. Restore them, or land the new rows under new names."
        )
    if not listed:
        return f"No file matches in '{folder}', or the folder does not exist."
    bad = len(pending.left_out)
    if bad:
        return (
            f"{len(listed) - bad} of {counted(len(listed), 'file')} of '{folder}' are ingested; "
            f"{bad} in quarantine until they change."
        )
    return f"Ingested: all {counted(len(listed), 'file')} of '{folder}'."
