"""A proxy between a client and a server that loses what a test says."""

import http.client
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_HOP = frozenset({"connection", "transfer-encoding", "content-length", "date", "server"})


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
_LOST = frozenset({Fate.LOST_BEFORE, Fate.LOST_AFTER})


class LossyProxy:
    """The proxy: `fates` come true for the next requests whose path ends with `suffix`."""

    def __init__(self, port: int) -> None:
        self.suffix = ""
        self.fates: deque[Fate] = deque()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                is_meant = bool(proxy.fates) and self.path.endswith(proxy.suffix)
                fate = proxy.fates.popleft() if is_meant else Fate.PASSED
                headers: list[tuple[str, str]] = []
                status, answer = _BUSY.get(fate, 0), b""
                if not status and fate is not Fate.LOST_BEFORE:
                    status, headers, answer = self.asked(body)
                if fate in _AFTER:
                    status, answer = _AFTER[fate], b""
                if fate in _LOST:
                    self.close_connection = True
                    return
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                if fate in _BUSY or fate is Fate.UNAVAILABLE_AFTER:
                    self.send_header("Retry-After", "0")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                cut = fate is Fate.CUT
                self.wfile.write(answer[: len(answer) // 2] if cut else answer)
                self.close_connection = self.close_connection or cut

            def asked(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
                there = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                there.putrequest(self.command, self.path, skip_host=True)
                for name, value in self.headers.items():
                    there.putheader(name, value)
                there.endheaders(body or None)
                answer = there.getresponse()
                data = answer.read()
                there.close()
                kept = [(n, v) for n, v in answer.getheaders() if n.lower() not in _HOP]
                return answer.status, kept, data

            do_GET = do_POST = do_DELETE = pass_on  # noqa: N815

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def running(self) -> Iterator["LossyProxy"]:
        """Pass on until the end of the block."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()
