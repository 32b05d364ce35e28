"""A server killed at any storage call: a change is made or not, and another server completes it."""

import itertools
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from click.testing import CliRunner

from paimon_assets import CommitUnknownError, StorageError, open_table
from paimon_assets.cli.main import main
from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.server.app import App
from paimon_assets.server.routes import OPERATIONS, Routes
from paimon_assets.server.serve import ServeSettings
from paimon_assets.server.service import Service
from tests.testkit import rest_tables
from tests.testkit.effort import is_hunt
from tests.testkit.faults.rest_servers import mortal_server, status_of
from tests.testkit.faults.writers import fork_server
from tests.testkit.rest_server import server_process, serving_app

pytestmark = pytest.mark.slow

DB, TABLES = "databases/db", "databases/db/tables"
MOST_STEPS = 60
STRIDE = 1 if is_hunt() else 3
"""Calls between two kills; each kind of change is killed at its first call, then at later ones."""
COLUMN = {"action": "addColumn", "fieldNames": ["c"], "dataType": "INT"}
VIEW = {"fields": [], "query": "1", "dialects": {"spark": "2"}}


@dataclass(frozen=True)
class Change:
    """One kind of request that changes something.

    Attributes:
        setup: (client, name, outside) → the request, and whatever `check` needs.
        check: (client, name, that) asserts that the change is made, whole.
        again: Statuses of the same request once more, on another server.
    """

    setup: Callable[..., Any]
    check: Callable[..., None]
    again: tuple[int, ...] = (200,)


def _table(client, name, _outside):
    return rest_tables.created(client, name)


def _create_with_commits(client, name, commits=1, **schema):
    made = rest_tables.created(client, name, **schema)
    for number in range(commits):
        rest_tables.write(rest_tables.open_posted(client, made)[0], number)
    return made


def _create_with_branch(client, name):
    made = _create_with_commits(client, name)
    client.post(f"{TABLES}/{name}/tags", {"tagName": "t"})
    client.post(f"{TABLES}/{name}/branches", {"branch": "b", "fromTag": "t"})
    return made


def _create_database(client, name, outside):
    return ("POST", "databases", {"name": name, "options": {}}), None


def _drop_database(client, name, outside):
    client.post("databases", {"name": name, "options": {"a": "b"}})
    client.post(f"databases/{name}/tables", rest_tables.table_body("t", name))
    return ("DELETE", f"databases/{name}"), None


def _alter_database(client, name, outside):
    client.post("databases", {"name": name, "options": {"a": "b"}})
    return ("POST", f"databases/{name}", {"removals": ["a"], "updates": {"c": "d"}}), None


def _commit(client, name, outside):
    made = rest_tables.created(client, name)
    body = rest_tables.commit_body(made, rest_tables.prepared(made, 7), baseSnapshotUuid=None)
    return ("POST", f"{TABLES}/{name}/commit", body), made


def _rename(client, name, outside):
    made = rest_tables.created(client, name)
    return ("POST", "tables/rename", rest_tables.rename_body(f"db.{name}", f"db.{name}_new")), made


def _rename_view(client, name, outside):
    client.post(f"{DB}/views", {"identifier": {"database": "db", "object": name}, "schema": VIEW})
    client.post("databases", {"name": f"{name}_db"})
    return ("POST", "views/rename", rest_tables.rename_body(f"db.{name}", f"{name}_db.w")), None


def _register(client, name, outside):
    path = str(outside / name)
    rest_tables.created(client, name, options={"path": path})
    client.delete(f"{TABLES}/{name}")
    body = {"identifier": {"database": "db", "object": name}, "path": path}
    return ("POST", f"{DB}/register", body), None


def _post(path, body, setup=_table):
    return lambda client, name, outside: (
        ("POST", path.format(name=name), body),
        setup(client, name, outside),
    )


def _is(path, member, expected):
    def check(client, name, _made):
        assert client.get(path.format(name=name)).json[member] == expected

    return check


