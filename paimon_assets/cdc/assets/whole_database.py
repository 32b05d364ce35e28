"""The tables of a database that one log feeds: assets of their own, and one that follows the rest.

    log ─┬─ tables that are declared ─▶ an asset each
         └─ all the rest ─▶ `<database>/other_tables`: makes them, and reports each by its key

Definitions load without the log: which tables it has is seen by the runs. Each table has its own
position, whichever asset follows it. A file is parsed once for all of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Unpack

import dagster as dg
from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import Field

from paimon_assets.assets.failures import dagster_failures, naming_arguments
from paimon_assets.assets.files.ingestion import ingest
from paimon_assets.assets.files.landing import compare_landing
from paimon_assets.assets.files.ledger import load_ledger
from paimon_assets.assets.files.source_files import FileSource
from paimon_assets.assets.files.sources import source_name_of
from paimon_assets.assets.metadata import grid
from paimon_assets.assets.resource import ExecutorKind, PaimonCatalogResource, table_or_none
from paimon_assets.assets.tables.table_asset import AssetOptions, TableTarget
from paimon_assets.assets.translator import DEFAULT_RESOURCE_KEY, DEFAULT_TRANSLATOR
from paimon_assets.cdc.assets import change_log_asset
from paimon_assets.cdc.assets.change_files import ReadFile, SharedFiles, read_changes
from paimon_assets.cdc.assets.change_log import ChangeLog, ChangeLogConfig, invalid_choice
from paimon_assets.cdc.assets.change_log_run import ChangeLogRun
from paimon_assets.cdc.assets.topic_source import KafkaSource, TopicLogConfig
from paimon_assets.cdc.fold.change_images import OP
from paimon_assets.cdc.fold.log_positions import LogHead
from paimon_assets.cdc.kafka.fetching import fetch
from paimon_assets.cdc.kafka.topics import OffsetRange
from paimon_assets.cdc.records.change_batch import CdcOptions, ChangeBatch, SourceName, SourceTable
from paimon_assets.cdc.records.formats import cdc_format
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema
from paimon_assets.engine.spec.types.data_types import DataType
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import shorten

_LOOKED_AT = 100
"""Offsets of a new topic that are read to find out its table."""


class DatabaseLog(Value):
    """The tables of a log, and their names.

    >>> log = DatabaseLog(database="shop", including=["shop.public.*"])
    """

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
        name = source_table.rpartition(".")[2]
        return Identifier(self.database, f"{self.prefix}{name}{self.suffix}")

    def log_of(self, source_table: str) -> ChangeLog:
        logs = (log for each, log in self.logs.items() if _is_named(source_table, each))
        return replace(next(logs, self.log), source_table=source_table)


def _is_named(source_table: str, name: str) -> bool:
    return f".{source_table}".endswith(f".{name}")


_TWIN = (
    "leave one out (excluding), and follow it under another name by build_change_log_asset, with "
    "ChangeLog(source_table=…)."
)
_TABLES_TEXT = (
    "Only these, as the lake calls them, such as one that is loaded again; all if empty. One that "
    "is not there yet is looked for in all files or topics."
)


class OtherTablesConfig(ChangeLogConfig):
    """The config of a run that follows the tables which have no asset of their own.

    >>> OtherTablesConfig(tables=["shop.orders"]).tables
    ['shop.orders']
    """

    tables: list[str] = Field(default_factory=list, description=_TABLES_TEXT)


class OtherTopicsConfig(TopicLogConfig):
    """The same, of topics."""

    tables: list[str] = Field(default_factory=list, description=_TABLES_TEXT)


@naming_arguments
def build_change_log_assets(
    database: DatabaseLog,
    *,
    source: FileSource | KafkaSource,
    executor: ExecutorKind | None = None,
    warehouse: str | None = None,
    **options: Unpack[AssetOptions],
) -> list[dg.AssetsDefinition]:
    """Make assets of the tables of a database whose log lands in a folder, or in topics.

    >>> source = KafkaSource(bootstrap="host:9092", pattern="shop.*", format="debezium-json")
    >>> assets = build_change_log_assets(DatabaseLog(database="shop"), source=source)

    Declared tables have an asset each. The asset `other_tables` follows the rest: it makes a table
    when the log first names it, and reports a materialization under the table's own key. Declare
    the table later to give it an asset, which continues at the table's position.

    Args:
        database: The tables, and their names.
        source: The folder; or topics by a pattern, where the other tables have one each.
        executor: As for `build_change_log_asset`.
        warehouse: As for `build_change_log_asset`.
        **options: As for `build_change_log_asset`, of each asset; `schema_policy` is `widen` by
            default.

    Raises:
        InvalidInputError: As `build_change_log_asset`; two tables would have one name, or the
            source is one topic.
    """
    options.setdefault("schema_policy", "widen")
    is_topics = isinstance(source, KafkaSource)
    if is_topics and source.pattern is None:
        raise invalid_choice("Tables of a database are topics each: give KafkaSource(pattern=…).")
    names = [database.identifier(name) for name in database.tables]
    if len({*names}) < len(names):
        raise invalid_choice(f"Two of {shorten([*database.tables])} would be one table: {_TWIN}")
    assets = [
        change_log_asset.build_change_log_asset(
            database.identifier(name), schema, source=source, log=database.log_of(name),
            executor=executor, warehouse=warehouse, **options,
        )
        for name, schema in database.tables.items()
    ]  # fmt: skip
    resource_key = options.get("resource_key", DEFAULT_RESOURCE_KEY)

    def follow(context: dg.AssetExecutionContext, config: Any) -> dg.MaterializeResult[Any]:
        paimon = getattr(context.resources, resource_key)
        rest = _OtherTables(database, source, paimon, executor, options)
        with dagster_failures(Identifier(database.database, "other_tables"), context):
            return rest.follow(context, config)

    follow.__annotations__["config"] = OtherTopicsConfig if is_topics else OtherTablesConfig
    other_tables = dg.asset(
        key=dg.AssetKey([database.database, "other_tables"]),
        group_name=database.database,
        required_resource_keys={resource_key},
        description="Follows the tables of a log that have no asset of their own.",
    )(follow)
    return [*assets, other_tables]


class _Followed(Struct, frozen=True):
    """A source table, and how far it is followed."""

    schema: Schema
    topic: str = ""
    pending: Sequence[str] = ()
    """Names of files that it has not taken."""


class _OtherTables(Struct, frozen=True):
    database: DatabaseLog
    source: FileSource | KafkaSource
    paimon: PaimonCatalogResource
    executor: ExecutorKind | None
    options: AssetOptions

    def follow(self, context: dg.AssetExecutionContext, config: Any) -> dg.MaterializeResult[Any]:
        """Follow all tables; if one fails, the run still follows the rest, and fails at its end."""
        known = dict(self._known_tables())
        followed = {**known, **self._new(config, known)}
        targets = {
            name: self._target(name, each.schema)
            for name, each in sorted(followed.items())
            if not config.tables or self.database.identifier(name).table in config.tables
        }
        read = self._shared(config, targets)
        lines: list[dict[str, Any]] = []
        failed = []
        for name, target in targets.items():
            table, changes, note = target.identifier.table, 0, ""
            try:
                changes = self._follow_one(
                    context, config, name, target, followed[name].topic, read
                )
            except dg.Failure as failure:
                failed.append(table)
                note = str(failure.description)
            lines.append({"table": table, "source": name, "changes": changes, "note": note})
        shown = {"paimon/tables": grid(lines)} if lines else {}
        if failed:
            text = f"{shorten(failed)} could not be followed; the other tables were."
            if not {*failed} <= {self.database.identifier(name).table for name in known}:
                text += " Files that they have read are not searched for new tables again: follow "
                text += "those that failed by tables in the config."
            raise dg.Failure(text, metadata=shown)
        return dg.MaterializeResult(metadata=shown)

    def _target(self, name: str, schema: Schema) -> TableTarget:
        log = self.database.log_of(name)
        return change_log_asset.FollowedTable.of(
            self.database.identifier(name), log.table_schema(schema), self.options,
            executor=self.executor,
        )  # fmt: skip

    def _shared(self, config: Any, targets: Mapping[str, TableTarget]) -> ReadFile:
        """Return a reader of files for all tables, with their present columns."""
        if isinstance(self.source, KafkaSource) or len(targets) < 2:
            return read_changes
        tables = {}
        for name, target in targets.items():
            stored = table_or_none(self.paimon, target.identifier)
            declared = first_table_schema(target.schema, time_millis=0)
            schema = declared if stored is None else stored.schema
            tables[name] = self.database.log_of(name).known_of(schema)
        return SharedFiles(tables=tables, most_bytes=config.max_bytes)

    def _follow_one(
        self,
        context: dg.AssetExecutionContext,
        config: Any,
        name: str,
        target: TableTarget,
        topic: str,
        read: ReadFile,
    ) -> int:
        """Follow a table; return how many changes it had."""
        source, key = self.source, self._key(target.identifier)
        if isinstance(source, KafkaSource):
            source = replace(source, topic=topic, pattern=None)
        ingestion = partial(ChangeLogRun, log=self.database.log_of(name))
        result = ingest(
            context, self.paimon, config, target,
            open_intake=change_log_asset.opener_of(source, read), key=key, ingestion=ingestion,
        )  # fmt: skip
        metadata: dict[str, Any] = dict(result.metadata or {})
        context.log_event(dg.AssetMaterialization(asset_key=key, metadata=metadata))
        return int(metadata.get("paimon/changes_in", 0))

    def _key(self, identifier: Identifier) -> dg.AssetKey:
        return self.options.get("translator", DEFAULT_TRANSLATOR).get_asset_key(identifier)

    def _known_tables(self) -> Iterator[tuple[str, _Followed]]:
        """Yield source tables that have a table which follows them, with its key columns."""
        catalog = self.paimon.catalog()
        try:
            names = catalog.list_tables(self.database.database)
        except NotFoundError:
            return
        for name in names:
            identifier = Identifier(self.database.database, name)
            table, key = catalog.get_table(identifier), self._key(identifier)
            if OP not in table.schema.by_name:
                continue
            ledger = load_ledger(table, source_name_of(key))
            source = LogHead.of(ledger.log).source
            if source and self.database.takes(source):
                keys = {key: table.schema.by_name[key].type for key in table.schema.primary_keys}
                pending: Sequence[str] = ()
                if isinstance(self.source, FileSource):
                    landing = compare_landing(self.paimon, table, key, self.source)
                    pending = [file.name for file in landing.pending.new]
                topic = next(iter(ledger.offsets), "")
                yield source, _Followed(self._schema(keys), topic, pending)

    def _schema(self, keys: Mapping[str, DataType]) -> Schema:
        return Schema.of(dict(keys), primary_keys=[*keys], options=self.database.options)

    def _new(self, config: Any, known: Mapping[str, _Followed]) -> dict[str, _Followed]:
        """Return the tables that the log names where no table has read, with their keys."""
        seen: dict[str, _Followed] = {}

        def table_of(name: SourceName) -> SourceTable | None:
            full = ".".join(part for part in name if part)
            wanted = full not in known and full not in seen and self.database.takes(full)
            return SourceTable() if wanted else None

        records = self.database.log.records
        options = replace(records, table_of=table_of, metadata=frozenset({"topic"}))
        for batch in self._unread(config, known, options):
            types = {column.name: column.type for column in batch.fields}
            keys = {key: types[key] for key in batch.keys if key in types}
            if not keys and len(batch):
                raise invalid_choice(
                    f"The records of '{batch.name}' do not tell its key "
                    f"('{batch.origin['file'][0]}'): let the connector write keys, declare the "
                    "table (tables), or leave it out (excluding)."
                )
            if keys and batch.name not in seen:
                is_topic = isinstance(self.source, KafkaSource)
                topic = str(batch.metadata["topic"][0]) if is_topic else ""
                seen[batch.name] = _Followed(self._schema(keys), topic)
        twins = [self.database.identifier(name) for name in (*known, *seen)]
        if len({*twins}) < len(twins):
            raise invalid_choice(
                f"Two of {shorten(sorted((*known, *seen)))} would be one table: {_TWIN}"
            )
        return seen

    def _unread(
        self, config: Any, known: Mapping[str, _Followed], options: CdcOptions
    ) -> Iterator[ChangeBatch]:
        """Yield the changes in files that no table has, or the first of topics that none follows.

        Of all files, if a table is asked for that is not there.
        """
        if isinstance(self.source, KafkaSource):
            client, changes = self.source.client(), self.source.changes()
            followed = {each.topic for each in known.values()}
            ranges = [
                OffsetRange(topic=topic.name, partition=part, start=start,
                            end=min(end, start + _LOOKED_AT))
                for topic in client.topics([], self.source.pattern) if topic.name not in followed
                for part, (start, end) in topic.bounds.items() if end > start
            ]  # fmt: skip
            for fetched in fetch(client, ranges) if ranges else ():
                yield from changes.of(fetched, options)
            return
        key = dg.AssetKey([self.database.database, "other_tables"])
        whole = compare_landing(self.paimon, None, key, self.source, folder=config.source)
        names = {file.name for file in whole.pending.new}
        is_there = {*config.tables} <= {self.database.identifier(name).table for name in known}
        if known and is_there:
            names &= {name for each in known.values() for name in each.pending}
        kind = cdc_format(self.source.format)
        for name in sorted(names):
            yield from read_changes(whole.file_io, f"{whole.folder}/{name}", kind, options)
