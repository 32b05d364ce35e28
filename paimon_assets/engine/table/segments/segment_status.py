"""Segments in the newest snapshot: status, rows to show, messages that add and remove files."""

import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from paimon_assets.engine.codec.json.segment_json import SegmentList
from paimon_assets.engine.contract.commit_message import CommitMessage, DataIncrement
from paimon_assets.engine.contract.report_tasks import FileFooter
from paimon_assets.engine.control.clock import Clock
from paimon_assets.engine.control.compact import LiveBucket, live_buckets
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.segments import is_live_in, resolve
from paimon_assets.engine.errors import AlreadyExistsError, NotFoundError, UnsupportedFeatureError
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, FileOrigin, wall_clock_ms
from paimon_assets.engine.spec.metadata.manifest import IndexFileMeta
from paimon_assets.engine.spec.options.catalog_options import shown_options
from paimon_assets.engine.spec.segments import segment as seg
from paimon_assets.engine.spec.words import duration_text


def segments_now(store: FileStore, segments: Iterable[seg.Segment]) -> list[seg.Segment]:
    """Return segments with the status in the newest snapshot, whose manifests are read."""
    items = all_now(store, SegmentList(segments=tuple(segments)))
    return [item for item in items if isinstance(item, seg.Segment)]


def all_now(store: FileStore, listed: SegmentList) -> list[seg.Segment | seg.Load]:
    """Return segments and loads by id, as `segments_now`; listed snapshots are older."""
    # Commands in progress first: their commits must not be newer than the newest snapshot.
    settled = resolve(store, listed.segments)
    latest = store.snapshots.latest() if settled or listed.loads else None
    if latest is None:
        return sorted([*settled, *listed.loads], key=lambda item: item.id)
    own: set[str] = set()
    external: set[str] = set()
    for entry in FileStoreScan(store).live_files(latest):
        names = external if seg.is_external(store.schema.typed_options, entry.file) else own
        names.add(entry.file.file_name)

    def segment_now(segment: seg.Segment) -> seg.Segment:
        if segment.status not in (seg.SegmentStatus.SUCCESS, seg.SegmentStatus.MARKED_FOR_DELETE):
            return segment
        if segment.is_visible_to_paimon:
            is_live = any(file.file_name in external for file in segment.files)
        else:
            is_live = is_live_in(store, segment, latest)
        status = seg.SegmentStatus.SUCCESS if is_live else seg.SegmentStatus.MARKED_FOR_DELETE
        return replace(segment, status=status)

    def load_now(load: seg.Load) -> seg.Load:
        if any(file.file_name in own for file in load.files):
            # The commit that compacted rows of a live load is not shown.
            return replace(load, status=seg.SegmentStatus.SUCCESS, compacted_into=None)
        is_compacted = load.compacted_into is not None
        status = (
            seg.SegmentStatus.COMPACTED if is_compacted else seg.SegmentStatus.MARKED_FOR_DELETE
        )
        return replace(load, status=status)

    now: list[seg.Segment | seg.Load] = [*map(segment_now, settled), *map(load_now, listed.loads)]
    return sorted(now, key=lambda item: item.id)


def refuse_taken(
    store: FileStore, segments: Iterable[seg.Segment], paths: AbstractSet[str], user: str
) -> None:
    """Refuse files that another command added meanwhile."""
    for segment in segments_now(store, segments):
        is_taken = segment.status is seg.SegmentStatus.SUCCESS and segment.commit_user != user
        if is_taken and not paths.isdisjoint(seg.paths_of([segment])):
            message = (
                "path already exists in table status file, can not add same segment path "
                f"repeatedly: another command added it as segment {segment.id} of table "
                f"{store.label}."
            )
            raise AlreadyExistsError(message, kind="segment-path-duplicate", segment=segment.id)


def check_ids(
    store: FileStore, ids: Collection[int], live: Iterable[seg.Segment | seg.Load]
) -> None:
    """Refuse ids that are not of live segments."""
    missing = sorted(set(ids) - {segment.id for segment in live})
    if missing:
        raise NotFoundError(
            f"Table '{store.label}' has no live segment {missing[0]}; show its segments.",
            kind="segment-not-found",
            table=store.label,
            segment=missing[0],
        )


def additions(
    segments: Iterable[seg.Segment], footers: Mapping[str, FileFooter], clock: Clock
) -> list[CommitMessage]:
    """Return messages that add files of segments, none for texts; footers by plain path."""
    created = wall_clock_ms(clock.now_millis())
    return [
        CommitMessage(
            partition=segment.partition,
            bucket=0,
            total_buckets=-1,
            data_increment=DataIncrement(
                new_files=tuple(
                    _data_file(
                        segment, file, footers[seg.plain_path(segment.path_of(file))], created
                    )
                    for file in segment.files
                )
            ),
        )
        for segment in segments
        if segment.is_visible_to_paimon
    ]


def _data_file(
    segment: seg.Segment, file: seg.SegmentFile, footer: FileFooter, created_ms: int
) -> DataFileMeta:
    """Return a file's entry, with the statistics of its footer."""
    return DataFileMeta(
        file_name=file.file_name,
        file_size=file.size,
        row_count=file.rows,
        value_stats=footer.stats,
        value_stats_cols=footer.stats_columns,
        schema_id=segment.schema_id,
        creation_time=created_ms,
        delete_row_count=0,
        file_source=FileOrigin.APPEND,
        external_path=segment.path_of(file),
    )


