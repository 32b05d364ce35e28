"""All tables of a database: some have their own assets, and one asset follows the rest."""

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from paimon_assets import InvalidInputError, NotFoundError, Schema, cdc
from paimon_assets.assets import FileSource, PaimonCatalogResource
from paimon_assets.cdc.assets.change_files import SharedFiles
from paimon_assets.cdc.records.change_batch import CdcOptions, SourceTable
from paimon_assets.cdc.records.formats import cdc_format
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.cdc.kit import recorded_debezium as real
from tests.cdc.kit.change_logs import debezium, land, with_types
from tests.testkit.asset_tables import failure_text, lent_instance

OTHER_TABLES = dg.AssetKey(["shop", "other_tables"])
ORDERS = Schema.of({"id": "BIGINT"}, primary_keys=["id"])


def message(table: str, op: str, lsn: int, **values: Any) -> str:
    types = {name: "int64" if name == "id" else "string" for name in values}
    value = json.loads(with_types(debezium(op, lsn, table=table, **values), **types))
    return json.dumps({"key": {"id": values["id"]}, "value": value})


def assets_of(folder: Path, **fields: Any) -> list[dg.AssetsDefinition]:
    source = FileSource(folder=str(folder), format="debezium-json")
    return cdc.build_change_log_assets(cdc.DatabaseLog(database="shop", **fields), source=source)


def run(assets: Any, paimon: PaimonCatalogResource, **config: Any) -> Any:
    runs = {"shop__other_tables": cdc.OtherTablesConfig(**config)} if config else {}
    with lent_instance() as instance:
        return dg.materialize(
            assets, resources={"paimon": paimon}, instance=instance, raise_on_error=False,
            run_config=dg.RunConfig(ops=runs),
        )  # fmt: skip


def rows_of(paimon: PaimonCatalogResource, table: str) -> list[tuple[Any, ...]]:
    rows = paimon.catalog().get_table(f"shop.{table}").to_arrow().to_pylist()
    return sorted(tuple(v for k, v in row.items() if k[0] != "_") for row in rows)


