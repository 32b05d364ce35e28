"""Authentication at a server: a bearer token, or keys of DLF that sign each request.

Keys of DLF are fixed, from a file that is renewed, or from the machine's role; they sign by
`default`, or by `openapi` at dlfnext hosts.
Source: `org.apache.paimon.rest.auth.AuthProvider`, `DLFAuthProviderFactory`, `DLFDefaultSigner`,
`DLFOpenApiSigner`, `DLFToken`, `DLFLocalFileTokenLoader`, `DLFECSTokenLoader`.
"""

import base64
import datetime as dt
import hashlib
import hmac
import json
import re
import threading
from collections.abc import Callable, Mapping
from email.utils import format_datetime
from pathlib import Path
from urllib.parse import quote_plus, unquote_plus
from uuid import uuid4

from msgspec import Struct, field

from paimon_assets.engine.control.clock import Clock
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options import catalog_options
from paimon_assets.engine.spec.options.option import Option, Options
from paimon_assets.engine.spec.values import Value

_REGION = re.compile(r"(?:pre-)?([a-z]+-[a-z]+(?:-\d+)?)")
Fetch = Callable[[str], bytes]
"""Returns the content of a URL of this machine's metadata."""
RENEWED_BEFORE_MS = 3_600_000
"""Keys with less time left than this are renewed."""
_EXPIRATION = "%Y-%m-%dT%H:%M:%SZ"
_UNSIGNED = "UNSIGNED-PAYLOAD"
_SCOPE = "aliyun_v4_request"
_PRODUCT = "DlfNext"
_SIGNED = (
    "content-md5",
    "content-type",
    "x-dlf-content-sha256",
    "x-dlf-date",
    "x-dlf-security-token",
    "x-dlf-version",
)


class DlfToken(Value, hidden=("access_key_id", "access_key_secret", "security_token")):
    """A key, with the token that belongs to it and the time it ends."""

    access_key_id: str
    access_key_secret: str
    security_token: str | None = None
    expires_ms: int | None = None
    """Epoch milliseconds; None is never."""


TokenSource = Callable[[], DlfToken]
"""Returns a key that serves now; raises InvalidInputError or StorageError."""


