import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.codec.avro.avro import RecordSchema, write_container
from paimon_assets.engine.codec.avro.manifest_avro import (
    INDEX_MANIFEST_SCHEMA,
    read_index_manifest,
    write_index_manifest,
)
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.metadata import manifest
from tests.testkit.codec_strategies import file_names, file_paths

TABLES = Path(__file__).parents[3] / "shared" / "tables"
LONGS = st.integers(0, 2**62)
INTS = st.integers(0, 2**31 - 1)
POSITIVE = st.integers(1, 2**31 - 1)
VECTORS = st.builds(
    manifest.DeletionVectorMeta,
    data_file_name=st.text(),
    offset=POSITIVE,
    length=POSITIVE,
    cardinality=st.none() | LONGS,
)
GLOBAL = st.builds(
    manifest.GlobalIndexMeta,
    row_range_start=LONGS,
    row_range_end=LONGS,
    index_field_id=INTS,
    extra_field_ids=st.none() | st.lists(INTS).map(tuple),
    index_meta=st.none() | st.binary(),
    source_meta=st.none() | st.binary(),
)
NAMES = {"file_name": file_names, "external_path": st.none() | file_paths}
OF_VECTORS = st.lists(VECTORS).flatmap(
    lambda vectors: st.builds(
        manifest.IndexFileMeta,
        index_type=st.just("DELETION_VECTORS"),
        file_size=st.integers(2**32, 2**62),
        row_count=st.just(len(vectors)),
        deletion_vectors=st.just(tuple(vectors)),
        **NAMES,
    )
)
WITHOUT_VECTORS = st.builds(
    manifest.IndexFileMeta,
    index_type=st.sampled_from(["HASH", "btree"]),
    file_size=LONGS,
    row_count=LONGS,
    global_index=st.none() | GLOBAL,
    **NAMES,
)
ENTRIES = st.builds(
    manifest.IndexManifestEntry,
    kind=st.sampled_from(manifest.FileKind),
    partition=st.binary(),
    bucket=INTS,
    file=OF_VECTORS | WITHOUT_VECTORS,
)


@given(st.lists(ENTRIES))
def test_entries_round_trip(entries):
    assert read_index_manifest(write_index_manifest(entries), "m") == entries


def entry(name, kind=manifest.FileKind.ADD):
    file = manifest.IndexFileMeta(index_type="HASH", file_name=name, file_size=8, row_count=2)
    return manifest.IndexManifestEntry(kind=kind, partition=b"", bucket=0, file=file)


def test_deleted_index_file_is_not_live():
    entries = [entry("a"), entry("b"), entry("a", manifest.FileKind.DELETE)]
    assert manifest.live_index_entries(entries) == [entry("b")]


FIELDS = json.loads(INDEX_MANIFEST_SCHEMA.text)["fields"]


def old_manifest(values):
    """Write one record that has no other fields."""
    fields = [field for field in FIELDS if field["name"] in values]
    schema = {"type": "record", "name": "record", "fields": fields}
    return write_container(RecordSchema.of(json.dumps(schema).encode()), [values])


BASE = {
    "_VERSION": 1,
    "_KIND": 0,
    "_PARTITION": b"p",
    "_BUCKET": 3,
    "_INDEX_TYPE": "HASH",
    "_FILE_NAME": "index-1",
    "_FILE_SIZE": 8,
    "_ROW_COUNT": 2,
}


def test_record_older_than_deletion_vectors_is_read():
    (found,) = read_index_manifest(old_manifest(BASE), "m")
    assert found.file == manifest.IndexFileMeta(
        index_type="HASH", file_name="index-1", file_size=8, row_count=2
    )
    assert (found.partition, found.bucket) == (b"p", 3)


def test_another_version_is_refused():
    with pytest.raises(FormatError, match="record version 2; this engine reads 1") as caught:
        read_index_manifest(old_manifest({**BASE, "_VERSION": 2}), "m")
    assert caught.value.kind == "manifest-version"


def test_record_without_its_file_is_named():
    short = {key: value for key, value in BASE.items() if key != "_FILE_NAME"}
    with pytest.raises(FormatError, match="m: a manifest record is damaged"):
        read_index_manifest(old_manifest(short), "m")


@pytest.mark.skipif(not TABLES.exists(), reason="needs ../shared/tables, written by Java Paimon")
def test_java_index_manifests_round_trip_in_every_format():
    paths = sorted(TABLES.glob("**/manifest/index-manifest-*"))
    for path in paths:
        entries = read_index_manifest(path.read_bytes(), str(path))
        assert entries
        assert read_index_manifest(write_index_manifest(entries), "m") == entries
    assert {path.read_bytes()[:3] for path in paths} == {b"Obj", b"ORC"}
