"""Manifests, manifest lists and index manifests ⇄ bytes.

Written as Avro with the exact schemas of Java Paimon 2.0, whose newest readers refuse any other
field order. Read by name: fields an older version did not write are None or absent (index manifests
had no deletion vectors before 0.8, and no cardinality before 1.0). Old tables may hold ORC or
Parquet manifests (`manifest.format`); the first bytes show which.
Source: `org.apache.paimon.manifest.ManifestEntrySerializer`, `ManifestFileMetaSerializer`,
`IndexManifestEntrySerializer`, `org.apache.paimon.utils.ObjectsFile`.
"""

import datetime as dt
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat

from paimon_assets.engine.codec.avro import avro
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.metadata import data_file, manifest
from paimon_assets.engine.spec.paths import plain_name, plain_names, straight_path

_NAMESPACE = "org.apache.paimon.avro.generated"


def field(name: str, avro_type: Any) -> avro.Record:
    """Return a field that is never null."""
    return {"name": name, "type": avro_type}


def nullable(name: str, avro_type: Any) -> avro.Record:
    """Return a field that may be null; Java takes the first branch of the union for null."""
    return {"name": name, "type": ["null", avro_type], "default": None}


def array(items: Any) -> avro.Record:
    return {"type": "array", "items": items}


def record(name: str, *fields: avro.Record) -> avro.Record:
    return {"type": "record", "name": name, "fields": list(fields)}


def record_schema(*fields: avro.Record) -> avro.RecordSchema:
    """Return the schema of a manifest's records, as Java names them; `_VERSION` is the first."""
    versioned = [field("_VERSION", "int"), *fields]
    schema = {"type": "record", "name": "record", "namespace": _NAMESPACE, "fields": versioned}
    return avro.RecordSchema.of(json.dumps(schema, separators=(",", ":")).encode())


def record_of(fields: Sequence[avro.Record]) -> Callable[[Any], avro.Record]:
    """Return a function that makes a record of a value, whose attribute `a_b` is field `_A_B`."""
    names = [field["name"] for field in fields]
    values = attrgetter(*map(_attribute, names))
    return lambda value: dict(zip(names, values(value), strict=True))


def attributes_of(raw: avro.Record, fields: Sequence[avro.Record]) -> avro.Record:
    """Return the attributes of the value a record is made of, the inverse of `record_of`.

    Records inside stay records; fields with a default may be missing.
    """
    return {
        _attribute(name := field["name"]): raw.get(name) if "default" in field else raw[name]
        for field in fields
    }


def _attribute(name: str) -> str:
    return name.removeprefix("_").lower()


MANIFEST_VERSION = 2
"""`_VERSION` of the records of manifests and manifest lists."""

_STATS = (
    field("_MIN_VALUES", "bytes"),
    field("_MAX_VALUES", "bytes"),
    nullable("_NULL_COUNTS", array(["null", "long"])),
)

