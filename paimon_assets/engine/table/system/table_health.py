"""How much a table needs upkeep, from metadata alone: `TableShape`, `TableHealth`, `FileDebt`.

    bucket 0   level 0 ▪ ▪ ▪      the shape: four sorted runs; a read merges all of them
               level 5 ▪▪▪▪▪▪▪

A table without primary key has no runs to merge: each file counts as one, since each is opened.
`FileDebt` is the limit of a shape, `HealthLimits` those of a table.
`sys.table_health`, the command `health`, the Dagster asset, its check, the compaction sensor and
the server's metrics all go by these numbers and limits.

Source of the default retention: `org.apache.paimon.CoreOptions`.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Sequence

from paimon_assets.engine.control import compact
from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.listeners import behind
from paimon_assets.engine.control.maintenance.expire_snapshots import Retention
from paimon_assets.engine.control.maintenance.orphan_files import clean_orphan_files
from paimon_assets.engine.control.manifests import stored_format
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.lsm import Levels
from paimon_assets.engine.spec.merge.merge_rules import delete_retention_ms
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, FileOrigin
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options.all_options import MANIFEST_FORMAT
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import counted


class RunShape(Value):
    """One sorted run: a read merges it with the other runs of its bucket."""

    level: int
    file_count: int
    total_bytes: int
    row_count: int
    """Physical rows."""


class BucketShape(Value):
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


class TableShape(Value):
    """The files of one snapshot of a table, as reads and compactions see them."""

    has_key: bool
    target_bytes: int
    """Size of full files."""
    buckets: tuple[BucketShape, ...] = ()
    file_sizes: tuple[int, ...] = ()
    """Bytes of each file, ascending."""
    waiting_files: int = 0
    """Files whose rows have no bucket yet, so that no read shows them."""

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
        """Rows that a full compaction would drop: deleted ones, and deletes."""
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


def table_shape(
    store: FileStore, snapshot: Snapshot | None, predicate: Predicate | None = None
) -> TableShape:
    """Return the shape of a snapshot, or of its files that may hold some rows; empty for None.

    Cost: its manifests and index manifest.
    """
    if snapshot is None:
        return shape_of_entries(store, None, ())
    return shape_of_entries(store, snapshot, FileStoreScan(store).live_files(snapshot, predicate))


def shape_of_entries(
    store: FileStore, snapshot: Snapshot | None, entries: Sequence[ManifestEntry]
) -> TableShape:
    """Return the shape of a snapshot's live files; reads its index manifest alone."""
    target = compact.target_bytes_of(store.schema)
    placed = [entry for entry in entries if entry.bucket >= 0]
    buckets = [] if snapshot is None else compact.live_buckets(store, snapshot, placed)
    return TableShape(
        has_key=store.schema.has_primary_key,
        target_bytes=target,
        buckets=tuple(_bucket_shape(bucket, target) for bucket in buckets),
        file_sizes=tuple(sorted(entry.file.file_size for entry in placed)),
        waiting_files=len(entries) - len(placed),
    )


def _bucket_shape(bucket: compact.LiveBucket, target: int) -> BucketShape:
    schema, joined = bucket.store.schema, 0
    if schema.has_primary_key:
        levels = Levels.of(bucket.files, schema.typed_options)
        runs = tuple(_run_shape(run.level, run.files) for run in levels.runs)
        fewest = 1
    else:
        runs = tuple(_run_shape(0, [file]) for file in bucket.files)
        fewest = min(len(runs), compact.files_of_size(sum(run.total_bytes for run in runs), target))
        units = compact.AppendPlanner(schema=schema, is_full=False).units_of(bucket)
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


def _deleted_rows(bucket: compact.LiveBucket, files: Iterable[DataFileMeta]) -> int:
    """Count the rows that a compaction of these files drops; unknown vectors count nothing."""
    marked = (bucket.vectors.get(file.file_name) for file in files)
    vectors = sum(vector.cardinality or 0 for vector in marked if vector is not None)
    if delete_retention_ms(bucket.store.schema):  # each is kept for a time
        return vectors
    return vectors + sum(file.delete_row_count or 0 for file in files)


_FULL_SCORE = 100
DUE_SCORE = 50
"""The score of a table that just reaches a limit."""


