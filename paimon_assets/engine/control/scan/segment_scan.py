"""Segments in a scan: files that stand in the registry alone, files that changed, and loads.

An external file may be replaced or removed by its owner at any time. Its rows and bounds, taken at
import, would then be wrong, so a scan compares size and time of each file it needs with the
registry, by one listing a folder, before anything is read.

A load is the table's own files that one snapshot added, by a write, a rewrite, or a compaction,
numbered along with segments. A file that a snapshot only moves to another level stays with its
load; files older than the oldest snapshot are one load. A list that ends at a snapshot that was
rolled back, or expired, is brought up to date from the oldest snapshot on, with the same ids.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from msgspec.structs import replace

from paimon_assets.engine.codec.json.segment_json import SegmentList
from paimon_assets.engine.control import segments as segment_lists
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan, without_collector
from paimon_assets.engine.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from paimon_assets.engine.fileio.base import FileStatus
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, FileOrigin, instant_ms
from paimon_assets.engine.spec.metadata.manifest import FileKind, ManifestEntry, live_entries
from paimon_assets.engine.spec.metadata.snapshot import CommitKind, Snapshot
from paimon_assets.engine.spec.paths import MAIN_BRANCH
from paimon_assets.engine.spec.predicate.predicate import Predicate, only_on
from paimon_assets.engine.spec.segments import segment as seg
from paimon_assets.engine.spec.segments.text_options import TextOptions, text_options_of
from paimon_assets.engine.spec.values import Value

_LISTERS = 16


def text_entries(
    store: FileStore, snapshot: Snapshot, predicate: Predicate | None
) -> list[ManifestEntry]:
    """Return the files of `text_segments` as entries, which no manifest holds."""
    segments = text_segments(store, snapshot, predicate)
    return [entry for segment in segments for entry in entries_of_segment(segment)]


def text_segments(
    store: FileStore, snapshot: Snapshot, predicate: Predicate | None
) -> list[seg.Segment]:
    """Return the segments of text formats that a snapshot has. Cost: a listing, for some tables."""
    return _matching(store, segment_lists.live_text_segments(store, snapshot), predicate)


def _matching(
    store: FileStore, segments: Iterable[seg.Segment], predicate: Predicate | None
) -> list[seg.Segment]:
    on_partition = only_on(predicate, store.schema.partition_keys)
    may_match = partial(store.partitions.may_match, on_partition)
    return [segment for segment in segments if may_match(segment.partition)]


class TextChanges:
    """The text segments that each snapshot added, removed or refreshed, from the registry."""

    def __init__(self, store: FileStore, predicate: Predicate | None) -> None:
        self._store = store
        self._segments = _matching(store, segment_lists.registered_text_segments(store), predicate)

    def added_entries(self, step: Snapshot) -> list[ManifestEntry]:
        """Return the files of segments that a snapshot added."""
        at = segment_lists.commit_of(step)
        segments = (segment for segment in self._segments if segment.added == at)
        return [entry for segment in segments for entry in entries_of_segment(segment)]

    def removed_entries(self, step: Snapshot) -> list[ManifestEntry]:
        """Return the files of segments that a snapshot took away."""
        at = segment_lists.commit_of(step)
        segments = (segment for segment in self._segments if segment.removed == at)
        return [entry for segment in segments for entry in entries_of_segment(segment)]

    def first_refreshed(self, steps: Iterable[Snapshot]) -> seg.Segment | None:
        """Return a segment that some snapshots in a row refreshed, and did not add."""
        commits = {segment_lists.commit_of(step) for step in steps}
        changed = (segment for segment in self._segments if segment.refreshed in commits)
        return next((segment for segment in changed if segment.added not in commits), None)

    def refreshed_between(self, start: Snapshot | None, end: Snapshot) -> seg.Segment | None:
        """Return a segment of `start` that a snapshot since then, up to `end`, refreshed."""
        return next(
            (
                s
                for s in self._segments
                if segment_lists.is_refreshed_between(self._store, s, start, end)
            ),
            None,
        )

    def takes_away(self, step: Snapshot) -> bool:
        """Whether a snapshot changed rows that were there before, as overwrites do."""
        at = segment_lists.commit_of(step)
        return any(at in (segment.removed, segment.refreshed) for segment in self._segments)


def how_written(store: FileStore, segment: seg.Segment) -> TextOptions:
    """Return the format options of a text segment's files."""
    schema = store.schemas.schema(segment.schema_id)
    return text_options_of(segment.format, segment.reader_options, schema) or TextOptions()


