"""Manifests and manifest lists ⇄ bytes: the records of `manifest-*` and `manifest-list-*`.

Written as Avro with the exact schemas of Java Paimon 2.0, whose newest readers refuse any other
field order. Read by name: fields an older version did not write are None. Old tables may hold ORC
or Parquet manifests (`manifest.format`); the first bytes tell.
Source: `org.apache.paimon.manifest.ManifestEntrySerializer`, `ManifestFileMetaSerializer`.
"""

import datetime as dt
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pyarrow.types as pat

from paimon_assets.engine.codec.avro import Record, RecordSchema, read_container, write_container
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.data_file import DataFileMeta, FileSource
from paimon_assets.engine.spec.manifest import FileKind, ManifestEntry, ManifestFileMeta
from paimon_assets.engine.spec.stats import SimpleStats

T = TypeVar("T")
MANIFEST_VERSION = 2
"""`_VERSION` of the records of manifests and manifest lists."""

_NAMESPACE = "org.apache.paimon.avro.generated"


def _field(name: str, avro_type: Any) -> Record:
    return {"name": name, "type": avro_type}


def _nullable(name: str, avro_type: Any) -> Record:
    return {"name": name, "type": ["null", avro_type], "default": None}


def _array(items: Any) -> Record:
    return {"type": "array", "items": items}


def _stats(name: str) -> Record:
    counts = _nullable("_NULL_COUNTS", _array(["null", "long"]))
    fields = [_field("_MIN_VALUES", "bytes"), _field("_MAX_VALUES", "bytes"), counts]
    return {"type": "record", "name": name, "fields": fields}


def _record(*fields: Record) -> RecordSchema:
    schema = {"type": "record", "name": "record", "namespace": _NAMESPACE, "fields": fields}
    return RecordSchema.of(json.dumps(schema, separators=(",", ":")).encode())


