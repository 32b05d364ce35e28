"""A sensor on new snapshots of tables that other programs write.

A tick asks each table for its newest snapshot. Where rows changed, one event with the table's data
version is reported; compactions and statistics are ignored. The cursor holds the last snapshot, its
commit time and its data version of each table: snapshots may expire between ticks, and a table may
be rolled back or created again. The event shows that.
"""

import datetime as dt
import hashlib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import dagster as dg
from msgspec.structs import replace

from paimon_assets.assets import metadata as md
from paimon_assets.assets import sensors
from paimon_assets.assets.external_tables import OpenCatalog
from paimon_assets.assets.failures import naming_arguments
from paimon_assets.assets.resource import PaimonCatalogResource
from paimon_assets.assets.translator import DEFAULT_RESOURCE_KEY, TABLE_NAME, identifier_of
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import counted, shorten
from paimon_assets.engine.table.table import Table


class Seen(NamedTuple):
    """The newest snapshot of a table at the last tick."""

    snapshot_id: int
    time_millis: int
    """Its commit time; another one under the same id is a table created again."""
    version: str


class Change(Value):
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
        return self.version != self.before


def change_since(table: Table, seen: Seen | None) -> Change | None:
    """Return the change of a table since the last tick, None if it has no other snapshot.

    Cost:
        The newest snapshot, and the cost of its data version.
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
    return replace(change, data=md.newest_data(table, newest), note=note)


def _gap_text(table: Table, newest: Snapshot, seen: Seen) -> str:
    """Return why not all snapshots since the last one seen can be looked at, empty if they can."""
    if newest.id < seen.snapshot_id or newest.time_millis < seen.time_millis:
        return (
            f"Snapshot {seen.snapshot_id} was seen before, but the newest is {newest.id}: the "
            "table was rolled back or created again."
        )
    then = newest if newest.id == seen.snapshot_id else md.snapshot_or_none(table, seen.snapshot_id)
    if then is not None and then.time_millis != seen.time_millis:
        return (
            f"Snapshot {seen.snapshot_id} is another one than before: the table was created again."
        )
    if newest.id > seen.snapshot_id and md.snapshot_or_none(table, seen.snapshot_id + 1) is None:
        return f"Snapshots since {seen.snapshot_id} have expired before they were looked at."
    return ""


@naming_arguments
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

    >>> sensor = build_new_snapshots_sensor(specs)

    A tick reports each change once, also when it is the first to see a table, and requests one run
    of the target for all of them. A table that cannot be read is named in the tick's log; the rest
    are still checked.

    Args:
        specs: The tables, from `build_external_table_specs`.
        name: The name of the sensor.
        target: A job or selection to run; none by default, automation conditions need none.
        open_catalog: How to open the catalog; by default the resource does.
        minimum_interval_seconds: Between ticks.
        max_seconds: After so long the next tick takes over; Dagster ends a tick after 60.
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
        # After a rollback the same version is back, so the run key has the one before, too.
        steps: list[tuple[str, ...]] = []

        def visit(identifier: Identifier) -> None:
            table = catalog.get_table(identifier)
            change = change_since(table, seen.get(str(identifier)))
            if change is None:
                return
            newest = change.newest
            sizes = md.size_metadata(table, newest) if change.is_new else {}
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
    key: dg.AssetKey, identifier: Identifier, change: Change, sizes: md.Metadata
) -> dg.AssetMaterialization:
    data = change.data or change.newest
    metadata: md.Metadata = {
        TABLE_NAME: str(identifier),
        "paimon/snapshot_id": change.newest.id,
        "paimon/schema_id": change.newest.schema_id,
        "paimon/commit_kind": str(data.commit_kind),
        "paimon/commit_user": data.commit_user,
        "paimon/committed": dg.MetadataValue.timestamp(
            dt.datetime.fromtimestamp(data.time_millis / 1000, tz=dt.UTC)
        ),
        "paimon/added_rows": data.delta_record_count,
        **sizes,
    }
    if change.note:
        metadata["paimon/note"] = change.note
    return dg.AssetMaterialization(
        asset_key=key,
        description=change.note or f"Snapshot {data.id} was committed.",
        metadata=metadata,
        tags={md.DATA_VERSION: change.version},
    )


def cursor_from_json(text: str | None) -> sensors.Cursor[Seen]:
    """Parse a cursor: per table `[snapshot id, milliseconds, data version]`."""

    def seen_of(value: Any) -> Seen:
        number, time_millis, version = value
        return Seen(int(number), int(time_millis), str(version))

    return sensors.Cursor.of_json(text, seen_of)
