"""Authentication, rights, hostile requests, and secrets in logs."""

import base64
import datetime as dt
import hashlib
import http.client
import json
import logging
import socket
from urllib.parse import parse_qsl

import pytest

from paimon_assets import InvalidInputError, Schema, open_catalog
from paimon_assets.engine.control.rest import auth
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.server.app import MOST_BYTES
from paimon_assets.server.authentication import (
    WINDOW_MS,
    BadSignature,
    Head,
    Nonces,
    access_key_of,
    check_body,
    check_head,
)
from paimon_assets.server.principals import Principals
from paimon_assets.server.serve import ServeSettings, app_of
from tests.testkit.rest_server import digest_of, principal, serving
from tests.testkit.rest_tables import commit_body, created, prepared, rename_body, table_body

ADMIN, READER, ETL, BLIND = ("admin-token-1", "reader-token-2", "etl-token-3", "blind-token-4")
KEY, KEY_SECRET = "AKID", "ak-very-secret-5"


@pytest.fixture(scope="module")
def principals(tmp_path_factory):
    folder = tmp_path_factory.mktemp("principals")
    (folder / "ak").write_text(KEY_SECRET)
    path = folder / "principals.toml"
    key = f'access-keys = [{{ id = "{KEY}", secret-file = "ak" }}]'
    path.write_text(
        principal("admin", ADMIN, ("*", ["all"]), more=key)
        + principal("reader", READER, ("db.pub_*", ["select"]))
        + principal("etl", ETL, ("db.*", ["update", "create"]))
        + principal("blind", BLIND)
    )
    return path


@pytest.fixture(scope="module")
def guarded_client(served, principals):
    catalog = open_catalog(served)
    for name in ("pub_a", "secret_a"):
        catalog.create_table(f"db.{name}", Schema.of({"id": "INT", "text": "STRING"}))
    catalog.create_database("hidden")
    with serving(ServeSettings(warehouse=served, principals=principals)) as found:
        yield found


@pytest.fixture(scope="module")
def admin(guarded_client):
    return guarded_client.of(ADMIN)


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer ", "Bearer x", "Basic eDp5", f"Bearer {ADMIN}x", f"bear {ADMIN}",
     "Bearer " + "x" * 9000, "Bearer \xff", digest_of(ADMIN), f"Bearer {digest_of(ADMIN)}"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/v1/config", "databases", "databases/db/tables/pub_a"])
def test_clients_without_token_get_no_answer(guarded_client, authorization, path):
    headers = {} if authorization is None else {"Authorization": authorization}
    answer = guarded_client.ask("GET", path, headers=headers)
    assert answer.error == (401, None, None)
    assert "pub_a" not in answer.body.decode()


def test_health_is_open_and_metrics_are_not(guarded_client, admin):
    assert guarded_client.get("/healthz").json == {"status": "ok"}
    assert guarded_client.get("/metrics").status == 401
    assert admin.get("/metrics").status == 200


def test_server_without_tokens_does_not_start(served, tmp_path):
    with pytest.raises(InvalidInputError, match="--insecure"):
        app_of(ServeSettings(warehouse=served))
    empty = tmp_path / "principals.toml"
    empty.write_text('[[principal]]\nname = "a"\n')
    with pytest.raises(InvalidInputError, match="every request would be refused"):
        app_of(ServeSettings(warehouse=served, principals=empty))


def test_client_options_hold_no_secret(served):
    options = {"s3.secret-key": "hidden!"}
    with pytest.raises(InvalidInputError, match="is a secret") as refused:
        app_of(ServeSettings(warehouse=served, insecure=True, client_options=options))
    assert "hidden!" not in refused.value.message


