"""Snapshot and predicate → all that a reader needs: splits, and the schemas of their files.

    main branch        its needed files
    fallback branch    needed files of partitions that main does not hold (`scan.fallback-branch`)

Both branches count schemas from 0, so in splits the fallback's schemas get numbers of their own.
Each branch is read by its own key and options.
Source: `org.apache.paimon.table.FallbackReadFileStoreTable`.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import field
from msgspec.structs import replace

from paimon_assets.engine.contract.split import DataSplit, Splits, shift
from paimon_assets.engine.control.features import check_readable
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan import split_generator
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan, without_collector
from paimon_assets.engine.control.scan.time_travel import schema_at, time_travel_keys
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.metadata.manifest import FileKind, ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options.all_options import BRANCH, BUCKET, SCAN_FALLBACK_BRANCH
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.segments.segment import TEXT_FORMATS, is_within
from paimon_assets.engine.spec.segments.text_options import TextOptions
from paimon_assets.engine.spec.types.data_types import not_null
from paimon_assets.engine.spec.values import Value


class TableScan(Value):
    splits: tuple[DataSplit, ...] = ()
    file_schemas: tuple[TableSchema, ...] = ()
    """Schemas of the splits' files, each id once."""
    text_options: Mapping[str, TextOptions] = field(default_factory=dict)
    file_tags: Mapping[str, str] = field(default_factory=dict)
    """As in a `ReadContext`."""
    fallback: TableSchema | None = None
    fallback_offset: int = 0
    """As in a `ReadContext`."""


def scan_table(
    store: FileStore,
    snapshot: Snapshot | None,
    predicate: Predicate | None,
    *,
    instant_ms: int | None = None,
    only_top_level: bool = False,
) -> TableScan:
    """Plan the splits of a read of a table."""
    check_readable(store.label, store.schema)  # first: an unreadable table may lack snapshots
    main_scan = TableScan()
    if snapshot is not None:
        store.snapshots.check(snapshot)  # a tag's was read by its name alone
        main_scan = _scan(store, snapshot, predicate, only_top_level=only_top_level)
    fallback = _fallback_of(store)
    if fallback is None:
        return main_scan
    snapshots = fallback.snapshots
    newest = snapshots.latest() if instant_ms is None else snapshots.at_timestamp(instant_ms)
    if newest is None:
        return _join_scans(store, store, main_scan, TableScan())
    if instant_ms is not None:
        fallback = fallback.with_schema(schema_at(fallback, newest))
    fallback = _read_as(fallback, store)
    held = frozenset[bytes]()
    if snapshot is not None:
        held = FileStoreScan(store).partitions(snapshot, predicate)
        from paimon_assets.engine.control.scan.segment_scan import text_segments

        held |= {segment.partition for segment in text_segments(store, snapshot, predicate)}
    lacking = _scan(fallback, newest, predicate, without=held, only_top_level=only_top_level)
    return _join_scans(store, fallback, main_scan, lacking)


def _fallback_of(store: FileStore) -> FileStore | None:
    """Return the fallback branch of a table, if it has one."""
    branch = store.schema.typed_options.get(SCAN_FALLBACK_BRANCH)
    if not branch:
        return None
    main_only = {*time_travel_keys(), BUCKET.key}
    options = {key: text for key, text in store.dynamic_options.items() if key not in main_only}
    return store.reopen(
        {**options, BRANCH.key: branch, SCAN_FALLBACK_BRANCH.key: ""},
        name=f"{store.label}$branch_{branch}",
    )


def _join_scans(
    store: FileStore, fallback: FileStore, own: TableScan, lacking: TableScan
) -> TableScan:
    """Return the splits of the main branch, and those of the fallback branch behind them."""
    first = max((store.schema.id, *(schema.id for schema in own.file_schemas))) + 1
    offset = first + 1  # the fallback's schemas get ids that main's do not use
    splits = [replace(split, is_fallback=False) for split in own.splits]
    splits += [shift(replace(split, is_fallback=True), offset) for split in lacking.splits]
    schemas = (replace(schema, id=schema.id + offset) for schema in lacking.file_schemas)
    is_alike = _how_read(store.schema) == _how_read(fallback.schema)
    return TableScan(
        splits=tuple(splits),
        file_schemas=(*own.file_schemas, *schemas),
        text_options={**own.text_options, **lacking.text_options},
        file_tags={**own.file_tags, **lacking.file_tags},
        fallback=None if is_alike else replace(fallback.schema, id=first),
        fallback_offset=offset,
    )


@without_collector()
def _scan(
    store: FileStore,
    snapshot: Snapshot,
    predicate: Predicate | None,
    *,
    without: frozenset[bytes] = frozenset(),
    only_top_level: bool,
) -> TableScan:
    min_level = split_generator.top_level(store.schema) if only_top_level else 0
    entries = FileStoreScan(store).needed_files(
        snapshot, predicate, min_level=min_level, merges_partitions=True
    )
    from paimon_assets.engine.control.scan import segment_scan as segs

    texts = segs.text_segments(store, snapshot, predicate)
    live = (*entries, *(entry for segment in texts for entry in segs.entries_of_segment(segment)))
    needed = [entry for entry in live if entry.partition not in without]
    tags = segs.check_unchanged(store, needed)
    buckets = {(entry.partition, entry.bucket) for entry in needed}
    deletions = split_generator.deletion_files(store, snapshot, buckets) if buckets else {}
    splits = split_generator.SplitGenerator(store).splits(snapshot.id, needed, deletions)
    options = {segment.name_prefix: segs.how_written(store, segment) for segment in texts}
    return replace(scan_of(store, splits), text_options=options, file_tags=tags)


