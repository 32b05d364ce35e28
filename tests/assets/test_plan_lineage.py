"""Column lineage that a lazy frame's plan says, and what it cannot say."""

from collections.abc import Callable
from typing import Any

import dagster as dg
import polars as pl
import pytest

from paimon_assets import EmbeddedExecutor, Schema
from paimon_assets.assets import PaimonCatalogResource, paimon_asset, paimon_output
from tests.testkit.asset_tables import failure_text, metadata_of
from tests.testkit.io_manager_runs import io_run

ORDERS, SHOPS = dg.AssetKey(["shop", "orders"]), dg.AssetKey(["shop", "shops"])
SPECS = [
    dg.AssetSpec(key, metadata=paimon_output(table=".".join(key.path))) for key in (ORDERS, SHOPS)
]
Lineage = dict[str, set[str]]


@pytest.fixture
def lake(paimon: PaimonCatalogResource) -> PaimonCatalogResource:
    catalog = paimon.catalog()
    catalog.create_database("shop")
    orders = catalog.create_table(
        "shop.orders", Schema.of({"id": "BIGINT", "shop": "BIGINT", "price": "DOUBLE"})
    )
    shops = catalog.create_table("shop.shops", Schema.of({"id": "BIGINT", "name": "STRING"}))
    rows = pl.DataFrame({"id": [1, 2], "shop": [1, 1], "price": [2.5, 3.5]}).to_arrow()
    orders.new_write_builder().write(rows, EmbeddedExecutor())
    names = pl.DataFrame({"id": [1], "name": ["a"]}).to_arrow()
    shops.new_write_builder().write(names, EmbeddedExecutor())
    return paimon


def shown(result: dg.ExecuteInProcessResult, key: dg.AssetKey) -> Lineage:
    assert result.success, failure_text(result)
    lineage = metadata_of(result, key).get("dagster/column_lineage")
    found = {} if lineage is None else lineage.deps_by_column
    return {
        name: {f"{dep.asset_key.path[-1]}.{dep.column_name}" for dep in deps}
        for name, deps in found.items()
    }


def lineage(made: Callable[[Any, Any], Any], paimon: PaimonCatalogResource) -> Lineage:
    @dg.asset(ins={"orders": dg.AssetIn(ORDERS), "shops": dg.AssetIn(SHOPS)})
    def out(orders: pl.LazyFrame, shops: pl.LazyFrame) -> Any:
        return made(orders, shops)

    return shown(io_run([*SPECS, out], paimon), dg.AssetKey("out"))


OTHERS = pl.LazyFrame({"id": [1], "z": [1]})


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda orders, shops: orders.select("id"), {"id": {"orders.id"}}),
        (
            lambda orders, shops: (
                orders.join(shops, left_on="shop", right_on="id")
                .filter(pl.col("id") > 0)
                .group_by("name")
                .agg(pl.col("price").sum().alias("total"), n=pl.len())
                .rename({"name": "shop"})
                .sort("total")
            ),
            {"shop": {"shops.name"}, "total": {"orders.price"}},
        ),
        (
            lambda orders, shops: orders.join(shops, on="id", how="left", suffix="_s").with_columns(
                both=pl.when(pl.col("price") > 1).then(pl.col("shop").cast(pl.String)),
                one=pl.lit(1),
            ),
            {
                "id": {"orders.id"},
                "shop": {"orders.shop"},
                "price": {"orders.price"},
                "name": {"shops.name"},
                "both": {"orders.price", "orders.shop"},
            },
        ),
        (
            lambda orders, shops: pl.concat([orders.select("id"), shops.select("id")]),
            {"id": {"orders.id", "shops.id"}},
        ),
        (
            lambda orders, shops: orders.join(OTHERS, on="id").select(
                "id", "z", mixed=pl.col("z") + pl.col("id")
            ),
            {"id": {"orders.id"}},
        ),
        (lambda orders, shops: orders.select("id").map_batches(lambda frame: frame), {}),
        (lambda orders, shops: orders.collect(), {}),
        (lambda orders, shops: OTHERS, {}),
    ],
)
def test_what_a_lazy_frame_says(
    made: Callable[[Any, Any], Any], expected: Lineage, lake: PaimonCatalogResource
) -> None:
    assert lineage(made, lake) == expected


def test_a_table_asset_has_it_too_and_what_is_declared_comes_first(
    lake: PaimonCatalogResource,
) -> None:
    def copy(**options: Any) -> dg.AssetsDefinition:
        @paimon_asset(
            "shop.copy", Schema.of({"id": "BIGINT"}), ins={"orders": dg.AssetIn(ORDERS)}, **options
        )
        def made(orders: pl.LazyFrame) -> pl.LazyFrame:
            return orders.select("id")

        return made

    key = dg.AssetKey(["shop", "copy"])
    assert shown(io_run([*SPECS, copy()], lake), key) == {"id": {"orders.id"}}
    declared = copy(pass_through={SHOPS: ["id"]})
    assert shown(io_run([*SPECS, declared], lake), key) == {"id": {"shops.id"}}
