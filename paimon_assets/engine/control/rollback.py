"""Roll a table back: the snapshot or tag becomes the newest state, and what came later is undone.

    later tags ─▶ later snapshots, newest first ─▶ later changelogs ─▶ hint

Tags go first: one that outlived its snapshots would not be of the history that goes on, and what
only it has could not be told from what nothing needs (`maintenance.expiry_plan`). Data files and
manifests of what was undone stay as orphans: which of them older snapshots, tags or branches share
is for a cleaning to find out. A writer that commits at the same moment may succeed
on top of what is being undone; stop writers first, as for Java's rollback.
Source: `org.apache.paimon.table.RollbackHelper`, `FileStoreTable.rollbackTo`.
"""

from dataclasses import dataclass

from paimon_assets.engine.codec.json.metadata_json import snapshot_to_json
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.spec.metadata.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """The outcome of a rollback."""

    snapshot: Snapshot
    """The newest snapshot now."""
    snapshots: tuple[int, ...]
    """Deleted snapshots, newest first."""
    tags: tuple[str, ...]
    """Deleted tags."""
    changelogs: tuple[int, ...]
    """Deleted changelogs that had outlived their snapshots."""


def rollback_to_snapshot(store: FileStore, snapshot_id: int) -> Rollback:
    """Roll back to a snapshot.

    Raises:
        NotFoundError: It does not exist; nothing was changed.
    """
    return _roll_back(store, store.snapshots.snapshot(snapshot_id))


def rollback_to_tag(store: FileStore, tag: str) -> Rollback:
    """Roll back to a tag; a snapshot that expired comes back.

    Raises:
        NotFoundError: There is no such tag; nothing was changed.
    """
    snapshot = store.tags.get(tag).snapshot
    earliest = store.snapshots.earliest_id()
    path = store.paths.snapshot(snapshot.id)
    revived = not store.file_io.exists(path)
    if revived:
        store.file_io.publish(path, snapshot_to_json(snapshot))
    done = _roll_back(store, snapshot)
    if revived and (earliest is None or earliest > snapshot.id):
        store.snapshots.write_earliest_hint(snapshot.id)
    return done


def _roll_back(store: FileStore, snapshot: Snapshot) -> Rollback:
    tags = store.tags.delete_after(snapshot.id)
    snapshots = store.snapshots.delete_after(snapshot.id)
    changelogs = store.changelogs.delete_after(snapshot.id)
    store.snapshots.write_latest_hint(snapshot.id)
    return Rollback(snapshot=snapshot, snapshots=snapshots, tags=tags, changelogs=changelogs)
