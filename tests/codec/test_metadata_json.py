import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from paimon_assets import FormatError, PaimonError
from paimon_assets.engine.codec.json.metadata_json import (
    schema_from_json,
    schema_to_json,
    snapshot_from_json,
    snapshot_to_json,
    statistics_to_json,
)
from paimon_assets.engine.spec.metadata.snapshot import ColumnStatistics, CommitKind, Statistics
from tests.testkit.builders import snapshot
from tests.testkit.codec_strategies import file_names, longs, texts
from tests.testkit.tables import table_schema

JAVA_SNAPSHOT = {
    "version": 3,
    "id": 1,
    "schemaId": 0,
    "baseManifestList": "manifest-list-4fb9-0",
    "baseManifestListSize": 884,
    "deltaManifestList": "manifest-list-4fb9-1",
    "deltaManifestListSize": 998,
    "changelogManifestList": None,
    "commitUser": "4d66",
    "commitIdentifier": 9223372036854775807,
    "commitKind": "APPEND",
    "timeMillis": 1756266933641,
    "logOffsets": {},
    "totalRecordCount": 9,
    "deltaRecordCount": 9,
    "changelogRecordCount": 0,
    "watermark": -9223372036854775808,
    "nextRowId": 0,
}
JAVA_SCHEMA = {
    "version": 3,
    "id": 2,
    "fields": [
        {"id": 0, "name": "k", "type": "INT NOT NULL"},
        {
            "id": 1,
            "name": "r",
            "type": {"type": "ROW", "fields": [{"id": 2, "name": "x", "type": "INT"}]},
            "description": "ein Körper",
            "defaultValue": "…",
        },
    ],
    "highestFieldId": 2,
    "partitionKeys": [],
    "primaryKeys": ["k"],
    "options": {"bucket": "2", "some.flink.option": "kept"},
    "comment": "what for",
    "timeMillis": 1756266931880,
}


def parse_snapshot(members):
    return snapshot_from_json(json.dumps(members).encode(), "/t/snapshot/snapshot-1")


def parse_schema(members):
    return schema_from_json(json.dumps(members).encode(), "/t/schema/schema-2")


def test_snapshot_of_java_is_read_and_written_with_all_its_members():
    parsed = parse_snapshot(JAVA_SNAPSHOT)
    assert parsed.commit_identifier == 2**63 - 1
    assert parsed.watermark == -(2**63)
    assert parsed.commit_kind is CommitKind.APPEND
    assert parsed.changelog_manifest_list is None
    expected = {key: value for key, value in JAVA_SNAPSHOT.items() if value is not None}
    assert json.loads(snapshot_to_json(parsed)) == expected


@given(
    st.builds(
        snapshot,
        id=longs,
        watermark=st.none() | longs,
        properties=st.dictionaries(texts, texts, max_size=3),
        statistics=st.none() | file_names,
        next_row_id=st.none() | longs,
        commit_kind=st.sampled_from(CommitKind),
        unknown=st.dictionaries(
            texts.map("x".__add__), st.integers() | texts | st.lists(st.booleans()), max_size=3
        ),
    )
)
def test_snapshots_round_trip(value):
    assert snapshot_from_json(snapshot_to_json(value), "snapshot-1") == value


def test_nulls_are_never_written():
    assert b"null" not in snapshot_to_json(snapshot())


@pytest.mark.parametrize(
    "key", ["id", "schemaId", "baseManifestList", "commitUser", "commitKind", "totalRecordCount"]
)
def test_missing_member_is_named_with_its_file(key):
    members = {name: value for name, value in JAVA_SNAPSHOT.items() if name != key}
    with pytest.raises(FormatError, match=rf"/t/snapshot/snapshot-1.*{key}"):
        parse_snapshot(members)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", "1"),
        ("id", True),
        ("id", 1.5),
        ("id", 1.0),
        ("id", float("nan")),
        ("id", 2**63),
        ("id", 10**400),
        ("watermark", -(2**63) - 1),
        ("commitUser", 5),
        ("commitKind", "MERGE"),
        ("properties", {"a": 1}),
        ("properties", []),
        ("properties", {"a": None}),
        ("statistics", ["s"]),
        ("version", "3"),
    ],
)
def test_member_of_another_type_is_named_with_its_file(key, value):
    with pytest.raises(FormatError, match=rf"/t/snapshot/snapshot-1.*{key}"):
        parse_snapshot({**JAVA_SNAPSHOT, key: value})


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"\xff\xfe\xfd", b"1", b'{"id":1}', b"[" * 9999]
)
def test_invalid_metadata_names_file(data):
    with pytest.raises(FormatError, match="snapshot-7"):
        snapshot_from_json(data, "snapshot-7")
    with pytest.raises(FormatError, match="schema-7"):
        schema_from_json(data, "schema-7")


def test_statistics_are_written_without_unknown_values():
    statistics = Statistics(snapshot_id=1, schema_id=0, columns={})
    assert statistics_to_json(statistics) == b'{"snapshotId": 1, "schemaId": 0, "colStats": {}}'
    known = ColumnStatistics(column_id=2, distinct_count=0, minimum="ä", average_length=4)
    columns = replace(statistics, merged_record_count=5, columns={"a": known})
    assert statistics_to_json(columns).decode() == (
        '{"snapshotId": 1, "schemaId": 0, "mergedRecordCount": 5, "colStats": {"a": {"colId": 2,'
        ' "distinctCount": 0, "min": "ä", "avgLen": 4}}}'
    )


def test_schema_of_java_is_read_and_written_with_all_its_members():
    parsed = parse_schema({**JAVA_SCHEMA, "later": {"a": [1, None]}})
    assert parsed.fields[1].default_value == "…"
    assert json.loads(schema_to_json(parsed)) == {**JAVA_SCHEMA, "later": {"a": [1, None]}}


def test_schema_without_comment_writes_none():
    schema = table_schema({"id": "INT"})
    assert schema.comment is None
    assert "comment" not in json.loads(schema_to_json(schema))
    with_null = {**JAVA_SCHEMA, "comment": None}
    assert "comment" not in json.loads(schema_to_json(parse_schema(with_null)))


def test_defaults_of_old_schema_versions_become_options():
    old = {key: value for key, value in JAVA_SCHEMA.items() if key not in ("version", "timeMillis")}
    first = parse_schema({**old, "options": {}})
    assert (first.version, first.time_millis) == (1, 0)
    assert first.options == {"bucket": "1", "file.format": "orc"}
    second = parse_schema({**old, "version": 2, "options": {"file.format": "avro"}})
    assert second.options == {"file.format": "avro"}
    assert parse_schema({**old, "version": 3, "options": {}}).options == {}


@pytest.mark.parametrize(
    "fields",
    [
        None,
        {},
        [1],
        [{"id": 0, "name": "a"}],
        [{"id": 0, "name": "a", "type": "NUMBER"}],
        [{"id": 0, "name": "a", "type": {"type": "ARRAY"}}],
        [{"id": "x", "name": "a", "type": "INT"}],
    ],
)
def test_damaged_fields_name_file(fields):
    with pytest.raises(FormatError, match="/t/schema/schema-2"):
        parse_schema({**JAVA_SCHEMA, "fields": fields})


@given(st.data())
def test_damaged_bytes_raise_typed_error(data):
    whole = json.dumps(data.draw(st.sampled_from([JAVA_SNAPSHOT, JAVA_SCHEMA]))).encode()
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = whole[:at] + data.draw(st.binary(max_size=2)) + whole[at + 1 :]
    for parse in (snapshot_from_json, schema_from_json):
        try:
            parse(damaged, "file")
        except PaimonError:
            continue
