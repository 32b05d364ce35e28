"""A server that dies, as of `kill -9`, at the n-th thing it does to the files of its warehouse."""

import contextlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import Any

from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog
from paimon_assets.engine.fileio.base import FileStatus
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.server.app import App
from paimon_assets.server.routes import OPERATIONS, Routes
from paimon_assets.server.serve import ServeSettings, uvicorn_of
from paimon_assets.server.service import Service
from tests.testkit.faults.killing_file_io import Countdown, KillingFileIO
from tests.testkit.rest_server import RestClient


class KillingWrites(KillingFileIO):
    """Real storage; calls that change something tick the countdown."""

    def read_bytes(self, path: str) -> bytes:
        return self._inner.read_bytes(path)

    def exists(self, path: str) -> bool:
        return self._inner.exists(path)

    def file_size(self, path: str) -> int:
        return self._inner.file_size(path)

    def list_directory(self, path: str) -> list[FileStatus]:
        return self._inner.list_directory(path)


def serve_until_killed(
    listening: socket.socket, warehouse: str, roots: tuple[str, ...], steps: int
) -> None:
    file_io = KillingWrites(LocalFileIO(), Countdown(steps))
    service = Service(catalog=FilesystemCatalog(warehouse, file_io), roots=roots)
    app = App(service, Routes(OPERATIONS), principals=None)
    uvicorn_of(app, ServeSettings(warehouse=warehouse)).run(sockets=[listening])


@contextmanager
def mortal_server(
    context: ForkServerContext, warehouse: str, roots: tuple[str, ...], steps: int
) -> Iterator[tuple[BaseProcess, RestClient]]:
    """Serve in a child that dies after `steps` steps; it is ended in any case."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listening:
        port = listening.getsockname()[1]
        process = context.Process(
            target=serve_until_killed, args=(listening, warehouse, roots, steps)
        )
        process.start()
        listening.close()
        try:
            yield process, RestClient(port)
        finally:
            process.terminate()
            process.join()


def status_of(client: RestClient, *request: Any) -> int | None:
    """Return the status of an answer, None if the server died over it."""
    with contextlib.suppress(OSError):
        return client.ask(*request).status
    return None
