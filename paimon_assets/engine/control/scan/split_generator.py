"""Entries → DataSplits: the files read together, their deletion vectors, and which must be merged.

Append tables: files of a bucket, in order, packed up to the target size; files that hold columns of
the same rows stay together. Primary-key tables, bucket by bucket: if no two files share a key and
none holds deletes they are packed likewise; else whole sections, which share no key, are packed. A
partition with files whose key columns have another type is one split: newer rows of their keys may
lie in other buckets. With deletion vectors, or if the first row of a key stays, a compaction
settles each key before its file leaves level 0, and level 0 is not read. Vectors count whatever the
options of the table are: a deleted row stays deleted.
Source: `org.apache.paimon.table.source.MergeTreeSplitGenerator`, `AppendOnlySplitGenerator`,
`DataEvolutionSplitGenerator`, `org.apache.paimon.CoreOptions.batchScanSkipLevel0`,
`org.apache.paimon.index.IndexFileHandler`, `IndexFilePathFactories`.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from paimon_assets.engine.codec.rows.binary_row import key_range
from paimon_assets.engine.contract.split import DataSplit, DeletionFile
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.merge.engine_traits import EngineTraits
from paimon_assets.engine.spec.metadata import manifest
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, group_by_row_range
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema.schema import BucketMode, TableSchema
from paimon_assets.engine.spec.segments.segment import TEXT_FORMATS

_ARITY_BYTES = 4
DeletionFiles = Mapping[tuple[bytes, int, str], DeletionFile]
"""(partition, bucket, data file name) → its deletion vector."""


def deletion_files(
    store: FileStore, snapshot: Snapshot, buckets: Container[tuple[bytes, int]]
) -> DeletionFiles:
    """Return the deletion vectors of a snapshot's data files in some buckets."""
    vectors: dict[tuple[bytes, int, str], DeletionFile] = {}
    if snapshot.index_manifest is None:
        return vectors
    fields = len(store.schema.partition_keys)
    for entry in store.manifests.read_index(snapshot.index_manifest):
        if int.from_bytes(entry.partition[:_ARITY_BYTES], "big") != fields:
            raise FormatError(  # its vectors would be passed over
                f"Index manifest '{snapshot.index_manifest}' of table '{store.label}' has an entry"
                f" of a partition that has not {fields} columns.",
                kind="index-manifest",
                table=store.label,
            )
        is_needed = (entry.partition, entry.bucket) in buckets
        if entry.file.index_type != manifest.DELETION_VECTORS_INDEX or not is_needed:
            continue
        path = index_path(store, entry)
        for vector in entry.file.deletion_vectors or ():
            key = (entry.partition, entry.bucket, vector.data_file_name)
            if key in vectors:
                raise FormatError(
                    f"Index manifest '{snapshot.index_manifest}' of table '{store.label}' gives"
                    f" data file '{vector.data_file_name}' two deletion vectors.",
                    kind="index-manifest",
                    table=store.label,
                    file=vector.data_file_name,
                )
            vectors[key] = DeletionFile(
                path=path,
                offset=vector.offset,
                length=vector.length,
                cardinality=vector.cardinality,
            )
    return vectors


def index_path(store: FileStore, entry: manifest.IndexManifestEntry) -> str:
    if entry.file.external_path is not None:
        return entry.file.external_path
    if store.schema.typed_options.get(opt.INDEX_FILE_IN_DATA_DIRECTORY):
        directory = store.bucket_path(entry.partition, entry.bucket)
        return f"{directory}/{entry.file.file_name}"
    return store.paths.index(entry.file.file_name)


def settles_keys(schema: TableSchema) -> bool:
    """Whether above level 0 every key of a bucket is live in one file only."""
    return schema.has_primary_key and (
        schema.typed_options.get(opt.DELETION_VECTORS_ENABLED)
        or EngineTraits.of(schema).waits_for_compaction
    )


def skips_level_0(schema: TableSchema) -> bool:
    """Whether files of level 0 wait for a compaction before batch reads see them."""
    options = schema.typed_options
    merges = options.get(opt.DELETION_VECTORS_ENABLED) and options.get(
        opt.DELETION_VECTORS_MERGE_ON_READ
    )
    return settles_keys(schema) and not merges


def shows_rows_later(schema: TableSchema) -> bool:
    """Whether rows may wait for a compaction before batch reads see them."""
    return skips_level_0(schema) or schema.bucket_mode is BucketMode.POSTPONE


def top_level(schema: TableSchema) -> int:
    """Return the lowest level whose files can be read without merging."""
    if not schema.has_primary_key:
        return 0
    if settles_keys(schema):
        return 1
    from paimon_assets.engine.lsm import num_levels

    return num_levels(schema.typed_options) - 1


def needs_no_merge(schema: TableSchema, files: Collection[DataFileMeta]) -> bool:
    """Whether a bucket's files may be read one after the other: no shared keys, no retractions."""
    levels = {file.level for file in files}
    if 0 in levels or any(map(has_deletes, files)):
        return False
    return len(levels) == 1 or settles_keys(schema)


def has_deletes(file: DataFileMeta) -> bool:
    """Whether a file definitely holds deletes: a plan takes an unknown count as none."""
    return bool(file.delete_row_count)


Item = TypeVar("Item")


