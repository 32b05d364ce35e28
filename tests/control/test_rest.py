"""Requests of the REST client to a real server that fails by a script."""

import datetime as dt
import json
import socket

import pytest

from paimon_assets.engine import errors
from paimon_assets.engine.codec.rest import bodies
from paimon_assets.engine.control.catalog.rest_catalog import TableStorage
from paimon_assets.engine.control.rest import http_client
from paimon_assets.engine.control.rest.auth import (
    BearerAuth,
    DefaultSigner,
    DlfAuth,
    DlfToken,
    OpenApiSigner,
    SignedRequest,
    auth_of,
)
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.fileio.delegating import RenewedFileIO
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.fileio.opening import current_spec, open_file_io
from tests.testkit.builders import snapshot as a_snapshot
from tests.testkit.errors import refused
from tests.testkit.http_servers import Say, ScriptedServer
from tests.testkit.metadata_tables import FixedClock

SECRET = "very-secret-token"  # noqa: S105
TABLES = ("databases", "db", "tables")
T = (*TABLES, "t")
GOOD = Say(body={"success": True})
LOST = Say(silent=True)
CUT = Say(body={"success": True}, cut=True)


class NotedClock(FixedClock):
    """Time that passes only while a caller waits."""

    @property
    def waited(self) -> list[float]:
        return [millis / 1000 for millis in self.waits]

    def sleep_millis(self, millis: float) -> None:
        FixedClock.sleep_millis(self, millis)
        self.now += int(millis)


@pytest.fixture
def server():
    with ScriptedServer().running() as running:
        yield running


@pytest.fixture
def pacing():
    return NotedClock()


@pytest.fixture
def api(server, pacing):
    pace = http_client.Pace(clock=pacing, random_fraction=lambda: 0.0, timeout_s=0.3)
    client = http_client.HttpClient(server.uri, BearerAuth(SECRET), secrets=(SECRET,), pace=pace)
    return http_client.RestApi(client, "p")


def databases(api):
    return api.list_all(("databases",), bodies.ListDatabasesResponse, "databases")


def commit(api):
    request = bodies.CommitRequest(
        table_id="u", base_snapshot_uuid=None, snapshot=a_snapshot(id=1), statistics=()
    )
    return api.post((*T, "commit"), request, bodies.CommitResponse).success


def error(status, kind=None, **headers):
    body = {"message": "no", "resourceType": kind, "resourceName": "x", "code": status}
    return Say(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


def test_busy_server_is_retried_after_its_delay(api, server, pacing):
    server.will(error(429, Retry_After="7"), error(503), error(503), GOOD)
    assert commit(api)
    assert pacing.waited == [7, 2, 4]
    assert len({asked.body for asked in server.asked}) == 1


def test_retry_after_may_be_date(api, server, pacing):
    soon = dt.datetime.fromtimestamp(pacing.now / 1000 + 5, tz=dt.UTC)
    server.will(error(503, Retry_After=soon.strftime("%a, %d %b %Y %H:%M:%S GMT")))
    server.will(error(503, Retry_After="soon"), GOOD)
    assert commit(api)
    assert pacing.waited == [5, 2]


def test_permanently_busy_server_is_definite_failure(api, server, pacing):
    server.will(*[error(429)] * 6)
    with pytest.raises(errors.StorageError, match="429"):
        commit(api)
    assert pacing.waited == [1, 2, 4, 8, 16]


@pytest.mark.parametrize(
    ("status", "expected", "kind"),
    [
        (400, errors.InvalidInputError, "refused"),
        (401, errors.AccessDeniedError, "unauthorized"),
        (403, errors.AccessDeniedError, "forbidden"),
        (404, errors.NotFoundError, "not-found"),
        (409, errors.AlreadyExistsError, "exists"),
        (501, errors.UnsupportedFeatureError, "server-unsupported"),
    ],
)
def test_refusal_of_server_is_definite(api, server, status, expected, kind):
    server.will(error(status), Say(status, b"<html>a proxy's page"), Say(status))
    for _ in range(3):
        with refused(expected, kind=kind):
            commit(api)
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("status", "resource", "kind"),
    [
        *((404, name.upper(), f"{name}-not-found") for name in ("table", "tag", "snapshot")),
        (409, "TAG", "tag-exists"),
    ],
)
def test_resource_type_selects_error_kind(api, server, status, resource, kind):
    server.will(error(status, resource))
    with refused(errors.InvalidInputError, kind=kind):
        api.get((*T, "tags", "x"), bodies.TagResponse)


