"""Publishing a snapshot that a client has made: a catalog's part of a commit.

    the same one again? ─▶ next id? ─▶ base? ─▶ are its files there? ─▶ publish ─▶ look back

The client has written all files, and deletes them on a definite failure. So False (a lost race) and
a refusal are answered only if the snapshot is not, and will not be, the table's.
"""

import logging

from paimon_assets.engine import errors
from paimon_assets.engine.codec.json.metadata_json import snapshot_to_json
from paimon_assets.engine.control.commit import look_back
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.publishing import publish_once
from paimon_assets.engine.spec.metadata.snapshot import FIRST_SNAPSHOT_ID, Snapshot

logger = logging.getLogger(__name__)


def publish_external(
    store: FileStore, snapshot: Snapshot, *, base_uuid: str | None, compares_base: bool = True
) -> bool:
    """Publish a snapshot if it is the next one of the table."""
    latest = store.snapshots.latest()
    if latest is not None and snapshot.id <= latest.id:
        known = store.snapshots.snapshot_or_none(snapshot.id)
        return known is not None and _is_same(known, snapshot)
    if snapshot.id != (FIRST_SNAPSHOT_ID if latest is None else latest.id + 1):
        return False
    if compares_base and base_uuid != (None if latest is None else latest.uuid):
        return False
    if latest is not None and store.snapshots.break_at(latest) is not None:
        return False
    _check_named(store, snapshot)
    path = store.paths.snapshot(snapshot.id)
    if not publish_once(store.file_io, path, snapshot_to_json(snapshot)):
        known = store.snapshots.snapshot_or_none(snapshot.id)  # perhaps it was published before
        if known is None or not _is_same(known, snapshot):
            return False
    message = (
        f"Table '{store.label}' was changed while snapshot {snapshot.id} was published; look "
        "whether it is there."
    )
    unknown = errors.CommitUnknownError(message, table=store.label, snapshot_id=snapshot.id)
    if not look_back.looked_back(store, snapshot, latest, unknown):
        return False
    try:
        store.snapshots.write_latest_hint(snapshot.id)
    except (errors.StorageError, errors.NotFoundError):
        logger.warning("table %s: no hint to snapshot %d", store.label, snapshot.id, exc_info=True)
    return True


def _is_same(known: Snapshot, snapshot: Snapshot) -> bool:
    if known.uuid is not None and snapshot.uuid is not None:
        return known.uuid == snapshot.uuid
    return snapshot_to_json(known) == snapshot_to_json(snapshot)


def _check_named(store: FileStore, snapshot: Snapshot) -> None:
    if store.schemas.schema_or_none(snapshot.schema_id) is None:
        raise _refusal(store, snapshot, f"schema {snapshot.schema_id}")
    for name, size in (
        (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
        (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
        (snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size),
        (snapshot.index_manifest, None),
    ):
        if name is not None:
            _check_file(store, snapshot, store.paths.manifest(name), size)
    if snapshot.statistics is not None:
        _check_file(store, snapshot, store.paths.statistics(snapshot.statistics), None)


def _check_file(store: FileStore, snapshot: Snapshot, path: str, size: int | None) -> None:
    try:
        actual = store.file_io.file_size(path)
    except errors.NotFoundError as error:
        raise _refusal(store, snapshot, f"'{path}'") from error
    if size is not None and actual != size:
        raise _refusal(store, snapshot, f"'{path}' of {size} bytes, which has {actual}")


def _refusal(store: FileStore, snapshot: Snapshot, file_name: str) -> errors.InvalidInputError:
    label, number = store.label, snapshot.id
    message = f"Table '{label}': snapshot {number} names {file_name}, which is not there."
    return errors.InvalidInputError(message, kind="snapshot-files", table=label, snapshot_id=number)
