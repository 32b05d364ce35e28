"""Configuration and databases."""

from dataclasses import replace

from paimon_assets.engine.codec.rest import documents
from paimon_assets.engine.control.catalog.filesystem_catalog import refuse_location
from paimon_assets.engine.spec.options.catalog_options import DATA_TOKEN_ENABLED, DROPS_EMPTY
from paimon_assets.server.principals import Action
from paimon_assets.server.request import PREFIX, Answer, Request
from paimon_assets.server.service import Service, check_database_name


def get_config(service: Service, _: Request) -> Answer:
    """Answer the settings that clients ask for first."""
    overrides = {"prefix": PREFIX, DROPS_EMPTY: "true"}
    defaults = dict(service.client_options)
    if service.data_tokens is not None:
        defaults[DATA_TOKEN_ENABLED.key] = "true"
    return documents.ConfigResponse(defaults=defaults, overrides=overrides).to_json()


def list_databases(service: Service, request: Request) -> Answer:
    """List the databases the principal may list."""
    page = request.page("databaseNamePattern")
    seen = (name for name in service.catalog.list_databases() if request.principal.sees(name))
    names, token = page.of(seen)
    return documents.ListDatabasesResponse(databases=tuple(names), next_page_token=token).to_json()


def create_database(service: Service, request: Request) -> Answer:
    """Create a database, with its properties."""
    body = request.read(documents.CreateDatabaseRequest)
    name = check_database_name(body.name)
    request.noted["database"] = name
    request.require(Action.CREATE, name)
    refuse_location(name, body.options)
    existed = name in service.catalog.list_databases()
    if not existed:
        service.catalog.create_database(name, ignore_if_exists=True)
    by = request.principal.name
    service.catalog.describe_database(name, body.options, existed=existed, by=by)
    return None


def get_database(service: Service, request: Request) -> Answer:
    """Answer a database; properties and owner only to principals with more than `list`."""
    name = check_database_name(request.names["database"])
    if not request.principal.sees(name):
        request.require(Action.DESCRIBE, name)
    database = service.catalog.get_database(name)
    if not request.principal.may(Action.DESCRIBE, name):
        database = replace(database, options={}, owner="", created_by="", updated_by="")
    return database.to_json()


def alter_database(service: Service, request: Request) -> Answer:
    name = check_database_name(request.names["database"])
    request.require(Action.ALTER, name)
    body = request.read(documents.AlterDatabaseRequest)
    return service.catalog.alter_database(
        name, removals=body.removals, updates=body.updates, by=request.principal.name
    ).to_json()


def drop_database(service: Service, request: Request) -> Answer:
    """Drop a database with all it holds, or with `cascade=false` only an empty one.

    Java's clients do not send it: they have looked for tables themselves, unless all may go.
    """
    name = check_database_name(request.names["database"])
    request.require(Action.DROP, name)
    for table in service.table_names(name):
        request.require(Action.DROP, name, table)
    for view in service.views.all(name):
        request.require(Action.DROP, name, view, noun="VIEW")
    for function in service.functions.all(name):
        request.require(Action.DROP, name, function, noun="FUNCTION")
    service.catalog.drop_database(name, cascade=request.query.get("cascade") != "false")
    return None
