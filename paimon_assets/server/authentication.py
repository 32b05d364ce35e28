"""Authentication: from the head of a request to a principal; its body is not read before.

Two algorithms of DLF clients: `DLF4-HMAC-SHA256` (`dlf.signing-algorithm` = default) and `acs`,
HMAC-SHA1 (openapi). Both sign the method, the path as it was sent, the query and a few headers,
`Content-MD5` of the body among them. The date may be fifteen minutes off. An `acs` request carries
a nonce: one that changes something is taken once, by all servers of a warehouse. The default
algorithm has none: whoever can listen can repeat a request for fifteen minutes, so put TLS in
front.
Source: `org.apache.paimon.rest.auth.DLFDefaultSigner`, `DLFOpenApiSigner`.
"""

import datetime as dt
import hashlib
import hmac
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from paimon_assets.engine.control.clock import Clock
from paimon_assets.engine.control.rest import auth
from paimon_assets.engine.errors import CommitConflictError, StorageError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.values import Value
from paimon_assets.server.principals import EVERYBODY, Principal, PrincipalsFile
from paimon_assets.server.request import Refusal

logger = logging.getLogger(__name__)

_BEARER = "bearer "
_NO_SECRET = "x"  # noqa: S105 - used for the secret of an unknown key
_BUSY = HTTPStatus.SERVICE_UNAVAILABLE
_LONGEST = 8192
WINDOW_MS = 15 * 60_000
"""How far the date of a request may be off, either way."""
_CREDENTIAL = re.compile(
    r"DLF4-HMAC-SHA256 Credential=(?P<key>[^/,]+)/(?P<date>\d{8})/(?P<region>[^/,]+)"
    r"/DlfNext/aliyun_v4_request, ?Signature=(?P<signature>[0-9a-f]{64})"
)
_ACS = re.compile(r"acs (?P<key>[^:\s]+):(?P<signature>[A-Za-z0-9+/]{27}=)")
_LONGEST_NONCE = 256


class Head(Value):
    method: str
    path: str
    """As it was sent, still encoded."""
    query: tuple[tuple[str, str], ...]
    """Decoded once."""
    headers: Mapping[str, str]
    """By names in small letters."""

    def header(self, name: str) -> str:
        return self.headers.get(name, "").strip()


class BadSignature(Refusal):
    """A signature that is none, wrong, stale or used before; the answer does not say why."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            HTTPStatus.UNAUTHORIZED, "Not authorized: the token or signature is absent or wrong."
        )
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class Nonces:
    """Nonces that were used: empty files in the warehouse, which restarts and other servers see.

        <directory>/<date of the request / 15 minutes>/<SHA-256 of key and nonce>

    A request has one date, so a replay looks for the same file. Stale folders are deleted.
    """

    def __init__(self, file_io: FileIO, directory: str, clock: Clock) -> None:
        self._file_io = file_io
        self._directory = directory
        self._clock = clock
        self._cleaned = -1

    def use(self, head: Head) -> str | None:
        """Take the nonce of a signed request; return its file, None if it has no nonce."""
        acs = _ACS.fullmatch(head.header("authorization"))
        if acs is None:
            return None
        self._clean()
        nonce = f"{acs['key']}/{head.header('x-acs-signature-nonce')}"
        period = int(_http_date(head).timestamp() * 1000) // WINDOW_MS
        digest = hashlib.sha256(nonce.encode()).hexdigest()
        path = f"{self._directory}/{period}/{digest}"
        if not self._file_io.publish(path, b""):
            raise BadSignature("the nonce was used before")
        return path

    def release(self, path: str) -> None:
        """Let a nonce be used again: nothing was done, and clients ask again."""
        self._file_io.delete_file(path)

    def _clean(self) -> None:
        period = self._clock.now_millis() // WINDOW_MS
        if period == self._cleaned:
            return
        self._cleaned = period
        try:
            for entry in self._file_io.list_directory(self._directory):
                # Dates may be one period old; one more is for servers whose clocks are behind.
                if entry.name.isdecimal() and int(entry.name) < period - 2:
                    self._file_io.delete_directory(entry.path)
        except StorageError:
            logger.warning("stale nonces could not be deleted", exc_info=True)


def access_key_of(authorization: str) -> str | None:
    """Return the id of the key pair that signed, None if this is no signature of DLF."""
    signature = _CREDENTIAL.fullmatch(authorization) or _ACS.fullmatch(authorization)
    return None if signature is None else signature["key"]


def check_head(head: Head, secret: str, *, clock: Clock) -> None:
    authorization = head.header("authorization")
    request = auth.SignedRequest(method=head.method, path=head.path, query=dict(head.query))
    default = _CREDENTIAL.fullmatch(authorization)
    if default is not None:
        text = head.header("x-dlf-date")
        try:
            at = dt.datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.UTC)
        except ValueError as error:
            raise BadSignature("x-dlf-date is no date") from error
        if not text.startswith(default["date"]):
            raise BadSignature("x-dlf-date is of another day")
        _check_date(at, clock)
        signer = auth.DefaultSigner(default["region"])
        expected = signer.signature(request, head.headers, secret, text)
        _compare(expected, default["signature"])
        return
    acs = _ACS.fullmatch(authorization)
    if acs is None:
        raise BadSignature("no signature")
    _check_date(_http_date(head), clock)
    _compare(auth.OpenApiSigner().signature(request, head.headers, secret), acs["signature"])
    nonce = head.header("x-acs-signature-nonce")
    if not nonce or len(nonce) > _LONGEST_NONCE:
        raise BadSignature("no nonce")


def check_body(head: Head, body: bytes) -> None:
    signed = head.header("content-md5")
    if (body or signed) and not hmac.compare_digest(
        signed.encode(), auth.content_md5(body).encode()
    ):
        raise BadSignature("Content-MD5 is another body's")


def _compare(expected: str, given: str) -> None:
    if not hmac.compare_digest(expected, given):
        raise BadSignature("the signature is another's")


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


class Authentication:
    """Knows principals by bearer token or by signature."""

    def __init__(self, principals: PrincipalsFile | None, clock: Clock, nonces: Nonces) -> None:
        self._principals = principals
        self._clock = clock
        self._nonces = nonces

    def principal(self, head: Head) -> Principal:
        if self._principals is None:
            return EVERYBODY
        current = self._principals.current()
        authorization = head.header("authorization")
        principal: Principal | None = None
        if len(authorization) > _LONGEST:
            raise BadSignature("too long")
        if authorization[: len(_BEARER)].lower() == _BEARER:
            principal = current.of_token(authorization[len(_BEARER) :].strip())
        else:
            access_key = access_key_of(authorization) or ""
            principal, secret = current.of_access_key(access_key) or (None, _NO_SECRET)
            check_head(head, secret, clock=self._clock)
        if principal is None:
            raise BadSignature("no principal has this token or key")
        return principal

    @contextmanager
    def nonce(self, head: Head) -> Iterator[None]:
        """Use up the nonce of a signed change; a retry after a failed storage may use it again."""
        path = None if self._principals is None else self._nonces.use(head)
        try:
            yield
        except (CommitConflictError, Refusal) as error:
            if path is not None and getattr(error, "status", None) in (None, _BUSY):
                self._nonces.release(path)
            raise

    def check_body(self, head: Head, body: bytes) -> None:
        if self._principals is not None and access_key_of(head.header("authorization")):
            check_body(head, body)
