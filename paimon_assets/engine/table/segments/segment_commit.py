"""The commits of segment commands: files added, files removed."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from paimon_assets.engine.contract.commit_message import CommitMessage, DataIncrement
from paimon_assets.engine.contract.tasks.footer_task import FileFooter
from paimon_assets.engine.control.clock import Clock
from paimon_assets.engine.control.compact.buckets import LiveBucket, live_buckets
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, FileOrigin
from paimon_assets.engine.spec.metadata.index_file import IndexFileMeta
from paimon_assets.engine.spec.metadata.wall_clock import wall_clock_ms
from paimon_assets.engine.spec.segments.segment import Load, Segment, SegmentFile, plain_path


def additions(
    segments: Iterable[Segment], footers: Mapping[str, FileFooter], clock: Clock
) -> list[CommitMessage]:
    """Return the messages that add the files of segments; none for text formats.

    Args:
        segments: To be added, or read anew.
        footers: By the plain paths of their files.
        clock: Says when the entries are made.
    """
    created = wall_clock_ms(clock.now_millis())
    return [
        CommitMessage(
            partition=segment.partition,
            bucket=0,
            total_buckets=-1,
            data_increment=DataIncrement(
                new_files=tuple(
                    _data_file(segment, file, footers[plain_path(segment.path_of(file))], created)
                    for file in segment.files
                )
            ),
        )
        for segment in segments
        if segment.is_visible_to_paimon
    ]


def _data_file(
    segment: Segment, file: SegmentFile, footer: FileFooter, created_ms: int
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


def removals(store: FileStore, segments: Iterable[Segment | Load]) -> list[CommitMessage]:
    """Return the messages that remove segments' live files, with their deletion vectors.

    Raises:
        UnsupportedFeatureError: Kind `segment-own`; an index file holds such a vector beside one of
            a file that stays.
    """
    latest = store.snapshots.latest()
    if latest is None:
        return []
    names = {file.file_name for segment in segments for file in segment.files}
    live = FileStoreScan(store).live_files(latest)
    going = [entry for entry in live if entry.file.file_name in names]
    return [
        CommitMessage(
            partition=bucket.key[0],
            bucket=bucket.key[1],
            total_buckets=bucket.total_buckets,
            data_increment=DataIncrement(
                deleted_files=bucket.files,
                deleted_index_files=tuple(_going_indexes(store, bucket, names)),
            ),
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
                details={"table": store.label, "file": index.file_name},
            )
        yield index


def check_loads_deletable(store: FileStore, loads: Sequence[Load]) -> None:
    """Refuse to take loads away where older rows would come back.

    Raises:
        UnsupportedFeatureError: Kind `segment-own`; says what to do instead.
    """
    if loads and store.schema.has_primary_key:
        raise UnsupportedFeatureError(
            f"Segment {loads[0].id} of table {store.label} is a load of the table's own, which "
            "cannot be taken away: older rows of its keys would come back. Delete its rows by a "
            "condition, or roll back.",
            kind="segment-own",
            details={"table": store.label, "segment": loads[0].id},
        )
