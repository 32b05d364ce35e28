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
from urllib.parse import parse_qs, unquote, urlsplit

from tests.testkit.http_servers import Handler, Headers, LocalServer

ENDED = -400
"""Status in a plan: 400, of a token that has ended; S3 has no more to say to a HEAD."""
KEPT = -200
"""Status in a plan: 200, of a deletion of many whose body lists the keys that it kept, and why."""
CUT = -1
"""No status in a plan: the answer breaks off in its midst."""
RESET = -2
"""No status in a plan: the connection is reset before the answer."""
SLOW = -3
"""No status in a plan: the answer follows those to the next requests."""
HTML = -4
"""A lie in a plan: 200, with a page that is no S3's."""
HTML_ETAG = -5
"""A lie in a plan: the same, with an ETag."""
ERROR = -6
"""A lie in a plan: 200, with S3's own `<Error>`."""
OTHER_ROOT = -7
"""A lie in a plan: 200, with a listing in another root."""
SHORT = -8
"""A lie in a plan: the first half of the true answer, as if it were whole."""
EMPTY = -9
"""A lie in a plan: a listing of nothing, as S3 makes it."""
NOT_FOUND = -404
"""A lie in a plan: 404, with a page that is no S3's."""
SILENT = -10
"""A lie in a plan: no answer, for as long as the server lives."""
NO_LISTINGS = (HTML, HTML_ETAG, NOT_FOUND, ERROR, OTHER_ROOT, SHORT)
"""Answers to a listing that are no listings."""
_HTML = b"<html><head><title>Sign in</title></head><body>Who are you?</body></html>"
_LISTING = (
    b'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">%s</ListBucketResult>'
)
_BODIES = {
    HTML: _HTML,
    HTML_ETAG: _HTML,
    NOT_FOUND: _HTML,
    ERROR: b"<Error><Code>InternalError</Code><Message>injected</Message></Error>",
    EMPTY: _LISTING % b"<KeyCount>0</KeyCount><IsTruncated>false</IsTruncated>",
}
_ANSWERED = frozenset({CUT, SLOW, OTHER_ROOT, SHORT})
"""Plans whose answer is made of the true one."""
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
    prefix: str = "*"

    def matches(self, method: str, path: str, prefix: str) -> bool:
        found = self.left > 0 and fnmatch(method, self.method) and fnmatch(path, self.path)
        found = found and fnmatch(prefix, self.prefix)
        self.skip -= found
        return found and self.skip < 0


@dataclass(slots=True, kw_only=True)
class S3Faults:
    """The planned faults, and those that happened."""

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

    def lie(self, status: int, prefix: str, *, skip: int = 0, times: int = 1_000_000) -> None:
        """Answer listings of a prefix of a pattern with a lie."""
        plan = _Plan(
            method="GET", path="*", status=status, after=False, skip=skip, left=times, prefix=prefix
        )
        self.plans.append(plan)

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
        """Forget plans and events."""
        self.plans.clear()
        self.lives.clear()
        self.fired.clear()

    def take(self, method: str, path: str, prefix: str = "") -> _Plan | None:
        """Return the fault of a request, and count it."""
        found = next((plan for plan in self.plans if plan.matches(method, path, prefix)), None)
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
        target = urlsplit(handler.path)
        path, query = unquote(target.path), parse_qs(target.query)
        plan = self.faults.take(handler.command, path, query.get("prefix", [""])[0])
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
            never = struct.pack("ii", 1, 0)  # linger: unsent bytes are dropped
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, never)
            return
        if plan is not None and plan.status == SILENT:
            self.closing.wait()
            handler.close_connection = True
            return
        if plan is not None and plan.status in _ANSWERED:
            status, headers, data = handler.forward(self._upstream, body)
            self.closing.wait(_SLOW_SECONDS if plan.status == SLOW else 0)
            if plan.status in (OTHER_ROOT, SHORT):
                data = data.replace(b"ListBucketResult", b"ListOfAnother")
                data = data[: len(data) // 2] if plan.status == SHORT else data
                headers = [(k, v) for k, v in headers if k.lower() != "content-length"]
                headers.append(("Content-Length", str(len(data))))
        elif plan is not None and plan.status in _BODIES:
            data = _BODIES[plan.status]
            headers = [("Content-Length", str(len(data)))]
            headers += [("ETag", '"0123456789abcdef"')] if plan.status == HTML_ETAG else []
            status = 404 if plan.status == NOT_FOUND else 200
            data = b"" if handler.command == "HEAD" else data
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
