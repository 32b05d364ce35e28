"""Iceberg's REST catalog beside Paimon's: answers to its readers, and refused requests."""

import json
import logging
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest

from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import open_catalog
from paimon_assets.iceberg.rest.operations import ENDPOINTS
from paimon_assets.iceberg.rest.routes import ROUTES
from paimon_assets.iceberg.state import HINT_NAME
from paimon_assets.server.routes import Routes
from paimon_assets.server.serve import ServeSettings
from tests.iceberg.kit.served import (
    COLUMNS,
    DB,
    ICEBERG,
    IN_CATALOG,
    VENDED,
    error_of,
    make_tables,
    rows,
    token_of,
    written_settings,
)
from tests.testkit.rest_server import serving
from tests.testkit.rest_tables import rename_body
from tests.testkit.tables import new_catalog_in, new_table


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("iceberg"))
    make_tables(open_catalog(path))
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return written_settings(tmp_path_factory.mktemp("settings"))


@pytest.fixture(scope="module")
def guarded(warehouse, files):
    with serving(ServeSettings(warehouse=warehouse, **files)) as client:
        yield client


@pytest.fixture(scope="module")
def admin(guarded):
    return guarded.of(token_of("admin"))


def head(client, path, **headers):
    answer = client.ask("HEAD", path, headers=headers)
    assert answer.body == b""
    return answer.status


# Answers to readers


def test_config_names_all_served_endpoints(admin):
    config = admin.get("/iceberg/v1/config?warehouse=anything").json
    assert config["overrides"] == {}
    routes, dropped = Routes(ROUTES), "/{prefix}"
    for endpoint in ENDPOINTS:
        method, _, path = endpoint.partition(" ")
        route, _ = routes.find(method, f"/iceberg{path.replace(dropped, '')}")
        assert not route.changes
    assert sorted(config["endpoints"]) == sorted(ENDPOINTS)


def test_namespaces_are_databases(admin):
    listed = admin.get("/iceberg/v1/namespaces").json
    assert listed == {"namespaces": [["db"], ["hidden"]], "next-page-token": None}
    assert admin.get("/iceberg/v1/namespaces?parent=db").json["namespaces"] == []
    assert admin.get("/iceberg/v1/namespaces?parent=").json == listed
    loaded = admin.get(DB).json
    assert loaded["namespace"] == ["db"]
    assert loaded["properties"]["location"].endswith("/db.db")
    assert head(admin, DB) == 204
    for path in ("namespaces?parent=no", "namespaces/no", "namespaces/db%1Fpub_a", "namespaces/sys",
                 "namespaces?parent=db%1Fpub_a", "namespaces/no/tables"):  # fmt: skip
        assert error_of(admin.get(f"/iceberg/v1/{path}")) == (404, "NoSuchNamespaceException"), path
    assert head(admin, "/iceberg/v1/namespaces/no") == 404


def test_tables_are_those_with_iceberg_metadata(admin):
    names = [each["name"] for each in admin.get(f"{DB}/tables").json["identifiers"]]
    assert names == ["pub_a", "pub_new", "secret_a"]
    assert admin.get(f"{DB}/tables").json["identifiers"][0]["namespace"] == ["db"]


@pytest.mark.parametrize("damage", ["option", "schema"])
def test_one_damaged_table_hides_no_other(admin, warehouse, name, damage):
    open_catalog(warehouse).create_table(f"db.{name}", Schema.of(COLUMNS, options=ICEBERG))
    path = Path(warehouse, "db.db", name, "schema", "schema-0")
    text = path.read_text()
    path.write_text(text.replace("table-location", "no-place") if damage == "option" else "{")
    names = [each["name"] for each in admin.get(f"{DB}/tables").json["identifiers"]]
    assert names == ["pub_a", "pub_new", "secret_a"]
    assert admin.get(f"{DB}/tables/{name}").status in (400, 500)
    path.write_text(text)
    open_catalog(warehouse).drop_table(f"db.{name}")


def test_table_has_its_metadata_as_stored(admin, warehouse):
    loaded = admin.get(f"{DB}/tables/pub_a").json
    location = f"{warehouse}/db.db/pub_a/metadata/v1.metadata.json"
    assert loaded["metadata-location"] == location
    assert loaded["metadata"] == json.loads(Path(location).read_bytes())
    assert loaded["config"] == {}
    assert head(admin, f"{DB}/tables/pub_a") == 204


