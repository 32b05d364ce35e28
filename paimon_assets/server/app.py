"""The HTTP layer: limits, authentication, routing, errors as bodies, counters and audit lines.

    head ─▶ route ─▶ principal ─▶ body (limited) ─▶ operation, in a thread ─▶ JSON

Routes are found in the path as it was sent: `%2F` inside a name does not cut it.

Metrics: counts and times of requests by operation, in Prometheus' text format.
"""

import asyncio
import json
import logging
import time
from asyncio import timeout
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl
from uuid import uuid4

from msgspec.structs import replace
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from paimon_assets.engine.control.catalog.catalog_state import STATE_DIRECTORY
from paimon_assets.engine.errors import PaimonError
from paimon_assets.server.audit_log import Strangers, write_audit_line
from paimon_assets.server.authentication import Authentication, Head, Nonces
from paimon_assets.server.metrics import Metrics
from paimon_assets.server.principals import PrincipalsFile
from paimon_assets.server.request import Refusal, Request, bad_request, forbidden, refusal_of
from paimon_assets.server.routes import Route, Routes
from paimon_assets.server.service import Service

logger = logging.getLogger(__name__)

MOST_BYTES = 32 * 1024 * 1024
BODY_SECONDS = 60.0
"""How long a client may take to send one."""
MOST_TOGETHER = 8 * MOST_BYTES
"""Bytes of memory for all bodies at once; the bodies of one principal may use half of them."""
MOST_UNFINISHED = 128
"""Bodies that one principal sends at once."""
_MEMBER_BYTES = 48
"""Estimated memory of one JSON value, however short its text."""


class Bodies:
    """How much memory bodies take at once, in all and of each principal, and how many come in."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self._unfinished: Counter[str] = Counter()

    @contextmanager
    def of(self, principal: str) -> Iterator[Callable[[int], None]]:
        """Yield the counter of one body's bytes, until the block ends."""
        size = 0

        def take(more: int) -> None:
            nonlocal size
            if size + more > MOST_TOGETHER // 2:
                raise Refusal(
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                    f"The body would take more than {MOST_TOGETHER // 2} bytes of memory.",
                )
            size += more
            self._held[principal] += more
            if self._held[principal] > MOST_TOGETHER // 2 or self._held.total() > MOST_TOGETHER:
                raise _too_many()

        try:
            yield take
        finally:
            self._held[principal] -= size

    @contextmanager
    def count_unfinished(self, principal: str) -> Iterator[None]:
        """Count a body as unfinished until the block ends."""
        if self._unfinished[principal] >= MOST_UNFINISHED:
            raise _too_many()
        self._unfinished[principal] += 1
        try:
            yield
        finally:
            self._unfinished[principal] -= 1


def _too_many() -> Refusal:
    return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "Too many bodies at once; try again later.")


