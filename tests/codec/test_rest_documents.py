"""The documents of REST catalogs: Java's own, byte for byte, and tolerant reads."""

import json
from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from paimon_assets import FormatError, PaimonError, UnsupportedFeatureError, move_column
from paimon_assets import documents as d
from paimon_assets.engine.codec.json.metadata_json import schema_from_json
from paimon_assets.engine.codec.rest import bodies
from paimon_assets.engine.codec.rest.structure import write_value
from paimon_assets.engine.spec.evolution.schema_change import DropPrimaryKey
from paimon_assets.server import bodies as own_bodies

VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "golden" / "rest_json.jsonl").read_text().splitlines()
]
STRUCTURES = {
    name: cls
    for module in (bodies, own_bodies)
    for name, cls in vars(module).items()
    if isinstance(cls, type) and cls.__module__ == module.__name__
}
SNAPSHOT = {
    "version": 3,
    "id": 1,
    "schemaId": 0,
    "baseManifestList": "a",
    "deltaManifestList": "b",
    "commitUser": "u",
    "commitIdentifier": 1,
    "commitKind": "APPEND",
    "timeMillis": 0,
}


def vector(name):
    return next(each for each in VECTORS if each["structure"] == name)


@pytest.mark.parametrize(
    "each", VECTORS, ids=[f"{number}-{v['structure']}" for number, v in enumerate(VECTORS)]
)
def test_document_is_read_and_written_as_java_does(each):
    cls = STRUCTURES[each["structure"]]
    read = cls.from_bytes(each["read"].encode())
    assert read.to_bytes().decode() == each["written"]
    assert cls.from_bytes(each["written"].encode()) == read


def test_structures_equal_those_of_java():
    ours = set(STRUCTURES)
    inner = {name for name in ours if not name.endswith(("Request", "Response"))} - {"Identifier"}
    newer = {name for name in ours if name.endswith(("PartitionsRequest", "PartitionsResponse"))}
    newer -= {"PartitionsRequest", "ListPartitionsResponse"}
    assert ours - inner - newer == {each["structure"] for each in VECTORS}


def test_null_lists_and_maps_are_empty():
    got = bodies.DatabaseResponse.from_json(
        {"id": "u", "name": "d", "location": None, "options": None}
    )
    assert got.options == {}
    assert bodies.ListBranchesResponse.from_json({"branches": None}).branches == ()
    assert bodies.ConfigResponse.from_json(
        {"overrides": {"a": None, "b": 1, "c": True}}
    ).overrides == {"b": "1", "c": "true"}
    assert bodies.ErrorResponse.from_bytes(b"").code == 0


def test_names_of_older_documents_are_read():
    identifier = bodies.Identifier(database="d", object="t")
    assert bodies.Identifier.from_json({"databaseName": "d", "tableName": "t"}) == identifier
    assert d.read_document(d.Instant, {"snapshotId": 5}) == bodies.SnapshotInstant(snapshot_id=5)
    assert bodies.TokenResponse.from_json({"token": {}, "expiresAt": "7"}).expires_at_millis == 7
    consumers = bodies.ListConsumersResponse.from_json(
        {"consumers": [{"consumerId": "c", "nextSnapshotId": 5}]}
    )
    assert consumers.consumers[0].next_snapshot == 5
    assert own_bodies.DropPartitionsRequest.from_json({"specs": [{"a": "1"}]}).partition_specs == (
        {"a": "1"},
    )
    changes = bodies.AlterViewRequest.from_json(
        {"changes": [{"action": "updateViewComment", "key": "c"}]}
    )
    assert changes.changes == (bodies.UpdateViewComment(comment="c"),)
    typed = {"changes": [{"type": "dropColumn", "fieldNames": ["a"]}]}
    assert bodies.AlterTableRequest.from_json(typed).to_json()["changes"] == [
        {"action": "dropColumn", "fieldNames": ["a"]}
    ]


