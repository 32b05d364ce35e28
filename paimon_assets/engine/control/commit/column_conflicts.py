"""Whether new files of some columns still fit the rows that they were made for.

    another commit meanwhile
        writes one of the columns, or one they were made from, for some of the rows    conflict
        writes other columns, or appends                                               both stay
        deletes all rows of a file                                                     conflict
        marks rows as deleted                                                          both stay
        is a compaction that joins the range of the rows with another range            conflict
        is a compaction of the range alone                                             both stay

A conflict is solved by planning again.
Source: `org.apache.paimon.operation.commit.DataEvolutionConflictDetection`,
`RowIdColumnConflictChecker`. They let a writer of a column win that read another one before.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable

from msgspec import Struct

from paimon_assets.engine.control.commit.planned_on import conflict, snapshots_since
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.errors import CommitConflictError
from paimon_assets.engine.spec.metadata.data_file import BLOB_FORMAT, DataFileMeta
from paimon_assets.engine.spec.metadata.manifest import FileKind, ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import CommitKind, Snapshot

COLUMNS_CHANGED = "columns-changed"


class _Ranges(Struct, frozen=True):
    """Ranges of row ids that do not overlap."""

    starts: tuple[int, ...]
    ends: tuple[int, ...]

    @classmethod
    def of(cls, files: Iterable[DataFileMeta]) -> "_Ranges":
        ranges = {(f.first_row_id or 0, (f.first_row_id or 0) + f.row_count) for f in files}
        ordered = sorted(ranges)
        return cls(tuple(start for start, _ in ordered), tuple(end for _, end in ordered))

    def overlap(self, start: int, end: int) -> bool:
        number = bisect_right(self.starts, start) - 1
        before = number >= 0 and self.ends[number] > start
        following = number + 1
        return before or (following < len(self.starts) and self.starts[following] < end)

    def holds(self, start: int, end: int) -> bool:
        """Whether this is one of the ranges."""
        number = bisect_right(self.starts, start) - 1
        return number >= 0 and (self.starts[number], self.ends[number]) == (start, end)


def columns_unchanged_since(
    store: FileStore, planned_on: Snapshot, files: Iterable[DataFileMeta], columns: Iterable[str]
) -> Callable[[Snapshot | None], None]:
    """Return a commit condition that refuses concurrent changes of columns of the rows of files.

    Args:
        store: The table.
        planned_on: The snapshot that was read.
        files: New files of some columns, or files of all rows that were read.
        columns: The columns that are written, and those that were read for them.
    """
    ranges = _Ranges.of(files)
    ids = {store.schema.column(name).id for name in columns}

    def check(latest: Snapshot | None) -> None:
        for other in snapshots_since(store, latest, planned_on.id, kind=COLUMNS_CHANGED):
            for entry in store.manifests.delta(other):
                event = _obstacle(store, entry, other.commit_kind, ranges, ids)
                if event is not None:
                    event = f"snapshot {other.id} {event}"
                    raise conflict(store, other.id, event, kind=COLUMNS_CHANGED)

    return check


def check_ranges(base: Iterable[ManifestEntry], delta: Iterable[ManifestEntry]) -> None:
    """Check that files which a commit leaves do not lie across ranges that it makes or deletes."""
    entries = [entry for entry in delta if _has_range(entry.file)]
    gone = [entry for entry in entries if entry.kind is FileKind.DELETE]
    names = {entry.identifier for entry in gone}
    made = _Ranges.of(entry.file for entry in entries if entry.kind is FileKind.ADD)
    deleted = _Ranges.of(entry.file for entry in gone)
    for entry in base:
        file = entry.file
        if entry.identifier in names or not _has_range(file):
            continue
        start = file.first_row_id or 0
        end = start + file.row_count
        is_across = made.overlap(start, end) or deleted.overlap(start, end)
        if is_across and not made.holds(start, end):
            message = (
                f"File '{file.file_name}' holds columns of rows {start} to {end - 1}, which were"
                " joined with other rows or deleted meanwhile. Plan again."
            )
            raise CommitConflictError(message, kind=COLUMNS_CHANGED, file=file.file_name)


def _has_range(file: DataFileMeta) -> bool:
    """Whether a file holds columns of a whole range; one of blobs may hold a part."""
    return file.first_row_id is not None and file.file_format != BLOB_FORMAT


def _obstacle(
    store: FileStore, entry: ManifestEntry, kind: CommitKind, ranges: _Ranges, ids: set[int]
) -> str | None:
    file = entry.file
    if file.first_row_id is None:
        return None
    start, end = file.first_row_id, file.first_row_id + file.row_count
    if not ranges.overlap(start, end):
        return None
    if kind is CommitKind.COMPACT:
        joins = entry.kind is FileKind.ADD and not ranges.holds(start, end)
        return f"compacted rows {start} to {end - 1} into '{file.file_name}'" if joins else None
    if entry.kind is FileKind.DELETE:
        return f"deleted rows {start} to {end - 1}"
    schema = store.schemas.schema(file.schema_id)
    names = schema.field_names if file.write_cols is None else file.write_cols
    shared = [name for name in names if name in schema.by_name and schema.by_name[name].id in ids]
    return f"changed column '{shared[0]}' of rows {start} to {end - 1}" if shared else None
