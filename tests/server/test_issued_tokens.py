"""Data tokens: the keys that principals receive for the files of a table."""

import json
import logging
import os
import subprocess
import sys

import fsspec  # type: ignore[import-untyped]  # because it ships no types
import pytest
from msgspec.structs import replace

from paimon_assets import InvalidInputError, Schema, open_catalog
from paimon_assets.server.issued_tokens import DataTokens
from paimon_assets.server.principals import Action
from paimon_assets.server.serve import ServeSettings, app_of
from tests.testkit.rest_server import ROOT, principal, server_process, serving
from tests.testkit.rest_tables import table_body

pytestmark = pytest.mark.slow

HOUR_MS = 3_600_000
TOKENS = """
hours = 3
[update]
"s3.access-key" = "WRITER"
"s3.secret-key" = { secret-file = "writer" }
[select]
"s3.access-key" = "READER"
"s3.secret-key" = { secret-env = "SECRET_OF_READER" }
"""
READER, WRITER = "the-secret-of-the-reader", "the-secret-of-the-writer"
GRANTS = {
    "etl": ("db.*", ["update"]),
    "analyst": ("db.pub_*", ["select"]),
    "clerk": ("db.*", ["describe"]),
    "admin": ("*", ["all"]),
    "admin-of-all": ("*", ["all"]),
}


class Clock:
    def __init__(self):
        self.now = 1_000 * HOUR_MS

    def now_millis(self):
        return self.now


@pytest.fixture(scope="module")
def settings(served, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "writer").write_text(WRITER + "\n")
    (folder / "tokens.toml").write_text(TOKENS)
    (folder / "principals.toml").write_text(
        "".join(
            principal(f"principal {number}", name, grant)
            for number, (name, grant) in enumerate(GRANTS.items())
        )
    )
    catalog = open_catalog(served)
    for name in ("pub_a", "secret_a"):
        catalog.create_table(f"db.{name}", Schema.of({"id": "INT"}))
    return ServeSettings(
        warehouse=served, principals=folder / "principals.toml", data_tokens=folder / "tokens.toml"
    )


@pytest.fixture(scope="module")
def clock():
    return Clock()


@pytest.fixture(scope="module")
def guarded_client(settings, clock):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SECRET_OF_READER", READER)
        with serving(settings, clock) as found:
            yield found


def token(client, principal_name, table="pub_a"):
    return client.of(principal_name).get(f"databases/db/tables/{table}/token")


def test_updaters_get_writing_keys_and_readers_get_reading_keys(guarded_client, clock):
    assert token(guarded_client, "etl").json == {
        "token": {"s3.access-key": "WRITER", "s3.secret-key": WRITER},
        "expiresAtMillis": clock.now + 3 * HOUR_MS,
    }
    assert token(guarded_client, "analyst").json["token"] == {
        "s3.access-key": "READER",
        "s3.secret-key": READER,
    }
    assert token(guarded_client, "etl", "secret_a$branch_x").status == 404
    assert (
        guarded_client.of("clerk").get("/v1/config").json["defaults"]["data-token.enabled"]
        == "true"
    )


@pytest.mark.parametrize(
    ("asker", "table"), [("clerk", "pub_a"), ("analyst", "secret_a"), ("analyst", "secret_b")]
)
def test_principal_without_select_gets_no_keys(guarded_client, asker, table):
    assert token(guarded_client, asker, table).error == (403, "TABLE", table)


def test_changed_file_of_tokens_is_read_again(guarded_client, settings):
    settings.data_tokens.write_text(TOKENS.replace("WRITER", "OTHER"))
    assert token(guarded_client, "etl").json["token"]["s3.access-key"] == "OTHER"
    settings.data_tokens.write_text("[update")
    answer = token(guarded_client, "etl")
    assert (answer.status, WRITER in answer.body.decode()) == (500, False)
    settings.data_tokens.write_text(TOKENS.partition("[select]")[0])
    assert token(guarded_client, "etl").status == 200
    assert token(guarded_client, "analyst").status == 403
    settings.data_tokens.write_text(TOKENS)


