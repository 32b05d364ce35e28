"""A snapshot ─▶ units of work: which files to compact together, bucket by bucket.

Planned from manifests alone; no data file is opened.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from paimon_assets.engine.contract.clustering import ClusterOrder
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.tasks.compact_task import CompactTask
from paimon_assets.engine.control.clock import Clock
from paimon_assets.engine.control.commit.partition_filter import PartitionFilter
from paimon_assets.engine.control.compact.append import AppendPlanner
from paimon_assets.engine.control.compact.buckets import BucketKey, LiveBucket, live_buckets
from paimon_assets.engine.control.compact.clustering import check_order, clustering_units
from paimon_assets.engine.control.compact.keyed import KeyedPlanner
from paimon_assets.engine.control.compact.unit import PlannedUnit
from paimon_assets.engine.control.features import check_key_types, check_writable
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.metadata.wall_clock import wall_clock_ms
from paimon_assets.engine.spec.paths import POSTPONE_BUCKET
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.schema.schema import BucketMode

_WAITING_ROWS = "waiting-rows"


class CompactStrategy(StrEnum):
    """The amount of work of a compaction."""

    MINOR = "minor"
    """What is due by the table's options."""
    FULL = "full"
    """Every bucket to one sorted run without deletes, every small file."""
    SORT = "sort"
    """All rows of each partition in another order (`CompactScope.order`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactScope:
    """The scope of a compaction."""

    strategy: CompactStrategy = CompactStrategy.MINOR
    order: ClusterOrder | None = None
    """What `SORT` sorts by."""
    predicate: Predicate | None = None
    """Bound, over partition columns."""
    idle_ms: int | None = None
    """Only partitions whose newest file is older."""
    buckets: frozenset[BucketKey] | None = None
    """Only these."""
    compacted_files: frozenset[str] = frozenset()
    """Names of files that are compacted already, though not committed yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """The plan of a compaction; nothing is written yet."""

    snapshot: Snapshot | None
    """It was planned on; None if the table has none."""
    context: ReadContext
    """The context that all tasks share."""
    units: tuple[PlannedUnit, ...] = ()
    waiting: tuple[PlannedUnit, ...] = ()
    """Files of a table with postponed buckets whose rows have none yet, a unit each partition."""

    @property
    def subject(self) -> str:
        """The table and the snapshot, for people."""
        table = self.context.table
        return f"{table}, snapshot {self.snapshot.id}" if self.snapshot else table


def plan_compaction(store: FileStore, scope: CompactScope, clock: Clock) -> CompactionPlan:
    """Plan a compaction of the newest snapshot.

    Raises:
        InvalidInputError: Kind `partition-spec`, the predicate looks at other columns; or
            `cluster-order`, the table cannot be sorted so.
        UnsupportedFeatureError: The table is not one this engine writes.
        CommitConflictError: Kind `schema-changed`; the schema is not the newest any more.

    Cost:
        Reads the manifests of the chosen partitions.
    """
    check_writable(store.label, store.schema)
    if scope.strategy is CompactStrategy.SORT:
        check_order(store.label, store.schema, scope.order)
    snapshot = store.newest()
    entries = PartitionFilter.where(store, scope.predicate).live_files(snapshot)
    if snapshot is None:
        return CompactionPlan(snapshot=None, context=_context(store, ()))
    now_ms = wall_clock_ms(clock.now_millis())
    if scope.idle_ms is not None:
        entries = _idle(entries, now_ms - scope.idle_ms)
    places = scope.buckets
    chosen = [e for e in entries if places is None or (e.partition, e.bucket) in places]
    placed = [entry for entry in chosen if entry.bucket >= 0]
    units = tuple(_units(store, scope, live_buckets(store, snapshot, placed), now_ms))
    waiting = tuple(_waiting(store, snapshot, chosen))
    schema_ids = sorted({file.schema_id for unit in (*units, *waiting) for file in _files(unit)})
    store.refuse_newer(schema_ids)
    if store.schema.has_primary_key:
        for schema_id in schema_ids:
            check_key_types(store.label, store.schema, store.schemas.schema(schema_id))
    context = _context(store, schema_ids)
    return CompactionPlan(snapshot=snapshot, context=context, units=units, waiting=waiting)


def _units(
    store: FileStore, scope: CompactScope, buckets: Iterable[LiveBucket], now_ms: int
) -> Iterator[PlannedUnit]:
    if scope.strategy is CompactStrategy.SORT:
        yield from clustering_units(store.schema, buckets)
        return
    is_full = scope.strategy is CompactStrategy.FULL
    if not store.schema.has_primary_key:
        append = AppendPlanner(
            schema=store.schema, is_full=is_full, compacted_files=scope.compacted_files
        )
        for bucket in buckets:
            yield from append.units_of(bucket)
        return
    keyed = KeyedPlanner(schema=store.schema, is_full=is_full, now_ms=now_ms)
    for bucket in buckets:
        unit = keyed.unit_of(bucket)
        if unit is not None:
            yield unit


def _waiting(
    store: FileStore, snapshot: Snapshot, entries: Iterable[ManifestEntry]
) -> Iterator[PlannedUnit]:
    """Yield the waiting files of each partition, in the order their rows were written.

    That is the order of their creation, and of the manifests where moments are equal.
    Source: `org.apache.paimon.flink.postpone.PostponeBucketCompactSplitSource`.
    """
    if store.schema.bucket_mode is not BucketMode.POSTPONE:
        return
    found: dict[bytes, list[DataFileMeta]] = {}
    for entry in entries:
        if entry.bucket == POSTPONE_BUCKET:
            found.setdefault(entry.partition, []).append(entry.file)
    for partition, files in found.items():
        split = DataSplit(
            snapshot_id=snapshot.id,
            partition=partition,
            bucket=POSTPONE_BUCKET,
            bucket_path=store.partitions.bucket_path(store.paths, partition, POSTPONE_BUCKET),
            total_buckets=POSTPONE_BUCKET,
            data_files=tuple(sorted(files, key=lambda file: file.creation_time or 0)),
            is_streaming=True,
        )
        yield PlannedUnit(
            task=CompactTask(split=split),
            reason=_WAITING_ROWS,
            runs_before=0,
            runs_after=0,
            expected_files=1,
        )


def _files(unit: PlannedUnit) -> Iterator[DataFileMeta]:
    yield from unit.task.split.data_files
    if unit.task.above is not None:
        yield from unit.task.above.data_files


def _idle(entries: Iterable[ManifestEntry], before_ms: int) -> list[ManifestEntry]:
    """Keep the entries of partitions whose newest file is not younger than a moment."""
    listed = list(entries)
    newest: dict[bytes, int] = {}
    for entry in listed:
        created = entry.file.creation_time or 0
        newest[entry.partition] = max(newest.get(entry.partition, 0), created)
    return [entry for entry in listed if newest[entry.partition] <= before_ms]


def _context(store: FileStore, schema_ids: Iterable[int]) -> ReadContext:
    return ReadContext(
        table=store.label,
        schema=store.schema,
        file_schemas=tuple(
            store.schemas.schema(number) for number in schema_ids if number != store.schema.id
        ),
        columns=store.schema.field_names,
        file_io=store.file_io.spec,
    )
