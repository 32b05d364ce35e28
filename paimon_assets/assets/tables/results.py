"""What a run made of a table, as the materialization Dagster shows.

What became of a table's schema since Dagster last showed it.
"""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from paimon_assets.assets.metadata import (
    Metadata,
    data_version_of,
    grid,
    last_number,
    report_metadata,
    snapshot_metadata,
    table_metadata,
)
from paimon_assets.assets.tables.declared_table import EnsuredTable
from paimon_assets.assets.tables.schema_report import DIFF
from paimon_assets.assets.tables.table_write import DeleteOutcome
from paimon_assets.engine.spec.evolution.schema_diff import schema_diff
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.write.write_builder import WriteOutcome

SCHEMA_ID = "paimon/schema_id"


def changes_since_last(
    context: dg.AssetExecutionContext | dg.OutputContext, table: Table, schema_before: int | None
) -> Metadata:
    """Return what differs from the schema of the asset's last materialization, nothing if nothing.

    `schema_before` is the schema the run found, for an asset without a materialization.

    Cost:
        A query of the event log; if the schema is another one, its file.
    """
    shown = _last_shown(context)
    known = schema_before if shown is None else shown
    if known is None or known == table.schema.id:
        return {}
    # As stored: without options that the write alone has.
    stored = {schema.id: schema for schema in table.schemas()}
    earlier = stored.get(known)
    lines = schema_diff(earlier, stored[table.schema.id]) if earlier is not None else ()
    if not lines:
        return {}
    records = (
        {
            "what": line.subject,
            "change": line.change,
            "before": line.before,
            "after": line.after,
            "field id": line.field_id,
        }
        for line in lines
    )
    return {DIFF: grid(records), "paimon/schema_before": known}


def _last_shown(context: dg.AssetExecutionContext | dg.OutputContext) -> int | None:
    """Return the id of the schema that the asset's last materialization shows."""
    if isinstance(context, dg.OutputContext):
        if not context.has_asset_key:
            return None
        instance = context.step_context.instance
    else:
        instance = context.instance
    return last_number(instance, context.asset_key, SCHEMA_ID)


NOTHING_WRITTEN: Metadata = {"paimon/rows_in": 0, "paimon/rows_written": 0}
"""Numbers of a run that wrote no row: what is plotted does not break off."""


def result_of_earlier_try(
    context: dg.AssetExecutionContext | dg.OutputContext,
    table: Table,
    snapshot: Snapshot,
    check_results: Sequence[dg.AssetCheckResult] = (),
) -> dg.MaterializeResult[Any]:
    """Return the materialization of what an earlier try of this step committed."""
    context.log.info(
        "An earlier try of this step committed snapshot %d of %s; it is reported, not repeated.",
        snapshot.id,
        table.name,
    )
    return result_of(table, snapshot.id, {"paimon/already_committed": True}, check_results)


def result_of_write(
    context: dg.AssetExecutionContext | dg.OutputContext,
    ensured: EnsuredTable,
    outcome: WriteOutcome | None,
    metadata: Metadata,
    check_results: Sequence[dg.AssetCheckResult] = (),
) -> dg.MaterializeResult[Any]:
    """Return the materialization of a write; None or no snapshot means nothing was written."""
    table, before = ensured.table, ensured.schema_before
    if isinstance(outcome, DeleteOutcome):
        metadata = {"paimon/rows_deleted": outcome.rows_deleted, **metadata}
    if outcome is None or outcome.snapshot is None:
        metadata = {**changes_since_last(context, table, before), **metadata}
        context.log.info("Nothing to write: %s stays as it is.", table.name)
        return result_of(table, None, {**NOTHING_WRITTEN, **metadata}, check_results)
    report = outcome.report
    snapshot = outcome.snapshot
    if snapshot.schema_id != table.schema.id:  # the write has merged the rows' columns
        table = table.reopened()
    metadata = {**changes_since_last(context, table, before), **metadata}
    context.log.info(
        "Committed snapshot %d of %s: %s in, %s written.",
        snapshot.id,
        table.name,
        counted(report.rows_in, "row"),
        f"{report.rows_written:,}",
    )
    if report.sequence_wraps:
        context.log.warning(
            "%d rows of %s share one sequence value with more rows than its padding can number; "
            "among those the order is not certain.",
            report.sequence_wraps,
            table.name,
        )
    return result_of(
        table, snapshot.id, {**report_metadata(report, table.schema), **metadata}, check_results
    )


def result_of(
    table: Table,
    snapshot_id: int | None,
    metadata: Metadata,
    check_results: Sequence[dg.AssetCheckResult] = (),
) -> dg.MaterializeResult[Any]:
    """Return the materialization of a snapshot, or of the newest for None: nothing was added."""
    snapshot = table.snapshot(snapshot_id)
    if snapshot is None:
        return dg.MaterializeResult(
            metadata={**table_metadata(table), **metadata}, check_results=list(check_results)
        )
    return dg.MaterializeResult(
        check_results=list(check_results),
        metadata={
            **snapshot_metadata(table, snapshot, is_new=snapshot_id is not None),
            **metadata,
        },
        data_version=data_version_of(table, snapshot),
    )
