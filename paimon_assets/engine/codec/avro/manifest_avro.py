"""Manifests and manifest lists ⇄ bytes: the records of `manifest-*` and `manifest-list-*`.

Written as Avro with the exact schemas of Java Paimon 2.0, whose newest readers refuse any other
field order. Reading: `codec.avro.manifest_records`.
Source: `org.apache.paimon.manifest.ManifestEntrySerializer`, `ManifestFileMetaSerializer`.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from paimon_assets.engine.codec.avro.avro import Record, write_container
from paimon_assets.engine.codec.avro.manifest_records import (
    DAMAGED,
    array,
    attributes_of,
    built_records,
    damaged_record,
    field,
    manifest_rows,
    nullable,
    record,
    record_of,
    record_schema,
    unsupported_version,
)
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, FileOrigin
from paimon_assets.engine.spec.metadata.manifest import FileKind, ManifestEntry, ManifestFileMeta
from paimon_assets.engine.spec.metadata.simple_stats import EMPTY_ROW, EMPTY_STATS, SimpleStats
from paimon_assets.engine.spec.paths import plain_name, plain_names, straight_path

MANIFEST_VERSION = 2
"""`_VERSION` of the records of manifests and manifest lists."""


_STATS = (
    field("_MIN_VALUES", "bytes"),
    field("_MAX_VALUES", "bytes"),
    nullable("_NULL_COUNTS", array(["null", "long"])),
)


_FILE = record(
    "record__FILE",
    field("_FILE_NAME", "string"),
    field("_FILE_SIZE", "long"),
    field("_ROW_COUNT", "long"),
    field("_MIN_KEY", "bytes"),
    field("_MAX_KEY", "bytes"),
    field("_KEY_STATS", record("record__FILE__KEY_STATS", *_STATS)),
    field("_VALUE_STATS", record("record__FILE__VALUE_STATS", *_STATS)),
    field("_MIN_SEQUENCE_NUMBER", "long"),
    field("_MAX_SEQUENCE_NUMBER", "long"),
    field("_SCHEMA_ID", "long"),
    field("_LEVEL", "int"),
    field("_EXTRA_FILES", array("string")),
    nullable("_CREATION_TIME", {"type": "long", "logicalType": "timestamp-millis"}),
    nullable("_DELETE_ROW_COUNT", "long"),
    nullable("_EMBEDDED_FILE_INDEX", "bytes"),
    nullable("_FILE_SOURCE", "int"),
    nullable("_VALUE_STATS_COLS", array("string")),
    nullable("_EXTERNAL_PATH", "string"),
    nullable("_FIRST_ROW_ID", "long"),
    nullable("_WRITE_COLS", array("string")),
)
MANIFEST_SCHEMA = record_schema(
    field("_KIND", "int"),
    field("_PARTITION", "bytes"),
    field("_BUCKET", "int"),
    field("_TOTAL_BUCKETS", "int"),
    field("_FILE", _FILE),
)
_META = (
    field("_FILE_NAME", "string"),
    field("_FILE_SIZE", "long"),
    field("_NUM_ADDED_FILES", "long"),
    field("_NUM_DELETED_FILES", "long"),
    field("_PARTITION_STATS", record("record__PARTITION_STATS", *_STATS)),
    field("_SCHEMA_ID", "long"),
    nullable("_MIN_BUCKET", "int"),
    nullable("_MAX_BUCKET", "int"),
    nullable("_MIN_LEVEL", "int"),
    nullable("_MAX_LEVEL", "int"),
    nullable("_MIN_ROW_ID", "long"),
    nullable("_MAX_ROW_ID", "long"),
)
MANIFEST_LIST_SCHEMA = record_schema(*_META)


KeepEntry = Callable[[FileKind, bytes, int, int], bool]
"""(kind, partition, bucket, total buckets) → whether an entry is wanted."""


def read_manifest(data: bytes, path: str, keep: KeepEntry | None = None) -> list[ManifestEntry]:
    """Read a manifest.

    Cost:
        About 10 µs an entry.
    """
    entries = []
    try:
        rows = manifest_rows(data, path, MANIFEST_SCHEMA)
        for version, number, partition, bucket, total_buckets, file in rows:
            if version != MANIFEST_VERSION:
                raise unsupported_version(path, version, MANIFEST_VERSION)
            kind = _FILE_KINDS[number]
            if keep is None or keep(kind, partition, bucket, total_buckets):
                built = _data_file(file)
                entries.append(ManifestEntry(kind, partition, bucket, total_buckets, built))
    except DAMAGED as error:
        raise damaged_record(path, error) from error
    return entries


def read_manifest_list(data: bytes, path: str) -> list[ManifestFileMeta]:
    """Read a manifest list."""
    return list(built_records(data, path, _manifest_meta, version=MANIFEST_VERSION))


def write_manifest(entries: Iterable[ManifestEntry]) -> bytes:
    """Write a manifest; fields of `_FILE` keep Java's order."""
    return write_container(MANIFEST_SCHEMA, list(map(_entry_record, entries)))