def test_new_commit_is_seen_by_next_request(admin, warehouse, name):
    table = open_catalog(warehouse).create_table(f"db.{name}", Schema.of(COLUMNS, options=ICEBERG))
    for number in (1, 2):
        table.append(rows(number))
        loaded = admin.get(f"{DB}/tables/{name}").json
        assert loaded["metadata"]["current-snapshot-id"] == number
        assert "paimon-assets.commits-behind" not in loaded["metadata"]["properties"]
    open_catalog(warehouse).drop_table(f"db.{name}")


def test_table_that_is_behind_is_marked(admin, warehouse, name):
    table = open_catalog(warehouse).create_table(f"db.{name}", Schema.of(COLUMNS, options=ICEBERG))
    table.append(rows(1))
    table.copy({"metadata.iceberg.storage": "disabled"}).append(rows(2))
    metadata = admin.get(f"{DB}/tables/{name}").json["metadata"]
    assert metadata["current-snapshot-id"] == 1
    assert metadata["properties"]["paimon-assets.commits-behind"] == "1"
    open_catalog(warehouse).drop_table(f"db.{name}")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("pub_plain", "Set its option 'metadata.iceberg.storage' = 'table-location'"),
        ("pub_new", "its next commit adds it"),
    ],
)
def test_table_without_metadata_names_way_out(admin, table, message):
    answer = admin.get(f"{DB}/tables/{table}")
    assert error_of(answer) == (404, "NoSuchIcebergTableException")
    assert message in answer.json["error"]["message"]
    assert head(admin, f"{DB}/tables/{table}") == 404


@pytest.mark.parametrize(
    "path",
    ["db/tables/nothing", "db%1Fpub_a/tables/snapshots", "db/tables/pub_a%24snapshots",
     "db/tables/pub_a%24branch_b", "sys/tables/tables"],
)  # fmt: skip
def test_other_names_are_no_tables(admin, path):
    """Spark asks for `db.t.snapshots` and takes the table's own metadata if there is no *table*."""
    answer = admin.get(f"/iceberg/v1/namespaces/{path}")
    assert error_of(answer) == (404, "NoSuchTableException")


def test_view_is_reported_as_view(admin):
    view = {"identifier": {"database": "db", "object": "pub_v"}, "schema": {"query": "1"}}
    assert admin.post("databases/db/views", view).status == 200
    answer = admin.get(f"{DB}/tables/pub_v")
    assert error_of(answer) == (404, "NoSuchTableException")
    assert "is a view" in answer.json["error"]["message"]
    assert error_of(admin.get(f"{DB}/views")) == (501, "UnsupportedOperationException")
    assert error_of(admin.get(f"{DB}/views/pub_v")) == (501, "UnsupportedOperationException")
    names = [each["name"] for each in admin.get(f"{DB}/tables").json["identifiers"]]
    assert "pub_v" not in names


def test_lists_have_pages_on_request(admin, warehouse):
    catalog = new_catalog_in(warehouse, "many")
    names = [f"t{number:02}" for number in range(40)]
    for name in names:
        catalog.create_table(f"many.{name}", Schema.of({"id": "INT"}, options=ICEBERG))
    path, key = "/iceberg/v1/namespaces/many/tables", "next-page-token"
    whole = admin.get(path).json
    assert ([each["name"] for each in whole["identifiers"]], whole[key]) == (names, None)
    for size, query in ((15, "pageSize=15"), (40, "pageToken="), (40, "pageSize=9" + "0" * 40)):
        found, page = [], admin.get(f"{path}?{query}").json
        assert len(page["identifiers"]) == size
        while True:
            found += [each["name"] for each in page["identifiers"]]
            if page[key] is None:
                break
            page = admin.get(f"{path}?pageSize=15&pageToken={quote(page[key])}").json
        assert found == names
    first = admin.get("/iceberg/v1/namespaces?pageSize=1").json
    assert first["namespaces"] == [["db"]]
    assert admin.get(f"/iceberg/v1/namespaces?pageToken={first[key]}").json["namespaces"] == [
        ["hidden"],
        ["many"],
    ]
    for query in ("pageSize=-1", "pageSize=x", "pageToken=%00", "pageToken=%C3%A4"):
        assert error_of(admin.get(f"{path}?{query}")) == (400, "BadRequestException")
    catalog.drop_database("many", cascade=True)


# Grants


