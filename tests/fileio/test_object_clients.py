"""Clients of object stores: their settings from options, and the text of their errors."""

import errno
import json
import os
from multiprocessing import get_context
from pathlib import Path

import fsspec  # type: ignore[import-untyped]  # because it ships no types
import pytest

from paimon_assets.engine.errors import ACCESS_DENIED, InvalidInputError, StorageError
from paimon_assets.engine.fileio.object_clients import client_of, os_error
from paimon_assets.engine.fileio.opening import file_io_for
from tests.testkit.errors import refused
from tests.testkit.http_servers import Say, ScriptedServer

HUSH = "hush-hush"
KEYS = {"access-key": "AKID", "secret-key": HUSH}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def keys(client):
    found = client.credential_provider()
    return found["access_key_id"], found["secret_access_key"], found["token"]


def test_option_keys_exclude_environment_keys(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OTHER")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "other-token")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://elsewhere:1")
    client = client_of("s3", "mixed", {**KEYS, "endpoint": "http://here:1"})
    assert keys(client) == ("AKID", HUSH, None)
    assert client.config["endpoint"] == client.config["endpoint_url_s3"] == "http://here:1"
    assert client.client_options["allow_http"] == "true"
    token = client_of("s3", "mixed", {**KEYS, "session-token": "t"})
    assert keys(token) == ("AKID", HUSH, "t")


def test_environment_and_profile_give_keys_and_region(monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OF-ENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", HUSH)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://environment:1")
    client = client_of("s3", "environment", {})
    assert keys(client) == ("OF-ENVIRONMENT", HUSH, None)
    assert client.config["endpoint"] == "http://environment:1"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    (tmp_path / "credentials").write_text(
        f"[night]\naws_access_key_id = OF-PROFILE\naws_secret_access_key = {HUSH}\n"
    )
    (tmp_path / "config").write_text(
        "[profile night]\nregion = eu-north-1\nendpoint_url = http://profile:1\n"
    )
    monkeypatch.setenv("AWS_PROFILE", "night")
    client = client_of("s3", "profile", {})
    assert keys(client) == ("OF-PROFILE", HUSH, None)
    assert client.config["region"] == "eu-north-1"
    assert client.config["endpoint"] == "http://profile:1"


def test_store_without_keys_is_refused():
    with refused(StorageError, r"s3\.access-key", kind=ACCESS_DENIED):
        file_io_for("s3://keyless/a").read_bytes("s3://keyless/a")


def test_fsspec_settings_fill_missing_options(monkeypatch):
    own = {"key": "OF-FSSPEC", "secret": HUSH, "client_kwargs": {"endpoint_url": "http://conf:1"}}
    monkeypatch.setitem(fsspec.config.conf, "s3", own)
    assert keys(client_of("s3", "conf", {})) == ("OF-FSSPEC", HUSH, None)
    assert client_of("s3", "conf", {"endpoint": "x:1"}).config["endpoint"] == "https://x:1"


@pytest.mark.parametrize(
    ("options", "bucket", "virtual"),
    [
        ({}, "plain", True),
        ({}, "with.dots", False),
        ({"path-style-access": "true"}, "plain", False),
        ({"endpoint": "https://minio:9000"}, "plain", False),
    ],
)
def test_amazon_buckets_are_part_of_host(options, bucket, virtual):
    config = client_of("s3", bucket, {**KEYS, **options}).config
    assert bool(config.get("virtual_hosted_style_request")) is virtual


def test_google_takes_file_token_or_no_credentials(tmp_path):
    key = tmp_path / "key.json"
    secret = {"type": "authorized_user", "client_id": "a", "client_secret": HUSH}
    key.write_text(json.dumps({**secret, "refresh_token": "r"}))
    config = client_of("gs", "b", {"token": str(key), "project": "p"}).config
    assert config["application_credentials"] == str(key)
    assert client_of("gs", "b", {"token": "anon"}).config["skip_signature"]
    client = client_of("gs", "b", {"token": HUSH, "endpoint-url": "http://here:1"})
    assert client.credential_provider() == {"token": HUSH, "expires_at": None}
    assert client.config["base_url"] == "http://here:1"


