"""Loads: commits of the table's own rows, numbered along with segments of external files.

    snapshots since the last look ─▶ own files that come and go ─▶ one load a snapshot that brings
                                                                   files, in their order

A load is what one snapshot added, whoever committed it: rows that were written, rewritten, or
merged by a compaction. A file that a snapshot only moves to another level stays with the load that
brought it. Every live file of the table is thus part of one load: what was there before the oldest
snapshot is one load, too.

A list that ends at a snapshot which is no longer part of the history (it was rolled back, or
others let it expire) is brought up to date from the oldest snapshot on; loads that it knows keep
their ids.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from paimon_assets.engine.codec.json.segment_json import SegmentList
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan, without_collector
from paimon_assets.engine.control.segments.segment_folder import spec_text
from paimon_assets.engine.control.segments.segment_registry import (
    SegmentRegistry,
    commit_of,
    settled,
)
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.spec.metadata.data_file import instant_ms
from paimon_assets.engine.spec.metadata.manifest import FileKind, ManifestEntry, live_entries
from paimon_assets.engine.spec.metadata.snapshot import CommitKind, Snapshot
from paimon_assets.engine.spec.paths import MAIN_BRANCH
from paimon_assets.engine.spec.segments.segment import (
    RETENTION_MS,
    Load,
    LoadFile,
    SegmentCommit,
    is_external,
)

_TRIES = 5
_DAY_MS = 86_400_000
_READ_AT_ONCE = 16
"""Snapshots whose manifests are fetched at once, and held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFiles:
    """The changes of one snapshot to the table's own files."""

    snapshot: Snapshot
    before: Sequence[ManifestEntry] = ()
    """Files that were there before it; given where the snapshot before it was not seen."""
    added: Sequence[ManifestEntry] = ()
    removed: frozenset[str] = frozenset()
    """Names of files that are live no more."""


def with_loads(store: FileStore, listed: SegmentList) -> SegmentList:
    """Return a list with the loads of all snapshots there are.

    A branch's loads are numbered behind the segments and are not those of the list, which belongs
    to the main branch. Cost: the delta manifests of the snapshots since the list's newest; without
    one, those of all snapshots, and the manifests of the oldest.
    """
    if store.paths.branch != MAIN_BRANCH:
        listed = replace(listed, loads=(), mark=None)
    for tries_left in reversed(range(_TRIES)):
        ids = store.snapshots.list_ids()
        mark = listed.mark if _is_there(store, listed.mark) else None
        if mark is not None:
            ids = [number for number in ids if number > mark.snapshot_id]
        if not ids:
            return listed
        try:
            return fold(listed, _seen(store, ids, mark), store, anew=mark is None)
        except NotFoundError:
            has_expired = store.snapshots.snapshot_or_none(ids[0]) is None
            if not (has_expired and tries_left):
                raise
    raise AssertionError("the last try returns or raises")


def keep_ids(store: FileStore, now_ms: int) -> None:
    """Store the loads of snapshots that are about to expire, if the table has a registry.

    Their loads, and which segments they added, took away, or did not because they were undone.
    Loads that have been over for `RETENTION_MS` are forgotten: a table that is written to all the
    time would keep a list of all that ever happened.
    """
    registry = SegmentRegistry(store=store)
    if store.paths.branch != MAIN_BRANCH or not registry.is_kept:
        return
    limit_ms = now_ms - RETENTION_MS

    def known(listed: SegmentList) -> SegmentList:
        listed = replace(listed, segments=tuple(settled(store, listed.segments)))
        return _without_past(store, with_loads(store, listed), limit_ms)

    registry.update(known)


def _without_past(store: FileStore, listed: SegmentList, limit_ms: int) -> SegmentList:
    past = [
        load for load in listed.loads if load.removed_ms is not None and load.removed_ms < limit_ms
    ]
    latest = store.snapshots.latest() if past else None
    if latest is None:
        return listed
    live = {entry.file.file_name for entry in FileStoreScan(store).live_files(latest)}
    over = {load.id for load in past if not any(file.file_name in live for file in load.files)}
    return replace(listed, loads=tuple(load for load in listed.loads if load.id not in over))


def _is_there(store: FileStore, mark: SegmentCommit | None) -> bool:
    found = None if mark is None else store.snapshots.snapshot_or_none(mark.snapshot_id)
    return found is not None and commit_of(found) == mark


def _seen(
    store: FileStore, ids: Sequence[int], mark: SegmentCommit | None
) -> Iterator[SnapshotFiles]:
    """Yield the changes of snapshots after a mark, in order; a few are read ahead."""
    previous = None if mark is None else mark.snapshot_id

    def read(number: int, previous: int | None) -> SnapshotFiles | None:
        snapshot = store.snapshots.snapshot_or_none(number)
        return (
            None if snapshot is None else _files_of(store, snapshot, whole=previous != number - 1)
        )

    with ThreadPoolExecutor(_READ_AT_ONCE, thread_name_prefix="segment-loads") as pool:
        for start in range(0, len(ids), _READ_AT_ONCE):
            chunk = ids[start : start + _READ_AT_ONCE]
            yield from filter(None, pool.map(read, chunk, [previous, *chunk[:-1]]))
            previous = chunk[-1]


