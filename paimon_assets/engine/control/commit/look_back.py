"""Looking back at a published snapshot: whether it continues the line of its table.

    published ─▶ is its base there? ─▶ is it in the line of snapshots? ─▶ True, or withdrawn

Other commits at the same time publish the same name: one of them wins. A writer that was slow may
publish a number that was used, and has expired.
"""

from collections.abc import Collection
from contextlib import suppress

from paimon_assets.engine import errors
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.managers.snapshot_manager import SnapshotManager
from paimon_assets.engine.spec.metadata.snapshot import BUILT_ON_PROPERTY, Snapshot

_MOST_LISTINGS = 20
"""While there are so many commits that no two listings are the same."""


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
