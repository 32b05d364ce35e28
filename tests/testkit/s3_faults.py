"""S3Faults: a proxy before an S3 server that answers some requests itself.

with s3_faults(options) as (faults, through):
    faults.plan("PUT", "*/snapshot/LATEST", 403)
    ...                                    # uses the options `through`
    assert faults.fired
"""

import contextlib
import http.client
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

ENDED = -400
"""Status in a plan: 400, of a token that has ended; S3 has no more to say to a HEAD."""
KEPT = -200
"""Status in a plan: 200, of a deletion of many that says in its body what it kept, and why."""
_CODES = {
    KEPT: "AccessDenied",
    ENDED: "ExpiredToken",
    403: "AccessDenied",
    409: "ConditionalRequestConflict",
    500: "InternalError",
    503: "ServiceUnavailable",
}
_OF_ONE_HOP = frozenset({"connection", "transfer-encoding", "keep-alive", "date", "server"})


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
    faults = S3Faults()
    members = {"faults": faults, "authority": urlsplit(options["s3.endpoint"]).netloc}
    handler = type("Handler", (_Handler,), members)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        port = server.server_address[1]
        yield faults, {**options, "s3.endpoint": f"http://127.0.0.1:{port}"}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    """One connection; every request is passed on with a connection of its own."""

    protocol_version = "HTTP/1.1"
    faults: S3Faults
    authority: str

    def answer(self) -> None:
        body = self._body()
        path = unquote(urlsplit(self.path).path)
        plan = self.faults.take(self.command, path)
        if plan is None and self.faults.has_ended(self._access_key()):
            plan = _Plan(method="", path="", status=ENDED, after=False, skip=0, left=0)
            self.faults.fired.append((self.command, path))
        status, headers, answered = 0, list[tuple[str, str]](), b""
        if plan is None or plan.after:
            status, headers, answered = self._passed_on(body)
        if plan is not None:
            code = _CODES[plan.status]
            text = f"<Error><Code>{code}</Code><Message>injected</Message></Error>".encode()
            if plan.status == KEPT:
                keys = re.findall(rb"<Key>.*?</Key>", body)
                errors = (text.replace(b"<Error>", b"<Error>" + key) for key in keys)
                text = b"<DeleteResult>%s</DeleteResult>" % b"".join(errors)
            status = abs(plan.status)
            headers = [("Content-Length", str(len(text)))]
            answered = b"" if self.command == "HEAD" else text
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answered)

    def _access_key(self) -> str:
        found = self.headers.get("Authorization", "").partition("Credential=")[2]
        return found.partition("/")[0]

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length")
        if length is not None:
            return self.rfile.read(int(length))
        body = b""
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
        return body

    def _passed_on(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        dropped = {"connection", "transfer-encoding", "content-length", "expect"}
        if self.faults.ignores_conditions:
            dropped.add("if-none-match")
        headers = {k: v for k, v in self.headers.items() if k.lower() not in dropped}
        connection = http.client.HTTPConnection(self.authority, timeout=60)
        try:
            headers["Content-Length"] = str(len(body))
            connection.request(self.command, self.path, body, headers)
            response = connection.getresponse()
            answered = response.read()
            kept = [
                (name, value)
                for name, value in response.getheaders()
                if name.lower() not in _OF_ONE_HOP | {"content-length"}
            ]
            length = response.getheader("Content-Length") or str(len(answered))
            if self.command != "HEAD":
                length = str(len(answered))
            return response.status, [*kept, ("Content-Length", length)], answered
        finally:
            connection.close()

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer  # noqa: N815 - names of http.server

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""