def _status(path, status):
    def check(client, name, _made):
        assert client.get(path.format(name=name)).status == status

    return check


def _rows(*ids):
    def check(client, name, made):
        assert rest_tables.ids_of(open_table(made["path"])) == list(ids)

    return check


def _fields(client, name, _made):
    fields = client.get(f"{TABLES}/{name}").json["schema"]["fields"]
    assert [field["name"] for field in fields] == ["id", "text", "c"]


def _check_renamed(client, name, made):
    assert client.get(f"{TABLES}/{name}").status == 404
    assert client.get(f"{TABLES}/{name}_new").json["id"] == made["id"]
    assert client.get(f"tables/id/{made['id']}").json["name"] == f"{name}_new"


def _has_id(client, name, _made):
    found = client.get(f"{TABLES}/{name}").json
    assert client.get(f"tables/id/{found['id']}").json == found


def _dropped_database(client, name, _made):
    client.post("databases", {"name": name})
    assert client.get(f"databases/{name}").json["options"] == {}
    assert client.get(f"databases/{name}/tables").json["tables"] == []


def _moved_view(client, name, _made):
    assert client.get(f"{DB}/views/{name}").status == 404
    assert client.get(f"databases/{name}_db/views/w").json["schema"]["query"] == "1"


def _view(client, name, _outside):
    body = {"identifier": {"database": "db", "object": name}, "schema": VIEW}
    return client.post(f"{DB}/views", body)


def _partition(*, done):
    def check(client, name, _made):
        [found] = client.get(f"{TABLES}/{name}/partitions").json["partitions"]
        assert found["done"] is done

    return check


def _function(client, name, _outside):
    return client.post(f"{DB}/functions", {"name": name})


