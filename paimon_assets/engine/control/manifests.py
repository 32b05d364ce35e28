"""Manifests and manifest lists: read, written, cached and folded; and the partitions they name.

A manifest never changes under its name, which is unique over time. So a process caches decoded
manifests, up to the cache's size; a commit puts its own manifests there, too. While committing,
small manifests are folded together, by the numbers of their list alone:

    full    when small manifests and those with DELETEs sum up to the threshold: all of them, and
            the large ones that hold a deleted file, are rewritten without any DELETE
    minor   else: neighbours are folded up to the target size, a rest only if it is many, without
            the first ones with more entries than all after them, so that an entry is not written
            again by each fold; inside a fold an ADD and its DELETE cancel, a DELETE whose ADD is
            elsewhere stays

The set of live files never changes.
Source: `org.apache.paimon.manifest.ManifestFile`, `ManifestList`,
`org.apache.paimon.operation.ManifestFileMerger`.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from itertools import islice
from threading import Lock
from typing import Any
from uuid import uuid4

from msgspec import Struct, field

from paimon_assets.engine.codec.avro import manifest_avro
from paimon_assets.engine.codec.rows.binary_row import deserialize_row, serialize_row
from paimon_assets.engine.errors import FormatError, NotFoundError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.data_file import EMPTY_STATS, SimpleStats
from paimon_assets.engine.spec.metadata.manifest import (
    FileIdentifier,
    FileKind,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
    live_index_entries,
)
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.partition import partition_path, partition_spec
from paimon_assets.engine.spec.paths import TablePaths
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.predicate.prune import Bounds, exactly, may_match
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.values import Value


class PartitionValues:
    """Partitions of one table, given as serialized BinaryRows."""

    def __init__(self, schema: TableSchema) -> None:
        self.fields = schema.partition_fields
        self._types = [field.type for field in self.fields]
        self._default_name = schema.typed_options.get(opt.PARTITION_DEFAULT_NAME)
        self._legacy = schema.typed_options.get(opt.PARTITION_LEGACY_NAME)
        self._values: dict[bytes, tuple[Any, ...]] = {}
        self._paths: dict[bytes, str] = {}

    def values(self, partition: bytes) -> tuple[Any, ...]:
        """Return the internal values, in the order of the partition keys."""
        values = self._values.get(partition)
        if values is None:
            values = deserialize_row(partition, self._types) if self._types else ()
            self._values[partition] = values
        return values

    def path(self, partition: bytes) -> str:
        """Return `name=value/name=value`, empty if the table has no partitions."""
        path = self._paths.get(partition)
        if path is None:
            path = partition_path(
                self.fields,
                self.values(partition),
                default_name=self._default_name,
                legacy=self._legacy,
            )
            self._paths[partition] = path
        return path

    def spec(self, partition: bytes) -> Mapping[str, str]:
        """Return column → text, for people: dates as dates, whatever directories are called."""
        values = self.values(partition)
        return partition_spec(self.fields, values, default_name=self._default_name, legacy=False)

    def path_spec(self, partition: bytes) -> Mapping[str, str]:
        """Return column → text as in the partition's path, but not escaped."""
        texts = partition_spec(
            self.fields,
            self.values(partition),
            default_name=self._default_name,
            legacy=self._legacy,
        )
        return {key: text if text.strip() else self._default_name for key, text in texts.items()}

    def may_match(self, predicate: Predicate | None, partition: bytes) -> bool:
        """Whether a partition passes a bound predicate over its columns."""
        return predicate is None or may_match(predicate, self.exact(partition).__getitem__)

    def exact(self, partition: bytes) -> dict[str, Bounds]:
        """Return column → its one value in a partition, as bounds."""
        values = zip(self.fields, self.values(partition), strict=True)
        return {field.name: exactly(value) for field, value in values}

    def may_be_in(self, predicate: Predicate | None, meta: ManifestFileMeta) -> bool:
        """Whether a manifest may name partitions that pass a bound predicate over their columns."""
        if predicate is None:
            return True
        count = meta.num_added_files + meta.num_deleted_files
        return may_match(predicate, self.bounds(meta.partition_stats, count).__getitem__)

    def stats(self, partitions: Iterable[bytes]) -> SimpleStats:
        """Summarise partitions for a manifest list; with NaN, bounds are unknown."""
        if not self._types:
            return EMPTY_STATS
        columns = list(zip(*(self.values(partition) for partition in partitions), strict=True))
        lows, highs, nulls = [], [], []
        for column in columns:
            known = [value for value in column if value is not None]
            ordered = not any(isinstance(value, float) and math.isnan(value) for value in known)
            low, high = (min(known), max(known)) if known and ordered else (None, None)
            if isinstance(low, float):
                # Zero has two signs, and in Java -0.0 is smaller; the bounds hold for both.
                low, high = (-0.0 if low == 0 else low), (0.0 if high == 0 else high)
            lows.append(low)
            highs.append(high)
            nulls.append(len(column) - len(known))
        return SimpleStats(
            min_values=serialize_row(lows, self._types),
            max_values=serialize_row(highs, self._types),
            null_counts=tuple(nulls),
        )

    def bounds(self, stats: SimpleStats, entry_count: int) -> dict[str, Bounds]:
        """Return column → bounds of a manifest's partitions."""
        if not self._types:
            return {}
        lows = deserialize_row(stats.min_values, self._types)
        highs = deserialize_row(stats.max_values, self._types)
        nulls = stats.null_counts or (None,) * len(self._types)
        return {
            field.name: Bounds(minimum=low, maximum=high, null_count=null, row_count=entry_count)
            for field, low, high, null in zip(self.fields, lows, highs, nulls, strict=True)
        }