class App:
    def __init__(
        self,
        service: Service,
        routes: Routes,
        *,
        principals: PrincipalsFile | None,
        health_seconds: float | None = None,
    ) -> None:
        self._service = service
        self._routes = routes
        used = f"{service.catalog.warehouse.rstrip('/')}/{STATE_DIRECTORY}/nonces"
        nonces = Nonces(service.file_io, used, service.clock)
        self._authentication = Authentication(principals, service.clock, nonces)
        self._metrics = Metrics(service.catalog, health_seconds)
        self._strangers = Strangers()
        self._bodies = Bodies()
        self._reserve = ThreadPoolExecutor(1, thread_name_prefix="health")
        self._look: asyncio.Future[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request_id = uuid4().hex
        http = HttpRequest(scope, receive)
        if "transfer-encoding" in http.headers and (
            "content-length" in http.headers or scope["http_version"] == "1.0"
        ):
            # A proxy in front may take the other one for the end of the request.
            refusal = bad_request("Transfer-Encoding needs HTTP/1.1, and excludes Content-Length.")
            response = _json(refusal.status, self._routes.error_body(refusal, scope["path"]))
            response.headers["connection"] = "close"
        else:
            response = await self._answer(http, request_id)
        response.headers["x-request-id"] = request_id
        await response(scope, receive, send)

    async def _answer(self, http: HttpRequest, request_id: str) -> Response:
        if http.scope["path"] == "/healthz":
            return await self._health()
        began = time.perf_counter()
        operation, status = "none", int(HTTPStatus.INTERNAL_SERVER_ERROR)
        request: Request | None = None
        is_audited = False
        try:
            head = _head_of(http)
            if head.path == "/metrics":
                operation = "metrics"
                principal = await run_in_threadpool(self._authentication.principal, head)
                text = await run_in_threadpool(self._metrics.text, principal)
                status = int(HTTPStatus.OK)
                return PlainTextResponse(text)
            route, names = self._routes.find(head.method, head.path)
            operation = route.operation
            route.refuse_everybody()
            is_audited = route.changes or route.is_audited
            principal = await run_in_threadpool(self._authentication.principal, head)
            request = Request(
                operation=operation,
                names=names,
                query=dict(head.query),
                body=b"",
                principal=principal,
                id=request_id,
                delegation=self._routes.delegation(head, http.scope["path"]),
            )
            self._check_asker(http, request, route)
            with self._bodies.of(principal.name) as take:
                with self._bodies.count_unfinished(principal.name):
                    body = await self._body(http, take)
                self._authentication.check_body(head, body)
                take(_MEMBER_BYTES * sum(body.count(mark) for mark in (b",", b"[", b"{")))
                request = replace(request, body=body)
                answer = await run_in_threadpool(self._run, route, head, request)
            status = int(HTTPStatus.NO_CONTENT if head.method == "HEAD" else HTTPStatus.OK)
            return _json(status, answer)
        except Refusal as refusal:
            status = refusal.status
            if status == HTTPStatus.UNAUTHORIZED:
                client = http.client.host if http.client else "unknown"
                self._strangers.write(client, operation, request_id)
            return _json(status, self._routes.error_body(refusal, http.scope["path"]))
        except ClientDisconnect:
            status = 499  # nginx's code for this in the log; the client reads no answer
            return Response(status_code=int(HTTPStatus.BAD_REQUEST))
        except Exception:
            logger.exception("request %s: %s failed", request_id, operation)
            failure = Refusal(status, f"Internal error; request {request_id}.")
            return _json(status, self._routes.error_body(failure, http.scope["path"]))
        finally:
            self._metrics.count(operation, status, time.perf_counter() - began)
            if is_audited and request is not None:
                write_audit_line(request, status)

    def _check_asker(self, http: HttpRequest, request: Request, route: Route) -> None:
        """Refuse a request by its head alone, before its body is read."""
        if self._service.read_only and route.changes:
            raise Refusal(HTTPStatus.FORBIDDEN, "This server is read only.")
        has_body = "transfer-encoding" in http.headers or (
            http.headers.get("content-length", "0") != "0"
        )
        if has_body and not request.principal.has_grant(request.names.get("database")):
            for noun in ("table", "view", "function", "database"):
                if noun in request.names:
                    raise forbidden(noun.upper(), request.names[noun].partition("$")[0])
            raise Refusal(HTTPStatus.FORBIDDEN, "No permission on anything.")

    async def _body(self, http: HttpRequest, take: Callable[[int], None]) -> bytes:
        too_large = Refusal(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body is larger than {MOST_BYTES} bytes."
        )
        length = http.headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:19]) > MOST_BYTES:
            raise too_large
        body = bytearray()
        try:
            async with timeout(BODY_SECONDS):
                async for chunk in http.stream():
                    take(len(chunk))
                    body += chunk
                    if len(body) > MOST_BYTES:
                        raise too_large
        except TimeoutError as error:
            raise Refusal(HTTPStatus.REQUEST_TIMEOUT, "The body came too slowly.") from error
        return bytes(body)

    def _run(self, route: Route, head: Head, request: Request) -> Mapping[str, Any] | None:
        try:
            with self._authentication.nonce(head) if route.changes else nullcontext():
                return route.answer(self._service, request)
        except PaimonError as error:
            refusal = refusal_of(error, request.names)
            if refusal.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                logger.warning(
                    "request %s: %s failed", request.id, request.operation, exc_info=True
                )
            raise refusal from error

    async def _health(self) -> Response:
        # In a thread of its own, and one question at a time, however many ask.
        if self._look is None or self._look.done():
            loop = asyncio.get_running_loop()
            self._look = loop.run_in_executor(self._reserve, self._service.check)
        try:
            await asyncio.shield(self._look)
        except PaimonError:
            logger.warning("the warehouse cannot be reached", exc_info=True)
            return _json(HTTPStatus.SERVICE_UNAVAILABLE, {"status": "storage"})
        return _json(HTTPStatus.OK, {"status": "ok"})


def _head_of(http: HttpRequest) -> Head:
    raw = http.scope.get("raw_path") or http.scope["path"].encode()
    try:
        path = raw.decode("ascii")
        query = parse_qsl(
            http.scope["query_string"].decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=100,
        )
    except ValueError as error:
        raise bad_request("Malformed request: the path or the query is no text.") from error
    return Head(
        method=http.method,
        path=path,
        query=tuple(query),
        headers={
            name.decode("latin-1"): value.decode("latin-1") for name, value in http.headers.raw
        },
    )


def _json(status: int, members: Mapping[str, Any] | None) -> Response:
    if members is None:
        return Response(status_code=status)
    data = json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode()
    return Response(data, status_code=status, media_type="application/json")
