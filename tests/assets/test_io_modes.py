"""Write modes beside stored rows; and one step commits once."""

from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from paimon_assets import InvalidInputError, Schema, TableCatalog
from paimon_assets.assets import PaimonCatalogResource, PaimonIOManager, paimon_output
from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.testkit.asset_tables import (
    FailsOnce,
    catalog_on,
    data_version_of,
    failure_text,
    metadata_of,
    pairs_in,
    rows_of,
    stored_asset,
)
from tests.testkit.asset_tables import order_rows as rows
from tests.testkit.io_manager_runs import io_run

pytestmark = pytest.mark.slow

KEY = dg.AssetKey(["shop", "orders"])
KEYED = Schema.of({"id": "BIGINT", "v": "STRING"}, primary_keys=["id"], options={"bucket": "1"})
APPENDED = Schema.of({"id": "BIGINT", "v": "STRING"})
BY_VALUE = Schema.of({"id": "BIGINT", "v": "STRING"}, partition_keys=["v"])


def orders(frame: Any, **options: Any) -> dg.AssetsDefinition:
    return stored_asset(frame, key=KEY, metadata=paimon_output(**options), code_version="7")


@pytest.mark.parametrize(
    ("schema", "mode", "expected"),
    [
        (APPENDED, "append", [(1, "a"), (2, "b"), (2, "x"), (3, "b")]),
        (KEYED, "append", [(1, "a"), (2, "x"), (3, "b")]),
        (KEYED, "upsert", [(1, "a"), (2, "x"), (3, "b")]),
        (APPENDED, "overwrite", [(2, "x"), (3, "b")]),
        (KEYED, "overwrite", [(2, "x"), (3, "b")]),
        (BY_VALUE, "overwrite_partitions", [(1, "a"), (2, "x"), (3, "b")]),
        (APPENDED, "ignore", [(1, "a"), (2, "b")]),
    ],
)
def test_mode_decides_about_stored_rows(
    schema: Schema, mode: str, expected: list[tuple[int, str]], paimon: PaimonCatalogResource
) -> None:
    for frame in (rows((1, "a"), (2, "b")), rows((2, "x"), (3, "b"))):
        result = io_run(orders(frame, schema=schema, mode=mode), paimon)
        assert result.success, failure_text(result)
    assert pairs_in(paimon) == expected


def test_error_if_exists_refuses_table_with_rows(paimon: PaimonCatalogResource) -> None:
    asset = orders(rows((1, "a")), schema=APPENDED, mode="error_if_exists")
    assert io_run(orders(rows(), schema=APPENDED), paimon).success, "a table without rows"
    assert io_run(asset, paimon).success
    assert "has rows already" in failure_text(io_run(asset, paimon))
    assert pairs_in(paimon) == [(1, "a")]


def test_rows_committed_during_write_are_refused(paimon: PaimonCatalogResource) -> None:
    def slow() -> Any:
        yield rows((1, "a")).to_batches()[0]
        assert io_run(orders(rows((9, "z")), schema=APPENDED), paimon).success

    reader = pa.RecordBatchReader.from_batches(rows().schema, slow())
    asset = orders(reader, schema=APPENDED, mode="error_if_exists")
    assert "has rows already" in failure_text(io_run(asset, paimon))
    assert pairs_in(paimon) == [(9, "z")]


@pytest.mark.parametrize(
    ("mode", "wins"), [("error_if_exists", False), ("ignore", True), ("append", True)]
)
def test_rows_committed_before_publish_are_seen(
    mode: str, wins: bool, paimon: PaimonCatalogResource, warehouse: str
) -> None:
    other = orders(rows((9, "z")), schema=APPENDED)

    class Overtaken(LocalFileIO):
        def publish(self, path: str, data: bytes) -> bool:
            if path.endswith("shop.db/orders/snapshot/snapshot-1"):
                assert io_run(other, paimon).success
            return super().publish(path, data)

    class Racing(PaimonCatalogResource):
        def catalog(self) -> TableCatalog:
            return TableCatalog(FilesystemCatalog(self.warehouse, Overtaken()))

    racing = Racing(warehouse=warehouse, executor="embedded")
    result = io_run(orders(rows((1, "a")), schema=APPENDED, mode=mode), racing)
    assert result.success is wins
    assert pairs_in(paimon) == ([(1, "a"), (9, "z")] if mode == "append" else [(9, "z")])
    if not wins:
        assert "has rows already" in failure_text(result)


def test_mode_is_set_by_run_definition_or_manager(paimon: PaimonCatalogResource) -> None:
    class Config(dg.Config):
        mode: str

    @dg.asset(key=KEY, metadata=paimon_output(mode="overwrite"))
    def table(context: dg.AssetExecutionContext, config: Config) -> pa.Table:
        context.add_output_metadata({"paimon/mode": config.mode})
        return rows((1, "a"))

    appending = PaimonIOManager(paimon=paimon, mode="append")
    for _ in range(2):
        assert io_run(orders(rows((1, "a"))), paimon, manager=appending).success
    assert pairs_in(paimon) == [(1, "a")] * 2
    assert io_run(orders(rows((1, "a")), mode="overwrite"), paimon, manager=appending).success
    assert pairs_in(paimon) == [(1, "a")]
    config = dg.RunConfig({"shop__orders": Config(mode="append")})
    result = io_run(table, paimon, run_config=config)
    assert result.success, failure_text(result)
    assert pairs_in(paimon) == [(1, "a")] * 2