def test_snapshot_may_lack_its_counts_and_wrapping():
    bare = bodies.SnapshotResponse.from_json({"snapshot": SNAPSHOT, "recordCount": 3})
    wrapped = bodies.SnapshotResponse.from_json(
        {"snapshot": {"snapshot": SNAPSHOT, "recordCount": 3}}
    )
    assert bare == wrapped
    assert bare.snapshot.snapshot.total_record_count == 0
    kept = {**SNAPSHOT, "totalRecordCount": None, "logOffsets": {"0": 1}, "commitIdentifier": "9"}
    snapshot = own_bodies.VersionSnapshotResponse.from_json({"snapshot": kept}).snapshot
    assert (snapshot.commit_identifier, snapshot.unknown) == (9, {"logOffsets": {"0": 1}})


def test_absent_base_is_not_null_base():
    request = {"tableId": "u", "snapshot": SNAPSHOT, "statistics": []}
    assert bodies.CommitRequest.from_json(request).base_snapshot_uuid is UNSET
    with_null = bodies.CommitRequest.from_json({**request, "baseSnapshotUuid": None})
    assert with_null.base_snapshot_uuid is None
    assert list(with_null.to_json())[:2] == ["tableId", "baseSnapshotUuid"]


def test_dlf_gets_its_own_names():
    table = bodies.TableResponse.from_bytes(vector("TableResponse")["read"].encode()).to_dlf()
    assert (table["isExternal"], table["schemaId"]) == ("false", "9007199254740993")
    assert "database" not in table
    fields = table["schema"]["fields"]
    assert all(field.keys() == {"id", "name", "type"} for field in fields)
    assert fields[2]["type"]["value"]["fields"][0].keys() == {"id", "name", "type"}
    assert bodies.Identifier(database="d", object="t").to_dlf() == {
        "databaseName": "d",
        "tableName": "t",
    }
    view = bodies.ViewResponse.from_bytes(vector("ViewResponse")["read"].encode()).to_dlf()
    assert list(view) == ["id", "name", "schema"]
    assert bodies.SnapshotInstant(snapshot_id=5).to_dlf() == {"snapshotId": 5}
    with_uuid = own_bodies.VersionSnapshotResponse.from_json(
        {"snapshot": {**SNAPSHOT, "uuid": "x"}}
    )
    assert "uuid" not in with_uuid.to_dlf()["snapshot"]
    assert write_value(move_column("a"), dlf=True) == {
        "type": "updateColumnPosition",
        "fieldNames": ["a"],
        "move": {"fieldName": "a", "referenceFieldName": None, "type": "LAST"},
    }
    with pytest.raises(UnsupportedFeatureError, match="dropPrimaryKey"):
        write_value(DropPrimaryKey(), dlf=True)


def test_dlf_documents_are_read_again():
    table = bodies.TableResponse.from_bytes(vector("TableResponse")["read"].encode())
    again = bodies.TableResponse.from_json(table.to_dlf())
    assert (again.schema_id, again.is_external, again.path) == (
        table.schema_id,
        table.is_external,
        table.path,
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[]", "not a JSON object"),
        (b'{"id":', "not JSON"),
        (b'{"id":"u","path":"p"}', "TableResponse: member 'name' is missing"),
        (b'{"name":["t"]}', "TableResponse: member 'name' cannot be a list"),
        (b'{"name":"t","path":"p","schemaId":1.5}', "'schemaId' cannot be a float"),
        (
            b'{"name":"t","path":"p","schemaId":9223372036854775808}',
            r"Expected `int` [<>]= -?92233720368547758",
        ),
        (
            b'{"name":"t","path":"p","schemaId":1,"schema":{"fields":[1]}}',
            "'schema': Schema: member 'fields' cannot be a list",
        ),
        (
            b'{"name":"t","path":"p","schemaId":1,"schema":{"fields":[{"id":0,"name":"a","type":"I"}]}}',
            "'schema': .*'I'",
        ),
    ],
)
def test_invalid_document_is_refused(data, message):
    with pytest.raises(FormatError, match=message):
        bodies.TableResponse.from_bytes(data)