_ENTRY_BYTES = 1300
"""Approximate memory of an entry."""
_META_BYTES = 700
_LARGE_MANIFEST_ENTRIES = 20_000
"""Larger manifests are filtered before objects are built, if the caller has a filter."""
_FETCHES_AT_ONCE = 8
"""Manifests fetched at once, for which a plan waits on an object store."""
_LISTS_AT_ONCE = 100
"""Snapshots whose lists are fetched at once, and held in memory."""


class ManifestCache:
    """Decoded manifests and lists by path; the least recently used ones go first."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held_bytes = 0
        self._items: OrderedDict[tuple[str, str], tuple[int, tuple[Any, ...]]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: tuple[str, str]) -> tuple[Any, ...] | None:
        with self._lock:
            item = self._items.get(key)
            if item is None:
                return None
            self._items.move_to_end(key)
            return item[1]

    def put(self, key: tuple[str, str], items: tuple[Any, ...], item_bytes: int) -> None:
        """Keep items, unless they alone are too many."""
        weight = (len(items) + 1) * item_bytes
        if weight > self._max_bytes:
            return
        with self._lock:
            self._drop(key)
            self._items[key] = (weight, items)
            self._held_bytes += weight
            while self._held_bytes > self._max_bytes and self._items:
                self._drop(next(iter(self._items)))

    def forget(self, key: tuple[str, str]) -> None:
        with self._lock:
            self._drop(key)

    def _drop(self, key: tuple[str, str]) -> None:
        dropped = self._items.pop(key, None)
        if dropped is not None:
            self._held_bytes -= dropped[0]


SHARED_CACHE = ManifestCache(256 * 1024 * 1024)


def stored_format(file_io: FileIO, paths: TablePaths, snapshot: Snapshot) -> str:
    """Return the format of a snapshot's manifest list. Cost: a read of three bytes."""
    path = paths.manifest(snapshot.base_manifest_list)
    return manifest_avro.manifest_format(file_io.read_ranges(path, [(0, 3)])[0])


class ManifestNames(Struct):
    """Fresh names of one commit: one uuid, then a counter, as Paimon names manifests."""

    unique: str = field(default_factory=lambda: str(uuid4()))
    issued: list[str] = field(default_factory=list)
    """All names, whether their files were written in full, in part, or not."""

    def next(self, prefix: str) -> str:
        """Name the next `manifest`, `manifest-list` or `index-manifest`."""
        name = f"{prefix}-{self.unique}-{len(self.issued)}"
        self.issued.append(name)
        return name


def _check_whole(path: str, data: bytes, size: int | None) -> None:
    """Refuse an answer that ends early: one that ends between two blocks of Avro has no error.

    Raises:
        FormatError: Kind `manifest-size`.
    """
    if size is not None and len(data) < size:
        message = (
            f"{path}: the storage returned {len(data)} bytes, of {size}. Read again; if the file "
            "itself is short, the table is damaged: roll back to a snapshot or tag before it."
        )
        raise FormatError(message, kind="manifest-size", path=path)