EVERY_CALL = [
    ("GET", ""), ("DELETE", ""), ("POST", ""), ("POST", "/commit"), ("POST", "/rollback"),
    ("POST", "/rollback-schema"), ("GET", "/snapshot"), ("GET", "/snapshots"),
    ("GET", "/snapshots/1"), ("GET", "/partitions"), ("POST", "/partitions"),
    ("POST", "/partitions/drop"), ("POST", "/partitions/mark"),
    ("POST", "/partitions/list-by-names"), ("POST", "/partitions/list-by-filter"),
    ("GET", "/branches"), ("POST", "/branches"), ("DELETE", "/branches/b"),
    ("POST", "/branches/b/rename"), ("POST", "/branches/b/forward"), ("GET", "/tags"),
    ("POST", "/tags"), ("GET", "/tags/t"), ("DELETE", "/tags/t"), ("GET", "/consumers"),
    ("POST", "/consumers/reset"), ("GET", "/token"), ("POST", "/auth"),
]  # fmt: skip


@pytest.mark.parametrize("token", [BLIND, READER], ids=["blind", "reader"])
@pytest.mark.parametrize(("method", "path"), EVERY_CALL)
def test_existence_of_table_is_hidden(guarded_client, token, method, path):
    asker = guarded_client.of(token)
    body = b"{}" if method == "POST" else None
    answers = [
        asker.ask(method, f"databases/{database}/tables/{table}{path}", body)
        for database, table in (("db", "secret_a"), ("db", "secret_b"), ("no", "secret_a"))
    ]
    shown = {
        (a.status, a.body.decode().replace("secret_b", "secret_a"), tuple(sorted(a.headers)))
        for a in answers
    }
    assert len(shown) == 1
    assert answers[0].status == 403


