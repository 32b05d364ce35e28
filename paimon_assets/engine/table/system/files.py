"""System tables of files: data files, manifests and indexes of one snapshot, and sums of them.

Source: `org.apache.paimon.table.system.FilesTable`, `FileKeyRangesTable`, `ManifestsTable`,
`PartitionsTable`, `BucketsTable`, `TableIndexesTable`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from paimon_assets.engine.codec.rows.binary_row import deserialize_row
from paimon_assets.engine.codec.rows.data_file_row import stats_columns
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.segment_scan import readable_files
from paimon_assets.engine.spec.metadata import manifest
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.options.all_options import PARTITION_DEFAULT_NAME
from paimon_assets.engine.spec.partition import value_text
from paimon_assets.engine.spec.types.data_types import DataField, DataType
from paimon_assets.engine.table.system.metadata import Rows, columns, snapshot_of

FILE_KEY_RANGES = columns(
    "partition STRING, bucket INT, file_path STRING, file_format STRING, schema_id BIGINT, "
    "level INT, record_count BIGINT, file_size_in_bytes BIGINT, min_key STRING, max_key STRING, "
    "first_row_id BIGINT"
)
FILES = columns(
    "partition STRING, bucket INT, file_path STRING, file_format STRING, schema_id BIGINT, "
    "level INT, record_count BIGINT, file_size_in_bytes BIGINT, min_key STRING, max_key STRING, "
    "null_value_counts STRING, min_value_stats STRING, max_value_stats STRING, "
    "min_sequence_number BIGINT, max_sequence_number BIGINT, creation_time TIMESTAMP(3), "
    "deleteRowCount BIGINT, file_source STRING, first_row_id BIGINT"
).append(pa.field("write_cols", pa.list_(pa.string())))
MANIFESTS = columns(
    "file_name STRING, file_size BIGINT, num_added_files BIGINT, num_deleted_files BIGINT, "
    "schema_id BIGINT, min_partition_stats STRING, max_partition_stats STRING, min_row_id BIGINT, "
    "max_row_id BIGINT"
)
PARTITIONS = columns(
    "partition STRING, record_count BIGINT, file_size_in_bytes BIGINT, file_count BIGINT, "
    "last_update_time TIMESTAMP(3), created_at TIMESTAMP(3), created_by STRING, updated_by STRING, "
    "options STRING, total_buckets INT, done BOOLEAN, deleted_record_count BIGINT"
)
BUCKETS = columns(
    "partition STRING, bucket INT, record_count BIGINT, file_size_in_bytes BIGINT, "
    "file_count BIGINT, last_update_time TIMESTAMP(3)"
)
_VECTOR = columns("f0 STRING NOT NULL, f1 INT NOT NULL, f2 INT NOT NULL, _CARDINALITY BIGINT")
TABLE_INDEXES = columns(
    "partition STRING, bucket INT, index_type STRING, file_name STRING, file_size BIGINT, "
    "row_count BIGINT, row_range_start BIGINT, row_range_end BIGINT, index_field_id INT, "
    "index_field_name STRING"
).insert(6, pa.field("dv_ranges", pa.list_(pa.struct(list(_VECTOR)))))

Texts = dict[str, str | None]


def files(store: FileStore) -> Rows:
    """Yield one row a live data file."""
    for entry in _live(store):
        yield {**_key_range_row(store, entry), **_file_details(store, entry.file)}


def file_key_ranges(store: FileStore) -> Rows:
    """Yield one row a live data file: its path and its range of keys."""
    for entry in _live(store):
        yield _key_range_row(store, entry)


def manifests(store: FileStore) -> Rows:
    """Yield one row a manifest, of the base list and then of the delta list."""
    snapshot = snapshot_of(store)
    types = [field.type for field in store.partitions.fields]
    for meta in () if snapshot is None else store.manifests.manifests_of(snapshot):
        yield {
            **{name: getattr(meta, name, None) for name in MANIFESTS.names},
            "min_partition_stats": _row_text(meta.partition_stats.min_values, types, "{}"),
            "max_partition_stats": _row_text(meta.partition_stats.max_values, types, "{}"),
        }


def partitions(store: FileStore) -> Rows:
    """Yield one row a partition that holds files, by name.

    Facts that only a catalog server has (its creator, whether it is done) are null or false.
    """
    deleted = _deleted_rows(store)
    for name, members in _by_partition(store):
        yield {
            "partition": name,
            **sums(members),
            "total_buckets": members[-1].total_buckets,
            "done": False,
            "deleted_record_count": deleted.get(members[0].partition, 0),
        }


def partition_sums(store: FileStore) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each partition that holds files, in their order, and sums of its files."""
    for name, members in _by_partition(store):
        yield name, sums(members)


