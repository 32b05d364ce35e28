"""The state of a table that a writer starts from: sequence numbers, bucket counts, indexes of keys.

Numbers and counts come from the live files of the newest snapshot; writers that pad by a counter
get the files themselves, too. A process keeps the answer for each table and applies the changes of
later snapshots to it; so the cost of a small commit does not grow with the table.
Source: `org.apache.paimon.index.IndexFileHandler`,
`org.apache.paimon.crosspartition.IndexBootstrap`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from threading import Lock

from msgspec import Struct, field
from msgspec.structs import replace

from paimon_assets.engine.contract import context as contexts
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.scan.split_generator import index_path
from paimon_assets.engine.control.scan.table_scan import scan_table
from paimon_assets.engine.spec.merge.engine_traits import AS_NEWEST_WINS, EngineTraits
from paimon_assets.engine.spec.merge.sequence_padding import padding_of
from paimon_assets.engine.spec.metadata.manifest import HASH_INDEX, FileKind, ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import BUILT_ON_PROPERTY, Snapshot
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema.schema import BucketMode, TableSchema
from paimon_assets.engine.spec.values import Value

_STEPS_AHEAD = 64
"""More snapshots than this are not added one by one."""


class _Bucket(Struct):
    max_sequence_number: int = -1
    """At least the largest number in its live files; a deleted file may have held it."""
    files: int = 0
    numbered: dict[str, contexts.NumberedFile] = field(default_factory=dict)
    """Name → live file, if the table's padding needs them."""


class _Partition(Struct):
    total_buckets: int | None = None
    files: int = 0


class _LiveBuckets(Struct):
    keeps_files: bool
    snapshot: Snapshot | None = None
    buckets: dict[tuple[bytes, int], _Bucket] = field(default_factory=dict)
    partitions: dict[bytes, _Partition] = field(default_factory=dict)
    schemas: Counter[int] = field(default_factory=Counter)
    """Schema id → live files written with it."""
    checked: set[tuple[int, int]] = field(default_factory=set)
    """(schema of files, schema of a write) whose key types are the same."""
    lock: Lock = field(default_factory=Lock)

    def add(self, entry: ManifestEntry) -> None:
        bucket = self.buckets.setdefault((entry.partition, entry.bucket), _Bucket())
        bucket.files += 1
        bucket.max_sequence_number = max(bucket.max_sequence_number, entry.file.max_sequence_number)
        if self.keeps_files:
            file = entry.file
            bucket.numbered[file.file_name] = contexts.NumberedFile(
                location=file.external_path or file.file_name,
                file_format=file.file_format,
                file_size=file.file_size,
                min_sequence_number=file.min_sequence_number,
                max_sequence_number=file.max_sequence_number,
            )
        partition = self.partitions.setdefault(entry.partition, _Partition())
        partition.files += 1
        self.schemas[entry.file.schema_id] += 1
        if entry.total_buckets > 0:
            partition.total_buckets = entry.total_buckets

    def delete(self, entry: ManifestEntry) -> bool:
        """Remove a file; False if it cannot be there, so the whole state may be wrong."""
        key = (entry.partition, entry.bucket)
        bucket, partition = self.buckets.get(key), self.partitions.get(entry.partition)
        if bucket is None or partition is None:
            return False
        bucket.files -= 1
        bucket.numbered.pop(entry.file.file_name, None)
        partition.files -= 1
        self.schemas[entry.file.schema_id] -= 1
        if not bucket.files:
            del self.buckets[key]
        if not partition.files:
            del self.partitions[entry.partition]
        return True

    def fixed_buckets(self, partitions: Iterable[bytes] | None = None) -> dict[bytes, int]:
        """Return the fixed bucket counts of partitions, of all partitions for None."""
        keys = self.partitions if partitions is None else partitions
        states = ((key, self.partitions.get(key)) for key in keys)
        return {key: state.total_buckets for key, state in states if state and state.total_buckets}

    def apply(self, entries: Iterable[ManifestEntry]) -> bool:
        """Apply the changes of one snapshot; False if they do not fit the state."""
        added: list[ManifestEntry] = []
        for entry in entries:
            if entry.kind is FileKind.ADD:
                added.append(entry)
            elif not self.delete(entry):
                return False
        for entry in added:
            self.add(entry)
        return True


@lru_cache(maxsize=64)
def _cached_buckets(_scheme: str, _directory: str, keeps_files: bool) -> _LiveBuckets:  # noqa: FBT001
    return _LiveBuckets(keeps_files=keeps_files)


class WriterState(Value):
    """Buckets as a writer finds them."""

    bucket_states: tuple[contexts.BucketState, ...] = ()
    total_buckets: tuple[tuple[bytes, int], ...] = ()
    """(partition, its fixed bucket count) of partitions that hold files."""

    def differing_from(self, buckets: int) -> tuple[tuple[bytes, int], ...]:
        """Return the partitions whose bucket count is not `buckets` (`WriteContext`)."""
        return tuple(item for item in self.total_buckets if item[1] != buckets)


def rewriting_schema(schema: TableSchema, options: Mapping[str, str] | None = None) -> TableSchema:
    """Return the schema for rewriting stored rows: no default for nulls, no check of times."""
    fields = tuple(replace(field, default_value=None) for field in schema.fields)
    options = {opt.WRITE_CHECK_TIMES.key: "false", **(options or {})}
    return replace(schema, fields=fields).with_dynamic_options(options)


