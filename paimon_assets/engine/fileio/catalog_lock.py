"""CatalogLock: one writer of a table at a time, where the storage cannot say who was first.

A storage that creates a file only if it is absent needs no lock. On the others a writer holds one
while it looks whether the next snapshot exists and writes it: milliseconds. The lock is a service
beside the storage; nothing that is built on a storage without an atomic create can be one.

    jdbc    one row a table in `paimon_distributed_locks`, the table of Java's JDBC catalog. Only
            SQLite comes with Python: its file must be one that all writers see and whose file
            system locks files, so mostly all writers run on one host.

A lock whose holder died is taken over when it has expired. A holder that finds it was slower than
that says so: what it did may have been overwritten.
Source: `org.apache.paimon.catalog.CatalogLock`, `org.apache.paimon.jdbc.JdbcCatalogLock`,
`SqlLiteDistributedLockDialect`.
"""

import logging
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import Protocol

from paimon_assets.engine.errors import (
    CommitConflictError,
    CommitUnknownError,
    InvalidInputError,
    StorageError,
    UnsupportedFeatureError,
)
from paimon_assets.engine.spec.options.catalog_options import (
    CATALOG_KEY,
    LOCK_ACQUIRE_TIMEOUT,
    LOCK_CHECK_MAX_SLEEP,
    LOCK_ENABLED,
    LOCK_TYPE,
    LOCK_URI,
)
from paimon_assets.engine.spec.options.option import Options

logger = logging.getLogger(__name__)

JDBC = "jdbc"
_SQLITE_URIS = ("jdbc:sqlite:", "sqlite://")
_FIRST_SLEEP_MS = 100

_CREATE = """
CREATE TABLE IF NOT EXISTS paimon_distributed_locks (
    lock_id VARCHAR(255) NOT NULL,
    acquired_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL,
    expire_time_seconds BIGINT DEFAULT 0 NOT NULL,
    lock_owner VARCHAR(36),
    PRIMARY KEY (lock_id)
)"""
_ADD_OWNER = "ALTER TABLE paimon_distributed_locks ADD COLUMN lock_owner VARCHAR(36)"
_DROP_EXPIRED = """
DELETE FROM paimon_distributed_locks
WHERE lock_id = ? AND strftime('%s', 'now') - strftime('%s', acquired_at) > expire_time_seconds"""
_ACQUIRE = """
INSERT INTO paimon_distributed_locks (lock_id, expire_time_seconds, lock_owner) VALUES (?, ?, ?)"""
_RELEASE = "DELETE FROM paimon_distributed_locks WHERE lock_id = ? AND lock_owner = ?"


