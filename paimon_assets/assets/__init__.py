"""Paimon tables as Dagster assets: the only library code that imports Dagster.

Names are loaded when they are first used; none of them loads pyspark.

Concept → modules:
    a function's frame as a table, IO manager, checks before the commit    tables/
    files that land, exactly once; external folders as segments            files/
    compaction, maintenance, schema evolution, compaction backlog          jobs/
    asset checks                                                           checks/, check_run
    tables that others write                                               external/
    all of it in YAML                                                      components/, yaml_values
    when jobs run                                                          schedules, run_requests
    catalog and Spark session as resources                                 resource
    tables ⇄ asset keys, groups, pools                                     translator
    which rows a partition holds                                           partitions,
                                                                           partition_rows
    metadata and data version that Dagster shows                           metadata
    which run wrote a snapshot; resumed runs                               provenance
    what Dagster does after an error                                       failures
    misspelt options                                                       option_names
"""

from typing import TYPE_CHECKING

from paimon_assets.lazy_door import lazy_door

if TYPE_CHECKING:
    from paimon_assets.assets.check_run import CheckOptions as CheckOptions
    from paimon_assets.assets.checks.pandera_checks import (
        build_pandera_checks as build_pandera_checks,
    )
    from paimon_assets.assets.checks.row_checks import (
        build_row_count_anomaly_check as build_row_count_anomaly_check,
        build_row_count_check as build_row_count_check,
        build_unique_key_check as build_unique_key_check,
    )
    from paimon_assets.assets.checks.schema_checks import (
        build_overflow_check as build_overflow_check,
        build_schema_check as build_schema_check,
        build_source_overflow_check as build_source_overflow_check,
    )
    from paimon_assets.assets.checks.table_checks import (
        build_freshness_check as build_freshness_check,
        build_quarantine_check as build_quarantine_check,
        build_sequence_check as build_sequence_check,
        build_small_files_check as build_small_files_check,
    )
    from paimon_assets.assets.external.external_tables import (
        build_external_table_specs as build_external_table_specs,
        build_observable_tables as build_observable_tables,
        describe_tables as describe_tables,
    )
    from paimon_assets.assets.external.external_views import (
        build_external_view_specs as build_external_view_specs,
        describe_views as describe_views,
    )
    from paimon_assets.assets.external.partition_sensor import (
        build_partition_keys_sensor as build_partition_keys_sensor,
    )
    from paimon_assets.assets.external.table_sensor import (
        build_new_snapshots_sensor as build_new_snapshots_sensor,
    )
    from paimon_assets.assets.external.tables_component import (
        PaimonTablesComponent as PaimonTablesComponent,
    )
    from paimon_assets.assets.files.ingestion import (
        IngestConfig as IngestConfig,
        build_file_ingestion_asset as build_file_ingestion_asset,
    )
    from paimon_assets.assets.files.segment_import import (
        SegmentImportConfig as SegmentImportConfig,
        build_new_segments_sensor as build_new_segments_sensor,
        build_segment_asset as build_segment_asset,
        build_segment_import_job as build_segment_import_job,
    )
    from paimon_assets.assets.files.sensor import build_new_files_sensor as build_new_files_sensor
    from paimon_assets.assets.files.source_files import FileSource as FileSource
    from paimon_assets.assets.jobs.compaction import (
        CompactionConfig as CompactionConfig,
        build_compaction_job as build_compaction_job,
    )
    from paimon_assets.assets.jobs.file_debt import (
        FileDebt as FileDebt,
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
    )
    from paimon_assets.assets.tables.audit import (
        Batch as Batch,
        BatchCheck as BatchCheck,
        Verdict as Verdict,
    )
    from paimon_assets.assets.tables.audited_frame import audited_asset as audited_asset
    from paimon_assets.assets.tables.automation import on_new_data as on_new_data
    from paimon_assets.assets.tables.io_manager import PaimonIOManager as PaimonIOManager
    from paimon_assets.assets.tables.io_metadata import (
        paimon_input as paimon_input,
        paimon_output as paimon_output,
    )
    from paimon_assets.assets.tables.pipes_client import PaimonPipesClient as PaimonPipesClient
    from paimon_assets.assets.tables.sql_lineage import columns_of_sql as columns_of_sql
    from paimon_assets.assets.tables.stored_assets import as_table_assets as as_table_assets
    from paimon_assets.assets.tables.table_asset import paimon_asset as paimon_asset
    from paimon_assets.assets.tables.table_write import (
        WriteConfig as WriteConfig,
        WriteMode as WriteMode,
        WriteModeChoice as WriteModeChoice,
    )
    from paimon_assets.assets.translator import (
        PaimonTranslator as PaimonTranslator,
        asset_key_of as asset_key_of,
        pool_of as pool_of,
    )

__all__, __getattr__, __dir__ = lazy_door(__name__)