def test_lists_hold_visible_names(guarded):
    for principal in ("analyst", "clerk", "lister"):
        client = guarded.of(token_of(principal))
        assert client.get("/iceberg/v1/namespaces").json["namespaces"] == [["db"]]
        names = [each["name"] for each in client.get(f"{DB}/tables").json["identifiers"]]
        assert names == ["pub_a", "pub_new"]
    blind = guarded.of(token_of("blind"))
    assert blind.get("/iceberg/v1/namespaces").json["namespaces"] == []
    assert error_of(blind.get(f"{DB}/tables")) == (403, "ForbiddenException")


@pytest.mark.parametrize("principal", ["analyst", "clerk", "lister", "stranger", "blind"])
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("HEAD", ""), ("GET", "/credentials"), ("POST", ""), ("DELETE", ""),
     ("POST", "/metrics"), ("POST", "/plan"), ("POST", "/tasks"), ("POST", "/sign"),
     ("POST", "/unregister")],
)  # fmt: skip
def test_existence_of_table_is_hidden(guarded, principal, method, path):
    asker = guarded.of(token_of(principal))
    answers = [
        asker.ask(method, f"/iceberg/v1/namespaces/{database}/tables/{table}{path}",
                  b"{}" if method == "POST" else None, VENDED)
        for database, table in (("db", "secret_a"), ("db", "secret_b"), ("no", "secret_a"))
    ]  # fmt: skip
    shown = {
        (a.status, a.body.decode().replace("secret_b", "secret_a"), tuple(sorted(a.headers)))
        for a in answers
    }
    assert len(shown) == 1
    assert answers[0].status == 403


@pytest.mark.parametrize("principal", ["blind", "stranger"])
def test_existence_of_database_is_hidden(guarded, principal):
    asker = guarded.of(token_of(principal))
    for method, path in (
        *(("GET", ""), ("HEAD", ""), ("GET", "/tables"), ("DELETE", "")),
        *(("POST", "/tables"), ("GET", "/views"), ("POST", "/properties")),
    ):
        body = b"{}" if method == "POST" else None
        answers = {
            asker.ask(method, f"/iceberg/v1/namespaces/{name}{path}", body).status
            for name in ("db", "no")
        }
        assert answers == {403}, (method, path)
    assert asker.get("/iceberg/v1/namespaces?parent=db").status == 403
    assert asker.get("/iceberg/v1/namespaces?parent=no").status == 403


@pytest.mark.parametrize(
    "authorization", [None, "", "Bearer ", "Bearer x", "Basic eDp5", "Bearer " + "x" * 9000]
)
@pytest.mark.parametrize("path", ["config", "namespaces", "namespaces/db/tables/pub_a", "nothing"])
def test_clients_without_token_get_no_answer(guarded, authorization, path):
    headers = {} if authorization is None else {"Authorization": authorization}
    answer = guarded.ask("GET", f"/iceberg/v1/{path}", headers=headers)
    expected = (404, "NotFoundException") if path == "nothing" else (401, "NotAuthorizedException")
    assert error_of(answer) == expected


def test_oauth_is_refused_without_showing_secret(guarded, caplog):
    caplog.set_level(logging.DEBUG)
    body = b"grant_type=client_credentials&client_id=me&client_secret=so-secret&scope=catalog"
    answer = guarded.ask("POST", "/iceberg/v1/oauth/tokens", body)
    assert answer.status == 400
    assert answer.json["error"] == "unsupported_grant_type"
    assert "'token'" in answer.json["error_description"]
    assert "so-secret" not in caplog.text + answer.body.decode()


# Changes


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "namespaces"), ("DELETE", "namespaces/db"), ("POST", "namespaces/db/properties"),
     ("POST", "namespaces/db/tables"), ("POST", "namespaces/db/register"),
     ("POST", "namespaces/db/tables/pub_a"), ("DELETE", "namespaces/db/tables/pub_a"),
     ("POST", "tables/rename"), ("POST", "transactions/commit"), ("POST", "namespaces/db/views"),
     ("DELETE", "namespaces/db/views/v"), ("POST", "views/rename")],
)  # fmt: skip
def test_refused_changes_name_reason_and_are_logged(admin, audit_lines, method, path):
    answer = admin.ask(method, f"/iceberg/v1/{path}", b"{}" if method == "POST" else None)
    assert error_of(answer) == (501, "UnsupportedOperationException")
    message = answer.json["error"]["message"]
    assert "read only" in message or "views" in message
    [line] = audit_lines()
    assert json.loads(line)["status"] == 501
    assert admin.get(f"{DB}/tables/pub_a").status == 200


