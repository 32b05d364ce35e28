"""A sensor on new snapshots of tables that others write.

Each tick asks every table for its newest snapshot. Where data changed, one event with the table's
data version is reported: automation conditions downstream follow it, and a target is run. A
compaction changes no row and is passed over, and so are statistics.

The cursor holds, per table, the last snapshot seen, when it was committed, and its data version:
snapshots may expire between ticks, a table may be rolled back or made anew. Both are said in the
event, not stumbled on.
"""

import datetime as dt
import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import dagster as dg

from paimon_assets.assets.external_tables import OpenCatalog
from paimon_assets.assets.metadata import (
    DATA_VERSION,
    Metadata,
    newest_data,
    snapshot_or_none,
)
from paimon_assets.assets.resource import (
    DEFAULT_RESOURCE_KEY,
    RESOURCE_KEY,
    PaimonCatalogResource,
    catalog_resource,
    resource_key_of,
)
from paimon_assets.assets.translator import (
    TABLE_NAME,
    identifier_of,
    identifier_of_asset,
    identifier_of_spec,
)
from paimon_assets.engine.codec.arrow.arrow_values import to_scalar
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError, NotFoundError, PaimonError
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.types.literals import Internal, to_internal
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.table import Table

_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The newest snapshot of a table at some tick."""

    snapshot_id: int
    time_millis: int
    """When it was committed; with the id it shows a table made anew."""
    version: str
    """The version of the data it shows."""

    def is_newest(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot is the one that was seen."""
        return (snapshot.id, snapshot.time_millis) == (self.snapshot_id, self.time_millis)


@dataclass(frozen=True, kw_only=True)
class Cursor:
    """The cursor of a snapshot sensor."""

    seen: Mapping[str, Seen] = field(default_factory=dict)
    """`database.table` → what was seen last."""
    first: str = ""
    """Table to begin with, if the tick before ran out of time there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The change of a table since the last tick."""

    newest: Snapshot
    version: str
    """The version of the data it shows."""
    before: str = ""
    """The version that was seen before; empty if none was."""
    data: Snapshot | None = None
    """The snapshot that last changed a row; None if it has expired, or nothing changed any."""
    is_new: bool
    """Whether a row changed."""
    note: str = ""
    """What a person should know: expired snapshots, a rollback, a table made anew."""

    @property
    def seen(self) -> Seen:
        """What to remember of it."""
        newest = self.newest
        return Seen(snapshot_id=newest.id, time_millis=newest.time_millis, version=self.version)


def change_since(table: Table, seen: Seen | None) -> Change | None:
    """Return what happened to a table since it was seen, None if nothing did.

    Cost:
        The newest snapshot, and what its data version costs.
    """
    newest = table.latest_snapshot()
    if newest is None or (seen is not None and seen.is_newest(newest)):
        return None
    version = table.data_version(newest)
    if seen is not None and version == seen.version:
        return Change(newest=newest, version=version, is_new=False)
    data = newest_data(table, newest)
    change = Change(newest=newest, version=version, data=data, is_new=True)
    if seen is None:
        return change
    note = _break_text(table, newest, seen) or _expiry_text(table, newest, seen)
    return replace(change, before=seen.version, note=note)


def _break_text(table: Table, newest: Snapshot, seen: Seen) -> str:
    """Return why what was seen is no ancestor of the newest snapshot, empty if it may be one."""
    if newest.id < seen.snapshot_id or newest.time_millis < seen.time_millis:
        return (
            f"Snapshot {seen.snapshot_id} was seen before, but the newest is {newest.id}: the "
            "table was rolled back or made anew."
        )
    then = newest if newest.id == seen.snapshot_id else snapshot_or_none(table, seen.snapshot_id)
    if then is not None and then.time_millis != seen.time_millis:
        return f"Snapshot {seen.snapshot_id} is another one than before: the table was made anew."
    return ""


def _expiry_text(table: Table, newest: Snapshot, seen: Seen) -> str:
    first = seen.snapshot_id + 1
    if first > newest.id or snapshot_or_none(table, first) is not None:
        return ""
    return f"Snapshots since {seen.snapshot_id} have expired before they were looked at."