_FILE = {
    "type": "record",
    "name": "record__FILE",
    "fields": [
        _field("_FILE_NAME", "string"),
        _field("_FILE_SIZE", "long"),
        _field("_ROW_COUNT", "long"),
        _field("_MIN_KEY", "bytes"),
        _field("_MAX_KEY", "bytes"),
        _field("_KEY_STATS", _stats("record__FILE__KEY_STATS")),
        _field("_VALUE_STATS", _stats("record__FILE__VALUE_STATS")),
        _field("_MIN_SEQUENCE_NUMBER", "long"),
        _field("_MAX_SEQUENCE_NUMBER", "long"),
        _field("_SCHEMA_ID", "long"),
        _field("_LEVEL", "int"),
        _field("_EXTRA_FILES", _array("string")),
        _nullable("_CREATION_TIME", {"type": "long", "logicalType": "timestamp-millis"}),
        _nullable("_DELETE_ROW_COUNT", "long"),
        _nullable("_EMBEDDED_FILE_INDEX", "bytes"),
        _nullable("_FILE_SOURCE", "int"),
        _nullable("_VALUE_STATS_COLS", _array("string")),
        _nullable("_EXTERNAL_PATH", "string"),
        _nullable("_FIRST_ROW_ID", "long"),
        _nullable("_WRITE_COLS", _array("string")),
    ],
}
MANIFEST_SCHEMA = _record(
    _field("_VERSION", "int"),
    _field("_KIND", "int"),
    _field("_PARTITION", "bytes"),
    _field("_BUCKET", "int"),
    _field("_TOTAL_BUCKETS", "int"),
    _field("_FILE", _FILE),
)
MANIFEST_LIST_SCHEMA = _record(
    _field("_VERSION", "int"),
    _field("_FILE_NAME", "string"),
    _field("_FILE_SIZE", "long"),
    _field("_NUM_ADDED_FILES", "long"),
    _field("_NUM_DELETED_FILES", "long"),
    _field("_PARTITION_STATS", _stats("record__PARTITION_STATS")),
    _field("_SCHEMA_ID", "long"),
    _nullable("_MIN_BUCKET", "int"),
    _nullable("_MAX_BUCKET", "int"),
    _nullable("_MIN_LEVEL", "int"),
    _nullable("_MAX_LEVEL", "int"),
    _nullable("_MIN_ROW_ID", "long"),
    _nullable("_MAX_ROW_ID", "long"),
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
    return list(_built(data, path, _entry, keep))


def read_manifest_list(data: bytes, path: str) -> list[ManifestFileMeta]:
    """Read a manifest list.

    Raises:
        FormatError: Damaged bytes, a missing field or an unknown record version; names the path.
    """
    return list(_built(data, path, _manifest_meta, None))


def write_manifest(entries: Iterable[ManifestEntry]) -> bytes:
    """Write a manifest; fields of `_FILE` keep Java's order."""
    return write_container(MANIFEST_SCHEMA, [_entry_record(entry) for entry in entries])


def write_manifest_list(metas: Iterable[ManifestFileMeta]) -> bytes:
    """Write a manifest list, in the order given."""
    return write_container(MANIFEST_LIST_SCHEMA, [_meta_record(meta) for meta in metas])


def _built(
    data: bytes, path: str, build: Callable[[Record], T], keep: Callable[[Record], bool] | None
) -> Iterator[T]:
    for record in _records(data, path):
        if record.get("_VERSION") != MANIFEST_VERSION:
            raise FormatError(
                f"{path}: unsupported manifest record version {record.get('_VERSION')}; this "
                f"engine reads {MANIFEST_VERSION}.",
                kind="manifest-version",
                details={"path": path},
            )
        if keep is not None and not keep(record):
            continue
        try:
            yield build(record)
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(
                f"{path}: a manifest record is damaged ({error!r}).",
                kind="manifest-record",
                details={"path": path},
            ) from error


def _records(data: bytes, path: str) -> Iterable[Record]:
    try:
        if data.startswith(b"ORC"):
            return _table_records(orc.ORCFile(pa.BufferReader(data)).read())
        if data.startswith(b"PAR1"):
            return _table_records(pq.read_table(pa.BufferReader(data)))
    except (pa.ArrowException, OSError) as error:
        raise FormatError(
            f"{path}: damaged manifest, {error}", kind="manifest", details={"path": path}
        ) from error
    return read_container(data, path)


def _table_records(table: pa.Table) -> Sequence[Record]:
    """One dictionary a row: only old tables have such manifests, and small ones."""
    schema = pa.schema([field.with_type(_with_millis(field.type)) for field in table.schema])
    return table.cast(schema).to_pylist()


def _with_millis(arrow_type: Any) -> Any:
    # Python's datetime has no nanoseconds; manifests have none either.
    if pat.is_timestamp(arrow_type):
        return pa.timestamp("ms", tz=arrow_type.tz)
    if pat.is_struct(arrow_type):
        return pa.struct([field.with_type(_with_millis(field.type)) for field in arrow_type])
    return arrow_type


def _entry(record: Record) -> ManifestEntry:
    return ManifestEntry(
        kind=_FILE_KINDS[record["_KIND"]],
        partition=record["_PARTITION"],
        bucket=record["_BUCKET"],
        total_buckets=record["_TOTAL_BUCKETS"],
        file=_data_file(record["_FILE"]),
    )


_FILE_KINDS = {kind.value: kind for kind in FileKind}
_FILE_SOURCES: dict[int | None, FileSource | None] = {
    None: None,
    **{source.value: source for source in FileSource},
}


def _data_file(record: Record) -> DataFileMeta:
    get = record.get
    return DataFileMeta(
        file_name=record["_FILE_NAME"],
        file_size=record["_FILE_SIZE"],
        row_count=record["_ROW_COUNT"],
        min_key=record["_MIN_KEY"],
        max_key=record["_MAX_KEY"],
        key_stats=_simple_stats(record["_KEY_STATS"]),
        value_stats=_simple_stats(record["_VALUE_STATS"]),
        min_sequence_number=record["_MIN_SEQUENCE_NUMBER"],
        max_sequence_number=record["_MAX_SEQUENCE_NUMBER"],
        schema_id=record["_SCHEMA_ID"],
        level=record["_LEVEL"],
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


def _simple_stats(record: Record) -> SimpleStats:
    return SimpleStats(
        min_values=record["_MIN_VALUES"],
        max_values=record["_MAX_VALUES"],
        null_counts=tuple(record.get("_NULL_COUNTS") or ()),
    )


def _millis(value: int | dt.datetime | None) -> int | None:
    if isinstance(value, dt.datetime):
        since = value.replace(tzinfo=dt.UTC) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        return since // dt.timedelta(milliseconds=1)
    return value


def _manifest_meta(record: Record) -> ManifestFileMeta:
    return ManifestFileMeta(
        file_name=record["_FILE_NAME"],
        file_size=record["_FILE_SIZE"],
        num_added_files=record["_NUM_ADDED_FILES"],
        num_deleted_files=record["_NUM_DELETED_FILES"],
        partition_stats=_simple_stats(record["_PARTITION_STATS"]),
        schema_id=record["_SCHEMA_ID"],
        min_bucket=record.get("_MIN_BUCKET"),
        max_bucket=record.get("_MAX_BUCKET"),
        min_level=record.get("_MIN_LEVEL"),
        max_level=record.get("_MAX_LEVEL"),
        min_row_id=record.get("_MIN_ROW_ID"),
        max_row_id=record.get("_MAX_ROW_ID"),
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
