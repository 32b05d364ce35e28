"""KillingProxy: a proxy before an S3 server that kills the process of a client at a request."""

import os
import signal
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.testkit.http_servers import Handler, LocalServer

FILES_WRITTEN = "files written, no snapshot"
_SNAPSHOT = "/snapshot/snapshot-"
_MOST = {"request": 30, "write": 7, "snapshot": 1}
"""Where a process dies: at one of so many requests."""
_LATEST_SECONDS = 0.4


class Timing(StrEnum):
    """When a process dies: whether the server gets its request, and when."""

    BEFORE = "before a request"
    AFTER = "before an answer"
    LATE = "before a request that arrives later"


@dataclass(slots=True, kw_only=True)
class Death:
    """A process that is to die."""

    pid: int
    timing: Timing
    place: str
    """`request`, `write` or `snapshot`."""
    left: int
    """Such requests before the one at which it dies."""
    seconds: float
    """Until a late request arrives."""

    @classmethod
    def draw(cls, pid: int, chance: Random) -> "Death":
        place = chance.choice(("request", "write", "write", "snapshot"))
        return cls(
            pid=pid,
            timing=chance.choice(list(Timing)),
            place=place,
            left=chance.randrange(_MOST[place]),
            seconds=chance.random() * _LATEST_SECONDS,
        )

    def is_now(self, method: str, path: str) -> bool:
        is_write = method not in ("GET", "HEAD")
        is_snapshot = method == "PUT" and _SNAPSHOT in path
        self.left -= {"request": True, "write": is_write, "snapshot": is_snapshot}[self.place]
        return self.left < 0


@dataclass(slots=True)
class _Life:
    """The requests of a client since it was watched."""

    death: Death | None = None
    is_over: bool = False
    puts: list[str] = field(default_factory=list)
    open: int = 0
    """Requests without an answer."""


class KillingProxy(LocalServer):
    """Knows clients by their access keys."""

    def __init__(self, upstream: str) -> None:
        super().__init__()
        self._upstream = urlsplit(upstream).netloc
        self._lives = defaultdict[str, _Life](_Life)
        self._changed = threading.Condition()
        self.kills: Counter[str] = Counter()
        """How far the killed were."""

    def watch(self, key: str, death: Death | None) -> bool:
        """Begin to count the requests of a client, which may have to die; whether it had to."""
        with self._changed:
            life = self._lives[key]
            life.death, life.puts = death, []
            return life.is_over

    def wait_for_requests(self, key: str) -> None:
        """Wait until no request of a client is on its way."""
        with self._changed:
            self._changed.wait_for(lambda: not self._lives[key].open)

    def handle_error(self, *_: Any) -> None:
        """Say nothing of connections that a death broke."""

    def answer(self, handler: Handler, body: bytes) -> None:
        credential = handler.headers.get("Authorization", "").partition("Credential=")[2]
        life = self._lives[credential.partition("/")[0]]
        with self._open(life):
            death = self._take(life, handler.command, unquote(urlsplit(handler.path).path))
            if death is None:
                handler.reply(*handler.forward(self._upstream, body))
                return
            handler.close_connection = True
            if death.timing is Timing.AFTER:
                handler.forward(self._upstream, body)
            os.kill(death.pid, signal.SIGKILL)
            if death.timing is Timing.LATE and handler.command == "PUT":
                self.closing.wait(death.seconds)
                handler.forward(self._upstream, body)

    @contextmanager
    def _open(self, life: _Life) -> Iterator[None]:
        with self._changed:
            life.open += 1
        try:
            yield
        finally:
            with self._changed:
                life.open -= 1
                self._changed.notify_all()

    def _take(self, life: _Life, method: str, path: str) -> Death | None:
        with self._changed:
            death = life.death
            if death is None or not death.is_now(method, path):
                if method == "PUT" and not path.endswith(".tmp"):
                    life.puts.append(path)
                return None
            life.death, life.is_over = None, True
            where = "nothing written"
            if any(_SNAPSHOT in put for put in life.puts):
                where = "snapshot written"
            elif method == "PUT" and _SNAPSHOT in path:
                where = f"at the snapshot, {death.timing}"
            elif life.puts:
                where = FILES_WRITTEN
            self.kills[where] += 1
            return death
