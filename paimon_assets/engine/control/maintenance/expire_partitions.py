"""Commits of maintenance: empty partitions that are too old, and fold all manifests.

Files of expired partitions go when the snapshots before the commit expire. By update-time a
partition that gets a file between the decision and the commit is emptied all the same, as by other
engines.
Source: `org.apache.paimon.operation.PartitionExpire`,
`org.apache.paimon.operation.FileStoreCommitImpl.compactManifest`.
"""

from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.commit.commit_files import folding_of
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.partition_age import expired_partitions
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.spec.metadata import snapshot as snap
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.values import Value


class ExpiredPartitions(Value):
    """Partitions that were emptied, or would be."""

    snapshot: snap.Snapshot | None
    """None if nothing was committed."""
    partitions: tuple[str, ...]
    """As people read them, oldest first."""
    files: int
    total_bytes: int


def expire_partitions(
    store: FileStore, *, commit_user: str, clock: Clock | None = None, dry_run: bool = False
) -> ExpiredPartitions:
    """Empty the partitions of a branch that are older than the table's options allow.

    Partitions whose values mean no time, such as the one of null, stay. Cost: reads the manifests
    of the newest snapshot.
    """
    options, latest = store.schema.typed_options, store.snapshots.latest()
    if latest is None or options.get(opt.PARTITION_EXPIRATION_TIME) is None:
        return ExpiredPartitions(snapshot=None, partitions=(), files=0, total_bytes=0)
    live = FileStoreScan(store).live_files(latest)
    expired = expired_partitions(store, live, (clock or SystemClock()).now_millis())
    going = expired[: options.get(opt.PARTITION_EXPIRATION_MAX_NUM)]
    partitions = frozenset(going)
    gone = [entry for entry in live if entry.partition in partitions]
    snapshot = None
    if going and not dry_run:
        snapshot = FileStoreCommit(store).overwrite(
            (),
            commit_user=commit_user,
            commit_identifier=snap.BATCH_COMMIT_IDENTIFIER,
            partitions=partitions,
        )
    return ExpiredPartitions(
        snapshot=snapshot,
        partitions=tuple(
            "/".join(f"{name}={text}" for name, text in store.partitions.spec(partition).items())
            for partition in going
        ),
        files=len(gone),
        total_bytes=sum(entry.file.file_size for entry in gone),
    )


class CompactedManifests(Value):
    """The outcome of a compaction of manifests."""

    snapshot: snap.Snapshot | None
    before: int
    after: int


def compact_manifests(
    store: FileStore, *, commit_user: str, dry_run: bool = False
) -> CompactedManifests:
    """Fold the manifests of the newest snapshot, if one holds deletes or several are small.

    Cost: reads the manifests that it folds, in a dry run, too.
    """
    latest = store.snapshots.latest()
    metas = store.manifests.manifests_of(latest) if latest else ()
    target_bytes = store.schema.typed_options.get(opt.MANIFEST_TARGET_FILE_SIZE)
    small = sum(meta.file_size < target_bytes for meta in metas)
    is_due = small > 1 or any(meta.num_deleted_files for meta in metas)
    eager = store.with_options({opt.MANIFEST_FULL_COMPACTION_SIZE.key: "1 b"})
    if dry_run or not is_due:
        folding = folding_of(eager, lambda _: metas[0])
        after = len(folding.fold(metas)) if is_due else len(metas)
        return CompactedManifests(snapshot=None, before=len(metas), after=after)
    made = FileStoreCommit(eager).commit(
        (),
        commit_user=commit_user,
        commit_identifier=snap.BATCH_COMMIT_IDENTIFIER,
        kind=snap.CommitKind.COMPACT,
    )
    after = len(store.manifests.manifests_of(made))
    return CompactedManifests(snapshot=made, before=len(metas), after=after)
