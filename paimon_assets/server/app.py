"""The HTTP side: limits, who asks, which operation, errors as bodies, counts and audit lines.

    head ─▶ route ─▶ who asks ─▶ body (limited) ─▶ operation, in a thread ─▶ JSON

Routes are found in the path as it was sent: `%2F` inside a name does not cut it.
"""

import json
import logging
import time
from asyncio import timeout
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl
from uuid import uuid4

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from paimon_assets.engine.errors import PaimonError
from paimon_assets.server.audit_log import write_audit_line
from paimon_assets.server.authentication import Authentication
from paimon_assets.server.metrics import Metrics
from paimon_assets.server.principals import PrincipalsFile
from paimon_assets.server.refusal import Refusal, bad_request, refusal_of
from paimon_assets.server.request import Request
from paimon_assets.server.routes import Found, Routes
from paimon_assets.server.service import Service
from paimon_assets.server.signatures import Head

logger = logging.getLogger(__name__)

MOST_BYTES = 32 * 1024 * 1024
"""Bytes of a body."""
BODY_SECONDS = 60.0
"""How long a client may take to send one."""


class App:
    """The ASGI application of one server.

    Args:
        service: The operations, on one warehouse.
        routes: Which path means which operation.
        principals: Who may ask; None lets everybody do everything.
    """

    def __init__(
        self, service: Service, routes: Routes, *, principals: PrincipalsFile | None
    ) -> None:
        self._service = service
        self._routes = routes
        self._authentication = Authentication(principals, service.clock)
        self._metrics = Metrics()

        self._starlette = Starlette()
        self._starlette.router.default = self._handle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection's event."""
        await self._starlette(scope, receive, send)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request_id = uuid4().hex
        response = await self._answer(HttpRequest(scope, receive), request_id)
        response.headers["x-request-id"] = request_id
        await response(scope, receive, send)

    async def _answer(self, http: HttpRequest, request_id: str) -> Response:
        if http.scope["path"] == "/healthz":
            return await self._health()
        began = time.perf_counter()
        operation, status = "none", int(HTTPStatus.INTERNAL_SERVER_ERROR)
        asked: Request | None = None
        is_audited = False
        try:
            head = _head_of(http)
            if head.path == "/metrics":
                self._authentication.principal(head)
                return PlainTextResponse(self._metrics.text())
            found = self._routes.find(head.method, head.path)
            operation = found.route.operation
            is_audited = found.route.changes or found.route.is_audited
            asked = await self._asked(http, head, found, request_id)
            answer = await run_in_threadpool(self._run, found, asked)
            status = int(HTTPStatus.OK)
            return _json(status, answer)
        except Refusal as refusal:
            status = refusal.status
            return _json(status, refusal.body())
        except ClientDisconnect:
            status = 499  # as others count it; nobody reads the answer
            return Response(status_code=int(HTTPStatus.BAD_REQUEST))
        except Exception:
            logger.exception("request %s: %s failed", request_id, operation)
            failure = Refusal(status, f"Internal error; request {request_id}.")
            return _json(status, failure.body())
        finally:
            self._metrics.count(operation, status, time.perf_counter() - began)
            if is_audited and asked is not None:
                write_audit_line(asked, status)

    async def _asked(self, http: HttpRequest, head: Head, found: Found, request_id: str) -> Request:
        principal = await run_in_threadpool(self._authentication.principal, head)
        if self._service.read_only and found.route.changes:
            raise Refusal(HTTPStatus.FORBIDDEN, "This server is read only.")
        try:
            async with timeout(BODY_SECONDS):
                body = await self._body(http)
        except TimeoutError as error:
            raise Refusal(HTTPStatus.REQUEST_TIMEOUT, "The body came too slowly.") from error
        self._authentication.check_body(head, body)
        return Request(
            operation=found.route.operation,
            names=found.names,
            query=dict(head.query),
            body=body,
            principal=principal,
            id=request_id,
        )

    async def _body(self, http: HttpRequest) -> bytes:
        too_large = Refusal(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body is larger than {MOST_BYTES} bytes."
        )
        length = http.headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:19]) > MOST_BYTES:
            raise too_large
        body = bytearray()
        async for chunk in http.stream():
            body += chunk
            if len(body) > MOST_BYTES:
                raise too_large
        return bytes(body)

    def _run(self, found: Found, request: Request) -> Mapping[str, Any] | None:
        try:
            return found.route.handler(self._service, request)
        except PaimonError as error:
            refusal = refusal_of(error, request.names)
            if refusal.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                logger.warning(
                    "request %s: %s failed", request.id, request.operation, exc_info=True
                )
            raise refusal from error

    async def _health(self) -> Response:
        try:
            await run_in_threadpool(self._service.check)
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
