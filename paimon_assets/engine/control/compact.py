"""A snapshot → units of work: which files to compact together, bucket by bucket.

Planned from manifests alone; external files stay as they are.

    primary key          the runs that `lsm` chooses
    without              small files, and files with many deleted rows; those whose deletion vectors
                         are in one index file are joined, because it is replaced as a whole
    without, sorted      all files of a partition. Java replaces partitions, so rows of concurrent
                         appends are lost; here only the files that were read are replaced

Source: `org.apache.paimon.mergetree.compact.MergeTreeCompactManager`,
`org.apache.paimon.append.AppendCompactCoordinator`, `BucketedAppendCompactManager`,
`org.apache.paimon.flink.action.SortCompactAction`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import field
from msgspec.structs import replace

from paimon_assets.engine import lsm
from paimon_assets.engine.codec.rows.binary_row import key_range
from paimon_assets.engine.contract.commit_message import CommitMessage, DataIncrement
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.executor import ClusterOrder
from paimon_assets.engine.contract.split import DataSplit, DeletionFile
from paimon_assets.engine.contract.write_tasks import CompactTask
from paimon_assets.engine.control.clock import Clock
from paimon_assets.engine.control.commit.changes import changes_of
from paimon_assets.engine.control.commit.checks import CommitChecks
from paimon_assets.engine.control.commit.partition_filter import PartitionFilter
from paimon_assets.engine.control.commit.request import CommitRequest
from paimon_assets.engine.control.features import check_compactable, check_sortable, refuse_ranges
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.partition_age import expired_partitions, newest_files
from paimon_assets.engine.control.scan.file_pruning import FilePruning
from paimon_assets.engine.control.scan.split_generator import by_bucket, deletion_files, has_deletes
from paimon_assets.engine.errors import CommitConflictError, InvalidInputError
from paimon_assets.engine.spec.merge.engine_traits import LookupStrategy
from paimon_assets.engine.spec.merge.merge_rules import delete_retention_ms, expired_rows
from paimon_assets.engine.spec.metadata.data_file import (
    DataFileMeta,
    instant_ms,
    range_row_count,
    row_ranges,
    wall_clock_ms,
)
from paimon_assets.engine.spec.metadata.manifest import (
    DELETION_VECTORS_INDEX,
    IndexFileMeta,
    ManifestEntry,
)
from paimon_assets.engine.spec.metadata.snapshot import CommitKind, Snapshot
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.paths import POSTPONE_BUCKET
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.schema.schema import BucketMode, TableSchema
from paimon_assets.engine.spec.types.data_types import AtomicType, TypeRoot
from paimon_assets.engine.spec.values import Value

BucketKey = tuple[bytes, int]
"""(partition, bucket)."""


class LiveBucket(Value):
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
        return self.store.bucket_path(*self.key)

    def indexes_of(self, names: Iterable[str]) -> set[str]:
        """Return the names of the index files that mark rows of some data files."""
        wanted = set(names)
        return {
            index.file_name
            for index in self.index_files
            if any(vector.data_file_name in wanted for vector in index.deletion_vectors or ())
        }

    @property
    def index_directory(self) -> str:
        if self.store.schema.typed_options.get(opt.INDEX_FILE_IN_DATA_DIRECTORY):
            return self.path
        return self.store.paths.index_directory

    def message(self, increment: DataIncrement) -> CommitMessage:
        partition, bucket = self.key
        return CommitMessage(
            partition=partition,
            bucket=bucket,
            total_buckets=self.total_buckets,
            data_increment=increment,
        )

    def split(self, files: Sequence[DataFileMeta]) -> DataSplit:
        """Return some of the files as a worker reads them, in the order given."""
        vectors = [self.vectors.get(file.file_name) for file in files]
        partition, bucket = self.key
        return DataSplit(
            snapshot_id=self.snapshot.id,
            partition=partition,
            bucket=bucket,
            bucket_path=self.path,
            total_buckets=self.total_buckets,
            data_files=tuple(files),
            deletion_files=tuple(vectors) if any(vectors) else None,
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


class PlannedUnit(Value):
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
        return self.task.split.bucket

    @property
    def files(self) -> Sequence[DataFileMeta]:
        return self.task.split.data_files

    @property
    def file_bytes(self) -> int:
        return self.task.split.file_bytes

    @property
    def row_count(self) -> int:
        return self.task.split.row_count


def target_bytes_of(schema: TableSchema) -> int:
    default = _TARGET_WITH_KEY if schema.has_primary_key else _TARGET_WITHOUT_KEY
    return schema.typed_options.get(opt.TARGET_FILE_SIZE) or default


def files_of_size(total_bytes: int, target_bytes: int) -> int:
    """Return how many files of the target size so many bytes fill."""
    return -(-total_bytes // max(1, target_bytes))


_FEWEST_FILES = 2


class AppendPlanner(Value):
    schema: TableSchema
    is_full: bool
    """Whether two small files are worth a task, and a single deleted row."""
    compacted_files: frozenset[str] = frozenset()
    """Names of files that stay where they are, between their neighbours."""

    @property
    def target_bytes(self) -> int:
        return target_bytes_of(self.schema)

    @property
    def rewrites_all(self) -> bool:
        """Whether full files are rewritten too."""
        return self.is_full and self.schema.typed_options.get(opt.COMPACTION_REWRITE_ALL_FILES)

    def units_of(self, bucket: LiveBucket) -> Iterator[PlannedUnit]:
        """Yield the units of a bucket (a partition, where there are no buckets)."""
        options = self.schema.typed_options
        min_files = _FEWEST_FILES if self.is_full else options.get(opt.COMPACTION_MIN_FILE_NUM)
        rules = lsm.AppendCompaction(
            target_bytes=self.target_bytes,
            open_file_bytes=options.get(opt.SPLIT_OPEN_FILE_COST),
            min_files=1 if self.rewrites_all else min_files,
            is_full=self.is_full,
        )
        ordered: Sequence[DataFileMeta] = bucket.files
        if self.schema.bucket_mode is BucketMode.BUCKET_UNAWARE:
            index_of = {
                vector.data_file_name: index.file_name
                for index in bucket.index_files
                for vector in index.deletion_vectors or ()
            }
            candidates = [file for file in ordered if self._is_candidate(file, bucket)]
            groups = rules.in_any_order(candidates, lambda file: index_of.get(file.file_name))
        else:
            ordered = sorted(ordered, key=lambda file: file.min_sequence_number)
            groups = rules.in_order(
                ordered,
                lambda file: self._is_candidate(file, bucket),
                lambda file: self._has_many_deletes(file, bucket),
            )
            if bucket.index_files and groups:
                # The index file of a bucket is replaced as a whole, so by one task.
                groups = [max(groups, key=len)]
        for group in groups:
            names = {file.file_name for file in group}
            indexes = bucket.indexes_of(names)
            touched = [index for index in bucket.index_files if index.file_name in indexes]
            reason = "deleted-rows" if touched else "small-files"
            files = [file for file in ordered if file.file_name in names]
            yield _rewriting(bucket, files, touched, "rewrite" if self.rewrites_all else reason)

    def ranges_of(self, bucket: LiveBucket) -> Iterator[PlannedUnit]:
        """Yield the units of a data-evolution table: neighbouring ranges of row ids become one.

        Those whose deletion vectors lie in one index file go to one task, which replaces it.
        """
        refuse_ranges(bucket.store.label, bucket.files)
        min_files = self.schema.typed_options.get(opt.COMPACTION_MIN_FILE_NUM)
        fewest = _FEWEST_FILES if self.is_full else max(_FEWEST_FILES, min_files)
        units: list[tuple[list[list[DataFileMeta]], set[str]]] = []
        for files in self._neighbours(bucket.files):
            if len(files) < fewest:
                continue
            joins, indexes = [files], bucket.indexes_of(file.file_name for file in files)
            for sharing in [each for each in units if not indexes.isdisjoint(each[1])]:
                units.remove(sharing)
                joins, indexes = [*sharing[0], *joins], indexes | sharing[1]
            units.append((joins, indexes))
        for joins, indexes in units:
            unit = _rewriting(
                bucket,
                [file for files in joins for file in files],
                [index for index in bucket.index_files if index.file_name in indexes],
                "small-files",
            )
            yield replace(unit, task=replace(unit.task, joins=tuple(map(len, joins))))

    def _neighbours(self, files: Iterable[DataFileMeta]) -> Iterator[list[DataFileMeta]]:
        """Yield the files of ranges without a gap between them, about a target file at a time."""
        taken: list[DataFileMeta] = []
        end = size = 0
        for group in row_ranges(files):
            first, group_size = group[0].first_row_id or 0, sum(file.file_size for file in group)
            is_done = any(file.file_name in self.compacted_files for file in group)
            if is_done or first != end or size + group_size > self.target_bytes:
                yield taken
                taken, size = [], 0
            if not is_done:
                taken, size = [*taken, *group], size + group_size
            end = first + range_row_count(group)
        yield taken

    def _is_candidate(self, file: DataFileMeta, bucket: LiveBucket) -> bool:
        if file.external_path is not None or file.file_name in self.compacted_files:
            return False
        if self.rewrites_all:
            return True
        small = self.target_bytes * self.schema.typed_options.get(opt.COMPACTION_SMALL_FILE_RATIO)
        return file.file_size < small or self._has_many_deletes(file, bucket)

    def _has_many_deletes(self, file: DataFileMeta, bucket: LiveBucket) -> bool:
        vector = bucket.vectors.get(file.file_name)
        if vector is None or file.external_path is not None:
            return False
        ratio = 0.0 if self.is_full else self.schema.typed_options.get(opt.COMPACTION_DELETE_RATIO)
        return vector.cardinality is None or vector.cardinality > file.row_count * ratio


def _rewriting(
    bucket: LiveBucket, files: Sequence[DataFileMeta], indexes: Sequence[IndexFileMeta], reason: str
) -> PlannedUnit:
    """Return the unit that writes files of a table without key again."""
    target = target_bytes_of(bucket.store.schema)
    expected = files_of_size(sum(file.file_size for file in files), target)
    return PlannedUnit(
        task=CompactTask(
            split=bucket.split(files),
            index_files=tuple(indexes),
            index_directory=bucket.index_directory,
        ),
        reason=reason,
        runs_before=len(bucket.files),
        runs_after=len(bucket.files) - len(files) + expected,
        expected_files=expected,
    )


_HOUR_MS = 3_600_000


class KeyedPlanner(Value):
    schema: TableSchema
    is_full: bool
    now_ms: int
    """The local wall clock, as files say their creation."""
    expired: Predicate | None
    """Rows that are too old; bound."""
    schema_of: Callable[[int], TableSchema]

    def _expired_files(self, files: Sequence[DataFileMeta]) -> tuple[str, ...]:
        """Return the files with rows, or deletes, that are too old."""
        limit_ms = self.now_ms - delete_retention_ms(self.schema)
        names = [
            f.file_name for f in files if has_deletes(f) and (f.creation_time or 0) <= limit_ms
        ]
        if self.expired is not None:
            pruning = FilePruning(self.schema, self.expired, self.schema_of)
            names += [file.file_name for file in files if pruning.shows_match(file)]
        return tuple(names)

    def unit_of(self, bucket: LiveBucket) -> PlannedUnit | None:
        """Return the unit of a bucket, None if nothing is due."""
        levels = lsm.Levels.of(bucket.files, self.schema.typed_options)
        unit = self._pick(levels, bucket)
        if unit is None:
            return None
        strategy = LookupStrategy.of(self.schema)
        # Below the top level an older row of the key may lie, which would come back.
        expires = unit.output_level == levels.max_level
        task = CompactTask(
            split=bucket.split(unit.files),
            above=self._above(unit, bucket, strategy),
            output_level=unit.output_level,
            max_level=levels.max_level,
            drops_deletes=lsm.drops_deletes(unit, levels, has_vectors=strategy.deletion_vectors),
            now_ms=instant_ms(self.now_ms),
            delete_retention_ms=delete_retention_ms(self.schema),
            rewrites_files=unit.rewrites_files,
            expired=self.expired if expires else None,
            expired_files=self._expired_files(unit.files) if expires else (),
            index_files=bucket.index_files,
            index_directory=bucket.index_directory,
        )
        return self._plan(unit, levels, bucket, task)

    def _pick(self, levels: lsm.Levels, bucket: LiveBucket) -> lsm.CompactUnit | None:
        if self.is_full:
            every = self.schema.typed_options.get(opt.COMPACTION_REWRITE_ALL_FILES)
            names = bucket.vectors.keys() | set(self._expired_files(bucket.files))
            marked = [file for file in bucket.files if every or file.file_name in names]
            return lsm.pick_full(levels, marked)
        rules = lsm.UniversalCompaction.of(
            self.schema.typed_options,
            needs_lookup=LookupStrategy.of(self.schema).is_needed,
            hour=self.now_ms // _HOUR_MS % 24,
        )
        top = [file for file in bucket.files if file.level == levels.max_level]
        written = max((file.creation_time or 0 for file in top), default=None)
        since = None if written is None else self.now_ms - written
        return rules.pick(levels, since_full_ms=since)

    def _above(
        self, unit: lsm.CompactUnit, bucket: LiveBucket, strategy: LookupStrategy
    ) -> DataSplit | None:
        """Return the files in which keys of level 0 are looked up."""
        taken = {file.file_name for file in unit.files}
        if not strategy.is_needed or not any(file.level == 0 for file in unit.files):
            return None
        above = [
            file
            for file in bucket.files
            if file.level > unit.output_level and file.file_name not in taken
        ]
        return bucket.split(above) if above else None

    def _plan(
        self, unit: lsm.CompactUnit, levels: lsm.Levels, bucket: LiveBucket, task: CompactTask
    ) -> PlannedUnit:
        options = self.schema.typed_options
        target = target_bytes_of(self.schema)
        shape = lsm.UnitShape(
            output_level=unit.output_level,
            max_level=levels.max_level,
            min_file_size=int(target * options.get(opt.COMPACTION_SMALL_FILE_RATIO)),
            to_rewrite=bucket.vectors.keys(),
            expired=task.expired_files,
            rewrites_files=unit.rewrites_files,
            moves_files=not options.get(opt.COMPACTION_REWRITE_ALL_FILES),
        )
        types = [field.type for field in self.schema.key_fields]
        sections = lsm.interval_partition(unit.files, lambda file: key_range(file, types))
        steps = lsm.compact_steps(sections, shape)
        rewritten = [
            sum(file.file_size for section in group for run in section for file in run)
            for group in steps.rewrites
        ]
        taken = {file.file_name for file in unit.files}
        left = [run for run in levels.runs if run.files[0].file_name not in taken]
        stays = unit.rewrites_files or any(run.level == unit.output_level for run in left)
        return PlannedUnit(
            task=task,
            reason=str(unit.reason),
            upgrades=len(steps.upgrades),
            runs_before=len(levels.runs),
            runs_after=len(left) + (not stays),
            expected_files=len(steps.upgrades)
            + sum(files_of_size(size, target) for size in rewritten),
        )


_MOST_COLUMNS = 16
_UNORDERED = frozenset({TypeRoot.VARIANT, TypeRoot.BLOB})


def check_order(table: str, schema: TableSchema, order: ClusterOrder | None) -> None:
    """Refuse columns that cannot be sorted by."""

    def refusal(reason: str) -> InvalidInputError:
        return InvalidInputError(
            f"Table '{table}' cannot be sorted: {reason}.", kind="cluster-order", table=table
        )

    if schema.has_primary_key or schema.bucket_mode is not BucketMode.BUCKET_UNAWARE:
        raise refusal("it has a primary key or buckets, which order its rows")
    names = () if order is None else order.columns
    if not 0 < len(names) <= _MOST_COLUMNS or len(set(names)) < len(names):
        raise refusal(f"name 1 to {_MOST_COLUMNS} different columns to sort by")
    for name in names:
        column = schema.by_name.get(name)
        if column is None:
            raise refusal(f"it has no column '{name}'")
        if not isinstance(column.type, AtomicType) or column.type.root in _UNORDERED:
            raise refusal(f"values of column '{name}' ({column.type}) have no order")


def clustering_units(buckets: Iterable[LiveBucket]) -> Iterator[PlannedUnit]:
    """Yield a unit for each partition that has files of its own."""
    for bucket in buckets:
        files = [file for file in bucket.files if file.external_path is None]
        if not files:
            continue
        names = {file.file_name for file in files}
        for index in bucket.index_files:
            if not names.issuperset(v.data_file_name for v in index.deletion_vectors or ()):
                raise InvalidInputError(
                    f"Table '{bucket.store.label}' cannot be sorted: index file "
                    f"'{index.file_name}' marks deleted rows of files that are not the table's.",
                    kind="cluster-order",
                    table=bucket.store.label,
                    file=index.file_name,
                )
        yield _rewriting(bucket, files, bucket.index_files, "clustering")


class CompactStrategy(StrEnum):
    MINOR = "minor"
    """Compact the files that are due by the table's options."""
    FULL = "full"
    """Every bucket to one sorted run without deletes, every small file."""
    SORT = "sort"
    """All rows of each partition in another order (`CompactScope.order`)."""


