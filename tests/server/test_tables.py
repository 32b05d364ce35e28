"""Tables: made, shown, altered, renamed, listed, dropped; and where they may lie."""

import json

import pytest

from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit.rest_tables import FIELDS, created, ids_of, table_body, write

TABLES = "databases/db/tables"


def test_a_table_is_made_and_shown(client, catalog, name):
    found = created(client, name, primaryKeys=["id"], options={"bucket": "2"}, comment="c")
    assert found["isExternal"] is False
    assert (found["database"], found["name"], found["schemaId"]) == ("db", name, 0)
    assert found["path"].endswith(f"/db.db/{name}")
    assert found["schema"] == {
        "fields": FIELDS,
        "partitionKeys": [],
        "primaryKeys": ["id"],
        "options": {"bucket": "2"},
        "comment": "c",
    }
    assert found["owner"] == found["createdBy"] == found["updatedBy"] == "anonymous"
    assert found["createdAt"] == found["updatedAt"] > 0
    assert catalog.get_table(f"db.{name}").schema.comment == "c"
    again = client.post(TABLES, table_body(name))
    assert again.error == (409, "TABLE", name)


def test_a_table_of_the_file_system_gets_an_id_that_stays(client, catalog, name):
    catalog.create_table(f"db.{name}", Schema.of({"id": "INT"}))
    found = client.get(f"{TABLES}/{name}").json
    assert found["id"] == client.get(f"{TABLES}/{name}").json["id"]
    assert client.get(f"tables/id/{found['id']}").json["name"] == name
    catalog.rename_table(f"db.{name}", f"db.{name}_2")
    assert client.get(f"tables/id/{found['id']}").json["name"] == f"{name}_2"
    catalog.drop_table(f"db.{name}_2")
    catalog.create_table(f"db.{name}_2", Schema.of({"id": "INT"}))
    assert client.get(f"{TABLES}/{name}_2").json["id"] != found["id"]
    assert client.get(f"tables/id/{found['id']}").error == (404, "TABLE", found["id"])


@pytest.mark.parametrize("table_id", ["x", "..%2F..", "0" * 36])
def test_an_id_that_is_none_is_404(client, table_id):
    assert client.get(f"tables/id/{table_id}").status == 404


def test_what_is_not_there_is_404_by_its_kind(client):
    assert client.get(f"{TABLES}/no").error == (404, "TABLE", "no")
    assert client.get("databases/no/tables/no").error == (404, "DATABASE", "no")
    assert client.get("databases/no/tables").error == (404, "DATABASE", "no")
    assert client.delete(f"{TABLES}/no").error == (404, "TABLE", "no")
    made = client.post("databases/no/tables", table_body("t", "no"))
    assert made.error == (404, "DATABASE", "no")


def test_a_branch_is_a_table_and_a_system_table_is_none(client, name):
    created(client, name)
    client.post(f"{TABLES}/{name}/branches", {"branch": "b"})
    found = client.get(f"{TABLES}/{name}%24branch_b").json
    assert found["name"] == f"{name}$branch_b"
    assert "branch" not in found["schema"]["options"]
    missing = client.get(f"{TABLES}/{name}%24branch_c")
    assert missing.error == (404, "BRANCH", "c")
    assert client.get(f"{TABLES}/{name}%24files").error[:2] == (404, "TABLE")


def test_a_schema_is_changed_all_or_nothing(client, catalog, name):
    created(client, name)
    add = {"action": "addColumn", "fieldNames": ["c"], "dataType": "INT", "comment": None}
    option = {"action": "setOption", "key": "snapshot.num-retained.max", "value": "20"}
    answer = client.post(f"{TABLES}/{name}", {"changes": [add, option]})
    assert (answer.status, answer.body) == (200, b"")
    found = client.get(f"{TABLES}/{name}").json
    assert found["schemaId"] == 1
    assert found["updatedBy"] == "anonymous"
    assert [field["name"] for field in found["schema"]["fields"]] == ["id", "text", "c"]
    wrong = {"action": "dropColumn", "fieldNames": ["no"]}
    answer = client.post(f"{TABLES}/{name}", {"changes": [option, wrong]})
    assert answer.status in (400, 404)
    assert client.get(f"{TABLES}/{name}").json["schemaId"] == 1
    for changes in ([{"action": "no"}], [{}], "x", None):
        assert client.post(f"{TABLES}/{name}", {"changes": changes}).status in (200, 400)
    assert catalog.get_table(f"db.{name}").schema.id == 1


