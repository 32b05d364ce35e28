"""Requests beside concurrent drops, and names that no storage takes."""

import itertools
import json
import shutil
from contextlib import suppress

import pytest

from paimon_assets import CommitUnknownError, InvalidInputError, NotFoundError, Schema, open_catalog
from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog
from paimon_assets.engine.fileio.delegating import DelegatingFileIO, make
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.server.principals import EVERYBODY
from paimon_assets.server.request import Refusal, Request
from paimon_assets.server.routes import OPERATIONS, Routes
from paimon_assets.server.service import Service
from tests.testkit.errors import refused
from tests.testkit.rest_tables import created, rename_body, table_body, write

LONG = {"ascii": "x" * 256, "two bytes": "é" * 128}


class Meanwhile(DelegatingFileIO):
    """Runs an action once, in front of the call of this number, or of the file of this name."""

    def __init__(self, awaited, action):
        self._inner, self._awaited, self._action = LocalFileIO(), awaited, action
        self._calls, self.has_happened = itertools.count(), False

    @property
    def spec(self):
        return self._inner.spec

    def _pass_on(self, method, *args, **kwargs):
        call = next(self._calls)
        if isinstance(self._awaited, int):
            is_now = call == self._awaited
        else:
            is_now = method.__name__ in ("publish", "read_bytes") and self._awaited in args[0]
        if is_now and not self.has_happened:
            self.has_happened = True
            self._action()
        return make(self._inner, method, *args, **kwargs)


@pytest.fixture
def warehouse(tmp_path):
    """Return a catalog with one table in each of its databases, without ids."""
    catalog = open_catalog(str(tmp_path))
    for database in ("a", "b"):
        catalog.create_database(database)
        for table in ("t", "u"):
            catalog.create_table(f"{database}.{table}", Schema.of({"id": "INT", "text": "STRING"}))
    return catalog


def ask(folder, file_io, method, path, body=None, query=None):
    route, names = Routes(OPERATIONS).find(method, f"/v1/paimon/{path}")
    service = Service(catalog=FilesystemCatalog(str(folder), file_io))
    request = Request(
        operation="any", names=names, query=query or {}, body=json.dumps(body or {}).encode(),
        principal=EVERYBODY, id="1",
    )  # fmt: skip
    return route.answer(service, request)


ADD = {"action": "addColumn", "fieldNames": ["c"], "dataType": "INT", "comment": None}


@pytest.mark.parametrize(
    ("name", "method", "path", "body"),
    [
        ("schema-0", "GET", "", None),
        ("table.json", "GET", "", None),
        ("schema-0", "GET", "/snapshot", None),
        ("tag-x", "POST", "/tags", {"tagName": "x"}),
        ("schema-1", "POST", "", {"changes": [ADD]}),
    ],
)
def test_concurrently_dropped_table_is_missing(warehouse, tmp_path, name, method, path, body):
    write(warehouse.get_table("a.t"), 1)
    storage = Meanwhile(name, lambda: warehouse.drop_table("a.t"))
    with refused(NotFoundError, kind="snapshot-not-found" if "tags" in path else "table-not-found"):
        ask(tmp_path, storage, method, f"databases/a/tables/t{path}", body)


