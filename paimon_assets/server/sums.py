"""Sums of a table's files, by partition and in all, updated from the sums before where possible."""

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from paimon_assets.engine.control.commit.commit_files import partition_statistics
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.spec.metadata.manifest import ManifestFileMeta
from paimon_assets.engine.spec.metadata.simple_stats import PartitionStatistics
from paimon_assets.engine.spec.metadata.snapshot import Snapshot

_MOST_TABLES = 4096
"""Tables whose sums a process remembers; those of others are counted again."""


@dataclass(frozen=True, slots=True)
class TableSums:
    """The numbers of a table as of a snapshot."""

    file_size_in_bytes: int
    file_count: int
    last_file_creation_time: int
    """Epoch milliseconds; of files that are gone, too."""


_lock = Lock()
_newest: OrderedDict[str, tuple[Snapshot, TableSums]] = OrderedDict()
"""Table → the newest snapshot that this process has counted, and its sums."""


def table_sums(store: FileStore, snapshot: Snapshot) -> TableSums:
    """Return the numbers of a table as of a snapshot.

    Cost:
        The manifests of the last commit, if those of the one before were counted; else all.
    """
    path = store.paths.snapshot_directory
    with _lock:
        known = _newest.get(path)
    if known is not None and known[0].name == snapshot.name:
        return known[1]
    is_next = known is not None and snapshot.id == known[0].id + 1
    if known is not None and is_next and store.snapshots.is_same(known[0]):  # ids come again
        base, metas = known[1], store.manifests.read_list(snapshot.delta_manifest_list)
    else:
        base, metas = TableSums(0, 0, 0), store.manifests.manifests_of(snapshot)
    parts = _sums(store, metas)
    sums = TableSums(
        base.file_size_in_bytes + sum(part.file_size_in_bytes for part in parts),
        base.file_count + sum(part.file_count for part in parts),
        max((base.last_file_creation_time, *(part.last_file_creation_time for part in parts))),
    )
    with _lock:
        _newest[path] = (snapshot, sums)
        _newest.move_to_end(path)
        while len(_newest) > _MOST_TABLES:
            _newest.popitem(last=False)
    return sums


def partition_sums(store: FileStore, snapshot: Snapshot) -> list[PartitionStatistics]:
    """Return the numbers of the partitions that hold files.

    Cost:
        All manifests of the snapshot, as far as this process has not decoded them before.
    """
    parts = _sums(store, store.manifests.manifests_of(snapshot))
    return [part for part in parts if part.file_count > 0]


def _sums(store: FileStore, metas: tuple[ManifestFileMeta, ...]) -> list[PartitionStatistics]:
    return partition_statistics(store.partitions, store.manifests.read_all(metas))