def build_new_snapshots_sensor(
    specs: Sequence[dg.AssetSpec],
    *,
    name: str = "new_snapshots",
    target: Any = None,
    open_catalog: OpenCatalog | None = None,
    minimum_interval_seconds: int = 60,
    max_seconds: float = 40.0,
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
    watched = {spec.key: identifier_of(str(spec.metadata[TABLE_NAME])) for spec in specs}

    def tick(context: dg.SensorEvaluationContext, catalog: TableCatalog) -> dg.SensorResult:
        looked = _look(catalog, watched, cursor_from_json(context.cursor), max_seconds)
        for problem in looked.problems:
            context.log.warning("A table could not be read: %s", problem)
        return looked.result(len(watched), runs=target is not None)

    decorate = dg.sensor(
        name=name,
        target=target,
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=dg.DefaultSensorStatus.STOPPED,
        required_resource_keys=None if open_catalog is not None else {resource_key},
        description=f"Reports new snapshots of {_names([str(item) for item in watched.values()])}.",
    )
    if open_catalog is not None:
        return decorate(lambda context: tick(context, open_catalog()))

    # Dagster hands the resource to whoever calls a sensor directly.
    def by_resource(context: dg.SensorEvaluationContext, **_: Any) -> dg.SensorResult:
        return tick(context, catalog_resource(context, resource_key).catalog())

    return decorate(by_resource)


@dataclass(kw_only=True)
class _Looked:
    """The findings of one tick."""

    cursor: Cursor
    events: list[dg.AssetMaterialization] = field(default_factory=list)
    steps: list[tuple[str, ...]] = field(default_factory=list)
    """(asset key, data version before, now): after a rollback the same version comes again."""
    problems: list[str] = field(default_factory=list)

    def result(self, tables: int, *, runs: bool) -> dg.SensorResult:
        """Return it as Dagster takes it."""
        cursor = cursor_to_json(self.cursor)
        if not self.events:
            return dg.SensorResult(skip_reason=self._skip_text(tables), cursor=cursor)
        requests = [dg.RunRequest(run_key=_run_key(self.steps))] if runs else []
        return dg.SensorResult(asset_events=self.events, run_requests=requests, cursor=cursor)

    def _skip_text(self, tables: int) -> str:
        reason = f"No new data in {tables} {'table' if tables == 1 else 'tables'}."
        if self.problems:
            unread = len(self.problems)
            reason += f" {unread} of {tables} could not be read: {_names(self.problems)}"
        return reason


def _look(
    catalog: TableCatalog,
    watched: Mapping[dg.AssetKey, Identifier],
    cursor: Cursor,
    max_seconds: float,
) -> _Looked:
    """Look at the tables, from the one where the last tick stopped, as many as the time allows."""
    names = [str(identifier) for identifier in watched.values()]
    start = names.index(cursor.first) if cursor.first in names else 0
    ordered = [*list(watched.items())[start:], *list(watched.items())[:start]]
    seen = {name: known for name, known in cursor.seen.items() if name in names}
    looked = _Looked(cursor=Cursor(seen=seen))
    started = time.monotonic()
    for number, (key, identifier) in enumerate(ordered):
        if number and time.monotonic() - started > max_seconds:
            looked.cursor = Cursor(seen=seen, first=str(identifier))
            break
        try:
            table = catalog.get_table(identifier)
            change = change_since(table, seen.get(str(identifier)))
            rows = 0 if change is None else table.physical_rows(change.newest)
        except PaimonError as error:
            looked.problems.append(error.message)
            continue
        if change is not None:
            seen[str(identifier)] = change.seen
            if change.is_new:
                looked.events.append(_event(key, identifier, change, rows))
                looked.steps.append((*key.path, change.before, change.version))
    return looked


def _event(
    key: dg.AssetKey, identifier: Identifier, change: Change, rows: int
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
        "paimon/total_records": rows,
    }
    if change.note:
        metadata["paimon/note"] = change.note
    return dg.AssetMaterialization(
        asset_key=key,
        description=change.note or f"Snapshot {data.id} was committed.",
        metadata=metadata,
        tags={DATA_VERSION: change.version},
    )


def _run_key(steps: Sequence[Sequence[str]]) -> str:
    return hashlib.sha256(json.dumps(steps).encode()).hexdigest()[:24]


def _names(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
    return ", ".join(texts[:_NAMED]) + more


def cursor_to_json(cursor: Cursor) -> str:
    """Return a cursor as text: per table `[snapshot id, milliseconds, data version]`."""
    seen = {
        name: [it.snapshot_id, it.time_millis, it.version]
        for name, it in sorted(cursor.seen.items())
    }
    return json.dumps({"seen": seen, "first": cursor.first})


def cursor_from_json(text: str | None) -> Cursor:
    """Parse a cursor; one that is none counts as that of the first tick."""
    try:
        members = json.loads(text or "{}")
        seen = {
            name: Seen(snapshot_id=int(number), time_millis=int(time_millis), version=str(version))
            for name, (number, time_millis, version) in members["seen"].items()
        }
        return Cursor(seen=seen, first=str(members["first"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        return Cursor()


_KEYS_PER_TICK = 500


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
        name: The name of the sensor; `<partitions>_keys` by default.
        minimum_interval_seconds: Between ticks.

    Raises:
        InvalidInputError: The asset is not of exactly one table, or the partitions have no name.

    Cost:
        A tick that finds a new snapshot reads its manifests; at most 500 keys are added at once.
    """
    if isinstance(asset, dg.AssetSpec):
        identifier = identifier_of_spec(asset)
        resource_key = str(asset.metadata.get(RESOURCE_KEY, DEFAULT_RESOURCE_KEY))
    else:
        identifier, resource_key = identifier_of_asset(asset), resource_key_of(asset)
    partitions = partitions_def.name
    if partitions is None:
        raise InvalidInputError(
            f"The dynamic partitions for table {identifier} need a name.", kind="partition-key"
        )

    @dg.sensor(
        name=name or f"{partitions}_keys",
        target=target,
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=dg.DefaultSensorStatus.STOPPED,
        required_resource_keys={resource_key},
        description=f"Adds a key to '{partitions}' for each {column} of {identifier}.",
    )
    def keys(context: dg.SensorEvaluationContext, **_: Any) -> dg.SensorResult | dg.SkipReason:
        paimon: PaimonCatalogResource = catalog_resource(context, resource_key)
        try:
            table = paimon.catalog().get_table(identifier)
        except NotFoundError:
            return dg.SkipReason(f"Table {identifier} does not exist.")
        return _added(context, table, partitions_def, column, runs=target is not None)

    return keys


def _added(
    context: dg.SensorEvaluationContext,
    table: Table,
    partitions_def: dg.DynamicPartitionsDefinition,
    column: str,
    *,
    runs: bool,
) -> dg.SensorResult | dg.SkipReason:
    """Return the keys that are missing, and runs for them."""
    newest = table.latest_snapshot()
    if newest is None or context.cursor == newest.name:
        return dg.SkipReason(f"Table {table.name} has nothing new.")
    partitions = str(partitions_def.name)
    known = set(context.instance.get_dynamic_partitions(partitions))
    found = sorted(set(_keys(table, column)) - known)
    taken = found[:_KEYS_PER_TICK]
    # The next tick goes on where keys are left.
    cursor = newest.name if len(taken) == len(found) else context.cursor
    if not taken:
        has = counted(len(known), "key")
        return dg.SensorResult(skip_reason=f"All partitions are among the {has}.", cursor=cursor)
    requests = [dg.RunRequest(run_key=f"{partitions}:{key}", partition_key=key) for key in taken]
    return dg.SensorResult(
        dynamic_partitions_requests=[partitions_def.build_add_request(taken)],
        run_requests=requests if runs else [],
        cursor=cursor,
    )


def _keys(table: Table, column: str) -> Iterator[str]:
    """Yield the values of a partition column as keys."""
    if column not in table.schema.partition_keys:
        raise InvalidInputError(
            f"Column '{column}' is no partition column of table '{table.name}': "
            f"{', '.join(table.schema.partition_keys) or 'it has none'}.",
            kind="partition-column",
            details={"table": table.name, "column": column},
        )
    field = table.schema.column(column)
    for partition in {entry.partition for entry in table.live_files()}:
        key = partition_key_of(table.partition_values(partition)[column], field)
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
    if isinstance(plain, bool):
        text = str(plain).lower()
    elif isinstance(plain, dt.datetime):
        text = plain.isoformat(sep=" ")
    else:
        text = plain.isoformat() if isinstance(plain, dt.date) else str(plain)
    if text and to_internal(text, field.type, field.name) != value:
        raise InvalidInputError(
            f"Partition column '{field.name}' is {field.type}: its values cannot be keys.",
            kind="partition-key",
            details={"column": field.name},
        )
    return text
