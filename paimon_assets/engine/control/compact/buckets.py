"""The buckets of a snapshot as a compaction sees them, and the units that are planned for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from paimon_assets.engine.contract.split import DataSplit, DeletionFile
from paimon_assets.engine.contract.tasks.compact_task import CompactTask
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.deletion_files import deletion_files
from paimon_assets.engine.control.scan.split_generator import by_bucket
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.index_file import DELETION_VECTORS_INDEX, IndexFileMeta
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options.all_options import (
    INDEX_FILE_IN_DATA_DIRECTORY,
    TARGET_FILE_SIZE,
)
from paimon_assets.engine.spec.schema.schema import TableSchema

BucketKey = tuple[bytes, int]
"""(partition, bucket)."""


@dataclass(frozen=True, kw_only=True)
class LiveBucket:
    """The live files of one bucket."""

    store: FileStore
    snapshot: Snapshot
    key: BucketKey
    total_buckets: int
    files: tuple[DataFileMeta, ...]
    """In manifest order."""
    vectors: Mapping[str, DeletionFile] = field(default_factory=dict)
    """Data file name → its deletion vector."""
    index_files: tuple[IndexFileMeta, ...] = ()
    """Those of deletion vectors."""

    @property
    def path(self) -> str:
        """Its directory."""
        return self.store.partitions.bucket_path(self.store.paths, *self.key)

    @property
    def index_directory(self) -> str:
        """Where its index files lie."""
        if self.store.schema.typed_options.get(INDEX_FILE_IN_DATA_DIRECTORY):
            return self.path
        return self.store.paths.index_directory

    def split(self, files: Sequence[DataFileMeta]) -> DataSplit:
        """Return some of the files as a worker reads them, in the order given."""
        found = [self.vectors.get(file.file_name) for file in files]
        partition, bucket = self.key
        return DataSplit(
            snapshot_id=self.snapshot.id,
            partition=partition,
            bucket=bucket,
            bucket_path=self.path,
            total_buckets=self.total_buckets,
            data_files=tuple(files),
            deletion_files=tuple(found) if any(found) else None,
        )


def live_buckets(
    store: FileStore, snapshot: Snapshot, entries: Iterable[ManifestEntry]
) -> list[LiveBucket]:
    """Return the buckets of live entries, in the order of their first file."""
    members = by_bucket(entries)
    if not members:
        return []
    vectors = deletion_files(store, snapshot, members)
    indexes: dict[BucketKey, list[IndexFileMeta]] = {}
    if snapshot.index_manifest is not None:
        for index in store.manifests.read_index(snapshot.index_manifest):
            if index.file.index_type == DELETION_VECTORS_INDEX:
                indexes.setdefault((index.partition, index.bucket), []).append(index.file)
    buckets = []
    for key, entries in members.items():
        files = tuple(entry.file for entry in entries)
        of_files = ((file.file_name, vectors.get((*key, file.file_name))) for file in files)
        buckets.append(
            LiveBucket(
                store=store,
                snapshot=snapshot,
                key=key,
                total_buckets=entries[0].total_buckets,
                files=files,
                vectors={name: vector for name, vector in of_files if vector is not None},
                index_files=tuple(indexes.get(key, ())),
            )
        )
    return buckets


_TARGET_WITH_KEY = 128 * 1024 * 1024
_TARGET_WITHOUT_KEY = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedUnit:
    """Files of one bucket that are compacted by one task."""

    task: CompactTask
    reason: str
    upgrades: int = 0
    """Files that only change their level."""
    runs_before: int
    """Sorted runs of the bucket; files, if the table has no key."""
    runs_after: int
    expected_files: int
    """An estimate of the files that replace the unit's."""

    @property
    def partition(self) -> bytes:
        """Serialized BinaryRow of the partition values."""
        return self.task.split.partition

    @property
    def bucket(self) -> int:
        """Number of the bucket."""
        return self.task.split.bucket

    @property
    def files(self) -> Sequence[DataFileMeta]:
        """The files to compact."""
        return self.task.split.data_files

    @property
    def file_bytes(self) -> int:
        """Their bytes."""
        return self.task.split.file_bytes

    @property
    def row_count(self) -> int:
        """Their physical rows."""
        return self.task.split.row_count


def target_bytes_of(schema: TableSchema) -> int:
    """Return the size of full files of a table."""
    default = _TARGET_WITH_KEY if schema.has_primary_key else _TARGET_WITHOUT_KEY
    return schema.typed_options.get(TARGET_FILE_SIZE) or default


def files_of_size(total_bytes: int, target_bytes: int) -> int:
    """Return how many files of the target size so many bytes fill."""
    return -(-total_bytes // max(1, target_bytes))