class CompactScope(Value):
    strategy: CompactStrategy = CompactStrategy.MINOR
    order: ClusterOrder | None = None
    predicate: Predicate | None = None
    """Bound, over partition columns."""
    idle_ms: int | None = None
    """Only partitions whose newest file is older."""
    buckets: frozenset[BucketKey] | None = None
    bucket_numbers: frozenset[int] | None = None
    """Only buckets of these numbers."""
    compacted_files: frozenset[str] = frozenset()
    """Names of files that are compacted but not committed yet."""


class CompactionPlan(Value):
    """The plan of a compaction; nothing is written yet."""

    snapshot: Snapshot | None
    context: ReadContext
    units: tuple[PlannedUnit, ...] = ()
    waiting: tuple[PlannedUnit, ...] = ()
    """Files whose rows get their bucket by this compaction, a unit each partition."""

    @property
    def subject(self) -> str:
        """The table and the snapshot, for people."""
        table = self.context.table
        return f"{table}, snapshot {self.snapshot.id}" if self.snapshot else table


def plan_compaction(store: FileStore, scope: CompactScope, clock: Clock) -> CompactionPlan:
    """Plan a compaction of the newest snapshot. Cost: the manifests of the chosen partitions."""
    check_compactable(store.label, store.schema)
    if scope.strategy is CompactStrategy.SORT:
        check_sortable(store.label, store.schema)
        check_order(store.label, store.schema, scope.order)
    snapshot = store.snapshots.latest()
    entries = PartitionFilter.where(store, scope.predicate).live_files(snapshot)
    if snapshot is None:
        return CompactionPlan(snapshot=None, context=store.rewrite_context(()))
    now_ms = clock.now_millis()
    if scope.idle_ms is not None:
        before_ms, newest = wall_clock_ms(now_ms) - scope.idle_ms, newest_files(entries)
        entries = [entry for entry in entries if newest[entry.partition] <= before_ms]
    if store.schema.typed_options.get(opt.COMPACTION_SKIP_EXPIRED_PARTITIONS):
        expired = set(expired_partitions(store, entries, now_ms))
        entries = [entry for entry in entries if entry.partition not in expired]
    if scope.buckets is not None:
        entries = [e for e in entries if (e.partition, e.bucket) in scope.buckets]
    if scope.bucket_numbers is not None:
        entries = [entry for entry in entries if entry.bucket in scope.bucket_numbers]
    store.refuse_retyped("compact", {entry.file.schema_id for entry in entries})
    buckets = live_buckets(store, snapshot, (entry for entry in entries if entry.bucket >= 0))
    units = tuple(_units(store, scope, buckets, now_ms))
    waiting = tuple(_plan_postponed(store, snapshot, entries))
    splits = [split for unit in (*units, *waiting) for split in (unit.task.split, unit.task.above)]
    context = store.rewrite_context(
        file.schema_id for split in splits if split is not None for file in split.data_files
    )
    return CompactionPlan(snapshot=snapshot, context=context, units=units, waiting=waiting)