@pytest.mark.parametrize(
    "answer",
    [LOST, CUT, error(500), error(502), Say(body=b"{}"), Say(body=b"<html>"), Say(hangs=True)],
    ids=["lost", "cut", "500", "502", "nothing said", "no JSON", "silence"],
)
def test_commit_without_answer_is_unknown_and_not_resent(api, server, answer):
    server.will(answer, GOOD)
    with pytest.raises(errors.CommitUnknownError):
        commit(api)
    assert len(server.asked) == 1


@pytest.mark.parametrize("last", [error(503), error(404, "TABLE")], ids=["503", "404"])
def test_possible_commit_stays_unknown_after_later_answers(api, server, last):
    server.will(*[error(503)] * 5, last)
    with pytest.raises(errors.CommitUnknownError):
        commit(api)


def test_lost_race_is_no_error(api, server):
    server.will(Say(body={"success": False}))
    assert not commit(api)


def test_reading_requests_are_repeated(api, server, pacing):
    server.will(LOST, Say(body={"databases": ["a"]}, cut=True), Say(body={"databases": ["a"]}))
    assert databases(api) == ["a"]
    assert pacing.waited == [1, 2]


def test_read_that_fails_is_storage_error(api, server):
    server.will(error(500), Say(hangs=True), Say(body=b"{"))
    for expected in (errors.StorageError, errors.StorageError, errors.FormatError):
        with pytest.raises(expected):
            databases(api)


def test_repeated_deletion_of_missing_item_is_success(api, server):
    server.will(LOST, error(404, "TABLE"))
    api.delete(T)
    server.will(error(404, "TABLE"))
    with pytest.raises(errors.NotFoundError):
        api.delete(T)


def test_refused_connection_is_definite(pacing):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    api = http_client.RestApi(
        http_client.HttpClient(f"127.0.0.1:{port}", pace=http_client.Pace(clock=pacing))
    )
    with refused(errors.StorageError, "no connection", kind="server-unreachable"):
        commit(api)
    assert pacing.waited == []


def test_all_pages_are_requested(api, server):
    server.will(
        Say(body={"tables": ["a"], "nextPageToken": "a"}),
        Say(body={"tables": ["b"], "nextPageToken": "b"}),
        Say(body={"tables": None, "nextPageToken": ""}),
    )
    assert api.list_all(TABLES, bodies.ListTablesResponse, "tables") == ["a", "b"]
    assert [asked.target for asked in server.asked] == [
        "/v1/p/databases/db/tables",
        "/v1/p/databases/db/tables?pageToken=a",
        "/v1/p/databases/db/tables?pageToken=b",
    ]
    server.will(*[Say(body={"databases": ["a"], "nextPageToken": "a"})] * 2)
    with pytest.raises(errors.StorageError, match="circle"):
        databases(api)


def test_names_are_encoded_as_by_java(api, server):
    server.will(Say(404))
    with pytest.raises(errors.NotFoundError):
        api.get(("databases", "d b", "tables", "x~*%2F/é$branch_b"), bodies.TableResponse)
    (asked,) = server.asked
    assert asked.target == "/v1/p/databases/d+b/tables/x%7E*%252F%2F%C3%A9%24branch_b"


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_traversing_names_are_not_requested(api, server, name):
    with pytest.raises(errors.InvalidInputError, match="no name"):
        api.get((*T, "tags", name), bodies.TagResponse)
    assert server.asked == []


