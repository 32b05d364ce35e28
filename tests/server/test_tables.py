"""Databases, tables, views and functions: creation, changes, lists, drops; paths of tables."""

import json

import pytest

from paimon_assets import AlreadyExistsError, Schema
from tests.testkit.rest_tables import FIELDS, created, ids_of, rename_body, table_body, write

TABLES = "databases/db/tables"


def test_created_table_is_shown(client, catalog, name):
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
    assert client.post(TABLES, table_body(name)).error == (409, "TABLE", name)


def test_table_made_on_file_system_gets_stable_id(client, catalog, name):
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
def test_invalid_id_is_404(client, table_id):
    assert client.get(f"tables/id/{table_id}").status == 404


def test_missing_resource_is_404_by_its_kind(client):
    assert client.get(f"{TABLES}/no").error == (404, "TABLE", "no")
    assert client.get("databases/no/tables/no").error == (404, "DATABASE", "no")
    assert client.get("databases/no/tables").error == (404, "DATABASE", "no")
    assert client.delete(f"{TABLES}/no").error == (404, "TABLE", "no")
    made = client.post("databases/no/tables", table_body("t", "no"))
    assert made.error == (404, "DATABASE", "no")


def test_branch_is_table_and_system_table_is_not(client, name):
    created(client, name)
    client.post(f"{TABLES}/{name}/branches", {"branch": "b"})
    found = client.get(f"{TABLES}/{name}%24branch_b").json
    assert found["name"] == f"{name}$branch_b"
    assert "branch" not in found["schema"]["options"]
    assert client.get(f"{TABLES}/{name}%24branch_c").error == (404, "BRANCH", "c")
    assert client.get(f"{TABLES}/{name}%24files").error[:2] == (404, "TABLE")


def test_schema_changes_are_atomic(client, catalog, name):
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


def test_rename_keeps_id(client, catalog, name):
    found = created(client, name)
    catalog.create_database(f"{name}_db")
    body = rename_body(f"db.{name}", f"{name}_db.new")
    assert client.post("tables/rename", body).status == 200
    assert client.get(f"databases/{name}_db/tables/new").json["id"] == found["id"]
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


def test_tables_of_all_databases_are_listed_once_in_pages(client, catalog):
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


def test_tables_are_listed_by_type(client, name):
    created(client, name)
    details = client.get("databases/db/table-details?tableType=format-table&maxResults=1000").json
    assert details["tableDetails"] == []
    found = client.get("databases/db/tables?tableType=table&maxResults=1000").json
    assert name in found["tables"]


def test_dropped_table_is_missing(client, catalog, name):
    created(client, name)
    write(catalog.get_table(f"db.{name}"), 1)
    assert client.delete(f"{TABLES}/{name}").status == 200
    assert not catalog.table_exists(f"db.{name}")


def test_database_is_dropped_with_its_tables(client, catalog, name):
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
def test_invalid_schema_is_400(client, name, schema):
    assert client.post(TABLES, table_body(name, **schema)).error == (400, None, None)
    assert client.get(f"{TABLES}/{name}").status == 404


def test_body_must_name_database_of_path(client, name):
    assert client.post("databases/db/tables", table_body(name, "other")).status == 400


class TestOutside:
    """Tables outside the warehouse."""

    def test_external_table_is_created_renamed_dropped_and_registered(
        self, client, catalog, name, outside
    ):
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
        rename = rename_body(f"db.{name}", f"db.{name}_2")
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

    def test_options_with_paths_cannot_be_set_later(self, client, name, tmp_path):
        created(client, name)
        for key in ("path", "data-file.external-paths"):
            change = {"action": "setOption", "key": key, "value": str(tmp_path)}
            assert client.post(f"{TABLES}/{name}", {"changes": [change]}).status == 400

    def test_folder_without_table_is_refused(self, client, name, outside):
        body = {"identifier": {"database": "db", "object": name}, "path": str(outside / "empty")}
        assert client.post("databases/db/register", body).status == 400

    def test_unfinished_creation_blocks_no_name(self, client, name, outside, catalog):
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


def test_orphan_cleaning_keeps_files_of_server(client, catalog, name):
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


def test_configuration_names_prefix(client):
    assert client.get("/v1/config?warehouse=any").json == {
        "defaults": {"s3.endpoint": "http://e"},
        "overrides": {"prefix": "paimon", "drop-database.cascade-parameter": "true"},
    }


