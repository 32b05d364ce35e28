"""Configuration, databases, and what is no operation at all."""

import pytest

from paimon_assets.engine.spec.schema.schema import Schema


def test_the_configuration_names_the_prefix(client):
    assert client.get("/v1/config?warehouse=any").json == {
        "defaults": {"s3.endpoint": "http://e"},
        "overrides": {"prefix": "paimon", "drop-database.cascade-parameter": "true"},
    }


def test_health_and_counts(client):
    assert client.get("/healthz").json == {"status": "ok"}
    client.get("databases")
    text = client.get("/metrics").body.decode()
    assert 'paimon_requests_total{operation="listDatabases",status="200"}' in text


def test_a_database_is_made_with_properties_changed_and_dropped(client, catalog, name):
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


def test_only_an_empty_database_goes_if_the_client_says_so(client, catalog, name):
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


def test_a_database_of_the_file_system_is_one_too(client, catalog, name):
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
def test_names_that_are_none_are_400(client, name):
    assert client.post("databases", {"name": name}).status == 400


def test_a_location_cannot_be_chosen(client, name):
    chosen = {"name": name, "options": {"location": "/elsewhere"}}
    assert client.post("databases", chosen).status == 400
    assert client.get(f"databases/{name}").status == 404


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/other/databases", "nothing", "databases/"])
def test_an_unknown_path_is_404_with_a_body(client, path):
    assert client.get(path).error == (404, None, None)


def test_a_wrong_method_is_405(client):
    assert client.ask("PUT", "databases").error == (405, None, None)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_is_not_served_says_so(client, method):
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


def test_zero_is_the_default(client):
    assert client.get("databases?maxResults=0").status == 200
