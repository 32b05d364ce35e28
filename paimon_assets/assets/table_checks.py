"""Asset checks of a table's files, schema and age; `row_checks` has those of its rows.

`freshness`                        how old the newest data is; a compaction makes nothing fresh
`small_files`                      whether its files ask for a compaction
`quarantine`                       whether landed files were left out because they cannot be read
`schema`                           whether the stored schema is the declared one
`overflow`, `source_overflow`      whether pending changes, or waiting files, would lose values
"""

import datetime as dt
from collections import Counter
from collections.abc import Sequence

import dagster as dg
import pyarrow as pa

from paimon_assets.assets import metadata as md
from paimon_assets.assets.check_run import CheckOptions, CheckRun, define_check
from paimon_assets.assets.failures import naming_arguments
from paimon_assets.assets.files.landing import compare_landing, quarantine_value
from paimon_assets.assets.files.ledger import names_text
from paimon_assets.assets.files.source_files import FileSource, checked_schema
from paimon_assets.assets.jobs.compaction_backlog import due_compaction
from paimon_assets.assets.jobs.table_picture import levels_table
from paimon_assets.assets.tables import declared_table
from paimon_assets.engine.codec.rest.structure import changes_to_json
from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.commit.changes import last_change
from paimon_assets.engine.spec.evolution.schema_change import SchemaChange
from paimon_assets.engine.spec.evolution.schema_diff import reconciling_changes
from paimon_assets.engine.spec.predicate.predicate import bind
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.schema_changes import PendingFiles, judge_pending_files
from paimon_assets.engine.table.system.table_health import FileDebt, newest_file_ms

_ERROR = CheckOptions()
_WARNING = CheckOptions(severity=dg.AssetCheckSeverity.WARN)
_DEBT = FileDebt()
_CLOCK = SystemClock()


@naming_arguments
def build_freshness_check(
    asset: dg.AssetsDefinition,
    max_age: dt.timedelta,
    *,
    options: CheckOptions = _ERROR,
    clock: Clock = _CLOCK,
) -> dg.AssetChecksDefinition:
    """Check that data was committed not longer ago than this.

    >>> check = build_freshness_check(orders, dt.timedelta(hours=6))

    It looks at the table, not at Dagster's events: foreign commits make it fresh, too, and a
    run that had nothing to write does not. A partition is as old as the snapshot that last changed
    it; where that has expired, as its newest file, and perhaps older.

    Args:
        asset: A table asset.
        max_age: The max age of the newest snapshot that changed data.
        options: Name, severity, blocking.
        clock: Source of the time.

    Raises:
        InvalidInputError: The asset is not of exactly one table.

    Cost:
        Reads the newest snapshots, back to the first that is no compaction; of a partition the
        delta manifests back to the last change.
    """

    def evaluate(run: CheckRun) -> dg.AssetCheckResult:
        newest, where = run.table.latest_snapshot(), run.where
        data = time_ms = None
        if newest is not None:
            store = run.table.state.store
            data = (
                last_change(store, newest, bind(where, store.schema))
                if where
                else md.newest_data(run.table, newest)
            )
            files = (entry.file for entry in run.table.state.live_files(newest, where))
            time_ms = data.time_millis if data else newest_file_ms(files)
        if time_ms is None:
            text = f"No data{run.of_rows} was committed yet."
            return run.result(passed=False, description=text, metadata={})
        age = dt.timedelta(milliseconds=max(0, clock.now_millis() - time_ms))
        committed = dt.datetime.fromtimestamp(time_ms / 1000, tz=dt.UTC)
        shown = f"{committed:%Y-%m-%d %H:%M:%S} UTC"
        metadata: md.Metadata = {
            "paimon/age_seconds": age.total_seconds(),
            "paimon/committed": dg.MetadataValue.timestamp(committed),
        }
        name = "A file"
        if data is not None:
            metadata |= md.checked_snapshot(data, "paimon/data_snapshot_id")
            name = f"Snapshot {data.id}"
        return run.result(
            passed=age <= max_age,
            description=f"{name} of {shown} is the newest data{run.of_rows}, {_age_text(age)} old"
            f"; at most {_age_text(max_age)} are allowed.",
            metadata=metadata,
        )

    text = f"Checks that the newest data is at most {_age_text(max_age)} old."
    return define_check(asset, "freshness", text, options, evaluate)


