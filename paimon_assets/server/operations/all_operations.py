"""Every operation of the specification, with its method and path."""

from functools import partial

from paimon_assets.server.operations import databases as d
from paimon_assets.server.operations import items as i
from paimon_assets.server.operations import names as n
from paimon_assets.server.operations import partitions as p
from paimon_assets.server.operations import tables as t
from paimon_assets.server.operations import versions as v
from paimon_assets.server.principals import Action
from paimon_assets.server.request import Request, not_implemented
from paimon_assets.server.routes import Answer, Handler, Route
from paimon_assets.server.service import Service

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
    _get("/v1/config", "getConfig", d.get_config),
    _get("databases", "listDatabases", d.list_databases),
    _post("databases", "createDatabase", d.create_database),
    _get(_DATABASE, "getDatabase", d.get_database),
    _post(_DATABASE, "alterDatabase", d.alter_database),
    _delete(_DATABASE, "dropDatabase", d.drop_database),
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
    _get(f"{_TABLE}/partitions", "listPartitions", p.list_partitions),
    _post(f"{_TABLE}/partitions", "createPartitions", p.create_partitions),
    _post(f"{_TABLE}/partitions/drop", "dropPartitions", p.drop_partitions),
    _post(f"{_TABLE}/partitions/mark", "markDonePartitions", p.mark_done_partitions),
    _ask(f"{_TABLE}/partitions/list-by-names", "listPartitionsByNames", p.list_partitions_by_names),
    _ask(
        f"{_TABLE}/partitions/list-by-filter",
        "listPartitionsByFilter",
        _not_served("partitions by filter; list them and filter there"),
    ),
    _get(f"{_TABLE}/branches", "listBranches", n.list_branches),
    _post(f"{_TABLE}/branches", "createBranch", n.create_branch),
    _delete(_BRANCH, "dropBranch", n.drop_branch),
    _post(f"{_BRANCH}/rename", "renameBranch", n.rename_branch),
    _post(f"{_BRANCH}/forward", "forwardBranch", n.forward_branch),
    _get(f"{_TABLE}/tags", "listTags", n.list_tags),
    _post(f"{_TABLE}/tags", "createTag", n.create_tag),
    _get(f"{_TABLE}/tags/{{tag}}", "getTag", n.get_tag),
    _delete(f"{_TABLE}/tags/{{tag}}", "deleteTag", n.delete_tag),
    _get(f"{_TABLE}/consumers", "listConsumers", n.list_consumers),
    _post(f"{_TABLE}/consumers/reset", "resetConsumer", n.reset_consumer),
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
