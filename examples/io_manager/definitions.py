"""Sales of each day, and totals that read only what is new."""

import dagster as dg
import polars as pl

from paimon_assets.assets import (
    PaimonCatalogResource,
    PaimonIOManager,
    as_table_assets,
    build_compaction_job,
    build_row_count_check,
    paimon_input,
    paimon_output,
)

DAYS = dg.DailyPartitionsDefinition("2026-01-01")


@dg.asset(
    key=["shop", "sales"],
    partitions_def=DAYS,
    metadata=paimon_output(partition_column="day"),  # each run replaces its day
)
def sales(context: dg.AssetExecutionContext) -> pl.DataFrame:
    """The sales of a day; in life from a source of yours."""
    day = context.partition_time_window.start.date()
    return pl.DataFrame({"day": [day, day], "shop": ["eu", "us"], "amount": [9.9, 20.0]})


@dg.asset(
    key=["shop", "large_sales"],
    ins={"sales": dg.AssetIn(["shop", "sales"], metadata=paimon_input(where="amount > 10"))},
)
def large_sales(sales: pl.LazyFrame) -> pl.LazyFrame:
    """What was sold for more than 10, of all days; filter and columns are read by the table."""
    return sales.group_by("shop").agg(pl.len().alias("sales"), pl.col("amount").sum())


catalog = PaimonCatalogResource(warehouse="warehouse", executor="embedded")
io = PaimonIOManager(paimon=catalog)
tables = as_table_assets([sales, large_sales], io_manager=io)

defs = dg.Definitions(
    assets=tables,
    asset_checks=[build_row_count_check(tables[0], 1)],
    jobs=[build_compaction_job(tables)],
    resources={"io_manager": io, "paimon": catalog},
)
