"""Names of tables and of assets."""

import dagster as dg
import pytest

from paimon_assets import Identifier, InvalidInputError, Schema
from paimon_assets.assets import translator
from tests.testkit.asset_tables import asset_of


@pytest.mark.parametrize("table", ["ods.orders", "ods.orders.v2", "o-d-s.Bestellungen"])
def test_table_name_is_restored_from_its_asset_key(table: str) -> None:
    assert str(translator.identifier_of_key(translator.asset_key_of(table))) == table
    assert translator.identifier_of(Identifier.parse(table)) == Identifier.parse(table)


def test_prefixes_of_key_do_not_name_table() -> None:
    assert str(translator.identifier_of_key(dg.AssetKey(["lake", "ods", "orders"]))) == "ods.orders"


def test_key_of_one_part_names_no_table() -> None:
    with pytest.raises(InvalidInputError, match="'orders' names no table"):
        translator.identifier_of_key(dg.AssetKey("orders"))


def test_each_table_has_pool() -> None:
    assert translator.pool_of("ods.orders") == "paimon/ods.orders"


def test_group_has_only_characters_of_dagster() -> None:
    assert translator.DEFAULT_TRANSLATOR.get_group_name(Identifier("o-d s", "orders")) == "o_d_s"


def test_translator_names_assets_of_tables() -> None:
    class Lake(translator.PaimonTranslator):
        def get_asset_key(self, identifier: Identifier) -> dg.AssetKey:
            return super().get_asset_key(identifier).with_prefix("lake")

        def get_group_name(self, identifier: Identifier) -> str:
            return f"lake_{identifier.database}"

    orders = asset_of("ods.orders", Schema.of({"id": "INT"}), translator=Lake())
    assert orders.key == dg.AssetKey(["lake", "ods", "orders"])
    assert orders.get_asset_spec().group_name == "lake_ods"
    assert str(translator.identifier_of_asset(orders)) == "ods.orders"


def test_kinds_name_engine() -> None:
    assert translator.kinds_of(None) == {"paimon"}  # the resource decides
    assert translator.kinds_of("spark") == {"paimon", "spark"}
    assert translator.kinds_of("embedded") == {"paimon"}


def test_uri_is_that_of_filesystem_catalog() -> None:
    assert translator.uri_of("s3://lake/wh/", "ods.orders") == "s3://lake/wh/ods.db/orders"
