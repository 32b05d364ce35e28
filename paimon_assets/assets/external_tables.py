"""Tables that other programs write, as assets: described once, shown without a catalog.

    catalog ─▶ describe_tables ─▶ ExternalTable, also as JSON ─▶ AssetSpec ─▶ Definitions
                                                                     └─▶ observations, sensors

Describing touches the catalog; everything after it does not, so that definitions load from a file
(`PaimonTablesComponent`).

A tick of the sensor on new snapshots asks each table for its newest one. Where rows changed, one
event with the table's data version is reported; compactions and statistics are ignored. The cursor
holds the last snapshot, its commit time and its data version of each table: snapshots may expire
between ticks, and a table may be rolled back or created again. The event says so.
"""

import datetime as dt
import hashlib
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import dagster as dg

from paimon_assets.assets import sensors
from paimon_assets.assets.failures import dagster_failures
from paimon_assets.assets.metadata import (
    COLUMN_SCHEMA,
    DATA_VERSION,
    Metadata,
    column_schema,
    newest_data,
    size_metadata,
    snapshot_or_none,
    state_of,
)
from paimon_assets.assets.resource import PaimonCatalogResource
from paimon_assets.assets.translator import (
    DEFAULT_RESOURCE_KEY,
    DEFAULT_TRANSLATOR,
    STORAGE_KIND,
    STORAGE_KIND_KEY,
    TABLE_NAME,
    URI,
    PaimonTranslator,
    identifier_of,
    identifier_of_asset,
    resource_key_of,
)
from paimon_assets.engine.codec.arrow.arrow_values import to_scalar
from paimon_assets.engine.codec.json.metadata_json import schema_from_json, schema_to_json
from paimon_assets.engine.control.catalog.catalog import Identifier, TableName
from paimon_assets.engine.errors import FormatError, InvalidInputError, NotFoundError
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.schema.schema import Schema, TableSchema
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.types.literals import Internal, to_internal
from paimon_assets.engine.spec.words import counted, shorten
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.sql.statements import CATALOG_NAME
from paimon_assets.engine.table.sql.table_uses import find_tables
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.views import View

_VERSION = 1

OpenCatalog = Callable[[], TableCatalog]
"""Opens the catalog when something is asked of it, never when definitions load."""


@dataclass(frozen=True, kw_only=True)
class ExternalTable:
    """A table as it was when it was described."""

    identifier: Identifier
    path: str
    schema: TableSchema


@dataclass(frozen=True, kw_only=True)
class AssetNaming(PaimonTranslator):
    """The translator that YAML configures."""

    key_prefix: tuple[str, ...] = ()
    """Before `database, table`."""
    group_name: str | None = None
    owners: tuple[str, ...] = ()

    def get_asset_key(self, identifier: Identifier) -> dg.AssetKey:
        """Return the key behind the prefix."""
        return super().get_asset_key(identifier).with_prefix(list(self.key_prefix))

    def get_group_name(self, identifier: Identifier) -> str:
        """Return the group all tables share, if there is one."""
        return self.group_name or super().get_group_name(identifier)

    def get_owners(self, identifier: Identifier) -> Sequence[str]:
        """Return the owners all tables share."""
        del identifier
        return self.owners


def describe_tables(
    catalog: TableCatalog, include: Sequence[str] = ("*",), exclude: Sequence[str] = ()
) -> list[ExternalTable]:
    """Return the tables of a catalog whose names match, sorted.

    Args:
        catalog: Is asked for its databases, tables and their newest schemas.
        include: Patterns of `database.table`, such as `ods.*`; one must match.
        exclude: Patterns of which none may match.

    Raises:
        NotFoundError: A table was dropped meanwhile.
        FormatError, StorageError: Metadata is damaged, or the storage failed.

    Cost:
        A listing a database, and one or two small reads a table that matches.
    """
    return [
        ExternalTable(identifier=identifier, path=table.path, schema=table.schema)
        for identifier in _matching(catalog, catalog.list_tables, include, exclude)
        for table in [catalog.get_table(identifier)]
    ]


def _matching(
    catalog: TableCatalog,
    names_in: Callable[[str], Sequence[str]],
    include: Sequence[str],
    exclude: Sequence[str],
) -> Iterator[Identifier]:
    for database in catalog.list_databases():
        for name in names_in(database):
            full = f"{database}.{name}"
            if _is_any(full, include) and not _is_any(full, exclude):
                yield Identifier(database, name)


