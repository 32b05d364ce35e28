"""RestApi: the requests a REST catalog takes.

Names are the caller's, encoded here. Lists are asked for page by page. What each may raise says
`HttpClient.ask`.
Source: `org.apache.paimon.rest.RESTApi`, `ResourcePaths`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from paimon_assets.engine.codec.rest.resources import (
    ConsumerInfo,
    Identifier,
    Partition,
    SnapshotInstant,
    TableSnapshot,
    TagInstant,
    ViewSchema,
)
from paimon_assets.engine.codec.rest.rest_requests import (
    AlterDatabaseRequest,
    AlterTableRequest,
    AlterViewRequest,
    AuthRequest,
    CommitRequest,
    CreateBranchRequest,
    CreateDatabaseRequest,
    CreateTableRequest,
    CreateTagRequest,
    CreateViewRequest,
    ForwardBranchRequest,
    PartitionsRequest,
    RegisterTableRequest,
    RenameRequest,
    ResetConsumerRequest,
    RollbackRequest,
    RollbackSchemaRequest,
)
from paimon_assets.engine.codec.rest.rest_responses import (
    AlterDatabaseResponse,
    AuthResponse,
    CommitResponse,
    ConfigResponse,
    DatabaseResponse,
    FunctionResponse,
    ListBranchesResponse,
    ListConsumersResponse,
    ListDatabasesResponse,
    ListFunctionsResponse,
    ListPartitionsResponse,
    ListTablesResponse,
    ListTagsResponse,
    ListViewsResponse,
    Page,
    SnapshotResponse,
    TableResponse,
    TagResponse,
    TokenResponse,
    ViewResponse,
)
from paimon_assets.engine.codec.rest.structure import Structure
from paimon_assets.engine.codec.rest.view_changes import ViewChange
from paimon_assets.engine.control.rest.encoding import path_of
from paimon_assets.engine.control.rest.http_client import HttpClient, Nothing, Request
from paimon_assets.engine.errors import NotFoundError, StorageError
from paimon_assets.engine.spec.evolution.schema_change import SchemaChange
from paimon_assets.engine.spec.schema.schema import Schema

S = TypeVar("S", bound=Structure)
PageT = TypeVar("PageT", bound=Page)
_TOKEN = "pageToken"  # noqa: S105  # because it is a query's name


class RestApi:
    """The requests of one catalog.

    Args:
        client: Sends them.
        prefix: What the server wants in front of its paths, as its configuration says.
    """

    def __init__(self, client: HttpClient, prefix: str = "") -> None:
        self._client = client
        self._root = ("v1", *(part for part in prefix.split("/") if part))

    def config(self, warehouse: str) -> ConfigResponse:
        """Return the server's options."""
        query = {"warehouse": warehouse} if warehouse else {}
        request = Request(method="GET", path="/v1/config", query=query)
        return self._client.ask(request, ConfigResponse)

    def list_databases(self) -> list[str]:
        """Return the names of all databases."""
        pages = self._pages(("databases",), ListDatabasesResponse)
        return [name for page in pages for name in page.databases]

    def create_database(self, name: str, options: Mapping[str, str]) -> None:
        """Create a database."""
        self._post(("databases",), CreateDatabaseRequest(name=name, options=options))

    def get_database(self, name: str) -> DatabaseResponse:
        """Return a database."""
        return self._get(("databases", name), DatabaseResponse)

    def alter_database(
        self, name: str, *, removals: Sequence[str], updates: Mapping[str, str]
    ) -> AlterDatabaseResponse:
        """Change the options of a database."""
        body = AlterDatabaseRequest(removals=tuple(removals), updates=updates)
        return self._post(("databases", name), body, AlterDatabaseResponse)

    def drop_database(self, name: str) -> None:
        """Drop a database."""
        self._delete(("databases", name))

    def list_tables(self, database: str, pattern: str | None = None) -> list[str]:
        """Return the names of a database's tables; a pattern is a prefix and `%`."""
        query = {} if pattern is None else {"tableNamePattern": pattern}
        pages = self._pages(("databases", database, "tables"), ListTablesResponse, query)
        return [name for page in pages for name in page.tables]

    def create_table(self, table: Identifier, schema: Schema) -> None:
        """Create a table."""
        body = CreateTableRequest(identifier=table, schema=schema)
        self._post(("databases", table.database, "tables"), body)

    def register_table(self, table: Identifier, path: str) -> None:
        """Take in a table that lies at a path already."""
        body = RegisterTableRequest(identifier=table, path=path)
        self._post(("databases", table.database, "register"), body)

    def get_table(self, table: Identifier) -> TableResponse:
        """Return a table."""
        return self._get(_of(table), TableResponse)

    def get_table_by_id(self, table_id: str) -> TableResponse:
        """Return the table of an id."""
        return self._get(("tables", "id", table_id), TableResponse)

    def alter_table(self, table: Identifier, changes: Sequence[SchemaChange]) -> None:
        """Change a table's schema."""
        self._post(_of(table), AlterTableRequest(changes=tuple(changes)))

    def drop_table(self, table: Identifier) -> None:
        """Drop a table."""
        self._delete(_of(table))

    def rename_table(self, source: Identifier, destination: Identifier) -> None:
        """Give a table another name."""
        body = RenameRequest(source=source, destination=destination)
        self._post(("tables", "rename"), body)

    def commit(self, table: Identifier, commit: CommitRequest) -> bool:
        """Publish a snapshot; False if another was faster."""
        return self._post((*_of(table), "commit"), commit, CommitResponse).success

    def rollback(
        self, table: Identifier, target: int | str, from_snapshot: int | None = None
    ) -> None:
        """Roll a table back to a snapshot, or to a tag's."""
        instant = (
            TagInstant(tag_name=target)
            if isinstance(target, str)
            else SnapshotInstant(snapshot_id=target)
        )
        body = RollbackRequest(instant=instant, from_snapshot=from_snapshot)
        self._post((*_of(table), "rollback"), body)

    def rollback_schema(self, table: Identifier, schema_id: int) -> None:
        """Roll a table's schema back."""
        self._post((*_of(table), "rollback-schema"), RollbackSchemaRequest(schema_id=schema_id))

    def token(self, table: Identifier) -> TokenResponse:
        """Return what opens a table's files."""
        return self._get((*_of(table), "token"), TokenResponse)

    def auth(self, table: Identifier, select: Sequence[str] | None) -> AuthResponse:
        """Ask what a reader of these columns must apply."""
        body = AuthRequest(select=None if select is None else tuple(select))
        return self._post((*_of(table), "auth"), body, AuthResponse, is_change=False)

    def snapshot(self, table: Identifier) -> TableSnapshot | None:
        """Return the newest snapshot, None if there is none."""
        try:
            return self._get((*_of(table), "snapshot"), SnapshotResponse).snapshot
        except NotFoundError as error:
            if error.kind != "snapshot-not-found":
                raise
            return None

    def list_partitions(self, table: Identifier) -> list[Partition]:
        """Return the partitions the server knows; not every table has some."""
        pages = self._pages((*_of(table), "partitions"), ListPartitionsResponse)
        return [each for page in pages for each in page.partitions]

    def mark_done(self, table: Identifier, specs: Sequence[Mapping[str, str]]) -> None:
        """Mark partitions as done."""
        body = PartitionsRequest(specs=tuple(specs))
        self._post((*_of(table), "partitions", "mark"), body)

    def list_tags(self, table: Identifier) -> list[str]:
        """Return the names of all tags."""
        pages = self._pages((*_of(table), "tags"), ListTagsResponse)
        return [name for page in pages for name in page.tags]

    def get_tag(self, table: Identifier, name: str) -> TagResponse:
        """Return a tag."""
        return self._get((*_of(table), "tags", name), TagResponse)

    def create_tag(self, table: Identifier, tag: CreateTagRequest) -> None:
        """Create a tag."""
        self._post((*_of(table), "tags"), tag)

    def delete_tag(self, table: Identifier, name: str) -> None:
        """Delete a tag."""
        self._delete((*_of(table), "tags", name))

    def list_branches(self, table: Identifier) -> list[str]:
        """Return the names of all branches."""
        return list(self._get((*_of(table), "branches"), ListBranchesResponse).branches)

    def create_branch(self, table: Identifier, name: str, from_tag: str | None) -> None:
        """Create a branch."""
        body = CreateBranchRequest(branch=name, from_tag=from_tag)
        self._post((*_of(table), "branches"), body)

    def drop_branch(self, table: Identifier, name: str) -> None:
        """Delete a branch."""
        self._delete((*_of(table), "branches", name))

    def forward_branch(self, table: Identifier, name: str) -> None:
        """Let main be what a branch is."""
        self._post((*_of(table), "branches", name, "forward"), ForwardBranchRequest())

    def list_consumers(self, table: Identifier) -> list[ConsumerInfo]:
        """Return all consumers."""
        pages = self._pages((*_of(table), "consumers"), ListConsumersResponse)
        return [each for page in pages for each in page.consumers]

    def reset_consumer(self, table: Identifier, name: str, next_snapshot: int | None) -> None:
        """Let a consumer go on at a snapshot; None forgets it."""
        body = ResetConsumerRequest(consumer_id=name, next_snapshot_id=next_snapshot)
        self._post((*_of(table), "consumers", "reset"), body)

    def list_views(self, database: str) -> list[str]:
        """Return the names of a database's views."""
        pages = self._pages(("databases", database, "views"), ListViewsResponse)
        return [name for page in pages for name in page.views]

    def get_view(self, view: Identifier) -> ViewResponse:
        """Return a view."""
        return self._get(_of(view, "views"), ViewResponse)

    def create_view(self, view: Identifier, schema: ViewSchema) -> None:
        """Create a view."""
        body = CreateViewRequest(identifier=view, schema=schema)
        self._post(("databases", view.database, "views"), body)

    def alter_view(self, view: Identifier, changes: Sequence[ViewChange]) -> None:
        """Change a view."""
        self._post(_of(view, "views"), AlterViewRequest(changes=tuple(changes)))

    def drop_view(self, view: Identifier) -> None:
        """Drop a view."""
        self._delete(_of(view, "views"))

    def rename_view(self, source: Identifier, destination: Identifier) -> None:
        """Give a view another name."""
        self._post(("views", "rename"), RenameRequest(source=source, destination=destination))

    def list_functions(self, database: str) -> list[str]:
        """Return the names of a database's functions."""
        pages = self._pages(("databases", database, "functions"), ListFunctionsResponse)
        return [name for page in pages for name in page.functions]

    def get_function(self, function: Identifier) -> FunctionResponse:
        """Return a function."""
        return self._get(_of(function, "functions"), FunctionResponse)

    def _path(self, parts: Sequence[str]) -> str:
        return path_of(*self._root, *parts)

    def _get(
        self, parts: Sequence[str], into: type[S], query: Mapping[str, str] | None = None
    ) -> S:
        request = Request(method="GET", path=self._path(parts), query=query or {})
        return self._client.ask(request, into)

    def _delete(self, parts: Sequence[str]) -> None:
        request = Request(method="DELETE", path=self._path(parts), is_change=True)
        self._client.ask(request, Nothing)

    def _post(
        self,
        parts: Sequence[str],
        body: Structure,
        into: type[S] | None = None,
        *,
        is_change: bool = True,
    ) -> S:
        request = Request(
            method="POST", path=self._path(parts), body=body.to_bytes(), is_change=is_change
        )
        return self._client.ask(request, cast("type[S]", into or Nothing))

    def _pages(
        self, parts: Sequence[str], into: type[PageT], query: Mapping[str, str] | None = None
    ) -> Iterator[PageT]:
        """Yield all pages.

        Raises:
            StorageError: The server would go round in circles.
        """
        asked: dict[str, str] = dict(query or {})
        seen: set[str] = set()
        while True:
            page: Any = self._get(parts, into, asked)
            yield page
            token = page.next_page_token
            if not token:
                return
            if token in seen:
                raise StorageError(
                    f"The REST catalog lists {'/'.join(parts)} in a circle.", kind="server-failed"
                )
            seen.add(token)
            asked[_TOKEN] = token


def _of(resource: Identifier, kind: str = "tables") -> tuple[str, ...]:
    return ("databases", resource.database, kind, resource.object)