def test_unknown_endpoint_is_refused(admin):
    assert error_of(admin.ask("PUT", DB)) == (405, "UnsupportedOperationException")
    assert error_of(admin.get("/iceberg/v1/paimon/namespaces")) == (404, "NotFoundException")
    assert admin.get("/iceberg/v1/").status == 404
    assert admin.get("/iceberg").status == 404


# Attacks


@pytest.mark.parametrize(
    "name",
    ["..%2F..%2Fhidden.db%2Ft", "..", ".", "%2E%2E", "pub_a%2F..%2Fsecret_a", "pub_a%5C..",
     "pub_a%00", "pub_a%0A", "%20pub_a", "pub_a%252F..", "..%1Fhidden", "pub_*", "%FF",
     "pub_a%3Fx", "x" * 3000],
)  # fmt: skip
@pytest.mark.parametrize("place", ["db/tables/{}", "{}/tables/pub_a", "{}", "{}/tables"])
def test_names_do_not_traverse(guarded, admin, name, place):
    path = "/iceberg/v1/namespaces/" + place.format(name)
    for client in (admin, guarded.of(token_of("analyst"))):
        for method in ("GET", "HEAD"):
            assert client.ask(method, path, headers=VENDED).status in (400, 403, 404, 405)


def test_namespace_of_many_levels_gives_no_rights(guarded):
    """Grants are globs; `db*` of a principal must not cover a database of another grant."""
    stranger = guarded.of(token_of("stranger"))
    for namespace in ("other%1Fdb", "db%1Fother", "other%1F..%1Fdb", "other%2Fdb"):
        path = f"/iceberg/v1/namespaces/{namespace}/tables/pub_a"
        assert stranger.get(path).status in (400, 403, 404)


def test_hint_that_leads_elsewhere_is_not_followed(admin, warehouse, name):
    catalog = open_catalog(warehouse)
    table = new_table(catalog, {"id": "INT"}, name=f"db.{name}", options=ICEBERG)
    table.append(pa.table({"id": pa.array([1], pa.int32())}))
    hint = Path(warehouse, "db.db", name, "metadata", HINT_NAME)
    for text in ("../../../hidden.db/t/metadata/v1", "1/../../secret", "-1", "9" * 5000, "\xff"):
        hint.write_text(text, encoding="latin-1")
        loaded = admin.get(f"{DB}/tables/{name}").json
        assert loaded["metadata-location"].endswith(f"/{name}/metadata/v1.metadata.json")
    catalog.drop_table(f"db.{name}")


def test_external_tables_metadata_is_in_its_folder(warehouse, tmp_path):
    """The folder beside it is hidden from the principal that named the folder."""
    settings = ServeSettings(warehouse=warehouse, insecure=True, roots=(str(tmp_path),))
    mine, theirs = tmp_path / "mine.db", tmp_path / "iceberg" / "mine" / "t" / "metadata"
    outside = new_catalog_in(tmp_path / "w")
    outside.create_table("db.t", Schema.of({"id": "INT"}, options=ICEBERG)).append(
        pa.table({"id": pa.array([1], pa.int32())})
    )
    mine.mkdir()
    (tmp_path / "w" / "db.db" / "t").rename(mine / "t")
    theirs.mkdir(parents=True)
    for file in (mine / "t" / "metadata").iterdir():
        (theirs / file.name).write_bytes(file.read_bytes())
    with serving(settings) as client:
        body = {"identifier": {"database": "db", "object": "ext"}, "path": f"{mine}/t"}
        assert client.post("databases/db/register", body).status == 200
        loaded = client.get(f"{DB}/tables/ext").json
        assert loaded["metadata-location"] == f"{mine}/t/metadata/v1.metadata.json"
        option = next(iter(ICEBERG))
        change = {"action": "setOption", "key": option, "value": "hadoop-catalog"}
        answer = client.post("databases/db/tables/ext", {"changes": [change]})
        assert answer.status == 200, answer.body
        assert error_of(client.get(f"{DB}/tables/ext")) == (404, "NoSuchIcebergTableException")
        before = {file.name: file.read_bytes() for file in theirs.iterdir()}
        column = {"action": "addColumn", "fieldNames": ["more"], "dataType": "INT"}
        assert client.post("databases/db/tables/ext", {"changes": [column]}).status == 200
        assert {file.name: file.read_bytes() for file in theirs.iterdir()} == before
        client.delete("databases/db/tables/ext")