def _is_any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def tables_to_json(tables: Sequence[ExternalTable]) -> str:
    """Return descriptions as text to keep."""
    described = [
        {
            "table": str(table.identifier),
            "path": table.path,
            "schema": json.loads(schema_to_json(table.schema)),
        }
        for table in tables
    ]
    return json.dumps({"version": _VERSION, "tables": described}, indent=1, ensure_ascii=False)


def tables_from_json(text: str, path: str) -> list[ExternalTable]:
    """Parse the text of `tables_to_json`."""
    try:
        return _tables_of(json.loads(text), path)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError(
            f"'{path}' describes no tables: {error}. Refresh it: dg utils refresh-defs-state.",
            kind="external-tables",
            details={"path": path},
        ) from error


def _tables_of(members: Mapping[str, Any], path: str) -> list[ExternalTable]:
    if members["version"] != _VERSION:
        raise ValueError(f"version {members['version']} is not known")
    return [
        ExternalTable(
            identifier=identifier_of(str(item["table"])),
            path=str(item["path"]),
            schema=schema_from_json(json.dumps(item["schema"]).encode(), path),
        )
        for item in members["tables"]
    ]


def build_external_table_specs(
    tables: Sequence[ExternalTable], translator: PaimonTranslator = DEFAULT_TRANSLATOR
) -> list[dg.AssetSpec]:
    """Return the assets of tables that no asset here materializes; reads nothing."""
    return [
        _spec(
            table.identifier,
            table.schema,
            table.schema.comment,
            {URI: table.path, "paimon/schema_id": table.schema.id},
            translator,
        )
        for table in tables
    ]


def _spec(
    identifier: Identifier,
    schema: TableSchema | Schema,
    comment: str | None,
    metadata: Metadata,
    translator: PaimonTranslator,
    **more: Any,
) -> dg.AssetSpec:
    known = {TABLE_NAME: str(identifier), STORAGE_KIND_KEY: STORAGE_KIND}
    fields: dict[str, Any] = {"kinds": {STORAGE_KIND}, **more}
    return dg.AssetSpec(
        key=translator.get_asset_key(identifier),
        description=comment or None,
        group_name=translator.get_group_name(identifier),
        owners=list(translator.get_owners(identifier)),
        tags={STORAGE_KIND_KEY: STORAGE_KIND},
        metadata={**known, COLUMN_SCHEMA: column_schema(schema), **metadata},
        **fields,
    )


def build_observable_tables(
    specs: Sequence[dg.AssetSpec], open_catalog: OpenCatalog, *, name: str = "observe_tables"
) -> dg.AssetsDefinition:
    """Make external tables observable: "Observe" in the UI reads the newest state.

    An observation carries the data version, which a compaction does not change, so that automation
    conditions downstream follow what others commit.

    Args:
        specs: From `build_external_table_specs`.
        open_catalog: Called when an observation runs.
        name: The name of the op.

    Cost:
        A run: the newest snapshot and its manifests of each table that is observed.
    """

    def observe(context: dg.AssetExecutionContext) -> Iterator[dg.ObserveResult]:
        catalog = open_catalog()
        for spec in specs:
            if spec.key in context.selected_asset_keys:
                yield observation_of(catalog, spec)

    with warnings.catch_warnings():
        # Beta in Dagster 1.13; said here once, not at every load to everyone.
        warnings.simplefilter("ignore", dg.BetaWarning)
        decorate = dg.multi_observable_source_asset(name=name, specs=specs, can_subset=True)
        assets: dg.AssetsDefinition = decorate(observe)
    return assets


def observation_of(catalog: TableCatalog, spec: dg.AssetSpec) -> dg.ObserveResult:
    """Return the current state of a table as an observation."""
    identifier = identifier_of(str(spec.metadata[TABLE_NAME]))
    with dagster_failures(identifier):
        table = catalog.get_table(identifier)
        state, version = state_of(table, table.latest_snapshot())
        return dg.ObserveResult(asset_key=spec.key, data_version=version, metadata=state)


_DIALECT = "spark"


@dataclass(frozen=True, kw_only=True)
class ExternalView:
    """A view as it was when it was described."""

    identifier: Identifier
    view: View


