"""A folder of Parquet, `year=…` below it, becomes a table where it lies; jobs evolve its schema."""

import os

import dagster as dg

from paimon_assets import Schema, SegmentSource
from paimon_assets.assets import (
    PaimonCatalogResource,
    build_maintenance_job,
    build_new_segments_sensor,
    build_row_count_check,
    build_schema_check,
    build_schema_evolution_job,
    build_segment_asset,
    build_segment_import_job,
)

SALES = Schema.of({"id": "BIGINT", "amount": "DOUBLE", "year": "INT"}, partition_keys=["year"])
FOLDER = SegmentSource(
    path=os.environ.get("ARCHIVE", "archive"), partition="year:int", only_new=True
)

sales = build_segment_asset("shop.sales", SALES, source=FOLDER)
segment_import = build_segment_import_job()

defs = dg.Definitions(
    assets=[sales],
    asset_checks=[build_row_count_check(sales, 1), build_schema_check(sales, SALES)],
    jobs=[
        segment_import,
        build_schema_evolution_job(tables=[sales]),
        build_maintenance_job([sales]),
    ],
    sensors=[build_new_segments_sensor(sales, source=FOLDER)],
    resources={"paimon": PaimonCatalogResource(warehouse="warehouse", executor="embedded")},
)