def test_a_rename_keeps_the_id(client, catalog, name):
    found = created(client, name)
    catalog.create_database(f"{name}_db")
    body = {
        "source": {"database": "db", "object": name},
        "destination": {"database": f"{name}_db", "object": "new"},
    }
    assert client.post("tables/rename", body).status == 200
    moved = client.get(f"databases/{name}_db/tables/new").json
    assert moved["id"] == found["id"]
    assert client.get(f"{TABLES}/{name}").status == 404
    assert client.get(f"tables/id/{found['id']}").json["database"] == f"{name}_db"
    assert client.post("tables/rename", body).error == (404, "TABLE", name)
    created(client, name)
    assert client.post("tables/rename", body).error == (409, "TABLE", "new")


def test_tables_are_listed_in_pages_by_pattern(client, catalog, name):
    database = f"{name}_db"
    catalog.create_database(database)
    for each in ("a", "ab", "b", "c"):
        catalog.create_table(f"{database}.{each}", Schema.of({"id": "INT"}))
    first = client.get(f"databases/{database}/tables?maxResults=3").json
    assert first["tables"] == ["a", "ab", "b"]
    token = first["nextPageToken"]
    rest = client.get(f"databases/{database}/tables?maxResults=3&pageToken={token}").json
    assert rest == {"tables": ["c"], "nextPageToken": None}
    found = client.get(f"databases/{database}/tables?tableNamePattern=a%25").json
    assert found["tables"] == ["a", "ab"]
    found = client.get(f"databases/{database}/tables?tableNamePattern=a").json
    assert found["tables"] == ["a"]
    details = client.get(f"databases/{database}/table-details?maxResults=1").json
    assert [table["name"] for table in details["tableDetails"]] == ["a"]
    everywhere = client.get(f"tables?databaseNamePattern={name[:4]}%25").status
    assert everywhere == 400  # a blank of LIKE in the middle
    found = client.get("tables?tableNamePattern=ab%25&maxResults=1").json["tables"]
    assert found == [{"database": database, "object": "ab"}]


def test_all_tables_everywhere_come_once_in_pages(client, catalog):
    expected = [
        {"database": database, "object": table}
        for database in catalog.list_databases()
        for table in catalog.list_tables(database)
    ]
    seen, token = [], ""
    while token is not None:
        page = client.get("tables?maxResults=2" + (f"&pageToken={token}" if token else "")).json
        seen += page["tables"]
        token = page["nextPageToken"]
    assert seen == expected


def test_tables_of_another_type_are_none(client, name):
    created(client, name)
    details = client.get("databases/db/table-details?tableType=format-table&maxResults=1000").json
    assert details["tableDetails"] == []
    found = client.get("databases/db/tables?tableType=table&maxResults=1000").json
    assert name in found["tables"]


def test_a_dropped_table_is_gone_with_its_files(client, catalog, name, served):
    created(client, name)
    write(catalog.get_table(f"db.{name}"), 1)
    assert client.delete(f"{TABLES}/{name}").status == 200
    assert not catalog.table_exists(f"db.{name}")


def test_a_database_is_dropped_with_its_tables(client, catalog, name):
    catalog.create_database(name)
    catalog.create_table(f"{name}.t", Schema.of({"id": "INT"}))
    assert client.delete(f"databases/{name}").status == 200
    assert name not in catalog.list_databases()


@pytest.mark.parametrize(
    "schema",
    [
        {"fields": [{"id": 0, "name": "a", "type": "NOTHING"}]},
        {"fields": [{"id": 0, "name": "a"}]},
        {"fields": "x"},
        {"primaryKeys": ["no"]},
        {"options": {"bucket": "many"}},
        {"options": {"merge-engine": "no"}},
    ],
)
def test_a_schema_that_is_none_is_400(client, name, schema):
    assert client.post(TABLES, table_body(name, **schema)).error == (400, None, None)
    assert client.get(f"{TABLES}/{name}").status == 404


def test_the_path_and_the_body_name_one_database(client, name):
    assert client.post("databases/db/tables", table_body(name, "other")).status == 400


