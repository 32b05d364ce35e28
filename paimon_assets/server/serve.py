"""Starting a server: the application from its settings, and uvicorn around it.

HTTP/1.1 with limits on slow request heads and on connections per address.

uvicorn waits for ever for the first byte, and a connection counts among those the server holds at
once: silent ones would keep everybody out. Where there are too many, in all or of one client, idle
ones are closed: those that never sent a byte first, then those that have been idle longest.
"""

import asyncio
import ipaddress
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Concatenate

import uvicorn
from msgspec import field
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from paimon_assets.engine.add_ons import ADD_ONS
from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog
from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.errors import InvalidInputError, PaimonError, StorageError
from paimon_assets.engine.fileio.atomic import NO_ATOMIC_PUBLISH
from paimon_assets.engine.fileio.base import FileIO, FileIOSpec, FileStatus
from paimon_assets.engine.fileio.delegating import DelegatingFileIO, P, T, make
from paimon_assets.engine.fileio.opening import absolute_path, file_io_for
from paimon_assets.engine.spec.options.catalog_options import shown_options
from paimon_assets.engine.spec.values import Value
from paimon_assets.server.app import App
from paimon_assets.server.issued_tokens import DataTokens
from paimon_assets.server.principals import PrincipalsFile
from paimon_assets.server.routes import OPERATIONS, Routes
from paimon_assets.server.service import Service

logger = logging.getLogger(__name__)

_STRIPES = 64


class SoleWriterFileIO(DelegatingFileIO):
    """A storage without conditional put, for one server that is its only writer.

    It publishes under locks of this process alone; everything else is the storage's own. A second
    server, or a client that commits by the file system, knows nothing of them: its commits and this
    server's overwrite each other, unnoticed.
    `spec` is the storage's: a process that opens it reads and writes data files, and publishes
    nothing.
    """

    def __init__(self, inner: FileIO) -> None:
        self._inner = inner
        self._locks = tuple(Lock() for _ in range(_STRIPES))

    @property
    def spec(self) -> FileIOSpec:
        return self._inner.spec

    def publish(self, path: str, data: bytes) -> bool:
        """Create a file if there is none of that name, while no other thread publishes beside it.

        Where the storage itself refuses a name that is taken, it is asked to, all the same.
        """
        with self._locks[hash(path.rpartition("/")[0]) % _STRIPES]:
            if self._inner.exists(path):
                return False
            try:
                return self._inner.publish(path, data)
            except PaimonError as error:
                if error.kind != NO_ATOMIC_PUBLISH:
                    raise
            self._inner.replace(path, data)
            return True

    def list_tree(self, path: str) -> Callable[[str], list[FileStatus]]:
        return self._inner.list_tree(path)

    def delete_files(self, paths: Sequence[str]) -> None:
        self._inner.delete_files(paths)

    def _pass_on(
        self, method: Callable[Concatenate[FileIO, P], T], *args: P.args, **_: P.kwargs
    ) -> T:
        return make(self._inner, method, *args)


class Handshakes(socket.socket):
    """A listening socket that closes handshakes of TLS which take too long, or are too many.

    uvicorn hears of a connection when its handshake is done; until then it is counted nowhere.
    """

    most: ClassVar[int] = 256
    seconds: ClassVar[float] = 10.0
    begun: ClassVar[dict[int, tuple[socket.socket, str]]] = {}
    """File descriptor → the connection, and the address of its client; the oldest first."""

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection; above the limit, close the oldest of the busiest address."""
        accepted, address = super().accept()
        for number in [n for n, (each, _) in self.begun.items() if each.fileno() != n]:
            del self.begun[number]
        if len(self.begun) >= self.most:
            counts = Counter(host for _, host in self.begun.values())
            self._close(max(self.begun, key=lambda number: counts[self.begun[number][1]]))
        number = accepted.fileno()
        self.begun.pop(number, None)
        self.begun[number] = accepted, address[0]
        asyncio.get_running_loop().call_later(self.seconds, self._close, number, accepted)
        return accepted, address

    def _close(self, number: int, of: socket.socket | None = None) -> None:
        accepted, _ = self.begun.get(number, (None, ""))
        if accepted is not None and of in (None, accepted):
            del self.begun[number]
            with suppress(OSError):  # its client has gone
                accepted.shutdown(socket.SHUT_RDWR)  # the loop reads the end, and closes it


class TlsServer(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections on sockets, which are taken over."""
        await super().startup([Handshakes(fileno=each.detach()) for each in sockets or ()])