def write_manifest_list(metas: Iterable[ManifestFileMeta]) -> bytes:
    """Write a manifest list, in the order given."""
    return write_container(MANIFEST_LIST_SCHEMA, list(map(_meta_record, metas)))


_FILE_KINDS = {kind.value: kind for kind in FileKind}
_FILE_SOURCES: dict[int | None, FileOrigin | None] = {
    None: None,
    **{source.value: source for source in FileOrigin},
}


def _data_file(values: Sequence[Any]) -> DataFileMeta:
    (
        name, size, row_count, min_key, max_key, key_stats, value_stats, min_sequence_number,
        max_sequence_number, schema_id, level, extra_files, creation_time, delete_row_count,
        embedded_file_index, file_source, value_stats_cols, external_path, first_row_id, write_cols,
    ) = values  # fmt: skip
    return DataFileMeta(
        plain_name(name), size, row_count, schema_id, min_key, max_key, _simple_stats(*key_stats),
        _simple_stats(*value_stats), min_sequence_number, max_sequence_number, level,
        plain_names(extra_files), _millis(creation_time), delete_row_count, embedded_file_index,
        _FILE_SOURCES[file_source], _optional_tuple(value_stats_cols),
        None if external_path is None else straight_path(external_path), first_row_id,
        _optional_tuple(write_cols),
    )  # fmt: skip


def _optional_tuple(names: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def _simple_stats(
    min_values: bytes, max_values: bytes, null_counts: Sequence[int | None] | None
) -> SimpleStats:
    if max_values == EMPTY_ROW and not null_counts:
        return EMPTY_STATS
    return SimpleStats(min_values, max_values, tuple(null_counts or ()))


def _millis(value: int | dt.datetime | None) -> int | None:
    if isinstance(value, dt.datetime):
        since = value.replace(tzinfo=dt.UTC) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        return since // dt.timedelta(milliseconds=1)
    return value


def _manifest_meta(raw: Record) -> ManifestFileMeta:
    members = attributes_of(raw, _META)
    plain_name(members["file_name"])
    stats = _simple_stats(**attributes_of(members.pop("partition_stats"), _STATS))
    return ManifestFileMeta(**members, partition_stats=stats)


def _entry_record(entry: ManifestEntry) -> Record:
    return {
        "_VERSION": MANIFEST_VERSION,
        "_KIND": entry.kind,
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": _file_record(entry.file),
    }


def _file_record(file: DataFileMeta) -> Record:
    return {
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size,
        "_ROW_COUNT": file.row_count,
        "_MIN_KEY": file.min_key,
        "_MAX_KEY": file.max_key,
        "_KEY_STATS": _stats_record(file.key_stats),
        "_VALUE_STATS": _stats_record(file.value_stats),
        "_MIN_SEQUENCE_NUMBER": file.min_sequence_number,
        "_MAX_SEQUENCE_NUMBER": file.max_sequence_number,
        "_SCHEMA_ID": file.schema_id,
        "_LEVEL": file.level,
        "_EXTRA_FILES": file.extra_files,
        "_CREATION_TIME": file.creation_time,
        "_DELETE_ROW_COUNT": file.delete_row_count,
        "_EMBEDDED_FILE_INDEX": file.embedded_file_index,
        "_FILE_SOURCE": file.file_source,
        "_VALUE_STATS_COLS": file.value_stats_cols,
        "_EXTERNAL_PATH": file.external_path,
        "_FIRST_ROW_ID": file.first_row_id,
        "_WRITE_COLS": file.write_cols,
    }


def _stats_record(stats: SimpleStats) -> Record:
    return {
        "_MIN_VALUES": stats.min_values,
        "_MAX_VALUES": stats.max_values,
        "_NULL_COUNTS": stats.null_counts,
    }


def _meta_record(meta: ManifestFileMeta) -> Record:
    stats = _stats_record(meta.partition_stats)
    return {"_VERSION": MANIFEST_VERSION, **record_of(meta, _META), "_PARTITION_STATS": stats}
