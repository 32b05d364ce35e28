"""A proxy before an S3 server that counts requests, and how many of them waited for each other."""

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

_DELAY_SECONDS = 0.01
"""So long every request takes at least: what is sent side by side overlaps."""
_NOT_PASSED = frozenset({"transfer-encoding", "connection", "date", "server", "expect"})


@dataclass
class Counts:
    requests: list[tuple[float, float, str]] = field(default_factory=list)
    """(begin, end, method and path)."""
    down_bytes: int = 0

    @property
    def depth(self) -> int:
        """The largest number of requests of which each began after the one before had ended."""
        depth, last = 0, 0.0
        for begin, end, _ in sorted(self.requests, key=lambda request: request[1]):
            if begin >= last:
                depth, last = depth + 1, end
        return depth


class Proxy(ThreadingHTTPServer):
    """Passes requests on to a server of this machine."""

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = urlsplit(upstream).port
        self.counts, self.lock = Counts(), threading.Lock()

    @contextmanager
    def counting(self) -> Iterator[Counts]:
        self.counts = counts = Counts()
        yield counts


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def _pass(self) -> None:
        counts, begin = self.server.counts, time.monotonic()
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        time.sleep(_DELAY_SECONDS)
        connection = http.client.HTTPConnection("127.0.0.1", self.server.upstream or 0)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in _NOT_PASSED}
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        data = answer.read()
        with self.server.lock:
            counts.requests.append((begin, time.monotonic(), f"{self.command} {self.path}"))
            counts.down_bytes += len(data)
        self.send_response(answer.status)
        is_head = self.command == "HEAD"
        for name, value in answer.getheaders():
            if name.lower() not in _NOT_PASSED and (is_head or name.lower() != "content-length"):
                self.send_header(name, value)
        if not is_head:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        connection.close()

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass  # noqa: N815


@contextmanager
def counting_proxy(options: dict[str, str]) -> Iterator[tuple[Proxy, dict[str, str]]]:
    """Run a proxy before the server of some catalog options; yield it and the options to use."""
    proxy = Proxy(options["s3.endpoint"])
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        yield proxy, {**options, "s3.endpoint": f"http://127.0.0.1:{proxy.server_port}"}
    finally:
        proxy.shutdown()
        proxy.server_close()
