"""TableShape: the sorted runs of every bucket, and the cost of reading them; from metadata.

    bucket 0   level 0 ▪ ▪ ▪      four runs: a read merges all of them
               level 5 ▪▪▪▪▪▪▪

A table without primary key has no runs to merge: each file counts as one, since each is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from paimon_assets.engine.control.compact import (
    AppendPlanner,
    LiveBucket,
    files_of_size,
    live_buckets,
    target_bytes_of,
)
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.lsm import Levels
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class RunShape:
    """One sorted run: a read merges it with the others of its bucket."""

    level: int
    file_count: int
    total_bytes: int
    row_count: int
    """Physical rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketShape:
    """The runs of one bucket, newest first; of a partition, where there are no buckets."""

    partition: bytes
    bucket: int
    runs: tuple[RunShape, ...]
    fewest_runs: int
    """How many runs would do: one, or as many files as the bytes fill."""
    small_files: int
    """Files without primary key that the next minor compaction joins."""
    deleted_rows: int
    """Rows that retract, and rows that deletion vectors mark."""

    @property
    def level_0_runs(self) -> int:
        """Runs that no compaction has seen yet."""
        return sum(run.level == 0 for run in self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShape:
    """The files of one snapshot of a table, as reads and compactions see them."""

    has_key: bool
    target_bytes: int
    """Size of full files."""
    buckets: tuple[BucketShape, ...] = ()
    file_sizes: tuple[int, ...] = ()
    """Bytes of each file, ascending."""
    waiting_files: int = 0
    """Files whose rows have no bucket yet, so that nobody reads them."""

    @property
    def total_bytes(self) -> int:
        """Bytes of all files that have a bucket."""
        return sum(self.file_sizes)

    @property
    def row_count(self) -> int:
        """Physical rows."""
        return sum(run.row_count for bucket in self.buckets for run in bucket.runs)

    @property
    def deleted_rows(self) -> int:
        """Rows that a full compaction would drop for being deleted or deleting."""
        return sum(bucket.deleted_rows for bucket in self.buckets)

    @property
    def small_files(self) -> int:
        """Files without primary key that the next minor compaction joins."""
        return sum(bucket.small_files for bucket in self.buckets)

    @property
    def most_runs(self) -> int:
        """Runs of the bucket that has most."""
        return max((len(bucket.runs) for bucket in self.buckets), default=0)

    @property
    def level_0_runs(self) -> int:
        """Runs of level 0 of the bucket that has most, 0 without primary key."""
        if not self.has_key:
            return 0
        return max((bucket.level_0_runs for bucket in self.buckets), default=0)

    @property
    def read_amplification(self) -> float:
        """How many runs are read where one would do: 1.0 cannot be improved.

        With a primary key the sorted runs of a bucket, of which one would do; without, the files,
        of which as many would do as the bytes fill.
        """
        fewest = sum(bucket.fewest_runs for bucket in self.buckets)
        runs = sum(len(bucket.runs) for bucket in self.buckets)
        return runs / fewest if fewest else 1.0


def table_shape(store: FileStore, snapshot: Snapshot | None) -> TableShape:
    """Return the shape of a snapshot; of a table without one it is empty.

    Cost:
        Reads the snapshot's manifests and its index manifest.
    """
    return shape_of_entries(
        store, snapshot, () if snapshot is None else FileStoreScan(store).live_files(snapshot)
    )


def shape_of_entries(
    store: FileStore, snapshot: Snapshot | None, entries: Sequence[ManifestEntry]
) -> TableShape:
    """Return the shape of a snapshot's live files; reads its index manifest alone."""
    target = target_bytes_of(store.schema)
    placed = [entry for entry in entries if entry.bucket >= 0]
    buckets = [] if snapshot is None else live_buckets(store, snapshot, placed)
    return TableShape(
        has_key=store.schema.has_primary_key,
        target_bytes=target,
        buckets=tuple(_bucket_shape(bucket, target) for bucket in buckets),
        file_sizes=tuple(sorted(entry.file.file_size for entry in placed)),
        waiting_files=len(entries) - len(placed),
    )


def _bucket_shape(bucket: LiveBucket, target: int) -> BucketShape:
    schema, joined = bucket.store.schema, 0
    if schema.has_primary_key:
        levels = Levels.of(bucket.files, schema.typed_options)
        runs = tuple(_run_shape(run.level, run.files) for run in levels.runs)
        fewest = 1
    else:
        runs = tuple(_run_shape(0, [file]) for file in bucket.files)
        fewest = min(len(runs), files_of_size(sum(run.total_bytes for run in runs), target))
        units = AppendPlanner(schema=schema, is_full=False).units_of(bucket)
        joined = sum(len(unit.files) for unit in units if len(unit.files) > unit.expected_files)
    own = [file for file in bucket.files if file.external_path is None]
    return BucketShape(
        partition=bucket.key[0],
        bucket=bucket.key[1],
        runs=runs,
        fewest_runs=fewest,
        small_files=joined,
        deleted_rows=_deleted_rows(bucket, own),
    )


def _run_shape(level: int, files: Sequence[DataFileMeta]) -> RunShape:
    return RunShape(
        level=level,
        file_count=len(files),
        total_bytes=sum(file.file_size for file in files),
        row_count=sum(file.row_count for file in files),
    )


def _deleted_rows(bucket: LiveBucket, files: Iterable[DataFileMeta]) -> int:
    """Count the rows that a compaction of these files drops; unknown vectors count nothing."""
    marked = (bucket.vectors.get(file.file_name) for file in files)
    vectors = sum(vector.cardinality or 0 for vector in marked if vector is not None)
    return vectors + sum(file.delete_row_count or 0 for file in files)
