"""Signatures of DLF: published vectors, and everything that must not pass."""

import base64
import datetime as dt
import hashlib

import pytest

from paimon_assets.engine.control.rest.auth import OpenApiSigner, SignedRequest
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.server.authentication import (
    WINDOW_MS,
    BadSignature,
    Head,
    Nonces,
    access_key_of,
    check_body,
    check_head,
)

NOW = dt.datetime(2025, 3, 6, 13, 11, 44, tzinfo=dt.UTC)
BODY = b'{"name":"db1","options":{}}'
VECTOR_1 = "54948f26e82152e6052980024ee85457201e1c59bff7c11f6041a9a74fe72d5d"
VECTOR_2 = "112bcf7ddc4962ca02d470dc83f5fcb45501ed7dc7e446dc273513618a3e35df"


class At:
    """A clock that stands."""

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
    request = SignedRequest(method=method, path=path, query=dict(query))
    signature = OpenApiSigner().signature(request, headers, "AKSECRET")
    return Head(
        method=method,
        path=path,
        query=query,
        headers={**headers, "authorization": f"acs AKID:{signature}"},
    )


def checked(head, *, clock=None, key="AKSECRET"):
    check_head(head, key, clock=clock or At())


def test_the_vectors_of_java():
    checked(post())
    checked(dlf())
    check_body(post(), BODY)


@pytest.mark.parametrize("head", [dlf(), acs()], ids=["default", "openapi"])
def test_another_secret_does_not_pass(head):
    assert access_key_of(head.headers["authorization"]) == "AKID"
    with pytest.raises(BadSignature, match="another's"):
        checked(head, key="AKSECRET2")


@pytest.mark.parametrize("head", [dlf(), acs()], ids=["default", "openapi"])
@pytest.mark.parametrize("sign", [1, -1])
def test_stale_and_early_ones_do_not_pass(head, sign):
    checked(head, clock=At(sign * WINDOW_MS))
    with pytest.raises(BadSignature, match="seconds off"):
        checked(head, clock=At(sign * (WINDOW_MS + 1000)))


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
def test_whatever_is_signed_may_not_change(changed):
    head = post()
    parts = {name: getattr(head, name) for name in ("method", "path", "query", "headers")}
    with pytest.raises(BadSignature, match="another's"):
        checked(Head(**{**parts, **changed}))


@pytest.mark.parametrize("date", ["", "yesterday", "20250307T131144Z", "20250306T9999"])
def test_a_date_must_be_one_and_of_the_credentials_day(date):
    with pytest.raises(BadSignature):
        checked(dlf(x_dlf_date=date))


def test_a_body_must_be_the_one_that_was_signed():
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


def test_a_nonce_is_taken_once_by_every_server(nonces, tmp_path):
    assert nonces.use(acs()) is not None
    for other in (nonces, Nonces(LocalFileIO(), str(tmp_path / "nonces"), At())):
        with pytest.raises(BadSignature, match="used before"):
            other.use(acs())
    nonces.use(acs(nonce="n-2"))
    assert nonces.use(dlf()) is None


def test_a_nonce_that_is_given_back_can_be_used_again(nonces):
    nonces.release(nonces.use(acs()))
    nonces.use(acs())


def test_nonces_are_forgotten_when_their_date_is_stale(tmp_path):
    for off, folders in ((0, 1), (2 * WINDOW_MS, 1), (3 * WINDOW_MS, 0)):
        Nonces(LocalFileIO(), str(tmp_path), At()).use(acs(nonce=str(off)))
        later = Nonces(LocalFileIO(), str(tmp_path), At(off))
        later._clean()
        assert len(list(tmp_path.iterdir())) == folders
    (tmp_path / "other").mkdir()
    Nonces(LocalFileIO(), str(tmp_path), At(10 * WINDOW_MS)).use(acs())
    assert (tmp_path / "other").exists()


@pytest.mark.parametrize("text", ["", "Bearer x", "DLF4-HMAC-SHA256 x", "acs a:b", "acs :="])
def test_what_is_no_signature_names_no_key(text):
    assert access_key_of(text) is None