def scan_of(store: FileStore, splits: Iterable[DataSplit]) -> TableScan:
    """Return splits with the schemas of their files; a deleted schema is read from the file."""
    found = tuple(splits)
    files = (file for split in found for file in (*split.before_files, *split.data_files))
    ids = sorted({file.schema_id for file in files})
    schemas = map(store.schemas.schema_or_none, ids)
    return TableScan(splits=found, file_schemas=tuple(schema for schema in schemas if schema))


def _read_as(fallback: FileStore, store: FileStore) -> FileStore:
    """Return the fallback branch as its columns look from the main branch."""
    check_readable(fallback.label, fallback.schema)
    difference = _difference(store.schema, fallback.schema)
    if difference is not None:
        raise UnsupportedFeatureError(
            f"Cannot read table '{store.label}': its fallback branch, '{fallback.label}'"
            f" ('{SCAN_FALLBACK_BRANCH.key}'), has {difference}.",
            kind="unsupported-branch",
            table=store.label,
            branch=fallback.label,
        )
    schema = store.schema
    return fallback.with_schema(replace(fallback.schema, id=schema.id, fields=schema.fields))


def _difference(main: TableSchema, fallback: TableSchema) -> str | None:
    """Say why rows of the fallback branch cannot be read with the main branch's context."""
    if main.partition_keys != fallback.partition_keys:
        return f"the partition keys ({', '.join(fallback.partition_keys)})"
    if main.has_primary_key and main.primary_keys != fallback.primary_keys:
        return f"the primary key ({', '.join(fallback.primary_keys)})"
    for column in main.fields:
        by_id, by_name = fallback.by_id.get(column.id), fallback.by_name.get(column.name)
        if by_id != by_name and not (by_id and by_name and by_id.id == by_name.id):
            return f"another column '{column.name}'"
    for name in main.partition_keys:
        if not_null(main.by_name[name].type) != not_null(fallback.by_name[name].type):
            return f"the type {fallback.by_name[name].type} for column '{name}'"
    return None


def _how_read(schema: TableSchema) -> tuple[Sequence[str], dict[str, str]]:
    branching = (BRANCH.key, SCAN_FALLBACK_BRANCH.key)
    options = {key: value for key, value in schema.options.items() if key not in branching}
    return schema.primary_keys, options


def scan_of_external(store: FileStore, splits: Splits) -> TableScan:
    """Return an external plan's splits as `scan_of_splits`, if their buckets lie in the table."""
    roots = [_spelling(root) for root in store.roots]
    for path in {split.bucket_path for split in splits}:
        if not any(is_within(_spelling(path), root) for root in roots):
            message = (
                f"A split names the bucket '{path}', which is none of table '{store.label}'. Read "
                "it with the table it was planned for."
            )
            raise InvalidInputError(message, kind="split-table", table=store.label, path=path)
    lacking = [split for split in splits if split.is_fallback]
    own = scan_of_splits(store, [split for split in splits if not split.is_fallback])
    if not lacking:
        return own
    fallback = _fallback_of(store)
    if fallback is None:
        text = (
            f"Some splits are of a fallback branch, and table '{store.label}' has none. Set"
            f" '{SCAN_FALLBACK_BRANCH.key}' to the one they were planned with."
        )
        raise InvalidInputError(text, kind="split-table", table=store.label)
    fallback = _read_as(fallback, store)
    return _join_scans(store, fallback, own, scan_of_splits(fallback, lacking))


def _spelling(path: str) -> str:
    """Return one spelling of a path; Hadoop has a name of its own for S3."""
    from paimon_assets.engine.fileio.opening import canonical_path

    path = canonical_path(path)
    return f"s3:{path.removeprefix('s3a:')}" if path.startswith("s3a:") else path


def scan_of_splits(store: FileStore, splits: Splits) -> TableScan:
    """Return splits with their readers' context. Cost: each schema; a listing a folder outside."""
    entries = [
        ManifestEntry(
            kind=FileKind.ADD,
            partition=split.partition,
            bucket=split.bucket,
            total_buckets=split.total_buckets or -1,
            file=file,
        )
        for split in splits
        for file in (*split.before_files, *split.data_files)
    ]
    from paimon_assets.engine.control.scan import segment_scan as segs

    tags = segs.check_unchanged(store, entries)
    scan = replace(scan_of(store, splits), file_tags=tags)
    store.refuse_retyped("read splits of", (schema.id for schema in scan.file_schemas))
    if not any(entry.file.file_format in TEXT_FORMATS for entry in entries):
        return scan
    names = {entry.file.file_name.rpartition("-")[0] for entry in entries}
    from paimon_assets.engine.control.segments import SegmentRegistry

    options = {
        segment.name_prefix: segs.how_written(store, segment)
        for segment in SegmentRegistry(store=store).load().segments
        if not segment.is_visible_to_paimon and segment.name_prefix in names
    }
    return replace(scan, text_options=options)