def test_invalid_modes_are_refused(paimon: PaimonCatalogResource) -> None:
    with pytest.raises(InvalidInputError, match=r"Write mode 'merge' .* one of append"):
        paimon_output(mode="merge")
    wrong = PaimonIOManager(paimon=paimon, mode="replace")
    assert "'replace'" in failure_text(io_run(orders(rows((1, "a"))), paimon, manager=wrong))
    with pytest.raises(InvalidInputError, match="The schema has no primary key"):
        paimon_output(schema=APPENDED, mode="upsert")
    partitions = orders(rows((1, "a")), schema=APPENDED, mode="overwrite_partitions")
    assert "has no partitions" in failure_text(io_run(partitions, paimon))
    assert paimon.catalog().get_table("shop.orders").latest_snapshot() is None


def test_unknown_metadata_key_is_refused(paimon: PaimonCatalogResource) -> None:
    table = stored_asset(rows((1, "a")), key=KEY, metadata={"paimon/mood": "append"})
    text = failure_text(io_run(table, paimon))
    assert "asset 'shop/orders' has no 'paimon/mood'" in text
    assert "paimon/mode" in text


def test_snapshot_names_its_run(paimon: PaimonCatalogResource) -> None:
    result = io_run(orders(rows((1, "a"))), paimon)
    snapshot = paimon.catalog().get_table("shop.orders").latest_snapshot()
    assert snapshot is not None
    assert snapshot.properties["dagster.run-id"] == result.run_id
    assert snapshot.properties["dagster.asset-key"] == "shop/orders"
    assert snapshot.properties["dagster.code-version"] == "7"
    assert metadata_of(result, KEY)["dagster/table_name"] == "shop.orders"
    assert data_version_of(result, KEY).startswith("1-")


def test_snapshot_has_url_of_its_run(
    paimon: PaimonCatalogResource, monkeypatch: pytest.MonkeyPatch
) -> None:
    asset = orders(rows((1, "a")))
    assert io_run(asset, paimon).success
    monkeypatch.setenv("DAGSTER_WEBSERVER_URL", "https://dagster.example/")
    result = io_run(asset, paimon)
    table = paimon.catalog().get_table("shop.orders")
    urls = [snapshot.properties.get("dagster.run_url") for snapshot in table.snapshots()]
    assert urls == [None, f"https://dagster.example/runs/{result.run_id}"]


def test_different_primary_key_is_refused(paimon: PaimonCatalogResource) -> None:
    assert io_run(orders(rows((1, "a"))), paimon).success
    text = failure_text(io_run(orders(rows((1, "a")), schema=KEYED), paimon))
    assert "primary key is declared (id) but stored none" in text


def test_missing_column_is_refused_and_not_dropped(paimon: PaimonCatalogResource) -> None:
    assert io_run(orders(rows((1, "a"))), paimon).success
    text = failure_text(io_run(orders(rows((2, "b")).drop(["v"])), paimon))
    assert "the rows lack columns of the table" in text
    assert pairs_in(paimon) == [(1, "a")]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_retried_step_commits_once(mode: str, warehouse: str) -> None:
    file_io = FailsOnce(after_publish_of="/snapshot-1")

    paimon = catalog_on(file_io, warehouse)
    result = io_run(orders(rows((1, "a")), schema=APPENDED, mode=mode), paimon)
    assert file_io.has_failed
    assert result.success, failure_text(result)
    assert metadata_of(result, KEY)["paimon/already_committed"] is True
    assert pairs_in(paimon) == [(1, "a")]
    assert [s.id for s in paimon.catalog().get_table("shop.orders").snapshots()] == [1]


@pytest.mark.parametrize(
    ("key", "metadata", "manager", "table"),
    [
        (["orders"], {}, {}, "default.orders"),
        (["orders"], {}, {"database": "shop"}, "shop.orders"),
        (["lake", "shop", "orders"], {}, {"database": "other"}, "shop.orders"),
        (["shop", "orders"], {"table": "raw.o"}, {"database": "other"}, "raw.o"),
    ],
)
def test_table_is_named_by_definition_key_or_manager(
    key: list[str],
    metadata: dict[str, Any],
    manager: dict[str, str],
    table: str,
    paimon: PaimonCatalogResource,
) -> None:
    orders_of = stored_asset(rows((1, "a")), key=key, metadata=paimon_output(**metadata))
    result = io_run(orders_of, paimon, manager=PaimonIOManager(paimon=paimon, **manager))
    assert result.success, failure_text(result)
    assert len(rows_of(paimon.catalog().get_table(table))) == 1