class PunctualProtocol(H11Protocol):
    """A connection that is closed if the head of a request does not come, or not to its end."""

    head_seconds: ClassVar[float] = 60.0
    most_connections: ClassVar[int] = 1000
    most_of_client: ClassVar[int] = 512
    """Connections from one address; a proxy has one, too."""

    _late: asyncio.TimerHandle | None = None
    heard_at: float = 0.0
    """When bytes came last; 0 if none ever did."""
    made_at: float = 0.0

    def connection_made(  # type: ignore[override]  # as in the base
        self, transport: asyncio.Transport
    ) -> None:
        super().connection_made(transport)
        Handshakes.begun.pop(transport.get_extra_info("socket").fileno(), None)
        self.made_at = self.loop.time()
        self._make_room()
        self._late = self.loop.call_later(self.head_seconds, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a head; between requests uvicorn waits by itself."""
        self.heard_at = self.loop.time()
        super().data_received(data)
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            self._wait_no_more()
        elif self._late is None:
            self._late = self.loop.call_later(self.head_seconds, self.transport.close)

    def _make_room(self) -> None:
        """Of too many, close one without a request, or whose body does not come."""
        everyone = [
            each
            for each in self.connections
            if isinstance(each, PunctualProtocol) and not each.transport.is_closing()
        ]
        own = [each for each in everyone if each.host == self.host]
        is_own = len(own) > self.most_of_client
        if not is_own and len(everyone) <= self.most_connections:
            return
        counts = Counter(each.host for each in everyone)
        waiting = [
            ((each.cycle is not None, 0 if is_own else -counts[each.host], each.has_begun), each)
            for each in (own if is_own else everyone)
            if each is not self and (not each.has_begun or (each.awaits_body and not is_own))
        ]
        if waiting:
            _, idlest = min(waiting, key=lambda it: (*it[0], it[1].heard_at, it[1].made_at))
            idlest.transport.close()
        elif is_own:
            self.transport.close()

    @property
    def host(self) -> str | None:
        return self.client and self.client[0]

    @property
    def has_begun(self) -> bool:
        """Whether a request is being answered, or its body is being received."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    @property
    def awaits_body(self) -> bool:
        """Whether the rest of a body has not come yet."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and cycle.more_body

    def _wait_no_more(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


_MOST_AT_ONCE = PunctualProtocol.most_connections + 24
"""Connections at once; more are answered 503 before anything is done, and clients wait."""
_KEEP_ALIVE_SECONDS = 75
"""Longer than clients keep an idle connection: none finds it closed in the midst of a commit."""
_GRACE_SECONDS = 30
_HEADER_BYTES = 64 * 1024


class ServeSettings(Value, hidden=("storage_options",)):
    warehouse: str
    storage_options: Mapping[str, str] = field(default_factory=dict)
    host: str = "127.0.0.1"
    port: int = 8080
    principals: Path | None = None
    data_tokens: Path | None = None
    """File of the storage keys that clients get (`server.issued_tokens`)."""
    insecure: bool = False
    read_only: bool = False
    sole_writer: bool = False
    roots: tuple[str, ...] = ()
    client_options: Mapping[str, str] = field(default_factory=dict)
    table_health: float | None = None
    """Seconds for which measured health of tables is shown at /metrics; None shows none."""
    tls_certificate: Path | None = None
    tls_key: Path | None = None


def app_of(settings: ServeSettings, *, clock: Clock | None = None) -> App:
    _check_tls(settings)
    clock = clock or SystemClock()
    storage = file_io_for(settings.warehouse, settings.storage_options)
    if settings.sole_writer:
        storage = SoleWriterFileIO(storage)
    shown = shown_options(settings.client_options)
    hidden = [key for key, value in settings.client_options.items() if shown[key] != value]
    if hidden:
        message = f"'{hidden[0]}' is a secret; every client would hear it. Clients bring their own."
        raise InvalidInputError(message, kind="client-option")
    service = Service(
        catalog=FilesystemCatalog(absolute_path(settings.warehouse), storage, clock=clock),
        clock=clock,
        storage_options=settings.storage_options,
        client_options=settings.client_options,
        roots=settings.roots,
        read_only=settings.read_only,
        data_tokens=_data_tokens(settings),
    )
    service.file_io.list_directory(service.catalog.warehouse)
    return App(
        service,
        Routes(OPERATIONS, (each.load("rest.routes").DIALECT for each in ADD_ONS)),
        principals=_principals(settings),
        health_seconds=settings.table_health,
    )


def serve(settings: ServeSettings, *, on_start: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; requests that were begun are ended first."""
    app = app_of(settings)
    _warn(settings)
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listening = socket.create_server((settings.host, settings.port), family=family, backlog=256)
    except OSError as error:
        raise StorageError(
            f"Cannot listen on {settings.host}:{settings.port}: {error.strerror}.", kind="port"
        ) from error
    with listening:
        scheme = "http" if settings.tls_certificate is None else "https"
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        on_start(f"{scheme}://{host}:{listening.getsockname()[1]}")
        uvicorn_of(app, settings).run(sockets=[listening])


def uvicorn_of(app: App, settings: ServeSettings) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
        # Other loops accept connections by themselves.
        loop="auto" if settings.tls_certificate is None else "asyncio",
        http=PunctualProtocol,  # of h11, which bounds the buffer of a head
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_MOST_AT_ONCE,
        h11_max_incomplete_event_size=_HEADER_BYTES,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
    )
    return uvicorn.Server(config) if settings.tls_certificate is None else TlsServer(config)


