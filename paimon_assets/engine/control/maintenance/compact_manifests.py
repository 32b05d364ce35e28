"""Compacts manifests: one commit that writes all live entries into few manifests.

Source: `org.apache.paimon.operation.FileStoreCommitImpl.compactManifest`.
"""

from dataclasses import dataclass

from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.spec.metadata.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    CommitKind,
    Snapshot,
)
from paimon_assets.engine.spec.options.all_options import (
    MANIFEST_FULL_COMPACTION_SIZE,
    MANIFEST_TARGET_FILE_SIZE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedManifests:
    """The outcome of a compaction of manifests."""

    snapshot: Snapshot | None
    before: int
    after: int


def compact_manifests(
    store: FileStore, *, commit_user: str, dry_run: bool = False
) -> CompactedManifests:
    """Fold the manifests of the newest snapshot, if one holds deletes or several are small."""
    latest = store.snapshots.latest()
    metas = store.manifests.manifests_of(latest) if latest else ()
    target_bytes = store.schema.typed_options.get(MANIFEST_TARGET_FILE_SIZE)
    small = sum(meta.file_size < target_bytes for meta in metas)
    is_due = small > 1 or any(meta.num_deleted_files for meta in metas)
    if dry_run or not is_due:
        return CompactedManifests(snapshot=None, before=len(metas), after=len(metas))
    eager = store.with_options({MANIFEST_FULL_COMPACTION_SIZE.key: "1 b"})
    made = FileStoreCommit(eager).commit(
        (),
        commit_user=commit_user,
        commit_identifier=BATCH_COMMIT_IDENTIFIER,
        kind=CommitKind.COMPACT,
    )
    after = len(store.manifests.manifests_of(made))
    return CompactedManifests(snapshot=made, before=len(metas), after=after)