def test_authentication_headers_are_sent_alone(api, server, tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password mine")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    server.will(Say(body={"databases": []}, headers={"Set-Cookie": "a=b"}))
    server.will(Say(body={"databases": []}))
    databases(api)
    databases(api)
    for asked in server.asked:
        assert asked.headers["Authorization"] == f"Bearer {SECRET}"
        assert "Cookie" not in asked.headers


def test_redirect_is_not_followed(api, server):
    with ScriptedServer().running() as other:
        server.will(Say(307, headers={"Location": f"{other.uri}/v1/p/databases"}))
        with pytest.raises(errors.StorageError, match="307"):
            databases(api)
        assert other.asked == []


def test_no_message_shows_secret(api, server):
    leaking = f"bad token {SECRET} at https://u:pw@h/x?Signature=abc"
    server.will(Say(400, {"message": leaking}, {"x-request-id": f"r-{SECRET}"}))
    with pytest.raises(errors.InvalidInputError) as refused:
        databases(api)
    shown = f"{refused.value} {refused.value.details} {refused.value.__cause__!r}"
    assert SECRET not in shown
    assert "pw" not in shown
    assert "Signature=abc" not in shown
    assert "request r-******" in shown


def test_client_is_identified_once(server, pacing):
    client = http_client.HttpClient(
        f"{server.uri}/at/", BearerAuth(SECRET), headers={"X-Mine": "1"}
    )
    server.will(Say(body={}), Say(body={}))
    http_client.RestApi(client).config("w h")
    client.with_headers({"X-Theirs": "2"}).ask(
        http_client.Request(method="GET", path="/x"), bodies.ConfigResponse
    )
    first, second = server.asked
    assert first.target == "/at/v1/config?warehouse=w%20h"
    assert (first.headers["X-Mine"], second.headers["X-Theirs"]) == ("1", "2")
    assert first.headers["User-Agent"] == "paimon-assets"
    assert SECRET not in repr(client)


@pytest.mark.parametrize(
    "uri", ["", "ftp://h", "http://u:p@h", "http://u@h", "http://h?a=b", "http://h:x", "http://"]
)
def test_invalid_uri_is_refused_without_showing_it(uri):
    with pytest.raises(errors.InvalidInputError, match="'uri'") as refused:
        http_client.checked_uri(uri)
    assert "u:p" not in str(refused.value)


NOW = dt.datetime(2025, 3, 6, 13, 11, 44, tzinfo=dt.UTC)
NOW_MS = int(NOW.timestamp() * 1000)
HOUR_MS = 3_600_000
KEY = DlfToken(access_key_id="AKID", access_key_secret="AKSECRET")  # noqa: S106
STS = DlfToken(access_key_id="AKID", access_key_secret="AKSECRET", security_token="STS-TOKEN")  # noqa: S106
CREATE = SignedRequest(
    method="POST",
    path="/v1/paimon/databases",
    query={"maxResults": "10"},
    body=b'{"name":"db1","options":{}}',
    host="dlfnext.cn-hangzhou.aliyuncs.com",
)
LIST = SignedRequest(method="GET", path="/v1/paimon/databases", query={}, host=CREATE.host)
ODD = SignedRequest(
    method="GET",
    path="/v1/paimon/databases/my+db%2F%E4%BD%A0",
    query={"tableNamePattern": "a b%", "pageToken": "", "maxResults": "5"},
    host=CREATE.host,
)
"""Signed by Java 1.4.2's `DLFDefaultSigner` and `DLFOpenApiSigner`."""


def nothing(url):
    raise AssertionError(url)


@pytest.mark.parametrize(
    ("request_", "token", "signature"),
    [
        (CREATE, STS, "54948f26e82152e6052980024ee85457201e1c59bff7c11f6041a9a74fe72d5d"),
        (LIST, KEY, "112bcf7ddc4962ca02d470dc83f5fcb45501ed7dc7e446dc273513618a3e35df"),
        (ODD, KEY, "2127a8735c8bdada0bb514e70265b13f7939a550d11b217ae4eb8250a6b11618"),
    ],
)
def test_default_signature_is_javas(request_, token, signature):
    headers = DefaultSigner("cn-hangzhou").headers(request_, token, NOW)
    scope = "20250306/cn-hangzhou/DlfNext/aliyun_v4_request"
    assert headers["Authorization"] == (
        f"DLF4-HMAC-SHA256 Credential=AKID/{scope},Signature={signature}"
    )
    assert headers["x-dlf-date"] == "20250306T131144Z"
    has_body = request_.body is not None
    assert headers.get("Content-MD5") == ("Rs+25PQC+FJtNEZhyqUSkQ==" if has_body else None)
    assert headers.get("x-dlf-security-token") == token.security_token


@pytest.mark.parametrize(
    ("request_", "token", "signature"),
    [
        (CREATE, STS, "LAGk8hwXfeRv05a49AFDbHNxFEw="),
        (ODD, KEY, "bdxl3FRha9xsFxACyaOcE+EifwM="),
        (LIST, KEY, "O8IA14mW5cgV38/FNghwslqXXpk="),
    ],
)
def test_openapi_signature_is_javas(request_, token, signature):
    headers = OpenApiSigner(lambda: "nonce").headers(request_, token, NOW)
    assert headers["Authorization"] == f"acs AKID:{signature}"
    assert headers["Date"] == "Thu, 06 Mar 2025 13:11:44 GMT"
    assert headers["Host"] == "dlfnext.cn-hangzhou.aliyuncs.com"


def test_openapi_requests_have_unique_nonces():
    first, second = (OpenApiSigner().headers(LIST, KEY, NOW) for _ in range(2))
    assert first["x-acs-signature-nonce"] != second["x-acs-signature-nonce"]


def dlf(**options):
    options = {key.replace("_", "-"): value for key, value in options.items()}
    return {"token.provider": "dlf", **{f"dlf.{key}": value for key, value in options.items()}}


KEYS = {"access_key_id": "AKID", "access_key_secret": "AKSECRET"}


def test_uri_sets_region_and_signer_unless_given():
    def signer(uri, **options):
        found = auth_of({"uri": uri, **dlf(**KEYS, **options)}, FixedClock(NOW_MS), nothing)
        assert isinstance(found, DlfAuth)
        return found.signer

    assert signer("http://pre-cn-beijing-vpc.dlf.example") == DefaultSigner("cn-beijing")
    assert signer("http://h", region="eu-1") == DefaultSigner("eu-1")
    assert isinstance(signer("http://DlfNext.cn-hangzhou.example"), OpenApiSigner)
    named = signer("http://dlfnext.cn-hangzhou.example", signing_algorithm="default")
    assert named == DefaultSigner("cn-hangzhou")


def test_token_alone_is_bearer_token():
    for provider in ({}, {"token.provider": "bear"}):
        found = auth_of({"token": "abc", **provider}, FixedClock(NOW_MS), nothing)
        assert found == BearerAuth("abc")
        assert found.headers(LIST) == {"Authorization": "Bearer abc"}
        assert "abc" not in repr(found)


def test_without_provider_and_token_requests_carry_no_credentials():
    assert auth_of({"uri": "http://h"}, FixedClock(NOW_MS), nothing) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"token.provider": "kerberos"}, "kerberos is not known"),
        ({"token.provider": "bear"}, "'token' is missing"),
        ({"token": "a\nb"}, "'token' holds a character"),
        (dlf(region="r-1"), "'dlf.access-key-id' is missing"),
        (dlf(region="r-1", access_key_id="a"), "'dlf.access-key-secret' is missing"),
        ({"uri": "http://h", **dlf(**KEYS)}, "'dlf.region' is missing"),
        (dlf(**KEYS, region="r", signing_algorithm="v9"), "v9 is not known"),
        (dlf(region="r", token_loader="vault"), "vault is not known"),  # noqa: S106
        (dlf(region="r", token_loader="local_file"), "'dlf.token-path' is missing"),  # noqa: S106
    ],
)
def test_incomplete_options_are_refused(options, message):
    with pytest.raises(errors.InvalidInputError, match=message):
        auth_of(options, FixedClock(NOW_MS), nothing)


