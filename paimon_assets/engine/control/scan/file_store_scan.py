"""FileStoreScan: snapshot and predicate → the live files a read needs.

    manifests of the snapshot
      → those whose partition statistics may match
        → their entries: of matching partitions, and (only ADDs) of buckets that the values of the
          bucket key hash to, by the bucket count that the entry was written with
          → live entries: ADDs that no DELETE names, and that batch reads see
            → files whose key and value statistics may match

DELETEs are never dropped by bucket or statistics: a dropped DELETE would bring a dead file back.
Source: `org.apache.paimon.operation.AbstractFileStoreScan`.
"""

import contextlib
import gc
import itertools
from collections.abc import Iterable, Iterator
from functools import cache, partial
from threading import Lock
from typing import Any

from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.control.features import check_readable, visible_entries
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.file_pruning import FilePruning
from paimon_assets.engine.control.scan.split_generator import skips_level_0
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.metadata.manifest import (
    FileKind,
    ManifestEntry,
    ManifestFileMeta,
    live_entries,
)
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options.all_options import BUCKET_FUNCTION
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.schema.schema import BucketMode, TableSchema
from paimon_assets.engine.spec.types.cast_rules import FLOAT_ROOTS, first_retyped

_LOCK = Lock()
_HOLDERS: set[object] = set()


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Hold the collector back until the last holder is done; one that was off stays off."""
    holder = object()
    with _LOCK:
        if _HOLDERS or gc.isenabled():
            _HOLDERS.add(holder)
            gc.disable()
    try:
        yield
    finally:
        with _LOCK:
            if holder in _HOLDERS:
                _HOLDERS.remove(holder)
                if not _HOLDERS:
                    gc.enable()


_MOST_KEYS = 1000


class BucketPruning:
    """Decides by (bucket, total buckets); without a usable predicate everything passes."""

    def __init__(self, schema: TableSchema, predicate: pred.Predicate | None) -> None:
        self._function = schema.typed_options.get(BUCKET_FUNCTION)
        self._keys = _bucket_keys(schema, predicate)
        self._types = [field.type for field in schema.columns(schema.bucket_keys)]
        self._buckets: dict[int, set[int]] = {}

    @property
    def is_active(self) -> bool:
        return self._keys is not None

    def may_match(self, bucket: int, total_buckets: int) -> bool:
        if self._keys is None or total_buckets <= 0:
            return True
        if total_buckets not in self._buckets:
            buckets = set()
            from paimon_assets.engine.codec.hashing.bucket_function import bucket_of

            for key in self._keys:
                try:
                    serialize_row(key, self._types)
                except InvalidInputError:
                    continue  # no value of the column's type, so no row has it
                buckets.add(bucket_of(key, self._types, total_buckets, self._function))
            self._buckets[total_buckets] = buckets
        return bucket in self._buckets[total_buckets]


def _bucket_keys(
    schema: TableSchema, predicate: pred.Predicate | None
) -> list[tuple[Any, ...]] | None:
    """Return the bucket keys a row must have one of, None if they are not known."""
    names = schema.bucket_keys
    if predicate is None or not names or schema.bucket_mode is not BucketMode.HASH_FIXED:
        return None
    if any(field.type.root in FLOAT_ROOTS for field in schema.columns(names)):
        return None  # 0.0 equals -0.0 but hashes elsewhere
    choices: dict[str, tuple[Any, ...]] = {}
    for part in pred.conjuncts(predicate):
        match part:
            case pred.Comparison(field=field, op=pred.CompareOp.EQ, literal=literal):
                choices[field] = (literal,)
            case pred.In(field=field, literals=literals, negated=False):
                choices.setdefault(field, literals)
            case _:
                continue
    count = 1
    for name in names:
        if name not in choices:
            return None
        choices[name] = tuple(value for value in choices[name] if value is not None)
        count *= len(choices[name])
    if count > _MOST_KEYS:
        return None
    return list(itertools.product(*(choices[name] for name in names)))


class FileStoreScan:
    """Finds the live files of a table; `store.schema` is the schema to read as."""

    def __init__(self, store: FileStore) -> None:
        self._store = store

    def live_files(
        self, snapshot: Snapshot, predicate: pred.Predicate | None = None
    ) -> list[ManifestEntry]:
        """Return every live file of a snapshot, in manifest order, whatever its features.

        With a predicate, those that may hold rows that pass.
        """
        metas = self._store.manifests.manifests_of(snapshot)
        return self._prune(self._filtered_entries(metas, predicate), predicate)

    def changes(self, snapshot: Snapshot, predicate: pred.Predicate | None = None) -> bool:
        """Whether a snapshot added or deleted files that may hold rows that pass."""
        store = self._store
        on_partition = pred.only_on(predicate, store.schema.partition_keys)
        entries = [
            entry
            for entry in store.manifests.delta(snapshot)
            if store.partitions.may_match(on_partition, entry.partition)
        ]
        return bool(self._prune(entries, predicate))

    def _prune(
        self, entries: list[ManifestEntry], predicate: pred.Predicate | None
    ) -> list[ManifestEntry]:
        schemas = self._store.schemas
        pruning = FilePruning(self._store.schema, predicate, schemas.schema_or_none)
        return pruning.needed_entries(entries)

    def needed_files(
        self,
        snapshot: Snapshot,
        predicate: pred.Predicate | None = None,
        *,
        min_level: int = 0,
        merges_partitions: bool = False,
    ) -> list[ManifestEntry]:
        """Return the files a read of the rows that pass a predicate needs, in manifest order.

        Files with another type of a key column are refused, unless the reader merges each partition
        that holds one as a whole (`SplitGenerator`).
        """
        store = self._store
        check_readable(store.label, store.schema)
        lowest = max(min_level, 1) if skips_level_0(store.schema) else min_level
        metas = store.manifests.manifests_of(snapshot)
        live = self._filtered_entries(metas, predicate)
        seen = [entry for entry in live if entry.file.level >= lowest]
        return self._select_needed(seen, predicate, merges_partitions=merges_partitions)

    def added_files(
        self, manifest_lists: Iterable[str], predicate: pred.Predicate | None = None
    ) -> list[ManifestEntry]:
        """Return the files that lists of single snapshots add, in order, even if deleted since."""
        check_readable(self._store.label, self._store.schema)
        manifests = self._store.manifests
        metas = [meta for name in manifest_lists for meta in manifests.read_list(name)]
        return self._select_needed(self._filtered_entries(metas, predicate), predicate)

    def _select_needed(
        self,
        entries: list[ManifestEntry],
        predicate: pred.Predicate | None,
        *,
        merges_partitions: bool = False,
    ) -> list[ManifestEntry]:
        store = self._store
        entries = visible_entries(store.label, store.schema, entries)
        schema_ids = {entry.file.schema_id for entry in entries}
        if not merges_partitions:
            store.refuse_retyped("read", schema_ids)
        elif store.retyped_schemas(schema_ids):
            # A newer row of a key may lie in another bucket, so no value rules a file out.
            predicate = pred.only_on(predicate, store.schema.trimmed_primary_keys)
        return self._prune(entries, predicate)

    def partitions(
        self, snapshot: Snapshot, predicate: pred.Predicate | None = None
    ) -> frozenset[bytes]:
        """Return the partitions that hold files and may match."""
        on_partition = pred.only_on(predicate, self._store.schema.partition_keys)
        metas = self._store.manifests.manifests_of(snapshot)
        live = self._filtered_entries(metas, on_partition)
        return frozenset(entry.partition for entry in live)

    def _filtered_entries(
        self, metas: Iterable[ManifestFileMeta], predicate: pred.Predicate | None
    ) -> list[ManifestEntry]:
        """Return the live entries of partitions and buckets that may match."""
        store = self._store
        partitions = store.partitions
        on_partition = pred.only_on(predicate, store.schema.partition_keys)
        partition_may_match = cache(partial(partitions.may_match, on_partition))
        buckets = BucketPruning(store.schema, predicate)
        if buckets.is_active and store.schema.id > 0:
            # Rows of older schemas may lie in the buckets of values of another type.
            keys = store.schema.columns(store.schema.bucket_keys)
            older = [number for number in store.schemas.list_ids() if number < store.schema.id]
            schemas = map(store.schemas.schema, older)
            is_whole = len(older) == store.schema.id  # a deleted one may have had other types
            if not is_whole or any(first_retyped(keys, schema.by_id) for schema in schemas):
                buckets = BucketPruning(store.schema, None)

        def keep(kind: FileKind, partition: bytes, bucket: int, total_buckets: int) -> bool:
            if not partition_may_match(partition):
                return False
            return kind is FileKind.DELETE or buckets.may_match(bucket, total_buckets)

        filtered = predicate is not None and (buckets.is_active or bool(partitions.fields))
        wanted = [meta for meta in metas if partitions.may_be_in(on_partition, meta)]
        with without_collector():
            return live_entries(store.manifests.read_all(wanted, keep if filtered else None))