def readable_files(
    store: FileStore, snapshot: Snapshot, predicate: Predicate | None = None
) -> list[ManifestEntry]:
    """Return all live files a read of a snapshot may open, those of text formats among them."""
    live = FileStoreScan(store).live_files(snapshot, predicate)
    return [*live, *text_entries(store, snapshot, predicate)]


def physical_rows(store: FileStore, snapshot: Snapshot) -> int:
    """Count the rows of a snapshot before keys are merged, those of text segments too.

    Cost: reads no manifest.
    """
    texts = segment_lists.live_text_segments(store, snapshot)
    return snapshot.total_record_count + sum(segment.row_count for segment in texts)


def entries_of_segment(segment: seg.Segment) -> Iterator[ManifestEntry]:
    """Yield a segment's files without statistics, as a manifest would list them."""
    for file in segment.files:
        yield ManifestEntry(
            kind=FileKind.ADD,
            partition=segment.partition,
            bucket=0,
            total_buckets=-1,
            file=DataFileMeta(
                file_name=file.file_name,
                file_size=file.size,
                row_count=file.rows,
                schema_id=segment.schema_id,
                delete_row_count=0,
                file_source=FileOrigin.APPEND,
                value_stats_cols=(),
                external_path=segment.path_of(file),
            ),
        )


def check_unchanged(store: FileStore, entries: Iterable[ManifestEntry]) -> dict[str, str]:
    """Refuse to read external files that changed since their import; return names → tags.

    Files the registry does not know are compared by size when they are opened. Cost: a read of the
    registry and a listing of each folder, if there are external files.
    """
    external = segment_lists.external_entries(store, entries)
    if not external:
        return {}
    known = {
        seg.plain_path(segment.path_of(file)): (segment, position)
        for segment in segment_lists.SegmentRegistry(store=store).load().segments
        for position, file in enumerate(segment.files)
    }
    needed = {}
    for entry in external:
        path = seg.plain_path(entry.file.external_path or "")
        if path in known:
            needed[path] = known[path]
        elif entry.file.file_format in seg.TEXT_FORMATS:
            message = (
                f"Table {store.label} names '{path}' as a {entry.file.file_format} file, which is "
                "no segment of the table; this engine reads text formats as segments only."
            )
            raise UnsupportedFeatureError(message, kind="file-format", table=store.label, path=path)
    with ThreadPoolExecutor(_LISTERS, thread_name_prefix="list-segment") as pool:
        folders = sorted({path.rpartition("/")[0] for path in needed})
        listings = pool.map(store.file_io.list_directory, folders)
        found = {seg.plain_path(status.path): status for listing in listings for status in listing}
    for path in sorted(needed):
        segment, position = needed[path]
        if segment.roots:
            segment_lists.SegmentRoots(segment.roots).check(path)
        fault = difference(segment.files[position], found.get(path))
        if fault is not None:
            raise InvalidInputError(
                f"external file changed: '{path}' of segment {segment.id} of table {store.label} "
                f"{fault}. Restore it, refresh the segment to take the folder as it is now, "
                "or delete the segment.",
                kind="segment-file-changed",
                table=store.label,
                segment=segment.id,
                path=path,
            )
    return {
        segment.files[position].file_name: found[path].tag
        for path, (segment, position) in needed.items()
        if found[path].tag
    }


