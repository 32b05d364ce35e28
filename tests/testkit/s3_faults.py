"""S3Faults: a proxy before an S3 server that answers some requests itself.

with s3_faults(options) as (faults, through):
    faults.plan("PUT", "*/snapshot/LATEST", 403)
    ...                                    # uses the options `through`
    assert faults.fired
"""

import contextlib
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from urllib.parse import unquote, urlsplit

from tests.testkit.http_servers import Handler, Headers, LocalServer

ENDED = -400
"""Status in a plan: 400, of a token that has ended; S3 has no more to say to a HEAD."""
KEPT = -200
"""Status in a plan: 200, of a deletion of many that says in its body what it kept, and why."""
CUT = -1
"""No status in a plan: the answer breaks off in its midst."""
RESET = -2
"""No status in a plan: the connection is reset before the answer."""
SLOW = -3
"""No status in a plan: the answer comes after those to the next requests."""
_SLOW_SECONDS = 0.3
_CODES = {
    KEPT: "AccessDenied",
    ENDED: "ExpiredToken",
    403: "AccessDenied",
    404: "NoSuchKey",
    409: "ConditionalRequestConflict",
    500: "InternalError",
    503: "ServiceUnavailable",
}


@dataclass(slots=True, kw_only=True)
class _Plan:
    method: str
    path: str
    status: int
    after: bool
    skip: int
    left: int

    def matches(self, method: str, path: str) -> bool:
        found = self.left > 0 and fnmatch(method, self.method) and fnmatch(path, self.path)
        self.skip -= found
        return found and self.skip < 0


@dataclass(slots=True, kw_only=True)
class S3Faults:
    """What goes wrong, and what went."""

    plans: list[_Plan] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    fired: list[tuple[str, str]] = field(default_factory=list)
    """(method, path) of every request that was answered with a fault."""
    lives: dict[str, int] = field(default_factory=dict)
    """Access key → how many requests it serves yet; then all are answered as `ENDED`."""
    on_end: Callable[[str], None] = lambda _: None
    """Called once with each access key whose life is over."""
    ignores_conditions: bool = False
    """Whether `If-None-Match` is dropped, as stores do that do not know it."""

    def plan(
        self, method: str, path: str, status: int, *, after: bool = False, skip: int = 0
    ) -> None:
        """Answer the next request to a path of a pattern with a status."""
        self.plans.append(
            _Plan(method=method, path=path, status=status, after=after, skip=skip, left=1)
        )

    def has_ended(self, key: str) -> bool:
        """Take one request from the life of an access key; whether there was none left."""
        with self._lock:
            left = self.lives.get(key)
            if left is None:
                return False
            self.lives[key] = left - 1
            if left == 0:
                self.on_end(key)
            return left <= 0

    def reset(self) -> None:
        """Forget what was planned and what happened."""
        self.plans.clear()
        self.lives.clear()
        self.fired.clear()

    def take(self, method: str, path: str) -> _Plan | None:
        """Return the fault of a request, and count it."""
        found = next((plan for plan in self.plans if plan.matches(method, path)), None)
        if found is not None:
            found.left -= 1
            self.fired.append((method, path))
        return found


@contextlib.contextmanager
def s3_faults(options: Mapping[str, str]) -> Iterator[tuple[S3Faults, dict[str, str]]]:
    """Run a proxy; yield its faults and the options that go through it."""
    with _Proxy(options["s3.endpoint"]).running() as proxy:
        yield proxy.faults, {**options, "s3.endpoint": proxy.uri}


class _Proxy(LocalServer):
    def __init__(self, upstream: str) -> None:
        super().__init__()
        self.faults = S3Faults()
        self._upstream = urlsplit(upstream).netloc

    def answer(self, handler: Handler, body: bytes) -> None:
        path = unquote(urlsplit(handler.path).path)
        plan = self.faults.take(handler.command, path)
        credential = handler.headers.get("Authorization", "").partition("Credential=")[2]
        if plan is None and self.faults.has_ended(credential.partition("/")[0]):
            plan = _Plan(method="", path="", status=ENDED, after=False, skip=0, left=0)
            self.faults.fired.append((handler.command, path))
        status, headers, data = 0, Headers(), b""
        if plan is None or plan.after:
            ignored = frozenset({"if-none-match"} if self.faults.ignores_conditions else ())
            status, headers, data = handler.forward(self._upstream, body, without=ignored)
        if plan is not None and plan.status == RESET:
            handler.close_connection = True
            never = struct.pack("ii", 1, 0)  # linger: what was not sent yet is dropped
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, never)
            return
        if plan is not None and plan.status in (CUT, SLOW):
            status, headers, data = handler.forward(self._upstream, body)
            self.closing.wait(_SLOW_SECONDS if plan.status == SLOW else 0)
        elif plan is not None:
            code = _CODES[plan.status]
            text = f"<Error><Code>{code}</Code><Message>injected</Message></Error>".encode()
            if plan.status == KEPT:
                keys = re.findall(rb"<Key>.*?</Key>", body)
                errors = (text.replace(b"<Error>", b"<Error>" + key) for key in keys)
                text = b"<DeleteResult>%s</DeleteResult>" % b"".join(errors)
            status, headers = abs(plan.status), [("Content-Length", str(len(text)))]
            data = b"" if handler.command == "HEAD" else text
        handler.reply(status, headers, data, cut=plan is not None and plan.status == CUT)