T = TABLES + "/{name}"
CHANGES = {
    "createDatabase": Change(_create_database, _status("databases/{name}", 200), (200, 409)),
    "alterDatabase": Change(_alter_database, _is("databases/{name}", "options", {"c": "d"})),
    "dropDatabase": Change(_drop_database, _dropped_database, (200, 404)),
    "createTable": Change(
        lambda c, n, o: (("POST", TABLES, rest_tables.table_body(n)), None), _has_id, (200, 409)
    ),
    "createTable outside": Change(
        lambda c, n, o: (
            ("POST", TABLES, rest_tables.table_body(n, options={"path": f"{o}/{n}"})),
            None,
        ),
        _has_id,
        (200, 409),
    ),
    "registerTable": Change(_register, _status(T, 200), (200, 409)),
    "alterTable": Change(_post(T, {"changes": [COLUMN]}), _fields, (200, 409)),
    "dropTable": Change(
        lambda c, n, o: (("DELETE", f"{TABLES}/{n}"), _create_with_commits(c, n)),
        _status(T, 404),
        (200, 404),
    ),
    "renameTable": Change(_rename, _check_renamed, (200, 404)),
    "commitTable": Change(_commit, _rows(7)),
    "rollbackTable": Change(
        _post(
            f"{T}/rollback",
            {"instant": {"snapshotId": 1}},
            lambda c, n, o: _create_with_commits(c, n, 3),
        ),
        _rows(0),
    ),
    "rollbackSchema": Change(
        _post(
            f"{T}/rollback-schema",
            {"schemaId": 0},
            lambda c, n, o: (_table(c, n, o), c.post(f"{TABLES}/{n}", {"changes": [COLUMN]})),
        ),
        _is(T, "schemaId", 0),
    ),
    "createTag": Change(
        _post(f"{T}/tags", {"tagName": "t"}, lambda c, n, o: _create_with_commits(c, n)),
        _is(f"{T}/tags", "tags", ["t"]),
        (200, 409),
    ),
    "deleteTag": Change(
        lambda c, n, o: (("DELETE", f"{TABLES}/{n}/tags/t"), _create_with_branch(c, n)),
        _is(f"{T}/tags", "tags", []),
        (200, 404),
    ),
    "createBranch": Change(
        _post(f"{T}/branches", {"branch": "b"}), _is(f"{T}/branches", "branches", ["b"]), (200, 409)
    ),
    "dropBranch": Change(
        lambda c, n, o: (("DELETE", f"{TABLES}/{n}/branches/b"), _create_with_branch(c, n)),
        _is(f"{T}/branches", "branches", []),
        (200, 404),
    ),
    "renameBranch": Change(
        _post(
            f"{T}/branches/b/rename", {"toBranch": "z"}, lambda c, n, o: _create_with_branch(c, n)
        ),
        _is(f"{T}/branches", "branches", ["z"]),
        (200, 404),
    ),
    "forwardBranch": Change(
        _post(
            f"{T}/branches/b/forward",
            {},
            lambda c, n, o: [
                made := _create_with_branch(c, n),
                rest_tables.write(rest_tables.open_posted(c, made)[0], 9),
            ][0],
        ),
        _rows(0),
    ),
    "resetConsumer": Change(
        _post(f"{T}/consumers/reset", {"consumerId": "c", "nextSnapshotId": 3}),
        _is(f"{T}/consumers", "consumers", [{"consumerId": "c", "nextSnapshot": 3}]),
    ),
    "dropPartitions": Change(
        _post(
            f"{T}/partitions/drop",
            {"partitionSpecs": [{"text": "x0"}], "ignoreIfNotExists": True},
            lambda c, n, o: _create_with_commits(c, n, 2, partitionKeys=["text"]),
        ),
        _rows(1),
    ),
    "createPartitions": Change(
        _post(
            f"{T}/partitions",
            {"partitionSpecs": [{"text": "x"}], "ignoreIfExists": True},
            lambda c, n, o: rest_tables.created(c, n, partitionKeys=["text"]),
        ),
        _partition(done=False),
    ),
    "markDonePartitions": Change(
        _post(
            f"{T}/partitions/mark",
            {"specs": [{"text": "x0"}]},
            lambda c, n, o: _create_with_commits(c, n, partitionKeys=["text"]),
        ),
        _partition(done=True),
    ),
    "createView": Change(
        lambda c, n, o: (
            (
                *("POST", f"{DB}/views"),
                {"identifier": {"database": "db", "object": n}, "schema": VIEW},
            ),
            None,
        ),
        _status(f"{DB}/views/{{name}}", 200),
        (200, 409),
    ),
    "alterView": Change(
        _post(
            f"{DB}/views/{{name}}",
            {"changes": [{"action": "dropDialect", "dialect": "spark"}]},
            _view,
        ),
        lambda c, n, _: _is(f"{DB}/views/{{name}}", "name", n)(c, n, _),
        (200, 404),
    ),
    "renameView": Change(_rename_view, _moved_view, (200, 404)),
    "dropView": Change(
        lambda c, n, o: (("DELETE", f"{DB}/views/{n}"), _view(c, n, o)),
        _status(f"{DB}/views/{{name}}", 404),
        (200, 404),
    ),
    "alterFunction": Change(
        _post(
            f"{DB}/functions/{{name}}",
            {"changes": [{"action": "updateComment", "comment": "c"}]},
            _function,
        ),
        _is(f"{DB}/functions/{{name}}", "comment", "c"),
    ),
    "dropFunction": Change(
        lambda c, n, o: (("DELETE", f"{DB}/functions/{n}"), _function(c, n, o)),
        _status(f"{DB}/functions/{{name}}", 404),
        (200, 404),
    ),
    "createFunction": Change(
        lambda c, n, o: (("POST", f"{DB}/functions", {"name": n}), None),
        _status(f"{DB}/functions/{{name}}", 200),
        (200, 409),
    ),
}


def test_every_request_that_changes_something_is_killed():
    refused = {"grantPermission", "revokePermission"}  # 501
    changing = {route.operation for route in OPERATIONS if route.changes} - refused
    assert {kind.partition(" ")[0] for kind in CHANGES} == changing


