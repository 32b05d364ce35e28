"""Commits, rollbacks, snapshots, tags and branches over REST."""

import json

import pytest
from msgspec.structs import replace

from paimon_assets.engine.codec.json.metadata_json import snapshot_to_json
from paimon_assets.engine.table.api import open_catalog
from paimon_assets.server.serve import ServeSettings
from tests.testkit import rest_tables as kit
from tests.testkit.rest_server import serving

TABLES = "databases/db/tables"


def post_commit(client, table, snapshot, **more):
    return client.post(f"{TABLES}/{table['name']}/commit", kit.commit_body(table, snapshot, **more))


def test_writer_commits_and_reads(client, name):
    table, _ = kit.open_posted(client, kit.created(client, name))
    kit.write(table, 1, 2)
    kit.write(table, 3)
    assert kit.ids_of(table) == [1, 2, 3]
    found = client.get(f"{TABLES}/{name}/snapshot").json["snapshot"]
    assert found["snapshot"]["id"] == 2
    assert (found["recordCount"], found["fileCount"]) == (3, 2)
    sizes = sum(entry.file.file_size for entry in table.state.live_files())
    assert found["fileSizeInBytes"] == sizes
    assert found["lastFileCreationTime"] > 0


def test_same_snapshot_again_is_true_and_another_false(client, name):
    table = kit.created(client, name)
    snapshot = kit.prepared(table, 1)
    for _ in range(2):
        assert post_commit(client, table, snapshot, baseSnapshotUuid=None).json == {"success": True}
    other = replace(kit.prepared(table, 2), id=1)
    assert post_commit(client, table, other, baseSnapshotUuid=None).json == {"success": False}
    ahead = replace(kit.prepared(table, 2), id=3)
    assert post_commit(client, table, ahead, baseSnapshotUuid=None).json == {"success": False}
    without = replace(kit.prepared(table, 2), uuid=None)
    base = snapshot.uuid
    for _ in range(2):
        answer = post_commit(client, table, without, baseSnapshotUuid=base)
        assert answer.json == {"success": True}


@pytest.mark.parametrize("has_uuid", [True, False])
@pytest.mark.parametrize("base", ["right", "wrong", "null", "absent"])
def test_base_is_compared_if_it_is_sent(client, name, has_uuid, base):
    table = kit.created(client, name)
    first = kit.prepared(table, 1)
    if not has_uuid:
        first = replace(first, uuid=None)
    assert post_commit(client, table, first).json == {"success": True}
    given = {
        "right": {"baseSnapshotUuid": first.uuid},
        "wrong": {"baseSnapshotUuid": "other"},
        "null": {"baseSnapshotUuid": None},
        "absent": {},
    }[base]
    answer = post_commit(client, table, kit.prepared(table, 2), **given)
    expected = base in ("right", "absent") or (base == "null" and not has_uuid)
    assert answer.json == {"success": expected}


def test_recreated_table_is_another(client, name):
    table = kit.created(client, name)
    client.delete(f"{TABLES}/{name}")
    again = kit.created(client, name)
    assert post_commit(client, table, kit.prepared(again, 1)).error == (404, "TABLE", name)
    assert post_commit(client, {**again, "id": None}, kit.prepared(again, 1)).status == 404


@pytest.mark.parametrize(
    "damage",
    [
        {"schemaId": 7},
        {"baseManifestList": "no"},
        {"deltaManifestList": "../schema/schema-0"},
        {"deltaManifestList": "/etc/passwd"},
        {"deltaManifestListSize": 1},
        {"indexManifest": "no"},
        {"statistics": "no"},
        {"commitKind": "NO"},
        {"id": "x"},
        {"id": None},
        {"version": 99},
    ],
)
def test_missing_member_is_400_and_changes_nothing(client, name, damage):
    table = kit.created(client, name)
    snapshot = kit.prepared(table, 1)
    body = kit.commit_body(table, snapshot, baseSnapshotUuid=None)
    answer = client.post(
        f"{TABLES}/{name}/commit", {**body, "snapshot": {**body["snapshot"], **damage}}
    )
    assert answer.status == 400, answer.body
    assert client.get(f"{TABLES}/{name}/snapshot").error == (404, "SNAPSHOT", "LATEST")
    assert post_commit(client, table, snapshot).json == {"success": True}


