"""PlannedOn: changes that hold only as long as nobody else changed what they were planned on.

    primary key    a record that deletes a key is right for the row that was read: if others wrote
                   to its bucket, the row may be another
    without        a row that was inserted because there was none is wrong if others added one

Then the change must be planned again. Compactions change no row.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.errors import CommitConflictError
from paimon_assets.engine.spec.predicate import Predicate
from paimon_assets.engine.spec.snapshot import CommitKind, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOn:
    """What a change was planned on."""

    snapshot_id: int
    """Of the snapshot that was read; 0 if there was none."""
    predicate: Predicate | None = None
    """Bound; of a table without primary key, the rows that were looked for. None is all."""

    def check(
        self, store: FileStore, latest: Snapshot | None, buckets: frozenset[tuple[bytes, int]]
    ) -> None:
        """Check that the change still holds.

        Args:
            store: The table.
            latest: The newest snapshot.
            buckets: (partition, bucket) that the commit changes.

        Raises:
            CommitConflictError: Kind `bucket-changed` or `rows-added`; names the snapshot.

        Cost:
            Reads the delta manifests of the snapshots between.
        """
        for other in self._since(store, latest):
            if not store.schema.has_primary_key:
                lists = [other.delta_manifest_list]
                for entry in FileStoreScan(store).added_files(lists, self.predicate):
                    what = f"snapshot {other.id} added '{entry.file.file_name}'"
                    raise _conflict(store, other.id, what, kind="rows-added")
                continue
            manifests = store.manifests
            for entry in manifests.read_all(manifests.read_list(other.delta_manifest_list)):
                if (entry.partition, entry.bucket) in buckets:
                    what = f"snapshot {other.id} changed bucket {entry.bucket}"
                    raise _conflict(store, other.id, what)

    def _since(self, store: FileStore, latest: Snapshot | None) -> Iterator[Snapshot]:
        """Yield the snapshots of others that may have changed rows, oldest first."""
        newest = 0 if latest is None else latest.id
        if newest < self.snapshot_id:
            raise _conflict(store, newest, "the table was rolled back")
        for snapshot_id in range(self.snapshot_id + 1, newest + 1):
            other = store.snapshots.snapshot_or_none(snapshot_id)
            if other is None:
                raise _conflict(store, snapshot_id, f"snapshot {snapshot_id} expired already")
            if other.commit_kind is not CommitKind.COMPACT:
                yield other


def _conflict(
    store: FileStore, snapshot_id: int, what: str, *, kind: str = "bucket-changed"
) -> CommitConflictError:
    return CommitConflictError(
        f"Table '{store.label}': {what} after the rows to change were read. Plan again.",
        kind=kind,
        details={"table": store.label, "snapshot_id": snapshot_id},
    )