TABLE = {"name": "t", "path": "p", "schemaId": 1, "schema": {"fields": []}}


@pytest.mark.parametrize(
    ("member", "value", "message"),
    [
        ("schemaId", None, "TableResponse: member 'schemaId' is missing"),
        ("schemaId", True, "member 'schemaId' cannot be a bool .expected a whole number"),
        ("schemaId", 1.0, "member 'schemaId' cannot be a float"),
        ("schemaId", "1.0", "member 'schemaId' cannot be a text"),
        ("schemaId", "9" * 5000, "member 'schemaId' cannot be a text"),
        ("schemaId", -(2**63) - 1, r"Expected `int` [<>]= -?92233720368547758"),
        ("schemaId", float("nan"), "member 'schemaId' cannot be a float"),
        ("createdAt", float("inf"), "member 'createdAt' cannot be a float"),
        ("isExternal", 1, "member 'isExternal' cannot be a int .expected true or false"),
        ("isExternal", "null", "member 'isExternal' cannot be a text"),
        ("path", 1.5, "member 'path' cannot be a float .expected a text"),
        ("schema", [], "TableResponse: member 'schema': Schema: expected an object, not a list"),
        ("schema", {"fields": {}}, "Schema: member 'fields' cannot be an object"),
        ("schema", {"options": {"a": []}}, "Schema: member 'options' cannot be an object"),
    ],
)
def test_member_of_another_form_is_named_with_its_document(member, value, message):
    data = json.dumps({**TABLE, member: value}).encode()
    with pytest.raises(FormatError, match=message):
        bodies.TableResponse.from_bytes(data)


def test_last_of_repeated_members_counts():
    data = json.dumps(TABLE).encode()[:-1] + b',"name":"u"}'
    assert bodies.TableResponse.from_bytes(data).name == "u"


@pytest.mark.parametrize("depth", [10, 300, 450, 600, 900, 5_000, 200_000])
def test_nested_types_are_read_or_refused(depth):
    nested = '{"type":"ARRAY","element":' * depth + '"INT"' + "}" * depth
    fields = f'"fields":[{{"id":0,"name":"a","type":{nested}}}]'.encode()
    table = b'{"name":"t","path":"p","schemaId":1,"schema":{%s}}' % fields
    try:
        assert bodies.TableResponse.from_bytes(table).schema.fields[0].type.element
    except FormatError:
        assert depth > 10
    try:
        assert schema_from_json(b'{"id":0,"highestFieldId":1,%s}' % fields, "schema-0").fields
    except FormatError:
        assert depth > 10


JUNK = st.sampled_from(
    [None, 0, -1, 1.0, 1.5, "", "1", " 1", "1.0", "x", True, "TRUE", "null", [], {}, [None], ["a"],
     {"a": None}, {"a": 1.5}, 2**63, -(2**63), 2**70, "9" * 5000, float("nan"), float("inf")]
).map(deepcopy)  # fmt: skip


@settings(max_examples=500)
@given(st.data())
def test_document_with_unknown_members_is_refused_or_kept(data):
    each = data.draw(st.sampled_from(VECTORS))
    document = json.loads(each["read"])
    for _ in range(data.draw(st.integers(1, 3))):
        place = document
        while place:
            keys = list(place) if isinstance(place, dict) else range(len(place))
            key = data.draw(st.sampled_from(keys))
            if not isinstance(place[key], dict | list) or data.draw(st.booleans()):
                place[key] = data.draw(JUNK)
                break
            place = place[key]
    cls = STRUCTURES[each["structure"]]
    try:
        read = cls.from_bytes(json.dumps(document).encode())
    except FormatError:
        return
    assert cls.from_bytes(read.to_bytes()) == read


def test_snapshot_names_no_foreign_file():
    with pytest.raises(FormatError, match="deltaManifestList"):
        own_bodies.VersionSnapshotResponse.from_json(
            {"snapshot": {**SNAPSHOT, "deltaManifestList": "../x"}}
        )


