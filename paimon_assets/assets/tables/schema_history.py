"""What became of a table's schema since Dagster last showed it."""

import dagster as dg

from paimon_assets.assets.metadata import Metadata, grid, last_number
from paimon_assets.assets.tables.schema_report import DIFF
from paimon_assets.engine.spec.evolution.schema_diff import schema_diff
from paimon_assets.engine.table.table import Table

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
