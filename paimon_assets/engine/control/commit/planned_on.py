"""PlannedOn: changes that hold only while no other commit changed the files they were planned on.

    primary key        a record that deletes a key is right for the row that was read: after another
                       write to its bucket the row may be another
    without            a row that was inserted because there was none is wrong if there is one now
    dynamic buckets    a new key got a bucket because no index had it: after another commit of new
                       keys to the partition, it may have another by now
    keys that move     a key was looked for in all partitions: it may be in another one by now
    strict mode        another writer compacted or overwrote a partition of this commit

Then the change must be planned again. Compactions change no row. For dynamic buckets Java demands
that a table has one writer, and does not check.
Source: `org.apache.paimon.operation.commit.StrictModeChecker`.
"""

from collections.abc import Iterable, Iterator

from paimon_assets.engine.control.commit.changes import CommitChanges
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.write_planning import hash_indexes
from paimon_assets.engine.errors import CommitConflictError
from paimon_assets.engine.spec.metadata.manifest import HASH_INDEX, FileKind
from paimon_assets.engine.spec.metadata.snapshot import CommitKind, Snapshot
from paimon_assets.engine.spec.options.all_options import COMMIT_STRICT_MODE_LAST_SAFE_SNAPSHOT
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.schema.schema import BucketMode
from paimon_assets.engine.spec.values import Value

_BUCKET_CHANGED = "bucket-changed"
KEYS_CHANGED = "keys-changed"
SCHEMA_CHANGED = "schema-changed"
SCHEMA_CONFLICT = "schema-conflict"
WRITTEN_AGAIN = frozenset(
    {KEYS_CHANGED, "index-changed", "index-gone", SCHEMA_CHANGED, SCHEMA_CONFLICT}
)
"""Kinds of conflicts that end when the same rows are written again."""


class PlannedOn(Value):
    """The state a change was planned on."""

    snapshot_id: int
    """The snapshot that was read; 0 if there was none."""
    predicate: Predicate | None = None
    """Bound; of a table without primary key, the rows that were looked for. None is all."""

    def check(
        self, store: FileStore, latest: Snapshot | None, buckets: frozenset[tuple[bytes, int]]
    ) -> None:
        """Check that the change still holds. Cost: the delta manifests of the snapshots between."""
        from paimon_assets.engine.control.scan.segment_scan import TextChanges

        for other in _since(store, latest, self.snapshot_id):
            if not store.schema.has_primary_key:
                lists = [other.delta_manifest_list]
                added = FileStoreScan(store).added_files(lists, self.predicate)
                for entry in (*added, *TextChanges(store, self.predicate).added_entries(other)):
                    event = f"snapshot {other.id} added '{entry.file.file_name}'"
                    raise conflict(store, other.id, event, kind="rows-added")
                continue
            for entry in store.manifests.delta(other):
                if (entry.partition, entry.bucket) in buckets:
                    event = f"snapshot {other.id} changed bucket {entry.bucket}"
                    raise conflict(store, other.id, event)


def check_known_keys(store: FileStore, latest: Snapshot | None, changes: CommitChanges) -> None:
    """Check that keys which were new to a writer of dynamic buckets are still nowhere else.

    Cost: nothing without a commit meanwhile; else the snapshots between and two index manifests.
    """
    known_at = changes.keys_known_at
    if known_at is None or known_at == (0 if latest is None else latest.id):
        return
    crossing = store.schema.bucket_mode is BucketMode.KEY_DYNAMIC
    partitions = {
        entry.partition
        for entry in changes.index
        if entry.kind is FileKind.ADD and entry.file.index_type == HASH_INDEX
    }
    if not crossing and not partitions:
        return
    later = list(_since(store, latest, known_at))
    before = store.snapshots.snapshot_or_none(known_at) if known_at else None
    same = not crossing and _indexes(store, before, partitions) == _indexes(
        store, latest, partitions
    )
    if later and not same:
        event = f"snapshot {later[-1].id} may have given the same keys a bucket"
        raise conflict(store, later[-1].id, event, kind=KEYS_CHANGED)