class ManifestStore:
    def __init__(
        self,
        file_io: FileIO,
        paths: TablePaths,
        partitions: PartitionValues,
        *,
        cache: ManifestCache = SHARED_CACHE,
    ) -> None:
        self._file_io = file_io
        self._paths = paths
        self._partitions = partitions
        self._cache = cache

    def unread_lists(self, snapshots: Iterable[Snapshot]) -> list[str]:
        """Return the paths of the lists of snapshots that are not in the cache."""
        names = {
            name
            for snapshot in snapshots
            for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list)
            if self._cache.get(self._key(name)) is None
        }
        return [self._paths.manifest(name) for name in sorted(names)]

    def fetch_lists(self, snapshots: Sequence[Snapshot]) -> None:
        """Read the lists of snapshots side by side into the cache, but for those that are gone."""
        for start in range(0, len(snapshots), _LISTS_AT_ONCE):
            some = snapshots[start : start + _LISTS_AT_ONCE]
            with self._file_io.ahead(reads=self.unread_lists(some)):
                for snapshot in some:
                    with suppress(NotFoundError):
                        self.manifests_of(snapshot)

    def manifests_of(self, snapshot: Snapshot) -> tuple[ManifestFileMeta, ...]:
        """Return the manifests of a snapshot: its base list, then its delta list."""
        with self._file_io.ahead(reads=self.unread_lists([snapshot])):
            base = self.read_list(snapshot.base_manifest_list, snapshot.base_manifest_list_size)
            delta = snapshot.delta_manifest_list
            return base + self.read_list(delta, snapshot.delta_manifest_list_size)

    def delta(self, snapshot: Snapshot) -> Iterator[ManifestEntry]:
        """Yield the changes of a snapshot."""
        return self.read_all(self.read_list(snapshot.delta_manifest_list))

    def read_list(self, name: str, size: int | None = None) -> tuple[ManifestFileMeta, ...]:
        """Read a manifest list, or take it from the cache; `size` is its size in the snapshot."""
        key = self._key(name)
        metas = self._cache.get(key)
        if metas is None:
            path = self._paths.manifest(name)
            data = self._file_io.read_bytes(path)
            metas = tuple(manifest_avro.read_manifest_list(data, path))
            _check_whole(path, data, size)
            self._cache.put(key, metas, _META_BYTES)
        return metas

    def read(
        self,
        meta: ManifestFileMeta,
        keep: manifest_avro.KeepEntry | None = None,
        *,
        data: bytes | None = None,
    ) -> Sequence[ManifestEntry]:
        """Read a manifest, or take it from the cache; `data` is its content, if it was fetched."""
        key = self._key(meta.file_name)
        found: Sequence[ManifestEntry] | None = self._cache.get(key)
        if found is None:
            path = self._paths.manifest(meta.file_name)
            data = self._file_io.read_bytes(path) if data is None else data
            entry_count = meta.num_added_files + meta.num_deleted_files
            _check_whole(path, data, meta.file_size)
            if keep is not None and entry_count > _LARGE_MANIFEST_ENTRIES:
                return manifest_avro.read_manifest(data, path, keep)
            entries = tuple(manifest_avro.read_manifest(data, path))
            self._cache.put(key, entries, _ENTRY_BYTES)
            found = entries
        if keep is None:
            return found
        return [
            entry
            for entry in found
            if keep(entry.kind, entry.partition, entry.bucket, entry.total_buckets)
        ]

    def read_all(
        self, metas: Sequence[ManifestFileMeta], keep: manifest_avro.KeepEntry | None = None
    ) -> Iterator[ManifestEntry]:
        """Yield the entries of many manifests, in order; the next ones are fetched meanwhile."""
        missing = [meta for meta in metas if self._cache.get(self._key(meta.file_name)) is None]
        if len(missing) < _FETCHES_AT_ONCE:
            paths = {meta.file_name: self._paths.manifest(meta.file_name) for meta in missing}
            with self._file_io.ahead(reads=paths.values()):
                few = {name: self._file_io.read_bytes(path) for name, path in paths.items()}
            for meta in metas:
                yield from self.read(meta, keep, data=few.pop(meta.file_name, None))
            return
        with ThreadPoolExecutor(_FETCHES_AT_ONCE, thread_name_prefix="manifest") as pool:
            names = iter([meta.file_name for meta in missing])
            ahead: dict[str, Future[bytes]] = {}

            def fetch(count: int) -> None:
                for name in islice(names, count):
                    ahead[name] = pool.submit(self._file_io.read_bytes, self._paths.manifest(name))

            fetch(2 * _FETCHES_AT_ONCE)
            try:
                for meta in metas:
                    fetched = ahead.pop(meta.file_name, None)
                    data = None if fetched is None else fetched.result()
                    fetch(0 if fetched is None else 1)
                    yield from self.read(meta, keep, data=data)
            finally:
                pool.shutdown(cancel_futures=True)

    def read_index(self, name: str) -> tuple[IndexManifestEntry, ...]:
        """Read an index manifest, or take it from the cache; return its live entries."""
        key = self._key(name)
        index = self._cache.get(key)
        if index is None:
            path = self._paths.manifest(name)
            entries = manifest_avro.read_index_manifest(self._file_io.read_bytes(path), path)
            index = tuple(live_index_entries(entries))
            self._cache.put(key, index, _index_entry_bytes(index))
        return index

    def write_index(self, entries: Iterable[IndexManifestEntry], names: ManifestNames) -> str:
        items = tuple(entries)
        name = names.next("index-manifest")
        self._file_io.write_bytes(
            self._paths.manifest(name), manifest_avro.write_index_manifest(items)
        )
        self._cache.put(self._key(name), items, _index_entry_bytes(items))
        return name

    def write(self, entries: Iterable[ManifestEntry], names: ManifestNames) -> ManifestFileMeta:
        """Write one manifest of at least one entry."""
        items = tuple(entries)
        partition_stats = self._partitions.stats(entry.partition for entry in items)
        data = manifest_avro.write_manifest(items)
        name = names.next("manifest")
        self._file_io.write_bytes(self._paths.manifest(name), data)
        self._cache.put(self._key(name), items, _ENTRY_BYTES)
        added = sum(entry.kind is FileKind.ADD for entry in items)
        lowest_id, highest_id = _row_ids(items)
        return ManifestFileMeta(
            file_name=name,
            file_size=len(data),
            num_added_files=added,
            num_deleted_files=len(items) - added,
            partition_stats=partition_stats,
            schema_id=max(entry.file.schema_id for entry in items),
            min_bucket=min(entry.bucket for entry in items),
            max_bucket=max(entry.bucket for entry in items),
            min_level=min(entry.file.level for entry in items),
            max_level=max(entry.file.level for entry in items),
            min_row_id=lowest_id,
            max_row_id=highest_id,
        )

    def write_list(
        self, metas: Iterable[ManifestFileMeta], names: ManifestNames
    ) -> tuple[str, int]:
        """Write a manifest list, perhaps an empty one."""
        items = tuple(metas)
        data = manifest_avro.write_manifest_list(items)
        name = names.next("manifest-list")
        self._file_io.write_bytes(self._paths.manifest(name), data)
        self._cache.put(self._key(name), items, _META_BYTES)
        return name, len(data)

    def delete(self, name: str) -> None:
        """Delete a manifest or list that no snapshot names."""
        self.forget(name)
        from paimon_assets.engine.fileio.owned_deletion import delete_owned

        delete_owned(self._file_io, (self._paths.table,), [self._paths.manifest(name)])

    def forget(self, name: str) -> None:
        """Forget the content of a file that is deleted."""
        self._cache.forget(self._key(name))

    def _key(self, name: str) -> tuple[str, str]:
        return (self._file_io.spec.scheme, self._paths.manifest(name))


