"""ManifestStore: manifests and manifest lists, read, written and kept.

A manifest never changes under its name, which is unique over time; so what was decoded once stays
right, and a process keeps as much of it as its cache may hold. A commit puts what it writes into
the cache too: the next plan decodes nothing.
Source: `org.apache.paimon.manifest.ManifestFile`, `ManifestList`.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from threading import Lock
from typing import Any
from uuid import uuid4

from paimon_assets.engine.codec.avro.manifest_avro import (
    KeepEntry,
    read_index_manifest,
    read_manifest,
    read_manifest_list,
    write_index_manifest,
    write_manifest,
    write_manifest_list,
)
from paimon_assets.engine.control.manifests.partition_values import PartitionValues
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.fileio.owned_deletion import delete_owned
from paimon_assets.engine.spec.metadata.index_file import IndexManifestEntry, live_index_entries
from paimon_assets.engine.spec.metadata.manifest import FileKind, ManifestEntry, ManifestFileMeta
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.paths import TablePaths

_ENTRY_BYTES = 1300
"""About what an entry weighs in memory."""
_META_BYTES = 700
_LARGE_MANIFEST_ENTRIES = 20_000
"""Larger manifests are filtered before objects are built, if the caller has a filter."""
_FETCHES_AT_ONCE = 8
"""Manifests fetched at once: what a plan waits for on an object store."""


class ManifestCache:
    """Decoded manifests and lists by path; the least recently used ones go first."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held_bytes = 0
        self._items: OrderedDict[tuple[str, str], tuple[int, tuple[Any, ...]]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: tuple[str, str]) -> tuple[Any, ...] | None:
        """Return the cached value of a key, None if there is none."""
        with self._lock:
            found = self._items.get(key)
            if found is None:
                return None
            self._items.move_to_end(key)
            return found[1]

    def put(self, key: tuple[str, str], items: tuple[Any, ...], item_bytes: int) -> None:
        """Keep items, unless they alone are too many."""
        weight = (len(items) + 1) * item_bytes
        if weight > self._max_bytes:
            return
        with self._lock:
            self._drop(key)
            self._items[key] = (weight, items)
            self._held_bytes += weight
            while self._held_bytes > self._max_bytes:
                self._drop(next(iter(self._items)))

    def forget(self, key: tuple[str, str]) -> None:
        """Remove the cached value of a key."""
        with self._lock:
            self._drop(key)

    def _drop(self, key: tuple[str, str]) -> None:
        dropped = self._items.pop(key, None)
        if dropped is not None:
            self._held_bytes -= dropped[0]


SHARED_CACHE = ManifestCache(256 * 1024 * 1024)


@dataclass(slots=True)
class ManifestNames:
    """Fresh names of one commit: one uuid, then a counter, as Paimon names manifests."""

    unique: str = field(default_factory=lambda: str(uuid4()))
    issued: list[str] = field(default_factory=list)
    """All names, whether their files were written in full, in part, or not."""

    def next(self, prefix: str) -> str:
        """Name the next `manifest`, `manifest-list` or `index-manifest`."""
        name = f"{prefix}-{self.unique}-{len(self.issued)}"
        self.issued.append(name)
        return name


class ManifestStore:
    """Manifests and manifest lists of one table."""

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

    def manifests_of(self, snapshot: Snapshot) -> tuple[ManifestFileMeta, ...]:
        """Return the manifests of a snapshot: its base list, then its delta list."""
        base = self.read_list(snapshot.base_manifest_list)
        return base + self.read_list(snapshot.delta_manifest_list)

    def read_list(self, name: str) -> tuple[ManifestFileMeta, ...]:
        """Read a manifest list, or take it from the cache."""
        key = self._key(name)
        found = self._cache.get(key)
        if found is None:
            path = self._paths.manifest(name)
            found = tuple(read_manifest_list(self._file_io.read_bytes(path), path))
            self._cache.put(key, found, _META_BYTES)
        return found

    def read(
        self, meta: ManifestFileMeta, keep: KeepEntry | None = None, *, data: bytes | None = None
    ) -> Sequence[ManifestEntry]:
        """Read a manifest, or take it from the cache; `data` is its content, if it was fetched."""
        key = self._key(meta.file_name)
        found: Sequence[ManifestEntry] | None = self._cache.get(key)
        if found is None:
            path = self._paths.manifest(meta.file_name)
            data = self._file_io.read_bytes(path) if data is None else data
            entry_count = meta.num_added_files + meta.num_deleted_files
            if keep is not None and entry_count > _LARGE_MANIFEST_ENTRIES:
                return read_manifest(data, path, keep)
            entries = tuple(read_manifest(data, path))
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
        self, metas: Sequence[ManifestFileMeta], keep: KeepEntry | None = None
    ) -> Iterator[ManifestEntry]:
        """Yield the entries of many manifests, in order; the next ones are fetched meanwhile."""
        missing = [meta for meta in metas if self._cache.get(self._key(meta.file_name)) is None]
        if len(missing) < _FETCHES_AT_ONCE:
            for meta in metas:
                yield from self.read(meta, keep)
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
        found = self._cache.get(key)
        if found is None:
            path = self._paths.manifest(name)
            entries = read_index_manifest(self._file_io.read_bytes(path), path)
            found = tuple(live_index_entries(entries))
            self._cache.put(key, found, _index_entry_bytes(found))
        return found

    def write_index(self, entries: Iterable[IndexManifestEntry], names: ManifestNames) -> str:
        """Write an index manifest; return its file name."""
        items = tuple(entries)
        name = names.next("index-manifest")
        self._file_io.write_bytes(self._paths.manifest(name), write_index_manifest(items))
        self._cache.put(self._key(name), items, _index_entry_bytes(items))
        return name

    def write(self, entries: Iterable[ManifestEntry], names: ManifestNames) -> ManifestFileMeta:
        """Write one manifest of at least one entry."""
        items = tuple(entries)
        partition_stats = self._partitions.stats(entry.partition for entry in items)
        data = write_manifest(items)
        name = names.next("manifest")
        self._file_io.write_bytes(self._paths.manifest(name), data)
        self._cache.put(self._key(name), items, _ENTRY_BYTES)
        added = sum(entry.kind is FileKind.ADD for entry in items)
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
        )

    def write_list(
        self, metas: Iterable[ManifestFileMeta], names: ManifestNames
    ) -> tuple[str, int]:
        """Write a manifest list, perhaps an empty one."""
        items = tuple(metas)
        data = write_manifest_list(items)
        name = names.next("manifest-list")
        self._file_io.write_bytes(self._paths.manifest(name), data)
        self._cache.put(self._key(name), items, _META_BYTES)
        return name, len(data)

    def delete(self, name: str) -> None:
        """Delete a manifest or list that no snapshot names."""
        self.forget(name)
        delete_owned(self._file_io, (self._paths.table,), [self._paths.manifest(name)])

    def forget(self, name: str) -> None:
        """Forget the content of a file that goes."""
        self._cache.forget(self._key(name))

    def _key(self, name: str) -> tuple[str, str]:
        return (self._file_io.spec.scheme, self._paths.manifest(name))


def _index_entry_bytes(entries: Sequence[IndexManifestEntry]) -> int:
    vectors = sum(len(entry.file.deletion_vectors or ()) for entry in entries)
    return _META_BYTES * (1 + vectors // (len(entries) or 1))
