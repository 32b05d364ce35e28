"""FileStoreScan: snapshot and predicate → the live files a read needs.

    manifests of the snapshot
      → those whose partition statistics may match
        → their entries: of wanted partitions, and (only ADDs) of wanted buckets
          → live entries: ADDs that no DELETE names, and that batch reads see
            → files whose key and value statistics may match

DELETEs are never dropped by bucket or statistics: a dropped DELETE would bring a dead file back.
Source: `org.apache.paimon.operation.AbstractFileStoreScan`.
"""

from collections.abc import Iterable
from functools import cache, partial

from paimon_assets.engine.control.features import (
    check_key_types,
    check_readable,
    visible_entries,
)
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.manifests.collector import without_collector
from paimon_assets.engine.control.scan.bucket_pruning import BucketPruning
from paimon_assets.engine.control.scan.file_pruning import FilePruning
from paimon_assets.engine.control.scan.visibility import skips_level_0
from paimon_assets.engine.spec.metadata.manifest import (
    FileKind,
    ManifestEntry,
    ManifestFileMeta,
    live_entries,
)
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.predicate.predicate import Predicate, only_on
from paimon_assets.engine.spec.types.cast_rules import first_retyped


class FileStoreScan:
    """Finds the live files of a table; `store.schema` is the schema to read as."""

    def __init__(self, store: FileStore) -> None:
        self._store = store

    def live_files(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """Return every live file of a snapshot, in manifest order, whatever its features.

        Cost:
            O(n) for n entries; manifests already in the cache are not decoded.
        """
        manifests = self._store.manifests
        with without_collector():
            return live_entries(manifests.read_all(manifests.manifests_of(snapshot)))

    def needed_files(
        self, snapshot: Snapshot, predicate: Predicate | None = None, *, min_level: int = 0
    ) -> list[ManifestEntry]:
        """Return the files a read of the rows that pass a predicate needs, in manifest order.

        Args:
            snapshot: What to read.
            predicate: Bound to `store.schema`; None needs everything.
            min_level: Leave out files below this level.

        Raises:
            UnsupportedFeatureError: The table, or a file needed, is not what this engine reads.
        """
        store = self._store
        check_readable(store.label, store.schema)
        lowest = max(min_level, 1) if skips_level_0(store.schema) else min_level
        metas = store.manifests.manifests_of(snapshot)
        live = self._filtered_entries(metas, predicate)
        return self._needed([entry for entry in live if entry.file.level >= lowest], predicate)

    def added_files(
        self, manifest_lists: Iterable[str], predicate: Predicate | None = None
    ) -> list[ManifestEntry]:
        """Return the files that lists of single snapshots add, in order, whatever became of them.

        Args:
            manifest_lists: Delta or changelog lists, oldest first.
            predicate: Bound to `store.schema`; leaves out files that hold no row that passes.

        Raises:
            UnsupportedFeatureError: As for `needed_files`.
        """
        check_readable(self._store.label, self._store.schema)
        manifests = self._store.manifests
        metas = [meta for name in manifest_lists for meta in manifests.read_list(name)]
        return self._needed(self._filtered_entries(metas, predicate), predicate)

    def _needed(
        self, entries: list[ManifestEntry], predicate: Predicate | None
    ) -> list[ManifestEntry]:
        store = self._store
        entries = visible_entries(store.label, store.schema, entries)
        if store.schema.has_primary_key:
            for schema_id in sorted({entry.file.schema_id for entry in entries}):
                written = store.schemas.schema_or_none(schema_id)
                if written is not None:  # else the reader looks at the file's own types
                    check_key_types(store.label, store.schema, written)
        return FilePruning(store.schema, predicate, store.schemas.schema_or_none).needed(entries)

    def partitions(
        self, snapshot: Snapshot, predicate: Predicate | None = None
    ) -> frozenset[bytes]:
        """Return the partitions that hold files and may match, whatever becomes of their rows."""
        on_partition = only_on(predicate, self._store.schema.partition_keys)
        metas = self._store.manifests.manifests_of(snapshot)
        live = self._filtered_entries(metas, on_partition)
        return frozenset(entry.partition for entry in live)

    def _filtered_entries(
        self, metas: Iterable[ManifestFileMeta], predicate: Predicate | None
    ) -> list[ManifestEntry]:
        """Return the live entries of wanted partitions and buckets."""
        store = self._store
        partitions = store.partitions
        on_partition = only_on(predicate, store.schema.partition_keys)
        partition_may_match = cache(partial(partitions.may_match, on_partition))
        buckets = BucketPruning(store.schema, predicate)
        if buckets.is_active and store.schema.id > 0 and self._has_other_bucket_keys():
            buckets = BucketPruning(store.schema, None)

        def keep(kind: FileKind, partition: bytes, bucket: int, total_buckets: int) -> bool:
            if not partition_may_match(partition):
                return False
            return kind is FileKind.DELETE or buckets.may_match(bucket, total_buckets)

        filtered = predicate is not None and (buckets.is_active or bool(partitions.fields))
        wanted = [meta for meta in metas if partitions.may_be_in(on_partition, meta)]
        with without_collector():
            return live_entries(store.manifests.read_all(wanted, keep if filtered else None))

    def _has_other_bucket_keys(self) -> bool:
        """Whether rows of older schemas may lie in the buckets of values of another type."""
        store = self._store
        keys = store.schema.columns(store.schema.bucket_keys)
        older = [number for number in store.schemas.list_ids() if number < store.schema.id]
        if len(older) < store.schema.id:  # what is gone may have had others
            return True
        return any(first_retyped(keys, store.schemas.schema(number).by_id) for number in older)
