"""paimon-assets: Apache Paimon tables as Dagster assets.

paimon_assets/assets/      the Dagster layer: the only library code that imports dagster
paimon_assets/cli/         the command line
paimon_assets/spark/       Spark as an Executor: the only code that imports pyspark
paimon_assets/engine/      the table engine; imports neither
jobs/ resources/           this deployment's choices (beside the package, not in it)

The names below are what the engine promises to keep; `paimon_assets.assets` has those of Dagster.
Modules deeper down may change. A name is loaded when it is first used: importing costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paimon_assets.engine.control.catalog.catalog import Identifier
    from paimon_assets.engine.embedded import EmbeddedExecutor
    from paimon_assets.engine.errors import PaimonError
    from paimon_assets.engine.spec.schema.schema import Schema
    from paimon_assets.engine.table.api import TableCatalog, open_catalog, open_table
    from paimon_assets.engine.table.segments.segment_import import SegmentSource
    from paimon_assets.engine.table.table import Table
    from paimon_assets.spark.executor import SparkExecutor

__version__ = "0.1.0"

_HOMES = {
    "EmbeddedExecutor": "engine.embedded",
    "Identifier": "engine.control.catalog.catalog",
    "PaimonError": "engine.errors",
    "Schema": "engine.spec.schema.schema",
    "SegmentSource": "engine.table.segments.segment_import",
    "SparkExecutor": "spark.executor",
    "Table": "engine.table.table",
    "TableCatalog": "engine.table.api",
    "open_catalog": "engine.table.api",
    "open_table": "engine.table.api",
}
__all__ = [
    "EmbeddedExecutor",
    "Identifier",
    "PaimonError",
    "Schema",
    "SegmentSource",
    "SparkExecutor",
    "Table",
    "TableCatalog",
    "open_catalog",
    "open_table",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its module (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
