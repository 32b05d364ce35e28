"""Real HTTP servers of this process: one that answers by a script, proxies that lose and count."""

import hashlib
import http.client
import json
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

Headers = list[tuple[str, str]]
_OF_ONE_HOP = frozenset(
    {"connection", "transfer-encoding", "keep-alive", "content-length", "date", "server", "expect"}
)


class Handler(BaseHTTPRequestHandler):
    """One request of a `LocalServer`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body of an answer are sent one after the other
    server: "LocalServer"

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def _answer(self) -> None:
        self.server.answer(self, self._body())

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length")
        body = self.rfile.read(int(length or 0))
        if length is None and self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
        return body

    def forward(
        self, authority: str, body: bytes, *, without: frozenset[str] = frozenset()
    ) -> tuple[int, Headers, bytes]:
        """Return (status, headers, body) of another server's answer to the same request."""
        dropped = {"connection", "transfer-encoding", "content-length", "expect", *without}
        sent = [(k, v) for k, v in self.headers.items() if k.lower() not in dropped]
        connection = http.client.HTTPConnection(authority, timeout=60)
        try:
            connection.putrequest(
                self.command, self.path, skip_host=True, skip_accept_encoding=True
            )
            for name, value in [*sent, ("Content-Length", str(len(body)))]:
                connection.putheader(name, value)
            connection.endheaders(body or None)
            response = connection.getresponse()
            data = response.read()
            kept = [(k, v) for k, v in response.getheaders() if k.lower() not in _OF_ONE_HOP]
            length = response.getheader("Content-Length") if self.command == "HEAD" else None
            return response.status, [*kept, ("Content-Length", length or str(len(data)))], data
        finally:
            connection.close()

    def reply(self, status: int, headers: Headers, body: bytes, *, cut: bool = False) -> None:
        """Answer; `headers` have the length. A `cut` answer breaks off in its midst."""
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        self.close_connection = self.close_connection or cut

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _answer  # noqa: N815 - names of http.server


class LocalServer(ThreadingHTTPServer):
    """A server on a free port of this machine."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.closing = threading.Event()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, handler: Handler, body: bytes) -> None:
        raise NotImplementedError

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Serve until the end of the block."""
        thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self.closing.set()
            self.shutdown()
            thread.join()
            self.server_close()


@dataclass(frozen=True)
class Say:
    status: int = 200
    body: Any = None
    """JSON, or bytes as they are."""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    """Whether the connection breaks in the midst of the body."""
    silent: bool = False
    """Whether it breaks before the answer."""
    hangs: bool = False
    """Whether it sends nothing for as long as the server lives."""


@dataclass(frozen=True)
class Asked:
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class ScriptedServer(LocalServer):
    """Answers by a list, in order; `asked` holds the requests."""

    def __init__(self) -> None:
        super().__init__()
        self.script: deque[Say] = deque()
        self.asked: list[Asked] = []

    def will(self, *answers: Say) -> None:
        """Answer these next."""
        self.script.extend(answers)

    def answer(self, handler: Handler, body: bytes) -> None:
        request = Asked(handler.command, handler.path, dict(handler.headers), body)
        self.asked.append(request)
        say = self.script.popleft() if self.script else Say(500)
        if say.hangs:
            self.closing.wait()
        if say.hangs or say.silent:
            handler.close_connection = True
            return
        data = say.body if isinstance(say.body, bytes) else b""
        if say.body is not None and not isinstance(say.body, bytes):
            data = json.dumps(say.body).encode()
        headers = [*say.headers.items(), ("Content-Length", str(len(data)))]
        handler.reply(say.status, headers, data, cut=say.cut)


class Fate(StrEnum):
    PASSED = "passed on"
    LOST_BEFORE = "the request is lost"
    LOST_AFTER = "the answer is lost"
    CUT = "the answer is cut"
    BUSY = "429, and it is not passed on"
    UNAVAILABLE_BEFORE = "503, and it is not passed on"
    UNAVAILABLE_AFTER = "503, though it was passed on"
    FAILED_AFTER = "500, though it was passed on"


_BUSY = {Fate.BUSY: 429, Fate.UNAVAILABLE_BEFORE: 503}
_AFTER = {Fate.UNAVAILABLE_AFTER: 503, Fate.FAILED_AFTER: 500}


