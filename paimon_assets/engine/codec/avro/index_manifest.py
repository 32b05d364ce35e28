"""Index manifests ⇄ bytes: the records of `index-manifest-*`.

Written as Avro with the exact schema of Java Paimon 2.0. Before 0.8 records had no deletion
vectors, before 1.0 these had no cardinality; later fields are None where they are missing.
Source: `org.apache.paimon.manifest.IndexManifestEntrySerializer`.
"""

from collections.abc import Iterable
from dataclasses import replace

from paimon_assets.engine.codec.avro.avro import Record, write_container
from paimon_assets.engine.codec.avro.manifest_records import (
    array,
    attributes_of,
    built_records,
    field,
    nullable,
    record,
    record_of,
    record_schema,
)
from paimon_assets.engine.spec.metadata.index_file import (
    DELETION_VECTORS_INDEX,
    DeletionVectorMeta,
    GlobalIndexMeta,
    IndexFileMeta,
    IndexManifestEntry,
)
from paimon_assets.engine.spec.metadata.manifest import FileKind
from paimon_assets.engine.spec.paths import plain_name, straight_path

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
INDEX_MANIFEST_SCHEMA = record_schema(
    field("_KIND", "int"),
    field("_PARTITION", "bytes"),
    field("_BUCKET", "int"),
    field("_INDEX_TYPE", "string"),
    field("_FILE_NAME", "string"),
    field("_FILE_SIZE", "long"),
    field("_ROW_COUNT", "long"),
    nullable("_DELETIONS_VECTORS_RANGES", _RANGES),
    nullable("_EXTERNAL_PATH", "string"),
    nullable("_GLOBAL_INDEX", record("record__GLOBAL_INDEX", *_GLOBAL_INDEX)),
)


def read_index_manifest(data: bytes, path: str) -> list[IndexManifestEntry]:
    """Read an index manifest."""
    return list(built_records(data, path, _entry, version=INDEX_MANIFEST_VERSION))


def write_index_manifest(entries: Iterable[IndexManifestEntry]) -> bytes:
    """Write an index manifest, in the order given."""
    return write_container(INDEX_MANIFEST_SCHEMA, [_entry_record(entry) for entry in entries])


def _entry(raw: Record) -> IndexManifestEntry:
    ranges, external = raw.get("_DELETIONS_VECTORS_RANGES"), raw.get("_EXTERNAL_PATH")
    entry = IndexManifestEntry(
        kind=FileKind(raw["_KIND"]),
        partition=raw["_PARTITION"],
        bucket=raw["_BUCKET"],
        file=IndexFileMeta(
            index_type=raw["_INDEX_TYPE"],
            file_name=plain_name(raw["_FILE_NAME"]),
            file_size=raw["_FILE_SIZE"],
            row_count=raw["_ROW_COUNT"],
            deletion_vectors=None if ranges is None else tuple(map(_vector, ranges)),
            external_path=None if external is None else straight_path(external),
            global_index=_global_index(raw.get("_GLOBAL_INDEX")),
        ),
    )
    if entry.bucket < 0:
        raise ValueError(f"bucket {entry.bucket}")
    _check_vectors(entry.file)
    return entry


def _check_vectors(file: IndexFileMeta) -> None:
    """Refuse vectors that cannot be: a vector that is passed over brings back deleted rows."""
    vectors = file.deletion_vectors
    if (file.index_type == DELETION_VECTORS_INDEX) != (vectors is not None):
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


def _vector(raw: Record) -> DeletionVectorMeta:
    return DeletionVectorMeta(
        data_file_name=raw["f0"],
        offset=raw["f1"],
        length=raw["f2"],
        cardinality=raw.get("_CARDINALITY"),
    )


def _global_index(raw: Record | None) -> GlobalIndexMeta | None:
    if raw is None:
        return None
    index = GlobalIndexMeta(**attributes_of(raw, _GLOBAL_INDEX))
    extra = index.extra_field_ids
    return index if extra is None else replace(index, extra_field_ids=tuple(extra))


def _entry_record(entry: IndexManifestEntry) -> Record:
    file = entry.file
    vectors = file.deletion_vectors
    return {
        "_VERSION": INDEX_MANIFEST_VERSION,
        "_KIND": entry.kind,
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_INDEX_TYPE": file.index_type,
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size,
        "_ROW_COUNT": file.row_count,
        "_DELETIONS_VECTORS_RANGES": None if vectors is None else list(map(_range, vectors)),
        "_EXTERNAL_PATH": file.external_path,
        "_GLOBAL_INDEX": file.global_index and record_of(file.global_index, _GLOBAL_INDEX),
    }


def _range(vector: DeletionVectorMeta) -> Record:
    return {
        "f0": vector.data_file_name,
        "f1": vector.offset,
        "f2": vector.length,
        "_CARDINALITY": vector.cardinality,
    }
