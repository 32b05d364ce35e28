"""Paimon tables as Dagster assets: the core's only code that imports Dagster.

    tables/       a function's frame as a table, the IO manager, audits, write modes, lineage
    files/        files that land, exactly once; folders of external files as segments
    jobs/         compaction, maintenance, schema evolution, and sensors of due work
    external_tables  tables and views of other writers
    snapshot_sensor, partition_key_sensor   sensors on such tables
    schedules     ingestion, compaction and maintenance by the clock; automation on new data
    sensors       parts that all sensors share
    resource      which warehouse, which Spark
    translator    tables ⇄ asset keys, groups, pools
    partitions    which rows a partition holds
    provenance    the run that wrote a snapshot; commit users of retries
    metadata      Dagster's metadata of a snapshot, a row count, a change of schema
    row_checks, table_checks, pandera_checks   asset checks of rows, files and schemas
    check_run     parts that all checks share
    failures      Dagster's reaction to an error; unknown option names

Names are loaded when they are first used; none of them loads pyspark.
"""

from typing import TYPE_CHECKING

from paimon_assets.lazy_door import lazy_door

if TYPE_CHECKING:
    from paimon_assets.assets.check_run import CheckOptions as CheckOptions
    from paimon_assets.assets.pandera_checks import build_pandera_checks as build_pandera_checks
    from paimon_assets.assets.row_checks import (
        build_row_count_anomaly_check as build_row_count_anomaly_check,
        build_row_count_check as build_row_count_check,
        build_sequence_check as build_sequence_check,
        build_unique_key_check as build_unique_key_check,
    )
    from paimon_assets.assets.table_checks import (
        build_freshness_check as build_freshness_check,
        build_overflow_check as build_overflow_check,
        build_quarantine_check as build_quarantine_check,
        build_schema_check as build_schema_check,
        build_small_files_check as build_small_files_check,
        build_source_overflow_check as build_source_overflow_check,
    )
    from paimon_assets.assets.external_tables import (
        build_external_table_specs as build_external_table_specs,
        build_observable_tables as build_observable_tables,
        describe_tables as describe_tables,
    )
    from paimon_assets.assets.snapshot_sensor import (
        build_new_snapshots_sensor as build_new_snapshots_sensor,
    )
    from paimon_assets.assets.partition_key_sensor import (
        build_partition_keys_sensor as build_partition_keys_sensor,
    )
    from paimon_assets.assets.files.ingestion import (
        build_file_ingestion_asset as build_file_ingestion_asset,
        build_new_files_sensor as build_new_files_sensor,
    )
    from paimon_assets.assets.files.source_files import IngestConfig as IngestConfig
    from paimon_assets.assets.files.segment_import import (
        SegmentImportConfig as SegmentImportConfig,
        build_new_segments_sensor as build_new_segments_sensor,
        build_segment_asset as build_segment_asset,
        build_segment_import_job as build_segment_import_job,
    )
    from paimon_assets.assets.files.source_files import FileSource as FileSource
    from paimon_assets.assets.jobs.compaction import (
        CompactionConfig as CompactionConfig,
        build_compaction_job as build_compaction_job,
    )
    from paimon_assets.assets.jobs.compaction_backlog import (
        build_file_debt_sensor as build_file_debt_sensor,
    )
    from paimon_assets.assets.jobs.maintenance import (
        MaintenanceConfig as MaintenanceConfig,
        build_maintenance_job as build_maintenance_job,
    )
    from paimon_assets.assets.jobs.schema_evolution import (
        SchemaEvolutionConfig as SchemaEvolutionConfig,
        build_schema_evolution_job as build_schema_evolution_job,
    )
    from paimon_assets.assets.jobs.table_health import (
        build_table_health_asset as build_table_health_asset,
    )
    from paimon_assets.assets.metadata import data_version_of as data_version_of
    from paimon_assets.assets.resource import (
        ExecutorKind as ExecutorKind,
        PaimonCatalogResource as PaimonCatalogResource,
        PaimonSparkResource as PaimonSparkResource,
    )
    from paimon_assets.assets.schedules import (
        build_compaction_schedule as build_compaction_schedule,
        build_ingestion_schedule as build_ingestion_schedule,
        build_maintenance_schedule as build_maintenance_schedule,
        on_new_data as on_new_data,
    )
    from paimon_assets.assets.tables.audit import (
        Batch as Batch,
        BatchCheck as BatchCheck,
        Verdict as Verdict,
        audited_asset as audited_asset,
    )
    from paimon_assets.assets.tables.io_manager import (
        PaimonIOManager as PaimonIOManager,
        as_table_assets as as_table_assets,
    )
    from paimon_assets.assets.tables.io_metadata import (
        paimon_input as paimon_input,
        paimon_output as paimon_output,
    )
    from paimon_assets.assets.tables.table_asset import paimon_asset as paimon_asset
    from paimon_assets.assets.tables.table_write import (
        WriteConfig as WriteConfig,
        WriteMode as WriteMode,
        WriteModeChoice as WriteModeChoice,
    )
    from paimon_assets.engine.table.system.table_health import (
        FileDebt as FileDebt,
        HealthLimits as HealthLimits,
    )
    from paimon_assets.assets.translator import (
        PaimonTranslator as PaimonTranslator,
        asset_key_of as asset_key_of,
        pool_of as pool_of,
        refuse_shared_tables as refuse_shared_tables,
    )

__all__, __getattr__, __dir__ = lazy_door(
    __name__,
    {
        "assets.check_run": "CheckOptions",
        "assets.external_tables": "build_external_table_specs build_observable_tables "
        "describe_tables",
        "assets.files.ingestion": "build_file_ingestion_asset build_new_files_sensor",
        "assets.files.segment_import": "SegmentImportConfig build_new_segments_sensor "
        "build_segment_asset build_segment_import_job",
        "assets.files.source_files": "FileSource IngestConfig",
        "assets.jobs.compaction": "CompactionConfig build_compaction_job",
        "assets.jobs.compaction_backlog": "build_file_debt_sensor",
        "assets.jobs.maintenance": "MaintenanceConfig build_maintenance_job",
        "assets.jobs.schema_evolution": "SchemaEvolutionConfig build_schema_evolution_job",
        "assets.jobs.table_health": "build_table_health_asset",
        "assets.metadata": "data_version_of",
        "assets.pandera_checks": "build_pandera_checks",
        "assets.partition_key_sensor": "build_partition_keys_sensor",
        "assets.resource": "ExecutorKind PaimonCatalogResource PaimonSparkResource",
        "assets.row_checks": "build_row_count_anomaly_check build_row_count_check "
        "build_sequence_check build_unique_key_check",
        "assets.schedules": "build_compaction_schedule build_ingestion_schedule "
        "build_maintenance_schedule on_new_data",
        "assets.snapshot_sensor": "build_new_snapshots_sensor",
        "assets.table_checks": "build_freshness_check build_overflow_check "
        "build_quarantine_check build_schema_check build_small_files_check "
        "build_source_overflow_check",
        "assets.tables.audit": "Batch BatchCheck Verdict audited_asset",
        "assets.tables.io_manager": "PaimonIOManager as_table_assets",
        "assets.tables.io_metadata": "paimon_input paimon_output",
        "assets.tables.table_asset": "paimon_asset",
        "assets.tables.table_write": "WriteConfig WriteMode WriteModeChoice",
        "assets.translator": "PaimonTranslator asset_key_of pool_of refuse_shared_tables",
        "engine.table.system.table_health": "FileDebt HealthLimits",
    },
)
