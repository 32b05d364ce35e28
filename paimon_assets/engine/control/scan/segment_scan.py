"""Segments in a scan: files that stand in the registry alone, and files that changed.

An external file may be replaced or removed by its owner at any time. Its rows and bounds, taken at
import, would then be wrong, so a scan compares size and time of each file it needs with the
registry, by one listing a folder, before anything is read.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.segments.segment_folder import SegmentRoots
from paimon_assets.engine.control.segments.segment_registry import (
    SegmentRegistry,
    commit_of,
    external_entries,
    is_refreshed_between,
    live_text_segments,
    registered_text_segments,
)
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.fileio.base import FileStatus
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, FileOrigin
from paimon_assets.engine.spec.metadata.manifest import FileKind, ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.predicate.predicate import Predicate, only_on
from paimon_assets.engine.spec.segments.segment import (
    TEXT_FORMATS,
    Segment,
    SegmentFile,
    plain_path,
)
from paimon_assets.engine.spec.segments.text_options import TextOptions, text_options_of

_LISTERS = 16


def text_entries(
    store: FileStore, snapshot: Snapshot, predicate: Predicate | None
) -> list[ManifestEntry]:
    """Return the files of `text_segments` as entries, which no manifest holds."""
    segments = text_segments(store, snapshot, predicate)
    return [entry for segment in segments for entry in entries_of_segment(segment)]


def text_segments(
    store: FileStore, snapshot: Snapshot, predicate: Predicate | None
) -> list[Segment]:
    """Return the segments of text formats that a snapshot has. Cost: a listing, for some tables."""
    return _matching(store, live_text_segments(store, snapshot), predicate)


def _matching(
    store: FileStore, segments: Iterable[Segment], predicate: Predicate | None
) -> list[Segment]:
    on_partition = only_on(predicate, store.schema.partition_keys)
    may_match = partial(store.partitions.may_match, on_partition)
    return [segment for segment in segments if may_match(segment.partition)]


class TextChanges:
    """The changes of snapshots to segments of text formats, which no manifest holds."""

    def __init__(self, store: FileStore, predicate: Predicate | None) -> None:
        self._store = store
        self._segments = _matching(store, registered_text_segments(store), predicate)

    def added(self, step: Snapshot) -> list[ManifestEntry]:
        """Return the files of segments that a snapshot added."""
        at = commit_of(step)
        segments = (segment for segment in self._segments if segment.added == at)
        return [entry for segment in segments for entry in entries_of_segment(segment)]

    def removed(self, step: Snapshot) -> list[ManifestEntry]:
        """Return the files of segments that a snapshot took away."""
        at = commit_of(step)
        segments = (segment for segment in self._segments if segment.removed == at)
        return [entry for segment in segments for entry in entries_of_segment(segment)]

    def refreshed(self, steps: Iterable[Snapshot]) -> Segment | None:
        """Return a segment that some snapshots in a row refreshed, and did not add."""
        commits = {commit_of(step) for step in steps}
        changed = (segment for segment in self._segments if segment.refreshed in commits)
        return next((segment for segment in changed if segment.added not in commits), None)

    def refreshed_between(self, start: Snapshot | None, end: Snapshot) -> Segment | None:
        """Return a segment of `start` that a snapshot since then, up to `end`, refreshed."""
        return next(
            (s for s in self._segments if is_refreshed_between(self._store, s, start, end)), None
        )

    def takes_away(self, step: Snapshot) -> bool:
        """Whether a snapshot changed rows that were there before, as overwrites do."""
        at = commit_of(step)
        return any(at in (segment.removed, segment.refreshed) for segment in self._segments)


def how_written(store: FileStore, segment: Segment) -> TextOptions:
    """Return the format options of a text segment's files."""
    schema = store.schemas.schema(segment.schema_id)
    return text_options_of(segment.format, segment.reader_options, schema) or TextOptions()


def readable_files(store: FileStore, snapshot: Snapshot) -> list[ManifestEntry]:
    """Return all live files a read of a snapshot may open, those of text formats among them."""
    return [*FileStoreScan(store).live_files(snapshot), *text_entries(store, snapshot, None)]


def physical_rows(store: FileStore, snapshot: Snapshot) -> int:
    """Return the rows of a snapshot before merging, text formats too. Cost: no manifest."""
    texts = live_text_segments(store, snapshot)
    return snapshot.total_record_count + sum(segment.row_count for segment in texts)


def entries_of_segment(segment: Segment) -> Iterator[ManifestEntry]:
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


def check_unchanged(store: FileStore, entries: Iterable[ManifestEntry]) -> None:
    """Refuse to read external files that changed since their import.

    Files the registry does not know are compared by size when they are opened. Cost: a read of the
    registry and a listing of each folder, if there are foreign files.
    """
    foreign = external_entries(store, entries)
    if not foreign:
        return
    known = {
        plain_path(segment.path_of(file)): (segment, position)
        for segment in SegmentRegistry(store=store).load().segments
        for position, file in enumerate(segment.files)
    }
    needed = {}
    for entry in foreign:
        path = plain_path(entry.file.external_path or "")
        if path in known:
            needed[path] = known[path]
        elif entry.file.file_format in TEXT_FORMATS:
            raise UnsupportedFeatureError(
                f"Table {store.label} names '{path}' as a {entry.file.file_format} file, which is "
                "no segment of the table; this engine reads text formats as segments only.",
                kind="file-format",
                details={"table": store.label, "path": path},
            )
    with ThreadPoolExecutor(_LISTERS, thread_name_prefix="list-segment") as pool:
        folders = sorted({path.rpartition("/")[0] for path in needed})
        listings = pool.map(store.file_io.list_directory, folders)
        found = {plain_path(status.path): status for listing in listings for status in listing}
    for path in sorted(needed):
        segment, position = needed[path]
        if segment.roots:
            SegmentRoots(segment.roots).check(path)
        difference = _difference(segment.files[position], found.get(path))
        if difference is not None:
            raise InvalidInputError(
                f"external file changed: '{path}' of segment {segment.id} of table {store.label} "
                f"{difference}. Restore it, refresh the segment to take the folder as it is now, "
                "or delete the segment.",
                kind="segment-file-changed",
                details={"table": store.label, "segment": segment.id, "path": path},
            )


def _difference(known: SegmentFile, found: FileStatus | None) -> str | None:
    if found is None or found.is_directory:
        return "is gone"
    if found.size != known.size:
        return f"had {known.size} bytes when it was imported and has {found.size} now"
    if 0 not in (known.modified_ms, found.modified_ms) and found.modified_ms != known.modified_ms:
        return "was written again since it was imported"
    return None