class TestOutside:
    """Tables outside the warehouse."""

    def test_one_is_made_named_and_forgotten(self, client, catalog, name, outside):
        path = str(outside / name)
        found = created(client, name, options={"path": path})
        assert (found["isExternal"], found["path"]) == (True, path)
        assert "path" not in found["schema"]["options"]
        assert name in client.get("databases/db/tables?maxResults=1000").json["tables"]
        assert client.post(TABLES, table_body(name)).status == 409
        commit = client.post(
            f"{TABLES}/{name}/commit",
            {"tableId": found["id"], "snapshot": _any_snapshot(), "statistics": []},
        )
        assert commit.status == 501
        rename = {
            "source": {"database": "db", "object": name},
            "destination": {"database": "db", "object": f"{name}_2"},
        }
        assert client.post("tables/rename", rename).status == 200
        assert client.get(f"{TABLES}/{name}_2").json["id"] == found["id"]
        assert client.delete(f"{TABLES}/{name}_2").status == 200
        assert client.get(f"{TABLES}/{name}_2").status == 404
        assert (outside / name / "schema" / "schema-0").exists()
        body = {"identifier": {"database": "db", "object": name}, "path": path}
        assert client.post("databases/db/register", body).status == 200
        assert client.get(f"{TABLES}/{name}").json["id"] == found["id"]
        assert client.post("databases/db/register", body).error == (409, "TABLE", name)

    @pytest.mark.parametrize("where", ["elsewhere", "..", "link", "warehouse", "relative"])
    def test_foreign_paths_are_refused(
        self, client, catalog, name, outside, tmp_path, served, where
    ):
        catalog.create_table(f"db.{name}_victim", Schema.of({"id": "INT"}))
        victim = f"{served}/db.db/{name}_victim"
        (outside / "link").unlink(missing_ok=True)
        (outside / "link").symlink_to(f"{served}/db.db")
        path = {
            "elsewhere": str(tmp_path / "t"),
            "..": f"{outside}/../t",
            "link": f"{outside}/link/{name}_victim",
            "warehouse": victim,
            "relative": "t",
        }[where]
        register = {"identifier": {"database": "db", "object": name}, "path": path}
        for answer in (
            client.post("databases/db/register", register),
            client.post(TABLES, table_body(name, options={"path": path})),
            client.post(TABLES, table_body(name, options={"data-file.external-paths": path})),
        ):
            assert answer.status == 400, answer.body
            assert str(outside.name) not in answer.body.decode().replace(path, "")
        assert client.get(f"{TABLES}/{name}").status == 404

    def test_options_cannot_be_moved_there_later(self, client, name, tmp_path):
        created(client, name)
        for key in ("path", "data-file.external-paths"):
            change = {"action": "setOption", "key": key, "value": str(tmp_path)}
            assert client.post(f"{TABLES}/{name}", {"changes": [change]}).status == 400

    def test_a_folder_without_a_table_is_refused(self, client, name, outside):
        body = {"identifier": {"database": "db", "object": name}, "path": str(outside / "empty")}
        assert client.post("databases/db/register", body).status == 400

    def test_a_table_that_never_came_to_be_blocks_no_name(self, client, name, outside, catalog):
        path = str(outside / name)
        created(client, name, options={"path": path})
        (outside / name / "schema" / "schema-0").unlink()  # as if the server had died before it
        assert client.get(f"{TABLES}/{name}").status == 404
        assert client.post(TABLES, table_body(name, options={"path": path})).status == 200


def _any_snapshot():
    return json.loads(
        '{"version":3,"id":1,"schemaId":0,"baseManifestList":"a","deltaManifestList":"b",'
        '"commitUser":"u","commitIdentifier":1,"commitKind":"APPEND","timeMillis":1}'
    )


def test_files_of_the_server_are_none_of_a_tables(client, catalog, name):
    found = created(client, name)
    table = catalog.get_table(f"db.{name}")
    write(table, 1)
    client.post(f"{TABLES}/{name}", {"changes": [
        {"action": "setOption", "key": "snapshot.num-retained.max", "value": "20"}
    ]})  # fmt: skip
    from paimon_assets.engine.control.maintenance.orphan_files import clean_orphan_files

    class Later:
        def now_millis(self):
            return 4_000_000_000_000

    store = table._store
    cleaned = clean_orphan_files(store, older_than_ms=0, dry_run=False, clock=Later())
    assert cleaned.files == ()
    after = client.get(f"{TABLES}/{name}").json
    assert (after["id"], after["updatedBy"]) == (found["id"], "anonymous")
    assert ids_of(table) == [1]