def removals(store: FileStore, segments: Iterable[seg.Segment | seg.Load]) -> list[CommitMessage]:
    """Return the messages that remove segments' live files, with their deletion vectors.

    An index file that holds such a vector beside one of a file that stays is refused.
    """
    latest = store.snapshots.latest()
    if latest is None:
        return []
    names = {file.file_name for segment in segments for file in segment.files}
    live = FileStoreScan(store).live_files(latest)
    going = [entry for entry in live if entry.file.file_name in names]
    return [
        bucket.message(
            DataIncrement(
                deleted_files=bucket.files,
                deleted_index_files=tuple(_going_indexes(store, bucket, names)),
            )
        )
        for bucket in live_buckets(store, latest, going)
    ]


def _going_indexes(
    store: FileStore, bucket: LiveBucket, names: Collection[str]
) -> Iterator[IndexFileMeta]:
    for index in bucket.index_files:
        marked = {vector.data_file_name for vector in index.deletion_vectors or ()}
        if marked.isdisjoint(names):
            continue
        if not marked.issubset(names):
            stays = min(marked.difference(names))
            raise UnsupportedFeatureError(
                f"Table {store.label}: deleted rows of files to be taken away are marked in "
                f"'{index.file_name}', along with those of '{stays}', which stays. Compact the "
                "table first, or delete the rows by a condition.",
                kind="segment-own",
                table=store.label,
                file=index.file_name,
            )
        yield index


_NOT_APPLICABLE = "NA"

_COLUMNS = (
    "ID, Status, Load Start Time, Load Time Taken, Partition, Data Size, Index Size, File Format,"
    " Path, Options"
)
SHOW_SEGMENTS = pa.schema({name: pa.string() for name in _COLUMNS.split(", ")})


def show_segments(
    segments: Sequence[seg.Segment | seg.Load], *, limit: int | None = None, history: bool = False
) -> pa.Table:
    """Return the rows of SHOW [HISTORY] SEGMENTS, newest id first, `limit` of them."""
    newest = sorted(segments, key=lambda segment: -segment.id)[:limit]
    schema, rows = SHOW_SEGMENTS, [_shown_row(segment) for segment in newest]
    if history:
        for name in ("Visibility", "Merged To"):
            schema = schema.append(pa.field(name, pa.string()))
    return pa.Table.from_pylist(rows, schema=schema)


def _shown_row(segment: seg.Segment | seg.Load) -> dict[str, Any]:
    """Return the row of SHOW HISTORY SEGMENTS for one segment."""
    taken, merged = _taken_ms(segment), _merged_to(segment)
    duration = None if taken is None else duration_text(dt.timedelta(milliseconds=taken))
    start = dt.datetime.fromtimestamp(segment.load_start_ms / 1000, dt.UTC)
    partition = f"{{{segment.partition_text}}}{_more_text(segment)}"
    return {
        "ID": str(segment.id),
        "Status": segment.status.value,
        "Load Start Time": f"{start:%Y-%m-%d %H:%M:%S}.{segment.load_start_ms % 1000:03d} UTC",
        "Load Time Taken": duration.removeprefix("PT") if duration else _NOT_APPLICABLE,
        "Partition": partition if segment.partition_text else _NOT_APPLICABLE,
        "Data Size": seg.size_text(segment.data_size),
        "Index Size": _NOT_APPLICABLE,
        "File Format": segment.format,
        "Path": segment.path if isinstance(segment, seg.Segment) else _NOT_APPLICABLE,
        "Options": _options_text(segment) or _NOT_APPLICABLE,
        "Visibility": str(segment.status is seg.SegmentStatus.SUCCESS).lower(),
        "Merged To": _NOT_APPLICABLE if merged is None else str(merged),
    }


def segment_rows(segments: Sequence[seg.Segment | seg.Load]) -> Iterator[dict[str, Any]]:
    """Yield the rows of the system table `segments`; `readers` lists the engines that see them."""
    for segment in segments:
        yield {
            "segment_id": segment.id,
            "status": segment.status.value,
            "load_start_time": segment.load_start_ms,
            "load_end_time": segment.load_end_ms,
            "time_taken_ms": _taken_ms(segment),
            "partition": segment.partition_text + _more_text(segment),
            "format": segment.format,
            "path": segment.path if isinstance(segment, seg.Segment) else None,
            "folder": segment.folder if isinstance(segment, seg.Segment) else None,
            "file_count": len(segment.files),
            "row_count": segment.row_count,
            "data_size": segment.data_size,
            "readers": segment.readers,
            "schema_id": segment.schema_id,
            "snapshot_id": None if segment.added is None else segment.added.snapshot_id,
            "merged_to_id": _merged_to(segment),
            "options": _options_text(segment) or None,
        }


def _merged_to(segment: seg.Segment | seg.Load) -> int | None:
    is_compacted = segment.status is seg.SegmentStatus.COMPACTED
    return segment.compacted_into if isinstance(segment, seg.Load) and is_compacted else None


def _more_text(segment: seg.Segment | seg.Load) -> str:
    return ", ..." if isinstance(segment, seg.Load) and segment.partition_count > 1 else ""


def _taken_ms(segment: seg.Segment | seg.Load) -> int | None:
    return None if segment.load_end_ms is None else segment.load_end_ms - segment.load_start_ms


def _options_text(segment: seg.Segment | seg.Load) -> str:
    """Return the file options of a command, without values that may be secret."""
    options = segment.reader_options if isinstance(segment, seg.Segment) else {}
    return ", ".join(f"{key}={value}" for key, value in shown_options(options).items())
