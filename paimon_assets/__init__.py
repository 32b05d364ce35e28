"""paimon-assets: Apache Paimon tables as Dagster assets.

paimon_assets/assets/      the Dagster layer: the only library code that imports dagster
paimon_assets/cli/         the command line
paimon_assets/spark/       Spark as an Executor: the only code that imports pyspark
paimon_assets/engine/      the table engine; imports neither
jobs/ resources/           this deployment's choices (beside the package, not in it)

The names below are what the engine promises to keep; `paimon_assets.assets` has those of Dagster.
Modules deeper down may change. A name is loaded when it is first used: importing costs nothing.
"""

from typing import TYPE_CHECKING

from paimon_assets.lazy_door import lazy_door

if TYPE_CHECKING:
    from paimon_assets.engine.control.catalog.catalog import Identifier as Identifier
    from paimon_assets.engine.embedded import EmbeddedExecutor as EmbeddedExecutor
    from paimon_assets.engine.errors import PaimonError as PaimonError
    from paimon_assets.engine.spec.schema.schema import Schema as Schema
    from paimon_assets.engine.table.api import (
        TableCatalog as TableCatalog,
        open_catalog as open_catalog,
        open_table as open_table,
    )
    from paimon_assets.engine.table.segments.segment_import import SegmentSource as SegmentSource
    from paimon_assets.engine.table.table import Table as Table
    from paimon_assets.spark.executor import SparkExecutor as SparkExecutor

__version__ = "0.1.0"

__all__, __getattr__ = lazy_door(
    __name__,
    {
        "engine.control.catalog.catalog": ["Identifier"],
        "engine.embedded": ["EmbeddedExecutor"],
        "engine.errors": ["PaimonError"],
        "engine.spec.schema.schema": ["Schema"],
        "engine.table.api": ["TableCatalog", "open_catalog", "open_table"],
        "engine.table.segments.segment_import": ["SegmentSource"],
        "engine.table.table": ["Table"],
        "spark.executor": ["SparkExecutor"],
    },
)
