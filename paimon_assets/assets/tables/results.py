"""What a run made of a table, as the materialization Dagster shows."""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from paimon_assets.assets.metadata import (
    Metadata,
    data_version_of,
    report_metadata,
    snapshot_metadata,
    table_metadata,
)
from paimon_assets.assets.tables.declared_table import EnsuredTable
from paimon_assets.assets.tables.schema_history import changes_since_last
from paimon_assets.assets.tables.table_write import DeleteOutcome
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.write.write_builder import WriteOutcome

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
