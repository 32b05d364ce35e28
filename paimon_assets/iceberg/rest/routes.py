"""Every operation of Iceberg's REST catalog, with its method and path: `server.routes.Dialect`."""

from paimon_assets.iceberg.rest import operations as iceberg
from paimon_assets.iceberg.rest.conventions import DELEGATION, PATH, error_members
from paimon_assets.server.routes import Dialect, Route, ask, delete, get, head, not_served, post

_NAMESPACES = f"{PATH}/v1/namespaces"
_NAMESPACE = f"{_NAMESPACES}/{{database}}"
_TABLE = f"{_NAMESPACE}/tables/{{table}}"
_read_only = not_served(
    "changes by Iceberg's clients: it is read only to them. Write the table by a client of Paimon; "
    "each commit adds Iceberg metadata"
)
_no_views = not_served("views to Iceberg's clients; ask for them by a client of Paimon")
_no_plans = not_served("plans of scans; clients plan by the manifests")
_no_reports = not_served("reports of metrics; it keeps none")

ROUTES = (
    get(f"{PATH}/v1/config", "icebergGetConfig", iceberg.get_config),
    Route(
        *("POST", f"{PATH}/v1/oauth/tokens", "icebergGetToken", _read_only),
        refusal=iceberg.refuse_oauth,
    ),
    get(_NAMESPACES, "icebergListNamespaces", iceberg.list_namespaces),
    get(_NAMESPACE, "icebergLoadNamespace", iceberg.load_namespace),
    head(_NAMESPACE, "icebergNamespaceExists", iceberg.has_namespace),
    get(f"{_NAMESPACE}/tables", "icebergListTables", iceberg.list_tables),
    get(_TABLE, "icebergLoadTable", iceberg.load_table, is_audited=True),
    head(_TABLE, "icebergTableExists", iceberg.has_table),
    get(
        f"{_TABLE}/credentials", "icebergLoadCredentials", iceberg.load_credentials, is_audited=True
    ),
    post(_NAMESPACES, "icebergCreateNamespace", _read_only),
    delete(_NAMESPACE, "icebergDropNamespace", _read_only),
    post(f"{_NAMESPACE}/properties", "icebergUpdateProperties", _read_only),
    post(f"{_NAMESPACE}/tables", "icebergCreateTable", _read_only),
    post(f"{_NAMESPACE}/register", "icebergRegisterTable", _read_only),
    post(_TABLE, "icebergUpdateTable", _read_only),
    delete(_TABLE, "icebergDropTable", _read_only),
    post(f"{_TABLE}/unregister", "icebergUnregisterTable", _read_only),
    post(f"{PATH}/v1/tables/rename", "icebergRenameTable", _read_only),
    post(f"{PATH}/v1/transactions/commit", "icebergCommitTransaction", _read_only),
    ask(f"{_TABLE}/metrics", "icebergReportMetrics", _no_reports),
    ask(f"{_TABLE}/sign", "icebergSignRequest", not_served("signed requests")),
    ask(f"{_TABLE}/plan", "icebergPlanTableScan", _no_plans),
    ask(f"{_TABLE}/tasks", "icebergFetchScanTasks", _no_plans),
    get(f"{_NAMESPACE}/views", "icebergListViews", _no_views),
    post(f"{_NAMESPACE}/views", "icebergCreateView", _no_views),
    post(f"{_NAMESPACE}/register-view", "icebergRegisterView", _no_views),
    get(f"{_NAMESPACE}/views/{{view}}", "icebergLoadView", _no_views),
    head(f"{_NAMESPACE}/views/{{view}}", "icebergViewExists", _no_views),
    post(f"{_NAMESPACE}/views/{{view}}", "icebergReplaceView", _no_views),
    delete(f"{_NAMESPACE}/views/{{view}}", "icebergDropView", _no_views),
    post(f"{PATH}/v1/views/rename", "icebergRenameView", _no_views),
    get(
        f"{_NAMESPACE}/functions",
        "icebergListFunctions",
        not_served("functions to Iceberg's clients"),
    ),
)

DIALECT = Dialect(path=PATH, routes=ROUTES, error_members=error_members, delegation=DELEGATION)
