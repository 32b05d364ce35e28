"""The front of the server: limits of connections and bodies, and authentication."""

import json
import logging
import select
import socket
import threading
from contextlib import ExitStack

import pytest

from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.server import app as application
from paimon_assets.server import serve as front
from paimon_assets.server.audit_log import Strangers
from paimon_assets.server.principals import PrincipalsFile
from paimon_assets.server.serve import PunctualProtocol, ServeSettings, app_of
from tests.testkit.rest_server import principal, serving

TOKENS = ("one", "two", "three", "nothing")


@pytest.fixture
def principals(tmp_path):
    path = tmp_path / "principals.toml"
    grants = [("other", ["all"])]
    path.write_text("".join(principal(n, n, *(grants if n != "nothing" else ())) for n in TOKENS))
    return path


@pytest.fixture
def guarded_client(served, principals):
    with serving(ServeSettings(warehouse=served, principals=principals)) as found:
        yield found


def _connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def _send_unfinished(port, token, size):
    """Connect, and send the head of a request, and a part of its body."""
    raw = _connect(port)
    raw.sendall(
        b"POST /v1/paimon/databases HTTP/1.1\r\nHost: x\r\n"
        + f"Authorization: Bearer {token}\r\nContent-Length: {size + 1}\r\n\r\n".encode()
        + b"x" * size
    )
    return raw


def _remove_answered(connections):
    """Remove the one connection that is answered 503; any of them may be it."""
    (answered,), _, _ = select.select(connections, [], [], 30)
    assert b" 503 " in answered.recv(10_000)
    connections.remove(answered)


def test_bodies_are_limited_in_sum(guarded_client, monkeypatch):
    monkeypatch.setattr(application, "MOST_TOGETHER", 100_000)
    with ExitStack() as stack:

        def send_unfinished(token, size):
            return stack.enter_context(_send_unfinished(guarded_client.port, token, size))

        held = [send_unfinished("one", 24_000) for _ in range(3)]
        _remove_answered(held)  # of its own half
        for token in ("one", "two"):
            assert guarded_client.of(token).get("databases").status == 200
        more = [send_unfinished("two", 45_000), send_unfinished("three", 45_000)]
        _remove_answered(more)  # of all
        for connection in (*held, *more):
            connection.sendall(b"x")
            assert b" 400 " in connection.recv(10_000)
    body = {"name": "x" * 40_000, "options": {}}
    assert (
        guarded_client.of("one").post("databases", body).status == 400
    )  # everything was given back


@pytest.mark.parametrize(
    ("token", "path"), [("nothing", "databases"), ("one", "databases/db/tables")]
)
def test_body_without_grant_is_not_read(guarded_client, audit_lines, token, path):
    with _connect(guarded_client.port) as raw:
        raw.sendall(
            f"POST /v1/paimon/{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
            "Content-Length: 9\r\n\r\n".encode()
        )
        assert b" 403 " in raw.recv(10_000)
    [line] = audit_lines()
    assert json.loads(line)["status"] == 403


def test_unfinished_bodies_are_limited_for_each_principal(guarded_client, monkeypatch):
    monkeypatch.setattr(application, "MOST_UNFINISHED", 3)
    with ExitStack() as stack:
        held = [
            stack.enter_context(_send_unfinished(guarded_client.port, "one", 1)) for _ in range(4)
        ]
        _remove_answered(held)
        assert guarded_client.of("two").post("databases", b"x").status == 400
        for connection in held:
            connection.sendall(b"x")
            assert b" 400 " in connection.recv(10_000)
    assert guarded_client.of("one").post("databases", b"x").status == 400


def test_body_counts_with_its_memory(guarded_client):
    lists = b'{"name":"x","options":[' + b"[]," * 2_000_000 + b"[]]}"
    assert guarded_client.of("one").post("databases", lists).status == 413
    assert (
        guarded_client.of("one").post("databases", b'{"name":"' + b"x" * 6_000_000 + b'"}').status
        == 400
    )


def test_unfinished_bodies_make_room(served, monkeypatch):
    monkeypatch.setattr(PunctualProtocol, "most_connections", 12)
    monkeypatch.setattr(front, "_MOST_AT_ONCE", 20)
    with serving(ServeSettings(warehouse=served, insecure=True)) as client, ExitStack() as stack:
        head = b"POST /v1/paimon/databases HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{"
        for _ in range(60):
            stack.enter_context(_connect(client.port)).sendall(head)
        for _ in range(3):
            assert client.get("/healthz").status == 200


def test_health_is_answered_when_all_threads_are_busy(served, monkeypatch):
    release, begun = threading.Event(), threading.Semaphore(0)

    def slow(*_):
        begun.release()
        release.wait(300)

    monkeypatch.setattr(FilesystemCatalog, "list_databases", slow)
    with serving(ServeSettings(warehouse=served, insecure=True)) as client, ExitStack() as stack:
        stack.callback(release.set)
        for _ in range(80):
            raw = stack.enter_context(_connect(client.port))
            raw.sendall(b"GET /v1/paimon/databases HTTP/1.1\r\nHost: x\r\n\r\n")
        for _ in range(40):
            assert begun.acquire(timeout=30)
        assert client.get("/healthz").status == 200