def token_from_json(data: bytes, where: str) -> DlfToken:
    """Read the JSON of a token file or of the machine's role."""
    try:
        members = json.loads(data)
        expires_ms = None
        if text := members.get("Expiration"):
            at = dt.datetime.strptime(text, _EXPIRATION).replace(tzinfo=dt.UTC)
            expires_ms = int(at.timestamp() * 1000)
        return DlfToken(
            access_key_id=str(members["AccessKeyId"]),
            access_key_secret=str(members["AccessKeySecret"]),
            security_token=members.get("SecurityToken") or None,
            expires_ms=expires_ms,
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InvalidInputError(
            f"{where} holds no DLF token: expected JSON with AccessKeyId, AccessKeySecret,"
            " SecurityToken and Expiration (yyyy-MM-ddTHH:mm:ssZ).",
            kind="dlf-token",
        ) from None


def read_token_file(path: str) -> DlfToken:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InvalidInputError(
            f"The DLF token file '{path}' cannot be read ({error.strerror}).", kind="dlf-token"
        ) from error
    return token_from_json(data, f"File '{path}'")


class RenewedToken:
    """A token that is loaded again when less than an hour of it is left; threads share it."""

    def __init__(self, load: TokenSource, clock: Clock) -> None:
        self._load = load
        self._clock = clock
        self._lock = threading.Lock()
        self._token: DlfToken | None = None

    def __call__(self) -> DlfToken:
        """Return a token that serves now."""
        with self._lock:
            token = self._token
            ends = None if token is None else token.expires_ms
            ends_soon = ends is not None and ends - self._clock.now_millis() < RENEWED_BEFORE_MS
            if token is None or ends_soon:
                token = self._token = self._load()
            return token


class SignedRequest(Value):
    method: str
    path: str
    """Encoded, without the prefix of the catalog's own URI."""
    query: Mapping[str, str]
    """Not encoded."""
    body: bytes | None = None
    host: str = ""


def content_md5(body: bytes) -> str:
    """Return a body's MD5 in base64, as headers carry it; it protects against no enemy."""
    return base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()


def _content_headers(request: SignedRequest) -> dict[str, str]:
    if request.body is None:
        return {}
    return {"Content-Type": "application/json", "Content-MD5": content_md5(request.body)}


class DefaultSigner(Struct, frozen=True):
    """Signs with a key derived for a day and a region."""

    region: str

    def headers(
        self, request: SignedRequest, token: DlfToken, now: dt.datetime
    ) -> Mapping[str, str]:
        stamp = now.strftime("%Y%m%dT%H%M%SZ")
        headers = {
            "x-dlf-date": stamp,
            "x-dlf-version": "v1",
            "x-dlf-content-sha256": _UNSIGNED,
            **_content_headers(request),
        }
        if token.security_token:
            headers["x-dlf-security-token"] = token.security_token
        scope = f"{stamp[:8]}/{self.region}/{_PRODUCT}/{_SCOPE}"
        signature = self.signature(request, headers, token.access_key_secret, stamp)
        credential = f"{token.access_key_id}/{scope}"
        headers["Authorization"] = f"DLF4-HMAC-SHA256 Credential={credential},Signature={signature}"
        return headers

    def signature(
        self, request: SignedRequest, headers: Mapping[str, str], secret: str, stamp: str
    ) -> str:
        """Return the signature of a request that carries these headers, in hexadecimal digits."""
        lower = {name.lower(): value.strip() for name, value in headers.items()}
        canonical = "\n".join(
            [
                request.method,
                request.path,
                "&".join(
                    key if not value else f"{key}={form_encoded(value)}"
                    for key, value in sorted(request.query.items())
                ),
                *(f"{name}:{lower[name]}" for name in _SIGNED if name in lower),
                _UNSIGNED,
            ]
        )
        day = stamp[:8]
        to_sign = "\n".join(
            [
                "DLF4-HMAC-SHA256",
                stamp,
                f"{day}/{self.region}/{_PRODUCT}/{_SCOPE}",
                hashlib.sha256(canonical.encode()).hexdigest(),
            ]
        )
        key = f"aliyun_v4{secret}".encode()
        for part in (day, self.region, _PRODUCT, _SCOPE):
            key = hmac.digest(key, part.encode(), "sha256")
        return hmac.digest(key, to_sign.encode(), "sha256").hex()


class OpenApiSigner(Struct, frozen=True):
    """Signs each request with a nonce, as Alibaba's OpenAPI takes it."""

    new_nonce: Callable[[], str] = field(default=lambda: uuid4().hex)

    def headers(
        self, request: SignedRequest, token: DlfToken, now: dt.datetime
    ) -> Mapping[str, str]:
        headers = {
            "Date": format_datetime(now, usegmt=True),  # in no locale's words
            "Accept": "application/json",
            "Host": request.host,
            "x-acs-signature-method": "HMAC-SHA1",
            "x-acs-signature-nonce": self.new_nonce(),
            "x-acs-signature-version": "1.0",
            "x-acs-version": "2026-01-18",
            **_content_headers(request),
        }
        if token.security_token:
            headers["x-acs-security-token"] = token.security_token
        signature = self.signature(request, headers, token.access_key_secret)
        headers["Authorization"] = f"acs {token.access_key_id}:{signature}"
        return headers

    def signature(self, request: SignedRequest, headers: Mapping[str, str], secret: str) -> str:
        """Return the signature of a request that carries these headers, in base64."""
        lower = {name.lower(): value.strip() for name, value in headers.items()}
        plain = ("accept", "content-md5", "content-type", "date")
        asked = "&".join(
            key if not value else f"{key}={value}" for key, value in sorted(request.query.items())
        )
        to_sign = "\n".join(
            [
                request.method,
                *(lower.get(name, "") for name in plain),
                *(f"{name}:{lower[name]}" for name in sorted(lower) if name.startswith("x-acs-")),
                unquote_plus(request.path) + (f"?{asked}" if asked else ""),
            ]
        )
        digest = hmac.digest(secret.encode(), to_sign.encode(), "sha1")
        return base64.b64encode(digest).decode()


DlfSigner = DefaultSigner | OpenApiSigner


class BearerAuth(Value, kw_only=False, hidden=("token",)):
    """A token that whoever has it may use."""

    token: str

    def headers(self, request: SignedRequest) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


class DlfAuth(Value, kw_only=False, hidden=("token",)):
    signer: DlfSigner
    token: TokenSource
    clock: Clock

    def headers(self, request: SignedRequest) -> Mapping[str, str]:
        """Return the headers that sign a request now."""
        now = dt.datetime.fromtimestamp(self.clock.now_millis() // 1000, tz=dt.UTC)
        return self.signer.headers(request, self.token(), now)


Auth = BearerAuth | DlfAuth


def auth_of(options: Mapping[str, str], clock: Clock, fetch: Fetch) -> Auth | None:
    """Return the authentication of a catalog; None sends no credentials."""
    typed = Options(options)
    provider = typed.get(catalog_options.TOKEN_PROVIDER)
    match provider or ("bear" if typed.get(catalog_options.TOKEN) else ""):
        case "bear" | "bearer":
            return BearerAuth(_require(typed, catalog_options.TOKEN))
        case "dlf":
            return DlfAuth(_signer(typed), _token_source(typed, clock, fetch), clock)
        case "":
            return None
        case unknown:
            raise _unknown(catalog_options.TOKEN_PROVIDER, unknown, "bear and dlf")


def _unknown(option: Option[str], value: str, known: str) -> InvalidInputError:
    return InvalidInputError(
        f"'{option.key}' = {value} is not known; there are {known}.", kind="rest-options"
    )


def _require(options: Options, option: Option[str], default: str = "") -> str:
    value, key = options.get(option) or default, option.key
    if not value:
        raise InvalidInputError(f"The catalog's option '{key}' is missing.", kind="rest-options")
    if any(ord(character) < 0x20 or ord(character) > 0x7E for character in value):
        message = f"The catalog's option '{key}' holds a character that no header may."
        raise InvalidInputError(message, kind="rest-options")
    return value


def _signer(options: Options) -> DlfSigner:
    uri = options.get(catalog_options.URI)
    algorithm = options.get(catalog_options.DLF_SIGNING_ALGORITHM)
    match algorithm or ("openapi" if "dlfnext" in uri.lower() else "default"):
        case "openapi":
            return OpenApiSigner()
        case "default":
            host = _REGION.search(uri)
            region = _require(options, catalog_options.DLF_REGION, host[1] if host else "")
            return DefaultSigner(region)
        case unknown:
            raise _unknown(catalog_options.DLF_SIGNING_ALGORITHM, unknown, "default and openapi")


def _token_source(options: Options, clock: Clock, fetch: Fetch) -> TokenSource:
    path = options.get(catalog_options.DLF_TOKEN_PATH)
    match options.get(catalog_options.DLF_TOKEN_LOADER) or ("local_file" if path else ""):
        case "local_file":
            _require(options, catalog_options.DLF_TOKEN_PATH)
            return RenewedToken(lambda: read_token_file(path), clock)
        case "ecs":
            return RenewedToken(lambda: _token_of_role(options, fetch), clock)
        case "":
            token = DlfToken(
                access_key_id=_require(options, catalog_options.DLF_ACCESS_KEY_ID),
                access_key_secret=_require(options, catalog_options.DLF_ACCESS_KEY_SECRET),
                security_token=options.get(catalog_options.DLF_SECURITY_TOKEN) or None,
            )
            return lambda: token
        case unknown:
            raise _unknown(catalog_options.DLF_TOKEN_LOADER, unknown, "local_file and ecs")


def _token_of_role(options: Options, fetch: Fetch) -> DlfToken:
    url = options.get(catalog_options.DLF_ECS_METADATA_URL)
    role = (
        options.get(catalog_options.DLF_ECS_ROLE_NAME)
        or fetch(url).decode(errors="replace").strip()
    )
    if not role or "/" in role or any(character.isspace() for character in role):
        raise InvalidInputError(
            "The machine has no role to get a DLF token from.", kind="dlf-token"
        )
    return token_from_json(fetch(f"{url.rstrip('/')}/{role}"), "The machine's role")


def form_encoded(text: str) -> str:
    """Return a text as Java's `URLEncoder` writes it."""
    return quote_plus(text, safe="*").replace("~", "%7E")