def pack(
    items: Iterable[Item], weight: Callable[[Item], int], target_weight: int
) -> Iterator[list[Item]]:
    """Pack items in order; a pack is closed when the next item would exceed the target.

    >>> list(pack([3, 3, 9, 1], lambda item: item, 6))
    [[3, 3], [9], [1]]
    """
    packed: list[Item] = []
    packed_weight = 0
    for item in items:
        item_weight = weight(item)
        if packed and packed_weight + item_weight > target_weight:
            yield packed
            packed, packed_weight = [], 0
        packed.append(item)
        packed_weight += item_weight
    if packed:
        yield packed


def by_bucket(
    entries: Iterable[manifest.ManifestEntry],
) -> dict[tuple[bytes, int], list[manifest.ManifestEntry]]:
    """Group entries by (partition, bucket), in the order of the first of each."""
    buckets: dict[tuple[bytes, int], list[manifest.ManifestEntry]] = {}
    for entry in entries:
        buckets.setdefault((entry.partition, entry.bucket), []).append(entry)
    return buckets


def _texts_separate(
    buckets: Mapping[tuple[bytes, int], Sequence[manifest.ManifestEntry]],
) -> Iterator[tuple[tuple[bytes, int], list[manifest.ManifestEntry]]]:
    """Yield buckets, their text files on their own: all other files can be sent as they are."""
    for bucket, entries in buckets.items():
        for is_text in (False, True):
            members = [e for e in entries if (e.file.file_format in TEXT_FORMATS) is is_text]
            if members:
                yield bucket, members


class SplitGenerator:
    """Groups the files of a plan; `store.schema` and its options decide how."""

    def __init__(self, store: FileStore) -> None:
        options = store.schema.typed_options
        self._store = store
        self._target_bytes = options.get(opt.SPLIT_TARGET_SIZE)
        self._open_file_bytes = options.get(opt.SPLIT_OPEN_FILE_COST)
        self._key_types = [field.type for field in store.schema.key_fields]

    def splits(
        self,
        snapshot_id: int,
        entries: Iterable[manifest.ManifestEntry],
        deletions: DeletionFiles | None = None,
        *,
        is_streaming: bool = False,
    ) -> list[DataSplit]:
        """Return the splits of live entries; buckets in the order of their first file."""
        splits = []
        entries = list(entries)
        retyped = self._store.retyped_schemas({entry.file.schema_id for entry in entries})
        mixed = dict.fromkeys(e.partition for e in entries if e.file.schema_id in retyped)
        if mixed and not is_streaming:
            splits = [self._whole(snapshot_id, each, entries, deletions or {}) for each in mixed]
            entries = [entry for entry in entries if entry.partition not in mixed]
        for (partition, bucket), members in _texts_separate(by_bucket(entries)):
            path = self._store.bucket_path(partition, bucket)
            files = [entry.file for entry in members]
            streamed = ((group, False) for group in self._pack(files))
            for group, raw in streamed if is_streaming else self._groups(files):
                vectors = deletions and [
                    deletions.get((partition, bucket, file.file_name)) for file in group
                ]
                splits.append(
                    DataSplit(
                        snapshot_id=snapshot_id,
                        partition=partition,
                        bucket=bucket,
                        bucket_path=path,
                        total_buckets=members[0].total_buckets,
                        data_files=tuple(group),
                        deletion_files=tuple(vectors) if vectors and any(vectors) else None,
                        is_streaming=is_streaming,
                        raw_convertible=raw,
                    )
                )
        return splits

    def _whole(
        self,
        snapshot_id: int,
        partition: bytes,
        entries: Iterable[manifest.ManifestEntry],
        deletions: DeletionFiles,
    ) -> DataSplit:
        """Return one split of all buckets of a partition; its files go by their whole paths."""
        members = [entry for entry in entries if entry.partition == partition]
        vectors = [deletions.get((partition, e.bucket, e.file.file_name)) for e in members]
        first = members[0]
        return DataSplit(
            snapshot_id=snapshot_id,
            partition=partition,
            bucket=first.bucket,
            bucket_path=self._store.bucket_path(partition, first.bucket),
            total_buckets=first.total_buckets,
            data_files=tuple(
                entry.file._replace(external_path=self._store.file_path(entry)) for entry in members
            ),
            deletion_files=tuple(vectors) if any(vectors) else None,
        )

    def _groups(self, files: Sequence[DataFileMeta]) -> Iterator[tuple[list[DataFileMeta], bool]]:
        """Yield (files of one split, whether they may be read without merging)."""
        schema = self._store.schema
        if not schema.has_primary_key:
            if schema.bucket_mode is BucketMode.HASH_FIXED:
                files = sorted(files, key=lambda file: file.min_sequence_number)
            for ranges in pack(group_by_row_range(files), self._section_weight, self._target_bytes):
                group = [file for row_range in ranges for file in row_range]
                yield group, len(group) == len(ranges)
            return
        if needs_no_merge(schema, files):
            for group in self._pack(files):
                yield group, True
            return
        sections = [list(files)]
        if len(files) > 1:
            from paimon_assets.engine.lsm import interval_partition

            cut = interval_partition(files, lambda file: key_range(file, self._key_types))
            sections = [[file for run in section for file in run] for section in cut]
        for packed in pack(sections, self._section_weight, self._target_bytes):
            group = [file for section in packed for file in section]
            yield group, len(group) == 1 and not has_deletes(group[0])

    def _pack(self, files: Iterable[DataFileMeta]) -> Iterator[list[DataFileMeta]]:
        return pack(
            files, lambda file: max(file.file_size, self._open_file_bytes), self._target_bytes
        )

    def _section_weight(self, section: list[DataFileMeta]) -> int:
        return max(sum(file.file_size for file in section), self._open_file_bytes)