def test_silent_connections_make_room(served, monkeypatch):
    monkeypatch.setattr(PunctualProtocol, "most_connections", 12)
    with serving(ServeSettings(warehouse=served, insecure=True)) as client, ExitStack() as stack:
        busy = stack.enter_context(_connect(client.port))
        busy.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 200 " in busy.recv(10_000)
        silent = [stack.enter_context(_connect(client.port)) for _ in range(40)]
        assert client.get("/healthz").status == 200
        assert client.get("databases").status == 200
        assert silent[0].recv(1) == b""  # connections without a byte are closed first
        busy.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 200 " in busy.recv(10_000)


def test_one_client_takes_its_part_of_connections(served, monkeypatch):
    monkeypatch.setattr(PunctualProtocol, "most_of_client", 5)
    with serving(ServeSettings(warehouse=served, insecure=True)) as client, ExitStack() as stack:
        head = b"POST /v1/paimon/databases HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{"
        asking = [stack.enter_context(_connect(client.port)) for _ in range(5)]
        for raw in asking:
            raw.sendall(head)
        assert stack.enter_context(_connect(client.port)).recv(1) == b""
        asking[0].sendall(b"}")
        assert b" 400 " in asking[0].recv(10_000)
        assert client.get("/healthz").status == 200


@pytest.mark.parametrize(
    "head",
    [
        b"POST /v1/paimon/databases HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n",
        b"POST /v1/paimon/databases HTTP/1.0\r\nHost: x\r\n",
        b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n",
    ],
)
def test_two_lengths_of_one_body_are_refused(guarded_client, head):
    with _connect(guarded_client.port) as raw:
        raw.sendall(
            head + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n"
        )
        answer = b""
        while part := raw.recv(10_000):
            answer += part
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b" 400 " in answer


def test_rejected_client_leaves_line(guarded_client, caplog):
    caplog.set_level(logging.INFO)
    assert guarded_client.of("nobody").get("databases").status == 401
    assert guarded_client.post("databases", {}).status == 401
    lines = [json.loads(r.message) for r in caplog.records if "audit" in r.name]
    assert [(line["operation"], line["client"], line["status"]) for line in lines] == [
        ("listDatabases", "127.0.0.1", 401),
        ("createDatabase", "127.0.0.1", 401),
    ]
    assert "nobody" not in caplog.text


def test_many_strangers_flood_no_log(caplog):
    caplog.set_level(logging.INFO)
    strangers = Strangers()
    for number in range(10 * Strangers.most):
        strangers.write("10.0.0.1", "getTable", str(number))
    assert Strangers.most <= len(caplog.records) <= 2 * Strangers.most + 1


def test_secret_is_read_again_when_its_file_changes(tmp_path):
    path, secret = tmp_path / "p.toml", tmp_path / "ak"
    secret.write_text("first")
    path.write_text(
        '[[principal]]\nname = "a"\naccess-keys = [{ id = "AK", secret-file = "ak" }]\n'
    )
    file = PrincipalsFile(path)
    assert file.current().of_access_key("AK")[1] == "first"
    secret.write_text("second")
    assert file.current().of_access_key("AK")[1] == "second"
    secret.unlink()
    assert file.current().of_access_key("AK")[1] == "second"


def test_empty_file_of_principals_is_ignored(guarded_client, principals):
    text = principals.read_text()
    assert guarded_client.of("one").get("databases").status == 200
    for wrong in ("", '[[principal]]\nname = "a"\n'):
        principals.write_text(wrong)
        assert guarded_client.of("one").get("databases").status == 200
    principals.write_text(text.replace("two", "deux"))
    assert guarded_client.of("one").get("databases").status == 200


def test_unreadable_file_of_principals_is_ignored_and_logged_once(
    guarded_client, principals, caplog
):
    for wrong in (b"\xff\xfe", b"[[principal"):
        principals.write_bytes(wrong)
        for _ in range(5):
            assert guarded_client.of("one").get("databases").status == 200
    principals.unlink()
    for _ in range(5):
        assert guarded_client.of("one").get("databases").status == 200
    assert len([each for each in caplog.records if each.levelno >= logging.ERROR]) == 3


def test_change_refused_by_read_only_server_leaves_audit_line(served, principals, audit_lines):
    settings = ServeSettings(warehouse=served, principals=principals, read_only=True)
    with serving(settings) as client:
        assert client.of("one").delete("databases/db").status == 403
    [line] = map(json.loads, audit_lines())
    assert (line["principal"], line["database"], line["status"]) == ("one", "db", 403)


@pytest.mark.parametrize("wrong", ["both", "key alone", "no pair"])
def test_contradictory_flags_are_refused(served, principals, tmp_path, wrong):
    own = tmp_path / "own.pem"
    own.write_text("no key")
    flags = {
        "both": {"insecure": True, "principals": principals},
        "key alone": {"insecure": True, "tls_key": own},
        "no pair": {"insecure": True, "tls_key": own, "tls_certificate": own},
    }
    with pytest.raises(InvalidInputError) as refused:
        app_of(ServeSettings(warehouse=served, **flags[wrong]))
    assert refused.value.kind == ("principals" if wrong == "both" else "tls")