def token_text(key, ends=None):
    members = {"AccessKeyId": key, "AccessKeySecret": "s", "SecurityToken": "t"}
    return json.dumps({**members, "Expiration": ends} if ends else members)


def test_token_file_is_read_again_hour_before_expiry(tmp_path):
    path = tmp_path / "token"
    path.write_text(token_text("first", "2025-03-06T15:00:00Z"))
    clock = FixedClock(NOW_MS)
    auth = auth_of(dlf(region="r", token_path=str(path)), clock, nothing)

    def key():
        return auth.headers(LIST)["Authorization"].split("Credential=")[1].split("/")[0]

    assert key() == "first"
    path.write_text(token_text("second"))
    assert key() == "first"
    clock.now += HOUR_MS
    assert key() == "second"
    path.unlink()
    clock.now += 100 * HOUR_MS
    assert key() == "second"  # has no end


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"AccessKeyId":"a"}', token_text("SECRET", "soon"), "[" * 100_000],
    ids=range(6),
)
def test_damaged_token_file_is_named_and_not_shown(tmp_path, text):
    path = tmp_path / "token"
    path.write_text(text)
    auth = auth_of(dlf(region="r", token_path=str(path)), FixedClock(NOW_MS), nothing)
    with pytest.raises(errors.InvalidInputError, match=f"{path}.*AccessKeyId") as refused:
        auth.headers(LIST)
    assert "SECRET" not in f"{refused.value}{refused.value.__cause__}"
    path.unlink()
    with pytest.raises(errors.InvalidInputError, match=f"{path}"):
        auth.headers(LIST)


