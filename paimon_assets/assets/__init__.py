"""Paimon tables as Dagster assets: the only library code that imports Dagster.

    tables/      a function's frame as a table, the IO manager, audits, write modes
    files/       files that land, exactly once; folders of others as segments; their sensors
    jobs/        compaction, maintenance, schema evolution, and what makes them due
    checks/      asset checks: rows, keys, files, schemas, pandera
    external/    tables that others write
    resource     which warehouse, which Spark
    translator   tables ⇄ asset keys, groups, pools
    frames       pyarrow, pandas, polars and Spark frames ⇄ rows: the only place that knows them
    partitions   which rows a partition holds
    metadata     what Dagster's pages show of a snapshot; row_count, provenance
    check_run    what all checks share
    failures     what Dagster does after an error

Names are loaded when they are first used; none of them loads pyspark.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paimon_assets.assets.check_run import CheckOptions
    from paimon_assets.assets.checks.pandera_checks import build_pandera_checks
    from paimon_assets.assets.checks.row_checks import build_row_count_check, build_unique_key_check
    from paimon_assets.assets.checks.schema_checks import (
        build_overflow_check,
        build_schema_check,
        build_source_overflow_check,
    )
    from paimon_assets.assets.checks.table_checks import (
        build_freshness_check,
        build_sequence_check,
        build_small_files_check,
    )
    from paimon_assets.assets.external.external_tables import (
        build_external_table_specs,
        build_observable_tables,
        describe_tables,
    )
    from paimon_assets.assets.external.table_sensor import build_new_snapshots_sensor
    from paimon_assets.assets.external.tables_component import PaimonTablesComponent
    from paimon_assets.assets.files.ingestion import IngestConfig, build_file_ingestion_asset
    from paimon_assets.assets.files.segment_import import (
        SegmentImportConfig,
        build_new_segments_sensor,
        build_segment_asset,
        build_segment_import_job,
    )
    from paimon_assets.assets.files.sensor import build_new_files_sensor
    from paimon_assets.assets.files.source_files import FileSource
    from paimon_assets.assets.jobs.compaction import CompactionConfig, build_compaction_job
    from paimon_assets.assets.jobs.file_debt import FileDebt, build_file_debt_sensor
    from paimon_assets.assets.jobs.maintenance import MaintenanceConfig, build_maintenance_job
    from paimon_assets.assets.jobs.schema_evolution import (
        SchemaEvolutionConfig,
        build_schema_evolution_job,
    )
    from paimon_assets.assets.metadata import data_version_of
    from paimon_assets.assets.resource import (
        ExecutorKind,
        PaimonCatalogResource,
        PaimonSparkResource,
    )
    from paimon_assets.assets.tables.audit import Batch, BatchCheck, Verdict
    from paimon_assets.assets.tables.audited_frame import audited_asset
    from paimon_assets.assets.tables.automation import on_new_data
    from paimon_assets.assets.tables.io_manager import PaimonIOManager
    from paimon_assets.assets.tables.io_metadata import paimon_input, paimon_output
    from paimon_assets.assets.tables.table_asset import paimon_asset
    from paimon_assets.assets.translator import PaimonTranslator, asset_key_of, pool_of

__all__ = [
    "Batch",
    "BatchCheck",
    "CheckOptions",
    "CompactionConfig",
    "ExecutorKind",
    "FileDebt",
    "FileSource",
    "IngestConfig",
    "MaintenanceConfig",
    "PaimonCatalogResource",
    "PaimonIOManager",
    "PaimonSparkResource",
    "PaimonTablesComponent",
    "PaimonTranslator",
    "SchemaEvolutionConfig",
    "SegmentImportConfig",
    "Verdict",
    "asset_key_of",
    "audited_asset",
    "build_compaction_job",
    "build_external_table_specs",
    "build_file_debt_sensor",
    "build_file_ingestion_asset",
    "build_freshness_check",
    "build_maintenance_job",
    "build_new_files_sensor",
    "build_new_segments_sensor",
    "build_new_snapshots_sensor",
    "build_observable_tables",
    "build_overflow_check",
    "build_pandera_checks",
    "build_row_count_check",
    "build_schema_check",
    "build_schema_evolution_job",
    "build_segment_asset",
    "build_segment_import_job",
    "build_sequence_check",
    "build_small_files_check",
    "build_source_overflow_check",
    "build_unique_key_check",
    "data_version_of",
    "describe_tables",
    "on_new_data",
    "paimon_asset",
    "paimon_input",
    "paimon_output",
    "pool_of",
]

_HOMES = {
    "on_new_data": "tables.automation",
    "build_sequence_check": "checks.table_checks",
    "build_small_files_check": "checks.table_checks",
    "build_freshness_check": "checks.table_checks",
    "build_observable_tables": "external.external_tables",
    "build_external_table_specs": "external.external_tables",
    "describe_tables": "external.external_tables",
    "PaimonTablesComponent": "external.tables_component",
    "build_new_snapshots_sensor": "external.table_sensor",
    "Batch": "tables.audit",
    "BatchCheck": "tables.audit",
    "Verdict": "tables.audit",
    "audited_asset": "tables.audited_frame",
    "build_pandera_checks": "checks.pandera_checks",
    "CheckOptions": "check_run",
    "build_row_count_check": "checks.row_checks",
    "build_unique_key_check": "checks.row_checks",
    "PaimonIOManager": "tables.io_manager",
    "paimon_input": "tables.io_metadata",
    "paimon_output": "tables.io_metadata",
    "CompactionConfig": "jobs.compaction",
    "build_compaction_job": "jobs.compaction",
    "FileDebt": "jobs.file_debt",
    "build_file_debt_sensor": "jobs.file_debt",
    "MaintenanceConfig": "jobs.maintenance",
    "build_maintenance_job": "jobs.maintenance",
    "data_version_of": "metadata",
    "IngestConfig": "files.ingestion",
    "build_file_ingestion_asset": "files.ingestion",
    "ExecutorKind": "resource",
    "PaimonCatalogResource": "resource",
    "PaimonSparkResource": "resource",
    "SegmentImportConfig": "files.segment_import",
    "build_new_segments_sensor": "files.segment_import",
    "build_segment_asset": "files.segment_import",
    "build_segment_import_job": "files.segment_import",
    "SchemaEvolutionConfig": "jobs.schema_evolution",
    "build_schema_evolution_job": "jobs.schema_evolution",
    "build_schema_check": "checks.schema_checks",
    "build_overflow_check": "checks.schema_checks",
    "build_source_overflow_check": "checks.schema_checks",
    "build_new_files_sensor": "files.sensor",
    "FileSource": "files.source_files",
    "paimon_asset": "tables.table_asset",
    "PaimonTranslator": "translator",
    "asset_key_of": "translator",
    "pool_of": "translator",
}


def __getattr__(name: str) -> Any:
    """Load a public name from its module (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
