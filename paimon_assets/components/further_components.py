"""Components of health, schema changes, segments, columns and dynamic partitions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

import dagster as dg

from paimon_assets.assets.files.segment_import import (
    build_new_segments_sensor,
    build_segment_asset,
    build_segment_import_job,
)
from paimon_assets.assets.jobs.schema_evolution import build_schema_evolution_job
from paimon_assets.assets.jobs.table_health import build_table_health_asset
from paimon_assets.assets.partition_key_sensor import build_partition_keys_sensor
from paimon_assets.assets.tables.table_asset import AssetOptions
from paimon_assets.columns.asset import column_asset
from paimon_assets.components.built_components import component_of
from paimon_assets.components.catalog_components import HERE, NAME
from paimon_assets.sql.operation_job import build_operation_job

PaimonHealthComponent = component_of(
    __name__,
    "PaimonHealthComponent",
    build_table_health_asset,
    {"key": [NAME], "schedule": "0 6 * * *"},
)
PaimonSchemaEvolutionComponent = component_of(
    __name__, "PaimonSchemaEvolutionComponent", build_schema_evolution_job, {"name": NAME}
)
PaimonSegmentsComponent = component_of(
    __name__,
    "PaimonSegmentsComponent",
    build_segment_asset,
    {
        "table": f"shop.{NAME}",
        "columns": {"id": "BIGINT", "amount": "DOUBLE"},
        "source": {"path": f"{HERE}/files", "format": "csv"},
    },
    files={"files/first.csv": "id,amount\n1,9.9\n2,20.0\n"},
    sensor_of=build_new_segments_sensor,
)
PaimonSegmentImportComponent = component_of(
    __name__, "PaimonSegmentImportComponent", build_segment_import_job, {"name": NAME}
)
PaimonOperationComponent = component_of(
    __name__,
    "PaimonOperationComponent",
    build_operation_job,
    {"operation": "promote", "name": NAME},
)
PaimonPartitionKeysComponent = component_of(
    __name__,
    "PaimonPartitionKeysComponent",
    build_partition_keys_sensor,
    {"table": "shop.orders", "column": "day", "partitions_def": NAME},
)


def _build_columns(
    table: str,
    columns: Mapping[str, str],
    *,
    reads: Sequence[str],
    function: Callable[..., Any],
    partition_column: str | None = None,
    rows_at_once: int | None = None,
    **options: Unpack[AssetOptions],
) -> dg.AssetsDefinition:
    """Make columns of a data-evolution table the asset of a function that computes them.

    Args:
        table: database.table; an append table with row-tracking.enabled and data-evolution.enabled.
        columns: Name: type of the computed columns.
        reads: Columns from which they are computed.
        function: From rows to the columns: '.module.name' beside this file, or
            'package.module.name'.
        partition_column: Column that holds the partition of a partitioned asset.
        rows_at_once: About how many rows the function gets; at least those of one file.
        **options: As for `dg.asset`.
    """
    decorate = column_asset(
        table, columns, reads=reads, partition_column=partition_column, rows_at_once=rows_at_once,
        **options,
    )  # fmt: skip
    return decorate(function)


PaimonColumnsComponent = component_of(
    __name__,
    "PaimonColumnsComponent",
    _build_columns,
    {
        "table": f"shop.{NAME}",
        "columns": {f"{NAME}_doubled": "DOUBLE"},
        "reads": ["amount"],
        "function": f".columns.{NAME}",
        "checks": [{"type": "rows_behind"}],
    },
    files={
        "columns.py": f'''"""Rows of the table, and columns made of them."""

import pyarrow as pa
import pyarrow.compute as pc


def rows() -> pa.Table:
    """Return the rows of a run, which are appended."""
    return pa.table({{"id": [1, 2], "amount": [9.9, 20.0]}})


def {NAME}(rows: pa.Table) -> pa.Table:
    """Return the columns, a row for each."""
    return pa.table({{"{NAME}_doubled": pc.multiply(rows["amount"], 2)}})
'''
    },
    table=f"""type: paimon_assets.components.PaimonAssetComponent

attributes:
  table: shop.{NAME}
  columns:
    id: BIGINT
    amount: DOUBLE
  options:
    row-tracking.enabled: "true"
    data-evolution.enabled: "true"
  rows: .columns.rows
  schema_policy: add

""",
)