def _check_tls(settings: ServeSettings) -> None:
    certificate, key = settings.tls_certificate, settings.tls_key
    if certificate is None:
        if key is not None:
            raise InvalidInputError("--tls-key needs --tls-certificate.", kind="tls")
        return
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidInputError(
            f"--tls-certificate '{certificate}' and --tls-key '{key or certificate}' are no pair: "
            f"{error.strerror or error}.",
            kind="tls",
        ) from error


def _principals(settings: ServeSettings) -> PrincipalsFile | None:
    if settings.insecure and settings.principals is not None:
        message = "--insecure lets everybody do everything, in spite of --principals; give one."
        raise InvalidInputError(message, kind="principals")
    if settings.insecure:
        return None
    if settings.principals is None:
        raise InvalidInputError(
            "A server without tokens lets everybody do everything. Give --principals FILE, or say "
            "--insecure if that is meant.",
            kind="principals",
        )
    try:
        return PrincipalsFile(settings.principals)
    except OSError as error:
        raise InvalidInputError(
            f"The file of principals '{settings.principals}': {error.strerror}.", kind="principals"
        ) from error


def _data_tokens(settings: ServeSettings) -> DataTokens | None:
    if settings.data_tokens is None:
        return None
    if settings.insecure:
        message = "--insecure would hand --data-tokens to everybody; give --principals."
        raise InvalidInputError(message, kind="data-tokens")
    tokens = DataTokens(path=settings.data_tokens, own_options=settings.storage_options)
    tokens.check()
    return tokens


def _warn(settings: ServeSettings) -> None:
    if settings.insecure:
        logger.warning("--insecure: every client of this server may do everything")
    try:
        is_loopback = ipaddress.ip_address(settings.host).is_loopback
    except ValueError:
        is_loopback = settings.host == "localhost"
    if settings.tls_certificate is None and not is_loopback:
        logger.warning("no TLS: tokens can be read on the way, unless a proxy in front has it")
    if not settings.insecure and settings.data_tokens is None:
        logger.warning(
            "no data tokens are issued: grants are enforced here; a client with credentials of the "
            "storage can read and write files in spite of the grants"
        )
    if settings.sole_writer:
        logger.warning(
            "--sole-writer: only this process orders commits. A second server, and "
            "clients that commit by the file system, would overwrite them unnoticed"
        )
