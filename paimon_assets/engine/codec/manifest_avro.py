"""Manifests and manifest lists ⇄ bytes: the records of `manifest-*` and `manifest-list-*`.

Written as Avro with the exact schemas of Java Paimon 2.0, whose newest readers refuse any other
field order. Reading: `codec.manifest_records`.
Source: `org.apache.paimon.manifest.ManifestEntrySerializer`, `ManifestFileMetaSerializer`.
"""

import datetime as dt
from collections.abc import Callable, Iterable

from paimon_assets.engine.codec.avro import Record, write_container
from paimon_assets.engine.codec.manifest_records import (
    array,
    built_records,
    field,
    nullable,
    record,
    record_schema,
)
from paimon_assets.engine.spec.data_file import DataFileMeta, FileSource
from paimon_assets.engine.spec.manifest import FileKind, ManifestEntry, ManifestFileMeta
from paimon_assets.engine.spec.stats import EMPTY_ROW, EMPTY_STATS, SimpleStats

MANIFEST_VERSION = 2
"""`_VERSION` of the records of manifests and manifest lists."""


def _stats(name: str) -> Record:
    counts = nullable("_NULL_COUNTS", array(["null", "long"]))
    return record(name, field("_MIN_VALUES", "bytes"), field("_MAX_VALUES", "bytes"), counts)


_FILE = record(
    "record__FILE",
    field("_FILE_NAME", "string"),
    field("_FILE_SIZE", "long"),
    field("_ROW_COUNT", "long"),
    field("_MIN_KEY", "bytes"),
    field("_MAX_KEY", "bytes"),
    field("_KEY_STATS", _stats("record__FILE__KEY_STATS")),
    field("_VALUE_STATS", _stats("record__FILE__VALUE_STATS")),
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
    field("_VERSION", "int"),
    field("_KIND", "int"),
    field("_PARTITION", "bytes"),
    field("_BUCKET", "int"),
    field("_TOTAL_BUCKETS", "int"),
    field("_FILE", _FILE),
)
MANIFEST_LIST_SCHEMA = record_schema(
    field("_VERSION", "int"),
    field("_FILE_NAME", "string"),
    field("_FILE_SIZE", "long"),
    field("_NUM_ADDED_FILES", "long"),
    field("_NUM_DELETED_FILES", "long"),
    field("_PARTITION_STATS", _stats("record__PARTITION_STATS")),
    field("_SCHEMA_ID", "long"),
    nullable("_MIN_BUCKET", "int"),
    nullable("_MAX_BUCKET", "int"),
    nullable("_MIN_LEVEL", "int"),
    nullable("_MAX_LEVEL", "int"),
    nullable("_MIN_ROW_ID", "long"),
    nullable("_MAX_ROW_ID", "long"),
)


def read_manifest(
    data: bytes, path: str, keep: Callable[[Record], bool] | None = None
) -> list[ManifestEntry]:
    """Read a manifest.

    Args:
        data: The file's content.
        path: Its path, for messages.
        keep: Runs on the raw record (`_KIND`, `_PARTITION`, `_BUCKET`, `_TOTAL_BUCKETS`, `_FILE`)
            before an entry is built; records it refuses cost less than half of the others.

    Raises:
        FormatError: Damaged bytes, a missing field or an unknown record version; names the path.

    Cost:
        About 25 µs an entry.
    """
    return list(built_records(data, path, _entry, version=MANIFEST_VERSION, keep=keep))


def read_manifest_list(data: bytes, path: str) -> list[ManifestFileMeta]:
    """Read a manifest list.

    Raises:
        FormatError: Damaged bytes, a missing field or an unknown record version; names the path.
    """
    return list(built_records(data, path, _manifest_meta, version=MANIFEST_VERSION))


def write_manifest(entries: Iterable[ManifestEntry]) -> bytes:
    """Write a manifest; fields of `_FILE` keep Java's order."""
    return write_container(MANIFEST_SCHEMA, [_entry_record(entry) for entry in entries])


def write_manifest_list(metas: Iterable[ManifestFileMeta]) -> bytes:
    """Write a manifest list, in the order given."""
    return write_container(MANIFEST_LIST_SCHEMA, [_meta_record(meta) for meta in metas])


