"""A real Debezium of a real Postgres and MariaDB: the table equals the database after each step."""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from paimon_assets.assets import FileSource, PaimonCatalogResource
from paimon_assets.cdc import ChangeLog, ChangeLogConfig, build_change_log_asset
from paimon_assets.engine.spec.schema.schema import Schema
from tests.cdc.kit import recorded_debezium as real
from tests.cdc.kit import recorded_mariadb as maria
from tests.cdc.kit.change_logs import land
from tests.testkit.asset_tables import failure_text, run

FORMS = {"with schemas": real.values_with_schemas, "messages": real.messages}


def rows_of(paimon: PaimonCatalogResource, table: str) -> list[dict[str, Any]]:
    rows = paimon.catalog().get_table(f"db.{table}").to_arrow().to_pylist()
    return [
        {name: real.postgres_value(name, value) for name, value in row.items() if name[0] != "_"}
        for row in rows
    ]


def by_key(rows: list[dict[str, Any]], *keys: str) -> dict[Any, dict[str, Any]]:
    return {tuple(row[key] for key in keys): row for row in rows}


def orders(folder: Path, policy: str, **choices: Any) -> dg.AssetsDefinition:
    return build_change_log_asset(
        "db.orders",
        Schema.of({"id": "BIGINT"}, primary_keys=["id"]),
        source=FileSource(folder=str(folder), format="debezium-json"),
        log=ChangeLog(source_table="orders", **choices),
        schema_policy=policy,
    )


@pytest.mark.parametrize("form", FORMS)
def test_table_equals_postgres_after_each_step(
    form: str, tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    for number, step in enumerate(real.recorded_steps()[0]):
        land(tmp_path, f"{number:02}", *FORMS[form](step))
        renamed = {} if number < 7 else {"ratio": "share"}
        result = run(orders(tmp_path, "sync", renamed=renamed), paimon)
        if step.name == "default":  # of the rows that no record names
            assert "default" in failure_text(result)
            break
        assert result.success, (step.name, failure_text(result))
        rows = by_key(rows_of(paimon, "orders"), "id")
        if step.name in ("snapshot again", "after it"):
            del rows[6,]  # deleted while the slot was gone: a new snapshot has no record of it
        assert rows == by_key(step.rows["orders"], "id"), step.name
        if step.name == "smaller":  # else files still have the larger value
            paimon.catalog().get_table("db.orders").compact(full=True)


@pytest.mark.parametrize(
    ("policy", "choices", "text"),
    [
        ("widen", {}, "no longer has ratio, and has now"),
        ("sync", {}, r"renamed={'ratio': 'share'}"),
    ],
)
def test_unannounced_rename_stops_run(
    policy: str, choices: Any, text: str, tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    asset = orders(tmp_path, policy, **choices)
    for number, step in enumerate(real.recorded_steps()[0][:8]):
        land(tmp_path, f"{number:02}", *real.values_with_schemas(step))
    assert text in failure_text(run(asset, paimon))
    config = dg.RunConfig(ops={"db__orders": ChangeLogConfig(max_files=7)})
    assert run(asset, paimon, run_config=config).success
    assert text in failure_text(run(asset, paimon))
    assert by_key(rows_of(paimon, "orders"), "id").keys() == {
        (row["id"],) for row in real.recorded_steps()[0][6].rows["orders"]
    }


@pytest.mark.parametrize("table", ["lines", "Mixed Case"])
def test_tables_without_schemas_equal_postgres_after_each_step(
    table: str, tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    keys = {"lines": {"order_id": "BIGINT", "no": "INT"}, "Mixed Case": {"Key": "STRING"}}[table]
    asset = build_change_log_asset(
        "db.t",
        Schema.of(keys, primary_keys=[*keys]),
        source=FileSource(folder=str(tmp_path), format="debezium-json"),
        log=ChangeLog(source_table=table, on_truncate="empty"),
        schema_policy="add",
    )
    for number, step in enumerate(real.recorded_steps()[0]):
        land(tmp_path, f"{number:02}", *real.values_alone(step))
        result = run(asset, paimon)
        assert result.success, (step.name, failure_text(result))
        found = [{k: str(v) for k, v in row.items()} for row in rows_of(paimon, "t")]
        expected = [{k: str(v) for k, v in row.items()} for row in step.rows[table]]
        assert by_key(found, *keys) == by_key(expected, *keys), step.name


def test_table_equals_mariadb_after_each_step(
    tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    """Also its changes of schemas, which a snapshot begins with DROP TABLE IF EXISTS."""

    def follow(table: str, **keys: str) -> list[dict[str, Any]]:
        asset = build_change_log_asset(
            f"db.{table}",
            Schema.of(keys, primary_keys=[*keys]),
            source=FileSource(folder=str(tmp_path), format="debezium-json"),
            log=ChangeLog(source_table=table, on_truncate="empty", renamed=renamed),
            schema_policy="sync",
        )
        result = run(asset, paimon)
        assert result.success, (step.name, failure_text(result))
        rows = paimon.catalog().get_table(f"db.{table}").to_arrow().to_pylist()
        shown = [
            {n: maria.mariadb_value(n, v) for n, v in row.items() if n[0] != "_"} for row in rows
        ]
        return [{n: v for n, v in row.items() if n != "kind" or v != r"c\,d"} for row in shown]

    renamed: dict[str, str] = {}
    for number, step in enumerate(maria.steps()):
        renamed = {"ratio": "share"} if step.name == "rename" else renamed
        land(tmp_path, f"{number:02}", *real.values_with_schemas(step))
        if step.name == "default":
            break
        found = by_key(follow("orders", id="DECIMAL(20, 0)"), "id")
        expected = by_key([maria.connector_row(row) for row in step.rows["orders"]], "id")
        for key, row in found.items():
            expected[key].pop("kind", None) if "kind" not in row else None
        assert found == expected, step.name
    lines = by_key(follow("lines_of", order_id="INT", no="INT"), "order_id", "no")
    assert lines == by_key(step.rows["lines_of"], "order_id", "no")