_FILE_FIELDS = (
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
_PLACE = (field("_KIND", "int"), field("_PARTITION", "bytes"), field("_BUCKET", "int"))
_ENTRY = (*_PLACE, field("_TOTAL_BUCKETS", "int"))
MANIFEST_SCHEMA = record_schema(*_ENTRY, field("_FILE", record("record__FILE", *_FILE_FIELDS)))
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
_FILE_RECORD, _META_RECORD = record_of(_FILE_FIELDS), record_of(_META)

KeepEntry = Callable[[manifest.FileKind, bytes, int, int], bool]
"""(kind, partition, bucket, total buckets) → whether an entry is wanted."""


def read_manifest(
    data: bytes, path: str, keep: KeepEntry | None = None
) -> list[manifest.ManifestEntry]:
    """Read a manifest. Cost: about 10 µs an entry."""
    entries = []
    try:
        rows = manifest_rows(data, path, MANIFEST_SCHEMA)
        for version, number, partition, bucket, total_buckets, file in rows:
            if version != MANIFEST_VERSION:
                raise unsupported_version(path, version, MANIFEST_VERSION)
            kind = _FILE_KINDS[number]
            if keep is None or keep(kind, partition, bucket, total_buckets):
                built = _data_file(file)
                entries.append(
                    manifest.ManifestEntry(kind, partition, bucket, total_buckets, built)
                )
    except DAMAGED as error:
        raise damaged_record(path, error) from error
    return entries


def read_manifest_list(data: bytes, path: str) -> list[manifest.ManifestFileMeta]:
    metas, names = [], [_attribute(each["name"]) for each in _META]
    try:
        for version, *values in manifest_rows(data, path, MANIFEST_LIST_SCHEMA):
            if version != MANIFEST_VERSION:
                raise unsupported_version(path, version, MANIFEST_VERSION)
            members = dict(zip(names, values, strict=True))
            plain_name(members["file_name"])
            members["partition_stats"] = _simple_stats(*members["partition_stats"])
            metas.append(manifest.ManifestFileMeta(**members))
    except DAMAGED as error:
        raise damaged_record(path, error) from error
    return metas


def write_manifest(entries: Iterable[manifest.ManifestEntry]) -> bytes:
    return avro.write_container(MANIFEST_SCHEMA, list(map(_entry_record, entries)))


def _entry_record(entry: manifest.ManifestEntry) -> avro.Record:
    file = _FILE_RECORD(entry.file)
    file["_KEY_STATS"] = _stats_record(entry.file.key_stats)
    file["_VALUE_STATS"] = _stats_record(entry.file.value_stats)
    return {
        "_VERSION": MANIFEST_VERSION,
        "_KIND": entry.kind,
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": file,
    }


def _stats_record(stats: data_file.SimpleStats) -> avro.Record:
    return {
        "_MIN_VALUES": stats.min_values,
        "_MAX_VALUES": stats.max_values,
        "_NULL_COUNTS": stats.null_counts,
    }


def write_manifest_list(metas: Iterable[manifest.ManifestFileMeta]) -> bytes:
    records = []
    for meta in metas:
        stats = _stats_record(meta.partition_stats)
        own = {"_VERSION": MANIFEST_VERSION, "_PARTITION_STATS": stats}
        records.append({**_META_RECORD(meta), **own})
    return avro.write_container(MANIFEST_LIST_SCHEMA, records)


_FILE_KINDS = {kind.value: kind for kind in manifest.FileKind}
_FILE_SOURCES: dict[int | None, data_file.FileOrigin | None] = {
    None: None,
    **{source.value: source for source in data_file.FileOrigin},
}


def _data_file(values: Sequence[Any]) -> data_file.DataFileMeta:
    (
        name, size, row_count, min_key, max_key, key_stats, value_stats, min_sequence_number,
        max_sequence_number, schema_id, level, extra_files, creation_time, delete_row_count,
        embedded_file_index, file_source, value_stats_cols, external_path, first_row_id, write_cols,
    ) = values  # fmt: skip
    return data_file.DataFileMeta(
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
) -> data_file.SimpleStats:
    if max_values == data_file.EMPTY_ROW and not null_counts:
        return data_file.EMPTY_STATS
    return data_file.SimpleStats(min_values, max_values, tuple(null_counts or ()))


def _millis(value: int | dt.datetime | None) -> int | None:
    if isinstance(value, dt.datetime):
        since = value.replace(tzinfo=dt.UTC) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        return since // dt.timedelta(milliseconds=1)
    return value


INDEX_MANIFEST_VERSION = 1
"""`_VERSION` of the records of index manifests."""

_RANGES = array(
    [
        "null",
        record(
            "record__DELETIONS_VECTORS_RANGES",
            field("f0", "string"),
            field("f1", "int"),
            field("f2", "int"),
            nullable("_CARDINALITY", "long"),
        ),
    ]
)
_GLOBAL_INDEX = (
    field("_ROW_RANGE_START", "long"),
    field("_ROW_RANGE_END", "long"),
    field("_INDEX_FIELD_ID", "int"),
    nullable("_EXTRA_FIELD_IDS", array("int")),
    nullable("_INDEX_META", "bytes"),
    nullable("_SOURCE_META", "bytes"),
)
_EXTERNAL_PATH = nullable("_EXTERNAL_PATH", "string")
_INDEX_FILE = (
    field("_INDEX_TYPE", "string"),
    field("_FILE_NAME", "string"),
    field("_FILE_SIZE", "long"),
    field("_ROW_COUNT", "long"),
)
INDEX_MANIFEST_SCHEMA = record_schema(
    *_PLACE,
    *_INDEX_FILE,
    nullable("_DELETIONS_VECTORS_RANGES", _RANGES),
    _EXTERNAL_PATH,
    nullable("_GLOBAL_INDEX", record("record__GLOBAL_INDEX", *_GLOBAL_INDEX)),
)


def read_index_manifest(data: bytes, path: str) -> list[manifest.IndexManifestEntry]:
    entries = []
    columnar = _columnar_records(data, path)
    try:
        for raw in avro.read_container(data, path) if columnar is None else columnar:
            if raw.get("_VERSION") != INDEX_MANIFEST_VERSION:
                raise unsupported_version(path, raw.get("_VERSION"), INDEX_MANIFEST_VERSION)
            entries.append(_index_entry(raw))
    except DAMAGED as error:
        raise damaged_record(path, error) from error
    return entries


def write_index_manifest(entries: Iterable[manifest.IndexManifestEntry]) -> bytes:
    records = []
    for entry in entries:
        file, vectors = entry.file, entry.file.deletion_vectors
        ranges = (
            (each.data_file_name, each.offset, each.length, each.cardinality)
            for each in vectors or ()
        )
        names = ("f0", "f1", "f2", "_CARDINALITY")
        listed = None if vectors is None else [dict(zip(names, r, strict=True)) for r in ranges]
        records.append(
            {
                "_VERSION": INDEX_MANIFEST_VERSION,
                **record_of(_PLACE)(entry),
                **record_of((*_INDEX_FILE, _EXTERNAL_PATH))(file),
                "_DELETIONS_VECTORS_RANGES": listed,
                "_GLOBAL_INDEX": file.global_index and record_of(_GLOBAL_INDEX)(file.global_index),
            }
        )
    return avro.write_container(INDEX_MANIFEST_SCHEMA, records)


def _index_entry(raw: avro.Record) -> manifest.IndexManifestEntry:
    ranges, external = raw.get("_DELETIONS_VECTORS_RANGES"), raw.get("_EXTERNAL_PATH")
    vectors = (
        manifest.DeletionVectorMeta(
            data_file_name=each["f0"],
            offset=each["f1"],
            length=each["f2"],
            cardinality=each.get("_CARDINALITY"),
        )
        for each in ranges or ()
    )
    index = raw.get("_GLOBAL_INDEX") and attributes_of(raw["_GLOBAL_INDEX"], _GLOBAL_INDEX)
    if index and index["extra_field_ids"] is not None:
        index["extra_field_ids"] = tuple(index["extra_field_ids"])
    file = manifest.IndexFileMeta(
        **attributes_of(raw, _INDEX_FILE),
        deletion_vectors=None if ranges is None else tuple(vectors),
        external_path=None if external is None else straight_path(external),
        global_index=manifest.GlobalIndexMeta(**index) if index else None,
    )
    plain_name(file.file_name)
    place = attributes_of(raw, _PLACE)
    if place["bucket"] < 0:
        raise ValueError(f"bucket {place['bucket']}")
    _check_vectors(file)
    return manifest.IndexManifestEntry(
        file=file, **{**place, "kind": manifest.FileKind(place["kind"])}
    )


def _check_vectors(file: manifest.IndexFileMeta) -> None:
    """Refuse vectors that cannot be: a vector that is passed over brings back deleted rows."""
    vectors = file.deletion_vectors
    if (file.index_type == manifest.DELETION_VECTORS_INDEX) != (vectors is not None):
        raise ValueError(f"an index of type {file.index_type!r} and its vectors do not fit")
    if vectors is not None and len(vectors) != file.row_count:
        raise ValueError(f"{len(vectors)} deletion vectors where {file.row_count} are counted")
    for vector in vectors or ():
        end = vector.offset + vector.length
        if vector.offset < 1 or vector.length < 1 or end > file.file_size:
            raise ValueError(
                f"a vector at bytes {vector.offset} to {end} of a file of {file.file_size}"
            )
        if vector.cardinality is not None and vector.cardinality < 0:
            raise ValueError(f"a vector of {vector.cardinality} rows")


DAMAGED = (KeyError, TypeError, ValueError)
"""Errors that building a value of a damaged record may raise."""


def damaged_record(path: str, error: Exception) -> FormatError:
    return FormatError(
        f"{path}: a manifest record is damaged ({error!r}).", kind="manifest-record", path=path
    )


def unsupported_version(path: str, found: Any, version: int) -> FormatError:
    message = f"{path}: unsupported manifest record version {found}; this engine reads {version}."
    return FormatError(message, kind="manifest-version", path=path)


def manifest_rows(data: bytes, path: str, wanted: avro.RecordSchema) -> Iterator[Sequence[Any]]:
    """Yield the records of a manifest as values, for those that come by the hundred thousand."""
    columnar = _columnar_records(data, path)
    if columnar is None:
        yield from avro.read_rows(data, path, wanted)
        return
    schema = json.loads(wanted.text)
    try:
        for raw in columnar:
            yield _values(raw, schema)
    except DAMAGED as error:
        raise damaged_record(path, error) from error


def _values(raw: avro.Record, schema: Any) -> Sequence[Any]:
    values = []
    for field in schema["fields"]:
        value = raw.get(field["name"]) if "default" in field else raw[field["name"]]
        values.append(_values(value, field["type"]) if isinstance(value, dict) else value)
    return values


def manifest_format(head: bytes) -> str:
    """Return the format of a manifest or a list, by its first bytes."""
    return {b"ORC": "orc", b"PAR": "parquet"}.get(head[:3], "avro")


def _columnar_records(data: bytes, path: str) -> Sequence[avro.Record] | None:
    """Return the records of a manifest that is no Avro file."""
    try:
        if manifest_format(data) == "orc":
            import pyarrow.orc as orc

            return _table_records(orc.ORCFile(pa.BufferReader(data)).read())
        if manifest_format(data) == "parquet":
            return _table_records(pq.read_table(pa.BufferReader(data)))
    except (pa.ArrowException, OSError) as error:
        raise FormatError(
            f"{path}: damaged manifest, {error}", kind="manifest", path=path
        ) from error
    return None


def _table_records(table: pa.Table) -> Sequence[avro.Record]:
    """One dictionary a row: only old tables have such manifests, and small ones."""
    schema = pa.schema([column.with_type(_with_millis(column.type)) for column in table.schema])
    return table.cast(schema).to_pylist()


def _with_millis(arrow_type: Any) -> Any:
    # Python's datetime has no nanoseconds; manifests have none either.
    if pat.is_timestamp(arrow_type):
        return pa.timestamp("ms", tz=arrow_type.tz)
    if pat.is_struct(arrow_type):
        return pa.struct([inner.with_type(_with_millis(inner.type)) for inner in arrow_type])
    return arrow_type