def test_token_is_not_shown():
    assert "secret" not in repr(bodies.TokenResponse(token={"k": "secret"}, expires_at_millis=1))


_WRITTEN = [
    (d.DataType, "INT NOT NULL"),
    (d.DataType, {"type": "ARRAY", "element": "INT"}),
    (d.DataType, {"type": "MAP", "key": "INT", "value": "STRING"}),
    (d.DataType, {"type": "ROW", "fields": [{"id": 1, "name": "a", "type": "INT"}]}),
    (d.DataField, {"id": 0, "name": "a", "type": "INT", "description": "x"}),
    (d.Schema, {"fields": [{"id": 0, "name": "a", "type": "INT"}], "partitionKeys": [],
                "primaryKeys": ["a"], "options": {"bucket": "1"}}),
    (d.Move, {"fieldName": "a", "referenceFieldName": "b", "type": "AFTER"}),
    (d.SchemaChange, {"action": "dropColumn", "fieldNames": ["a"]}),
    (d.SchemaChange, {"action": "setOption", "key": "a", "value": "b"}),
    (d.Instant, {"type": "snapshot", "snapshotId": 3}),
    (d.Instant, {"type": "tag", "tagName": "a"}),
    (d.ViewChange, {"action": "setOption", "key": "a", "value": "b"}),
    (d.PartitionStatistics, {"spec": {"p": "1"}, "recordCount": -1, "fileSizeInBytes": 2,
                             "fileCount": 1, "lastFileCreationTime": 3, "totalBuckets": 1}),
    (d.Identifier, {"database": "a", "object": "b"}),
    (d.TokenResponse, {"token": {"a": "b"}, "expiresAtMillis": 2**62}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "written"), _WRITTEN)
def test_documents_round_trip(kind, written):
    assert d.write_document(d.read_document(kind, written)) == written


@pytest.mark.parametrize("kind", dict.fromkeys(kind for kind, _ in _WRITTEN[4:]))
def test_invalid_documents_are_refused(kind):
    for other in (None, 3, "a", [], [{}]):
        with pytest.raises(PaimonError):
            d.read_document(kind, other)


