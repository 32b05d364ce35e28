"""What a writer must know of the table before it writes: sequence numbers and bucket counts.

Both come from the live files of the newest snapshot. A process keeps the answer for each table and
adds the files of later snapshots to it, as long as those only add; so the cost of a small commit
does not grow with the table.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Lock

from paimon_assets.engine.contract.context import BucketState
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.spec.manifest import FileKind, ManifestEntry
from paimon_assets.engine.spec.schema import BucketMode
from paimon_assets.engine.spec.snapshot import Snapshot

_TABLES_KEPT = 64
_STEPS_AHEAD = 64
"""More snapshots than this are not added one by one."""


@dataclass(slots=True)
class _LiveBuckets:
    snapshot: Snapshot | None = None
    states: dict[tuple[bytes, int], BucketState] = field(default_factory=dict)
    total_buckets: dict[bytes, int] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def restart(self) -> None:
        """Forget everything."""
        self.snapshot = None
        self.states.clear()
        self.total_buckets.clear()

    def add(self, entries: Iterable[ManifestEntry]) -> None:
        """Take in live files."""
        for entry in entries:
            key = (entry.partition, entry.bucket)
            known = self.states.get(key)
            largest = entry.file.max_sequence_number
            if known is None or known.max_sequence_number < largest:
                self.states[key] = BucketState(
                    partition=entry.partition, bucket=entry.bucket, max_sequence_number=largest
                )
            if entry.total_buckets > 0:
                self.total_buckets[entry.partition] = entry.total_buckets


_KEPT: OrderedDict[tuple[str, str], _LiveBuckets] = OrderedDict()
_LOCK = Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterState:
    """Buckets as a writer finds them."""

    bucket_states: tuple[BucketState, ...] = ()
    """Buckets that hold files."""
    total_buckets: tuple[tuple[bytes, int], ...] = ()
    """(partition, its fixed bucket count) of partitions that hold files."""

    def differing_from(self, buckets: int) -> tuple[tuple[bytes, int], ...]:
        """Return the partitions whose bucket count is not `buckets` (`WriteContext`)."""
        return tuple(item for item in self.total_buckets if item[1] != buckets)


def writer_state(store: FileStore, snapshot: Snapshot | None) -> WriterState:
    """Return what a writer must know of a snapshot: nothing, if the table has no buckets.

    Args:
        store: The table.
        snapshot: The newest one, None if nothing was committed yet.

    Cost:
        O(live files) the first time in a process, or after files were deleted; else O(new files).
    """
    if snapshot is None or store.schema.bucket_mode is BucketMode.BUCKET_UNAWARE:
        return WriterState()
    kept = _kept(store)
    with kept.lock:
        _bring_up_to(kept, store, snapshot)
        return WriterState(
            bucket_states=tuple(kept.states.values()),
            total_buckets=tuple(kept.total_buckets.items()),
        )


def partition_buckets(
    store: FileStore, snapshot: Snapshot | None, partitions: Iterable[bytes]
) -> dict[bytes, int]:
    """Return the fixed bucket count of those partitions that hold files."""
    if snapshot is None:
        return {}
    kept = _kept(store)
    with kept.lock:
        _bring_up_to(kept, store, snapshot)
        return {
            partition: kept.total_buckets[partition]
            for partition in partitions
            if partition in kept.total_buckets
        }


def _kept(store: FileStore) -> _LiveBuckets:
    key = (store.file_io.spec.scheme, store.table_path)
    with _LOCK:
        kept = _KEPT.setdefault(key, _LiveBuckets())
        _KEPT.move_to_end(key)
        while len(_KEPT) > _TABLES_KEPT:
            _KEPT.popitem(last=False)
    return kept


def _bring_up_to(kept: _LiveBuckets, store: FileStore, snapshot: Snapshot) -> None:
    if _is_same(kept.snapshot, snapshot):
        return
    steps = _steps(kept.snapshot, store, snapshot)
    additions = None if steps is None else _additions(store, steps)
    if additions is None:
        kept.restart()
        additions = FileStoreScan(store).live_files(snapshot)
    kept.add(additions)
    kept.snapshot = snapshot


def _is_same(kept: Snapshot | None, now: Snapshot | None) -> bool:
    """Whether two snapshots are one: list names are unique over time, ids are not."""
    if kept is None or now is None:
        return False
    return kept.id == now.id and kept.delta_manifest_list == now.delta_manifest_list


def _steps(kept: Snapshot | None, store: FileStore, snapshot: Snapshot) -> list[Snapshot] | None:
    """Return the snapshots from the kept one (excluded) to `snapshot`, None if there is no way."""
    if kept is None or not kept.id < snapshot.id <= kept.id + _STEPS_AHEAD:
        return None
    if not _is_same(kept, store.snapshots.snapshot_or_none(kept.id)):
        return None
    between = [
        store.snapshots.snapshot_or_none(snapshot_id)
        for snapshot_id in range(kept.id + 1, snapshot.id)
    ]
    known = [step for step in between if step is not None]
    return [*known, snapshot] if len(known) == len(between) else None


def _additions(store: FileStore, steps: Iterable[Snapshot]) -> list[ManifestEntry] | None:
    """Return the files the snapshots added, None if they also deleted some."""
    added: list[ManifestEntry] = []
    for step in steps:
        metas = store.manifests.read_list(step.delta_manifest_list)
        if any(meta.num_deleted_files for meta in metas):
            return None
        for meta in metas:
            added.extend(store.manifests.read(meta))
    return added if all(entry.kind is FileKind.ADD for entry in added) else None