def _indexes(
    store: FileStore, snapshot: Snapshot | None, partitions: set[bytes]
) -> set[tuple[bytes, int, str]]:
    return {
        (state.partition, state.bucket, state.file.file_name)
        for state in hash_indexes(store, snapshot)
        if state.partition in partitions
    }


def _since(store: FileStore, latest: Snapshot | None, planned_on: int) -> Iterator[Snapshot]:
    """Yield other writers' snapshots that may have changed rows, oldest first."""
    for other in snapshots_since(store, latest, planned_on):
        if other.commit_kind in (CommitKind.APPEND, CommitKind.OVERWRITE):
            yield other


def snapshots_since(
    store: FileStore, latest: Snapshot | None, planned_on: int, *, kind: str = _BUCKET_CHANGED
) -> Iterator[Snapshot]:
    """Yield the snapshots after the one a commit was planned on; raises if one cannot be read."""
    newest = 0 if latest is None else latest.id
    if newest < planned_on:
        raise conflict(store, newest, "the table was rolled back", kind=kind)
    for snapshot_id in range(planned_on + 1, newest + 1):
        other = store.snapshots.snapshot_or_none(snapshot_id)
        if other is None:
            event = f"snapshot {snapshot_id} expired already"
            raise conflict(store, snapshot_id, event, kind=kind)
        yield other


def conflict(
    store: FileStore, snapshot_id: int, event: str, *, kind: str = _BUCKET_CHANGED
) -> CommitConflictError:
    message = f"Table '{store.label}': {event} after the commit was planned. Plan again."
    return CommitConflictError(message, kind=kind, table=store.label, snapshot_id=snapshot_id)


_REWRITES = (CommitKind.COMPACT, CommitKind.OVERWRITE)


def check_strict_mode(
    store: FileStore,
    latest: Snapshot | None,
    partitions: frozenset[bytes],
    *,
    commit_user: str,
    kind: CommitKind,
) -> None:
    """Check the commits of other users since `commit.strict-mode.last-safe-snapshot`."""
    safe = store.schema.typed_options.get(COMMIT_STRICT_MODE_LAST_SAFE_SNAPSHOT)
    if safe is None or safe < 0 or latest is None:
        return
    for snapshot_id in range(safe + 1, latest.id + 1):
        other = store.snapshots.snapshot(snapshot_id)
        if other.commit_user == commit_user:
            continue
        rewrites = other.commit_kind in _REWRITES
        appends = other.commit_kind is CommitKind.APPEND and kind is CommitKind.OVERWRITE
        if (rewrites and not partitions.isdisjoint(_find_changes(store, other))) or (
            appends and not partitions.isdisjoint(_find_changes(store, other, only_buckets=True))
        ):
            raise CommitConflictError(
                f"Table '{store.label}': snapshot {other.id} ({other.commit_kind} by "
                f"'{other.commit_user}') changed a partition of this commit since snapshot {safe} "
                f"('{COMMIT_STRICT_MODE_LAST_SAFE_SNAPSHOT.key}').",
                kind="strict-mode",
                table=store.label,
                snapshot_id=other.id,
            )


def _find_changes(
    store: FileStore, snapshot: Snapshot, *, only_buckets: bool = False
) -> Iterable[bytes]:
    """Yield the partitions of a snapshot's changes; of files and, as Java, of any live index."""
    for entry in store.manifests.delta(snapshot):
        if not only_buckets or entry.bucket >= 0:
            yield entry.partition
    if only_buckets or snapshot.index_manifest is None:
        return
    before = store.snapshots.snapshot_or_none(snapshot.id - 1)
    if before is None or before.index_manifest != snapshot.index_manifest:
        for index in store.manifests.read_index(snapshot.index_manifest):
            yield index.partition
