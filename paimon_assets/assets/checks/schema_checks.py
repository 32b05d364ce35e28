"""Asset checks on schemas: is the table what is declared, and would a change lose values?

`build_schema_check`            declared = stored: names, types, nullability, keys, partitions,
                                comments; offers the changes that a schema evolution job takes
`build_overflow_check`          would the pending changes lose stored values
`build_source_overflow_check`   before a write: do the values of files that wait fit their columns
"""

from collections import Counter
from collections.abc import Sequence

import dagster as dg
import pyarrow as pa

from paimon_assets.assets.check_run import CheckOptions, CheckRun, define_check
from paimon_assets.assets.files.ingestion import compare_landing
from paimon_assets.assets.files.source_files import FileSource, checked_schema
from paimon_assets.assets.metadata import CHANGES, changes_value, columns_metadata, loss_metadata
from paimon_assets.assets.preview import grid
from paimon_assets.assets.tables.declared_table import comment_differences, schema_differences
from paimon_assets.engine.spec.evolution.schema_change import SchemaChange, changes_to_json
from paimon_assets.engine.spec.evolution.schema_diff import reconciling_changes
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.schema_changes import PendingFiles, judge_pending_files

_SCHEMA_OPTIONS = CheckOptions(severity=dg.AssetCheckSeverity.WARN)
_OVERFLOW_OPTIONS = CheckOptions()


def build_schema_check(
    asset: dg.AssetsDefinition, declared: Schema, *, options: CheckOptions = _SCHEMA_OPTIONS
) -> dg.AssetChecksDefinition:
    """Check that the table is what is declared.

    Args:
        asset: A table asset.
        declared: The schema it declares.
        options: Name, severity (a warning by default), blocking.

    Raises:
        InvalidInputError: The asset is not of exactly one table.

    Cost:
        Reads the newest schema file.
    """

    def evaluate(run: CheckRun) -> dg.AssetCheckResult:
        stored = run.table.schema
        differences = [
            *schema_differences(declared, stored),
            *comment_differences(declared, stored),
        ]
        if not differences:
            text = f"Schema {stored.id} is as declared: {counted(len(stored.fields), 'column')}."
            return run.result(passed=True, description=text, metadata={})
        offer = reconciling_changes(stored, declared)
        metadata = {
            "paimon/schema_id": stored.id,
            "paimon/differences": grid({"difference": line} for line in differences),
            CHANGES: changes_value(offer.changes),
        }
        if offer.unreachable:
            metadata["paimon/unreachable"] = "\n".join(offer.unreachable)
        return run.result(
            passed=False, description=_drift_text(differences, offer.changes), metadata=metadata
        )

    text = "Checks that the stored schema is the declared one: names, types, keys, comments."
    return define_check(asset, "schema", text, options, evaluate)


def _drift_text(differences: Sequence[str], changes: Sequence[SchemaChange]) -> str:
    listed = changes_to_json(changes)
    counts = Counter(str(each["action"]) for each in listed if isinstance(each, dict))
    actions = ", ".join(f"{action} ({count})" for action, count in counts.items())
    offered = f" `schema_evolution_job` would reconcile them: {actions}." if actions else ""
    return f"The table differs from its declaration: {'; '.join(differences)}.{offered}"


def build_overflow_check(
    asset: dg.AssetsDefinition,
    pending: Schema | Sequence[SchemaChange],
    *,
    options: CheckOptions = _OVERFLOW_OPTIONS,
) -> dg.AssetChecksDefinition:
    """Check that pending changes would lose no stored value.

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
        changes: Sequence[SchemaChange]
        if isinstance(pending, Schema):
            changes = reconciling_changes(run.table.schema, pending).changes
        else:
            changes = pending
        plan = run.table.plan_alter(changes, executor=run.executor())
        text = "; ".join(str(column) for column in plan.columns)
        return run.result(
            passed=not plan.loses,
            description=f"{text}." if text else "No pending change casts a stored value.",
            metadata={
                CHANGES: changes_value(changes),
                **loss_metadata(plan, run.table.path, show=run.shows_values),
            },
        )

    text = "Checks that pending changes would lose no stored value."
    return define_check(asset, "overflow", text, options, evaluate)


def build_source_overflow_check(
    asset: dg.AssetsDefinition, source: FileSource, *, options: CheckOptions = _OVERFLOW_OPTIONS
) -> dg.AssetChecksDefinition:
    """Check, before they are written, that the values of files that wait fit the table.

    Args:
        asset: A table asset that ingests the files.
        source: Parquet or ORC files; what the asset has ingested already is left out.
        options: Name, severity, blocking, executor.

    Raises:
        InvalidInputError: The asset is not of exactly one table.

    Cost:
        A listing, a footer for each new file, and the columns whose types differ.
    """

    def evaluate(run: CheckRun) -> dg.AssetCheckResult:
        landing = compare_landing(run.paimon, run.table, asset.key, source)
        folder, file_io, new = landing.folder, landing.file_io, landing.pending.new
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
                **columns_metadata(columns, folder, show=run.shows_values),
            },
        )

    text = "Checks that the values of waiting files fit the columns they go to."
    return define_check(asset, "source_overflow", text, options, evaluate)
