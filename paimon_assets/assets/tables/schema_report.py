"""A judged change of schema as metadata: tables that Dagster's pages show as grids."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dagster as dg

from paimon_assets.assets.metadata import Metadata, grid
from paimon_assets.engine.spec.evolution.schema_change import SchemaChange
from paimon_assets.engine.spec.evolution.schema_change_json import changes_to_json
from paimon_assets.engine.spec.samples import MASKED
from paimon_assets.engine.spec.types.cast_fit import Loss
from paimon_assets.engine.table.schema.schema_changes import ColumnReport, SchemaChangePlan

DIFF = "paimon/schema_diff"
REPORT = "paimon/overflow_report"
EXAMPLES = "paimon/overflow_examples"
CHANGES = "paimon/schema_changes"
STORED_ROWS = (
    "All stored rows count, also those that a newer row or a deletion hides: reads cast them."
)


def plan_metadata(plan: SchemaChangePlan, root: str, *, show: bool) -> Metadata:
    """Return what a change would do: the diff, and what becomes of stored values.

    Files are named below `root`.
    """
    diff = {DIFF: diff_table(plan)} if plan.differences else {}
    return {
        **diff,
        **report_metadata(plan, root, show=show),
        "paimon/schema_before": plan.base.id,
        CHANGES: changes_value(plan.changes),
    }


def diff_table(plan: SchemaChangePlan) -> dg.TableMetadataValue:
    """Return what differs between two schemas, a line for each column and option; not nothing."""
    casts = {column.field_id: column.cast for column in plan.columns}
    return grid(
        {
            "what": line.subject,
            "change": line.change,
            "before": line.before,
            "after": line.after,
            "cast": casts.get(line.field_id, "") if line.field_id is not None else "",
            "field id": line.field_id,
        }
        for line in plan.differences
    )


def report_metadata(plan: SchemaChangePlan, root: str, *, show: bool) -> Metadata:
    """Return what becomes of stored values; arguments as of `plan_metadata`."""
    note = {"paimon/overflow_note": STORED_ROWS} if plan.columns else {}
    return {**columns_metadata(plan.columns, root, show=show), **note}


def columns_metadata(columns: Sequence[ColumnReport], root: str, *, show: bool) -> Metadata:
    """Return a line for each column that is cast, and examples of values that are lost.

    Files are named below `root`.
    """
    metadata: Metadata = {
        "paimon/lost_values": sum(column.lost for column in columns),
        "paimon/file_columns_read": sum(column.files_read for column in columns),
    }
    if columns:
        kinds = [loss for loss in Loss if any(column.counts.get(loss) for column in columns)]
        metadata[REPORT] = grid(_report_line(column, kinds) for column in columns)
    examples = [
        {
            "column": column.column,
            "value": _shown(example.lost.value, show=show),
            "what happens": example.lost.loss.value,
            "becomes": _shown(example.lost.becomes, show=show),
            "file": example.path.removeprefix(f"{root.rstrip('/')}/"),
        }
        for column in columns
        for example in column.examples
    ]
    return metadata | ({EXAMPLES: grid(examples)} if examples else {})


def _shown(value: str | None, *, show: bool) -> str | None:
    return value if show or value is None else MASKED


def _report_line(column: ColumnReport, kinds: Sequence[Loss]) -> Mapping[str, Any]:
    return {
        "column": column.column,
        "before": column.before,
        "after": column.after,
        "stored values": column.rows,
        "lost": column.lost,
        "counted": "exactly" if column.is_exact else "at least",
        **{loss.value: column.counts.get(loss, 0) for loss in kinds},
        "cast": column.cast,
        "files kept by statistics": column.files_kept,
        "files lost by statistics": column.files_lost,
        "files read": column.files_read,
    }


def changes_value(changes: Iterable[SchemaChange]) -> dg.JsonMetadataValue:
    """Return changes as the job's config takes them."""
    return dg.MetadataValue.json(changes_to_json(changes))


def plan_text(plan: SchemaChangePlan) -> str:
    """Return one line on what a change does to schema and values."""
    lines = len(plan.differences)
    if not lines:
        return "Nothing would change."
    values = "; ".join(str(column) for column in plan.columns) or "no stored value is cast"
    return f"{lines} {'difference' if lines == 1 else 'differences'}; {values}."
