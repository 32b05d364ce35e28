"""Column lineage from the text of a query."""

import dagster as dg
import pyarrow as pa
import pytest

from paimon_assets import InvalidInputError, Schema
from paimon_assets.assets import PaimonCatalogResource
from paimon_assets.sql import columns_of_sql
from tests.testkit.asset_tables import asset_of, metadata_of, run

TABLES = {
    "shop.orders": Schema.of({"id": "BIGINT", "shop": "BIGINT", "price": "DECIMAL(10, 2)"}),
    "shop.shops": Schema.of({"id": "BIGINT", "name": "STRING"}),
}


PAID = """
WITH paid AS (SELECT shop, sum(price + id) AS t FROM shop.orders GROUP BY shop)
SELECT name, t AS total, 1 AS one FROM paid JOIN shop.shops s ON s.id = paid.shop
"""


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM shop.shops", {"shops": {"id": ["id"], "name": ["name"]}}),
        (PAID, {"shops": {"name": ["name"]}, "orders": {"total": ["id", "price"]}}),
        (
            "SELECT id FROM shop.orders UNION ALL SELECT id FROM shop.shops",
            {"orders": {"id": ["id"]}, "shops": {"id": ["id"]}},
        ),
        (
            "SELECT o.id, e.z, o.id + e.z AS both FROM shop.orders o JOIN x.elsewhere e ON true",
            {"orders": {"id": ["id"]}},
        ),
    ],
)
def test_columns_of_query_have_their_sources(
    query: str, expected: dict[str, dict[str, list[str]]]
) -> None:
    found = columns_of_sql(query, TABLES)
    assert found == {dg.AssetKey(["shop", name]): each for name, each in expected.items()}


@pytest.mark.parametrize("query", ["SELEC id", "DROP TABLE t", "SELECT nose FROM shop.orders"])
def test_invalid_query_is_refused(query: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        columns_of_sql(query, TABLES)
    assert refused.value.kind == "sql-lineage"


def test_asset_shows_lineage_of_query(paimon: PaimonCatalogResource) -> None:
    query = "SELECT id, price * shop AS total FROM shop.orders"
    totals = asset_of(
        "shop.totals",
        Schema.of({"id": "BIGINT", "total": "DOUBLE"}),
        pa.table({"id": [1], "total": [2.0]}),
        pass_through=columns_of_sql(query, TABLES),
    )
    lineage = metadata_of(run(totals, paimon), totals.key)["dagster/column_lineage"]
    assert {
        name: [dep.column_name for dep in deps] for name, deps in lineage.deps_by_column.items()
    } == {"id": ["id"], "total": ["price", "shop"]}