def _row_ids(entries: Sequence[ManifestEntry]) -> tuple[int | None, int | None]:
    """Return the smallest and largest row id of files, None if a file does not say its first."""
    firsts = [entry.file.first_row_id for entry in entries]
    known = [first for first in firsts if first is not None]
    if len(known) < len(firsts):
        return None, None
    lasts = (first + entry.file.row_count - 1 for first, entry in zip(known, entries, strict=True))
    return min(known), max(lasts)


def _index_entry_bytes(entries: Sequence[IndexManifestEntry]) -> int:
    vectors = sum(len(entry.file.deletion_vectors or ()) for entry in entries)
    return _META_BYTES * (1 + vectors // (len(entries) or 1))


_MARGIN = 1.2
"""Rolled manifests aim above the target: just below it, they would be folded again and again."""


class ManifestFolding(Value, dict=True):
    """Folds manifests by a table's options; the set of live files stays the same."""

    options: opt.Options
    read: Callable[[ManifestFileMeta], Sequence[ManifestEntry]]
    write: Callable[[Sequence[ManifestEntry]], ManifestFileMeta]
    may_hold: Callable[[ManifestFileMeta, frozenset[bytes]], bool]
    """Whether a manifest may hold files of one of the partitions."""

    @cached_property
    def target_bytes(self) -> int:
        return self.options.get(opt.MANIFEST_TARGET_FILE_SIZE)

    def fold(self, metas: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
        """Return manifests with the same live files; `metas` themselves if nothing is due.

        Cost: O(1) if nothing is due; a minor fold reads and writes the manifests it folds.
        """
        candidates = (meta.file_size for meta in metas if self._is_due(meta))
        is_full = sum(candidates) >= self.options.get(opt.MANIFEST_FULL_COMPACTION_SIZE)
        return self._full(metas) if is_full else self._minor(metas)

    def _is_due(self, meta: ManifestFileMeta) -> bool:
        return meta.num_deleted_files > 0 or meta.file_size < self.target_bytes

    def _full(self, metas: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
        deleted = {
            entry.identifier: entry.partition
            for meta in metas
            if meta.num_deleted_files > 0
            for entry in self.read(meta)
            if entry.kind is FileKind.DELETE
        }
        partitions = frozenset(deleted.values())

        def holds_deleted(meta: ManifestFileMeta) -> bool:
            return self.may_hold(meta, partitions) and any(
                entry.identifier in deleted for entry in self.read(meta)
            )

        kept: list[ManifestFileMeta] = []
        rewritten: list[ManifestFileMeta] = []
        for meta in metas:
            is_due = self._is_due(meta) or (bool(deleted) and holds_deleted(meta))
            (rewritten if is_due else kept).append(meta)
        entries = [
            entry
            for meta in rewritten
            for entry in self.read(meta)
            if entry.kind is FileKind.ADD and entry.identifier not in deleted
        ]
        return kept + self._write_manifests(entries, rewritten)

    def _minor(self, metas: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
        result: list[ManifestFileMeta] = []
        group: list[ManifestFileMeta] = []
        group_bytes = 0
        for meta in metas:
            group.append(meta)
            group_bytes += meta.file_size
            if group_bytes >= self.target_bytes:
                result += self._fold_group(group)
                group, group_bytes = [], 0
        if not group or len(group) < self.options.get(opt.MANIFEST_MERGE_MIN_COUNT):
            return result + group
        # By entries: most bytes of a small manifest are its header, and do not sum up.
        counts = [meta.num_added_files + meta.num_deleted_files for meta in group]
        start, after = 0, sum(counts) - counts[0]
        while after and counts[start] > after:
            start += 1
            after -= counts[start]
        return result + group[:start] + self._fold_group(group[start:])

    def _fold_group(self, group: list[ManifestFileMeta]) -> list[ManifestFileMeta]:
        if len(group) == 1:
            return group
        entries = cancel_pairs(entry for meta in group for entry in self.read(meta))
        return self._write_manifests(entries, group)

    def _write_manifests(
        self, entries: list[ManifestEntry], sources: Sequence[ManifestFileMeta]
    ) -> list[ManifestFileMeta]:
        """Write manifests of about the target size, judged by the density of their sources."""
        if not entries:
            return []
        source_bytes = sum(meta.file_size for meta in sources)
        count = sum(meta.num_added_files + meta.num_deleted_files for meta in sources)
        entry_bytes = max(1.0, source_bytes / max(1, count))
        per_manifest = max(1, int(self.target_bytes * _MARGIN / entry_bytes))
        return [self.write(chunk) for chunk in chunks(entries, per_manifest)]


def cancel_pairs(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Drop ADDs with their DELETEs; a DELETE without its ADD stays, because it is elsewhere."""
    items = list(entries)
    deleted = {entry.identifier for entry in items if entry.kind is FileKind.DELETE}
    if not deleted:
        return items
    added = {entry.identifier for entry in items if entry.kind is FileKind.ADD}
    gone: set[FileIdentifier] = deleted & added
    return [entry for entry in items if entry.identifier not in gone]


def chunks(entries: Sequence[ManifestEntry], size: int) -> Iterator[Sequence[ManifestEntry]]:
    """Cut entries into pieces of `size`, the last one shorter."""
    for start in range(0, len(entries), size):
        yield entries[start : start + size]