def _files_of(store: FileStore, snapshot: Snapshot, *, whole: bool) -> SnapshotFiles:
    options, manifests = store.schema.typed_options, store.manifests
    with without_collector():
        delta = [
            entry
            for entry in manifests.read_all(manifests.read_list(snapshot.delta_manifest_list))
            if not is_external(options, entry.file)
        ]
        before: list[ManifestEntry] = []
        if whole:
            base = manifests.read_all(manifests.read_list(snapshot.base_manifest_list))
            before = [entry for entry in live_entries(base) if not is_external(options, entry.file)]
    come = {entry.file.file_name for entry in delta if entry.kind is FileKind.ADD}
    go = {entry.file.file_name for entry in delta if entry.kind is FileKind.DELETE}
    return SnapshotFiles(
        snapshot=snapshot,
        before=before,
        added=[entry for entry in delta if entry.file.file_name in come - go],
        removed=frozenset(go - come),
    )


def fold(
    listed: SegmentList, seen: Iterable[SnapshotFiles], store: FileStore, *, anew: bool
) -> SegmentList:
    """Return a list with the loads of further snapshots; nothing is read but `seen`."""
    folding = _Folding(store, listed)
    for files in seen:
        folding.take(files)
    return folding.result(anew=anew)


class _Folding:
    def __init__(self, store: FileStore, listed: SegmentList) -> None:
        self._store = store
        self._listed = listed
        self._next_id = listed.next_id
        self._loads = {load.id: load for load in listed.loads}
        self._owners = {file.file_name: load.id for load in listed.loads for file in load.files}
        self._by_list = {
            load.added.delta_manifest_list: load.id
            for load in listed.loads
            if load.added is not None
        }
        self._history: list[SegmentCommit] = []

    def take(self, files: SnapshotFiles) -> None:
        """Take one snapshot in."""
        commit = commit_of(files.snapshot)
        self._history.append(commit)
        self._enter(files.before, None, files.snapshot)
        self._enter(files.added, commit, files.snapshot)
        into = None
        if files.snapshot.commit_kind is CommitKind.COMPACT:
            into = self._by_list.get(commit.delta_manifest_list)
        for number in {self._owners[name] for name in files.removed if name in self._owners}:
            self._loads[number] = replace(
                self._loads[number], compacted_into=into, removed_ms=files.snapshot.time_millis
            )

    def _enter(
        self, entries: Iterable[ManifestEntry], commit: SegmentCommit | None, snapshot: Snapshot
    ) -> None:
        new = [entry for entry in entries if entry.file.file_name not in self._owners]
        if not new:
            return
        load = _load(self._store, self._next_id, new, commit, snapshot)
        self._next_id += 1
        self._loads[load.id] = load
        self._owners.update((file.file_name, load.id) for file in load.files)
        if commit is not None:
            self._by_list[commit.delta_manifest_list] = load.id

    def result(self, *, anew: bool) -> SegmentList:
        """Return the list."""
        if not self._history:
            return self._listed
        first = self._history[0].snapshot_id
        undone = {
            load.id
            for load in self._loads.values()
            if anew and load.added is not None and load.added.snapshot_id >= first
        } - {self._by_list.get(commit.delta_manifest_list) for commit in self._history}
        loads = [
            replace(load, compacted_into=None)
            if load.id in undone or load.compacted_into in undone
            else load
            for load in self._loads.values()
        ]
        return replace(
            self._listed, next_id=self._next_id, loads=tuple(loads), mark=self._history[-1]
        )


def _load(
    store: FileStore,
    number: int,
    entries: Sequence[ManifestEntry],
    commit: SegmentCommit | None,
    snapshot: Snapshot,
) -> Load:
    times = [entry.file.creation_time for entry in entries if entry.file.creation_time is not None]
    moments = [_epoch_ms(created, snapshot.time_millis) for created in times]
    first = spec_text(store.partitions.spec(entries[0].partition))
    start = min(moments, default=snapshot.time_millis)
    # Of what was there before, the newest file says when it was complete.
    end = snapshot.time_millis if commit is not None else max(moments, default=start)
    return Load(
        id=number,
        added=commit,
        partition_text=first,
        partition_count=len({entry.partition for entry in entries}),
        files=tuple(
            LoadFile(entry.file.file_name, entry.file.file_size, entry.file.row_count)
            for entry in entries
        ),
        format=", ".join(sorted({entry.file.file_format for entry in entries})),
        schema_id=max(entry.file.schema_id for entry in entries),
        load_start_ms=start,
        load_end_ms=end,
    )


def _epoch_ms(created: int, latest: int) -> int:
    """Return a wall clock time, taken for this machine's, as epoch milliseconds."""
    return min(instant_ms(min(max(created, 0), latest + _DAY_MS)), latest)
