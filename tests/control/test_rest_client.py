"""Requests of the REST client against a real server that fails as it is told."""

import datetime as dt
import socket

import pytest

from paimon_assets.engine.codec.rest.documents import (
    CommitRequest,
    CommitResponse,
    ConfigResponse,
    ListDatabasesResponse,
    ListTablesResponse,
    SnapshotResponse,
    TableResponse,
    TagResponse,
)
from paimon_assets.engine.control.rest.auth import BearerAuth
from paimon_assets.engine.control.rest.http_client import HttpClient, Pace, Request, checked_uri
from paimon_assets.engine.control.rest.rest_api import RestApi
from paimon_assets.engine.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    CommitUnknownError,
    FormatError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from tests.testkit.builders import snapshot as a_snapshot
from tests.testkit.http_servers import Say, ScriptedServer

SECRET = "very-secret-token"  # noqa: S105
TABLES = ("databases", "db", "tables")
T = (*TABLES, "t")
GOOD = Say(body={"success": True})
LOST = Say(silent=True)
CUT = Say(body={"success": True}, cut=True)


class NotedClock:
    """Time that passes only where somebody waits for it."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000
        self.waited: list[float] = []

    def now_millis(self) -> int:
        return self.now

    def sleep_millis(self, millis: float) -> None:
        self.waited.append(millis / 1000)
        self.now += int(millis)


@pytest.fixture
def server():
    with ScriptedServer().running() as running:
        yield running


@pytest.fixture
def clock():
    return NotedClock()


@pytest.fixture
def api(server, clock):
    pace = Pace(clock=clock, random_fraction=lambda: 0.0, timeout_s=0.3)
    client = HttpClient(server.uri, BearerAuth(SECRET), secrets=(SECRET,), pace=pace)
    return RestApi(client, "p")


def databases(api):
    return api.listed(("databases",), ListDatabasesResponse, "databases")


def commit(api):
    request = CommitRequest(
        table_id="u", base_snapshot_uuid=None, snapshot=a_snapshot(id=1), statistics=()
    )
    return api.post((*T, "commit"), request, CommitResponse).success


def error(status, kind=None, **headers):
    body = {"message": "no", "resourceType": kind, "resourceName": "x", "code": status}
    return Say(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


def test_a_busy_server_is_asked_again_as_it_says(api, server, clock):
    server.will(error(429, Retry_After="7"), error(503), error(503), GOOD)
    assert commit(api)
    assert clock.waited == [7, 2, 4]
    assert len({asked.body for asked in server.asked}) == 1


def test_a_date_may_say_when_to_come_again(api, server, clock):
    soon = dt.datetime.fromtimestamp(clock.now / 1000 + 5, tz=dt.UTC)
    server.will(error(503, Retry_After=soon.strftime("%a, %d %b %Y %H:%M:%S GMT")))
    server.will(error(503, Retry_After="soon"), GOOD)
    assert commit(api)
    assert clock.waited == [5, 2]


def test_a_server_that_stays_busy_surely_did_nothing(api, server, clock):
    server.will(*[error(429)] * 6)
    with pytest.raises(StorageError, match="429"):
        commit(api)
    assert clock.waited == [1, 2, 4, 8, 16]


@pytest.mark.parametrize(
    ("status", "expected", "kind"),
    [
        (400, InvalidInputError, "refused"),
        (401, AccessDeniedError, "unauthorized"),
        (403, AccessDeniedError, "forbidden"),
        (404, NotFoundError, "not-found"),
        (409, AlreadyExistsError, "exists"),
        (501, UnsupportedFeatureError, "server-unsupported"),
    ],
)
def test_what_a_server_refuses_is_sure(api, server, status, expected, kind):
    server.will(error(status), Say(status, b"<html>a proxy's page"), Say(status))
    for _ in range(3):
        with pytest.raises(expected) as refused:
            commit(api)
        assert refused.value.kind == kind
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("status", "resource", "kind"),
    [(404, "TABLE", "table-not-found"), (404, "TAG", "tag-not-found"), (409, "TAG", "tag-exists")],
)
def test_the_resource_makes_the_kind(api, server, status, resource, kind):
    server.will(error(status, resource))
    with pytest.raises(InvalidInputError) as refused:
        api.get((*T, "tags", "x"), TagResponse)
    assert refused.value.kind == kind


@pytest.mark.parametrize(
    "answer",
    [LOST, CUT, error(500), error(502), Say(body=b"{}"), Say(body=b"<html>"), Say(hangs=True)],
    ids=["lost", "cut", "500", "502", "nothing said", "no JSON", "silence"],
)
def test_a_commit_without_an_answer_is_unknown_and_not_sent_again(api, server, answer):
    server.will(answer, GOOD)
    with pytest.raises(CommitUnknownError):
        commit(api)
    assert len(server.asked) == 1


@pytest.mark.parametrize("last", [error(503), error(404, "TABLE")], ids=["503", "404"])
def test_a_commit_that_may_have_been_done_before_is_unknown_whatever_comes_later(api, server, last):
    server.will(*[error(503)] * 5, last)
    with pytest.raises(CommitUnknownError):
        commit(api)


def test_a_lost_race_is_no_error(api, server):
    server.will(Say(body={"success": False}))
    assert not commit(api)


def test_what_only_reads_is_asked_again(api, server, clock):
    server.will(LOST, Say(body={"databases": ["a"]}, cut=True), Say(body={"databases": ["a"]}))
    assert databases(api) == ["a"]
    assert clock.waited == [1, 2]


def test_a_read_that_fails_is_a_storage_error(api, server):
    server.will(error(500), Say(hangs=True), Say(body=b"{"))
    for expected in (StorageError, StorageError, FormatError):
        with pytest.raises(expected):
            databases(api)


def test_a_deletion_that_finds_nothing_the_second_time_has_done_its_work(api, server):
    server.will(LOST, error(404, "TABLE"))
    api.delete(T)
    server.will(error(404, "TABLE"))
    with pytest.raises(NotFoundError):
        api.delete(T)


def test_nobody_there_is_sure(clock):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    api = RestApi(HttpClient(f"127.0.0.1:{port}", pace=Pace(clock=clock)))
    with pytest.raises(StorageError, match="no connection") as failed:
        commit(api)
    assert failed.value.kind == "server-unreachable"
    assert clock.waited == []


def test_what_is_missing_is_said(api, server):
    server.will(error(404, "SNAPSHOT"), error(404, "TABLE"), Say(404))
    for kind in ("snapshot-not-found", "table-not-found", "not-found"):
        with pytest.raises(NotFoundError) as missing:
            api.get((*T, "snapshot"), SnapshotResponse)
        assert missing.value.kind == kind


def test_pages_are_asked_for_until_there_is_none(api, server):
    server.will(
        Say(body={"tables": ["a"], "nextPageToken": "a"}),
        Say(body={"tables": ["b"], "nextPageToken": "b"}),
        Say(body={"tables": None, "nextPageToken": ""}),
    )
    assert api.listed(TABLES, ListTablesResponse, "tables") == ["a", "b"]
    assert [asked.target for asked in server.asked] == [
        "/v1/p/databases/db/tables",
        "/v1/p/databases/db/tables?pageToken=a",
        "/v1/p/databases/db/tables?pageToken=b",
    ]
    server.will(*[Say(body={"databases": ["a"], "nextPageToken": "a"})] * 2)
    with pytest.raises(StorageError, match="circle"):
        databases(api)


def test_names_go_on_the_wire_as_java_writes_them(api, server):
    server.will(Say(404))
    with pytest.raises(NotFoundError):
        api.get(("databases", "d b", "tables", "x~*%2F/é$branch_b"), TableResponse)
    (asked,) = server.asked
    assert asked.target == "/v1/p/databases/d+b/tables/x%7E*%252F%2F%C3%A9%24branch_b"


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_names_that_lead_elsewhere_are_not_asked_for(api, server, name):
    with pytest.raises(InvalidInputError, match="no name"):
        api.get((*T, "tags", name), TagResponse)
    assert server.asked == []


def test_who_asks_is_said_and_nothing_else_is(api, server, tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password mine")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    server.will(Say(body={"databases": []}, headers={"Set-Cookie": "a=b"}))
    server.will(Say(body={"databases": []}))
    databases(api)
    databases(api)
    for asked in server.asked:
        assert asked.headers["Authorization"] == f"Bearer {SECRET}"
        assert "Cookie" not in asked.headers


def test_a_redirect_is_not_followed(api, server):
    with ScriptedServer().running() as other:
        server.will(Say(307, headers={"Location": f"{other.uri}/v1/p/databases"}))
        with pytest.raises(StorageError, match="307"):
            databases(api)
        assert other.asked == []


def test_no_message_shows_a_secret(api, server):
    leaking = f"bad token {SECRET} at https://u:pw@h/x?Signature=abc"
    server.will(Say(400, {"message": leaking}, {"x-request-id": f"r-{SECRET}"}))
    with pytest.raises(InvalidInputError) as refused:
        databases(api)
    shown = f"{refused.value} {refused.value.details} {refused.value.__cause__!r}"
    assert SECRET not in shown
    assert "pw" not in shown
    assert "Signature=abc" not in shown
    assert "request r-******" in shown


def test_the_server_is_told_who_we_are_once_for_all(server, clock):
    client = HttpClient(f"{server.uri}/at/", BearerAuth(SECRET), headers={"X-Mine": "1"})
    server.will(Say(body={}), Say(body={}))
    RestApi(client).config("w h")
    client.with_headers({"X-Theirs": "2"}).ask(Request(method="GET", path="/x"), ConfigResponse)
    first, second = server.asked
    assert first.target == "/at/v1/config?warehouse=w%20h"
    assert (first.headers["X-Mine"], second.headers["X-Theirs"]) == ("1", "2")
    assert first.headers["User-Agent"] == "paimon-assets"
    assert SECRET not in repr(client)


@pytest.mark.parametrize(
    "uri", ["", "ftp://h", "http://u:p@h", "http://u@h", "http://h?a=b", "http://h:x", "http://"]
)
def test_what_is_no_uri_of_a_catalog_is_refused_without_showing_it(uri):
    with pytest.raises(InvalidInputError, match="'uri'") as refused:
        checked_uri(uri)
    assert "u:p" not in str(refused.value)
