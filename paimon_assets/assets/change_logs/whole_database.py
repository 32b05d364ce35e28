"""The tables of a database that one log feeds: assets of their own, and one that follows the rest.

    log ─┬─ tables that are declared ─▶ an asset each
         └─ all others ─▶ `<database>/other_tables`: makes them, and reports each under its own key

Definitions load without the log: which tables it has is seen by the runs. Each table has its own
position, whichever asset follows it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Unpack

import dagster as dg
from pydantic import Field

from paimon_assets.assets.change_logs.change_images import OP
from paimon_assets.assets.change_logs.change_log import ChangeLog, ChangeLogConfig, invalid_choice
from paimon_assets.assets.change_logs.change_log_asset import FollowedTable, build_change_log_asset
from paimon_assets.assets.change_logs.change_log_run import ChangeLogRun
from paimon_assets.assets.change_logs.log_positions import LogHead
from paimon_assets.assets.failures import dagster_failures
from paimon_assets.assets.files.ingestion import ingest
from paimon_assets.assets.files.landing import Landing, compare_landing, source_name_of
from paimon_assets.assets.files.ledger import ledger_snapshot
from paimon_assets.assets.files.source_files import FileSource
from paimon_assets.assets.metadata import grid
from paimon_assets.assets.resource import ExecutorKind, PaimonCatalogResource
from paimon_assets.assets.tables.table_asset import AssetOptions
from paimon_assets.assets.translator import DEFAULT_RESOURCE_KEY, DEFAULT_TRANSLATOR
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.data.cdc.change_batch import SourceName, SourceTable
from paimon_assets.engine.data.cdc.formats import cdc_format, changes_of
from paimon_assets.engine.data.format.text_streams import open_text_stream
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.segments.text_options import TextOptions
from paimon_assets.engine.spec.types.data_types import DataType
from paimon_assets.engine.spec.words import shorten


@dataclass(frozen=True, kw_only=True)
class DatabaseLog:
    """The tables of a log, and what they are called."""

    database: str
    """The database of the tables."""
    tables: Mapping[str, Schema] = field(default_factory=dict)
    """Source table, such as `public.orders` → its declared table; each has an asset of its own."""
    logs: Mapping[str, ChangeLog] = field(default_factory=dict)
    """Source table → its choices, where they are not those of all."""
    including: Sequence[str] = ("*",)
    """Patterns of source tables with their schemas, such as `shop.public.*`; one must match."""
    excluding: Sequence[str] = ()
    """Patterns of which none may match."""
    prefix: str = ""
    suffix: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of tables that are not declared."""
    log: ChangeLog = field(default_factory=ChangeLog)
    """Choices of all tables; `source_table` is filled in."""

    def takes(self, source_table: str) -> bool:
        """Whether a source table, with its database, is followed without a declaration."""
        return (
            not any(_is_named(source_table, each) for each in self.tables)
            and any(fnmatchcase(source_table, pattern) for pattern in self.including)
            and not any(fnmatchcase(source_table, pattern) for pattern in self.excluding)
        )

    def identifier(self, source_table: str) -> Identifier:
        """Return the table that follows a source table."""
        name = source_table.rpartition(".")[2]
        return Identifier(self.database, f"{self.prefix}{name}{self.suffix}")

    def log_of(self, source_table: str) -> ChangeLog:
        """Return the choices of a source table."""
        logs = (log for each, log in self.logs.items() if _is_named(source_table, each))
        return replace(next(logs, self.log), source_table=source_table)


def _is_named(source_table: str, name: str) -> bool:
    return f".{source_table}".endswith(f".{name}")


class OtherTablesConfig(ChangeLogConfig):
    """The config of a run that follows the tables which have no asset of their own."""

    tables: list[str] = Field(
        default_factory=list,
        description="Only these, as the lake calls them, such as one that is loaded again; all if "
        "empty. One that is not there yet is looked for in all files.",
    )


def build_change_log_assets(
    database: DatabaseLog,
    *,
    source: FileSource,
    executor: ExecutorKind | None = None,
    warehouse: str | None = None,
    **options: Unpack[AssetOptions],
) -> list[dg.AssetsDefinition]:
    """Make assets of the tables of a database whose log lands in a folder.

    Declared tables have an asset each. All others are followed by the asset `other_tables`: it
    makes a table when the log first names it, and reports a materialization under the table's own
    key. Declare it later to give it an asset: that goes on where it is.

    Args:
        database: Which tables, and what they are called.
        source: The folder.
        executor: As for `build_change_log_asset`.
        warehouse: As for `build_change_log_asset`.
        **options: As for `build_change_log_asset`, of each asset; `schema_policy` is `widen` by
            default.

    Raises:
        InvalidInputError: As `build_change_log_asset`; two tables would have one name.
    """
    options.setdefault("schema_policy", "widen")
    names = [database.identifier(name) for name in database.tables]
    if len({*names}) < len(names):
        raise invalid_choice(f"Two of {shorten([*database.tables])} would be one table.")
    assets = [
        build_change_log_asset(
            database.identifier(name), schema, source=source, log=database.log_of(name),
            executor=executor, warehouse=warehouse, **options,
        )
        for name, schema in database.tables.items()
    ]  # fmt: skip
    resource_key = options.get("resource_key", DEFAULT_RESOURCE_KEY)

    @dg.asset(
        key=dg.AssetKey([database.database, "other_tables"]),
        group_name=database.database,
        required_resource_keys={resource_key},
        description="Follows the tables of a log that have no asset of their own.",
    )
    def other_tables(
        context: dg.AssetExecutionContext, config: OtherTablesConfig
    ) -> dg.MaterializeResult[Any]:
        paimon = getattr(context.resources, resource_key)
        others = _OtherTables(database, source, paimon, executor, options)
        with dagster_failures(Identifier(database.database, "other_tables"), context):
            return others.follow(context, config)

    return [*assets, other_tables]