def describe_views(
    catalog: TableCatalog, include: Sequence[str] = ("*",), exclude: Sequence[str] = ()
) -> list[ExternalView]:
    """Return the views of a catalog whose names match, sorted; patterns as for tables.

    Raises:
        NotFoundError: A view was dropped meanwhile.
        UnsupportedFeatureError: The catalog keeps no views.
    """
    return [
        ExternalView(identifier=identifier, view=catalog.views.get(str(identifier)))
        for identifier in _matching(catalog, catalog.views.list, include, exclude)
    ]


def build_external_view_specs(
    views: Sequence[ExternalView], translator: PaimonTranslator = DEFAULT_TRANSLATOR
) -> list[dg.AssetSpec]:
    """Return an asset for each view; upstream of it are the tables and views of its query.

    An input of such an asset runs the query on Spark; elsewhere it is refused by name.
    """
    return [
        _spec(
            each.identifier,
            Schema(fields=each.view.fields),
            each.view.comment,
            {"paimon/query": dg.MetadataValue.text(each.view.query_for(_DIALECT))},
            translator,
            kinds={STORAGE_KIND, "view"},
            deps=[translator.get_asset_key(name) for name in _upstream(each)],
        )
        for each in views
    ]


def _upstream(each: ExternalView) -> list[Identifier]:
    """Return the tables and views a query names; none, if it is no SQL that is understood."""
    try:
        uses = find_tables(each.view.query_for(_DIALECT)).uses
    except InvalidInputError:
        return []
    upstream: dict[Identifier, None] = {}
    for use in uses:
        name = use.name[1:] if len(use.name) > 2 and use.name[0] == CATALOG_NAME else use.name
        if len(name) <= 2 and use.arguments is None and "/" not in name[-1]:
            full = Identifier(name[0] if len(name) > 1 else each.identifier.database, name[-1])
            parts = TableName.parse(full)
            if not parts.is_global:
                upstream[parts.table] = None
    return list(upstream)


_KEYS_PER_TICK = 500


