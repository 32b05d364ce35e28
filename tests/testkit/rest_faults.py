"""A real HTTP server that answers what a test says, in order, and notes what it was asked."""

import json
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


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
    """Whether nothing comes for as long as the server lives."""


@dataclass(frozen=True)
class Asked:
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class ScriptedServer:
    """The server; `says` is what it will answer, `asked` what came."""

    def __init__(self) -> None:
        self.says: deque[Say] = deque()
        self.asked: list[Asked] = []
        self.closing = threading.Event()
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                scripted.asked.append(Asked(self.command, self.path, dict(self.headers), body))
                said = scripted.says.popleft() if scripted.says else Say(500)
                scripted.give(self, said)

            do_GET = do_POST = do_DELETE = answer  # noqa: N815

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def will(self, *answers: Say) -> None:
        """Answer these next."""
        self.says.extend(answers)

    def give(self, handler: BaseHTTPRequestHandler, said: Say) -> None:
        if said.hangs:
            self.closing.wait()
        if said.hangs or said.silent:
            handler.close_connection = True
            return
        body = said.body if isinstance(said.body, bytes) else b""
        if said.body is not None and not isinstance(said.body, bytes):
            body = json.dumps(said.body).encode()
        handler.send_response(said.status)
        for name, value in said.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[: len(body) // 2] if said.cut else body)
        handler.close_connection = handler.close_connection or said.cut

    @contextmanager
    def running(self) -> Iterator["ScriptedServer"]:
        """Serve until the end of the block."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield self
        finally:
            self.closing.set()
            self._server.shutdown()
            thread.join()
            self._server.server_close()