def test_health_and_counts(client):
    assert client.get("/healthz").json == {"status": "ok"}
    client.get("databases")
    text = client.get("/metrics").body.decode()
    assert 'paimon_request_seconds_count{operation="listDatabases",status="200"}' in text


def test_database_is_created_altered_and_dropped(client, catalog, name):
    made = client.post("databases", {"name": name, "options": {"a": "1", "b": "2"}})
    assert (made.status, made.body) == (200, b"")
    assert name in catalog.list_databases()
    found = client.get(f"databases/{name}").json
    assert (found["name"], found["options"]) == (name, {"a": "1", "b": "2"})
    assert found["id"]
    assert found["location"].endswith(f"/{name}.db")
    assert found["createdBy"] == found["owner"] == found["updatedBy"] == "anonymous"
    again = client.post("databases", {"name": name, "options": {}})
    assert again.error == (409, "DATABASE", name)
    change = {"removals": ["a", "x"], "updates": {"c": "3"}}
    altered = client.post(f"databases/{name}", change).json
    assert altered == {"removed": ["a"], "updated": ["c"], "missing": ["x"]}
    assert client.get(f"databases/{name}").json["options"] == {"b": "2", "c": "3"}
    assert client.delete(f"databases/{name}").status == 200
    assert name not in catalog.list_databases()
    assert client.get(f"databases/{name}").error == (404, "DATABASE", name)


def test_only_empty_database_is_dropped_on_request(client, catalog, name):
    catalog.create_database(name)
    catalog.create_table(f"{name}.t", Schema.of({"a": "INT"}))
    refused = client.delete(f"databases/{name}?cascade=false")
    assert (refused.status, "'t'" in refused.json["message"]) == (400, True)
    catalog.drop_table(f"{name}.t")
    catalog.views.create(f"{name}.v", "SELECT 1 AS a", {"a": "INT"})
    assert client.delete(f"databases/{name}?cascade=false").status == 400
    catalog.views.drop(f"{name}.v")
    assert client.delete(f"databases/{name}?cascade=false").status == 200
    assert name not in catalog.list_databases()


def test_database_made_on_file_system_gets_id(client, catalog, name):
    catalog.create_database(name)
    found = client.get(f"databases/{name}").json
    assert (found["options"], found["id"]) == ({}, None)
    assert client.post("databases", {"name": name}).error == (409, "DATABASE", name)
    assert client.post(f"databases/{name}", {"removals": [], "updates": {"a": "1"}}).status == 200
    found = client.get(f"databases/{name}").json
    assert found["id"]
    assert client.get(f"databases/{name}").json["id"] == found["id"]
    catalog.drop_database(name)
    catalog.create_database(name)
    assert client.get(f"databases/{name}").json["id"] != found["id"]


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"\xff", b'{"name":1e999}', b'{"name":null}', b"[" * 100_000]
)
def test_malformed_bodies_are_400(client, body):
    assert client.post("databases", body).error == (400, None, None)


@pytest.mark.parametrize("name", ["", " ", "a/b", "..", "a.b", "a\0b", "sys", "a\nb", ".x"])
def test_invalid_names_are_400(client, name):
    assert client.post("databases", {"name": name}).status == 400


def test_database_takes_no_location(client, name):
    chosen = {"name": name, "options": {"location": "/elsewhere"}}
    assert client.post("databases", chosen).status == 400
    assert client.get(f"databases/{name}").status == 404


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/other/databases", "nothing", "databases/"])
def test_unknown_path_is_404_with_body(client, path):
    assert client.get(path).error == (404, None, None)


def test_wrong_method_is_405(client):
    assert client.ask("PUT", "databases").error == (405, None, None)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_unserved_operation_is_501(client, method):
    path = {"GET": "databases/db/tables/t/token", "POST": "databases/db/tables/t/auth"}[method]
    answer = client.ask(method, path)
    assert answer.status == 501
    assert "does not serve" in answer.json["message"]


def test_databases_are_listed_in_pages(client, catalog):
    names = [f"page{n}" for n in range(5)]
    for each in names:
        catalog.create_database(each, ignore_if_exists=True)
    query, seen, token = "databases?databaseNamePattern=page%25&maxResults=2", [], ""
    for _ in range(3):
        answer = client.get(query + (f"&pageToken={token}" if token else "")).json
        seen += answer["databases"]
        token = answer["nextPageToken"]
    assert (seen, token) == (names, None)


