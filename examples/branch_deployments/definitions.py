"""Prices and their total: a pull request that changes the factor shows its effect on the rows."""

import os

import dagster as dg
import pyarrow as pa

from paimon_assets import Schema
from paimon_assets.assets import PaimonCatalogResource, paimon_asset
from paimon_assets.review import build_diff_check

FACTOR = float(os.environ.get("FACTOR", "1"))  # what the pull request changes


@paimon_asset(
    "shop.prices", Schema.of({"id": "BIGINT NOT NULL", "price": "DOUBLE"}, primary_keys="id")
)
def prices() -> pa.Table:
    """The prices that the shop charges."""
    return pa.table({"id": [1, 2], "price": [9.5 * FACTOR, 3.0]})


@paimon_asset("shop.totals", Schema.of({"total": "DOUBLE"}), mode="overwrite", deps=[prices])
def totals(paimon: PaimonCatalogResource) -> pa.Table:
    """The sum of all prices."""
    rows = paimon.catalog().get_table("shop.prices").to_arrow()
    return pa.table({"total": [sum(rows["price"].to_pylist())]})


defs = dg.Definitions(
    assets=[prices, totals],
    asset_checks=[build_diff_check(prices, most_share=0.6, before="main@latest")],
    resources={"paimon": PaimonCatalogResource.from_env(executor="embedded")},
)
