"""Changes of orders land in any order; the table shows each order as it is now."""

import os

import dagster as dg

from paimon_assets import Schema
from paimon_assets.assets import (
    FileSource,
    PaimonCatalogResource,
    build_compaction_job,
    build_file_debt_sensor,
    build_file_ingestion_asset,
    build_maintenance_job,
    build_new_files_sensor,
    build_sequence_check,
    build_unique_key_check,
)

ORDERS = Schema.of(
    {
        "id": "BIGINT",
        "status": "STRING",
        "amount": "DECIMAL(10,2)",
        "op": "STRING",
        "op_time": "TIMESTAMP(0)",
    },
    primary_keys=["id"],
    options={
        "bucket": "2",
        "rowkind.field": "op",  # +I, -U, +U, -D
        "sequence.field": "op_time",
        "sequence.auto-padding": "row-kind-flag",  # a -U never beats the +U of its second
        "snapshot.time-retained": "7 d",
    },
)
LANDED = FileSource(folder=os.environ.get("LANDING", "landing"), pattern="**/*.parquet")

orders = build_file_ingestion_asset("shop.orders", ORDERS, source=LANDED)
compaction = build_compaction_job([orders])
maintenance = build_maintenance_job([orders])

defs = dg.Definitions(
    assets=[orders],
    asset_checks=[build_unique_key_check(orders), build_sequence_check(orders)],
    jobs=[compaction, maintenance],
    schedules=[dg.ScheduleDefinition(job=maintenance, cron_schedule="0 3 * * *")],
    sensors=[
        build_new_files_sensor(orders, source=LANDED),
        build_file_debt_sensor(compaction, tables=[orders]),
    ],
    resources={
        "paimon": PaimonCatalogResource(
            warehouse=os.environ.get("PAIMON_WAREHOUSE", "warehouse"),
            executor=os.environ.get("PAIMON_EXECUTOR", "spark"),
        )
    },
)
