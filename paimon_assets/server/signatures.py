"""Signatures of DLF clients, checked: of a request's head first, of its body when it is there.

Two algorithms: `DLF4-HMAC-SHA256` (`dlf.signing-algorithm` = default) and `acs`, HMAC-SHA1
(openapi). Both sign the method, the path as it was sent, the query and a few headers, `Content-MD5`
of the body among them. The date may be fifteen minutes off. An `acs` request carries a nonce: one
that changes something is taken once. The default algorithm has none: whoever can listen can repeat
a request for fifteen minutes, so put TLS in front.
Source: `org.apache.paimon.rest.auth.DLFDefaultSigner`, `DLFOpenApiSigner`.
"""

import datetime as dt
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from threading import Lock

from paimon_assets.engine.control.clock import Clock
from paimon_assets.engine.control.rest.dlf_signers import (
    DefaultSigner,
    OpenApiSigner,
    SignedRequest,
    content_md5,
)

WINDOW_MS = 15 * 60_000
"""How far the date of a request may be off, either way."""
_CREDENTIAL = re.compile(
    r"DLF4-HMAC-SHA256 Credential=(?P<key>[^/,]+)/(?P<date>\d{8})/(?P<region>[^/,]+)"
    r"/DlfNext/aliyun_v4_request, ?Signature=(?P<signature>[0-9a-f]{64})"
)
_ACS = re.compile(r"acs (?P<key>[^:\s]+):(?P<signature>[A-Za-z0-9+/]{27}=)")
_LONGEST_NONCE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What a request says before its body."""

    method: str
    path: str
    """As it was sent, still encoded."""
    query: tuple[tuple[str, str], ...]
    """Decoded once."""
    headers: Mapping[str, str]
    """By names in small letters."""

    def header(self, name: str) -> str:
        """Return a header's value, empty if it is absent."""
        return self.headers.get(name, "").strip()


class BadSignature(Exception):  # noqa: N818 - the answer is 401, whatever the reason
    """A signature that is none, wrong, stale or used before."""


class Nonces:
    """The nonces of the last half hour, in this process.

    What was signed before the process began may have been used at another one: it is too old.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.began_ms = clock.now_millis() // 1000 * 1000
        """Dates of requests have whole seconds."""
        self._lock = Lock()
        self._seen: dict[str, int] = {}
        """Nonce → when it may be forgotten, in that order."""

    def use(self, nonce: str) -> bool:
        """Remember a nonce; whether it is new."""
        now = self._clock.now_millis()
        with self._lock:
            while self._seen:
                oldest = next(iter(self._seen))
                if self._seen[oldest] > now:
                    break
                del self._seen[oldest]
            if nonce in self._seen:
                return False
            self._seen[nonce] = now + 2 * WINDOW_MS
            return True


def access_key_of(authorization: str) -> str | None:
    """Return the id of the key pair that signed, None if this is no signature of DLF."""
    found = _CREDENTIAL.fullmatch(authorization) or _ACS.fullmatch(authorization)
    return None if found is None else found["key"]


def check_head(head: Head, secret: str, *, clock: Clock, nonces: Nonces | None) -> None:
    """Check the signature of a request's head."""
    authorization = head.header("authorization")
    request = SignedRequest(method=head.method, path=head.path, query=dict(head.query))
    default = _CREDENTIAL.fullmatch(authorization)
    if default is not None:
        _check_date(_dlf_date(head, default["date"]), clock)
        signer = DefaultSigner(default["region"])
        expected = signer.signature(request, head.headers, secret, head.header("x-dlf-date"))
        _compare(expected, default["signature"])
        return
    acs = _ACS.fullmatch(authorization)
    if acs is None:
        raise BadSignature("no signature")
    at = _http_date(head)
    _check_date(at, clock)
    _compare(OpenApiSigner().signature(request, head.headers, secret), acs["signature"])
    nonce = head.header("x-acs-signature-nonce")
    if not nonce or len(nonce) > _LONGEST_NONCE:
        raise BadSignature("no nonce")
    if head.method == "GET" or nonces is None:
        return
    if at.timestamp() * 1000 < nonces.began_ms:
        raise BadSignature("the date is before this server began")
    if not nonces.use(f"{acs['key']}/{nonce}"):
        raise BadSignature("the nonce was used before")


def check_body(head: Head, body: bytes) -> None:
    """Check that a body is the one that was signed."""
    signed = head.header("content-md5")
    if (body or signed) and not hmac.compare_digest(signed.encode(), content_md5(body).encode()):
        raise BadSignature("Content-MD5 is another body's")


def _compare(expected: str, given: str) -> None:
    if not hmac.compare_digest(expected, given):
        raise BadSignature("the signature is another's")


def _dlf_date(head: Head, day: str) -> dt.datetime:
    text = head.header("x-dlf-date")
    try:
        at = dt.datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.UTC)
    except ValueError as error:
        raise BadSignature("x-dlf-date is no date") from error
    if not text.startswith(day):
        raise BadSignature("x-dlf-date is of another day")
    return at


def _http_date(head: Head) -> dt.datetime:
    try:
        at = parsedate_to_datetime(head.header("date"))
    except ValueError as error:
        raise BadSignature("Date is no date") from error
    return at if at.tzinfo else at.replace(tzinfo=dt.UTC)


def _check_date(at: dt.datetime, clock: Clock) -> None:
    off_ms = abs(clock.now_millis() - int(at.timestamp() * 1000))
    if off_ms > WINDOW_MS:
        raise BadSignature(f"the date is {off_ms // 1000} seconds off")