def buckets(store: FileStore) -> Rows:
    """Yield one row a bucket that holds files."""
    for key, members in _group(_live(store), lambda entry: (entry.partition, entry.bucket)):
        partition, bucket = key
        yield {"partition": _partition_text(store, partition), "bucket": bucket, **sums(members)}


def table_indexes(store: FileStore) -> Rows:
    """Yield one row an index file."""
    for entry in _index_entries(store):
        file, vectors = entry.file, entry.file.deletion_vectors
        covers, columns = file.global_index, store.schema.by_id
        ids = () if covers is None else covers.extra_field_ids or (covers.index_field_id,)
        names = [columns[number].name for number in ids if number in columns]
        yield {
            "partition": _partition_text(store, entry.partition),
            "bucket": entry.bucket,
            "index_type": file.index_type,
            "file_name": file.file_name,
            "file_size": file.file_size,
            "row_count": file.row_count,
            "dv_ranges": None
            if vectors is None
            else [
                {
                    "f0": v.data_file_name,
                    "f1": v.offset,
                    "f2": v.length,
                    "_CARDINALITY": v.cardinality,
                }
                for v in vectors
            ],
            "row_range_start": covers and covers.row_range_start,
            "row_range_end": covers and covers.row_range_end,
            "index_field_id": covers and covers.index_field_id,
            "index_field_name": ",".join(names) or None,
        }


def _live(store: FileStore) -> list[manifest.ManifestEntry]:
    snapshot = snapshot_of(store)
    return [] if snapshot is None else readable_files(store, snapshot)


def _index_entries(store: FileStore) -> Sequence[manifest.IndexManifestEntry]:
    snapshot = snapshot_of(store)
    if snapshot is None or snapshot.index_manifest is None:
        return ()
    return store.manifests.read_index(snapshot.index_manifest)


def _group(
    entries: Iterable[manifest.ManifestEntry], key: Callable[[manifest.ManifestEntry], Any]
) -> list[tuple[Any, list[manifest.ManifestEntry]]]:
    ordered = sorted(entries, key=key)
    return [(value, list(members)) for value, members in groupby(ordered, key)]


def _by_partition(store: FileStore) -> list[tuple[str, list[manifest.ManifestEntry]]]:
    """Return (name, files) of each partition; casts to text write the names, not directories."""
    fields = store.partitions.fields
    types = [field.type for field in fields]
    of_null = store.schema.typed_options.get(PARTITION_DEFAULT_NAME)
    named = []
    for partition, members in _group(_live(store), lambda entry: entry.partition):
        pairs = zip(fields, _values(partition, types), strict=True)
        texts = (f"{f.name}={text if text and text.strip() else of_null}" for f, text in pairs)
        named.append(("/".join(texts), members))
    return sorted(named, key=lambda group: group[0])


def sums(entries: Sequence[manifest.ManifestEntry]) -> dict[str, Any]:
    """Return the sums of files, and the time of the newest."""
    times = [entry.file.creation_time for entry in entries if entry.file.creation_time is not None]
    return {
        "record_count": sum(entry.file.row_count for entry in entries),
        "file_size_in_bytes": sum(entry.file.file_size for entry in entries),
        "file_count": len(entries),
        "last_update_time": max(times, default=None),
    }