class FileDebt(Value):
    """Limits from which a table is compacted; None is no limit.

    >>> FileDebt(small_files=20).small_files
    20
    """

    level_0_runs: int | None = 5
    """Sorted runs on level 0 of one bucket, each of which every read merges."""
    small_files: int | None = 5
    """Files of a table without key that a minor compaction joins; see `TableShape.small_files`."""
    deleted_rows: float | None = 0.2
    """Part of all rows that are deleted, or delete."""
    waiting_files: int | None = 1
    """Files of postponed rows: invisible until a compaction assigns their bucket."""

    def reasons(self, shape: TableShape) -> list[str]:
        """Return why a table should be compacted; empty if it should not.

        >>> FileDebt(small_files=3).reasons(TableShape(has_key=False, target_bytes=1))
        []
        """
        return [text for load, text in self.loads(shape) if load >= 1]

    def loads(self, shape: TableShape) -> Iterable[tuple[float, str]]:
        """Yield each number divided by its limit, so that 1 is due, and its reason in words."""
        runs, small, deleted = shape.level_0_runs, shape.small_files, shape.deleted_rows
        waiting, rows = shape.waiting_files, max(1, shape.row_count)
        if self.level_0_runs:
            text = f"{counted(runs, 'run')} on level 0 of a bucket (limit {self.level_0_runs})"
            yield runs / self.level_0_runs, text
        if self.small_files and not shape.has_key:
            text = f"{counted(small, 'small file')} (limit {self.small_files})"
            yield small / self.small_files, text
        if self.deleted_rows is not None and deleted:
            load = deleted / (self.deleted_rows * rows) if self.deleted_rows else float("inf")
            yield (load, f"{deleted:,} of {rows:,} rows deleted (limit {self.deleted_rows:.0%})")
        if self.waiting_files:
            text = f"{counted(waiting, 'file')} of rows that wait for a bucket"
            yield waiting / self.waiting_files, text


class HealthLimits(Value):
    """Limits from which a table needs upkeep.

    >>> limits = HealthLimits(debt=FileDebt(small_files=20), consumer_lag=10)
    >>> table_health(table.state.store, limits).reason is None
    True
    """

    debt: FileDebt = FileDebt()
    """A compaction is due."""
    late_expiry: dt.timedelta | None = dt.timedelta(days=1)
    """How long the oldest snapshot may outlive the table's own retention; None never asks."""
    consumer_lag: int | None = None
    """Snapshots that a consumer may be behind; None never asks."""
    orphan_bytes: int | None = None
    """Bytes of files that nothing names. None looks for none: that lists the whole table, and reads
    the manifests of all its snapshots."""


class TableHealth(Value):
    """The upkeep a table needs. Times are milliseconds since 1970, None where there is none."""

    score: int
    """100 needs nothing; 50 and less: a limit is reached, at 25 by twice its number."""
    reason: str | None
    """The limits that are reached, in words, each with the operation that helps."""
    row_count: int
    """Physical rows."""
    total_bytes: int
    file_count: int
    small_file_count: int
    """Files below half of the target size that share a bucket with another file."""
    small_file_ratio: float
    most_runs: int
    """Sorted runs that a read of one bucket merges, or files it opens."""
    level_0_files: int
    waiting_files: int
    """Files of postponed rows, which no read shows yet."""
    deleted_rows: int
    """Rows that a full compaction would drop."""
    snapshot_count: int
    oldest_snapshot_ms: int | None
    newest_snapshot_ms: int | None
    last_compaction_ms: int | None
    """When the newest live file was made by a compaction."""
    consumer_count: int
    consumer_lag: int
    """Snapshots that the slowest consumer is behind."""
    orphan_bytes: int | None = None
    """Bytes of files of more than a day that nothing names; None if not counted."""
    iceberg_behind: int | None = None
    """Commits that readers of Iceberg do not see in full; None without Iceberg metadata."""