def _entry(raw: Record) -> ManifestEntry:
    return ManifestEntry(
        kind=_FILE_KINDS[raw["_KIND"]],
        partition=raw["_PARTITION"],
        bucket=raw["_BUCKET"],
        total_buckets=raw["_TOTAL_BUCKETS"],
        file=_data_file(raw["_FILE"]),
    )


_FILE_KINDS = {kind.value: kind for kind in FileKind}
_FILE_SOURCES: dict[int | None, FileSource | None] = {
    None: None,
    **{source.value: source for source in FileSource},
}


def _data_file(raw: Record) -> DataFileMeta:
    get = raw.get
    return DataFileMeta(
        file_name=raw["_FILE_NAME"],
        file_size=raw["_FILE_SIZE"],
        row_count=raw["_ROW_COUNT"],
        min_key=raw["_MIN_KEY"],
        max_key=raw["_MAX_KEY"],
        key_stats=_simple_stats(raw["_KEY_STATS"]),
        value_stats=_simple_stats(raw["_VALUE_STATS"]),
        min_sequence_number=raw["_MIN_SEQUENCE_NUMBER"],
        max_sequence_number=raw["_MAX_SEQUENCE_NUMBER"],
        schema_id=raw["_SCHEMA_ID"],
        level=raw["_LEVEL"],
        extra_files=tuple(get("_EXTRA_FILES") or ()),
        creation_time=_millis(get("_CREATION_TIME")),
        delete_row_count=get("_DELETE_ROW_COUNT"),
        embedded_index=get("_EMBEDDED_FILE_INDEX"),
        file_source=_FILE_SOURCES[get("_FILE_SOURCE")],
        value_stats_cols=_optional_tuple(get("_VALUE_STATS_COLS")),
        external_path=get("_EXTERNAL_PATH"),
        first_row_id=get("_FIRST_ROW_ID"),
        write_cols=_optional_tuple(get("_WRITE_COLS")),
    )


def _optional_tuple(names: list[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def _simple_stats(raw: Record) -> SimpleStats:
    if raw["_MAX_VALUES"] == EMPTY_ROW and not raw.get("_NULL_COUNTS"):
        return EMPTY_STATS
    return SimpleStats(
        min_values=raw["_MIN_VALUES"],
        max_values=raw["_MAX_VALUES"],
        null_counts=tuple(raw.get("_NULL_COUNTS") or ()),
    )


def _millis(value: int | dt.datetime | None) -> int | None:
    if isinstance(value, dt.datetime):
        since = value.replace(tzinfo=dt.UTC) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        return since // dt.timedelta(milliseconds=1)
    return value


def _manifest_meta(raw: Record) -> ManifestFileMeta:
    return ManifestFileMeta(
        file_name=raw["_FILE_NAME"],
        file_size=raw["_FILE_SIZE"],
        num_added_files=raw["_NUM_ADDED_FILES"],
        num_deleted_files=raw["_NUM_DELETED_FILES"],
        partition_stats=_simple_stats(raw["_PARTITION_STATS"]),
        schema_id=raw["_SCHEMA_ID"],
        min_bucket=raw.get("_MIN_BUCKET"),
        max_bucket=raw.get("_MAX_BUCKET"),
        min_level=raw.get("_MIN_LEVEL"),
        max_level=raw.get("_MAX_LEVEL"),
        min_row_id=raw.get("_MIN_ROW_ID"),
        max_row_id=raw.get("_MAX_ROW_ID"),
    )


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
        "_EMBEDDED_FILE_INDEX": file.embedded_index,
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
    return {
        "_VERSION": MANIFEST_VERSION,
        "_FILE_NAME": meta.file_name,
        "_FILE_SIZE": meta.file_size,
        "_NUM_ADDED_FILES": meta.num_added_files,
        "_NUM_DELETED_FILES": meta.num_deleted_files,
        "_PARTITION_STATS": _stats_record(meta.partition_stats),
        "_SCHEMA_ID": meta.schema_id,
        "_MIN_BUCKET": meta.min_bucket,
        "_MAX_BUCKET": meta.max_bucket,
        "_MIN_LEVEL": meta.min_level,
        "_MAX_LEVEL": meta.max_level,
        "_MIN_ROW_ID": meta.min_row_id,
        "_MAX_ROW_ID": meta.max_row_id,
    }