def writer_state(store: FileStore, snapshot: Snapshot | None) -> WriterState:
    """Return a writer's start state at a snapshot: empty, if the table has no buckets.

    Files that hold a key column in another type are refused: they lie in the buckets of its values.
    Cost: O(live files) the first time in a process; else O(changed files).
    """
    if snapshot is None or store.schema.bucket_mode is BucketMode.BUCKET_UNAWARE:
        return WriterState()
    state = _live_buckets(store)
    with state.lock:
        _bring_up_to(state, store, snapshot)
        pairs = {(each, store.schema.id) for each, files in state.schemas.items() if files > 0}
        store.refuse_retyped("write", (each for each, _ in pairs - state.checked))
        state.checked |= pairs
        return WriterState(
            bucket_states=tuple(
                contexts.BucketState(
                    partition=partition,
                    bucket=number,
                    max_sequence_number=bucket.max_sequence_number,
                    files=tuple(bucket.numbered.values()),
                )
                for (partition, number), bucket in state.buckets.items()
            ),
            total_buckets=tuple(state.fixed_buckets().items()),
        )


def partition_buckets(
    store: FileStore, snapshot: Snapshot | None, partitions: Iterable[bytes]
) -> dict[bytes, int]:
    """Return the fixed bucket count of those partitions that hold files."""
    if snapshot is None:
        return {}
    state = _live_buckets(store)
    with state.lock:
        _bring_up_to(state, store, snapshot)
        return state.fixed_buckets(partitions)


def _live_buckets(store: FileStore) -> _LiveBuckets:
    padding = padding_of(store.schema)
    keeps_files = padding is not None and padding.counts_units
    return _cached_buckets(store.file_io.spec.scheme, store.paths.snapshot_directory, keeps_files)


def _bring_up_to(kept: _LiveBuckets, store: FileStore, snapshot: Snapshot) -> None:
    before = kept.snapshot
    # List names are unique over time, ids are not.
    if before and before.delta_manifest_list == snapshot.delta_manifest_list:
        return
    steps: list[Snapshot | None] = [None]
    is_near = before is not None and before.id < snapshot.id <= before.id + _STEPS_AHEAD
    if before is not None and is_near and _is_below(before, snapshot, store):
        between = range(before.id + 1, snapshot.id)
        steps = [*map(store.snapshots.snapshot_or_none, between), snapshot]
    # All are read before the first is applied: a storage that fails leaves the state whole.
    deltas = [list(store.manifests.delta(step)) for step in steps if step is not None]
    if len(deltas) < len(steps) or not all(map(kept.apply, deltas)):
        kept.snapshot = None
        for values in (kept.buckets, kept.partitions, kept.schemas, kept.checked):
            values.clear()
        kept.apply(FileStoreScan(store).live_files(snapshot))
    kept.snapshot = snapshot


def _is_below(before: Snapshot, snapshot: Snapshot, store: FileStore) -> bool:
    """Whether a snapshot is built on an earlier one: its own word for it spares a read."""
    built_on = snapshot.properties.get(BUILT_ON_PROPERTY)
    is_base = before.id == snapshot.id - 1 and before.delta_manifest_list == built_on
    return is_base or store.snapshots.is_same(before)


def write_context(
    store: FileStore,
    schema: TableSchema,
    snapshot: Snapshot | None = None,
    *,
    buckets: opt.Option[int] = opt.BUCKET,
) -> contexts.WriteContext:
    """Return how rows are written on top of a snapshot; for None nothing counts that is there.

    `buckets` is the option of the bucket count of new partitions.
    """
    state = writer_state(store, snapshot)
    return contexts.WriteContext(
        table=store.label,
        table_path=store.table_path,
        schema=schema,
        bucket_states=state.bucket_states,
        partition_buckets=state.differing_from(schema.typed_options.get(buckets)),
        hash_indexes=hash_indexes(store, snapshot),
        file_io=store.file_io.spec,
    )


def hash_indexes(
    store: FileStore, snapshot: Snapshot | None
) -> tuple[contexts.HashIndexState, ...]:
    """Return the live hash index of each dynamic bucket. Cost: one entry a bucket."""
    dynamic = store.schema.bucket_mode is BucketMode.HASH_DYNAMIC
    if not dynamic or snapshot is None or snapshot.index_manifest is None:
        return ()
    return tuple(
        contexts.HashIndexState(
            partition=entry.partition,
            bucket=entry.bucket,
            path=index_path(store, entry),
            file=entry.file,
        )
        for entry in store.manifests.read_index(snapshot.index_manifest)
        if entry.file.index_type == HASH_INDEX
    )


def key_bootstrap(store: FileStore, snapshot: Snapshot | None) -> contexts.KeyRead | None:
    """Return how to read the keys of a snapshot; None if the table needs no such index."""
    if snapshot is None or store.schema.bucket_mode is not BucketMode.KEY_DYNAMIC:
        return None
    # Postponed keys count, too.
    options = {opt.DELETION_VECTORS_MERGE_ON_READ.key: "true", opt.SCAN_FALLBACK_BRANCH.key: ""}
    if EngineTraits.of(store.schema).waits_for_compaction:
        options |= AS_NEWEST_WINS
    schema = store.schema.with_dynamic_options(options)
    scan = scan_table(store.with_schema(schema), snapshot, None)
    context = contexts.ReadContext(
        table=store.label,
        schema=schema,
        file_schemas=tuple(each for each in scan.file_schemas if each.id != schema.id),
        columns=schema.lookup_keys,
        file_io=store.file_io.spec,
    )
    return contexts.KeyRead(context=context, splits=scan.splits)
