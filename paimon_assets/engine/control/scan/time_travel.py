"""Time travel: id, tag or timestamp → snapshot.

Time travel reads with the snapshot's own schema; a plain read uses the newest one.
Source: `org.apache.paimon.table.source.snapshot.TimeTravelUtil`.
"""

from paimon_assets.engine.codec.metadata_json import snapshot_from_json
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.errors import InvalidInputError, NotFoundError
from paimon_assets.engine.spec.schema import TableSchema
from paimon_assets.engine.spec.snapshot import Snapshot


def travel_to(
    store: FileStore,
    *,
    snapshot_id: int | None = None,
    timestamp_ms: int | None = None,
    tag: str | None = None,
) -> Snapshot:
    """Return the snapshot that exactly one of the arguments means.

    Args:
        store: The table.
        snapshot_id: Id of a snapshot.
        timestamp_ms: Epoch milliseconds: the newest snapshot committed at or before.
        tag: Name of a tag; its snapshot may have expired.

    Raises:
        InvalidInputError: Not exactly one argument is given.
        NotFoundError: No such snapshot or tag; names the table.
    """
    given = [value for value in (snapshot_id, timestamp_ms, tag) if value is not None]
    if len(given) != 1:
        raise InvalidInputError(
            "Time travel needs exactly one of snapshot id, timestamp and tag.", kind="time-travel"
        )
    if snapshot_id is not None:
        return store.snapshots.snapshot(snapshot_id)
    if tag is not None:
        return _tagged(store, tag)
    return _at(store, given[0] if isinstance(given[0], int) else 0)


def schema_at(store: FileStore, snapshot: Snapshot) -> TableSchema:
    """Return the schema to read a snapshot of the past as, with the store's dynamic options."""
    newest = store.schemas.schema(store.schema.id)
    dynamic = {
        key: value
        for key, value in store.schema.options.items()
        if newest.options.get(key) != value
    }
    return store.schemas.schema(snapshot.schema_id).with_dynamic_options(dynamic)


def _at(store: FileStore, timestamp_ms: int) -> Snapshot:
    found = store.snapshots.at_timestamp(timestamp_ms)
    if found is None:
        earliest = store.snapshots.earliest_id()
        first = None if earliest is None else store.snapshots.snapshot_or_none(earliest)
        there_is = (
            "it has no snapshots"
            if first is None
            else f"its oldest snapshot, {first.id}, is of {first.time_millis}"
        )
        raise NotFoundError(
            f"Table '{store.label}' has no snapshot at or before {timestamp_ms} ms; {there_is}.",
            kind="snapshot-not-found",
            details={"table": store.label, "timestamp_ms": timestamp_ms},
        )
    return found


def _tagged(store: FileStore, tag: str) -> Snapshot:
    if not tag.strip() or "/" in tag:
        raise InvalidInputError(f"{tag!r} is no name of a tag.", kind="name")
    path = store.paths.tag(tag)
    try:
        data = store.file_io.read_bytes(path)
    except NotFoundError as error:
        raise NotFoundError(
            f"Table '{store.label}' has no tag '{tag}'.",
            kind="tag-not-found",
            details={"table": store.label, "tag": tag},
        ) from error
    return snapshot_from_json(data, path)