_FIELDS = {"fields": [{"id": 0, "name": "a", "type": "INT NOT NULL"}]}
_SCHEMA = {
    **_FIELDS,
    "partitionKeys": [],
    "primaryKeys": ["a"],
    "options": {"bucket": "1"},
    "comment": "c",
}
_VIEW = {
    **_FIELDS,
    "query": "SELECT 1",
    "dialects": {"spark": "SELECT 2"},
    "comment": "c",
    "options": {"k": "v"},
}
_SNAPSHOT = {**SNAPSHOT, "totalRecordCount": 1, "deltaRecordCount": -1}
_MOVE = {"fieldName": "c", "referenceFieldName": "b", "type": "AFTER"}
_METADATA_PAGE = {
    "Identifier": (d.Identifier, {"database": "sales", "object": "orders"}),
    "GetTableResponse": (
        d.TableResponse,
        {
            "id": "u",
            "name": "t",
            "database": "sales",
            "path": "p",
            "isExternal": False,
            "schemaId": 1,
            "schema": _SCHEMA,
            "owner": "o",
            "createdAt": 1,
            "createdBy": "a",
            "updatedAt": 2,
            "updatedBy": "b",
        },
    ),
    "GetViewResponse": (
        d.ViewResponse,
        {
            "id": "u",
            "name": "v",
            "schema": _VIEW,
            "owner": "o",
            "createdAt": 1,
            "createdBy": "a",
            "updatedAt": 2,
            "updatedBy": "b",
        },
    ),
    "Schema": (d.Schema, _SCHEMA),
    "DataField": (d.DataField, {"id": 0, "name": "a", "type": "INT", "description": "x"}),
    "DataType": (d.DataType, "DECIMAL(10, 2) NOT NULL"),
    "ArrayType": (d.DataType, {"type": "ARRAY", "element": "INT"}),
    "MultisetType": (d.DataType, {"type": "MULTISET", "element": "INT"}),
    "MapType": (d.DataType, {"type": "MAP", "key": "INT", "value": "STRING"}),
    "RowType": (d.DataType, {"type": "ROW", "fields": [{"id": 1, "name": "a", "type": "INT"}]}),
    "SchemaChange": (d.SchemaChange, {"action": "updateComment", "comment": None}),
    "SetOption": (d.SchemaChange, {"action": "setOption", "key": "k", "value": "v"}),
    "RemoveOption": (d.SchemaChange, {"action": "removeOption", "key": "k"}),
    "UpdateComment": (d.SchemaChange, {"action": "updateComment", "comment": "c"}),
    "AddColumn": (
        d.SchemaChange,
        {
            "action": "addColumn",
            "fieldNames": ["c"],
            "dataType": "INT",
            "comment": "cm",
            "move": _MOVE,
        },
    ),
    "RenameColumn": (
        d.SchemaChange,
        {"action": "renameColumn", "fieldNames": ["a"], "newName": "b"},
    ),
    "DropColumn": (d.SchemaChange, {"action": "dropColumn", "fieldNames": ["a"]}),
    "UpdateColumnType": (
        d.SchemaChange,
        {
            "action": "updateColumnType",
            "fieldNames": ["a"],
            "newDataType": "BIGINT",
            "keepNullability": True,
        },
    ),
    "UpdateColumnNullability": (
        d.SchemaChange,
        {"action": "updateColumnNullability", "fieldNames": ["a"], "newNullability": False},
    ),
    "UpdateColumnComment": (
        d.SchemaChange,
        {"action": "updateColumnComment", "fieldNames": ["a"], "newComment": "x"},
    ),
    "UpdateColumnPosition": (d.SchemaChange, {"action": "updateColumnPosition", "move": _MOVE}),
    "Move": (d.Move, _MOVE),
    "Instant": (d.Instant, {"type": "snapshot", "snapshotId": 2**62}),
    "SnapshotInstant": (d.SnapshotInstant, {"type": "snapshot", "snapshotId": 5}),
    "TagInstant": (d.TagInstant, {"type": "tag", "tagName": "t1"}),
    "Snapshot": (d.Snapshot, _SNAPSHOT),
    "TableSnapshot": (
        d.TableSnapshot,
        {
            "snapshot": _SNAPSHOT,
            "recordCount": 1,
            "fileSizeInBytes": 2,
            "fileCount": 3,
            "lastFileCreationTime": 4,
        },
    ),
    "Partition": (
        d.Partition,
        {
            "spec": {"p": "1"},
            "recordCount": 1,
            "fileSizeInBytes": 2,
            "fileCount": 1,
            "lastFileCreationTime": 3,
            "totalBuckets": 1,
            "done": True,
        },
    ),
    "ViewSchema": (d.ViewSchema, _VIEW),
}
"""The structures of Data Lake Formation's page of metadata: class and document."""


@pytest.mark.parametrize("name", _METADATA_PAGE)
def test_structures_of_metadata_page_are_read_and_written(name):
    kind, document = _METADATA_PAGE[name]
    value = d.read_document(kind, json.loads(json.dumps(document)))
    assert d.write_document(value) == document
    assert d.read_document(kind, d.write_document(value)) == value


def test_page_lists_structures_with_their_classes():
    page = Path(__file__).parents[2].joinpath("docs", "rest-client.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.partition("## Documents")[2].partition("\n## ")[0].splitlines()
        if line.startswith("| `")
    ]
    listed = {
        name.strip("` "): kind.strip("`") for names, kind in rows for name in names.split(",")
    }
    public = {name: getattr(d, kind) for name, kind in listed.items()}
    assert public == {name: kind for name, (kind, _) in _METADATA_PAGE.items()}
    assert len(public) == 29