@pytest.mark.parametrize("kind", ["views", "functions"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_existence_of_view_is_hidden(guarded_client, admin, kind, method):
    view = {"identifier": {"database": "db", "object": "v"}, "schema": {"fields": [], "query": "1"}}
    admin.post("databases/db/views", view)
    admin.post("databases/db/functions", {"name": "v"})
    asker = guarded_client.of(BLIND)
    answers = [asker.ask(method, f"databases/db/{kind}/{name}", b"{}") for name in ("v", "w")]
    assert {answer.status for answer in answers} == {403}


def test_hidden_id_is_not_found(guarded_client, admin):
    known = admin.get("databases/db/tables/secret_a").json["id"]
    asker = guarded_client.of(BLIND)
    unknown = known.translate(str.maketrans("0123456789", "1234567890"))
    found = [asker.get(f"tables/id/{each}") for each in (known, unknown)]
    assert [answer.status for answer in found] == [404, 404]
    assert found[0].body.decode().replace(known, unknown) == found[1].body.decode()


def test_lists_hold_visible_names(guarded_client, admin):
    reader = guarded_client.of(READER)
    assert reader.get("databases").json["databases"] == ["db"]
    assert reader.get("databases/db/tables").json["tables"] == ["pub_a"]
    assert reader.get("tables").json["tables"] == [{"database": "db", "object": "pub_a"}]
    assert guarded_client.of(BLIND).get("databases").json["databases"] == []
    assert guarded_client.of(BLIND).get("databases/db/tables").status == 403
    assert "hidden" in admin.get("databases").json["databases"]
    assert {reader.get(f"databases/{name}").status for name in ("hidden", "no")} == {403}


def test_grants_allow_only_their_operations(guarded_client):
    reader, etl = guarded_client.of(READER), guarded_client.of(ETL)
    pub = "databases/db/tables/pub_a"
    assert reader.get(pub).status == 200
    for method, path in (("POST", ""), ("DELETE", ""), ("POST", "/commit"), ("POST", "/tags")):
        assert reader.ask(method, pub + path, b"{}").status == 403
    assert reader.post("databases/db/tables", table_body("pub_new")).status == 403
    assert etl.post("databases/db/tables", table_body("etl_new")).status == 200
    assert etl.delete("databases/db/tables/etl_new").status == 403
    assert etl.post("databases/db/tables/etl_new", {"changes": []}).status == 403
    assert etl.post("databases/db/tables/etl_new/rollback", {}).status == 403
    assert etl.post("databases", {"name": "x"}).status == 403
    assert etl.delete("databases/db").status == 403
    assert etl.post("tables/rename", rename_body("db.etl_new", "hidden.x")).status == 403


def test_commit_needs_right_to_update(guarded_client, admin):
    table = admin.get("databases/db/tables/pub_a").json
    body = commit_body(table, prepared(table, 1))
    path = "databases/db/tables/pub_a/commit"
    assert guarded_client.of(READER).post(path, body).status == 403
    assert guarded_client.of(ETL).post(path, body).json == {"success": True}


def test_changed_file_of_principals_is_read_again(served, tmp_path):
    path = tmp_path / "p.toml"
    path.write_text(principal("a", "one"))
    with serving(ServeSettings(warehouse=served, principals=path)) as client:
        assert client.of("one").get("databases").status == 200
        path.write_text(principal("a", "two") + "\n")
        assert client.of("one").get("databases").status == 401
        assert client.of("two").get("databases").status == 200
        path.write_text("[[principal]\n")  # invalid: the last valid text counts
        assert client.of("two").get("databases").status == 200


@pytest.mark.parametrize(
    "text",
    [
        'x',
        '[[principal]]\nname = ""',
        '[[principal]]\nnam = "a"',
        '[[principal]]\nname = "a"\ntoken = "plain"',
        '[[principal]]\nname = "a"\ntoken-sha256 = ["short"]',
        '[[principal]]\nname = "a"\ngrants = [{ on = "*", may = ["fly"] }]',
        '[[principal]]\nname = "a"\ngrants = [{ on = "*" }]',
        '[[principal]]\nname = "a"\nroots = "x"',
        '[[principal]]\nname = "a"\ntoken-sha256 = "x"',
        '[[principal]]\nname = "a"\n[[principal]]\nname = "a"',
        '[[principal]]\nname = "a"\naccess-keys = [{ id = "k", secret = "s" }]',
        '[[principal]]\nname = "a"\naccess-keys = [{ id = "k", secret-env = "NO_SUCH_VARIABLE" }]',
    ],
)  # fmt: skip
def test_invalid_file_of_principals_is_refused(text, tmp_path):
    with pytest.raises(InvalidInputError, match="file of principals"):
        Principals.of_toml(text, directory=tmp_path)


def sign_request(
    method, path, body=None, *, algorithm="default", at=None, key=KEY, nonce="n", secret=KEY_SECRET
):
    """Return path, body and headers of a request as a client of DLF sends it."""
    data = None if body is None else json.dumps(body).encode()
    raw, _, query = path.partition("?")
    request = auth.SignedRequest(
        method=method, path=f"/v1/paimon/{raw}", query=dict(parse_qsl(query)), body=data
    )
    signers = {"default": auth.DefaultSigner("r"), "openapi": auth.OpenApiSigner(lambda: nonce)}
    token = auth.DlfToken(access_key_id=key, access_key_secret=secret)
    headers = signers[algorithm].headers(request, token, at or dt.datetime.now(dt.UTC))
    sent = {name.lower(): value for name, value in headers.items() if value}
    return request.path + (f"?{query}" if query else ""), data, sent


@pytest.mark.parametrize("algorithm", ["default", "openapi"])
def test_signed_request_is_accepted_and_changed_one_refused(guarded_client, algorithm):
    path, _, headers = sign_request(
        "GET", "databases?maxResults=5&databaseNamePattern=d%25", algorithm=algorithm
    )
    assert guarded_client.ask("GET", path, headers=headers).status == 200
    assert guarded_client.ask("GET", path.replace("5", "6"), headers=headers).status == 401
    assert (
        guarded_client.ask("GET", path.replace("databases", "views"), headers=headers).status == 401
    )
    body = {"name": f"signed_{algorithm}", "options": {}}
    path, data, headers = sign_request("POST", "databases", body, algorithm=algorithm)
    other = data.replace(b"signed", b"forged")
    assert guarded_client.ask("POST", path, other, headers).status == 401
    assert guarded_client.ask("POST", path, data, headers).status == 200
    if algorithm == "openapi":
        assert guarded_client.ask("POST", path, data, headers).status == 401  # a replay


def test_replay_of_default_algorithm_repeats_no_commit(
    guarded_client, admin, served, principals, name
):
    """The default algorithm has no nonce: a replay finds the commit made."""
    made = created(admin, f"pub_{name}")
    path, data, headers = sign_request(
        "POST", f"databases/db/tables/pub_{name}/commit", commit_body(made, prepared(made, 1))
    )
    with serving(ServeSettings(warehouse=served, principals=principals)) as other:
        first = guarded_client.ask("POST", path, data, headers)
        again = other.ask("POST", path, data, headers)
    assert (first.json, again.json) == ({"success": True}, {"success": True})
    found = admin.get(f"databases/db/tables/pub_{name}/snapshots").json["snapshots"]
    assert [snapshot["id"] for snapshot in found] == [1]


def test_signed_drop_is_accepted_once_by_all_servers_of_warehouse(
    guarded_client, admin, served, principals
):
    created(admin, "pub_replayed")
    path, _, headers = sign_request(
        "DELETE", "databases/db/tables/pub_replayed", algorithm="openapi", nonce="drop"
    )
    assert guarded_client.ask("DELETE", path, headers=headers).status == 200
    made = created(admin, "pub_replayed")
    # Another server, or the same one after a restart, knows the accepted nonces.
    with serving(ServeSettings(warehouse=served, principals=principals)) as other:
        assert other.ask("DELETE", path, headers=headers).status == 401
    assert guarded_client.ask("DELETE", path, headers=headers).status == 401
    assert admin.get("databases/db/tables/pub_replayed").json["id"] == made["id"]


def test_unknown_client_leaves_no_nonce(served, tmp_path, principals):
    open_catalog(str(tmp_path / "w")).create_database("db")
    with serving(ServeSettings(warehouse=str(tmp_path / "w"), principals=principals)) as client:
        before = sorted(tmp_path.rglob("*"))
        for number, secret in enumerate(("x", KEY_SECRET, "")):
            path, data, headers = sign_request(
                *("POST", "databases", {"name": "made"}),
                algorithm="openapi", key="OTHER", nonce=f"n{number}", secret=secret,
            )  # fmt: skip
            assert client.ask("POST", path, data, headers).status == 401
        assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("algorithm", ["default", "openapi"])
@pytest.mark.parametrize("minutes", [-16, 16])
def test_stale_signature_is_refused(guarded_client, algorithm, minutes):
    at = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=minutes)
    path, _, headers = sign_request("GET", "databases", algorithm=algorithm, at=at)
    assert guarded_client.ask("GET", path, headers=headers).status == 401


def test_unknown_key_and_wrong_secret_have_same_answer(guarded_client):
    path, _, headers = sign_request("GET", "databases", key="OTHER")
    unknown = guarded_client.ask("GET", path, headers=headers)
    headers["authorization"] = headers["authorization"].replace("OTHER", KEY)[:-4] + "0000"
    wrong = guarded_client.ask("GET", path, headers=headers)
    assert (unknown.status, unknown.body) == (wrong.status, wrong.body) == (401, wrong.body)


def test_body_of_request_signed_without_one_is_refused(guarded_client):
    path, _, headers = sign_request("POST", "databases", None)
    assert guarded_client.ask("POST", path, b'{"name":"sneaked"}', headers).status == 401


BAD_NAMES = ["..", "%2E%2E", "a%2Fb", "..%2F..", "a%5Cb", "a%00b", "%00", "a%0Ab", ".hidden",
             "%20a", "+", "%ff", "%c0%af", "a%24", "%24branch_", "a%24b%24c"]  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_hostile_names_are_refused(admin, name, method):
    for path in (f"databases/{name}", f"databases/db/tables/{name}", f"databases/db/views/{name}"):
        if path in ("databases/a%24", "databases/a%24b%24c", "databases/%24branch_"):
            continue  # legal names of databases
        if "views/" in path and "%24" in path:
            continue
        answer = admin.ask(method, path, b"{}" if method == "POST" else None)
        assert answer.status in (400, 404), (path, answer)
        assert answer.json["code"] == answer.status


@pytest.mark.parametrize("name", ["..%2F..%2Fx", "%00", "a%2Fb", "a%24b"])
@pytest.mark.parametrize("kind", ["branches", "tags", "snapshots"])
def test_hostile_names_of_versions_are_refused(admin, name, kind):
    answer = admin.get(f"databases/db/tables/pub_a%24branch_{name}/snapshot")
    assert answer.status in (400, 404)
    method = "GET" if kind != "branches" else "DELETE"
    assert admin.ask(method, f"databases/db/tables/pub_a/{kind}/{name}").status in (400, 404)


def test_quoted_slash_is_part_of_name(admin):
    assert admin.get("databases%2Fdb").status == 404
    assert admin.get("databases/db%2Ftables%2Fpub_a").status == 400
    assert admin.get("databases/db/tables/pub_a%2Fsnapshot").status == 400
    assert admin.get("databases//tables").status == 404


def test_large_body_is_refused_before_it_is_read(guarded_client, admin):
    with socket.create_connection(("127.0.0.1", guarded_client.port), timeout=20) as raw:
        raw.sendall(
            b"POST /v1/paimon/databases HTTP/1.1\r\nHost: x\r\n"
            b"Authorization: Bearer " + ADMIN.encode() + b"\r\n"
            b"Content-Length: " + str(MOST_BYTES + 1).encode() + b"\r\n\r\n"
        )
        assert b" 413 " in raw.recv(200)


def test_body_of_unknown_length_is_cut(served, guarded_client, monkeypatch):
    monkeypatch.setattr("paimon_assets.server.app.MOST_BYTES", 1000)
    with serving(ServeSettings(warehouse=served, insecure=True)) as client:
        connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
        connection.request(
            "POST", "/v1/paimon/databases", iter([b"x" * 600] * 2), encode_chunked=True,
            headers={"Transfer-Encoding": "chunked"},
        )  # fmt: skip
        assert connection.getresponse().status == 413
        connection.close()


def test_client_without_token_sends_no_body(guarded_client):
    with socket.create_connection(("127.0.0.1", guarded_client.port), timeout=20) as raw:
        raw.sendall(
            b"POST /v1/paimon/databases HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\n"
        )
        assert b" 401 " in raw.recv(200)  # answered without the body


@pytest.mark.parametrize(
    "body",
    [
        b'{"identifier":{"database":"db","object":"\\ud800"}}',
        b'{"identifier":null}',
        b'{"identifier":{"database":"db","object":"x"},"schema":' + b'{"fields":[' * 2000,
        b'{"identifier":{"database":1,"object":["x"]},"schema":{}}',
        b"\x00\x01\x02",
        b'{"a":' + b"9" * 5000 + b"}",
    ],
)
def test_hostile_bodies_are_400(admin, body):
    for path in ("databases/db/tables", "databases/db/views", "databases/db/tables/pub_a/commit"):
        assert admin.post(path, body).status == 400


def test_no_token_is_in_any_log_or_answer(served, principals, caplog):
    caplog.set_level(logging.DEBUG)
    with serving(ServeSettings(warehouse=served, principals=principals)) as client:
        answers = []
        for token in (ADMIN, "wrong-token-6"):
            asker = client.of(token)
            answers += [asker.get("databases"), asker.post("databases", {"name": "logged"})]
            answers += [asker.post("databases", {"name": "../x"}), asker.get("nothing")]
        path, data, headers = sign_request("POST", "databases", {"name": "logged2"})
        answers.append(client.ask("POST", path, data, headers))
        assert repr(app_of(ServeSettings(warehouse=served, principals=principals)))
    shown = caplog.text + "".join(str(record.__dict__) for record in caplog.records)
    shown += "".join(f"{answer.body!r}{answer.headers}" for answer in answers)
    signature = headers["authorization"].rpartition("=")[2]
    for secret in (ADMIN, "wrong-token-6", KEY_SECRET, signature, digest_of(ADMIN)):
        assert secret not in shown


def test_change_leaves_one_audit_line(served, principals, audit_lines):
    with serving(ServeSettings(warehouse=served, principals=principals)) as client:
        made = client.of(ADMIN).post("databases", {"name": "audited"})
        refused = client.of(ETL).post("databases", {"name": "audited2"})
        client.of(ETL).get("databases")
    lines = [json.loads(line) for line in audit_lines()]
    assert [(line["principal"], line["operation"], line["status"]) for line in lines] == [
        ("admin", "createDatabase", 200),
        ("etl", "createDatabase", 403),
    ]
    assert [line["request"] for line in lines] == [
        made.headers["x-request-id"],
        refused.headers["x-request-id"],
    ]
    assert lines[0]["database"] == "audited"


def test_names_cannot_forge_audit_line(admin, audit_lines):
    admin.delete('databases/x%0A%7B"principal":"other"%7D')
    [line] = audit_lines()
    assert "\n" not in line
    assert json.loads(line)["principal"] == "admin"


def test_long_names_flood_no_log_and_no_answer(admin, audit_lines):
    answer = admin.post("databases/db/tables/pub_a/branches", {"branch": "/" * 1_000_000})
    assert answer.status == 400
    assert len(answer.body) < 10_000
    [line] = audit_lines()
    assert len(line) < 2000


NOW = dt.datetime(2025, 3, 6, 13, 11, 44, tzinfo=dt.UTC)
BODY = b'{"name":"db1","options":{}}'
VECTOR_1 = "54948f26e82152e6052980024ee85457201e1c59bff7c11f6041a9a74fe72d5d"
VECTOR_2 = "112bcf7ddc4962ca02d470dc83f5fcb45501ed7dc7e446dc273513618a3e35df"


class At:
    """A clock that always shows one time."""

    def __init__(self, off_ms=0):
        self.millis = int(NOW.timestamp() * 1000) + off_ms

    def now_millis(self):
        return self.millis


def dlf(method="GET", query=(), signature=VECTOR_2, **headers):
    credential = "Credential=AKID/20250306/cn-hangzhou/DlfNext/aliyun_v4_request"
    return Head(
        method=method,
        path="/v1/paimon/databases",
        query=query,
        headers={
            "x-dlf-date": "20250306T131144Z",
            "x-dlf-version": "v1",
            "x-dlf-content-sha256": "UNSIGNED-PAYLOAD",
            "authorization": f"DLF4-HMAC-SHA256 {credential},Signature={signature}",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        },
    )


def post():
    return dlf(
        "POST",
        (("maxResults", "10"),),
        VECTOR_1,
        content_type="application/json",
        content_md5="Rs+25PQC+FJtNEZhyqUSkQ==",
        **{"x-dlf-security-token": "STS-TOKEN"},
    )


def acs(method="POST", nonce="n-1", date="Thu, 06 Mar 2025 13:11:44 GMT", query=()):
    md5 = base64.b64encode(hashlib.md5(BODY, usedforsecurity=False).digest()).decode()
    headers = {
        "date": date,
        "accept": "application/json",
        "content-md5": md5,
        "content-type": "application/json",
        "x-acs-signature-method": "HMAC-SHA1",
        "x-acs-signature-nonce": nonce,
        "x-acs-signature-version": "1.0",
        "x-acs-version": "2026-01-18",
    }
    path = "/v1/p/databases/a%2Fb+c"
    request = auth.SignedRequest(method=method, path=path, query=dict(query))
    signature = auth.OpenApiSigner().signature(request, headers, "AKSECRET")
    return Head(
        method=method,
        path=path,
        query=query,
        headers={**headers, "authorization": f"acs AKID:{signature}"},
    )


def check(head, *, clock=None, key="AKSECRET"):
    check_head(head, key, clock=clock or At())


def test_vectors_of_java():
    check(post())
    check(dlf())
    check_body(post(), BODY)


@pytest.mark.parametrize("head", [dlf(), acs()], ids=["default", "openapi"])
def test_signature_of_another_secret_is_refused(head):
    assert access_key_of(head.headers["authorization"]) == "AKID"
    with pytest.raises(BadSignature, match="another's"):
        check(head, key="AKSECRET2")


@pytest.mark.parametrize("head", [dlf(), acs()], ids=["default", "openapi"])
@pytest.mark.parametrize("sign", [1, -1])
def test_signature_is_accepted_inside_window(head, sign):
    check(head, clock=At(sign * WINDOW_MS))
    with pytest.raises(BadSignature, match="seconds off"):
        check(head, clock=At(sign * (WINDOW_MS + 1000)))


@pytest.mark.parametrize(
    "changed",
    [
        {"method": "DELETE"},
        {"path": "/v1/paimon/databases/x"},
        {"query": (("maxResults", "11"),)},
        {"headers": {**post().headers, "content-md5": "AAAA"}},
        {"headers": {**post().headers, "x-dlf-security-token": "OTHER"}},
        {"headers": {**post().headers, "x-dlf-date": "20250306T131145Z"}},
    ],
)
def test_change_of_signed_part_is_refused(changed):
    head = post()
    parts = {name: getattr(head, name) for name in ("method", "path", "query", "headers")}
    with pytest.raises(BadSignature, match="another's"):
        check(Head(**{**parts, **changed}))


@pytest.mark.parametrize("date", ["", "yesterday", "20250307T131144Z", "20250306T9999"])
def test_date_of_another_day_is_refused(date):
    with pytest.raises(BadSignature):
        check(dlf(x_dlf_date=date))


def test_body_must_match_its_digest():
    with pytest.raises(BadSignature):
        check_body(post(), BODY + b" ")
    with pytest.raises(BadSignature):
        check_body(dlf(), b"{}")  # none was signed
    with pytest.raises(BadSignature):
        check_body(post(), b"")
    check_body(dlf(), b"")


@pytest.fixture
def nonces(tmp_path):
    return Nonces(LocalFileIO(), str(tmp_path / "nonces"), At())


def test_released_nonce_can_be_used_again(nonces):
    nonces.release(nonces.use(acs()))
    nonces.use(acs())


def test_stale_nonces_are_deleted(tmp_path):
    for off, folders in ((0, 1), (2 * WINDOW_MS, 1), (3 * WINDOW_MS, 0)):
        Nonces(LocalFileIO(), str(tmp_path), At()).use(acs(nonce=str(off)))
        Nonces(LocalFileIO(), str(tmp_path), At(off))._clean()
        assert len(list(tmp_path.iterdir())) == folders
    (tmp_path / "other").mkdir()
    Nonces(LocalFileIO(), str(tmp_path), At(10 * WINDOW_MS)).use(acs())
    assert (tmp_path / "other").exists()


@pytest.mark.parametrize("text", ["", "Bearer x", "DLF4-HMAC-SHA256 x", "acs a:b", "acs :="])
def test_invalid_signature_names_no_key(text):
    assert access_key_of(text) is None
