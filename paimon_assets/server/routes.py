"""Every operation of both specifications, with its method and path; and how they are found."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from itertools import chain

from msgspec import Struct

from paimon_assets.engine.errors import PaimonError, StorageError
from paimon_assets.engine.spec.values import Value
from paimon_assets.server.authentication import Head
from paimon_assets.server.operations import items as i
from paimon_assets.server.operations import tables as t
from paimon_assets.server.operations import versions as v
from paimon_assets.server.principals import Action
from paimon_assets.server.request import (
    PREFIX,
    Answer,
    Refusal,
    Request,
    decode_segment,
    not_implemented,
)
from paimon_assets.server.service import Service

Handler = Callable[[Service, Request], Answer]


class Route(Struct, frozen=True):
    method: str
    path: str
    """Behind the prefix, such as `databases/{database}`; with a slash in front: the whole path."""
    operation: str
    handler: Handler
    changes: bool = False
    is_audited: bool = False
    """Whether it leaves an audit line though it changes nothing."""
    refusal: Callable[[], Refusal] | None = None
    """Answer to every principal, before authentication."""

    @property
    def segments(self) -> tuple[str, ...]:
        """The parts of the whole path."""
        whole = self.path if self.path.startswith("/") else f"/v1/{PREFIX}/{self.path}"
        return tuple(whole.strip("/").split("/"))

    def refuse_everybody(self) -> None:
        """Reject unsupported operations before authentication."""
        if self.refusal is not None:
            raise self.refusal()

    def answer(self, service: Service, request: Request) -> Answer:
        """Run a request's operation; files that a drop deletes meanwhile are no storage error."""
        for is_last in (False, False, True):
            request.opened.clear()
            try:
                return self.handler(service, request)
            except PaimonError as error:
                cause = isinstance(error.__cause__, FileNotFoundError | FileExistsError)
                is_lost = cause and isinstance(error, StorageError)
                if not is_lost and error.kind not in ("file-not-found", "snapshot-files"):
                    raise  # no file or folder was gone, or something was changed
                service.refuse_dropped(request)
                if request.opened and (self.changes or is_last):
                    raise  # the table is the same, and lacks a file
        raise Refusal(
            HTTPStatus.SERVICE_UNAVAILABLE, "Another request changes this now; try again shortly."
        )


class Dialect(Value):
    """Another catalog's operations, which an add-on serves below a path of its own."""

    path: str
    routes: tuple[Route, ...]
    error_members: Callable[[Refusal], Mapping[str, object]]
    """Returns the members of an error's body."""
    delegation: str
    """The header of clients that would take credentials."""


class Routes:
    """All routes; those of a path are found by their number of parts, then by their fixed ones."""

    def __init__(self, routes: Iterable[Route], dialects: Iterable[Dialect] = ()) -> None:
        self._dialects = tuple(dialects)
        self._by_length: dict[int, list[Route]] = {}
        for route in chain(routes, *(dialect.routes for dialect in self._dialects)):
            self._by_length.setdefault(len(route.segments), []).append(route)

    def _dialect(self, path: str) -> Dialect | None:
        return next((each for each in self._dialects if path.startswith(f"{each.path}/")), None)

    def error_body(self, refusal: Refusal, path: str) -> Mapping[str, object]:
        """Return the members of an error's body, in the form of the catalog of a path."""
        dialect = self._dialect(path)
        return refusal.body() if dialect is None else dialect.error_members(refusal)

    def delegation(self, head: Head, path: str) -> str:
        """Return the ways to the files of tables that a client can take."""
        dialect = self._dialect(path)
        return "" if dialect is None else head.header(dialect.delegation)

    def find(self, method: str, path: str) -> tuple[Route, Mapping[str, str]]:
        """Return the operation that a request means, and the names in its path."""
        parts = tuple(path.removeprefix("/").split("/"))
        known = False
        for route in self._by_length.get(len(parts), ()):
            pairs = list(zip(route.segments, parts, strict=True))
            if not all(bool(part) if s.startswith("{") else s == part for s, part in pairs):
                continue
            known = True
            if route.method == method:
                return route, {
                    s[1:-1]: decode_segment(part) for s, part in pairs if s.startswith("{")
                }
        if known:
            raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"{method} is not served here.")
        raise Refusal(HTTPStatus.NOT_FOUND, "There is no such path.")


_DATABASE = "databases/{database}"
_TABLE = "databases/{database}/tables/{table}"
_BRANCH = f"{_TABLE}/branches/{{branch}}"


def not_served(resource: str) -> Handler:
    """Return a handler that answers 501 to principals that may see the resource."""

    def handler(_: Service, request: Request) -> Answer:
        database = request.names.get("database")
        name = request.names.get("table", request.names.get("view"))
        if database is not None and (name is not None or not request.principal.sees(database)):
            request.require(Action.DESCRIBE, database, name)
        raise not_implemented(resource)

    return handler


get, ask, head = partial(Route, "GET"), partial(Route, "POST"), partial(Route, "HEAD")
post, delete = partial(Route, "POST", changes=True), partial(Route, "DELETE", changes=True)

