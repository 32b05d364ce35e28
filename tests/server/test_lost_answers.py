"""A storage that does not answer: what is unknown is 500, never false; the same again ends it."""

import signal
import socket
import threading

import pytest
from click.testing import CliRunner

from paimon_assets.cli.main import main
from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog
from paimon_assets.engine.errors import CommitUnknownError, StorageError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.table.api import open_table
from paimon_assets.server.app import App
from paimon_assets.server.operations.all_operations import OPERATIONS
from paimon_assets.server.routes import Routes
from paimon_assets.server.serve import ServeSettings, uvicorn_of
from paimon_assets.server.service import Service
from tests.testkit.rest_server import RestClient, server_process
from tests.testkit.rest_tables import commit_body, created, ids_of, prepared


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
    """A server on it, with a database."""
    catalog = FilesystemCatalog(str(tmp_path / "w"), storage)
    catalog.create_database("db")
    app = App(Service(catalog=catalog), Routes(OPERATIONS), principals=None)
    server = uvicorn_of(app, ServeSettings(warehouse=str(tmp_path / "w")))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield RestClient(port)
        finally:
            server.should_exit = True
            thread.join(60)


@pytest.mark.parametrize("done", [True, False], ids=["done", "not done"])
@pytest.mark.parametrize("blind", [True, False], ids=["blind", "seeing"])
def test_a_commit_without_an_answer(forgetful, storage, name, done, blind):
    made = created(forgetful, name)
    body = commit_body(made, prepared(made, 1), baseSnapshotUuid=None)
    path = f"databases/db/tables/{name}/commit"
    storage.loses, storage.done, storage.blind = True, done, blind
    answer = forgetful.post(path, body)
    if done and not blind:
        assert answer.json == {"success": True}
    else:
        assert answer.status == 500
    storage.recover()
    assert forgetful.post(path, body).json == {"success": True}
    assert ids_of(open_table(made["path"])) == [1]


@pytest.mark.parametrize("done", [True, False], ids=["done", "not done"])
def test_a_view_without_an_answer(forgetful, storage, done):
    view = {"fields": [], "query": "1"}
    body = {"identifier": {"database": "db", "object": "v"}, "schema": view}
    forgetful.post("databases/db/views", {**body, "identifier": {"database": "db", "object": "u"}})
    storage.loses, storage.done = True, done
    assert forgetful.post("databases/db/views", body).status == (200 if done else 500)
    storage.recover()
    assert forgetful.post("databases/db/views", body).status == (409 if done else 200)
    assert forgetful.get("databases/db/views").json["views"] == ["u", "v"]


def test_a_server_that_is_asked_to_stop_ends_what_it_has_begun(served, tmp_path, name):
    with server_process(served, "--insecure", log=tmp_path / "log") as (process, client):
        created(client, name)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM)
    assert open_table(f"{served}/db.db/{name}").schema.id == 0


def test_a_server_without_tokens_says_why_it_does_not_start(served, tmp_path):

    done = CliRunner().invoke(main, ["-w", served, "serve", "--port", "0"])
    assert done.exit_code == 2
    assert "--insecure" in done.output
    done = CliRunner().invoke(main, ["serve"])
    assert "--warehouse" in done.output