def _units(
    store: FileStore, scope: CompactScope, buckets: Iterable[LiveBucket], now_ms: int
) -> Iterator[PlannedUnit]:
    if scope.strategy is CompactStrategy.SORT:
        yield from clustering_units(buckets)
        return
    is_full = scope.strategy is CompactStrategy.FULL
    if not store.schema.has_primary_key:
        append = AppendPlanner(
            schema=store.schema, is_full=is_full, compacted_files=scope.compacted_files
        )
        evolves = store.schema.typed_options.get(opt.DATA_EVOLUTION_ENABLED)
        for bucket in buckets:
            yield from append.ranges_of(bucket) if evolves else append.units_of(bucket)
        return
    keyed = KeyedPlanner(
        schema=store.schema,
        is_full=is_full,
        now_ms=wall_clock_ms(now_ms),
        expired=expired_rows(store.schema, now_ms),
        schema_of=store.schemas.schema,
    )
    for bucket in buckets:
        unit = keyed.unit_of(bucket)
        if unit is not None:
            yield unit


def _plan_postponed(
    store: FileStore, snapshot: Snapshot, entries: Iterable[ManifestEntry]
) -> Iterator[PlannedUnit]:
    """Yield a unit for the postponed files of each partition, in the order they were written.

    Source: `org.apache.paimon.flink.postpone.PostponeBucketCompactSplitSource`.
    """
    if store.schema.bucket_mode is not BucketMode.POSTPONE:
        return
    postponed = [entry for entry in entries if entry.bucket == POSTPONE_BUCKET]
    for (partition, _), members in by_bucket(postponed).items():
        files = [entry.file for entry in members]
        split = DataSplit(
            snapshot_id=snapshot.id,
            partition=partition,
            bucket=POSTPONE_BUCKET,
            bucket_path=store.bucket_path(partition, POSTPONE_BUCKET),
            total_buckets=POSTPONE_BUCKET,
            data_files=tuple(sorted(files, key=lambda file: file.creation_time or 0)),
            is_streaming=True,
        )
        yield PlannedUnit(
            task=CompactTask(split=split),
            reason="waiting-rows",
            runs_before=0,
            runs_after=0,
            expected_files=1,
        )


def affected_messages(store: FileStore, messages: Sequence[CommitMessage]) -> list[bool]:
    """Return for each message whether it conflicts with the newest snapshot by itself.

    Cost: live files of the messages' buckets, once for every halving that leads to a conflict.
    """
    latest, checks = store.snapshots.latest(), CommitChecks(store)

    def conflicts(part: Sequence[CommitMessage]) -> bool:
        changes = changes_of(
            part, CommitKind.COMPACT, default_buckets=store.schema.typed_options.get(opt.BUCKET)
        )
        request = CommitRequest(
            changes=changes, commit_user="", commit_identifier=0, kind=CommitKind.COMPACT
        )
        try:
            checks.plan(request, latest)
        except CommitConflictError:
            return True
        return False

    def find_affected(part: Sequence[CommitMessage]) -> list[bool]:
        if not part or not conflicts(part):
            return [False] * len(part)
        if len(part) == 1:
            return [True]
        middle = len(part) // 2
        return find_affected(part[:middle]) + find_affected(part[middle:])

    return find_affected(messages)
