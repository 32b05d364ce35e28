"""Splits that were planned elsewhere: checked against the table, with their readers' context."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.segment_scan import check_unchanged, how_written
from paimon_assets.engine.control.scan.table_scan import TableScan, scan_of
from paimon_assets.engine.control.segments.segment_registry import SegmentRegistry
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.canonical import canonical_path
from paimon_assets.engine.spec.metadata.manifest import FileKind, ManifestEntry
from paimon_assets.engine.spec.options.all_options import DATA_FILE_EXTERNAL_PATHS
from paimon_assets.engine.spec.segments.segment import TEXT_FORMATS, is_within


def check_place(store: FileStore, splits: Sequence[DataSplit]) -> None:
    """Refuse splits whose buckets do not lie in the table."""
    roots = (store.table_path, *store.schema.typed_options.get(DATA_FILE_EXTERNAL_PATHS))
    own = [_place(root) for root in roots]
    for path in {split.bucket_path for split in splits}:
        if not any(is_within(_place(path), root) for root in own):
            raise InvalidInputError(
                f"A split names the bucket '{path}', which is none of table '{store.label}'. Read "
                "it with the table it was planned for.",
                kind="split-table",
                details={"table": store.label, "path": path},
            )


def _place(path: str) -> str:
    """Return one spelling of a path; Hadoop has a name of its own for S3."""
    place = canonical_path(path)
    return f"s3:{place.removeprefix('s3a:')}" if place.startswith("s3a:") else place


def scan_of_splits(store: FileStore, splits: Sequence[DataSplit]) -> TableScan:
    """Return splits with their readers' context: schemas, and the format of text files.

    Cost:
        A read of each schema; a listing of each folder of foreign files.
    """
    entries = list(_entries(splits))
    check_unchanged(store, entries)
    found = scan_of(store, splits)
    store.refuse_retyped("read splits of", (schema.id for schema in found.file_schemas))
    if not any(entry.file.file_format in TEXT_FORMATS for entry in entries):
        return found
    names = {entry.file.file_name.rpartition("-")[0] for entry in entries}
    segments = SegmentRegistry(store=store).load().segments
    texts = [segment for segment in segments if not segment.is_visible_to_paimon]
    options = {
        segment.name_prefix: how_written(store, segment)
        for segment in texts
        if segment.name_prefix in names
    }
    return replace(found, text_options=options)


def _entries(splits: Sequence[DataSplit]) -> Iterator[ManifestEntry]:
    for split in splits:
        for file in (*split.before_files, *split.data_files):
            yield ManifestEntry(
                kind=FileKind.ADD,
                partition=split.partition,
                bucket=split.bucket,
                total_buckets=split.total_buckets or -1,
                file=file,
            )