def test_members_this_engine_does_not_know_are_kept(client, name):
    table = kit.created(client, name)
    body = kit.commit_body(table, kit.prepared(table, 1))
    body["snapshot"]["writerVersion"] = "9.9"
    assert client.post(f"{TABLES}/{name}/commit", body).json == {"success": True}
    assert client.get(f"{TABLES}/{name}/snapshots/1").json["snapshot"] == body["snapshot"]


def test_branch_has_commits_of_its_own(client, name):
    table = kit.created(client, name)
    kit.write(kit.open_posted(client, table)[0], 1)
    client.post(f"{TABLES}/{name}/tags", {"tagName": "t"})
    client.post(f"{TABLES}/{name}/branches", {"branch": "b", "fromTag": "t"})
    snapshot = kit.prepared(table, 2, branch="b")
    branch = f"{TABLES}/{name}%24branch_b"
    base = client.get(f"{branch}/snapshot").json["snapshot"]["snapshot"]["uuid"]
    body = kit.commit_body(table, snapshot, baseSnapshotUuid=base)
    assert client.post(f"{branch}/commit", body).json == {"success": True}
    assert client.get(f"{branch}/snapshot").json["snapshot"]["snapshot"]["id"] == 2
    assert client.get(f"{TABLES}/{name}/snapshot").json["snapshot"]["snapshot"]["id"] == 1


def test_snapshots_are_listed_newest_first_and_found_by_version(client, name):
    table, _ = kit.open_posted(client, kit.created(client, name))
    for number in range(5):
        kit.write(table, number)
    client.post(f"{TABLES}/{name}/tags", {"tagName": "third", "snapshotId": 3})
    page = client.get(f"{TABLES}/{name}/snapshots?maxResults=3").json
    assert [each["id"] for each in page["snapshots"]] == [5, 4, 3]
    token = page["nextPageToken"]
    page = client.get(f"{TABLES}/{name}/snapshots?maxResults=3&pageToken={token}").json
    assert [each["id"] for each in page["snapshots"]] == [2, 1]
    assert page["nextPageToken"] is None
    for version, expected in {"EARLIEST": 1, "LATEST": 5, "4": 4, "third": 3}.items():
        answer = client.get(f"{TABLES}/{name}/snapshots/{version}")
        assert answer.json["snapshot"]["id"] == expected
    assert client.get(f"{TABLES}/{name}/snapshots/9").error == (404, "SNAPSHOT", "9")
    assert client.get(f"{TABLES}/{name}/snapshots/no").error == (404, "SNAPSHOT", "no")


def test_table_without_snapshots_has_none(client, name):
    kit.created(client, name)
    assert client.get(f"{TABLES}/{name}/snapshot").error == (404, "SNAPSHOT", "LATEST")
    assert client.get(f"{TABLES}/{name}/snapshots").json == {"snapshots": [], "nextPageToken": None}
    assert client.get(f"{TABLES}/{name}/snapshots/EARLIEST").status == 404


def test_rollback_undoes_later_snapshots(client, name):
    table, _ = kit.open_posted(client, kit.created(client, name))
    for number in range(4):
        kit.write(table, number)
    client.post(f"{TABLES}/{name}/tags", {"tagName": "second", "snapshotId": 2})
    path = f"{TABLES}/{name}/rollback"
    late = {"instant": {"type": "snapshot", "snapshotId": 3}, "fromSnapshot": 3}
    assert client.post(path, late).error == (409, "SNAPSHOT", "3")
    assert client.post(path, {**late, "fromSnapshot": 4}).status == 200
    assert kit.ids_of(table) == [0, 1, 2]
    assert client.post(path, {"instant": {"type": "tag", "tagName": "second"}}).status == 200
    assert kit.ids_of(table) == [0, 1]
    missing = {"instant": {"type": "snapshot", "snapshotId": 9}}
    assert client.post(path, missing).error == (404, "SNAPSHOT", "9")
    missing = {"instant": {"type": "tag", "tagName": "no"}}
    assert client.post(path, missing).error == (404, "TAG", "no")


