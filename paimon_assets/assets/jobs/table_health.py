"""The health of all tables of a catalog as an asset: numbers to plot, and one check for all.

catalog.health() ─▶ materialization: worst score, tables that are due, sizes, worst tables first
└─▶ check `healthy`: which tables have reached a limit, and why
"""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
import pyarrow as pa

from paimon_assets.assets.failures import dagster_failures, naming_arguments
from paimon_assets.assets.metadata import Metadata, grid
from paimon_assets.assets.resource import catalog_resource
from paimon_assets.assets.translator import DEFAULT_RESOURCE_KEY, STORAGE_KIND
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.system.table_health import DUE_SCORE, HealthLimits

HEALTH_CHECK = "healthy"
_TABLES_SHOWN = 100
_SCORES_SHOWN = 10
_SUMS = {
    "bytes": "total_bytes",
    "files": "file_count",
    "small_files": "small_file_count",
    "waiting_files": "waiting_files",
    "deleted_rows": "deleted_rows",
}
"""Name of a sum → column."""
_SHOWN = ("score", "reason", "file_count", "total_bytes")  # few columns, so that the reason is wide


@naming_arguments
def build_table_health_asset(
    key: dg.AssetKey | Sequence[str] | str = "table_health",
    *,
    tables: Sequence[str] = (),
    limits: HealthLimits | None = None,
    record: str | None = None,
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.WARN,
    resource_key: str = DEFAULT_RESOURCE_KEY,
    **asset_options: Any,
) -> dg.AssetsDefinition:
    """Return an asset that measures how much upkeep the tables of a catalog need.

    Each materialization has a list of the worst tables, and numbers for the plots, among them the
    scores of the ten worst tables. Its check `healthy` names the tables that have reached a limit;
    tables that cannot be read are among them.

    >>> build_table_health_asset(tables=["sales.*"]).key.to_user_string()
    'table_health'

    Args:
        key: The asset's.
        tables: Names, with `*` for any part, such as `shop.*`; all tables by default.
        limits: From how much on upkeep is due; the sensor `build_file_debt_sensor` takes its part
            of them as `debt`.
        record: A table that gets the result of each run, one row a table; made if it is missing.
        severity: Of the check.
        resource_key: The catalog's.
        **asset_options: Further arguments of `dg.asset`, such as `automation_condition`. The group
            is `upkeep`, and `deps` are the tables that are named without `*`, if not given.

    Cost:
        Of a run: the manifests of the newest snapshot of each table; eight tables at a time.
    """
    asset_key = dg.AssetKey.from_coercible(key)

    def table_health(context: dg.AssetExecutionContext) -> dg.MaterializeResult:  # type: ignore[type-arg]  # Dagster asks for the bare class
        with dagster_failures(Identifier("sys", "table_health"), context):
            catalog = catalog_resource(context, resource_key).catalog()
            health = catalog.health(*tables, limits=limits)
            if record is not None:
                catalog.record_health(record, health)
        rows = sorted(health.to_pylist(), key=lambda row: row["score"] or 0)
        due = [row for row in rows if row["score"] is None or row["score"] <= DUE_SCORE]
        return dg.MaterializeResult(
            metadata={"paimon/summary": _text(rows, due), **_metadata(health, rows, due)},
            check_results=[
                dg.AssetCheckResult(
                    check_name=HEALTH_CHECK,
                    passed=not due,
                    severity=severity,
                    description=_text(rows, due),
                    metadata=_tables_value("paimon/due_tables", due),
                )
            ],
        )

    definition: dg.AssetsDefinition = dg.asset(
        key=asset_key,
        check_specs=[
            dg.AssetCheckSpec(
                HEALTH_CHECK,
                asset=asset_key,
                description="Checks that no table has reached a limit of its upkeep.",
            )
        ],
        required_resource_keys={resource_key},
        **{
            "kinds": {STORAGE_KIND},
            "group_name": "upkeep",
            "deps": [dg.AssetKey(name.split(".")) for name in tables if "*" not in name],
            "description": "How much upkeep the tables of the catalog need, from metadata alone.",
            **asset_options,
        },
    )(table_health)
    return definition


def _metadata(
    health: pa.Table, rows: Sequence[Mapping[str, Any]], due: Sequence[Mapping[str, Any]]
) -> Metadata:
    """Return the numbers of a run. Dagster plots them by name: scores first, sizes last."""
    scores = {_name(row): row["score"] for row in rows if row["score"] is not None}
    sums = {name: sum(row[column] or 0 for row in rows) for name, column in _SUMS.items()}
    return {
        **_tables_value("paimon/worst_tables", rows),
        "paimon/lowest_score": min(scores.values(), default=100),
        **{f"paimon/score/{name}": scores[name] for name in list(scores)[:_SCORES_SHOWN]},
        "paimon/small_file_ratio": round(sums["small_files"] / max(1, sums["files"]), 4),
        "paimon/tables": health.num_rows,
        "paimon/tables_due": len(due),
        **{f"paimon/total_{name}": total for name, total in sums.items()},
    }


def _tables_value(name: str, rows: Sequence[Mapping[str, Any]]) -> Metadata:
    """Return tables as a table of Dagster's, nothing for none."""
    return {name: grid(map(_line, rows[:_TABLES_SHOWN]))} if rows else {}


def _line(row: Mapping[str, Any]) -> dict[str, Any]:
    reason = "cannot be read" if row["score"] is None else row["reason"] or ""
    return {"table": _name(row), **{column: row[column] for column in _SHOWN}, "reason": reason}


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['database_name']}.{row['table_name']}"


def _text(rows: Sequence[Mapping[str, Any]], due: Sequence[Mapping[str, Any]]) -> str:
    if not due:
        return f"{counted(len(rows), 'table')}, none has reached a limit."
    worst = [f"{line['table']}: {line['reason']}" for line in map(_line, due[:5])]
    more = f"; and {len(due) - 5} more" if len(due) > 5 else ""
    return f"{len(due)} of {counted(len(rows), 'table')} need upkeep. {'; '.join(worst)}{more}."