class CatalogLock(Protocol):
    """Keeps writers of one table apart."""

    def hold(self, table: str) -> AbstractContextManager[None]:
        """Hold a table's lock.

        Raises:
            CommitConflictError: Kind `lock-timeout`; others held it all the time.
            CommitUnknownError: It was held for so long that others may have taken it over.
            StorageError: Kind `lock`; who keeps the lock failed.
        """
        ...


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcLock:
    """Locks in a table of an SQLite database, shared with Java's catalogs."""

    database: str
    """Absolute path; the file and the table are created if there are none."""
    catalog_key: str
    acquire_timeout_ms: int
    check_max_sleep_ms: int
    clock: Callable[[], float] = time.monotonic
    """Seconds since some moment."""
    wait: Callable[[float], None] = _wait
    """Waits some seconds."""

    @contextmanager
    def hold(self, table: str) -> Iterator[None]:
        """See `CatalogLock`."""
        lock_id, owner = f"{self.catalog_key}.{table}", str(uuid.uuid4())
        since = self._acquire(lock_id, owner)
        try:
            yield
        finally:
            self._release(lock_id, owner)
        held = self.clock() - since
        if held >= self._lease_seconds:
            raise CommitUnknownError(
                f"The lock of table '{table}' was held for {held:.1f} s, longer than "
                f"'{LOCK_ACQUIRE_TIMEOUT.key}' grants: another writer may have taken it over.",
                details={"table": table},
            )

    @property
    def _lease_seconds(self) -> int:
        """How long a lock is nobody else's; the database counts whole seconds."""
        return max(1, self.acquire_timeout_ms // 1000)

    def _acquire(self, lock_id: str, owner: str) -> float:
        """Return the moment from which the lock is held."""
        began, sleep_ms = self.clock(), _FIRST_SLEEP_MS
        while True:
            now = self.clock()
            if self._was_free(lock_id, owner):
                return now
            if 1000 * (self.clock() - began) >= self.acquire_timeout_ms:
                raise CommitConflictError(
                    f"Lock '{lock_id}' was held by others for {self.acquire_timeout_ms} ms; raise "
                    f"'{LOCK_ACQUIRE_TIMEOUT.key}', or let fewer writers commit at once.",
                    kind="lock-timeout",
                    details={"lock": lock_id},
                )
            self.wait(min(sleep_ms, self.check_max_sleep_ms) / 1000)
            sleep_ms = min(2 * sleep_ms, self.check_max_sleep_ms)

    def _was_free(self, lock_id: str, owner: str) -> bool:
        with self._connected() as database:
            database.execute(_CREATE)
            columns = database.execute("PRAGMA table_info(paimon_distributed_locks)")
            if all(column[1] != "lock_owner" for column in columns):
                database.execute(_ADD_OWNER)  # a table of an older Java
            if database.execute(_DROP_EXPIRED, (lock_id,)).rowcount:
                logger.warning("lock '%s' had expired and is taken over", lock_id)
            try:
                database.execute(_ACQUIRE, (lock_id, self._lease_seconds, owner))
            except sqlite3.IntegrityError:
                return False
        return True

    def _release(self, lock_id: str, owner: str) -> None:
        try:
            with self._connected() as database:
                database.execute(_RELEASE, (lock_id, owner))
        except StorageError:  # what was done under the lock is done; the row expires
            logger.warning("lock '%s' could not be released", lock_id, exc_info=True)

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        try:
            # Every statement is a transaction of its own, and waits for others to end.
            with closing(sqlite3.connect(self.database, isolation_level=None)) as database:
                yield database
        except sqlite3.Error as error:
            raise StorageError(
                f"The database of the catalog lock, '{self.database}', failed: {error}.",
                kind="lock",
                details={"path": self.database},
            ) from error


def is_locked(options: Mapping[str, str]) -> bool:
    """Whether a catalog's options ask for a lock."""
    return Options(options).get(LOCK_ENABLED)


def catalog_lock(given: Mapping[str, str]) -> CatalogLock:
    """Return the lock that a catalog's options describe.

    Raises:
        UnsupportedFeatureError: Kind `lock-type`; a service this engine does not know.
        InvalidInputError: Kind `lock-uri`; it names no SQLite file by an absolute path.
    """
    options = Options(given)
    kind, uri = options.get(LOCK_TYPE), options.get(LOCK_URI)
    if kind != JDBC:
        raise UnsupportedFeatureError(
            f"'{LOCK_ENABLED.key}' = true, but '{LOCK_TYPE.key}' = '{kind}' is no lock of this "
            f"engine. Set '{LOCK_TYPE.key}' = {JDBC} and '{LOCK_URI.key}' = jdbc:sqlite:/file, or "
            "lock nothing on a storage that creates a file only if it is absent.",
            kind="lock-type",
            details={"lock_type": kind},
        )
    path = next((uri.removeprefix(start) for start in _SQLITE_URIS if uri.startswith(start)), "")
    if not path.startswith("/"):
        raise InvalidInputError(
            f"'{LOCK_URI.key}' = '{uri}' is no database of a catalog lock: expected "
            "jdbc:sqlite: and the absolute path of a file that all writers see.",
            kind="lock-uri",
            details={"uri": uri},
        )
    return JdbcLock(
        database="/" + path.lstrip("/"),
        catalog_key=options.get(CATALOG_KEY),
        acquire_timeout_ms=options.get(LOCK_ACQUIRE_TIMEOUT),
        check_max_sleep_ms=options.get(LOCK_CHECK_MAX_SLEEP),
    )
