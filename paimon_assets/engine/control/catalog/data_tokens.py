"""Data tokens: credentials of a REST catalog for the files of one table, and of no other.

A token with less than an hour left, or that the storage refuses, is renewed; of several threads
one asks. Without an answer the old token serves to its end.
Source: `org.apache.paimon.rest.RESTTokenFileIO`.
"""

import logging
import threading
from collections.abc import Callable, Mapping

from paimon_assets.engine.codec.rest.documents import TokenResponse
from paimon_assets.engine.control.clock import Clock
from paimon_assets.engine.errors import StorageError
from paimon_assets.engine.fileio.base import FileIO, FileIOSpec
from paimon_assets.engine.fileio.opening import file_io_for
from paimon_assets.engine.spec.options.catalog_options import DLF_OSS_ENDPOINT
from paimon_assets.engine.spec.options.option import Options

logger = logging.getLogger(__name__)

_SAFE_MS = 3_600_000
_PAUSE_MS = 60_000
"""How long a catalog that did not answer is not asked again while a token serves."""
_NAMES = {
    "fs.oss.accessKeyId": "oss.key",
    "fs.oss.accessKeySecret": "oss.secret",
    "fs.oss.securityToken": "oss.token",
    "fs.oss.endpoint": "oss.endpoint",
    "fs.s3a.access.key": "s3.access-key",
    "fs.s3a.secret.key": "s3.secret-key",
    "fs.s3a.session.token": "s3.session-token",
    "fs.s3a.endpoint": "s3.endpoint",
    "fs.s3a.endpoint.region": "s3.region",
    "fs.s3a.path.style.access": "s3.path-style-access",
    "s3.access.key": "s3.access-key",
    "s3.secret.key": "s3.secret-key",
    "s3.session.token": "s3.session-token",
    "s3.path.style.access": "s3.path-style-access",
}
"""Names of Hadoop's and of Java's options → those of this engine's storages."""
_CREDENTIALS = frozenset(
    f"{scheme}.{name}"
    for scheme in ("s3", "s3a", "oss")
    for name in (
        "access-key", "access-key-id", "secret-key", "session-token", "key", "secret", "token",
    )
)  # fmt: skip


def storage_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return options with the names that storages here know.

    >>> storage_options({"fs.oss.endpoint": "e", "s3.region": "r"})
    {'oss.endpoint': 'e', 's3.region': 'r'}
    """
    return {_NAMES.get(key, key): value for key, value in options.items()}


class TableStorage:
    """The storage of one table, opened with the catalog's data token."""

    def __init__(
        self, path: str, options: Mapping[str, str], ask: Callable[[], TokenResponse], clock: Clock
    ) -> None:
        self._path = path
        self._options = {
            key: value for key, value in storage_options(options).items() if key not in _CREDENTIALS
        }
        self._endpoint = Options(options).get(DLF_OSS_ENDPOINT)
        self._ask = ask
        self._clock = clock
        self._lock = threading.Lock()
        self._opened: tuple[FileIO, int] | None = None
        self._asked_again_ms = 0

    def opened(self, refused: FileIOSpec | None = None) -> tuple[FileIO, int]:
        """Return the storage, opened with a token that serves for a while, and when that ends."""
        with self._lock:
            now, held = self._clock.now_millis(), self._opened
            serves = None
            if held is not None and held[1] > now:
                is_refused = refused is not None and held[0].spec.options == refused.options
                serves = None if is_refused else held
            if serves is not None and (serves[1] - now >= _SAFE_MS or now < self._asked_again_ms):
                return serves
            try:
                token = self._ask()
            except StorageError as error:
                if serves is None:
                    raise
                logger.warning("the token of '%s' was not renewed yet: %s", self._path, error)
                self._asked_again_ms = self._clock.now_millis() + _PAUSE_MS
                return serves
            opened = file_io_for(self._path, self.options_with(token))
            if held is not None and held[0].spec == opened.spec:
                opened = held[0]
            self._opened = (opened, token.expires_at_millis)
            return self._opened

    def options_with(self, token: TokenResponse) -> dict[str, str]:
        """Return the options that open the storage with a token."""
        given = {**self._options, **storage_options(token.token)}
        return {**given, "oss.endpoint": self._endpoint} if self._endpoint else given
