"""All metadata of a table without some rows: snapshots, tags, changelogs, and the files they name.

    data files with such rows ─▶ new files (`ErasedRows.files`)
        ─▶ manifests, lists, index files with vectors ─▶ snapshots, tags, changelogs in their place

A file is replaced under a new name wherever it is named, be it as deleted, so all states keep their
sense. First the newest snapshot gets a successor with new manifests: from then on no commit builds
on the old ones. Then snapshots are replaced, newest first, because a snapshot names the list of the
one below. Old files go last, by a journal (`erase/erase-<uuid>.json`) that is written before
anything is replaced, so that the next run ends one that was killed.
"""

import json
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal
from uuid import uuid4

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from paimon_assets.engine.codec.bitmaps.deletion_vector import (
    FRAME_BYTES,
    decode_vector,
    write_index_file,
)
from paimon_assets.engine.codec.json.metadata_json import snapshot_to_json, tag_to_json
from paimon_assets.engine.codec.json.segment_json import SegmentList
from paimon_assets.engine.control.commit.request import WholeState
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance import references as ref
from paimon_assets.engine.control.maintenance.expire_snapshots import (
    delete_empty_partitions,
    delete_files,
)
from paimon_assets.engine.control.maintenance.orphan_files import needed_by_all
from paimon_assets.engine.control.managers.numbered_files import read_or_none
from paimon_assets.engine.control.manifests import ManifestNames
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.scan.split_generator import index_path
from paimon_assets.engine.control.segments import SegmentRegistry
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.spec.metadata.data_file import EMPTY_STATS, DataFileMeta
from paimon_assets.engine.spec.metadata.manifest import (
    DELETION_VECTORS_INDEX,
    HASH_INDEX,
    FileKind,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
)
from paimon_assets.engine.spec.metadata.snapshot import BUILT_ON_PROPERTY, Snapshot, Tag
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.segments import segment as seg
from paimon_assets.engine.spec.values import Value


class Root(Value):
    """A holder of files: a snapshot, a tag or a changelog of a branch."""

    store: FileStore
    """Of the branch."""
    kind: Literal["snapshot", "tag", "changelog"]
    name: str
    snapshot: Snapshot
    tag: Tag | None = None

    def entries(self) -> Iterator[tuple[ManifestEntry, bool]]:
        """Yield all entries of its manifests, and whether they are of its changelog."""
        logged = self.snapshot.changelog_manifest_list
        for name in self.lists:
            for meta in _read_list(self, name):
                for entry in _read(self, meta):
                    yield entry, name == logged

    @property
    def lists(self) -> list[str]:
        snapshot = self.snapshot
        names = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
        return [name for name in (*names, snapshot.changelog_manifest_list) if name is not None]

    def paths(self) -> set[str]:
        """Return the paths of its metadata, as far as it is there."""
        paths = ref.retained_changelog_paths(self.store, self.snapshot)
        with suppress(NotFoundError):
            paths |= ref.metadata_paths(self.store, self.snapshot)
        return paths | ref.changelog_paths(self.store, self.snapshot)

    def put(self, snapshot: Snapshot) -> None:
        """Store another snapshot in its place, if it is still there."""
        store, paths = self.store, self.store.paths
        if self.tag is not None:
            if store.tags.get_or_none(self.name) == self.tag:
                tag = replace(self.tag, snapshot=snapshot)
                store.file_io.replace(paths.tag(self.name), tag_to_json(tag))
            return
        is_log = self.kind == "changelog"
        stored = store.changelogs.changelog_or_none if is_log else store.snapshots.snapshot_or_none
        if stored(snapshot.id) == self.snapshot:
            path = paths.changelog(snapshot.id) if is_log else paths.snapshot(snapshot.id)
            store.file_io.replace(path, snapshot_to_json(snapshot))
            earliest = store.changelogs.earliest_hint() if is_log else store.snapshots.earliest_id()
            if (earliest or 0) > snapshot.id:  # it expired meanwhile, and is back
                store.file_io.delete_file(path)


def roots_of(store: FileStore) -> list[Root]:
    """Return the roots of a branch. Cost: reads each."""
    snapshots = ref.existing_snapshots(store)
    logs, tags = ref.existing_changelogs(store), store.tags.list()
    return [
        *(Root(store=store, kind="snapshot", name=str(s.id), snapshot=s) for s in snapshots),
        *(Root(store=store, kind="tag", name=t.name, snapshot=t.snapshot, tag=t) for t in tags),
        *(Root(store=store, kind="changelog", name=str(s.id), snapshot=s) for s in logs),
    ]