@dataclass(frozen=True)
class _OtherTables:
    database: DatabaseLog
    source: FileSource
    paimon: PaimonCatalogResource
    executor: ExecutorKind | None
    options: AssetOptions

    def follow(
        self, context: dg.AssetExecutionContext, config: OtherTablesConfig
    ) -> dg.MaterializeResult[Any]:
        """Follow all; one that fails does not stop the others, but the run fails in the end."""
        known = dict(self._known())
        schemas = {name: schema for name, (schema, _) in known.items()}
        schemas |= self._new(config, [landing for _, landing in known.values()], {*known})
        lines: list[dict[str, Any]] = []
        failed = []
        for name, schema in sorted(schemas.items()):
            identifier = self.database.identifier(name)
            if config.tables and identifier.table not in config.tables:
                continue
            line = {"table": identifier.table, "source": name, "changes": 0, "note": ""}
            try:
                found = self._follow_one(context, config, name, schema)
                line["changes"] = int(found.get("paimon/changes_in", 0))
            except dg.Failure as failure:
                failed.append(identifier.table)
                line["note"] = str(failure.description)
            lines.append(line)
        shown = {"paimon/tables": grid(lines)} if lines else {}
        if failed:
            text = f"{shorten(failed)} could not be followed; the other tables were."
            if not {*failed} <= {self.database.identifier(name).table for name in known}:
                text += " Files that they have read are not searched for new tables again: follow "
                text += "those that failed by tables in the config."
            raise dg.Failure(text, metadata=shown)
        return dg.MaterializeResult(metadata=shown)

    def _follow_one(
        self,
        context: dg.AssetExecutionContext,
        config: OtherTablesConfig,
        name: str,
        schema: Schema,
    ) -> dict[str, Any]:
        log = self.database.log_of(name)
        target = FollowedTable.of(
            self.database.identifier(name), log.table_schema(schema), self.options,
            executor=self.executor,
        )  # fmt: skip
        key = self._key(name)
        result = ingest(
            context, self.paimon, config, target, source=self.source, key=key,
            make_run=partial(ChangeLogRun, log=log),
        )  # fmt: skip
        metadata = dict(result.metadata or {})
        context.log_event(dg.AssetMaterialization(asset_key=key, metadata=metadata))
        return metadata

    def _key(self, name: str) -> dg.AssetKey:
        translator = self.options.get("translator", DEFAULT_TRANSLATOR)
        return translator.get_asset_key(self.database.identifier(name))

    def _known(self) -> Iterator[tuple[str, tuple[Schema, Landing]]]:
        """Yield source tables that have a table which follows them, with its key columns."""
        catalog = self.paimon.catalog()
        try:
            names = catalog.list_tables(self.database.database)
        except NotFoundError:
            return
        for name in names:
            identifier = Identifier(self.database.database, name)
            table = catalog.get_table(identifier)
            translator = self.options.get("translator", DEFAULT_TRANSLATOR)
            key = translator.get_asset_key(identifier)
            if OP not in table.schema.by_name:
                continue
            if ledger_snapshot(table, source_name_of(key)) is None:
                continue
            landing = compare_landing(self.paimon, table, key, self.source)
            head = LogHead.of(landing.ledger.log)
            if head.source and self.database.takes(head.source):
                keys = {key: table.schema.by_name[key].type for key in table.schema.primary_keys}
                yield head.source, (self._schema(keys), landing)

    def _schema(self, keys: Mapping[str, DataType]) -> Schema:
        return Schema.of(dict(keys), primary_keys=[*keys], options=self.database.options)

    def _new(
        self, config: OtherTablesConfig, landings: Sequence[Landing], known: set[str]
    ) -> dict[str, Schema]:
        """Return the tables that the log names in files which no table has, with their keys.

        In all files, if one is asked for that is not there.
        """
        key = dg.AssetKey([self.database.database, "other_tables"])
        whole = compare_landing(self.paimon, None, key, self.source, folder=config.source)
        is_there = {*config.tables} <= {self.database.identifier(name).table for name in known}
        searched = landings if landings and is_there else [whole]
        files = {file.name for each in searched for file in each.pending.new}
        seen: dict[str, Schema] = {}

        def table_of(name: SourceName) -> SourceTable | None:
            full = ".".join(part for part in name if part)
            wanted = full not in known and full not in seen and self.database.takes(full)
            return SourceTable() if wanted else None

        options = replace(self.database.log.records, table_of=table_of)
        for name in sorted(files):
            path = f"{whole.folder}/{name}"
            with open_text_stream(whole.file_io, path, TextOptions()) as stream:
                for batch in changes_of(stream, path, cdc_format(self.source.format), options):
                    types = {column.name: column.type for column in batch.fields}
                    keys = {key: types[key] for key in batch.keys if key in types}
                    if not keys and len(batch):
                        raise invalid_choice(
                            f"The records of '{batch.name}' do not tell its key ('{path}'): let "
                            "the connector write keys, declare the table (tables), or leave it "
                            "out (excluding)."
                        )
                    if keys and batch.name not in seen:
                        seen[batch.name] = self._schema(keys)
        twins = [self.database.identifier(name) for name in (*known, *seen)]
        if len({*twins}) < len(twins):
            raise invalid_choice(
                f"Two of {shorten(sorted((*known, *seen)))} would be one table: leave one out "
                "(excluding), and let assets of its own follow it."
            )
        return seen