@pytest.mark.parametrize(
    "query", ["maxResults=-1", "maxResults=x", "maxResults=1.5", "pageToken=%21",
              "databaseNamePattern=a%25b", "databaseNamePattern=a_b"],
)  # fmt: skip
def test_wrong_parameters_are_400(client, query):
    assert client.get(f"databases?{query}").status == 400


def test_zero_is_default(client):
    assert client.get("databases?maxResults=0").status == 200


VIEWS, FUNCTIONS = "databases/db/views", "databases/db/functions"
SCHEMA = {
    "fields": [{"id": 0, "name": "id", "type": "INT"}],
    "query": "select 1",
    "dialects": {"spark": "select 2"},
    "comment": "c",
    "options": {"a": "b"},
}


def view_body(name, database="db", **schema):
    return {"identifier": {"database": database, "object": name}, "schema": {**SCHEMA, **schema}}


def change_view(client, name, *changes):
    return client.post(f"{VIEWS}/{name}", {"changes": list(changes)})


def test_created_view_is_shown(client, name):
    assert client.post(VIEWS, view_body(name)).status == 200
    found = client.get(f"{VIEWS}/{name}").json
    assert (found["name"], found["schema"]) == (name, SCHEMA)
    assert found["id"]
    assert found["createdAt"] == found["updatedAt"] > 0
    assert found["owner"] == found["createdBy"] == found["updatedBy"] == "anonymous"
    assert client.post(VIEWS, view_body(name)).error == (409, "VIEW", name)
    assert client.get(f"{VIEWS}/{name}_2").error == (404, "VIEW", f"{name}_2")
    assert client.get("databases/no/views/v").error == (404, "DATABASE", "no")


def test_changes_of_view_are_atomic(client, name):
    client.post(VIEWS, view_body(name))
    answer = change_view(
        client,
        name,
        {"action": "setOption", "key": "x", "value": "y"},
        {"action": "removeOption", "key": "a"},
        {"action": "updateComment", "comment": "other"},
        {"action": "addDialect", "dialect": "flink", "query": "select 3"},
        {"action": "updateDialect", "dialect": "spark", "query": "select 4"},
    )
    assert answer.status == 200
    expected = {
        **SCHEMA,
        "options": {"x": "y"},
        "comment": "other",
        "dialects": {"spark": "select 4", "flink": "select 3"},
    }
    assert client.get(f"{VIEWS}/{name}").json["schema"] == expected
    drop = {"action": "dropDialect", "dialect": "flink"}
    again = {"action": "addDialect", "dialect": "spark", "query": "x"}
    assert change_view(client, name, drop, again).error == (409, "DIALECT", "spark")
    missing = {"action": "updateDialect", "dialect": "trino", "query": "x"}
    assert change_view(client, name, drop, missing).error == (404, "DIALECT", "trino")
    assert change_view(client, name, {"action": "no"}).status == 400
    assert client.get(f"{VIEWS}/{name}").json["schema"] == expected


def test_view_and_table_share_no_name(client, catalog, name):
    created(client, name)
    assert client.post(VIEWS, view_body(name)).error == (409, "VIEW", name)
    client.post(VIEWS, view_body(f"{name}_v"))
    taken = client.post("databases/db/tables", table_body(f"{name}_v"))
    assert taken.error == (409, "TABLE", f"{name}_v")
    rename = rename_body(f"db.{name}_v", f"db.{name}")
    assert client.post("views/rename", rename).status == 409
    assert f"{name}_v" not in catalog.list_tables("db")


@pytest.mark.parametrize("kind", ["views", "functions"])
def test_lists_are_paged_by_pattern(client, catalog, name, kind):
    database = f"{name}_{kind}"
    catalog.create_database(database)
    for each in ("a", "ab", "b"):
        body = view_body(each, database) if kind == "views" else {"name": each}
        assert client.post(f"databases/{database}/{kind}", body).status == 200
    first = client.get(f"databases/{database}/{kind}?maxResults=2").json
    assert first[kind] == ["a", "ab"]
    token = first["nextPageToken"]
    rest = client.get(f"databases/{database}/{kind}?maxResults=2&pageToken={token}").json
    assert rest == {kind: ["b"], "nextPageToken": None}
    one = kind.removesuffix("s")
    found = client.get(f"databases/{database}/{kind}?{one}NamePattern=a%25").json
    assert found[kind] == ["a", "ab"]
    details = client.get(f"databases/{database}/{one}-details").json[f"{one}Details"]
    assert [each["name"] for each in details] == ["a", "ab", "b"]
    everywhere = client.get(f"{kind}?{one}NamePattern=ab").json[kind]
    assert {"database": database, "object": "ab"} in everywhere