def test_read_only_server_gives_reading_keys(settings, monkeypatch):
    monkeypatch.setenv("SECRET_OF_READER", READER)
    read_only = ServeSettings(
        warehouse=settings.warehouse,
        principals=settings.principals,
        data_tokens=settings.data_tokens,
        read_only=True,
    )
    with serving(read_only) as client:
        assert token(client, "admin").json["token"]["s3.access-key"] == "READER"


@pytest.mark.parametrize("way", ["variable", "profile", "fsspec"])
def test_servers_own_keys_are_never_handed_out(settings, tmp_path, monkeypatch, way):
    secret = "servers-own-secret"  # noqa: S105
    own = tmp_path / "own"
    own.write_text(secret)
    path = tmp_path / "tokens.toml"
    path.write_text('[select]\n"s3.secret-key" = { secret-file = "own" }')
    tokens = DataTokens(path=path)
    tokens.check()
    if way == "variable":
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    elif way == "profile":
        profile = tmp_path / "credentials"
        profile.write_text(f"[default]\naws_secret_access_key = {secret}\n")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(profile))
    else:
        monkeypatch.setitem(fsspec.config.conf, "s3", {"secret": secret})
    with pytest.raises(InvalidInputError, match="the server's own"):
        tokens.check()


OF_READER = """
[select]
"s3.access-key" = "READER"
"s3.secret-key" = { secret-file = "reader" }
"""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('"s3.secret-key" = { secret-env = "AWS_SECRET_ACCESS_KEY" }', "the server's own"),
        ('"s3.secret-key" = { secret-file = "of fsspec" }', "the server's own"),
        ('"s3.access-key" = "AKIDOWN"', "the server's own"),
        ('"fs.s3a.access.key" = "AKIDFSSPEC"', "the server's own"),
        ('"s3.access-key" = "ASIA1234"', "ends by itself"),
        ('"fs.oss.accessKeyId" = "STS.1234"', "ends by itself"),
        ('"s3.session-token" = { secret-file = "reader" }', "ends by itself"),
        ('"fs.s3a.session.token" = { secret-file = "reader" }', "ends by itself"),
        ('"fs.oss.securityToken" = { secret-file = "reader" }', "ends by itself"),
    ],
)
def test_servers_own_key_ids_and_expiring_keys_are_refused(tmp_path, monkeypatch, line, message):
    """Keys of an instance, a container or a role expire, and need a session token."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "servers-own-secret")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDOWN")
    monkeypatch.setenv("FSSPEC_S3", '{"key": "AKIDFSSPEC", "secret": "secret-of-fsspec"}')
    (tmp_path / "reader").write_text("made-for-readers")
    (tmp_path / "of fsspec").write_text("secret-of-fsspec")
    path = tmp_path / "tokens.toml"
    path.write_text(OF_READER)
    DataTokens(path=path).check()
    path.write_text(f"[select]\n{line}\n")
    with pytest.raises(InvalidInputError, match=message):
        DataTokens(path=path).check()


@pytest.mark.parametrize("same", ["id", "secret"])
def test_reader_gets_no_writing_key(tmp_path, same):
    path = tmp_path / "tokens.toml"
    for name in ("reader", "writer"):
        (tmp_path / name).write_text("made-for-both" if same == "secret" else f"for-{name}")
    update = OF_READER.replace("select", "update").replace('= "reader"', '= "writer"')
    update = update if same == "id" else update.replace('"READER"', '"WRITER"')
    path.write_text(OF_READER + update)
    for action in (Action.SELECT, Action.UPDATE):
        with pytest.raises(InvalidInputError, match="so that readers could write"):
            DataTokens(path=path).issue(action, 0)


def test_external_table_has_no_data_token(settings, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_READER", READER)
    principals = tmp_path / "principals.toml"
    own = f'roots = ["{tmp_path}"]\n[[principal]]'
    principals.write_text(settings.principals.read_text().replace("[[principal]]", own)[len(own) :])
    with_root = ServeSettings(
        warehouse=settings.warehouse,
        principals=principals,
        data_tokens=settings.data_tokens,
        roots=(str(tmp_path),),
    )
    with serving(with_root) as client:
        body = table_body("pub_out", options={"path": f"{tmp_path}/out"})
        assert client.of("admin").post("databases/db/tables", body).status == 200
        assert token(client, "admin", "pub_out").status == 501


def test_audit_line_names_receiver_and_no_key(guarded_client, caplog):
    caplog.set_level(logging.DEBUG)
    answers = [token(guarded_client, "analyst"), token(guarded_client, "analyst", "secret_a")]
    assert guarded_client.of("analyst").get("databases").status == 200
    lines = [json.loads(r.message) for r in caplog.records if "audit" in r.name]
    assert [(line["operation"], line["status"], line.get("token")) for line in lines] == [
        ("getTableToken", 200, "select"),
        ("getTableToken", 403, None),
    ]
    assert [line["request"] for line in lines] == [a.headers["x-request-id"] for a in answers]
    shown = caplog.text + "".join(str(record.__dict__) for record in caplog.records)
    assert READER not in shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "neither"),
        ("[update", "no TOML"),
        ("hours = 1\n[select]", "2 to 168"),
        ("hours = true\n[select]", "2 to 168"),
        ("select = 1", "table of options"),
        ("[selct]", "unknown 'selct'"),
        ('[select]\n"s3.secret-key" = "plain"', "is a secret"),
        ('[select]\n"s3.region" = 1', "is a text"),
        ('[select]\n"s3.secret-key" = { secret-env = "NO_SUCH_VARIABLE" }', "is empty"),
        ('[select]\n"s3.secret-key" = { secret-file = "nowhere" }', "No such file"),
        ('[select]\n"s3.secret-key" = { secret-file = "own" }', "the server's own"),
        ('[select]\n"s3.secret-key" = { secret-file = "own", x = 1 }', "is a text"),
    ],
)
def test_server_with_invalid_file_of_tokens_does_not_start(settings, tmp_path, text, message):
    path = tmp_path / "tokens.toml"
    path.write_text(text)
    (tmp_path / "own").write_text("servers-own-secret")
    with pytest.raises(InvalidInputError, match=message) as refused:
        app_of(
            ServeSettings(
                warehouse=settings.warehouse,
                storage_options={"s3.secret-key": "servers-own-secret"},
                principals=settings.principals,
                data_tokens=path,
            )
        )
    assert refused.value.kind == "data-tokens"
    assert "plain" not in refused.value.message
    assert "servers-own-secret" not in refused.value.message


@pytest.mark.way_out("data-tokens")
def test_insecure_server_takes_no_data_tokens(settings, monkeypatch):
    monkeypatch.setenv("SECRET_OF_READER", READER)
    insecure = ServeSettings(
        warehouse=settings.warehouse, insecure=True, data_tokens=settings.data_tokens
    )
    with pytest.raises(InvalidInputError, match="everybody"):
        app_of(insecure)
    app_of(replace(insecure, insecure=False, principals=settings.principals))


def test_process_listing_and_output_hold_no_secret(settings, tmp_path):
    log = tmp_path / "log"
    files = ("--principals", str(settings.principals), "--data-tokens", str(settings.data_tokens))
    held = {"SECRET_OF_READER": READER}
    with server_process(settings.warehouse, *files, log=log, environment=held) as (server, client):
        assert token(client, "admin").status == 200
        asking = subprocess.Popen(
            [*(sys.executable, "-c", "from paimon_assets.cli.main import main; main()"),
             *("--uri", f"http://127.0.0.1:{client.port}", "read", "db.pub_a")],
            env={**os.environ, "PAIMON_TOKEN": "admin-of-all"}, cwd=ROOT,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        shown = [listing_of(each.pid) for each in (server, asking)]
        assert all(b"paimon_assets" in each for each in shown)
        output, _ = asking.communicate()
    assert asking.returncode == 0, output
    for secret in ("admin-of-all", READER, WRITER):
        assert all(secret.encode() not in each for each in (*shown, output, log.read_bytes()))


def listing_of(pid):
    """Return the command line of a process, as `ps` prints it."""
    command = ["ps", "-ww", "-o", "args=", "-p", str(pid)]
    return subprocess.run(command, check=True, capture_output=True).stdout