def test_machine_role_provides_keys():
    asked = []

    def fetch(url):
        asked.append(url)
        return b"my-role\n" if url.endswith("/") else token_text("AKID").encode()

    options = dlf(region="r", token_loader="ecs", token_ecs_metadata_url="http://m/x/")  # noqa: S106
    auth = auth_of(options, FixedClock(NOW_MS), fetch)
    assert asked == []
    assert "Credential=AKID/" in auth.headers(LIST)["Authorization"]
    auth.headers(LIST)
    assert asked == ["http://m/x/", "http://m/x/my-role"]
    named = auth_of({**options, "dlf.token-ecs-role-name": "other"}, FixedClock(NOW_MS), fetch)
    named.headers(LIST)
    assert asked[2:] == ["http://m/x/other"]


def test_machine_without_role_is_named():
    def fetch(url):
        raise errors.StorageError("404")

    options = dlf(region="r", token_loader="ecs")  # noqa: S106
    with pytest.raises(errors.StorageError):
        auth_of(options, FixedClock(NOW_MS), fetch).headers(LIST)
    with pytest.raises(errors.InvalidInputError, match="no role"):
        auth_of(options, FixedClock(NOW_MS), lambda _: b"<html> no").headers(LIST)


class Issuer:
    """Hands out one token after the other, each for `lives_ms`."""

    def __init__(self, clock, **token) -> None:
        self.clock, self.token, self.asked, self.lives_ms = clock, token, 0, 12 * HOUR_MS

    def __call__(self) -> bodies.TokenResponse:
        self.asked += 1
        token = {key: f"{value}{self.asked}" for key, value in self.token.items()}
        return bodies.TokenResponse(token=token, expires_at_millis=self.clock.now + self.lives_ms)


@pytest.fixture
def clock():
    return FixedClock(1_000 * HOUR_MS)


def storage(path, options, issuer):
    opened = TableStorage(path, options, issuer, issuer.clock)
    return RenewedFileIO(opened.open)


def test_token_is_cached_until_hour_before_expiry(tmp_path, clock):
    issuer = Issuer(clock, any="value")
    file_io = storage(str(tmp_path), {}, issuer)
    assert issuer.asked == 0
    file_io.write_bytes(f"{tmp_path}/a", b"1")
    clock.now += 11 * HOUR_MS
    assert file_io.read_bytes(f"{tmp_path}/a") == b"1"
    assert issuer.asked == 1
    clock.now += 1
    assert file_io.exists(f"{tmp_path}/a")
    assert issuer.asked == 2


def test_short_lived_token_is_requested_each_time(tmp_path, clock):
    issuer = Issuer(clock)
    issuer.lives_ms = HOUR_MS - 1
    file_io = storage(str(tmp_path), {}, issuer)
    assert (file_io.exists("/a"), file_io.exists("/a"), issuer.asked) == (False, False, 2)


def test_tasks_get_token_and_expiry_without_catalog_keys(clock):
    token = {
        "fs.s3a.access.key": "k", "fs.s3a.secret.key": "s", "fs.s3a.session.token": "t",
    }  # fmt: skip
    of_catalog = {
        "s3.access-key": "CATALOG",
        "s3.secret-key": "CATALOG",
        "fs.s3a.session.token": "CATALOG",
        "s3.endpoint": "http://e",
        "token": "CATALOG",
        "dlf.access-key-secret": "CATALOG",
    }
    issuer = Issuer(clock, **token)
    spec = storage("s3://bucket/t", of_catalog, issuer).spec
    assert spec.expires_ms == clock.now + 12 * HOUR_MS
    assert spec.options == {
        "s3.endpoint": "http://e",
        "s3.access-key": "k1",
        "s3.secret-key": "s1",
        "s3.session-token": "t1",
    }
    assert "k1" not in repr(spec)


