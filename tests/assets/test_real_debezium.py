"""A real Debezium of a real Postgres: the table equals the database after each step."""

from pathlib import Path
from typing import Any

import pytest

from paimon_assets.assets import (
    ChangeLog,
    FileSource,
    PaimonCatalogResource,
    build_change_log_asset,
)
from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit import recorded_debezium as real
from tests.testkit.asset_tables import failure_text, run
from tests.testkit.change_logs import land

FORMS = {"with schemas": real.values_with_schemas, "messages": real.messages}


def rows_of(paimon: PaimonCatalogResource, table: str) -> list[dict[str, Any]]:
    rows = paimon.catalog().get_table(f"db.{table}").to_arrow().to_pylist()
    return [
        {name: real.shown(name, value) for name, value in row.items() if name[0] != "_"}
        for row in rows
    ]


def by_key(rows: list[dict[str, Any]], *keys: str) -> dict[Any, dict[str, Any]]:
    return {tuple(row[key] for key in keys): row for row in rows}


@pytest.mark.parametrize("form", FORMS)
def test_orders_follow_the_database(
    form: str, tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    asset = build_change_log_asset(
        "db.orders",
        Schema.of({"id": "BIGINT"}, primary_keys=["id"]),
        source=FileSource(folder=str(tmp_path), format="debezium-json"),
        log=ChangeLog(source_table="orders"),
        schema_policy="widen",
    )
    for number, step in enumerate(real.recorded()[0][:7]):
        land(tmp_path, f"{number:02}", *FORMS[form](step))
        result = run(asset, paimon)
        assert result.success, (step.name, failure_text(result))
        assert by_key(rows_of(paimon, "orders"), "id") == by_key(step.rows["orders"], "id"), (
            step.name
        )
