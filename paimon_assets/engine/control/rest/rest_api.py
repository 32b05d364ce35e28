"""RestApi: requests to a REST catalog, by the parts of a path below its prefix.

Parts are the caller's names, encoded here. Lists are asked for page by page. What each may raise
says `HttpClient.ask`.
Source: `org.apache.paimon.rest.RESTApi`, `ResourcePaths`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from paimon_assets.engine.codec.rest.documents import ConfigResponse, Page
from paimon_assets.engine.codec.rest.structure import Structure
from paimon_assets.engine.control.rest.encoding import path_of
from paimon_assets.engine.control.rest.http_client import HttpClient, Nothing, Request
from paimon_assets.engine.errors import StorageError

S = TypeVar("S", bound=Structure)
_TOKEN = "pageToken"  # noqa: S105  # because it is a query's name


class RestApi:
    def __init__(self, client: HttpClient, prefix: str = "") -> None:
        self._client = client
        self._root = ("v1", *(part for part in prefix.split("/") if part))

    def config(self, warehouse: str) -> ConfigResponse:
        query = {"warehouse": warehouse} if warehouse else {}
        request = Request(method="GET", path="/v1/config", query=query)
        return self._client.ask(request, ConfigResponse)

    def _path(self, parts: Sequence[str]) -> str:
        return path_of(*self._root, *parts)

    def get(self, parts: Sequence[str], into: type[S], query: Mapping[str, str] | None = None) -> S:
        request = Request(method="GET", path=self._path(parts), query=query or {})
        return self._client.ask(request, into)

    def delete(self, parts: Sequence[str], query: Mapping[str, str] | None = None) -> None:
        path = self._path(parts)
        request = Request(method="DELETE", path=path, query=query or {}, is_change=True)
        self._client.ask(request, Nothing)

    def post(
        self,
        parts: Sequence[str],
        body: Structure,
        into: type[S] | None = None,
        *,
        is_change: bool = True,
    ) -> S:
        """Send a body to a path, and return the answer."""
        request = Request(
            method="POST", path=self._path(parts), body=body.to_bytes(), is_change=is_change
        )
        return self._client.ask(request, cast("type[S]", into or Nothing))

    def listed(self, parts: Sequence[str], into: type[Page], member: str) -> list[Any]:
        """Return the members of all pages of a list."""
        asked: dict[str, str] = {}
        seen: set[str] = set()
        found: list[Any] = []
        while True:
            page: Any = self.get(parts, into, asked)
            found += getattr(page, member)
            token = page.next_page_token
            if not token:
                return found
            if token in seen:
                raise StorageError(
                    f"The REST catalog lists {'/'.join(parts)} in a circle.", kind="server-failed"
                )
            seen.add(token)
            asked[_TOKEN] = token
