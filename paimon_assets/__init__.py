"""paimon-assets: Apache Paimon tables as Dagster assets.

paimon_assets/assets/      the Dagster layer: the only library code that imports dagster
paimon_assets/cli/         the command line
paimon_assets/spark/       Spark as an Executor: the only code that imports pyspark
paimon_assets/engine/      the table engine; imports neither
jobs/ resources/           this deployment's choices (beside the package, not in it)

The names below, those of `paimon_assets.assets` and those of `paimon_assets.spark` are promised to
stay; modules deeper down are private by convention and may change. A name is loaded when it is
first used: importing costs nothing.
"""

from typing import TYPE_CHECKING

from paimon_assets.lazy_door import lazy_door

if TYPE_CHECKING:
    from paimon_assets.engine.contract.split import DataSplit as DataSplit
    from paimon_assets.engine.control.catalog.catalog import Identifier as Identifier
    from paimon_assets.engine.embedded import EmbeddedExecutor as EmbeddedExecutor
    from paimon_assets.engine.errors import (
        AccessDeniedError as AccessDeniedError,
        AlreadyExistsError as AlreadyExistsError,
        CommitConflictError as CommitConflictError,
        CommitUnknownError as CommitUnknownError,
        FormatError as FormatError,
        InvalidInputError as InvalidInputError,
        NotFoundError as NotFoundError,
        PaimonError as PaimonError,
        StorageError as StorageError,
        UnsupportedFeatureError as UnsupportedFeatureError,
    )
    from paimon_assets.engine.spec.evolution.schema_change import (
        OnOverflow as OnOverflow,
        SchemaChange as SchemaChange,
        add_column as add_column,
        drop_column as drop_column,
        move_column as move_column,
        remove_option as remove_option,
        rename_column as rename_column,
        set_option as set_option,
        update_column_comment as update_column_comment,
        update_column_default_value as update_column_default_value,
        update_column_nullability as update_column_nullability,
        update_column_type as update_column_type,
    )
    from paimon_assets.engine.spec.metadata.snapshot import Snapshot as Snapshot
    from paimon_assets.engine.spec.schema.schema import Schema as Schema
    from paimon_assets.engine.table.api import (
        TableCatalog as TableCatalog,
        open_catalog as open_catalog,
        open_table as open_table,
    )
    from paimon_assets.engine.table.read.read_builder import (
        Plan as Plan,
        ReadBuilder as ReadBuilder,
    )
    from paimon_assets.engine.table.segments.segment_import import SegmentSource as SegmentSource
    from paimon_assets.engine.table.table import Table as Table
    from paimon_assets.engine.table.write.write_builder import WriteBuilder as WriteBuilder
    from paimon_assets.engine.executors import new_executor as new_executor
    from paimon_assets.spark.executor import SparkExecutor as SparkExecutor

__version__ = "0.1.0"

__all__, __getattr__, __dir__ = lazy_door(
    __name__,
    {
        "engine.contract.split": "DataSplit",
        "engine.control.catalog.catalog": "Identifier",
        "engine.embedded": "EmbeddedExecutor",
        "engine.errors": "AccessDeniedError AlreadyExistsError CommitConflictError "
        "CommitUnknownError FormatError InvalidInputError NotFoundError PaimonError StorageError "
        "UnsupportedFeatureError",
        "engine.executors": "new_executor",
        "engine.spec.evolution.schema_change": "OnOverflow SchemaChange add_column drop_column "
        "move_column remove_option rename_column set_option update_column_comment "
        "update_column_default_value update_column_nullability update_column_type",
        "engine.spec.metadata.snapshot": "Snapshot",
        "engine.spec.schema.schema": "Schema",
        "engine.table.api": "TableCatalog open_catalog open_table",
        "engine.table.read.read_builder": "Plan ReadBuilder",
        "engine.table.segments.segment_import": "SegmentSource",
        "engine.table.table": "Table",
        "engine.table.write.write_builder": "WriteBuilder",
        "spark.executor": "SparkExecutor",
    },
)