def test_commit_on_undone_base_is_lost(client, name):
    made = kit.created(client, name)
    table, _ = kit.open_posted(client, made)
    kit.write(table, 1)
    second = kit.write(table, 2)
    third = kit.prepared(made, 3)  # on the second
    client.post(f"{TABLES}/{name}/rollback", {"instant": {"snapshotId": 1}})
    kit.write(table, 20)
    assert third.id == 3
    answer = post_commit(client, made, third, baseSnapshotUuid=second.uuid)
    assert answer.json == {"success": False}
    assert kit.ids_of(table) == [1, 20]


def test_schema_is_rolled_back_unless_it_is_needed(client, name):
    made = kit.created(client, name)
    add = {"action": "addColumn", "fieldNames": ["c"], "dataType": "INT"}
    client.post(f"{TABLES}/{name}", {"changes": [add]})
    path = f"{TABLES}/{name}/rollback-schema"
    assert client.post(path, {"schemaId": 5}).status == 404
    assert client.post(path, {"schemaId": 0}).status == 200
    assert client.get(f"{TABLES}/{name}").json["schemaId"] == 0
    client.post(f"{TABLES}/{name}", {"changes": [add]})
    assert open_catalog_rows(made) is not None
    assert client.post(path, {"schemaId": 0}).status == 400
    assert client.get(f"{TABLES}/{name}").json["schemaId"] == 1


def open_catalog_rows(made):
    """Write a row with the newest schema, by the file system."""
    from paimon_assets.engine.embedded import EmbeddedExecutor
    from paimon_assets.engine.table.api import open_table

    table = open_table(made["path"])
    with_column = kit.rows(1).append_column("c", [[7]])
    return table.new_write_builder().write(with_column, EmbeddedExecutor()).snapshot


def test_partitions_are_counted_from_manifests(client, name):
    table, _ = kit.open_posted(client, kit.created(client, name, partitionKeys=["text"]))
    kit.write(table, 1, 2)
    kit.write(table, 2)
    path = f"{TABLES}/{name}/partitions"
    found = client.get(path).json["partitions"]
    assert [(part["spec"], part["recordCount"], part["fileCount"]) for part in found] == [
        ({"text": "x1"}, 1, 1),
        ({"text": "x2"}, 2, 2),
    ]
    assert not any(part["done"] for part in found)
    client.post(f"{path}/mark", {"specs": [{"text": "x2"}]})
    fresh = {"partitionSpecs": [{"text": "a/b"}, {"text": "x1"}], "ignoreIfExists": True}
    assert client.post(path, fresh).json == {
        "created": [{"text": "a/b"}],
        "existed": [{"text": "x1"}],
    }
    assert client.post(path, {**fresh, "ignoreIfExists": False}).status == 409
    found = client.get(f"{path}?maxResults=2").json
    assert [(part["spec"]["text"], part["done"]) for part in found["partitions"]] == [
        ("a/b", False),
        ("x1", False),
    ]
    by_name = client.post(f"{path}/list-by-names", {"specs": [{"text": "x2"}, {"text": "no"}]})
    assert [part["done"] for part in by_name.json["partitions"]] == [True]
    drop = {"partitionSpecs": [{"text": "x2"}, {"text": "no"}], "ignoreIfNotExists": True}
    assert client.post(f"{path}/drop", drop).json == {
        "dropped": [{"text": "x2"}],
        "missing": [{"text": "no"}],
    }
    assert kit.ids_of(table) == [1]
    assert client.post(f"{path}/drop", {"partitionSpecs": [{"text": "no"}]}).status == 404
    assert client.post(f"{path}/mark", {"specs": [{"id": "1"}]}).status == 400
    pattern = client.get(f"{path}?partitionNamePattern=text%3Dx%25").json["partitions"]
    assert [part["spec"] for part in pattern] == [{"text": "x1"}]


def test_table_without_partition_keys_has_no_partitions(client, name):
    kit.created(client, name)
    assert client.get(f"{TABLES}/{name}/partitions").status == 501
    assert client.post(f"{TABLES}/{name}/partitions/list-by-filter", {"filter": "{}"}).status == 501


