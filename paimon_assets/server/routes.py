"""Every operation of the specification, with its method and path; and how they are found."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from paimon_assets.engine.errors import PaimonError, StorageError
from paimon_assets.server.operations import items as i
from paimon_assets.server.operations import tables as t
from paimon_assets.server.operations import versions as v
from paimon_assets.server.principals import Action
from paimon_assets.server.request import PREFIX, Answer, Refusal, Request, decoded, not_implemented
from paimon_assets.server.service import Service

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
                if not is_lost and error.kind not in ("file-not-found", "snapshot-files"):
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


_DATABASE = "databases/{database}"
_TABLE = "databases/{database}/tables/{table}"
_BRANCH = f"{_TABLE}/branches/{{branch}}"


def _not_served(what: str) -> Handler:
    def handler(_service: Service, request: Request) -> Answer:
        database, table = request.names.get("database"), request.names.get("table")
        if database is not None:
            request.require(Action.DESCRIBE, database, table)
        raise not_implemented(what)

    return handler


_get, _ask = partial(Route, "GET"), partial(Route, "POST")
_post, _delete = partial(Route, "POST", changes=True), partial(Route, "DELETE", changes=True)

OPERATIONS = (
    _get("/v1/config", "getConfig", i.get_config),
    _get("databases", "listDatabases", i.list_databases),
    _post("databases", "createDatabase", i.create_database),
    _get(_DATABASE, "getDatabase", i.get_database),
    _post(_DATABASE, "alterDatabase", i.alter_database),
    _delete(_DATABASE, "dropDatabase", i.drop_database),
    _get(f"{_DATABASE}/tables", "listTables", t.list_tables),
    _post(f"{_DATABASE}/tables", "createTable", t.create_table),
    _get(f"{_DATABASE}/table-details", "listTableDetails", t.list_table_details),
    _post(f"{_DATABASE}/register", "registerTable", t.register_table),
    _get("tables", "listTablesGlobally", t.list_tables_globally),
    _post("tables/rename", "renameTable", t.rename_table),
    _get("tables/id/{id}", "getTableById", t.get_table_by_id),
    _get(_TABLE, "getTable", t.get_table),
    _post(_TABLE, "alterTable", t.alter_table),
    _delete(_TABLE, "dropTable", t.drop_table),
    _post(f"{_TABLE}/commit", "commitTable", v.commit_table),
    _post(f"{_TABLE}/rollback", "rollbackTable", v.rollback_table),
    _post(f"{_TABLE}/rollback-schema", "rollbackSchema", v.rollback_table_schema),
    _get(f"{_TABLE}/token", "getTableToken", t.get_table_token, is_audited=True),
    _ask(f"{_TABLE}/auth", "authTableQuery", _not_served("row filters and column masks")),
    _get(f"{_TABLE}/snapshot", "getTableSnapshot", v.get_table_snapshot),
    _get(f"{_TABLE}/snapshots", "listSnapshots", v.list_snapshots),
    _get(f"{_TABLE}/snapshots/{{version}}", "getVersionSnapshot", v.get_version_snapshot),
    _get(f"{_TABLE}/partitions", "listPartitions", v.list_partitions),
    _post(f"{_TABLE}/partitions", "createPartitions", v.create_partitions),
    _post(f"{_TABLE}/partitions/drop", "dropPartitions", v.drop_partitions),
    _post(f"{_TABLE}/partitions/mark", "markDonePartitions", v.mark_done_partitions),
    _ask(f"{_TABLE}/partitions/list-by-names", "listPartitionsByNames", v.list_partitions_by_names),
    _ask(
        f"{_TABLE}/partitions/list-by-filter",
        "listPartitionsByFilter",
        _not_served("partitions by filter; list them and filter there"),
    ),
    _get(f"{_TABLE}/branches", "listBranches", v.list_branches),
    _post(f"{_TABLE}/branches", "createBranch", v.create_branch),
    _delete(_BRANCH, "dropBranch", v.drop_branch),
    _post(f"{_BRANCH}/rename", "renameBranch", v.rename_branch),
    _post(f"{_BRANCH}/forward", "forwardBranch", v.forward_branch),
    _get(f"{_TABLE}/tags", "listTags", v.list_tags),
    _post(f"{_TABLE}/tags", "createTag", v.create_tag),
    _get(f"{_TABLE}/tags/{{tag}}", "getTag", v.get_tag),
    _delete(f"{_TABLE}/tags/{{tag}}", "deleteTag", v.delete_tag),
    _get(f"{_TABLE}/consumers", "listConsumers", v.list_consumers),
    _post(f"{_TABLE}/consumers/reset", "resetConsumer", v.reset_consumer),
    _get(f"{_DATABASE}/views", "listViews", i.VIEWS.list_names),
    _post(f"{_DATABASE}/views", "createView", i.create_view),
    _get(f"{_DATABASE}/view-details", "listViewDetails", i.VIEWS.list_details),
    _get("views", "listViewsGlobally", i.VIEWS.list_globally),
    _post("views/rename", "renameView", i.rename_view),
    _get(f"{_DATABASE}/views/{{view}}", "getView", i.get_view),
    _post(f"{_DATABASE}/views/{{view}}", "alterView", i.alter_view),
    _delete(f"{_DATABASE}/views/{{view}}", "dropView", i.drop_view),
    _get(f"{_DATABASE}/functions", "listFunctions", i.FUNCTIONS.list_names),
    _post(f"{_DATABASE}/functions", "createFunction", i.create_function),
    _get(f"{_DATABASE}/function-details", "listFunctionDetails", i.FUNCTIONS.list_details),
    _get("functions", "listFunctionsGlobally", i.FUNCTIONS.list_globally),
    _get(f"{_DATABASE}/functions/{{function}}", "getFunction", i.get_function),
    _post(f"{_DATABASE}/functions/{{function}}", "alterFunction", i.alter_function),
    _delete(f"{_DATABASE}/functions/{{function}}", "dropFunction", i.drop_function),
    _get("permissions", "listPermissions", _not_served("permissions; see its file of principals")),
    _post("permissions/grant", "grantPermission", _not_served("permissions; see its file")),
    _post("permissions/revoke", "revokePermission", _not_served("permissions; see its file")),
)
