import io
import json

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from paimon_assets.engine.codec.avro.avro import RecordSchema, read_container, write_container
from paimon_assets.engine.codec.avro.manifest_avro import (
    MANIFEST_LIST_SCHEMA,
    MANIFEST_SCHEMA,
    read_manifest,
    read_manifest_list,
    write_manifest,
    write_manifest_list,
)
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.manifest import FileKind, ManifestEntry, ManifestFileMeta
from tests.testkit.builders import data_file, entry
from tests.testkit.codec_strategies import data_files, file_names, longs, stats

entries = st.builds(
    ManifestEntry,
    kind=st.sampled_from(FileKind),
    partition=st.binary(max_size=20),
    bucket=st.integers(-2, 2**31 - 1),
    total_buckets=st.integers(-2, 2**31 - 1),
    file=data_files,
)
metas = st.builds(
    ManifestFileMeta,
    file_name=file_names,
    file_size=longs,
    num_added_files=longs,
    num_deleted_files=longs,
    partition_stats=stats,
    schema_id=longs,
    min_bucket=st.none() | st.integers(-2, 99),
    max_bucket=st.none() | st.integers(-2, 99),
    min_level=st.none() | st.integers(0, 5),
    max_level=st.none() | st.integers(0, 5),
    min_row_id=st.none() | longs,
    max_row_id=st.none() | longs,
)
RECORDS = list(read_container(write_manifest([entry(), entry(bucket=1)]), "m"))


@given(st.lists(entries, max_size=4))
def test_manifest_entries_round_trip(items):
    assert read_manifest(write_manifest(items), "manifest-0") == items


@given(st.lists(metas, max_size=4))
def test_manifest_metas_round_trip(items):
    assert read_manifest_list(write_manifest_list(items), "manifest-list-0") == items


def without(schema, *removed):
    """The schema of an older version, without some fields, `_FILE` included."""
    if isinstance(schema, dict) and "fields" in schema:
        fields = [
            {**field, "type": without(field["type"], *removed)}
            for field in schema["fields"]
            if field["name"] not in removed
        ]
        return {**schema, "fields": fields}
    return schema


NEW_IN_FILES = (
    "_DELETE_ROW_COUNT",
    "_EMBEDDED_FILE_INDEX",
    "_FILE_SOURCE",
    "_VALUE_STATS_COLS",
    "_EXTERNAL_PATH",
    "_FIRST_ROW_ID",
    "_WRITE_COLS",
)
OLD_FILE = data_file(delete_row_count=None, file_source=None)


def test_fields_missing_in_old_versions_are_none():
    old = without(json.loads(MANIFEST_SCHEMA.text), *NEW_IN_FILES)
    data = write_container(RecordSchema.of(json.dumps(old).encode()), RECORDS[:1])
    assert read_manifest(data, "m") == [entry(file=OLD_FILE)]
    old_list = without(
        json.loads(MANIFEST_LIST_SCHEMA.text),
        *("_MIN_BUCKET", "_MAX_BUCKET", "_MIN_LEVEL", "_MAX_LEVEL", "_MIN_ROW_ID", "_MAX_ROW_ID"),
    )
    meta = ManifestFileMeta(
        file_name="m",
        file_size=1,
        num_added_files=2,
        num_deleted_files=3,
        partition_stats=data_file().key_stats,
        schema_id=4,
    )
    records = list(read_container(write_manifest_list([meta]), "l"))
    data = write_container(RecordSchema.of(json.dumps(old_list).encode()), records)
    assert read_manifest_list(data, "l") == [meta]


def test_records_and_files_wrapped_in_unions_are_read():
    schema = json.loads(MANIFEST_SCHEMA.text)
    schema["fields"][5]["type"] = ["null", schema["fields"][5]["type"]]
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(["null", schema]), RECORDS, codec="deflate")
    assert read_manifest(out.getvalue(), "m") == [entry(), entry(bucket=1)]


def test_fields_of_newer_versions_are_skipped():
    schema = json.loads(MANIFEST_SCHEMA.text)
    schema["fields"][5]["type"]["fields"].append(
        {"name": "_WRITE_COLS_SEQUENCES", "type": ["null", {"type": "array", "items": "long"}]}
    )
    newer = [
        {**record, "_FILE": {**record["_FILE"], "_WRITE_COLS_SEQUENCES": [1]}} for record in RECORDS
    ]
    data = write_container(RecordSchema.of(json.dumps(schema).encode()), newer)
    assert read_manifest(data, "m") == [entry(), entry(bucket=1)]