def test_tags_branches_and_consumers(client, name):
    table, _ = kit.open_posted(client, kit.created(client, name))
    path = f"{TABLES}/{name}"
    assert client.post(f"{path}/tags", {"tagName": "early"}).error == (404, "SNAPSHOT", None)
    kit.write(table, 1)
    assert client.post(f"{path}/tags", {"tagName": "a", "timeRetained": "1 d"}).status == 200
    assert client.post(f"{path}/tags", {"tagName": "b", "snapshotId": 1}).status == 200
    assert client.post(f"{path}/tags", {"tagName": "b"}).error == (409, "TAG", "b")
    assert client.post(f"{path}/tags", {"tagName": "b", "ignoreIfExists": True}).status == 200
    assert client.post(f"{path}/tags", {"tagName": "c", "snapshotId": 9}).status == 404
    assert client.post(f"{path}/tags", {"tagName": "c", "timeRetained": "long"}).status == 400
    assert client.post(f"{path}/tags", {"tagName": "a/b"}).status == 400
    assert client.get(f"{path}/tags?maxResults=1").json["tags"] == ["a"]
    assert client.get(f"{path}/tags?tagNamePrefix=b").json["tags"] == ["b"]
    found = client.get(f"{path}/tags/a").json
    assert (found["tagName"], found["tagTimeRetained"]) == ("a", "PT86400S")
    assert found["snapshot"]["id"] == 1
    assert client.delete(f"{path}/tags/a").status == 200
    assert client.delete(f"{path}/tags/a").error == (404, "TAG", "a")

    assert client.get(f"{path}/branches").json == {"branches": []}
    assert client.post(f"{path}/branches", {"branch": "x", "fromTag": "b"}).status == 200
    assert client.post(f"{path}/branches", {"branch": "x"}).error == (409, "BRANCH", "x")
    assert client.post(f"{path}/branches", {"branch": "y", "fromTag": "no"}).status == 404
    assert client.post(f"{path}/branches/x/rename", {"toBranch": "z"}).status == 200
    assert client.post(f"{path}/branches/x/rename", {"toBranch": "w"}).error[:2] == (404, "BRANCH")
    assert client.get(f"{path}/branches").json == {"branches": ["z"]}
    kit.write(table, 2)
    assert client.post(f"{path}/branches/z/forward", {}).status == 200
    assert kit.ids_of(table) == [1]
    assert client.delete(f"{path}/branches/z").status == 200
    assert client.delete(f"{path}/branches/z").error == (404, "BRANCH", "z")

    reset = f"{path}/consumers/reset"
    assert client.post(reset, {"consumerId": "c", "nextSnapshotId": 2}).status == 200
    found = client.get(f"{path}/consumers").json["consumers"]
    assert found == [{"consumerId": "c", "nextSnapshot": 2}]
    assert client.post(reset, {"consumerId": "c", "nextSnapshotId": None}).status == 200
    assert client.get(f"{path}/consumers").json["consumers"] == []
    assert client.post(reset, {"consumerId": "../x", "nextSnapshotId": 1}).status == 400


def test_server_that_only_reads_changes_nothing(served, client, name):
    catalog = open_catalog(served)
    kit.created(client, name)
    kit.write(catalog.get_table(f"db.{name}"), 1)
    with serving(ServeSettings(warehouse=served, insecure=True, read_only=True)) as reader:
        assert reader.get(f"{TABLES}/{name}/snapshot").status == 200
        assert reader.post(TABLES, kit.table_body(f"{name}_2")).status == 403
        assert reader.delete(f"{TABLES}/{name}").status == 403
        from paimon_assets.engine.spec.schema.schema import Schema

        catalog.create_table(f"db.{name}_3", Schema.of({"id": "INT"}))
        assert reader.get(f"{TABLES}/{name}_3").json["id"] is None
    assert client.get(f"{TABLES}/{name}_3").json["id"] is not None


def test_stored_commit_is_sent_one(client, name):
    table = kit.created(client, name)
    snapshot = kit.prepared(table, 1)
    post_commit(client, table, snapshot)
    found = client.get(f"{TABLES}/{name}/snapshots/1").json["snapshot"]
    assert found == json.loads(snapshot_to_json(snapshot))