# Changes by Paimon's clients


def change(client, method, path, body=None):
    answer = client.ask(method, f"/v1/paimon/databases/db/tables{path}", body)
    assert answer.status == 200, answer.body


def test_commit_over_rest_is_seen(admin, warehouse, name):
    uri = f"http://127.0.0.1:{admin.port}"
    remote = open_catalog(metastore="rest", uri=uri, token=token_of("admin"))
    for storage in (ICEBERG, IN_CATALOG):
        table = remote.create_table(f"db.{name}", Schema.of(COLUMNS, options=storage))
        table.append(rows(1))
        table.append(rows(2))
        metadata = admin.get(f"{DB}/tables/{name}").json["metadata"]
        assert metadata["current-snapshot-id"] == 2
        assert "paimon-assets.commits-behind" not in metadata["properties"]
        remote.drop_table(f"db.{name}")
    assert not Path(warehouse, "iceberg", "db", name).exists()


def test_changes_of_other_clients_are_followed_by_server(admin, warehouse, name):
    """Those that write no Iceberg metadata ask for the same requests."""
    table = new_table(open_catalog(warehouse), COLUMNS, name=f"db.{name}", options=ICEBERG)
    for number in (1, 2):
        table.append(rows(number))

    def load():
        return admin.get(f"{DB}/tables/{name}").json["metadata"]

    column = {"action": "addColumn", "fieldNames": ["more"], "dataType": "INT"}
    change(admin, "POST", f"/{name}", {"changes": [column]})
    assert [field["name"] for field in load()["schemas"][-1]["fields"]] == ["id", "text", "more"]
    change(admin, "POST", f"/{name}/tags", {"tagName": "one", "snapshotId": 1})
    assert load()["refs"]["one"]["snapshot-id"] == 1
    change(admin, "DELETE", f"/{name}/tags/one")
    assert "one" not in load()["refs"]
    back = {"instant": {"type": "snapshot", "snapshotId": 1}}
    change(admin, "POST", f"/{name}/rollback", back)
    assert load()["current-snapshot-id"] == 1
    change(admin, "DELETE", f"/{name}")


def test_metadata_in_folder_of_catalog_is_deleted_with_its_table(admin, warehouse, name):
    catalog = open_catalog(warehouse)
    schema = Schema.of(COLUMNS, options=IN_CATALOG)
    catalog.create_table(f"db.{name}", schema).append(rows(1))
    rename = rename_body(f"db.{name}", f"db.{name}_new")
    assert admin.post("tables/rename", rename).status == 200
    folder = Path(warehouse, "iceberg", "db")
    assert not (folder / name).exists()
    loaded = admin.get(f"{DB}/tables/{name}_new").json
    assert loaded["metadata"]["location"].endswith(f"/{name}_new")
    change(admin, "DELETE", f"/{name}_new")
    assert not (folder / f"{name}_new").exists()


@pytest.mark.parametrize("by", ["us", "Java"])
def test_metadata_of_dropped_table_is_not_that_of_next_one(admin, warehouse, name, by):
    """In a folder of the catalog it outlives the table, and another may have made the next one."""
    catalog = open_catalog(warehouse)
    schema = Schema.of(COLUMNS, options=IN_CATALOG)
    catalog.create_table(f"db.{name}", schema).append(rows(1))
    path = f"{warehouse}/iceberg/db/{name}/metadata/v1.metadata.json"
    if by == "Java":  # it writes no such properties
        document = json.loads(Path(path).read_bytes())
        Path(path).write_text(json.dumps({**document, "properties": {}}))
    assert admin.get(f"{DB}/tables/{name}").json["metadata-location"] == path
    content = Path(path).read_bytes()
    catalog.drop_table(f"db.{name}")
    catalog.create_table(f"db.{name}", schema)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(content)
    assert error_of(admin.get(f"{DB}/tables/{name}")) == (404, "NoSuchIcebergTableException")
    catalog.get_table(f"db.{name}").append(rows(2))
    loaded = admin.get(f"{DB}/tables/{name}").json
    assert "paimon-assets.commits-behind" not in loaded["metadata"]["properties"]
    catalog.drop_table(f"db.{name}")
