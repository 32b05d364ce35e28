"""Paimon tables as Dagster assets: the only library code that imports Dagster.

Concept → files:
    which warehouse, which Spark        resource (PaimonCatalogResource, PaimonSparkResource)
    a function's frame as a table       table_asset (paimon_asset), declared_table, frames
    which rows a partition holds        partitions
    files that land, exactly once       ingestion (file_ingestion_asset), source_files, ledger
    a run when files have landed        sensor (new_files_sensor)
    what Dagster's pages show           metadata, row_count, translator
    checks                              checks (row_count_check, unique_key_check), unique_keys
    who wrote a snapshot                provenance
    what Dagster does after an error    failures

Names are loaded when they are first used; none of them loads pyspark.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paimon_assets.assets.checks import CheckOptions, row_count_check, unique_key_check
    from paimon_assets.assets.ingestion import IngestConfig, file_ingestion_asset
    from paimon_assets.assets.resource import (
        ExecutorKind,
        PaimonCatalogResource,
        PaimonSparkResource,
    )
    from paimon_assets.assets.sensor import new_files_sensor
    from paimon_assets.assets.source_files import FileSource
    from paimon_assets.assets.table_asset import paimon_asset
    from paimon_assets.assets.translator import asset_key_of, pool_of

__all__ = [
    "CheckOptions",
    "ExecutorKind",
    "FileSource",
    "IngestConfig",
    "PaimonCatalogResource",
    "PaimonSparkResource",
    "asset_key_of",
    "file_ingestion_asset",
    "new_files_sensor",
    "paimon_asset",
    "pool_of",
    "row_count_check",
    "unique_key_check",
]

_HOMES = {
    "CheckOptions": "checks",
    "row_count_check": "checks",
    "unique_key_check": "checks",
    "IngestConfig": "ingestion",
    "file_ingestion_asset": "ingestion",
    "ExecutorKind": "resource",
    "PaimonCatalogResource": "resource",
    "PaimonSparkResource": "resource",
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
