"""Keys of DLF: fixed, from a file that is renewed, or from the machine's role.

Source: `org.apache.paimon.rest.auth.DLFToken`, `DLFLocalFileTokenLoader`, `DLFECSTokenLoader`.
"""

import datetime as dt
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from paimon_assets.engine.control.clock import Clock
from paimon_assets.engine.errors import InvalidInputError

RENEWED_BEFORE_MS = 3_600_000
"""What has less time left than this is asked for anew."""
_EXPIRATION = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class DlfToken:
    """A key, with the token that belongs to it and the time it ends."""

    access_key_id: str = field(repr=False)
    access_key_secret: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)
    expires_ms: int | None = None
    """Epoch milliseconds; None is never."""


TokenSource = Callable[[], DlfToken]
"""Returns a key that serves now; raises InvalidInputError or StorageError."""


def token_from_json(data: bytes, where: str) -> DlfToken:
    """Read the JSON of a token file or of the machine's role."""
    try:
        members = json.loads(data)
        ends = members.get("Expiration")
        return DlfToken(
            access_key_id=str(members["AccessKeyId"]),
            access_key_secret=str(members["AccessKeySecret"]),
            security_token=members.get("SecurityToken") or None,
            expires_ms=None if not ends else _epoch_ms(ends),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InvalidInputError(
            f"{where} holds no DLF token: expected JSON with AccessKeyId, AccessKeySecret,"
            " SecurityToken and Expiration (yyyy-MM-ddTHH:mm:ssZ).",
            kind="dlf-token",
        ) from None


def _epoch_ms(text: str) -> int:
    moment = dt.datetime.strptime(text, _EXPIRATION).replace(tzinfo=dt.UTC)
    return int(moment.timestamp() * 1000)


def read_token_file(path: str) -> DlfToken:
    """Read the token file."""
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
            if token is None or self._ends_soon(token):
                token = self._token = self._load()
            return token

    def _ends_soon(self, token: DlfToken) -> bool:
        ends = token.expires_ms
        return ends is not None and ends - self._clock.now_millis() < RENEWED_BEFORE_MS