def test_rename_to_another_database_keeps_id(client, catalog, name):
    catalog.create_database(f"{name}_db")
    client.post(VIEWS, view_body(name))
    known = client.get(f"{VIEWS}/{name}").json["id"]
    rename = rename_body(f"db.{name}", f"{name}_db.w")
    assert client.post("views/rename", rename).status == 200
    assert client.get(f"databases/{name}_db/views/w").json["id"] == known
    assert client.delete(f"databases/{name}_db/views/w").status == 200
    assert client.delete(f"databases/{name}_db/views/w").error == (404, "VIEW", "w")


@pytest.mark.parametrize(
    "body",
    [{}, {"identifier": {"database": "db", "object": "a/b"}, "schema": SCHEMA},
     {"identifier": {"database": "db", "object": "v"}},
     {"identifier": {"database": "db", "object": "v"}, "schema": {"fields": []}},
     {"identifier": {"database": "db", "object": "v$x"}, "schema": SCHEMA}],
)  # fmt: skip
def test_invalid_view_is_400(client, body):
    assert client.post(VIEWS, body).status == 400


def test_function_is_created_altered_and_dropped(client, name):
    body = {
        "name": name,
        "inputParams": SCHEMA["fields"],
        "returnParams": SCHEMA["fields"],
        "deterministic": True,
        "definitions": {"spark": {"type": "sql", "definition": "id + 1"}},
        "comment": "c",
        "options": {},
    }
    assert client.post(FUNCTIONS, body).status == 200
    found = client.get(f"{FUNCTIONS}/{name}").json
    assert {key: found[key] for key in body} == body
    assert client.post(FUNCTIONS, body).error == (409, "FUNCTION", name)
    lambda_ = {"type": "lambda", "definition": "x -> x", "language": "java"}
    change = {"action": "addDefinition", "name": "java", "definition": lambda_}
    path = f"{FUNCTIONS}/{name}"
    assert client.post(path, {"changes": [change]}).status == 200
    assert client.get(path).json["definitions"]["java"] == lambda_
    assert client.post(path, {"changes": [change]}).error == (409, "DEFINITION", "java")
    drop = {"action": "dropDefinition", "name": "no"}
    assert client.post(path, {"changes": [drop]}).error == (404, "DEFINITION", "no")
    assert client.post(path, {"changes": [{"action": "fly"}]}).status == 400
    assert client.delete(path).status == 200
    assert client.get(path).error == (404, "FUNCTION", name)
    assert client.post(FUNCTIONS, {"name": "12"}).status == 400


def test_views_of_file_system_and_of_server_are_same(client, catalog, name):
    catalog.views.create(f"db.{name}", "SELECT 1", {"a": "INT"}, dialects={"spark": "SELECT 2"})
    assert client.get(f"{VIEWS}/{name}").json["schema"]["dialects"] == {"spark": "SELECT 2"}
    change_view(client, name, {"action": "updateComment", "comment": "by the server"})
    assert catalog.views.get(f"db.{name}").comment == "by the server"
    catalog.views.drop(f"db.{name}")
    assert client.get(f"{VIEWS}/{name}").status == 404
    created(client, f"{name}_t")
    with pytest.raises(AlreadyExistsError):
        catalog.views.create(f"db.{name}_t", "SELECT 1", {"a": "INT"})


def test_no_table_is_stored_with_branch(client, name):
    """It would be listed, and neither be read nor dropped: its first schema is on no branch."""
    answer = client.post("databases/db/tables", table_body(name, options={"branch": "b"}))
    assert (answer.status, "table$branch_NAME" in answer.json["message"]) == (400, True)
    assert client.get(f"databases/db/tables/{name}").status == 404
    created(client, name)
    change = {"action": "setOption", "key": "branch", "value": "b"}
    assert client.post(f"databases/db/tables/{name}", {"changes": [change]}).status == 400
    assert client.delete(f"databases/db/tables/{name}").status == 200