def _read_list(root: Root, name: str) -> Sequence[ManifestFileMeta]:
    """Return the manifests of a list; lists of a tag or changelog may be deleted."""
    try:
        return root.store.manifests.read_list(name)
    except NotFoundError:
        if root.kind == "snapshot":
            raise
        return ()


def _read(root: Root, meta: ManifestFileMeta) -> Sequence[ManifestEntry]:
    try:
        return root.store.manifests.read(meta)
    except NotFoundError:
        if root.kind == "snapshot":
            raise
        return ()


class NewFile(Value):
    """A data file without the rows that are erased."""

    before: DataFileMeta
    file: DataFileMeta | None
    """None if no row is left, or it was gone before; then it is named no more."""
    positions: bytes = b""
    """Of the rows that are erased, ascending, as int64."""
    is_bare: bool = False
    """Whether the file is foreign: its entries stay, without statistics."""

    @property
    def rows(self) -> int:
        return len(self.positions) // 8


class ErasedRows(Struct, kw_only=True):
    """Metadata of a table, made again without some rows; each piece once."""

    files: dict[ref.FileKey, NewFile] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)
    """Files that may have become needless, and new ones: the journal."""
    renamed: set[tuple[str, str]] = field(default_factory=set)
    """(name of a list or data file, its new name): the journal, too."""
    keys: list[bytes] = field(default_factory=list)
    """Primary keys to erase, as Arrow streams: the journal, for a match may be gone already."""
    partitions: set[bytes] = field(default_factory=set)
    """Of the keys."""
    _names: ManifestNames = field(default_factory=ManifestNames)
    _metas: dict[str, tuple[ManifestFileMeta | None, int]] = field(default_factory=dict)
    _lists: dict[str, tuple[str, int | None, int]] = field(default_factory=dict)
    _indexes: dict[str, str | None] = field(default_factory=dict)
    _index_files: dict[str, IndexManifestEntry | None] = field(default_factory=dict)

    def entry(self, store: FileStore, entry: ManifestEntry) -> ManifestEntry | None:
        """Return the entry of the new file; None if it has none."""
        new = self.files.get(ref.key_of(entry))
        if new is None:
            return entry
        if new.file is None:
            return None
        if new.is_bare:
            file = entry.file._replace(value_stats=EMPTY_STATS, value_stats_cols=())
            return entry._replace(file=file)
        old = entry.file  # a compaction may have put the file on another level
        file = new.file._replace(
            level=old.level, creation_time=old.creation_time, file_source=old.file_source,
            min_sequence_number=old.min_sequence_number,
            max_sequence_number=old.max_sequence_number,
        )  # fmt: skip
        return entry._replace(file=file)

    def _manifest(self, root: Root, meta: ManifestFileMeta) -> tuple[ManifestFileMeta | None, int]:
        """Return a manifest, None without entries, and by how many rows its sum changes."""
        if meta.file_name not in self._metas:
            before = list(_read(root, meta))
            after = [self.entry(root.store, entry) for entry in before]
            left = [entry for entry in after if entry is not None]
            rows = sum(
                (-1 if entry.kind is FileKind.ADD else 1) * new.rows
                for entry in before
                if (new := self.files.get(ref.key_of(entry))) is not None
            )
            new_meta: ManifestFileMeta | None = meta
            if after != before:
                new_meta = root.store.manifests.write(left, self._names) if left else None
                if new_meta is not None:
                    self.paths.add(root.store.paths.manifest(new_meta.file_name))
            self._metas[meta.file_name] = (new_meta, rows)
        return self._metas[meta.file_name]

    def _list(self, root: Root, name: str, size: int | None) -> tuple[str, int | None, int]:
        """Return a list's name and bytes, and by how many rows its sum changes."""
        if name not in self._lists:
            before = _read_list(root, name)
            made = [self._manifest(root, meta) for meta in before]
            after = [meta for meta, _ in made if meta is not None]
            rows = sum(rows for _, rows in made)
            if after == list(before):
                self._lists[name] = (name, size, rows)
            else:
                new, new_size = root.store.manifests.write_list(after, self._names)
                self.paths.add(root.store.paths.manifest(new))
                self.renamed.add((name, new))
                self._lists[name] = (new, new_size, rows)
        return self._lists[name]

    def index(self, store: FileStore, name: str | None) -> str | None:
        """Return an index manifest whose vectors fit the new files, None for none.

        Indexes of values are left out: readers do without.
        """
        if name is None or not self.files:
            return name
        if name not in self._indexes:
            before = store.manifests.read_index(name)
            after = [self._index_file(store, entry) for entry in before]
            left = [entry for entry in after if entry is not None]
            new: str | None = name
            if tuple(left) != before:
                new = store.manifests.write_index(left, self._names) if left else None
            if new is not None:
                self.paths.add(store.paths.manifest(new))
            self._indexes[name] = new
        return self._indexes[name]

    def _index_file(self, store: FileStore, entry: IndexManifestEntry) -> IndexManifestEntry | None:
        if entry.file.index_type == HASH_INDEX:
            return entry
        if entry.file.index_type != DELETION_VECTORS_INDEX:
            return None
        key = (entry.partition, entry.bucket)
        metas = entry.file.deletion_vectors or ()
        if not any((*key, meta.data_file_name) in self.files for meta in metas):
            return entry
        path = index_path(store, entry)
        if path not in self._index_files:
            data, vectors = store.file_io.read_bytes(path), {}
            for meta in metas:
                framed = data[meta.offset : meta.offset + meta.length + FRAME_BYTES]
                vector = decode_vector(framed, path, length=meta.length)
                new = self.files.get((*key, meta.data_file_name))
                if new is None or new.is_bare:
                    vectors[meta.data_file_name] = vector
                elif new.file is not None:
                    left = vector.without(np.frombuffer(new.positions, dtype=np.int64))
                    if len(left):
                        vectors[new.file.file_name] = left
            self._index_files[path] = self._new_index(store, entry, path, vectors)
        return self._index_files[path]

    def _new_index(
        self, store: FileStore, entry: IndexManifestEntry, path: str, vectors: dict[str, Any]
    ) -> IndexManifestEntry | None:
        if not vectors:
            return None
        bitmap64 = store.schema.typed_options.get(opt.DELETION_VECTORS_BITMAP64)
        data, metas = write_index_file(vectors, bitmap64=bitmap64)
        name = f"index-{uuid4()}-0"
        new_path = f"{path.rpartition('/')[0]}/{name}"
        store.file_io.write_bytes(new_path, data)
        self.paths.add(new_path)
        is_elsewhere = entry.file.external_path is not None
        file = replace(
            entry.file, file_name=name, file_size=len(data), row_count=len(metas),
            deletion_vectors=metas, external_path=new_path if is_elsewhere else None,
        )  # fmt: skip
        return replace(entry, file=file)

    def snapshot(self, root: Root) -> Snapshot:
        """Return a root's snapshot without the rows; equal to before if it has none of them.

        Statistics of ANALYZE are left out: the smallest and largest value may be of such a row.
        """
        old = root.snapshot
        base, base_size, base_rows = self._list(
            root, old.base_manifest_list, old.base_manifest_list_size
        )
        delta, delta_size, delta_rows = self._list(
            root, old.delta_manifest_list, old.delta_manifest_list_size
        )
        index = old.index_manifest
        if root.kind != "changelog":
            index = self.index(root.store, index)
        new = replace(
            old,
            base_manifest_list=base,
            base_manifest_list_size=base_size,
            delta_manifest_list=delta,
            delta_manifest_list_size=delta_size,
            index_manifest=index,
            total_record_count=old.total_record_count + base_rows + delta_rows,
            delta_record_count=old.delta_record_count + delta_rows,
            statistics=None,
        )
        if old.changelog_manifest_list is not None:
            name, size, rows = self._list(
                root, old.changelog_manifest_list, old.changelog_manifest_list_size
            )
            count = old.changelog_record_count
            new = replace(
                new,
                changelog_manifest_list=name,
                changelog_manifest_list_size=size,
                changelog_record_count=None if count is None else count + rows,
            )
        return new

    def changes(self, roots: Iterable[Root]) -> list[tuple[Root, Snapshot]]:
        """Write new metadata, and return the roots that change, with their new snapshots.

        They are in the order to replace them. A snapshot above one whose list gets another name
        forgets the name, and is replaced first: so there is no break in the line at any time.
        """
        for known in (self._metas, self._lists, self._indexes, self._index_files):
            known.clear()
        made = [(root, self.snapshot(root)) for root in roots]
        renamed = {
            root.snapshot.delta_manifest_list
            for root, new in made
            if new.delta_manifest_list != root.snapshot.delta_manifest_list
        }
        changed = []
        for root, snapshot in made:
            properties = dict(snapshot.properties)
            if properties.get(BUILT_ON_PROPERTY) in renamed:
                del properties[BUILT_ON_PROPERTY]
            new = replace(snapshot, properties=properties)
            if new != root.snapshot:
                changed.append((root, new))
        for root, new in changed:
            if new.names_other_files(root.snapshot):
                self.paths |= root.paths()
                entries = (entry for entry, _ in root.entries())
                for entry in entries:
                    if ref.key_of(entry) in self.files:
                        self.paths.update(ref.data_file_paths(root.store, entry))
        return sorted(changed, key=lambda pair: -pair[0].snapshot.id)

    def state(self, store: FileStore, latest: Snapshot, next_row_id: int) -> WholeState:
        """Return the state of a branch's newest snapshot without the rows."""
        before = FileStoreScan(store).live_files(latest)
        live = [new for each in before if (new := self.entry(store, each)) is not None]
        index = self.index(store, latest.index_manifest)
        gone = sum(e.file.row_count for e in before) - sum(e.file.row_count for e in live)
        return WholeState(
            live=live,
            index=() if index is None else store.manifests.read_index(index),
            total_record_count=latest.total_record_count - gone,
            next_row_id=next_row_id,
        )

    def write_journal(self, store: FileStore) -> None:
        """Note the keys, and which files may go, before the first file loses its name."""
        prefix = f"{store.table_path}/"
        inside = [path.removeprefix(prefix) for path in sorted(self.paths)]
        document = {
            "paths": inside,
            "renamed": sorted(self.renamed),
            "keys": [each.hex() for each in self.keys],
            "partitions": [each.hex() for each in self.partitions],
        }
        path = f"{store.paths.erase_directory}/erase-{uuid4()}.json"
        store.file_io.write_bytes(path, json.dumps(document).encode())

    def read_journals(self, store: FileStore) -> None:
        """Take over the files of runs that did not end."""
        for status in store.file_io.list_directory(store.paths.erase_directory):
            data = read_or_none(store.file_io, status.path)
            try:
                document = json.loads(data or b"{}")
                inside, renamed = document["paths"], document["renamed"]
                self.keys += map(bytes.fromhex, document["keys"])
                self.partitions.update(map(bytes.fromhex, document["partitions"]))
            except (ValueError, LookupError, TypeError):
                continue  # it was not written in full, and nothing was replaced
            self.renamed.update((old, new) for old, new in renamed)
            self.paths.update(
                each if "://" in each or each.startswith("/") else f"{store.table_path}/{each}"
                for each in inside
            )

    def delete_needless(self, store: FileStore) -> int:
        """Delete the noted files that nothing names any more, then the journals."""
        names = {path.rpartition("/")[2] for path in self.paths}
        needed = {name for name in needed_by_all(store, set()) if name in names}
        going = sorted(path for path in self.paths if path.rpartition("/")[2] not in needed)
        self._rename_in_segments(store, needed)
        delete_files(store, going)
        delete_empty_partitions(store, going)
        journals = [
            status.path for status in store.file_io.list_directory(store.paths.erase_directory)
        ]
        delete_files(store, journals)
        store.file_io.delete_empty_directory(store.paths.erase_directory)
        return len(going)

    def _rename_in_segments(self, store: FileStore, needed: Container[str]) -> None:
        """Let the list of segments name the lists and files that snapshots name now."""
        following: dict[str, list[str]] = {}
        for old, new in self.renamed:
            following.setdefault(old, []).append(new)

        def now(name: str) -> str:
            found = map(now, following.get(name, ()))
            return name if name in needed else next((n for n in found if n in needed), name)

        def commit(before: seg.SegmentCommit | None) -> seg.SegmentCommit | None:
            if before is None:
                return None
            return replace(before, delta_manifest_list=now(before.delta_manifest_list))

        def names_now(listed: SegmentList) -> SegmentList:
            segments = (
                replace(
                    each,
                    added=commit(each.added),
                    removed=commit(each.removed),
                    refreshed=commit(each.refreshed),
                )
                for each in listed.segments
            )
            loads = (
                replace(
                    load,
                    added=commit(load.added),
                    files=tuple(f._replace(file_name=now(f.file_name)) for f in load.files),
                )
                for load in listed.loads
            )
            mark = commit(listed.mark)
            return replace(listed, segments=tuple(segments), loads=tuple(loads), mark=mark)

        registry = SegmentRegistry(store=store)
        if self.renamed and registry.is_kept:
            registry.update(names_now)