@pytest.mark.hunt
@pytest.mark.parametrize("kind", CHANGES)
def test_server_killed_at_any_call_leaves_change_whole(kind, client, served, outside):
    change, context = CHANGES[kind], fork_server()
    later = itertools.count(1 + [*CHANGES].index(kind) % STRIDE, STRIDE)
    for steps in itertools.chain([0], later):
        assert steps < MOST_STEPS
        name = f"{''.join(filter(str.isalnum, kind))}_{steps}"
        request, made = change.setup(client, name, outside)
        with mortal_server(context, served, (str(outside),), steps) as (process, mortal):
            status = status_of(mortal, *request)
            if status is None:
                process.join()
                assert process.exitcode == -signal.SIGKILL
        client.get(f"{TABLES}/{name}")  # a read in between
        if status is None:
            assert client.ask(*request).status in change.again
        else:
            assert status == 200
        change.check(client, name, made)
        if status is not None:
            break
    assert steps > 0  # it was killed at least once


class Forgetful(LocalFileIO):
    """A disk that loses the answers of publishing, and perhaps cannot be looked at then."""

    def __init__(self):
        self.done = True
        self.loses = False
        self.blind = False
        self._silent = False

    def publish(self, path, data):
        if not self.loses:
            return super().publish(path, data)
        if self.done:
            super().publish(path, data)
        self._silent = self.blind
        raise CommitUnknownError("no answer")

    def read_bytes(self, path):
        if self._silent:
            raise StorageError("no answer")
        return super().read_bytes(path)

    def recover(self):
        self.loses = self._silent = False


@pytest.fixture
def storage():
    return Forgetful()


@pytest.fixture
def forgetful(storage, tmp_path):
    """Serve it, with a database."""
    catalog = FilesystemCatalog(str(tmp_path / "w"), storage)
    catalog.create_database("db")
    app = App(Service(catalog=catalog), Routes(OPERATIONS), principals=None)
    with serving_app(app, ServeSettings(warehouse=str(tmp_path / "w"))) as client:
        yield client


@pytest.mark.parametrize("done", [True, False], ids=["done", "not done"])
@pytest.mark.parametrize("blind", [True, False], ids=["blind", "seeing"])
def test_commit_without_answer_is_made_by_retry(forgetful, storage, name, done, blind):
    made = rest_tables.created(forgetful, name)
    body = rest_tables.commit_body(made, rest_tables.prepared(made, 1), baseSnapshotUuid=None)
    path = f"databases/db/tables/{name}/commit"
    storage.loses, storage.done, storage.blind = True, done, blind
    answer = forgetful.post(path, body)
    if done and not blind:
        assert answer.json == {"success": True}
    else:
        assert answer.status == 500
    storage.recover()
    assert forgetful.post(path, body).json == {"success": True}
    assert rest_tables.ids_of(open_table(made["path"])) == [1]


@pytest.mark.parametrize("done", [True, False], ids=["done", "not done"])
def test_view_without_answer_is_made_once(forgetful, storage, done):
    view = {"fields": [], "query": "1"}
    body = {"identifier": {"database": "db", "object": "v"}, "schema": view}
    forgetful.post("databases/db/views", {**body, "identifier": {"database": "db", "object": "u"}})
    storage.loses, storage.done = True, done
    assert forgetful.post("databases/db/views", body).status == (200 if done else 500)
    storage.recover()
    assert forgetful.post("databases/db/views", body).status == (409 if done else 200)
    assert forgetful.get("databases/db/views").json["views"] == ["u", "v"]


def test_stopping_server_finishes_its_requests(served, tmp_path, name):
    with server_process(served, "--insecure", log=tmp_path / "log") as (process, client):
        rest_tables.created(client, name)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM)
    assert open_table(f"{served}/db.db/{name}").schema.id == 0


def test_server_without_tokens_explains_why_it_does_not_start(served, tmp_path):
    done = CliRunner().invoke(main, ["-w", served, "serve", "--port", "0"])
    assert done.exit_code == 2
    assert "--insecure" in done.output
    done = CliRunner().invoke(main, ["serve"])
    assert "--warehouse" in done.output