@pytest.mark.parametrize("version", [1, 3])
def test_unknown_record_version_is_refused(version):
    data = write_container(MANIFEST_SCHEMA, [{**RECORDS[0], "_VERSION": version}])
    with pytest.raises(FormatError, match=f"/t/manifest-1.*version {version}") as refused:
        read_manifest(data, "/t/manifest-1")
    assert refused.value.kind == "manifest-version"


def test_keep_filters_raw_records():
    data = write_manifest([entry(bucket=bucket) for bucket in range(4)])
    kept = read_manifest(data, "m", keep=lambda _kind, _partition, bucket, _total: bucket == 2)
    assert kept == [entry(bucket=2)]


def test_missing_required_field_is_named():
    schema = without(json.loads(MANIFEST_SCHEMA.text), "_SCHEMA_ID")
    data = write_container(RecordSchema.of(json.dumps(schema).encode()), RECORDS)
    with pytest.raises(FormatError, match=r"/t/manifest-1.*_SCHEMA_ID"):
        read_manifest(data, "/t/manifest-1")


def test_truncated_manifest_is_named():
    data = write_manifest([entry()])
    header = data.index(data[-16:]) + 16
    for length in range(len(data)):
        if length != header:
            with pytest.raises(FormatError, match="/t/manifest-1"):
                read_manifest(data[:length], "/t/manifest-1")


def as_table(records):
    """The columns of old manifests, instants included."""
    stats_type = pa.struct(
        [
            ("_MIN_VALUES", pa.binary()),
            ("_MAX_VALUES", pa.binary()),
            ("_NULL_COUNTS", pa.list_(pa.int64())),
        ]
    )
    types = {"_CREATION_TIME": pa.timestamp("ns"), "_EXTRA_FILES": pa.list_(pa.string())}
    for name in ("_FILE_NAME", "_EXTERNAL_PATH"):
        types[name] = pa.string()
    for name in ("_MIN_KEY", "_MAX_KEY", "_EMBEDDED_FILE_INDEX"):
        types[name] = pa.binary()
    for name in ("_VALUE_STATS_COLS", "_WRITE_COLS"):
        types[name] = pa.list_(pa.string())
    for name in ("_KEY_STATS", "_VALUE_STATS"):
        types[name] = stats_type
    for name in ("_LEVEL", "_FILE_SOURCE"):
        types[name] = pa.int32()
    file_type = pa.struct([(name, types.get(name, pa.int64())) for name in records[0]["_FILE"]])
    outer = {"_PARTITION": pa.binary(), "_FILE": file_type}
    return pa.Table.from_pylist(
        [
            {**record, "_FILE": {**record["_FILE"], "_CREATION_TIME": 1_700_000_000_000_000_000}}
            for record in records
        ],
        schema=pa.schema([(name, outer.get(name, pa.int32())) for name in records[0]]),
    )


@pytest.mark.parametrize("write", [orc.write_table, pq.write_table], ids=["orc", "parquet"])
def test_orc_and_parquet_manifests_of_old_tables_are_read(write):
    sink = io.BytesIO()
    write(as_table(RECORDS), sink)
    assert read_manifest(sink.getvalue(), "m") == [entry(), entry(bucket=1)]
    half = sink.getvalue()[: len(sink.getvalue()) // 2]
    with pytest.raises(FormatError, match="/t/manifest-1"):
        read_manifest(half, "/t/manifest-1")


def test_fields_are_in_order_of_newest_java_reader():
    manifest, manifest_list = (
        json.loads(schema.text) for schema in (MANIFEST_SCHEMA, MANIFEST_LIST_SCHEMA)
    )
    assert [(field["name"], field["type"]) for field in manifest["fields"][:5]] == [
        ("_VERSION", "int"),
        ("_KIND", "int"),
        ("_PARTITION", "bytes"),
        ("_BUCKET", "int"),
        ("_TOTAL_BUCKETS", "int"),
    ]
    assert manifest["fields"][5]["type"]["name"] == "record__FILE"
    assert manifest["namespace"] == "org.apache.paimon.avro.generated"
    assert [field["name"] for field in manifest_list["fields"]][-6:] == [
        "_MIN_BUCKET",
        "_MAX_BUCKET",
        "_MIN_LEVEL",
        "_MAX_LEVEL",
        "_MIN_ROW_ID",
        "_MAX_ROW_ID",
    ]


def test_file_of_defaults_round_trips():
    file = DataFileMeta(file_name="a", file_size=1, row_count=1, schema_id=0)
    assert read_manifest(write_manifest([entry(file=file)]), "m") == [entry(file=file)]
