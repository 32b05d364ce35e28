"""The tables of this deployment, and the config of its jobs.

The one file to edit for tables of your own: every other module of `jobs/` takes its values from
here. Today they are the demo's.
"""

import dagster as dg

from jobs.demo import archive
from jobs.demo import tables as demo
from jobs.demo.schemas import NARROWING
from paimon_assets.assets import (
    CompactionConfig,
    MaintenanceConfig,
    SchemaEvolutionConfig,
    SegmentImportConfig,
)
from paimon_assets.assets.jobs.compaction import StrategyChoice

ASSETS = [*demo.assets, *archive.assets]
CHECKS = demo.checks

INGESTED = dg.AssetSelection.groups("landing", "demo")
"""Assets that the ingestion job materializes, in the order of their dependencies."""
INGESTION_CONFIG = demo.ingestion_config(demo.FlightChangesConfig())
"""Config that fills the Launchpad of the ingestion job."""
LANDED = demo.flights
"""The table whose files are watched."""
LANDED_FILES = demo.CHANGES

CHECKED = demo.flights
"""The table with a job of its own that runs its checks."""

COMPACTED: list[dg.AssetsDefinition] = [demo.flights, demo.weather, demo.planes, demo.daily_delays]
"""Without `flights_unpadded`: its lost rows depend on when deleted rows are dropped."""
COMPACTION_EXAMPLE = CompactionConfig(
    tables=["demo.flights"], strategy=StrategyChoice.full, dry_run=True
)

MAINTAINED = COMPACTED
MAINTENANCE_EXAMPLE = MaintenanceConfig(dry_run=True)

SCHEMA_CHANGE_EXAMPLE = SchemaEvolutionConfig(table="demo.flights", changes=NARROWING)

SEGMENTS = archive.archive_parquet
"""The table into which folders of files are taken."""
SEGMENT_SOURCE = archive.source_of("parquet")
SEGMENT_EXAMPLE = SegmentImportConfig(
    table=archive.TABLE,
    path=SEGMENT_SOURCE.path or "",
    partition=SEGMENT_SOURCE.partition or "",
    only_new=True,
    dry_run=True,
)