def test_new_tables_are_materialized_under_their_own_keys(
    tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    assets = assets_of(
        tmp_path, tables={"public.orders": ORDERS}, excluding=["*.secrets"], prefix="ods_"
    )
    land(
        tmp_path, "1",
        message("orders", "c", 10, id=1, state="a"),
        message("items", "c", 20, id=5, title="x"),
        message("secrets", "c", 30, id=6, title="y"),
    )  # fmt: skip
    result = run(assets, paimon)
    assert result.success
    keys = {event.asset_key for event in result.get_asset_materialization_events()}
    assert keys == {
        OTHER_TABLES,
        *(dg.AssetKey(["shop", name]) for name in ("ods_orders", "ods_items")),
    }
    assert rows_of(paimon, "ods_orders") == [(1, "a")]
    assert rows_of(paimon, "ods_items") == [(5, "x")]
    land(
        tmp_path, "2",
        message("items", "u", 40, id=5, title="z", size="9"),
        message("parts", "c", 50, id=7, title="p"),
    )  # fmt: skip
    assert run(assets, paimon).success
    assert rows_of(paimon, "ods_items") == [(5, "z", "9")]
    assert rows_of(paimon, "ods_parts") == [(7, "p")]
    assert sorted(paimon.catalog().list_tables("shop")) == ["ods_items", "ods_orders", "ods_parts"]
    declared = assets_of(
        tmp_path, tables={"orders": ORDERS, "items": ORDERS}, prefix="ods_", excluding=["*.secrets"]
    )
    land(tmp_path, "3", message("items", "d", 60, id=5, title="z", size="9"))
    assert run(declared, paimon).success
    assert rows_of(paimon, "ods_items") == []
    assert paimon.catalog().get_table("shop.ods_items").snapshots()[-1].id == 3


def test_failed_table_stops_no_other_and_is_reloaded_alone(
    tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    assets = assets_of(tmp_path)
    land(tmp_path, "1", message("a", "c", 10, id=1, n="x"), message("b", "c", 10, id=1, n="x"))
    assert run(assets, paimon).success
    land(tmp_path, "2", message("a", "t", 20, id=0), message("b", "c", 30, id=2, n="y"))
    result = run(assets, paimon)
    assert not result.success
    assert "a could not be followed" in failure_text(result)
    assert rows_of(paimon, "b") == [(1, "x"), (2, "y")]
    assert rows_of(paimon, "a") == [(1, "x")]
    before = paimon.catalog().get_table("shop.b").latest_snapshot()
    emptied = assets_of(tmp_path, log=cdc.ChangeLog(on_truncate="empty"))
    assert run(emptied, paimon, tables=["a"], reload=True).success
    assert rows_of(paimon, "a") == []
    assert paimon.catalog().get_table("shop.b").latest_snapshot() == before


def test_failed_new_table_is_followed_on_request(
    tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    changes = message("a", "c", 10, id=1, n="x"), message("a", "t", 20, id=0)
    land(tmp_path, "1", *changes, message("b", "c", 10, id=1, n="x"))
    result = run(assets_of(tmp_path), paimon)
    assert "follow those that failed by tables in the config" in failure_text(result)
    assert rows_of(paimon, "b") == [(1, "x")]
    emptied = assets_of(tmp_path, log=cdc.ChangeLog(on_truncate="empty"))
    assert run(emptied, paimon, tables=["a"]).success
    assert rows_of(paimon, "a") == []
    land(tmp_path, "2", message("a", "c", 30, id=2, n="y"))
    assert run(emptied, paimon).success
    assert rows_of(paimon, "a") == [(2, "y")]
    assert rows_of(paimon, "b") == [(1, "x")]


def test_tables_of_one_name_or_without_key_are_refused(
    tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    with pytest.raises(InvalidInputError, match="one table"):
        assets_of(tmp_path, tables={"a.orders": ORDERS, "b.orders": ORDERS})
    land(tmp_path, "1", debezium("c", 10, id=1))
    assert "do not tell its key" in failure_text(run(assets_of(tmp_path), paimon))
    (tmp_path / "1.json").unlink()
    other = message("orders", "c", 20, id=1).replace('"public"', '"private"')
    land(tmp_path, "2", message("orders", "c", 10, id=1), other)
    assert "would be one table: leave one out" in failure_text(run(assets_of(tmp_path), paimon))
    source = FileSource(folder=str(tmp_path), format="debezium-json")
    log = cdc.ChangeLog(source_table="private.orders")
    twin = cdc.build_change_log_asset("shop.twin", ORDERS, source=source, log=log)
    rest = assets_of(tmp_path, excluding=("*.private.orders",))
    result = run([*rest, twin], paimon)
    assert result.success, failure_text(result)
    assert [row[0] for name in ("orders", "twin") for row in rows_of(paimon, name)] == [1, 1]


def test_recorded_database_is_followed(tmp_path: Path, paimon: PaimonCatalogResource) -> None:
    assets = assets_of(tmp_path, log=cdc.ChangeLog(on_truncate="empty"))
    for number, step in enumerate(real.recorded_steps()[0][:7]):
        land(tmp_path, f"{number:02}", *real.messages(step))
        result = run(assets, paimon)
        assert result.success, (step.name, failure_text(result))
        for table, expected in step.rows.items():
            found = paimon.catalog().get_table(f"shop.{table}").to_arrow().to_pylist()
            shown = [
                {
                    name: real.postgres_value(name, value)
                    for name, value in row.items()
                    if name[0] != "_"
                }
                for row in found
            ]
            assert sorted(map(str, shown)) == sorted(map(str, expected)), (step.name, table)


def test_file_is_parsed_once_for_all_tables(tmp_path: Path) -> None:
    file_io, kind = LocalFileIO(), cdc_format("debezium-json")
    lines = [message(table, "c", 10, id=1, n="x") for table in ("a", "b", "c")]
    land(tmp_path, "1", *lines)
    path = f"{tmp_path}/1.json"
    known = SourceTable(keys=("id",))
    shared = SharedFiles(tables={f"shop.public.{t}": known for t in "ab"}, most_bytes=1 << 20)

    def of(table: str, **choices: Any) -> Any:
        of_table = {"table_of": lambda name: known if name[2] == table else None}
        return [*shared(file_io, path, kind, CdcOptions(**{**of_table, **choices}))]

    assert [batch.table for batch in of("a")] == ["a"]
    (tmp_path / "1.json").rename(tmp_path / "gone")
    assert [batch.table for batch in of("b")] == ["b"], "from the cache"
    for again in (lambda: of("a"), lambda: of("b", on_rejected=lambda _: None)):
        with pytest.raises(NotFoundError):  # reads it by itself
            again()


def test_topic_of_database_needs_pattern(paimon: PaimonCatalogResource) -> None:
    with pytest.raises(InvalidInputError, match="pattern"):
        cdc.build_change_log_assets(
            cdc.DatabaseLog(database="shop"),
            source=cdc.KafkaSource(bootstrap="x:1", topic="t", format="debezium-json"),
        )
