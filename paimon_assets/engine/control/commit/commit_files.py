"""CommitFiles: the manifests and lists that one commit writes, over all of its tries.

    once, unless the changes are planned again    delta manifests, changelog manifests
    each try                                      base list, delta list, changelog list,
                                                  index manifest, merged manifests

Files of a lost try that the next one does not use are deleted, or left as orphans.
Source: `org.apache.paimon.manifest.PartitionEntry`.
"""

import logging
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, field

from paimon_assets.engine.control import manifests as manifest_store
from paimon_assets.engine.control.commit.changes import CommitChanges
from paimon_assets.engine.control.commit.partition_filter import PartitionFilter
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.errors import StorageError
from paimon_assets.engine.spec.metadata import manifest
from paimon_assets.engine.spec.metadata.data_file import instant_ms
from paimon_assets.engine.spec.metadata.snapshot import PartitionStatistics, Snapshot
from paimon_assets.engine.spec.values import Value


def folding_of(
    store: FileStore, write: Callable[[Sequence[manifest.ManifestEntry]], manifest.ManifestFileMeta]
) -> manifest_store.ManifestFolding:
    return manifest_store.ManifestFolding(
        options=store.schema.typed_options,
        read=store.manifests.read,
        write=write,
        may_hold=lambda meta, named: PartitionFilter.of(store, named).may_hold(meta),
    )


def partition_statistics(
    partitions: manifest_store.PartitionValues, entries: Iterable[manifest.ManifestEntry]
) -> list[PartitionStatistics]:
    """Return the sums of a commit's data files, by partition. Cost: O(n) for n entries."""
    by_partition: dict[bytes, list[manifest.ManifestEntry]] = {}
    for entry in entries:
        by_partition.setdefault(entry.partition, []).append(entry)
    return [_sums(partitions, partition, found) for partition, found in by_partition.items()]


def _sums(
    partitions: manifest_store.PartitionValues,
    partition: bytes,
    entries: list[manifest.ManifestEntry],
) -> PartitionStatistics:
    signs = [1 if entry.kind is manifest.FileKind.ADD else -1 for entry in entries]
    files = [entry.file for entry in entries]
    created = [file.creation_time for file in files if file.creation_time is not None]
    return PartitionStatistics(
        spec=partitions.path_spec(partition),
        record_count=sum(n * file.row_count for n, file in zip(signs, files, strict=True)),
        file_size_in_bytes=sum(n * file.file_size for n, file in zip(signs, files, strict=True)),
        file_count=sum(signs),
        last_file_creation_time=max(map(instant_ms, created), default=0),
        total_buckets=entries[-1].total_buckets,
    )


logger = logging.getLogger(__name__)

_ENTRIES_A_MANIFEST = 50_000

ListFile = tuple[str, int]
"""(file name, bytes) of a manifest list."""


class WrittenLists(Value):
    """The manifest lists that a snapshot names."""

    base: ListFile
    delta: ListFile
    changelog: ListFile | None
    index_manifest: str | None


class CommitFiles(Struct, kw_only=True):
    """Writes the metadata of one commit, and deletes it if the commit does not happen."""

    store: FileStore
    names: manifest_store.ManifestNames
    _changes: CommitChanges | None = None
    _delta: list[manifest.ManifestFileMeta] = field(default_factory=list)
    _changelog: list[manifest.ManifestFileMeta] = field(default_factory=list)
    _cleaned: set[str] = field(default_factory=set)

    def write(
        self,
        changes: CommitChanges,
        latest: Snapshot | None,
        index: Sequence[manifest.IndexManifestEntry] | None,
        live: Sequence[manifest.ManifestEntry] | None = None,
    ) -> WrittenLists:
        """Write the manifests of a snapshot on top of `latest`; `live` replaces its files."""
        with self.store.file_io.at_once():
            return self._write(changes, latest, index, live)

    def _write(
        self,
        changes: CommitChanges,
        latest: Snapshot | None,
        index: Sequence[manifest.IndexManifestEntry] | None,
        live: Sequence[manifest.ManifestEntry] | None,
    ) -> WrittenLists:
        if self._changes is not changes:
            self._delete(self.of_changes())
            self._delta = self._manifests(changes.entries)
            self._changelog = self._manifests(changes.changelog)
            self._changes = changes
        manifests = self.store.manifests
        before = () if latest is None else manifests.manifests_of(latest)
        folding = folding_of(self.store, lambda entries: manifests.write(entries, self.names))
        merged = folding.fold(before) if live is None else self._manifests(live)
        index_manifest = latest.index_manifest if latest else None
        if index is not None:
            index_manifest = manifests.write_index(index, self.names) if index else None
        return WrittenLists(
            base=manifests.write_list(merged, self.names),
            delta=manifests.write_list(self._delta, self.names),
            changelog=(
                manifests.write_list(self._changelog, self.names) if self._changelog else None
            ),
            index_manifest=index_manifest,
        )

    def clean_lost_try(self) -> None:
        """Delete the files that only the current try uses."""
        keep = self.of_changes()
        self._delete(name for name in self.names.issued if name not in keep)

    def leave(self) -> None:
        """Never delete the files written so far: a request without an answer may yet arrive."""
        self._cleaned.update(self.names.issued)

    def clean_all(self) -> None:
        """Delete everything; a next try begins from nothing."""
        self._changes = None
        self._delete(self.names.issued)

    def of_changes(self) -> set[str]:
        """Return the names of the manifests of its changes, which every try names."""
        return {meta.file_name for meta in (*self._delta, *self._changelog)}

    def _manifests(
        self, entries: Sequence[manifest.ManifestEntry]
    ) -> list[manifest.ManifestFileMeta]:
        return [
            self.store.manifests.write(chunk, self.names)
            for chunk in manifest_store.chunks(entries, _ENTRIES_A_MANIFEST)
        ]

    def _delete(self, names: Iterable[str]) -> None:
        fresh = [name for name in names if name not in self._cleaned]
        self._cleaned.update(fresh)
        for name in fresh:
            try:
                self.store.manifests.delete(name)
            except StorageError:
                logger.warning("orphan manifest '%s' is left", name, exc_info=True)
