"""What became of a table's schema since Dagster last showed it."""

import dagster as dg

from paimon_assets.assets.metadata import Metadata
from paimon_assets.assets.tables.schema_report import DIFF
from paimon_assets.engine.spec.evolution.schema_diff import schema_diff
from paimon_assets.engine.table.table import Table

SCHEMA_ID = "paimon/schema_id"


def changes_since_last(context: dg.AssetExecutionContext, table: Table) -> Metadata:
    """Return what differs from the schema of the asset's last materialization, nothing if nothing.

    Cost:
        A query of the event log; if the schema is another one, its file.
    """
    event = context.instance.get_latest_materialization_event(context.asset_key)
    materialization = event.asset_materialization if event is not None else None
    known = materialization.metadata.get(SCHEMA_ID) if materialization is not None else None
    if not isinstance(known, dg.IntMetadataValue) or known.value == table.schema.id:
        return {}
    earlier = next((schema for schema in table.schemas() if schema.id == known.value), None)
    lines = schema_diff(earlier, table.schema) if earlier is not None else ()
    if not lines:
        return {}
    records = [
        dg.TableRecord(
            {
                "what": line.subject,
                "change": line.change,
                "before": line.before,
                "after": line.after,
                "field id": line.field_id,
            }
        )
        for line in lines
    ]
    return {DIFF: dg.MetadataValue.table(records), "paimon/schema_before": known.value}
