"""Expire partitions: empty those that are too old, in one overwriting commit.

Their files go when the snapshots before the commit expire. By update-time a partition that gets a
file between the decision and the commit is emptied all the same, as other engines do.
Source: `org.apache.paimon.operation.PartitionExpire`.
"""

from dataclasses import dataclass

from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.partition_age import expired_partitions
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.spec.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from paimon_assets.engine.spec.options.maintenance_options import (
    PARTITION_EXPIRATION_MAX_NUM,
    PARTITION_EXPIRATION_TIME,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredPartitions:
    """Partitions that were emptied, or would be."""

    snapshot: Snapshot | None
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
    if latest is None or options.get(PARTITION_EXPIRATION_TIME) is None:
        return ExpiredPartitions(snapshot=None, partitions=(), files=0, total_bytes=0)
    live = FileStoreScan(store).live_files(latest)
    expired = expired_partitions(store, live, (clock or SystemClock()).now_millis())
    going = expired[: options.get(PARTITION_EXPIRATION_MAX_NUM)]
    wanted = frozenset(going)
    gone = [entry for entry in live if entry.partition in wanted]
    snapshot = None
    if going and not dry_run:
        snapshot = FileStoreCommit(store).overwrite(
            (),
            commit_user=commit_user,
            commit_identifier=BATCH_COMMIT_IDENTIFIER,
            partitions=wanted,
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