OPERATIONS = (
    get("/v1/config", "getConfig", i.get_config),
    get("databases", "listDatabases", i.list_databases),
    post("databases", "createDatabase", i.create_database),
    get(_DATABASE, "getDatabase", i.get_database),
    post(_DATABASE, "alterDatabase", i.alter_database),
    delete(_DATABASE, "dropDatabase", i.drop_database),
    get(f"{_DATABASE}/tables", "listTables", t.list_tables),
    post(f"{_DATABASE}/tables", "createTable", t.create_table),
    get(f"{_DATABASE}/table-details", "listTableDetails", t.list_table_details),
    post(f"{_DATABASE}/register", "registerTable", t.register_table),
    get("tables", "listTablesGlobally", t.list_tables_globally),
    post("tables/rename", "renameTable", t.rename_table),
    get("tables/id/{id}", "getTableById", t.get_table_by_id),
    get(_TABLE, "getTable", t.get_table),
    post(_TABLE, "alterTable", t.alter_table),
    delete(_TABLE, "dropTable", t.drop_table),
    post(f"{_TABLE}/commit", "commitTable", v.commit_table),
    post(f"{_TABLE}/rollback", "rollbackTable", v.rollback_table),
    post(f"{_TABLE}/rollback-schema", "rollbackSchema", v.rollback_table_schema),
    get(f"{_TABLE}/token", "getTableToken", t.get_table_token, is_audited=True),
    ask(f"{_TABLE}/auth", "authTableQuery", not_served("row filters and column masks")),
    get(f"{_TABLE}/snapshot", "getTableSnapshot", v.get_table_snapshot),
    get(f"{_TABLE}/snapshots", "listSnapshots", v.list_snapshots),
    get(f"{_TABLE}/snapshots/{{version}}", "getVersionSnapshot", v.get_version_snapshot),
    get(f"{_TABLE}/partitions", "listPartitions", v.list_partitions),
    post(f"{_TABLE}/partitions", "createPartitions", v.create_partitions),
    post(f"{_TABLE}/partitions/drop", "dropPartitions", v.drop_partitions),
    post(f"{_TABLE}/partitions/mark", "markDonePartitions", v.mark_done_partitions),
    ask(f"{_TABLE}/partitions/list-by-names", "listPartitionsByNames", v.list_partitions_by_names),
    ask(
        f"{_TABLE}/partitions/list-by-filter",
        "listPartitionsByFilter",
        not_served("partitions by filter; list them and filter there"),
    ),
    get(f"{_TABLE}/branches", "listBranches", v.list_branches),
    post(f"{_TABLE}/branches", "createBranch", v.create_branch),
    delete(_BRANCH, "dropBranch", v.drop_branch),
    post(f"{_BRANCH}/rename", "renameBranch", v.rename_branch),
    post(f"{_BRANCH}/forward", "forwardBranch", v.forward_branch),
    get(f"{_TABLE}/tags", "listTags", v.list_tags),
    post(f"{_TABLE}/tags", "createTag", v.create_tag),
    get(f"{_TABLE}/tags/{{tag}}", "getTag", v.get_tag),
    delete(f"{_TABLE}/tags/{{tag}}", "deleteTag", v.delete_tag),
    get(f"{_TABLE}/consumers", "listConsumers", v.list_consumers),
    post(f"{_TABLE}/consumers/reset", "resetConsumer", v.reset_consumer),
    get(f"{_DATABASE}/views", "listViews", i.VIEWS.list_names),
    post(f"{_DATABASE}/views", "createView", i.create_view),
    get(f"{_DATABASE}/view-details", "listViewDetails", i.VIEWS.list_details),
    get("views", "listViewsGlobally", i.VIEWS.list_globally),
    post("views/rename", "renameView", i.rename_view),
    get(f"{_DATABASE}/views/{{view}}", "getView", i.get_view),
    post(f"{_DATABASE}/views/{{view}}", "alterView", i.alter_view),
    delete(f"{_DATABASE}/views/{{view}}", "dropView", i.drop_view),
    get(f"{_DATABASE}/functions", "listFunctions", i.FUNCTIONS.list_names),
    post(f"{_DATABASE}/functions", "createFunction", i.create_function),
    get(f"{_DATABASE}/function-details", "listFunctionDetails", i.FUNCTIONS.list_details),
    get("functions", "listFunctionsGlobally", i.FUNCTIONS.list_globally),
    get(f"{_DATABASE}/functions/{{function}}", "getFunction", i.get_function),
    post(f"{_DATABASE}/functions/{{function}}", "alterFunction", i.alter_function),
    delete(f"{_DATABASE}/functions/{{function}}", "dropFunction", i.drop_function),
    get("permissions", "listPermissions", not_served("permissions; see its file of principals")),
    post("permissions/grant", "grantPermission", not_served("permissions; see its file")),
    post("permissions/revoke", "revokePermission", not_served("permissions; see its file")),
)