class Seen(NamedTuple):
    """The newest snapshot of a table at the last tick."""

    snapshot_id: int
    time_millis: int
    """Its commit time; another one under the same id is a table created again."""
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The change of a table since the last tick."""

    newest: Snapshot
    version: str
    before: str = ""
    """The data version at the last tick; empty for a table that is new to the sensor."""
    data: Snapshot | None = None
    """The snapshot that last changed a row; None if it has expired, or nothing changed any."""
    note: str = ""
    """Expired snapshots, a rollback, or a table created again."""

    @property
    def is_new(self) -> bool:
        """Whether a row changed."""
        return self.version != self.before


def change_since(table: Table, seen: Seen | None) -> Change | None:
    """Return the change of a table since the last tick, None if it has no other snapshot.

    Cost:
        The newest snapshot, and what its data version costs.
    """
    newest = table.latest_snapshot()
    if newest is None or (seen and (newest.id, newest.time_millis) == seen[:2]):
        return None
    change = Change(
        newest=newest,
        version=table.state.data_version(newest),
        before="" if seen is None else seen.version,
    )
    if not change.is_new:
        return change
    note = "" if seen is None else _gap_text(table, newest, seen)
    return replace(change, data=newest_data(table, newest), note=note)


def _gap_text(table: Table, newest: Snapshot, seen: Seen) -> str:
    """Return why not all snapshots since the last one seen can be looked at, empty if they can."""
    if newest.id < seen.snapshot_id or newest.time_millis < seen.time_millis:
        return (
            f"Snapshot {seen.snapshot_id} was seen before, but the newest is {newest.id}: the "
            "table was rolled back or created again."
        )
    then = newest if newest.id == seen.snapshot_id else snapshot_or_none(table, seen.snapshot_id)
    if then is not None and then.time_millis != seen.time_millis:
        return (
            f"Snapshot {seen.snapshot_id} is another one than before: the table was created again."
        )
    if newest.id > seen.snapshot_id and snapshot_or_none(table, seen.snapshot_id + 1) is None:
        return f"Snapshots since {seen.snapshot_id} have expired before they were looked at."
    return ""


def build_new_snapshots_sensor(
    specs: Sequence[dg.AssetSpec],
    *,
    name: str = "tables_new_snapshots",
    target: Any = None,
    open_catalog: OpenCatalog | None = None,
    minimum_interval_seconds: int = 60,
    max_seconds: float = sensors.SECONDS_PER_TICK,
    resource_key: str = DEFAULT_RESOURCE_KEY,
) -> dg.SensorDefinition:
    """Report new data of external tables, and run a target for it. It is shipped stopped.

    A tick reports each change once, also when it is the first to see a table, and requests one run
    of the target for all of them. A table that cannot be read is named in the tick's log and does
    not keep the others from being looked at.

    Args:
        specs: The tables, from `build_external_table_specs`.
        name: The name of the sensor.
        target: A job or selection to run; none by default, automation conditions need none.
        open_catalog: How to open the catalog; by default the resource does.
        minimum_interval_seconds: Between ticks.
        max_seconds: After so long the next tick goes on; Dagster ends a tick after 60.
        resource_key: The catalog's, unless `open_catalog` is given.

    Raises:
        InvalidInputError: The table name of a spec is not `database.table`.
    """
    tables: dict[Identifier, list[dg.AssetKey]] = {}
    for spec in specs:
        tables.setdefault(identifier_of(str(spec.metadata[TABLE_NAME])), []).append(spec.key)
    names = [str(table) for table in tables]

    def tick(context: dg.SensorEvaluationContext, paimon: PaimonCatalogResource) -> dg.SensorResult:
        catalog = open_catalog() if open_catalog is not None else paimon.catalog()
        cursor = cursor_from_json(context.cursor)
        seen = {name: each for name, each in cursor.seen.items() if name in names}
        events: list[dg.AssetMaterialization] = []
        # After a rollback the same version comes again, so the run key has the one before too.
        steps: list[tuple[str, ...]] = []

        def visit(identifier: Identifier) -> None:
            table = catalog.get_table(identifier)
            change = change_since(table, seen.get(str(identifier)))
            if change is None:
                return
            newest = change.newest
            sizes = size_metadata(table, newest) if change.is_new else {}
            for key in tables[identifier] if change.is_new else ():
                events.append(_event(key, identifier, change, sizes))
                steps.append((*key.path, change.before, change.version))
            seen[str(identifier)] = Seen(newest.id, newest.time_millis, change.version)

        problems, first = sensors.visit_tables(
            [*tables], cursor.first, visit, max_seconds=max_seconds
        )
        texts = [error.message for error in problems.values()]
        for text in texts:
            context.log.warning("A table could not be read: %s", text)
        after = sensors.Cursor(seen=seen, first=first).to_json()
        if events:
            run_key = hashlib.sha256(json.dumps(steps).encode()).hexdigest()[:24]
            runs = [dg.RunRequest(run_key=run_key)] if target is not None else []
            return dg.SensorResult(asset_events=events, run_requests=runs, cursor=after)
        reason = f"No new data in {counted(len(tables), 'table')}."
        if texts:
            reason += f" {len(texts)} of {len(tables)} could not be read: {shorten(texts)}"
        return dg.SensorResult(skip_reason=reason, cursor=after)

    return sensors.define_sensor(
        name,
        f"Reports new snapshots of {shorten(names)}.",
        tick,
        resource_key=None if open_catalog is not None else resource_key,
        seconds=minimum_interval_seconds,
        target=target,
    )


def _event(
    key: dg.AssetKey, identifier: Identifier, change: Change, sizes: Metadata
) -> dg.AssetMaterialization:
    data = change.data or change.newest
    metadata: Metadata = {
        TABLE_NAME: str(identifier),
        "paimon/snapshot_id": change.newest.id,
        "paimon/schema_id": change.newest.schema_id,
        "paimon/commit_kind": str(data.commit_kind),
        "paimon/commit_user": data.commit_user,
        "paimon/committed": dg.MetadataValue.timestamp(
            dt.datetime.fromtimestamp(data.time_millis / 1000, tz=dt.UTC)
        ),
        "paimon/added_records": data.delta_record_count,
        **sizes,
    }
    if change.note:
        metadata["paimon/note"] = change.note
    return dg.AssetMaterialization(
        asset_key=key,
        description=change.note or f"Snapshot {data.id} was committed.",
        metadata=metadata,
        tags={DATA_VERSION: change.version},
    )


def cursor_from_json(text: str | None) -> sensors.Cursor[Seen]:
    """Parse a cursor: per table `[snapshot id, milliseconds, data version]`."""

    def seen_of(value: Any) -> Seen:
        number, time_millis, version = value
        return Seen(int(number), int(time_millis), str(version))

    return sensors.Cursor.of_json(text, seen_of)


def build_partition_keys_sensor(
    asset: dg.AssetsDefinition | dg.AssetSpec,
    *,
    partitions_def: dg.DynamicPartitionsDefinition,
    column: str,
    target: Any = None,
    name: str | None = None,
    minimum_interval_seconds: int = 60,
) -> dg.SensorDefinition:
    """Add a key to dynamic partitions for each value of a table's partition column.

    Keys that are there stay, also when their partition is gone. A null and an empty text become no
    key. The sensor is shipped stopped.

    Args:
        asset: The table that is looked at: an asset of it, or the spec of an external one.
        partitions_def: Gets the keys; it has a name.
        column: A partition column of the table.
        target: A partitioned job or selection, of which each new key gets a run; none by default.
        name: The name of the sensor; `<partitions>_new_keys` by default.
        minimum_interval_seconds: Between ticks.

    Raises:
        InvalidInputError: The asset is not of exactly one table, or the partitions have no name.

    Cost:
        A tick that finds a new snapshot reads its manifests; at most 500 keys are added at once.
    """
    identifier, resource_key = identifier_of_asset(asset), resource_key_of(asset)
    partitions = partitions_def.name
    if partitions is None:
        raise InvalidInputError(
            f"The dynamic partitions for table {identifier} need a name.", kind="partition-key"
        )

    def tick(context: dg.SensorEvaluationContext, paimon: PaimonCatalogResource) -> sensors.Ticked:
        try:
            table = paimon.catalog().get_table(identifier)
        except NotFoundError:
            return dg.SkipReason(f"Table {identifier} does not exist.")
        return _add(context, table, partitions_def, column, runs=target is not None)

    return sensors.define_sensor(
        name or f"{partitions}_new_keys",
        f"Adds a key to '{partitions}' for each {column} of {identifier}.",
        tick,
        resource_key=resource_key,
        seconds=minimum_interval_seconds,
        target=target,
    )


def _add(
    context: dg.SensorEvaluationContext,
    table: Table,
    partitions_def: dg.DynamicPartitionsDefinition,
    column: str,
    *,
    runs: bool,
) -> sensors.Ticked:
    newest = table.latest_snapshot()
    if newest is None or context.cursor == newest.name:
        return dg.SkipReason(f"Table {table.name} has nothing new.")
    partitions = str(partitions_def.name)
    existing = set(context.instance.get_dynamic_partitions(partitions))
    missing = sorted(set(_keys(table, column)) - existing)
    added = missing[:_KEYS_PER_TICK]
    # The next tick goes on where keys are left.
    cursor = newest.name if len(added) == len(missing) else context.cursor
    if not added:
        has = counted(len(existing), "key")
        return dg.SensorResult(skip_reason=f"All partitions are among the {has}.", cursor=cursor)
    requests = [dg.RunRequest(run_key=f"{partitions}:{key}", partition_key=key) for key in added]
    return dg.SensorResult(
        dynamic_partitions_requests=[partitions_def.build_add_request(added)],
        run_requests=requests if runs else [],
        cursor=cursor,
    )


def _keys(table: Table, column: str) -> Iterator[str]:
    if column not in table.schema.partition_keys:
        raise InvalidInputError(
            f"Column '{column}' is no partition column of table '{table.name}': "
            f"{', '.join(table.schema.partition_keys) or 'it has none'}.",
            kind="partition-column",
            details={"table": table.name, "column": column},
        )
    field = table.schema.column(column)
    for partition in {entry.partition for entry in table.state.live_files()}:
        key = partition_key_of(table.state.partition_values(partition)[column], field)
        if key:
            yield key


def partition_key_of(value: Internal, field: DataField) -> str:
    """Return a partition value as the key a run is given, empty for null.

    >>> from paimon_assets.engine.spec.types.data_types import AtomicType, TypeRoot
    >>> partition_key_of(19723, DataField(id=0, name="d", type=AtomicType(root=TypeRoot.DATE)))
    '2024-01-01'
    """
    if value is None:
        return ""
    plain = to_scalar(value, field.type).as_py()
    text = str(plain).lower() if isinstance(plain, bool) else str(plain)
    if text and to_internal(text, field.type, field.name) != value:
        raise InvalidInputError(
            f"Partition column '{field.name}' is {field.type}: its values cannot be keys.",
            kind="partition-key",
            details={"column": field.name},
        )
    return text