def test_concurrently_recreated_table_is_not_altered(warehouse, tmp_path):
    def recreate():
        warehouse.drop_table("a.t")
        warehouse.create_table("a.t", Schema.of({"other": "INT"}))

    storage, body = Meanwhile("schema-1", recreate), {"changes": [ADD]}
    with refused(NotFoundError, kind="table-not-found"):
        ask(tmp_path, storage, "POST", "databases/a/tables/t", body)
    assert [field.name for field in warehouse.get_table("a.t").schema.fields] == ["other"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "databases/a/tables/t", None),
        ("GET", "databases/a/tables/t/snapshot", None),
        ("GET", "databases/a/table-details", None),
        ("POST", "databases/a/tables/t", {"changes": [ADD]}),
        ("POST", "databases/a/tables/t/tags", {"tagName": "x"}),
        ("POST", "databases/a/tables/t/branches", {"branch": "x"}),
        ("POST", "databases/a/tables/t/consumers/reset", {"consumerId": "x", "nextSnapshotId": 1}),
        ("POST", "databases/a/tables", table_body("new", "a")),
        ("POST", "tables/rename", rename_body("a.t", "b.new")),
        ("DELETE", "databases/a/tables/t", None),
    ],
)  # fmt: skip
def test_drop_before_any_call_is_no_storage_error(warehouse, tmp_path, method, path, body):
    def drop():
        for table in ("a.t", "a.new"):
            warehouse.drop_table(table, ignore_if_missing=True)

    def create():
        schema = Schema.of({"id": "INT NOT NULL", "text": "STRING"})
        try:
            return warehouse.create_table("a.t", schema)
        except InvalidInputError as refusal:  # a branch or consumer that came after the drop
            if refusal.kind != "folder-not-empty":
                raise
            shutil.rmtree(refusal.details["path"])
            return warehouse.create_table("a.t", schema)

    kinds = set()
    for call in itertools.count():
        warehouse.drop_table("b.new", ignore_if_missing=True)
        drop()
        write(create(), 1)
        storage = Meanwhile(call, drop)
        with suppress(Refusal, CommitUnknownError):
            try:
                ask(tmp_path, storage, method, path, body)
            except (NotFoundError, InvalidInputError) as missing:
                kinds.add(missing.kind)
        if not storage.has_happened:
            break
    assert call > 3
    assert "file-not-found" not in kinds


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("path", ["databases/b", "databases", "databases/b/tables"])
def test_get_writes_nothing(tmp_path, path):
    before = sorted(tmp_path.rglob("*"))
    ask(tmp_path, LocalFileIO(), "GET", path, query={"tableType": "table"})
    assert sorted(tmp_path.rglob("*")) == before


def test_list_by_type_leaves_out_vanished_tables(warehouse, tmp_path):
    storage = Meanwhile("t/schema/schema-0", lambda: warehouse.drop_table("a.t"))
    answer = ask(tmp_path, storage, "GET", "databases/a/tables", query={"tableType": "table"})
    assert answer["tables"] == ["u"]


@pytest.mark.parametrize("name", LONG.values(), ids=LONG)
def test_too_long_names_are_400(client, name):
    quoted = name.replace("é", "%C3%A9")
    assert client.post("databases/db/tables", table_body("short")).status == 200
    rename = rename_body("db.short", f"db.{name}")
    view = {"identifier": {"database": "db", "object": name}, "schema": {"fields": [], "query": ""}}
    for method, path, body in (
        ("POST", "databases", {"name": name}),
        ("POST", "databases", {"name": name[:-1]}),  # with `.db` it is
        ("GET", f"databases/{quoted}", None),
        ("DELETE", f"databases/{quoted}", None),
        ("GET", f"databases/{quoted}/tables", None),
        ("POST", "databases/db/tables", table_body(name)),
        ("GET", f"databases/db/tables/{quoted}", None),
        ("POST", "tables/rename", rename),
        ("POST", "databases/db/views", view),
        ("POST", "databases/db/tables/short/tags", {"tagName": name}),
        ("POST", "databases/db/tables/short/branches", {"branch": name}),
        ("GET", f"databases/db/tables/short%24branch_{quoted}", None),
        ("GET", f"databases/db/tables/short/tags/{quoted}", None),
        ("DELETE", f"databases/db/tables/short/branches/{quoted}", None),
        ("GET", f"databases/db/tables/short/snapshots/{quoted}", None),
        ("POST", "databases/db/tables/short/consumers/reset",
         {"consumerId": name, "nextSnapshotId": 1}),
    ):  # fmt: skip
        answer = client.ask(method, path, body)
        assert answer.status in (400, 404), (method, path, answer)
    assert client.delete("databases/db/tables/short").status == 200


def test_table_with_long_name_is_dropped(client, name):
    long = (name + "x" * 250)[:250]
    created(client, long)
    assert client.delete(f"databases/db/tables/{long}").status == 200
    assert client.get(f"databases/db/tables/{long}").status == 404


@pytest.mark.parametrize("path", ["/a\0b", "\0", "/" + "x" * 300])
def test_invalid_paths_are_400(client, outside, path):
    register = {"identifier": {"database": "db", "object": "nul"}, "path": f"{outside}{path}"}
    assert client.post("databases/db/register", register).status == 400
    body = table_body("nul", options={"path": f"{outside}{path}"})
    assert client.post("databases/db/tables", body).status == 400
    assert client.get("databases/db/tables/nul").status == 404
