"""Who asks a REST catalog: what Java's signers sign, and where keys come from."""

import datetime as dt
import json

import pytest

from paimon_assets.engine.control.rest.auth import (
    BearerAuth,
    DefaultSigner,
    DlfAuth,
    DlfToken,
    OpenApiSigner,
    SignedRequest,
    auth_of,
)
from paimon_assets.engine.errors import InvalidInputError, StorageError

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


class Clock:
    def __init__(self) -> None:
        self.now = NOW_MS

    def now_millis(self) -> int:
        return self.now

    def sleep_millis(self, millis: float) -> None:
        raise AssertionError


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
def test_the_default_signature_is_javas(request_, token, signature):
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
def test_the_openapi_signature_is_javas(request_, token, signature):
    headers = OpenApiSigner(lambda: "nonce").headers(request_, token, NOW)
    assert headers["Authorization"] == f"acs AKID:{signature}"
    assert headers["Date"] == "Thu, 06 Mar 2025 13:11:44 GMT"
    assert headers["Host"] == "dlfnext.cn-hangzhou.aliyuncs.com"


def test_each_openapi_request_has_a_nonce_of_its_own():
    first, second = (OpenApiSigner().headers(LIST, KEY, NOW) for _ in range(2))
    assert first["x-acs-signature-nonce"] != second["x-acs-signature-nonce"]


def dlf(**options):
    options = {key.replace("_", "-"): value for key, value in options.items()}
    return {"token.provider": "dlf", **{f"dlf.{key}": value for key, value in options.items()}}


KEYS = {"access_key_id": "AKID", "access_key_secret": "AKSECRET"}


def test_the_uri_says_region_and_signer_unless_the_options_do():
    def signer(uri, **options):
        found = auth_of({"uri": uri, **dlf(**KEYS, **options)}, Clock(), nothing)
        assert isinstance(found, DlfAuth)
        return found.signer

    assert signer("http://pre-cn-beijing-vpc.dlf.example") == DefaultSigner("cn-beijing")
    assert signer("http://h", region="eu-1") == DefaultSigner("eu-1")
    assert isinstance(signer("http://DlfNext.cn-hangzhou.example"), OpenApiSigner)
    named = signer("http://dlfnext.cn-hangzhou.example", signing_algorithm="default")
    assert named == DefaultSigner("cn-hangzhou")


def test_a_token_alone_is_a_bearer_token():
    for provider in ({}, {"token.provider": "bear"}):
        found = auth_of({"token": "abc", **provider}, Clock(), nothing)
        assert found == BearerAuth("abc")
        assert found.headers(LIST) == {"Authorization": "Bearer abc"}
        assert "abc" not in repr(found)


def test_without_provider_and_token_requests_carry_no_credentials():
    assert auth_of({"uri": "http://h"}, Clock(), nothing) is None


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
def test_what_says_too_little_is_refused(options, message):
    with pytest.raises(InvalidInputError, match=message):
        auth_of(options, Clock(), nothing)


def written(key, ends=None):
    members = {"AccessKeyId": key, "AccessKeySecret": "s", "SecurityToken": "t"}
    return json.dumps({**members, "Expiration": ends} if ends else members)


def test_a_token_file_is_read_again_an_hour_before_its_end(tmp_path):
    path = tmp_path / "token"
    path.write_text(written("first", "2025-03-06T15:00:00Z"))
    clock = Clock()
    auth = auth_of(dlf(region="r", token_path=str(path)), clock, nothing)

    def key():
        return auth.headers(LIST)["Authorization"].split("Credential=")[1].split("/")[0]

    assert key() == "first"
    path.write_text(written("second"))
    assert key() == "first"
    clock.now += HOUR_MS
    assert key() == "second"
    path.unlink()
    clock.now += 100 * HOUR_MS
    assert key() == "second"  # has no end


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"AccessKeyId":"a"}', written("SECRET", "soon"), "[" * 100_000],
    ids=range(6),
)
def test_a_damaged_token_file_is_named_and_not_shown(tmp_path, text):
    path = tmp_path / "token"
    path.write_text(text)
    auth = auth_of(dlf(region="r", token_path=str(path)), Clock(), nothing)
    with pytest.raises(InvalidInputError, match=f"{path}.*AccessKeyId") as refused:
        auth.headers(LIST)
    assert "SECRET" not in f"{refused.value}{refused.value.__cause__}"
    path.unlink()
    with pytest.raises(InvalidInputError, match=f"{path}"):
        auth.headers(LIST)


def test_the_role_of_the_machine_says_its_keys():
    asked = []

    def fetch(url):
        asked.append(url)
        return b"my-role\n" if url.endswith("/") else written("AKID").encode()

    options = dlf(region="r", token_loader="ecs", token_ecs_metadata_url="http://m/x/")  # noqa: S106
    auth = auth_of(options, Clock(), fetch)
    assert asked == []
    assert "Credential=AKID/" in auth.headers(LIST)["Authorization"]
    auth.headers(LIST)
    assert asked == ["http://m/x/", "http://m/x/my-role"]
    named = auth_of({**options, "dlf.token-ecs-role-name": "other"}, Clock(), fetch)
    named.headers(LIST)
    assert asked[2:] == ["http://m/x/other"]


def test_a_machine_without_a_role_says_so():
    def fetch(url):
        raise StorageError("404")

    options = dlf(region="r", token_loader="ecs")  # noqa: S106
    with pytest.raises(StorageError):
        auth_of(options, Clock(), fetch).headers(LIST)
    with pytest.raises(InvalidInputError, match="no role"):
        auth_of(options, Clock(), lambda _: b"<html> no").headers(LIST)
