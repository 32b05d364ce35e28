"""Routes: which method and path mean which operation."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from paimon_assets.engine.errors import PaimonError, StorageError
from paimon_assets.server.request import Refusal, Request, decoded
from paimon_assets.server.service import Service

PREFIX = "paimon"
"""What stands behind `/v1/`; clients learn it from `/v1/config`."""

Answer = Mapping[str, Any] | None
"""The members of a body; None is an empty one."""
Handler = Callable[[Service, Request], Answer]


@dataclass(frozen=True, slots=True)
class Route:
    """One operation."""

    method: str
    path: str
    """Behind the prefix, such as `databases/{database}`; with a slash in front: the whole path."""
    operation: str
    handler: Handler
    changes: bool = False
    """Whether it changes something."""
    is_audited: bool = False
    """Whether it leaves an audit line though it changes nothing."""

    @property
    def segments(self) -> tuple[str, ...]:
        """The parts of the whole path."""
        whole = self.path if self.path.startswith("/") else f"/v1/{PREFIX}/{self.path}"
        return tuple(whole.strip("/").split("/"))

    def answer(self, service: Service, request: Request) -> Answer:
        """Run a request's operation; files that a drop deletes meanwhile are no storage error."""
        for is_last in (False, False, True):
            request.opened.clear()
            try:
                return self.handler(service, request)
            except PaimonError as error:
                cause = isinstance(error.__cause__, FileNotFoundError | FileExistsError)
                is_lost = cause and isinstance(error, StorageError)
                if not is_lost and error.kind != "file-not-found":
                    raise  # no file or folder was gone, or something was changed
                service.refuse_dropped(request)
                if request.opened and (self.changes or is_last):
                    raise  # the table is the same, and lacks a file
        raise Refusal(
            HTTPStatus.SERVICE_UNAVAILABLE, "Others change this at once; ask again in a moment."
        )


@dataclass(frozen=True, slots=True)
class RouteMatch:
    """The route of a request, and the names in its path."""

    route: Route
    names: Mapping[str, str]


class Routes:
    """All routes; those of a path are found by their number of parts, then by their fixed ones."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._by_length: dict[int, list[Route]] = {}
        for route in routes:
            self._by_length.setdefault(len(route.segments), []).append(route)

    def find(self, method: str, path: str) -> RouteMatch:
        """Find the operation a request means."""
        parts = tuple(path.removeprefix("/").split("/"))
        known = False
        for route in self._by_length.get(len(parts), ()):
            pairs = list(zip(route.segments, parts, strict=True))
            if not all(bool(part) if s.startswith("{") else s == part for s, part in pairs):
                continue
            known = True
            if route.method == method:
                names = {
                    segment[1:-1]: decoded(part)
                    for segment, part in pairs
                    if segment.startswith("{")
                }
                return RouteMatch(route, names)
        if known:
            raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"{method} is not served here.")
        raise Refusal(HTTPStatus.NOT_FOUND, "There is no such path.")