def table_health(
    store: FileStore, limits: HealthLimits | None = None, clock: Clock | None = None
) -> TableHealth:
    """Return the health of a table's newest snapshot.

    Cost:
        The manifests of the newest snapshot, the oldest snapshot, one listing of consumers. With a
        limit of orphan bytes also a listing of every folder of the table, and the manifests of all
        its snapshots, changelogs, tags and branches: as a dry run of the cleaning.
    """
    limits, now_ms = limits or HealthLimits(), (clock or SystemClock()).now_millis()
    snapshot = store.snapshots.latest()
    entries = [] if snapshot is None else FileStoreScan(store).live_files(snapshot)
    shape = shape_of_entries(store, snapshot, entries)
    files = [entry.file for entry in entries]
    earliest_id = None if snapshot is None else store.snapshots.earliest_id()
    oldest = None if earliest_id is None else store.snapshots.snapshot_or_none(earliest_id)
    count = 0 if snapshot is None or earliest_id is None else snapshot.id - earliest_id + 1
    nexts = store.consumers.list().values()
    lag = 0 if snapshot is None else max((snapshot.id + 1 - each for each in nexts), default=0)
    orphan_bytes = None
    if limits.orphan_bytes is not None:
        orphan_bytes = clean_orphan_files(store, clock=clock).total_bytes
    loads = [(load, f"{text}: run compact") for load, text in limits.debt.loads(shape)]
    loads += _expiry_load(store, limits, oldest, count, now_ms)
    if snapshot is not None and (fault := manifest_fault(store, snapshot)):
        loads.append((2, fault))
    if limits.consumer_lag:
        reason = f"a consumer is {counted(lag, 'snapshot')} behind"
        loads.append((lag / limits.consumer_lag, reason))
    if limits.orphan_bytes:
        size = orphan_bytes or 0
        loads.append(
            (size / limits.orphan_bytes, f"{size:,} bytes of files that nothing names: run clean")
        )
    in_bucket = Counter((entry.partition, entry.bucket) for entry in entries)
    small = sum(
        entry.file.file_size < shape.target_bytes // 2
        and in_bucket[entry.partition, entry.bucket] > 1
        for entry in entries
    )
    return TableHealth(
        score=_score(max((load for load, _ in loads), default=0.0)),
        reason="; ".join(text for load, text in loads if load >= 1) or None,
        row_count=sum(file.row_count for file in files),
        total_bytes=sum(file.file_size for file in files),
        file_count=len(files),
        small_file_count=small,
        small_file_ratio=round(small / len(files), 4) if files else 0.0,
        most_runs=shape.most_runs,
        level_0_files=sum(file.level == 0 for file in files) if shape.has_key else 0,
        waiting_files=shape.waiting_files,
        deleted_rows=shape.deleted_rows,
        snapshot_count=count,
        oldest_snapshot_ms=None if oldest is None else oldest.time_millis,
        newest_snapshot_ms=None if snapshot is None else snapshot.time_millis,
        last_compaction_ms=newest_file_ms(
            file for file in files if file.file_source is FileOrigin.COMPACT
        ),
        consumer_count=len(nexts),
        consumer_lag=max(lag, 0),
        orphan_bytes=orphan_bytes,
        iceberg_behind=behind(store),
    )


def manifest_fault(store: FileStore, snapshot: Snapshot) -> str | None:
    """Return why other engines cannot read a snapshot's manifests, None if they can."""
    option = store.schema.typed_options.get(MANIFEST_FORMAT)
    stored = stored_format(store.file_io, store.paths, snapshot)
    if option == stored:
        return None
    return (
        f"other engines take the manifests for {option} and cannot read the table: they are"
        f" {stored}; set '{MANIFEST_FORMAT.key}' to {stored}"
    )


def _expiry_load(
    store: FileStore, limits: HealthLimits, oldest: Snapshot | None, count: int, now_ms: int
) -> Iterable[tuple[float, str]]:
    retention = Retention.of_snapshots(store.schema.typed_options)
    if oldest is None or not limits.late_expiry or count <= retention.min_count:
        return
    late_ms = now_ms - oldest.time_millis - retention.time_ms
    days = late_ms / 86_400_000
    late = f"the oldest {days:,.1f} days beyond its retention"
    text = f"{counted(count, 'snapshot')}, {late}: run expire"
    yield late_ms / (limits.late_expiry.total_seconds() * 1000), text


def newest_file_ms(files: Iterable[DataFileMeta]) -> int | None:
    """Return the creation time of the newest file; None if no file has one."""
    made = [file.creation_time for file in files if file.creation_time is not None]
    if not made:
        return None
    # Files store a local wall clock, as Java does.
    local = dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=max(made))  # noqa: DTZ001
    return int(local.timestamp() * 1000)


def _score(load: float) -> int:
    """Return the score of the largest load: 100 at 0, 50 at its limit, then half of that at twice.

    >>> [_score(load) for load in (0, 0.5, 1, 2, 10)]
    [100, 75, 50, 25, 5]
    """
    if load < 1:
        # Below its limit nothing is due, so rounding must not reach the score of due work.
        return max(_FULL_SCORE - round(DUE_SCORE * max(load, 0)), DUE_SCORE + 1)
    return int(DUE_SCORE / load)
