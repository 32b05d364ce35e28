"""A table as the asset of the log of a database: files of change records that land in a folder."""

from collections.abc import Callable
from functools import partial
from typing import Unpack

import dagster as dg

from paimon_assets.assets.failures import naming_arguments
from paimon_assets.assets.files.ingestion import FILES_HAVE_NOT, ingest
from paimon_assets.assets.files.source_files import FileSource
from paimon_assets.assets.files.sources import Opening
from paimon_assets.assets.resource import ExecutorKind, PaimonCatalogResource, table_or_none
from paimon_assets.assets.tables.declared_table import EnsuredTable, SchemaPolicy
from paimon_assets.assets.tables.table_asset import AssetOptions, TableTarget, define_intake
from paimon_assets.cdc.assets.change_files import ChangeFileIntake, ReadFile, read_changes
from paimon_assets.cdc.assets.change_log import ChangeLog, ChangeLogConfig, invalid_choice
from paimon_assets.cdc.assets.change_log_run import ChangeIntake, ChangeLogRun
from paimon_assets.cdc.assets.topic_source import KafkaSource, TopicLogConfig
from paimon_assets.cdc.fold.change_images import OP
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema


class FollowedTable(TableTarget):
    """The table of a change log; with the schema policy `sync` the log defines its columns.

    The declaration then only makes the table.
    """

    def ensure(self, paimon: PaimonCatalogResource, *, dry_run: bool = False) -> EnsuredTable:
        stored = None
        if self.schema_policy is SchemaPolicy.SYNC:
            stored = table_or_none(paimon, self.identifier)
        if stored is None:
            return super().ensure(paimon, dry_run=dry_run)
        declared, schema = first_table_schema(self.schema, time_millis=0), stored.schema
        if declared.primary_keys != schema.primary_keys or OP not in schema.by_name:
            raise invalid_choice(
                f"Table {self.identifier} is not one of this log: its primary key is "
                f"({', '.join(schema.primary_keys)}), or it has no column {OP}."
            )
        filled = stored.copy({opt.WRITE_FILL_MISSING.key: "true"})
        return EnsuredTable(table=filled, schema_before=schema.id)


def opener_of(
    source: FileSource | KafkaSource, read: ReadFile = read_changes
) -> Callable[[Opening], ChangeIntake]:
    """Return the function that opens the intake of a change log; `read` reads its files."""
    if isinstance(source, KafkaSource):
        return source.open
    return lambda opening: ChangeFileIntake.open(source, opening, read=read)


@naming_arguments
def build_change_log_asset(
    table: str | Identifier,
    schema: Schema,
    *,
    source: FileSource | KafkaSource,
    log: ChangeLog | None = None,
    executor: ExecutorKind | None = None,
    warehouse: str | None = None,
    **options: Unpack[AssetOptions],
) -> dg.AssetsDefinition:
    """Make a table the asset of a change log, in files that land in a folder, or in topics.

    >>> schema = Schema.of({"id": "BIGINT"}, primary_keys=["id"])
    >>> source = FileSource(folder="/landing/orders", format="debezium-json")
    >>> orders = build_change_log_asset("shop.orders", schema, source=source)

    Each run applies the files that the table does not hold yet, in the order of the log, as one
    snapshot; `ChangeLogConfig` bounds it. The table gets the columns `_op` and `_position`.

    Args:
        table: `database.table`.
        schema: The declared table, with the primary key of the source table. Columns that are not
            declared are added by `schema_policy` `add`, and types made wider by `widen`; `sync`
            follows drops, renames (`ChangeLog.renamed`) and other types, too.
        source: The folder or the topics; the format is one of `debezium-json`, `canal-json`,
            `maxwell-json`, …. Topics may also have rows in `json`: a later one of a key replaces
            it, and a record without a value deletes it.
        log: Choices; those of `ChangeLog()` by default.
        executor: `spark` or `embedded`, which reads stored rows and writes; the resource's choice
            by default. Files are read by the process of the run, topics by tasks of Spark.
        warehouse: Root of the warehouse, to show the table's address before the first run.
        **options: As for `build_file_ingestion_asset`.

    Raises:
        InvalidInputError: The format is none of a change log, or schema and options do not go with
            one (kind `cdc-option`).
    """
    log = log or ChangeLog()
    if isinstance(source, FileSource) and not source.is_change_log:
        raise invalid_choice(
            f"Files of format '{source.format}' are no change log; build_file_ingestion_asset "
            "takes them."
        )
    target = FollowedTable.of(
        table, log.table_schema(schema), options, executor=executor, warehouse=warehouse
    )
    return define_intake(
        target,
        options,
        partial(ingest, open_intake=opener_of(source), ingestion=partial(ChangeLogRun, log=log)),
        TopicLogConfig if isinstance(source, KafkaSource) else ChangeLogConfig,
        description=f"Changes of {source.title}, exactly once each.",
        refused=FILES_HAVE_NOT,
    )