class LossyProxy(LocalServer):
    """A proxy: `fates` come true for the next requests whose path ends with `suffix`."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.suffix = ""
        self.fates: deque[Fate] = deque()
        self._upstream = f"127.0.0.1:{port}"

    def answer(self, handler: Handler, body: bytes) -> None:
        is_meant = bool(self.fates) and handler.path.endswith(self.suffix)
        fate = self.fates.popleft() if is_meant else Fate.PASSED
        status, headers, data = _BUSY.get(fate, 0), Headers(), b""
        if not status and fate is not Fate.LOST_BEFORE:
            status, headers, data = handler.forward(self._upstream, body)
        if fate in (Fate.LOST_BEFORE, Fate.LOST_AFTER):
            handler.close_connection = True
            return
        if fate in _BUSY or fate in _AFTER:
            status, data = _AFTER.get(fate, status), b""
            headers = [(k, v) for k, v in headers if k.lower() != "content-length"]
            headers.append(("Content-Length", "0"))
        if fate in _BUSY or fate is Fate.UNAVAILABLE_AFTER:
            headers.append(("Retry-After", "0"))
        handler.reply(status, headers, data, cut=fate is Fate.CUT)


_DELAY_SECONDS = 0.01
"""Seconds that every counted request takes at least, so that parallel requests overlap."""
_QUIET_SECONDS = 0.3
"""A round ends when no request has come for so long: more than a busy machine needs between two."""
_NOT_WAITED_FOR = re.compile(r"PUT .*/snapshot/LATEST|DELETE .*\.tmp")
"""Requests that an operation leaves to the background."""


@dataclass
class Counts:
    requests: list[tuple[float, float, str]] = field(default_factory=list)
    """(begin, end, method and path)."""
    down_bytes: int = 0

    @property
    def depth(self) -> int:
        """The largest number of requests of which each began after the one before had ended."""
        depth, last = 0, 0.0
        for begin, end, text in sorted(self.requests, key=lambda request: request[1]):
            if begin >= last and not _NOT_WAITED_FOR.fullmatch(text):
                depth, last = depth + 1, end
        return depth


class CountingProxy(LocalServer):
    """Passes requests on to a server of this machine, and counts them."""

    def __init__(self, upstream: str) -> None:
        super().__init__()
        self._upstream = urlsplit(upstream).netloc
        self.counts, self._lock = Counts(), threading.Lock()
        self._has_rounds = False
        self._round, self._arrived, self._open = 0, 0.0, 0

    @contextmanager
    def counting(self, *, rounds: bool = False) -> Iterator[Counts]:
        """Count the requests of a block, and those of the background that it began.

        With `rounds`, answers wait for all requests that wait for none: so the depth does not
        depend on the machine.
        """
        self.counts = counts = Counts()
        self._has_rounds = rounds
        yield counts
        time.sleep(_DELAY_SECONDS)  # requests of the background have come
        while self._open:
            time.sleep(_DELAY_SECONDS)
        self._has_rounds = False

    def answer(self, handler: Handler, body: bytes) -> None:
        with self._lock:
            counts, begin, self._open = self.counts, time.monotonic(), self._open + 1
            number, self._arrived = self._round, begin
        while self._has_rounds and number == self._round:
            time.sleep(_DELAY_SECONDS)
            with self._lock:
                is_over = time.monotonic() - self._arrived > _QUIET_SECONDS
                self._round += is_over and number == self._round
        time.sleep(_DELAY_SECONDS)
        data = b""
        try:
            status, headers, data = handler.forward(self._upstream, body)
        finally:
            with self._lock:
                ends = (number, number + 1) if self._has_rounds else (begin, time.monotonic())
                counts.requests.append((*ends, f"{handler.command} {handler.path}"))
                counts.down_bytes += len(data)
                self._open -= 1
        handler.reply(status, headers, data)


@contextmanager
def counting_proxy(options: dict[str, str]) -> Iterator[tuple[CountingProxy, dict[str, str]]]:
    """Run a proxy before the server of some catalog options; yield it and the options to use."""
    with CountingProxy(options["s3.endpoint"]).running() as proxy:
        yield proxy, {**options, "s3.endpoint": proxy.uri}


BUCKET = "lake"
"""Of a `GoogleServer`."""


class GoogleServer(LocalServer):
    """Holds objects in memory; `lie` may replace the answer to a listing of a prefix."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, tuple[bytes, dict[str, str]]] = {}
        self.lie: Callable[[str], bytes | None] = lambda _: None

    @property
    def options(self) -> dict[str, str]:
        return {"gs.endpoint": self.uri, "gs.token": "any"}

    def answer(self, handler: Handler, body: bytes) -> None:
        parts = urlsplit(handler.path)
        key, query = (
            unquote(parts.path).removeprefix(f"/{BUCKET}").lstrip("/"),
            parse_qs(parts.query),
        )
        if "list-type" in query:
            prefix, delimiter, after = (
                query.get(name, [""])[0] for name in ("prefix", "delimiter", "start-after")
            )
            data = self.lie(prefix) or self._listing(prefix, delimiter, after)
            return handler.reply(200, [("Content-Length", str(len(data)))], data)
        status, data, more = self._object(handler, key, body)
        headers = [*more.items(), ("Content-Length", str(len(data)))]
        handler.reply(status, headers, b"" if handler.command == "HEAD" else data)
        return None

    def _object(self, handler: Handler, key: str, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        sent = {name.lower(): value for name, value in handler.headers.items()}
        if handler.command == "PUT":
            if sent.get("x-goog-if-generation-match") == "0" and key in self.objects:
                return 412, b"", {}
            meta = {name: value for name, value in sent.items() if name.startswith("x-goog-meta-")}
            self.objects[key] = body, meta
        elif key not in self.objects:
            return 404, b"<Error><Code>NoSuchKey</Code></Error>", {}
        data, meta = self.objects[key]
        headers = {**meta, "ETag": _etag(data), "Last-Modified": formatdate(0, usegmt=True)}
        if handler.command == "DELETE":
            del self.objects[key]
            return 204, b"", {}
        if handler.command == "PUT":
            return 200, b"", headers
        if "range" in sent:
            start, _, end = sent["range"].removeprefix("bytes=").partition("-")
            stop = min(int(end) + 1 if end else len(data), len(data))
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
            return 206, data[int(start) : stop], headers
        return 200, data, headers

    def _listing(self, prefix: str, delimiter: str, after: str) -> bytes:
        names, folders = [], dict[str, None]()
        for key in sorted(self.objects):
            inside, found, _ = key.removeprefix(prefix).partition(delimiter or "\0")
            if key.startswith(prefix) and key > after:
                if found:
                    folders[f"{prefix}{inside}/"] = None
                else:
                    names.append(key)
        entries = [
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.objects[key][0])}</Size>"
            f"<LastModified>1970-01-01T00:00:00.000Z</LastModified>"
            f"<ETag>{escape(_etag(self.objects[key][0]))}</ETag></Contents>"
            for key in names
        ]
        entries += [
            f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in folders
        ]
        return f"<ListBucketResult>{''.join(entries)}</ListBucketResult>".encode()


def _etag(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
