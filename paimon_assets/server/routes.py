"""Every operation of both specifications, with its method and path; and how they are found."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from paimon_assets.engine.errors import PaimonError, StorageError
from paimon_assets.server.iceberg_form import PATH as ICEBERG
from paimon_assets.server.operations import iceberg
from paimon_assets.server.operations import items as i
from paimon_assets.server.operations import tables as t
from paimon_assets.server.operations import versions as v
from paimon_assets.server.principals import Action
from paimon_assets.server.request import PREFIX, Answer, Refusal, Request, decoded, not_implemented
from paimon_assets.server.service import Service

Handler = Callable[[Service, Request], Answer]


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    """Behind the prefix, such as `databases/{database}`; with a slash in front: the whole path."""
    operation: str
    handler: Handler
    changes: bool = False
    is_audited: bool = False
    """Whether it leaves an audit line though it changes nothing."""
    refusal: Callable[[], Refusal] | None = None
    """What is answered at once, whoever asks."""

    @property
    def segments(self) -> tuple[str, ...]:
        """The parts of the whole path."""
        whole = self.path if self.path.startswith("/") else f"/v1/{PREFIX}/{self.path}"
        return tuple(whole.strip("/").split("/"))

    def refuse_everybody(self) -> None:
        """Refuse what is served to nobody, before it is asked who that is."""
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
            HTTPStatus.SERVICE_UNAVAILABLE, "Others change this at once; ask again in a moment."
        )


class Routes:
    """All routes; those of a path are found by their number of parts, then by their fixed ones."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._by_length: dict[int, list[Route]] = {}
        for route in routes:
            self._by_length.setdefault(len(route.segments), []).append(route)

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
                return route, {s[1:-1]: decoded(part) for s, part in pairs if s.startswith("{")}
        if known:
            raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"{method} is not served here.")
        raise Refusal(HTTPStatus.NOT_FOUND, "There is no such path.")


_DATABASE = "databases/{database}"
_TABLE = "databases/{database}/tables/{table}"
_BRANCH = f"{_TABLE}/branches/{{branch}}"


def _not_served(what: str) -> Handler:
    """Return the operation that is not served, which says so to who may know of the thing."""

    def handler(_: Service, request: Request) -> Answer:
        database = request.names.get("database")
        name = request.names.get("table", request.names.get("view"))
        if database is not None and (name is not None or not request.principal.sees(database)):
            request.require(Action.DESCRIBE, database, name)
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

_NAMESPACES = f"{ICEBERG}/v1/namespaces"
_NAMESPACE = f"{_NAMESPACES}/{{database}}"
_ICEBERG_TABLE = f"{_NAMESPACE}/tables/{{table}}"
_head = partial(Route, "HEAD")
_read_only = _not_served(
    "changes by Iceberg's clients: it is read only to them. Write the table by a client of Paimon; "
    "each commit adds Iceberg metadata"
)
_no_views = _not_served("views to Iceberg's clients; ask for them by a client of Paimon")
_no_plans = _not_served("plans of scans; clients plan by the manifests")
_no_reports = _not_served("reports of metrics; it keeps none")

ICEBERG_OPERATIONS = (
    _get(f"{ICEBERG}/v1/config", "icebergGetConfig", iceberg.get_config),
    Route(
        *("POST", f"{ICEBERG}/v1/oauth/tokens", "icebergGetToken", _read_only),
        refusal=iceberg.refuse_oauth,
    ),
    _get(_NAMESPACES, "icebergListNamespaces", iceberg.list_namespaces),
    _get(_NAMESPACE, "icebergLoadNamespace", iceberg.load_namespace),
    _head(_NAMESPACE, "icebergNamespaceExists", iceberg.has_namespace),
    _get(f"{_NAMESPACE}/tables", "icebergListTables", iceberg.list_tables),
    _get(_ICEBERG_TABLE, "icebergLoadTable", iceberg.load_table, is_audited=True),
    _head(_ICEBERG_TABLE, "icebergTableExists", iceberg.has_table),
    _get(
        f"{_ICEBERG_TABLE}/credentials",
        "icebergLoadCredentials",
        iceberg.load_credentials,
        is_audited=True,
    ),
    _post(_NAMESPACES, "icebergCreateNamespace", _read_only),
    _delete(_NAMESPACE, "icebergDropNamespace", _read_only),
    _post(f"{_NAMESPACE}/properties", "icebergUpdateProperties", _read_only),
    _post(f"{_NAMESPACE}/tables", "icebergCreateTable", _read_only),
    _post(f"{_NAMESPACE}/register", "icebergRegisterTable", _read_only),
    _post(_ICEBERG_TABLE, "icebergUpdateTable", _read_only),
    _delete(_ICEBERG_TABLE, "icebergDropTable", _read_only),
    _post(f"{_ICEBERG_TABLE}/unregister", "icebergUnregisterTable", _read_only),
    _post(f"{ICEBERG}/v1/tables/rename", "icebergRenameTable", _read_only),
    _post(f"{ICEBERG}/v1/transactions/commit", "icebergCommitTransaction", _read_only),
    _ask(f"{_ICEBERG_TABLE}/metrics", "icebergReportMetrics", _no_reports),
    _ask(f"{_ICEBERG_TABLE}/sign", "icebergSignRequest", _not_served("signed requests")),
    _ask(f"{_ICEBERG_TABLE}/plan", "icebergPlanTableScan", _no_plans),
    _ask(f"{_ICEBERG_TABLE}/tasks", "icebergFetchScanTasks", _no_plans),
    _get(f"{_NAMESPACE}/views", "icebergListViews", _no_views),
    _post(f"{_NAMESPACE}/views", "icebergCreateView", _no_views),
    _post(f"{_NAMESPACE}/register-view", "icebergRegisterView", _no_views),
    _get(f"{_NAMESPACE}/views/{{view}}", "icebergLoadView", _no_views),
    _head(f"{_NAMESPACE}/views/{{view}}", "icebergViewExists", _no_views),
    _post(f"{_NAMESPACE}/views/{{view}}", "icebergReplaceView", _no_views),
    _delete(f"{_NAMESPACE}/views/{{view}}", "icebergDropView", _no_views),
    _post(f"{ICEBERG}/v1/views/rename", "icebergRenameView", _no_views),
    _get(
        f"{_NAMESPACE}/functions",
        "icebergListFunctions",
        _not_served("functions to Iceberg's clients"),
    ),
)