def _age_text(age: dt.timedelta) -> str:
    """Return a duration in its two largest units.

    >>> _age_text(dt.timedelta(hours=30, milliseconds=7)), _age_text(dt.timedelta(days=1))
    ('1 day 6 hours', '1 day')
    """
    minutes, seconds = divmod(int(age.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = {"day": days, "hour": hours, "minute": minutes, "second": seconds}
    parts = [counted(number, unit) for unit, number in units.items() if number]
    return " ".join(parts[:2]) or "0 seconds"


@naming_arguments
def build_small_files_check(
    asset: dg.AssetsDefinition, debt: FileDebt = _DEBT, *, options: CheckOptions = _WARNING
) -> dg.AssetChecksDefinition:
    """Check that the files of a table do not ask for a compaction.

    >>> check = build_small_files_check(orders)

    It fails where `build_file_debt_sensor` requests one, and a compaction has something to do; by
    partition, where the partition's own files ask for one.

    Args:
        asset: A table asset.
        debt: From how much on they do.
        options: Name, severity (a warning by default), blocking.

    Raises:
        InvalidInputError: The asset is not of exactly one table.

    Cost:
        The newest snapshot's manifests, up to three times.
    """

    def evaluate(run: CheckRun) -> dg.AssetCheckResult:
        snapshot = run.table.latest_snapshot()
        shape = run.table.state.shape(snapshot, run.where)
        due = due_compaction(debt, run.table, snapshot, run.where)
        amplification = f"read amplification {shape.read_amplification:.2f}"
        text = f"{counted(len(shape.file_sizes), 'file')}{run.of_rows}, {amplification}."
        if due is not None:
            text = (
                f"{due.reason}; {text} Run compaction_job with the strategy {due.strategy.value};"
                " a file-debt sensor asks for it by itself."
            )
        return run.result(
            passed=due is None,
            description=text,
            metadata={
                "paimon/total_files": len(shape.file_sizes),
                "paimon/small_files": shape.small_files,
                "paimon/level_0_runs": shape.level_0_runs,
                "paimon/deleted_rows": shape.deleted_rows,
                "paimon/read_amplification": shape.read_amplification,
                "paimon/levels": levels_table({"now": shape}),
            },
        )

    return define_check(
        asset, "small_files", "Checks that reads open few files.", options, evaluate
    )


@naming_arguments
def build_quarantine_check(
    asset: dg.AssetsDefinition, source: FileSource, *, options: CheckOptions = _WARNING
) -> dg.AssetChecksDefinition:
    """Check that no file of a landing folder was left out because it cannot be read.

    >>> source = FileSource(folder="/landing/orders", on_bad_file="quarantine")
    >>> check = build_quarantine_check(orders, source)

    It shows each with the reason. A file leaves quarantine when it is mended, or removed. By
    partition it leaves out files in folders of other partitions, such as `day=2024-01-31/`: a file
    whose path does not say may hold rows of any.

    Args:
        asset: From `build_file_ingestion_asset`.
        source: The asset's, with `on_bad_file="quarantine"`.
        options: Name, severity (a warning by default), blocking.

    Raises:
        InvalidInputError: The asset is not of exactly one table.

    Cost:
        A listing of the folder, and the ledger.
    """

    def evaluate(run: CheckRun) -> dg.AssetCheckResult:
        landing = compare_landing(run.paimon, run.table, asset.key, source)
        folder, pending = landing.folder, landing.pending
        quarantined = [each for each in pending.quarantined if run.may_hold(each.file.name)]
        metadata: md.Metadata = {"paimon/files_in_quarantine": len(quarantined)}
        text = f"All files of '{folder}' that were looked at could be read."
        if quarantined:
            metadata["paimon/quarantine"] = quarantine_value(quarantined)
            text = (
                f"{counted(len(quarantined), 'file')} of '{folder}' left out; mend or remove: "
                f"{names_text(each.file for each in quarantined)}."
            )
        return run.result(passed=not quarantined, description=text, metadata=metadata)

    text = "Checks that every landed file could be read."
    return define_check(asset, "quarantine", text, options, evaluate)


@naming_arguments
def build_schema_check(
    asset: dg.AssetsDefinition, declared: Schema, *, options: CheckOptions = _WARNING
) -> dg.AssetChecksDefinition:
    """Check that the table is as declared.

    >>> check = build_schema_check(orders, Schema.of({"id": "BIGINT"}, primary_keys=["id"]))

    A table has one schema. By partition it looks at the schemas that the partition's files were
    written with: columns declared since then read as null there, until they are written again.

    Args:
        asset: A table asset.
        declared: The schema it declares.
        options: Name, severity (a warning by default), blocking.

    Raises:
        InvalidInputError: The asset is not of exactly one table.

    Cost:
        Reads the newest schema file; of a partition its manifests, and the schemas of its files.
    """

    def evaluate(run: CheckRun) -> dg.AssetCheckResult:
        if run.where is not None:
            return _schemas_of_files(run, declared)
        stored = run.table.schema
        differences = [
            *declared_table.schema_differences(declared, stored),
            *declared_table.comment_differences(declared, stored),
        ]
        if not differences:
            text = f"Schema {stored.id} is as declared: {counted(len(stored.fields), 'column')}."
            return run.result(passed=True, description=text, metadata={})
        offer = reconciling_changes(stored, declared)
        metadata = {
            "paimon/schema_id": stored.id,
            "paimon/differences": md.grid({"difference": line} for line in differences),
            md.CHANGES: dg.MetadataValue.json(changes_to_json(offer.changes)),
        }
        if offer.unreachable:
            metadata["paimon/unreachable"] = "\n".join(offer.unreachable)
        return run.result(
            passed=False, description=_drift_text(differences, offer.changes), metadata=metadata
        )

    text = "Checks that the stored schema is the declared one: names, types, keys, comments."
    return define_check(asset, "schema", text, options, evaluate)


def _schemas_of_files(run: CheckRun, declared: Schema) -> dg.AssetCheckResult:
    files = Counter(entry.file.schema_id for entry in run.table.state.live_files(where=run.where))
    stored = {schema.id: schema for schema in run.table.schemas() if schema.id in files}
    lines = [
        (number, difference)
        for number, schema in sorted(stored.items())
        for difference in declared_table.column_differences(declared, schema)
    ]
    shown = f"The {counted(files.total(), 'file')}{run.of_rows}"
    if not lines:
        text = f"{shown} have the declared columns."
        return run.result(passed=True, description=text, metadata={})
    table = md.grid(
        {"schema": number, "files": files[number], "difference": difference}
        for number, difference in lines
    )
    number, first = lines[0]
    return run.result(
        passed=False,
        description=f"{shown} differ from the declaration. Schema {number}, of "
        f"{counted(files[number], 'file')}: {first}. Materialize the partition again where reads "
        "must find more than they do.",
        metadata={"paimon/differences": table},
    )


def _drift_text(differences: Sequence[str], changes: Sequence[SchemaChange]) -> str:
    listed = changes_to_json(changes)
    counts = Counter(str(each["action"]) for each in listed if isinstance(each, dict))
    actions = ", ".join(f"{action} ({count})" for action, count in counts.items())
    offered = f" `schema_evolution_job` would reconcile them: {actions}." if actions else ""
    return f"The table differs from its declaration: {'; '.join(differences)}.{offered}"


@naming_arguments
def build_overflow_check(
    asset: dg.AssetsDefinition,
    pending: Schema | Sequence[SchemaChange],
    *,
    options: CheckOptions = _ERROR,
) -> dg.AssetChecksDefinition:
    """Check that pending changes would lose no stored value.

    >>> check = build_overflow_check(orders, Schema.of({"id": "INT"}))

    By partition, no value of the files that may hold the partition's rows.

    Args:
        asset: A table asset.
        pending: The changes; or the declared schema, for those that lead to it.
        options: Name, severity, blocking, executor.

    Raises:
        InvalidInputError: The asset is not of exactly one table.

    Cost:
        Metadata; and the columns that change, of the files whose statistics do not decide.
    """

    def evaluate(run: CheckRun) -> dg.AssetCheckResult:
        changes: Sequence[SchemaChange] = (
            reconciling_changes(run.table.schema, pending).changes
            if isinstance(pending, Schema)
            else pending
        )
        plan = run.table.plan_alter(changes, where=run.where, executor=run.executor())
        text = "; ".join(str(column) for column in plan.columns)
        return run.result(
            passed=not plan.loses,
            description=f"{text}." if text else "No pending change casts a stored value.",
            metadata={
                md.CHANGES: dg.MetadataValue.json(changes_to_json(changes)),
                **md.loss_metadata(plan, run.table.path, show=run.shows_values),
            },
        )

    text = "Checks that pending changes would lose no stored value."
    return define_check(asset, "overflow", text, options, evaluate)


@naming_arguments
def build_source_overflow_check(
    asset: dg.AssetsDefinition, source: FileSource, *, options: CheckOptions = _ERROR
) -> dg.AssetChecksDefinition:
    """Check, before they are written, that the values of files that wait fit the table.

    >>> check = build_source_overflow_check(orders, FileSource(folder="/landing/orders"))

    By partition it leaves out files in folders of other partitions, as `build_quarantine_check`.

    Args:
        asset: A table asset that ingests the files.
        source: Parquet or ORC files; those that the asset has ingested already are left out.
        options: Name, severity, blocking, executor.

    Raises:
        InvalidInputError: The asset is not of exactly one table.

    Cost:
        A listing, a footer for each new file, and the columns whose types differ.
    """

    def evaluate(run: CheckRun) -> dg.AssetCheckResult:
        landing = compare_landing(run.paimon, run.table, asset.key, source)
        folder, file_io = landing.folder, landing.file_io
        new = [file for file in landing.pending.new if run.may_hold(file.name)]
        if not new or source.is_text:
            text = "No file waits." if not new else "Texts are parsed when they are written."
            return run.result(passed=True, description=text, metadata={})
        paths = [f"{folder}/{file.name}" for file in new]
        waiting = PendingFiles(
            file_io=file_io,
            paths=paths,
            sizes=[file.size for file in new],
            schema=checked_schema(file_io, paths, source, source.schema) or pa.schema([]),
        )
        executor = run.executor()
        columns = judge_pending_files(run.table.name, run.table.schema, waiting, executor=executor)
        text = "; ".join(map(str, columns)) or "every type is that of the table"
        return run.result(
            passed=not any(column.lost for column in columns),
            description=f"{counted(len(new), 'waiting file')}: {text}.",
            metadata={
                "paimon/files": len(new),
                **md.columns_metadata(columns, folder, show=run.shows_values),
            },
        )

    text = "Checks that the values of waiting files fit the columns they go to."
    return define_check(asset, "source_overflow", text, options, evaluate)
