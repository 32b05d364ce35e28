"""Expire partitions: empty those that are too old, in one overwriting commit.

Their files go when the snapshots before the commit expire. By update-time a partition that gets a
file between the decision and the commit is emptied all the same, as other engines do.
Source: `org.apache.paimon.operation.PartitionExpire`, `org.apache.paimon.partition`.
"""

import datetime as dt
from dataclasses import dataclass

from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.partition_time import PartitionTime
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.spec.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from paimon_assets.engine.spec.options.maintenance_options import (
    PARTITION_EXPIRATION_MAX_NUM,
    PARTITION_EXPIRATION_STRATEGY,
    PARTITION_EXPIRATION_TIME,
    PartitionExpiration,
)
from paimon_assets.engine.spec.partition import partition_spec

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  # local, as files say theirs


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

    Partitions whose values mean no time, such as the one of null, stay.

    Args:
        store: The branch.
        commit_user: Who commits; doing it again under one name finds the first time.
        clock: Says how old partitions are.
        dry_run: Commit nothing.

    Raises:
        InvalidInputError: The table's format of times is not understood; or a segment of text files
            lies in a partition.
        CommitConflictError, CommitUnknownError: As for other commits.

    Cost:
        Reads the manifests of the newest snapshot.
    """
    options = store.schema.typed_options
    time_ms, latest = options.get(PARTITION_EXPIRATION_TIME), store.snapshots.latest()
    if time_ms is None or latest is None or not store.schema.partition_keys:
        return ExpiredPartitions(snapshot=None, partitions=(), files=0, total_bytes=0)
    now_ms = (clock or SystemClock()).now_millis()
    now = dt.datetime.fromtimestamp(now_ms / 1000)  # noqa: DTZ006  # values say the local time
    ages = _times(store, latest)
    oldest = sorted(ages, key=lambda partition: (ages[partition], partition))
    before = now - dt.timedelta(milliseconds=time_ms)
    limit = options.get(PARTITION_EXPIRATION_MAX_NUM)
    going = [partition for partition in oldest if ages[partition] < before][:limit]
    wanted = frozenset(going)
    gone = [e for e in FileStoreScan(store).live_files(latest) if e.partition in wanted]
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


def _times(store: FileStore, snapshot: Snapshot) -> dict[bytes, dt.datetime]:
    """Return partition → its local time, of those that have one."""
    options = store.schema.typed_options
    live = FileStoreScan(store).live_files(snapshot)
    times: dict[bytes, dt.datetime] = {}
    if options.get(PARTITION_EXPIRATION_STRATEGY) is PartitionExpiration.UPDATE_TIME:
        newest: dict[bytes, int] = {}
        unknown = {entry.partition for entry in live if entry.file.creation_time is None}
        for entry in live:
            created = entry.file.creation_time or 0
            newest[entry.partition] = max(newest.get(entry.partition, 0), created)
        return {
            partition: _EPOCH + dt.timedelta(milliseconds=created)
            for partition, created in newest.items()
            if partition not in unknown
        }
    reader = PartitionTime(options)
    for partition in {entry.partition for entry in live}:
        values = store.partitions.values(partition)
        spec = partition_spec(store.partitions.fields, values, default_name="", legacy=False)
        time = reader.of(spec)
        if time is not None:
            times[partition] = time
    return times
