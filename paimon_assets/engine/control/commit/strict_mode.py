"""Strict mode: a commit fails if another one compacted or overwrote its partitions.

For a writer that must not go on when somebody else takes its place, such as the second of two
compaction jobs that were started by mistake.
Source: `org.apache.paimon.operation.commit.StrictModeChecker`.
"""

from collections.abc import Iterable

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.errors import CommitConflictError
from paimon_assets.engine.spec.metadata.snapshot import CommitKind, Snapshot
from paimon_assets.engine.spec.options.all_options import COMMIT_STRICT_MODE_LAST_SAFE_SNAPSHOT

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
        if (rewrites and not partitions.isdisjoint(_changed(store, other))) or (
            appends and not partitions.isdisjoint(_changed(store, other, only_buckets=True))
        ):
            raise CommitConflictError(
                f"Table '{store.label}': snapshot {other.id} ({other.commit_kind} by "
                f"'{other.commit_user}') changed a partition of this commit since snapshot {safe} "
                f"('{COMMIT_STRICT_MODE_LAST_SAFE_SNAPSHOT.key}').",
                kind="strict-mode",
                details={"table": store.label, "snapshot_id": other.id},
            )


def _changed(
    store: FileStore, snapshot: Snapshot, *, only_buckets: bool = False
) -> Iterable[bytes]:
    """Yield the partitions of a snapshot's changes; of files and, as Java, of any live index."""
    manifests = store.manifests
    for entry in manifests.read_all(manifests.read_list(snapshot.delta_manifest_list)):
        if not only_buckets or entry.bucket >= 0:
            yield entry.partition
    if only_buckets or snapshot.index_manifest is None:
        return
    before = store.snapshots.snapshot_or_none(snapshot.id - 1)
    if before is None or before.index_manifest != snapshot.index_manifest:
        for index in manifests.read_index(snapshot.index_manifest):
            yield index.partition
