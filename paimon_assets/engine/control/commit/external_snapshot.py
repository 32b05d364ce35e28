"""Publishing a snapshot that a client has made: a catalog's part of a commit.

    the same one again? ─▶ next id? ─▶ base? ─▶ are its files there? ─▶ publish ─▶ look back

The client has written all files, and deletes them on a definite failure. So False (a lost race) and
a refusal are answered only if the snapshot is not, and will not be, the table's. Other commits at
the same time publish the same name: one of them wins.
"""

import logging
from collections.abc import Collection
from contextlib import suppress

from paimon_assets.engine import errors
from paimon_assets.engine.codec.json.metadata_json import snapshot_to_json
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.managers.snapshot_manager import SnapshotManager
from paimon_assets.engine.control.publishing import publish_once
from paimon_assets.engine.spec.metadata.snapshot import (
    BUILT_ON_PROPERTY,
    FIRST_SNAPSHOT_ID,
    Snapshot,
)

logger = logging.getLogger(__name__)

_MOST_LISTINGS = 20
"""While there are so many commits that no two listings are the same."""


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
    if not looked_back(store, snapshot, latest, unknown):
        return False
    try:
        store.snapshots.write_latest_hint(snapshot.id)
    except (errors.StorageError, errors.NotFoundError):
        logger.warning("table %s: no hint to snapshot %d", store.label, snapshot.id, exc_info=True)
    return True


def looked_back(
    store: FileStore,
    snapshot: Snapshot,
    base: Snapshot | None,
    unknown: errors.CommitUnknownError,
    added: Collection[str] = (),
) -> bool:
    """Whether a published snapshot continues the line of its table; else it is withdrawn.

    Nothing may lead readers to it before: a writer that saw it as the newest would build on it.

    Manifests of its own changes (`added`) are in later snapshots until they are merged.

    Raises:
        CommitUnknownError: `unknown`: it cannot be seen, or a tag or branch has it; none of its
            files was deleted.
        NotFoundError: The table is another one; the snapshot was withdrawn.
    """
    try:
        reads = [store.paths.schema(store.schema.id)]
        reads += [] if base is None else [store.paths.snapshot(base.id)]
        lists = [store.paths.snapshot_directory] if base is None else []
        with store.file_io.ahead(reads=reads, lists=lists):
            same_table = store.schemas.is_same(store.schema)
            continues = _continues(store, snapshot, base, added) if same_table else False
        if continues:
            return True
        is_there = store.snapshots.is_same(snapshot)
        if continues is None or not (same_table or is_there):
            raise unknown
        if is_there:
            store.file_io.delete_file(store.paths.snapshot(snapshot.id))
        if same_table and _is_held(store, snapshot):
            raise unknown
    except errors.CommitUnknownError:
        raise
    except errors.PaimonError as error:  # a page in place of a schema is no answer either
        raise unknown from error
    if same_table:
        return False
    raise store.schemas.not_the_same(store.schema)


def _is_held(store: FileStore, snapshot: Snapshot) -> bool:
    """Whether a tag or a branch was made from a snapshot before it was withdrawn."""
    name = snapshot.delta_manifest_list
    if any(tag.snapshot.delta_manifest_list == name for tag in store.tags.list()):
        return True
    branches = map(store.paths.of_branch, store.branches.list())
    return any(SnapshotManager(store.file_io, paths).is_same(snapshot) for paths in branches)


def _continues(
    store: FileStore, snapshot: Snapshot, base: Snapshot | None, added: Collection[str]
) -> bool | None:
    """Whether a published snapshot is the one after its base; None if that cannot be seen.

    Snapshots expire from the oldest on, and the newest stays. So one whose base is gone came too
    late if a hole is above it, or another one's successor: its number was used and had expired.
    """
    snapshots = store.snapshots
    if base is not None and snapshots.is_same(base):
        return True
    ids = snapshots.list_ids()
    for _ in range(_MOST_LISTINGS):
        before, ids = ids, snapshots.list_ids()
        if ids == before:  # no commit overtook the listing
            break
    else:
        return None
    if ids == [snapshot.id]:
        return True
    line = min(snapshots.earliest_id() or 0, snapshot.id)
    ids = [number for number in ids if number >= line]  # all below came too late themselves
    if not ids or ids[0] < snapshot.id:
        return False if ids else None
    is_there = ids[0] == snapshot.id
    if is_there and (len(ids) == 1 or ids[1] > snapshot.id + 1):
        return len(ids) == 1
    later = snapshots.snapshot_or_none(ids[is_there])
    if later is None:
        return None
    if _is_built_on(store, later, snapshot, added):
        return True if ids[-1] - ids[0] < len(ids) else None
    built_on = later.properties.get(BUILT_ON_PROPERTY)
    is_another_s = built_on not in (None, snapshot.properties.get(BUILT_ON_PROPERTY))
    return False if later.id == snapshot.id + 1 and is_another_s else None


def _is_built_on(
    store: FileStore, later: Snapshot, snapshot: Snapshot, added: Collection[str]
) -> bool:
    """Whether a later snapshot surely has the changes of another one."""
    if later.properties.get(BUILT_ON_PROPERTY) == snapshot.delta_manifest_list:
        return True
    with suppress(errors.NotFoundError):
        read = store.manifests.read_list
        added = added or {each.file_name for each in read(snapshot.delta_manifest_list)}
        return any(each.file_name in added for each in read(later.base_manifest_list))
    return False


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
