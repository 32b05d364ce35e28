"""Sensors on tables that other programs write: new snapshots, and new partitions.

A tick asks each table for its newest snapshot. Where rows changed, one event with the table's data
version is reported: automation conditions downstream follow it, and a target is run. Compactions
and statistics change no row and are ignored.

The cursor holds, per table, the last snapshot, its commit time and its data version: snapshots may
expire between ticks, and a table may be rolled back or created again. The event says so.

    newest snapshot ─▶ its partitions ─▶ values of one column ─▶ missing partition keys ─▶ runs
"""

import datetime as dt
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dagster as dg

from paimon_assets.assets.external_tables import OpenCatalog
from paimon_assets.assets.metadata import (
    DATA_VERSION,
    Metadata,
    newest_data,
    size_metadata,
    snapshot_or_none,
)
from paimon_assets.assets.resource import PaimonCatalogResource
from paimon_assets.assets.sensors import (
    SECONDS_PER_TICK,
    Cursor,
    Ticked,
    define_sensor,
    visit_tables,
)
from paimon_assets.assets.translator import (
    DEFAULT_RESOURCE_KEY,
    TABLE_NAME,
    identifier_of,
    identifier_of_asset,
    resource_key_of,
)
from paimon_assets.engine.codec.arrow.arrow_values import to_scalar
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError, NotFoundError
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.types.literals import Internal, to_internal
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.table import Table

_NAMED = 5
_KEYS_PER_TICK = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The newest snapshot of a table at the last tick."""

    snapshot_id: int
    time_millis: int
    """Its commit time; another one under the same id is a table created again."""
    version: str
    """The data version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The change of a table since the last tick."""

    newest: Snapshot
    version: str
    """The data version of the newest snapshot."""
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
    if newest is None:
        return None
    if seen is not None and (newest.id, newest.time_millis) == (seen.snapshot_id, seen.time_millis):
        return None
    version = table.state.data_version(newest)
    before = "" if seen is None else seen.version
    change = Change(newest=newest, version=version, before=before)
    if seen is None or not change.is_new:
        return replace(change, data=newest_data(table, newest)) if change.is_new else change
    note = _break_text(table, newest, seen) or _expiry_text(table, newest, seen)
    return replace(change, data=newest_data(table, newest), note=note)


def _break_text(table: Table, newest: Snapshot, seen: Seen) -> str:
    """Return why the newest snapshot is no descendant of the last one seen, empty if it may be."""
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
    name: str = "tables_new_snapshots",
    target: Any = None,
    open_catalog: OpenCatalog | None = None,
    minimum_interval_seconds: int = 60,
    max_seconds: float = SECONDS_PER_TICK,
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
            seen[str(identifier)] = Seen(
                snapshot_id=newest.id, time_millis=newest.time_millis, version=change.version
            )

        problems, first = visit_tables([*tables], cursor.first, visit, max_seconds=max_seconds)
        texts = [error.message for error in problems.values()]
        for text in texts:
            context.log.warning("A table could not be read: %s", text)
        after = _cursor_to_json(Cursor(seen=seen, first=first))
        if events:
            runs = [dg.RunRequest(run_key=_run_key(steps))] if target is not None else []
            return dg.SensorResult(asset_events=events, run_requests=runs, cursor=after)
        reason = f"No new data in {counted(len(tables), 'table')}."
        if texts:
            reason += f" {len(texts)} of {len(tables)} could not be read: {_names(texts)}"
        return dg.SensorResult(skip_reason=reason, cursor=after)

    return define_sensor(
        name,
        f"Reports new snapshots of {_names(names)}.",
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


def _run_key(steps: Sequence[Sequence[str]]) -> str:
    return hashlib.sha256(json.dumps(steps).encode()).hexdigest()[:24]


def _names(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
    return ", ".join(texts[:_NAMED]) + more


def _cursor_to_json(cursor: Cursor[Seen]) -> str:
    return cursor.to_json(lambda seen: [seen.snapshot_id, seen.time_millis, seen.version])


def cursor_from_json(text: str | None) -> Cursor[Seen]:
    """Parse a cursor: per table `[snapshot id, milliseconds, data version]`."""

    def seen_of(value: Any) -> Seen:
        number, time_millis, version = value
        return Seen(snapshot_id=int(number), time_millis=int(time_millis), version=str(version))

    return Cursor.of_json(text, seen_of)


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

    def tick(context: dg.SensorEvaluationContext, paimon: PaimonCatalogResource) -> Ticked:
        try:
            table = paimon.catalog().get_table(identifier)
        except NotFoundError:
            return dg.SkipReason(f"Table {identifier} does not exist.")
        return _add(context, table, partitions_def, column, runs=target is not None)

    return define_sensor(
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
) -> Ticked:
    """Return the keys that are missing, and runs for them."""
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
    """Yield the values of a partition column as keys."""
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