def difference(
    known: seg.SegmentFile, found: FileStatus | segment_lists.FolderFile | None
) -> str | None:
    """Return how a file differs from the imported one, None if it does not."""
    if found is None or (isinstance(found, FileStatus) and found.is_directory):
        return "is gone"
    if found.size != known.size:
        return f"had {known.size} bytes when it was imported and has {found.size} now"
    if 0 not in (known.modified_ms, found.modified_ms) and found.modified_ms != known.modified_ms:
        return "was written again since it was imported"
    if known.tag and found.tag and found.tag != known.tag:
        return "was replaced since it was imported"
    return None


_TRIES = 5
_DAY_MS = 86_400_000
_READ_AT_ONCE = 16
"""Snapshots whose manifests are fetched at once, and held."""


class SnapshotFiles(Value):
    """The changes of one snapshot to the table's own files."""

    snapshot: Snapshot
    before: Sequence[ManifestEntry] = ()
    """Files from before it, if the snapshot before it was not seen."""
    added: Sequence[ManifestEntry] = ()
    removed: frozenset[str] = frozenset()


def with_loads(store: FileStore, listed: SegmentList) -> SegmentList:
    """Return a list with the loads of all snapshots there are.

    A branch's loads are numbered behind the segments and are not those of the list, which belongs
    to the main branch. Cost: the delta manifests of the snapshots since the list's newest; without
    one, those of all snapshots, and the manifests of the oldest.
    """
    if store.paths.branch != MAIN_BRANCH:
        listed = replace(listed, loads=(), mark=None)
    for tries_left in reversed(range(_TRIES)):
        ids, mark = store.snapshots.list_ids(), listed.mark
        marked = None if mark is None else store.snapshots.snapshot_or_none(mark.snapshot_id)
        if marked is None or segment_lists.commit_of(marked) != mark:
            mark = None
        else:
            ids = [number for number in ids if number > marked.id]
        if not ids:
            return listed
        try:
            return fold(listed, _see_segments(store, ids, mark), store, starts_over=mark is None)
        except NotFoundError:
            has_expired = store.snapshots.snapshot_or_none(ids[0]) is None
            if not (has_expired and tries_left):
                raise
    raise AssertionError("the last try returns or raises")


def keep_ids(store: FileStore, now_ms: int) -> None:
    """Store the loads and segments of snapshots that are about to expire, if there is a registry.

    Loads that have been over for `RETENTION_MS` are forgotten, or the list would grow for ever.
    """
    registry = segment_lists.SegmentRegistry(store=store)
    if store.paths.branch != MAIN_BRANCH or not registry.is_kept:
        return
    limit_ms = now_ms - seg.RETENTION_MS

    def known_segments(listed: SegmentList) -> SegmentList:
        segments = tuple(segment_lists.settle_all(store, listed.segments))
        listed = with_loads(store, replace(listed, segments=segments))
        past = [
            load
            for load in listed.loads
            if load.removed_ms is not None and load.removed_ms < limit_ms
        ]
        latest = store.snapshots.latest() if past else None
        if latest is None:
            return listed
        live = {entry.file.file_name for entry in FileStoreScan(store).live_files(latest)}
        over = {load.id for load in past if not any(file.file_name in live for file in load.files)}
        return replace(listed, loads=tuple(load for load in listed.loads if load.id not in over))

    registry.update(known_segments)


def _see_segments(
    store: FileStore, ids: Sequence[int], mark: seg.SegmentCommit | None
) -> Iterator[SnapshotFiles]:
    """Yield the changes of snapshots after a mark, in order; a few are read ahead."""
    previous = None if mark is None else mark.snapshot_id

    def read(number: int, previous: int | None) -> SnapshotFiles | None:
        snapshot = store.snapshots.snapshot_or_none(number)
        if snapshot is None:
            return None
        return _files_of(store, snapshot, whole=previous != number - 1)

    with ThreadPoolExecutor(_READ_AT_ONCE, thread_name_prefix="segment-loads") as pool:
        for start in range(0, len(ids), _READ_AT_ONCE):
            chunk = ids[start : start + _READ_AT_ONCE]
            yield from filter(None, pool.map(read, chunk, [previous, *chunk[:-1]]))
            previous = chunk[-1]