@pytest.mark.parametrize(
    ("authority", "options"),
    [
        ("c", {"account-name": "a", "account-key": "aGk="}),
        ("c@a.dfs.core.windows.net", {"account-key": "aGk="}),
        ("c", {"connection-string": "AccountName=a;AccountKey=aGk=;EndpointSuffix=x"}),
    ],
)
def test_azure_accepts_any_account_spelling(authority, options):
    config = client_of("abfs", authority, options).config
    assert (config["container_name"], config["account_name"]) == ("c", "a")
    assert config["account_key"] == "aGk="


def test_unknown_option_is_named_without_its_value():
    with pytest.raises(StorageError, match="no-such") as caught:
        client_of("s3", "b", {**KEYS, "no-such": HUSH})
    assert HUSH not in f"{caught.value!r} {caught.value.__cause__!r}"


@pytest.mark.parametrize("path", ["s3://b/a//b", "s3://b/a/../b"])
def test_impossible_object_path_is_refused(path):
    options = {f"s3.{key}": value for key, value in KEYS.items()}
    with pytest.raises(InvalidInputError, match="empty part"):
        file_io_for(path, options).read_bytes(path)


@pytest.mark.parametrize("endpoint", ["127.0.0.1:9", "http://127.0.0.1:9", "http://a@127.0.0.1:9"])
def test_refused_connection_names_endpoint(endpoint):
    options = {f"s3.{key}": value for key, value in {**KEYS, "endpoint": endpoint}.items()}
    with pytest.raises(StorageError, match=r"'s3://b/a' of 127\.0\.0\.1:9: "):
        file_io_for("s3://b/a", options).read_bytes("s3://b/a")


def test_signature_in_request_is_never_shown():
    """Azure's are part of the address."""
    options = {
        "az.account-name": "a",
        "az.sas-token": f"sv=2024&sig={HUSH}",
        "az.endpoint": "http://127.0.0.1:9",
    }
    path = "az://container/file"
    file_io = file_io_for(path, options)
    for call in (file_io.read_bytes, file_io.list_directory, file_io.delete_file):
        with pytest.raises(StorageError) as caught:
            call(path)
        assert HUSH not in f"{caught.value!r} {caught.value.__cause__!r}"
        assert "Connection refused" in str(caught.value)


@pytest.mark.parametrize(
    ("scheme", "options", "code"),
    [
        ("az", {"account-name": "a", "account-key": "aGk="}, "ContainerNotFound"),
        ("s3", {**KEYS, "path-style-access": "true"}, "NoSuchBucket"),
    ],
)
def test_deletion_in_missing_container_fails(scheme, options, code):
    missing = Say(404, f"<Error><Code>{code}</Code><Message>gone</Message></Error>".encode())
    with ScriptedServer().running() as server:
        options = {f"{scheme}.{key}": value for key, value in options.items()}
        file_io = file_io_for(f"{scheme}://c/f", options | {f"{scheme}.endpoint": server.uri})
        server.will(missing, missing)
        for delete in (file_io.delete_file, lambda path: file_io.delete_files([path])):
            with refused(StorageError, "does not exist", kind="bucket-not-found"):
                delete(f"{scheme}://c/f")


class _AnswerError(Exception):
    pass


@pytest.mark.parametrize(
    ("text", "number", "shown"),
    [
        (
            "status code: 400 Bad Request: <Code>ExpiredToken</Code>",
            errno.EACCES,
            "400 ExpiredToken",
        ),
        ("status code: 400 Bad Request", errno.EACCES, "400"),
        ("status code: 400 Bad Request: <Code>InvalidRequest</Code>", errno.EIO, "InvalidRequest"),
        ("status code: 409: <Code>ConditionalRequestConflict</Code>", errno.EIO, "409"),
        ("status code: 403 Forbidden", errno.EACCES, "403"),
        ("something", errno.EIO, "_AnswerError"),
    ],
)
def test_errors_show_only_status_and_code(text, number, shown):
    found = os_error(_AnswerError(f"{text} <Token-0>{HUSH}</Token-0>"))
    assert found.errno == number
    assert shown in str(found)
    assert HUSH not in str(found)


@pytest.mark.way_out("forked")
def test_process_forked_from_one_with_clients_is_refused(tmp_path):
    client_of("s3", "b", KEYS)
    answer = Path(tmp_path / "answer")
    child = os.fork()
    if not child:
        try:
            client_of("s3", "b", KEYS)
        except StorageError as error:
            answer.write_text(str(error))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert "spawn" in answer.read_text()
    spawned = get_context("spawn").Process(target=client_of, args=("s3", "b", KEYS))
    spawned.start()
    spawned.join()
    assert spawned.exitcode == 0