def test_expired_credentials_are_refused(tmp_path, clock):
    clock.now = 0  # long ago
    spec = storage(str(tmp_path), {}, Issuer(clock)).spec
    with refused(errors.StorageError, kind="token-expired"):
        open_file_io(spec)


def test_endpoint_of_options_wins_over_that_of_token(clock):
    issuer = Issuer(clock, **{"fs.oss.endpoint": "theirs", "fs.oss.accessKeyId": "k"})
    opened = TableStorage(f"memory:/{id(clock)}", {"dlf.oss-endpoint": "ours"}, issuer, clock)
    assert opened.options_with(issuer())["oss.endpoint"] == "ours"
    opened = TableStorage(f"memory:/{id(clock)}", {}, issuer, clock)
    assert opened.options_with(issuer()) == {"oss.endpoint": "theirs2", "oss.key": "k2"}


def test_catalog_that_gives_no_token_opens_nothing(tmp_path, clock):
    def refuse():
        raise errors.StorageError("no token")

    file_io = RenewedFileIO(TableStorage(str(tmp_path), {}, refuse, clock).open)
    with pytest.raises(errors.StorageError, match="no token"):
        file_io.read_bytes(f"{tmp_path}/a")


def test_token_is_used_to_expiry_if_catalog_is_down(tmp_path, clock):
    issuer, is_down = Issuer(clock, **{"fs.s3a.access.key": "k"}), [False]

    def ask():
        if is_down[0]:
            issuer.asked += 1
            raise errors.StorageError("not there", kind="server-unreachable")
        return issuer()

    file_io = RenewedFileIO(TableStorage("s3://bucket/t", {}, ask, clock).open)
    first, is_down[0] = file_io.spec, True
    clock.now += 11 * HOUR_MS + 1
    assert [file_io.spec, file_io.spec, issuer.asked] == [first, first, 2]
    clock.now += 60_000
    assert [file_io.spec, issuer.asked] == [first, 3]
    with pytest.raises(errors.StorageError, match="not there"):
        file_io.renewed_spec(first)  # the storage takes it no more
    clock.now += HOUR_MS
    with pytest.raises(errors.StorageError, match="not there"):
        _ = file_io.spec
    is_down[0] = False
    assert file_io.spec != first


class Guarded(LocalFileIO):
    """A storage that refuses some credentials, as object stores do before a token's end."""

    def __init__(self, spec, refused) -> None:
        self.own, self.refused = spec, refused

    @property
    def spec(self):
        return self.own

    def read_bytes(self, path):
        if self.own.options["s3.access-key"] in self.refused:
            raise errors.StorageError("refused", kind=errors.ACCESS_DENIED)
        return super().read_bytes(path)


def test_refused_token_is_requested_again(tmp_path):
    refused, given = {"k1", "k3"}, []

    def open_guarded(spec):
        if spec is not None or not given:
            given.append(f"k{len(given) + 1}")
        return Guarded(FileIOSpec(options={"s3.access-key": given[-1]}), refused), 1

    file_io, path = RenewedFileIO(open_guarded), tmp_path / "a"
    path.write_bytes(b"content")
    assert file_io.read_bytes(str(path)) == b"content"
    assert given == ["k1", "k2"]
    refused.add("k2")
    with pytest.raises(errors.StorageError, match="refused"):
        file_io.read_bytes(str(path))
    assert given == ["k1", "k2", "k3"]


def test_tasks_get_new_token_after_refusal(clock):
    issuer = Issuer(clock, **{"fs.s3a.access.key": "k"})
    file_io = storage("s3://bucket/t", {}, issuer)
    first = file_io.spec
    assert (current_spec(first), issuer.asked) == (first, 1)
    other = current_spec(first, is_refused=True)
    assert other.options == {"s3.access-key": "k2"}
    assert current_spec(first, is_refused=True) == other  # another thread has asked already
    assert issuer.asked == 2


def test_repeated_refused_token_opens_nothing_again(clock):
    opened = TableStorage("s3://bucket/t", {}, issuer := Issuer(clock), clock)
    first, ends = opened.open()
    clock.now += 1
    again, later = opened.open(first.spec)
    assert again is first
    assert (later - ends, issuer.asked) == (1, 2)
