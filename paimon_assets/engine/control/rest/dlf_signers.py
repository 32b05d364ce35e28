"""How a request is signed with a key of DLF: `default`, and `openapi` of dlfnext hosts.

Source: `org.apache.paimon.rest.auth.DLFDefaultSigner`, `DLFOpenApiSigner`.
"""

import base64
import datetime as dt
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import format_datetime
from urllib.parse import unquote_plus
from uuid import uuid4

from paimon_assets.engine.control.rest.dlf_tokens import DlfToken
from paimon_assets.engine.control.rest.encoding import form_encoded

_UNSIGNED = "UNSIGNED-PAYLOAD"
_REQUEST = "aliyun_v4_request"
_PRODUCT = "DlfNext"
_SIGNED = (
    "content-md5",
    "content-type",
    "x-dlf-content-sha256",
    "x-dlf-date",
    "x-dlf-security-token",
    "x-dlf-version",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedRequest:
    """The signed parts of a request."""

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


@dataclass(frozen=True, slots=True)
class DefaultSigner:
    """Signs with a key derived for a day and a region."""

    region: str

    def headers(
        self, request: SignedRequest, token: DlfToken, now: dt.datetime
    ) -> Mapping[str, str]:
        """Return the headers that sign a request."""
        moment = now.strftime("%Y%m%dT%H%M%SZ")
        headers = {"x-dlf-date": moment, "x-dlf-version": "v1", "x-dlf-content-sha256": _UNSIGNED}
        if request.body is not None:
            headers["Content-Type"] = "application/json"
            headers["Content-MD5"] = content_md5(request.body)
        if token.security_token:
            headers["x-dlf-security-token"] = token.security_token
        scope = f"{moment[:8]}/{self.region}/{_PRODUCT}/{_REQUEST}"
        signature = self.signature(request, headers, token.access_key_secret, moment)
        credential = f"{token.access_key_id}/{scope}"
        headers["Authorization"] = f"DLF4-HMAC-SHA256 Credential={credential},Signature={signature}"
        return headers

    def signature(
        self, request: SignedRequest, headers: Mapping[str, str], secret: str, moment: str
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
        day = moment[:8]
        to_sign = "\n".join(
            [
                "DLF4-HMAC-SHA256",
                moment,
                f"{day}/{self.region}/{_PRODUCT}/{_REQUEST}",
                hashlib.sha256(canonical.encode()).hexdigest(),
            ]
        )
        key = f"aliyun_v4{secret}".encode()
        for part in (day, self.region, _PRODUCT, _REQUEST):
            key = hmac.digest(key, part.encode(), "sha256")
        return hmac.digest(key, to_sign.encode(), "sha256").hex()


def _fresh_nonce() -> str:
    return uuid4().hex


@dataclass(frozen=True, slots=True)
class OpenApiSigner:
    """Signs each request with a nonce, as Alibaba's OpenAPI takes it."""

    new_nonce: Callable[[], str] = _fresh_nonce

    def headers(
        self, request: SignedRequest, token: DlfToken, now: dt.datetime
    ) -> Mapping[str, str]:
        """Return the headers that sign a request."""
        headers = {
            "Date": format_datetime(now, usegmt=True),  # in no locale's words
            "Accept": "application/json",
            "Host": request.host,
            "x-acs-signature-method": "HMAC-SHA1",
            "x-acs-signature-nonce": self.new_nonce(),
            "x-acs-signature-version": "1.0",
            "x-acs-version": "2026-01-18",
        }
        if request.body is not None:
            headers["Content-Type"] = "application/json"
            headers["Content-MD5"] = content_md5(request.body)
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
