"""Authentication at a server: a bearer token, or keys of DLF that sign each request.

Source: `org.apache.paimon.rest.auth.AuthProvider`, `DLFAuthProviderFactory`.
"""

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from paimon_assets.engine.control.clock import Clock
from paimon_assets.engine.control.rest.dlf_signers import (
    DefaultSigner,
    DlfSigner,
    OpenApiSigner,
    SignedRequest,
)
from paimon_assets.engine.control.rest.dlf_tokens import (
    DlfToken,
    RenewedToken,
    TokenSource,
    read_token_file,
    token_from_json,
)
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.catalog_options import (
    DLF_ACCESS_KEY_ID,
    DLF_ACCESS_KEY_SECRET,
    DLF_ECS_METADATA_URL,
    DLF_ECS_ROLE_NAME,
    DLF_REGION,
    DLF_SECURITY_TOKEN,
    DLF_SIGNING_ALGORITHM,
    DLF_TOKEN_LOADER,
    DLF_TOKEN_PATH,
    TOKEN,
    TOKEN_PROVIDER,
    URI,
)
from paimon_assets.engine.spec.options.option import Options

_REGION = re.compile(r"(?:pre-)?([a-z]+-[a-z]+(?:-\d+)?)")
Fetch = Callable[[str], bytes]
"""Returns what lies at a URL of this machine's metadata."""


@dataclass(frozen=True, slots=True)
class BearerAuth:
    """A token that whoever has it may use."""

    token: str = field(repr=False)

    def headers(self, request: SignedRequest) -> Mapping[str, str]:
        """Return the token's header."""
        return {"Authorization": f"Bearer {self.token}"}


@dataclass(frozen=True, slots=True)
class DlfAuth:
    """A key of DLF."""

    signer: DlfSigner
    token: TokenSource = field(repr=False)
    clock: Clock

    def headers(self, request: SignedRequest) -> Mapping[str, str]:
        """Return the headers that sign a request now."""
        now = dt.datetime.fromtimestamp(self.clock.now_millis() // 1000, tz=dt.UTC)
        return self.signer.headers(request, self.token(), now)


Auth = BearerAuth | DlfAuth


def auth_of(options: Mapping[str, str], clock: Clock, fetch: Fetch) -> Auth | None:
    """Return the authentication of a catalog; None sends no credentials."""
    typed = Options(options)
    match typed.get(TOKEN_PROVIDER):
        case "bear" | "bearer":
            return BearerAuth(_needed(typed.get(TOKEN), TOKEN.key))
        case "dlf":
            return DlfAuth(_signer(typed), _token_source(typed, clock, fetch), clock)
        case "" if typed.get(TOKEN):
            return BearerAuth(_needed(typed.get(TOKEN), TOKEN.key))
        case "":
            return None
        case unknown:
            raise InvalidInputError(
                f"'{TOKEN_PROVIDER.key}' = {unknown} is not known; there are bear and dlf.",
                kind="rest-options",
            )


def _needed(value: str, key: str) -> str:
    if not value:
        raise InvalidInputError(f"The catalog's option '{key}' is missing.", kind="rest-options")
    if any(ord(character) < 0x20 or ord(character) > 0x7E for character in value):
        raise InvalidInputError(
            f"The catalog's option '{key}' holds a character that no header may.",
            kind="rest-options",
        )
    return value


def _signer(options: Options) -> DlfSigner:
    uri = options.get(URI)
    algorithm = options.get(DLF_SIGNING_ALGORITHM)
    match algorithm or ("openapi" if "dlfnext" in uri.lower() else "default"):
        case "openapi":
            return OpenApiSigner()
        case "default":
            found = _REGION.search(uri)
            region = options.get(DLF_REGION) or (found[1] if found else "")
            return DefaultSigner(_needed(region, DLF_REGION.key))
        case unknown:
            raise InvalidInputError(
                f"'{DLF_SIGNING_ALGORITHM.key}' = {unknown} is not known; there are default and"
                " openapi.",
                kind="rest-options",
            )


def _token_source(options: Options, clock: Clock, fetch: Fetch) -> TokenSource:
    path = options.get(DLF_TOKEN_PATH)
    match options.get(DLF_TOKEN_LOADER) or ("local_file" if path else ""):
        case "local_file":
            _needed(path, DLF_TOKEN_PATH.key)
            return RenewedToken(lambda: read_token_file(path), clock)
        case "ecs":
            return RenewedToken(lambda: _token_of_role(options, fetch), clock)
        case "":
            token = DlfToken(
                access_key_id=_needed(options.get(DLF_ACCESS_KEY_ID), DLF_ACCESS_KEY_ID.key),
                access_key_secret=_needed(
                    options.get(DLF_ACCESS_KEY_SECRET), DLF_ACCESS_KEY_SECRET.key
                ),
                security_token=options.get(DLF_SECURITY_TOKEN) or None,
            )
            return lambda: token
        case unknown:
            raise InvalidInputError(
                f"'{DLF_TOKEN_LOADER.key}' = {unknown} is not known; there are local_file and ecs.",
                kind="rest-options",
            )


def _token_of_role(options: Options, fetch: Fetch) -> DlfToken:
    url = options.get(DLF_ECS_METADATA_URL)
    role = options.get(DLF_ECS_ROLE_NAME) or fetch(url).decode(errors="replace").strip()
    if not role or "/" in role or any(character.isspace() for character in role):
        raise InvalidInputError(
            "The machine has no role to get a DLF token from.", kind="dlf-token"
        )
    return token_from_json(fetch(f"{url.rstrip('/')}/{role}"), "The machine's role")
