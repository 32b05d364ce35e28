"""Paimon tables as Dagster assets: the only library code that imports Dagster.

Concept → files:
    which warehouse, which Spark        resource (PaimonCatalogResource, PaimonSparkResource)
    a function's frame as a table       table_asset (paimon_asset), declared_table, frames
    what assets return and take         io_manager (PaimonIOManager), io_metadata, consumption
    how rows meet rows, commits once    table_write (WriteMode)
    which rows a partition holds        partitions
    files that land, exactly once       ingestion (file_ingestion_asset), source_files, ledger
    what assets that files feed share   intake
    a run when files have landed        sensor (new_files_sensor)
    what Dagster's pages show           metadata, row_count, translator
    checks                              checks, unique_keys, table_checks, schema_checks
    who wrote a snapshot                provenance
    files merged, and when that is due  compaction (job), file_debt (sensor), table_picture
    what expires, and files nobody needs maintenance (job)
    changes of schema, and their checks  schema_evolution (job), schema_checks, schema_report
    a batch judged before it counts     audit (BatchCheck), audited_frame, pandera_checks
    tables that others write            external_tables, table_sensor, tables_component
    when what lies downstream is due    automation (on_new_data)
    what Dagster does after an error    failures

Names are loaded when they are first used; none of them loads pyspark.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paimon_assets.assets.audit import Batch, BatchCheck, Verdict
    from paimon_assets.assets.audited_frame import audited_asset
    from paimon_assets.assets.automation import on_new_data
    from paimon_assets.assets.checks import CheckOptions, row_count_check, unique_key_check
    from paimon_assets.assets.compaction import CompactionConfig, compaction_job
    from paimon_assets.assets.external_tables import (
        describe_tables,
        external_table_specs,
        observable_tables,
    )
    from paimon_assets.assets.file_debt import FileDebt, file_debt_sensor
    from paimon_assets.assets.ingestion import IngestConfig, file_ingestion_asset
    from paimon_assets.assets.io_manager import PaimonIOManager
    from paimon_assets.assets.io_metadata import paimon_input, paimon_output
    from paimon_assets.assets.maintenance import MaintenanceConfig, maintenance_job
    from paimon_assets.assets.metadata import data_version_of
    from paimon_assets.assets.pandera_checks import build_pandera_checks
    from paimon_assets.assets.resource import (
        ExecutorKind,
        PaimonCatalogResource,
        PaimonSparkResource,
    )
    from paimon_assets.assets.schema_checks import (
        overflow_check,
        schema_check,
        source_overflow_check,
    )
    from paimon_assets.assets.schema_evolution import SchemaEvolutionConfig, schema_evolution_job
    from paimon_assets.assets.segment_import import (
        SegmentImportConfig,
        new_segments_sensor,
        segment_asset,
        segment_import_job,
    )
    from paimon_assets.assets.sensor import new_files_sensor
    from paimon_assets.assets.source_files import FileSource
    from paimon_assets.assets.table_asset import paimon_asset
    from paimon_assets.assets.table_checks import freshness_check, sequence_check, small_files_check
    from paimon_assets.assets.table_sensor import new_snapshots_sensor
    from paimon_assets.assets.tables_component import PaimonTablesComponent
    from paimon_assets.assets.translator import asset_key_of, pool_of

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
    "SchemaEvolutionConfig",
    "SegmentImportConfig",
    "Verdict",
    "asset_key_of",
    "audited_asset",
    "build_pandera_checks",
    "compaction_job",
    "data_version_of",
    "describe_tables",
    "external_table_specs",
    "file_debt_sensor",
    "file_ingestion_asset",
    "freshness_check",
    "maintenance_job",
    "new_files_sensor",
    "new_segments_sensor",
    "new_snapshots_sensor",
    "observable_tables",
    "on_new_data",
    "overflow_check",
    "paimon_asset",
    "paimon_input",
    "paimon_output",
    "pool_of",
    "row_count_check",
    "schema_check",
    "schema_evolution_job",
    "segment_asset",
    "segment_import_job",
    "sequence_check",
    "small_files_check",
    "source_overflow_check",
    "unique_key_check",
]

_HOMES = {
    "on_new_data": "automation",
    "sequence_check": "table_checks",
    "small_files_check": "table_checks",
    "freshness_check": "table_checks",
    "observable_tables": "external_tables",
    "external_table_specs": "external_tables",
    "describe_tables": "external_tables",
    "PaimonTablesComponent": "tables_component",
    "new_snapshots_sensor": "table_sensor",
    "Batch": "audit",
    "BatchCheck": "audit",
    "Verdict": "audit",
    "audited_asset": "audited_frame",
    "build_pandera_checks": "pandera_checks",
    "CheckOptions": "checks",
    "row_count_check": "checks",
    "unique_key_check": "checks",
    "PaimonIOManager": "io_manager",
    "paimon_input": "io_metadata",
    "paimon_output": "io_metadata",
    "CompactionConfig": "compaction",
    "compaction_job": "compaction",
    "FileDebt": "file_debt",
    "file_debt_sensor": "file_debt",
    "MaintenanceConfig": "maintenance",
    "maintenance_job": "maintenance",
    "data_version_of": "metadata",
    "IngestConfig": "ingestion",
    "file_ingestion_asset": "ingestion",
    "ExecutorKind": "resource",
    "PaimonCatalogResource": "resource",
    "PaimonSparkResource": "resource",
    "SegmentImportConfig": "segment_import",
    "new_segments_sensor": "segment_import",
    "segment_asset": "segment_import",
    "segment_import_job": "segment_import",
    "SchemaEvolutionConfig": "schema_evolution",
    "schema_evolution_job": "schema_evolution",
    "schema_check": "schema_checks",
    "overflow_check": "schema_checks",
    "source_overflow_check": "schema_checks",
    "new_files_sensor": "sensor",
    "FileSource": "source_files",
    "paimon_asset": "table_asset",
    "asset_key_of": "translator",
    "pool_of": "translator",
}


def __getattr__(name: str) -> Any:
    """Load a public name from its module (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
