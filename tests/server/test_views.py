"""Views and functions: stored, changed, listed, renamed; and what they must not be called."""

import pytest

from paimon_assets.engine.errors import AlreadyExistsError
from tests.testkit.rest_tables import created, table_body

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


def changed(client, name, *changes):
    return client.post(f"{VIEWS}/{name}", {"changes": list(changes)})


def test_a_view_is_made_and_shown(client, name):
    assert client.post(VIEWS, view_body(name)).status == 200
    found = client.get(f"{VIEWS}/{name}").json
    assert (found["name"], found["schema"]) == (name, SCHEMA)
    assert found["id"]
    assert found["createdAt"] == found["updatedAt"] > 0
    assert found["owner"] == found["createdBy"] == found["updatedBy"] == "anonymous"
    assert client.post(VIEWS, view_body(name)).error == (409, "VIEW", name)
    assert client.get(f"{VIEWS}/{name}_2").error == (404, "VIEW", f"{name}_2")
    assert client.get("databases/no/views/v").error == (404, "DATABASE", "no")


def test_all_changes_of_a_view_are_made_or_none(client, name):
    client.post(VIEWS, view_body(name))
    answer = changed(
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
    assert changed(client, name, drop, again).error == (409, "DIALECT", "spark")
    missing = {"action": "updateDialect", "dialect": "trino", "query": "x"}
    assert changed(client, name, drop, missing).error == (404, "DIALECT", "trino")
    assert changed(client, name, {"action": "no"}).status == 400
    assert client.get(f"{VIEWS}/{name}").json["schema"] == expected


def test_a_view_and_a_table_share_no_name(client, catalog, name):
    created(client, name)
    assert client.post(VIEWS, view_body(name)).error == (409, "VIEW", name)
    client.post(VIEWS, view_body(f"{name}_v"))
    taken = client.post("databases/db/tables", table_body(f"{name}_v"))
    assert taken.error == (409, "TABLE", f"{name}_v")
    rename = {
        "source": {"database": "db", "object": f"{name}_v"},
        "destination": {"database": "db", "object": name},
    }
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


def test_a_rename_to_another_database_keeps_the_id(client, catalog, name):
    catalog.create_database(f"{name}_db")
    client.post(VIEWS, view_body(name))
    known = client.get(f"{VIEWS}/{name}").json["id"]
    rename = {
        "source": {"database": "db", "object": name},
        "destination": {"database": f"{name}_db", "object": "w"},
    }
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
def test_a_view_that_is_none_is_400(client, body):
    assert client.post(VIEWS, body).status == 400


def test_a_function_is_stored_changed_and_dropped(client, name):
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


def test_views_of_the_file_system_and_of_the_server_are_the_same(client, catalog, name):
    catalog.views.create(f"db.{name}", "SELECT 1", {"a": "INT"}, dialects={"spark": "SELECT 2"})
    found = client.get(f"{VIEWS}/{name}").json
    assert found["schema"]["dialects"] == {"spark": "SELECT 2"}
    changed(client, name, {"action": "updateComment", "comment": "by the server"})
    assert catalog.views.get(f"db.{name}").comment == "by the server"
    catalog.views.drop(f"db.{name}")
    assert client.get(f"{VIEWS}/{name}").status == 404
    created(client, f"{name}_t")
    with pytest.raises(AlreadyExistsError):
        catalog.views.create(f"db.{name}_t", "SELECT 1", {"a": "INT"})