def _files_of(store: FileStore, snapshot: Snapshot, *, whole: bool) -> SnapshotFiles:
    options, manifests = store.schema.typed_options, store.manifests
    with without_collector():
        delta = [
            entry for entry in manifests.delta(snapshot) if not seg.is_external(options, entry.file)
        ]
        before: list[ManifestEntry] = []
        if whole:
            base = manifests.read_all(manifests.read_list(snapshot.base_manifest_list))
            before = [
                entry for entry in live_entries(base) if not seg.is_external(options, entry.file)
            ]
    come = {entry.file.file_name for entry in delta if entry.kind is FileKind.ADD}
    go = {entry.file.file_name for entry in delta if entry.kind is FileKind.DELETE}
    return SnapshotFiles(
        snapshot=snapshot,
        before=before,
        added=[entry for entry in delta if entry.file.file_name in come - go],
        removed=frozenset(go - come),
    )


def fold(
    listed: SegmentList, seen: Iterable[SnapshotFiles], store: FileStore, *, starts_over: bool
) -> SegmentList:
    """Return a list with the loads of further snapshots; nothing is read but `seen`."""
    next_id, history = listed.next_id, list[seg.SegmentCommit]()
    loads = {load.id: load for load in listed.loads}
    owners = {file.file_name: load.id for load in listed.loads for file in load.files}
    by_list = {
        load.added.delta_manifest_list: load.id for load in listed.loads if load.added is not None
    }
    for files in seen:
        snapshot, commit = files.snapshot, segment_lists.commit_of(files.snapshot)
        history.append(commit)
        for entries, added in ((files.before, None), (files.added, commit)):
            new = [entry for entry in entries if entry.file.file_name not in owners]
            if new:
                load = loads[next_id] = _load(store, next_id, new, added, snapshot)
                next_id += 1
                owners.update((file.file_name, load.id) for file in load.files)
                if added is not None:
                    by_list[added.delta_manifest_list] = load.id
        is_compaction = snapshot.commit_kind is CommitKind.COMPACT
        into = by_list.get(commit.delta_manifest_list) if is_compaction else None
        for number in {owners[name] for name in files.removed if name in owners}:
            loads[number] = replace(
                loads[number], compacted_into=into, removed_ms=snapshot.time_millis
            )
    if not history:
        return listed
    undone = {
        load.id
        for load in loads.values()
        if starts_over
        and load.added is not None
        and load.added.snapshot_id >= history[0].snapshot_id
    } - {by_list.get(commit.delta_manifest_list) for commit in history}
    return replace(
        listed,
        next_id=next_id,
        loads=tuple(
            replace(load, compacted_into=None)
            if load.id in undone or load.compacted_into in undone
            else load
            for load in loads.values()
        ),
        mark=history[-1],
    )


def _load(
    store: FileStore,
    number: int,
    entries: Sequence[ManifestEntry],
    commit: seg.SegmentCommit | None,
    snapshot: Snapshot,
) -> seg.Load:
    times = [entry.file.creation_time for entry in entries if entry.file.creation_time is not None]
    latest = snapshot.time_millis
    # Wall clock times, taken for this machine's.
    times = [min(instant_ms(min(max(time, 0), latest + _DAY_MS)), latest) for time in times]
    start = min(times, default=latest)
    # The time of the newest file is when older rows were complete.
    end = latest if commit is not None else max(times, default=start)
    return seg.Load(
        id=number,
        added=commit,
        partition_text=segment_lists.spec_text(store.partitions.spec(entries[0].partition)),
        partition_count=len({entry.partition for entry in entries}),
        files=tuple(
            seg.LoadFile(entry.file.file_name, entry.file.file_size, entry.file.row_count)
            for entry in entries
        ),
        format=", ".join(sorted({entry.file.file_format for entry in entries})),
        schema_id=max(entry.file.schema_id for entry in entries),
        load_start_ms=start,
        load_end_ms=end,
    )