def _deleted_rows(store: FileStore) -> dict[bytes, int | None]:
    """Return partition → rows that deletion vectors delete, None if some vector does not say."""
    deleted: dict[bytes, int | None] = {}
    for entry in _index_entries(store):
        if entry.file.index_type != manifest.DELETION_VECTORS_INDEX:
            continue
        counts = [vector.cardinality for vector in entry.file.deletion_vectors or ()]
        known = [count for count in counts if count is not None]
        before = deleted.get(entry.partition, 0)
        total = None if before is None or len(known) < len(counts) else before + sum(known)
        deleted[entry.partition] = total
    return deleted


def _key_range_row(store: FileStore, entry: manifest.ManifestEntry) -> dict[str, Any]:
    file = entry.file
    written = store.schemas.schema_or_none(file.schema_id) or store.schema
    keys = [field.type for field in written.key_fields]
    return {
        "partition": _partition_text(store, entry.partition),
        "bucket": entry.bucket,
        "file_path": store.file_path(entry),
        "file_format": file.file_format,
        "schema_id": file.schema_id,
        "level": file.level,
        "record_count": file.row_count,
        "file_size_in_bytes": file.file_size,
        "min_key": _row_text(file.min_key, keys, "[]") if keys else None,
        "max_key": _row_text(file.max_key, keys, "[]") if keys else None,
        "first_row_id": file.first_row_id,
    }


def _file_details(store: FileStore, file: DataFileMeta) -> dict[str, Any]:
    lows, highs, nulls = _value_stats(store, file)
    return {
        "null_value_counts": _map_text(nulls),
        "min_value_stats": _map_text(lows),
        "max_value_stats": _map_text(highs),
        "min_sequence_number": file.min_sequence_number,
        "max_sequence_number": file.max_sequence_number,
        "creation_time": file.creation_time,
        "deleteRowCount": file.delete_row_count,
        "file_source": None if file.file_source is None else file.file_source.name,
        "write_cols": None if file.write_cols is None else list(file.write_cols),
    }


def _value_stats(store: FileStore, file: DataFileMeta) -> tuple[Texts, Texts, Texts]:
    """Return smallest values, largest values and null counts by column; None is unknown."""
    source = store.schemas.schema_or_none(file.schema_id)
    if source is None:
        unknown: Texts = dict.fromkeys(store.schema.field_names)
        return unknown, unknown, unknown
    names = stats_columns(file, source)
    held: list[DataField] = [source.by_name[name] for name in names if name in source.by_name]
    stats = file.value_stats
    types = [field.type for field in held]
    lows, highs = (_values(row, types) for row in (stats.min_values, stats.max_values))
    places = {field.id: place for place, field in enumerate(held)}
    low: Texts = dict.fromkeys(store.schema.field_names)
    high, null = low.copy(), low.copy()
    for column in store.schema.fields:
        place = places.get(column.id)
        count = None if column.id in source.by_id else file.row_count
        if place is not None:
            low[column.name], high[column.name] = lows[place], highs[place]
            count = stats.null_counts[place] if place < len(stats.null_counts) else count
        null[column.name] = None if count is None else str(count)
    return low, high, null


def _values(row: bytes, types: Sequence[DataType]) -> list[str | None]:
    if int.from_bytes(row[:4], "big") != len(types):
        return [None] * len(types)  # some writers leave statistics out
    values = deserialize_row(row, types)
    return [
        value.hex() if isinstance(value, bytes) else value_text(value, data_type, legacy=False)
        for value, data_type in zip(values, types, strict=True)
    ]


def _row_text(row: bytes, types: Sequence[DataType], brackets: str) -> str:
    texts = ", ".join("null" if text is None else text for text in _values(row, types))
    return f"{brackets[0]}{texts}{brackets[1]}"


def _map_text(values: Texts) -> str:
    """Return a map as Java prints a sorted one."""
    pairs = (f"{name}={'null' if text is None else text}" for name, text in sorted(values.items()))
    return "{" + ", ".join(pairs) + "}"


def _partition_text(store: FileStore, partition: bytes) -> str:
    return _row_text(partition, [field.type for field in store.partitions.fields], "{}")
