"""Publishing a snapshot that a client has made: what a catalog does with a commit.

    the same one again? ─▶ next id? ─▶ base? ─▶ are its files there? ─▶ publish ─▶ look back

The client has written all files, and deletes them on a definite failure. So False (a lost race) and
a refusal are answered only if the snapshot is not, and will not be, the table's. Others who commit
at the same time publish the same name: one of them wins.
"""

import logging

from paimon_assets.engine.codec.json.metadata_json import snapshot_to_json
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.publishing import published
from paimon_assets.engine.errors import (
    CommitUnknownError,
    InvalidInputError,
    NotFoundError,
    PaimonError,
    StorageError,
)
from paimon_assets.engine.spec.metadata.snapshot import FIRST_SNAPSHOT_ID, Snapshot

logger = logging.getLogger(__name__)


def publish_external(
    store: FileStore, snapshot: Snapshot, *, base_uuid: str | None, compares_base: bool = True
) -> bool:
    """Publish a snapshot if it is the next one of the table."""
    latest = store.newest()
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
    if not _publish(store, snapshot):
        return False
    if not _looked_back(store, snapshot, latest):
        return False
    try:
        store.snapshots.write_latest_hint(snapshot.id)
    except (StorageError, NotFoundError):
        logger.warning("table %s: no hint to snapshot %d", store.label, snapshot.id, exc_info=True)
    return True


def stands_on(store: FileStore, base: Snapshot | None) -> bool:
    """Whether the snapshot below a commit is as it was, or has expired with all before it."""
    if base is None or store.snapshots.is_same(base):
        return True
    ids = store.snapshots.list_ids()
    return base.id not in ids and (not ids or ids[0] > base.id)


def _is_same(known: Snapshot, snapshot: Snapshot) -> bool:
    if known.uuid is not None and snapshot.uuid is not None:
        return known.uuid == snapshot.uuid
    return snapshot_to_json(known) == snapshot_to_json(snapshot)


def _check_named(store: FileStore, snapshot: Snapshot) -> None:
    if store.schemas.schema_or_none(snapshot.schema_id) is None:
        raise _refused(store, snapshot, f"schema {snapshot.schema_id}")
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
    except NotFoundError as error:
        raise _refused(store, snapshot, f"'{path}'") from error
    if size is not None and actual != size:
        raise _refused(store, snapshot, f"'{path}' of {size} bytes, which has {actual}")


def _refused(store: FileStore, snapshot: Snapshot, what: str) -> InvalidInputError:
    return InvalidInputError(
        f"Table '{store.label}': snapshot {snapshot.id} names {what}, which is not there.",
        kind="snapshot-files",
        details={"table": store.label, "snapshot_id": snapshot.id},
    )


def _publish(store: FileStore, snapshot: Snapshot) -> bool:
    """Publish a snapshot; True also if it was published before."""
    path = store.paths.snapshot(snapshot.id)
    if published(store.file_io, path, snapshot_to_json(snapshot)):
        return True
    known = store.snapshots.snapshot_or_none(snapshot.id)
    return known is not None and _is_same(known, snapshot)


def _looked_back(store: FileStore, snapshot: Snapshot, base: Snapshot | None) -> bool:
    """Whether the base of a published snapshot still exists; else the snapshot is withdrawn."""
    try:
        same_table = store.schemas.is_same(store.schema)
        if same_table and stands_on(store, base):
            return True
    except StorageError:
        # Only a rollback or a drop of this instant would undo the commit.
        logger.warning("table %s: cannot look back", store.label, exc_info=True)
        return True
    unknown = CommitUnknownError(
        f"Table '{store.label}' was changed while snapshot {snapshot.id} was published; look "
        "whether it is there.",
        details={"table": store.label, "snapshot_id": snapshot.id},
    )
    try:
        is_there = store.snapshots.is_same(snapshot)
        if is_there:
            store.file_io.delete_file(store.paths.snapshot(snapshot.id))
    except PaimonError as error:
        raise unknown from error
    if same_table:
        return False
    if not is_there:
        raise unknown
    raise store.schemas.not_the_same(store.schema)
