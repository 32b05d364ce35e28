"""Sums of a table's files, by partition and in all, updated from the sums before where possible."""

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from paimon_assets.engine.control.commit.commit_files import partition_statistics
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.spec.metadata.manifest import ManifestFileMeta
from paimon_assets.engine.spec.metadata.simple_stats import PartitionStatistics
from paimon_assets.engine.spec.metadata.snapshot import Snapshot

_KEPT = 4096
"""Tables whose sums a process remembers; what it forgets is counted anew."""


@dataclass(frozen=True, slots=True)
class TableSums:
    """The numbers of a table as of a snapshot."""

    file_size_in_bytes: int
    file_count: int
    last_file_creation_time: int
    """Epoch milliseconds; of files that are gone, too."""


class _Known:
    """The sums of the newest snapshot this process has counted, by table."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._items: OrderedDict[str, tuple[Snapshot, TableSums]] = OrderedDict()

    def get(self, path: str) -> tuple[Snapshot, TableSums] | None:
        with self._lock:
            return self._items.get(path)

    def put(self, path: str, snapshot: Snapshot, sums: TableSums) -> None:
        with self._lock:
            self._items[path] = (snapshot, sums)
            self._items.move_to_end(path)
            while len(self._items) > _KEPT:
                self._items.popitem(last=False)


_KNOWN = _Known()


def table_sums(store: FileStore, snapshot: Snapshot) -> TableSums:
    """Return the numbers of a table as of a snapshot.

    Cost:
        The manifests of the last commit, if those of the one before were counted; else all.
    """
    path = store.paths.snapshot_directory
    known = _KNOWN.get(path)
    if known is not None and known[0].name == snapshot.name:
        return known[1]
    if known is not None and _follows(store, known[0], snapshot):
        base, metas = known[1], store.manifests.read_list(snapshot.delta_manifest_list)
    else:
        base, metas = TableSums(0, 0, 0), store.manifests.manifests_of(snapshot)
    parts = _sums(store, metas)
    sums = TableSums(
        base.file_size_in_bytes + sum(part.file_size_in_bytes for part in parts),
        base.file_count + sum(part.file_count for part in parts),
        max((base.last_file_creation_time, *(part.last_file_creation_time for part in parts))),
    )
    _KNOWN.put(path, snapshot, sums)
    return sums


def partition_sums(store: FileStore, snapshot: Snapshot) -> list[PartitionStatistics]:
    """Return the numbers of the partitions that hold files.

    Cost:
        All manifests of the snapshot, as far as this process has not decoded them before.
    """
    parts = _sums(store, store.manifests.manifests_of(snapshot))
    return [part for part in parts if part.file_count > 0]


def _follows(store: FileStore, before: Snapshot, snapshot: Snapshot) -> bool:
    """Whether a snapshot is the one after another; ids are used twice, after a rollback."""
    return snapshot.id == before.id + 1 and store.snapshots.is_same(before)


def _sums(store: FileStore, metas: tuple[ManifestFileMeta, ...]) -> list[PartitionStatistics]:
    return partition_statistics(store.partitions, store.manifests.read_all(metas))
