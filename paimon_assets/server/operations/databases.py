"""Configuration and databases."""

from typing import cast

from paimon_assets.engine.codec.rest.rest_requests import (
    AlterDatabaseRequest,
    CreateDatabaseRequest,
)
from paimon_assets.engine.codec.rest.rest_responses import (
    AlterDatabaseResponse,
    ConfigResponse,
    DatabaseResponse,
    ListDatabasesResponse,
)
from paimon_assets.engine.control.catalog.catalog_state import PROPERTIES
from paimon_assets.engine.control.catalog.numbered_document import Members
from paimon_assets.engine.errors import AlreadyExistsError, InvalidInputError
from paimon_assets.engine.spec.options.rest_options import DATA_TOKEN_ENABLED
from paimon_assets.server.principals import Action
from paimon_assets.server.request import Request
from paimon_assets.server.routes import PREFIX, Answer
from paimon_assets.server.service import Service, check_database_name

_LOCATION = "location"
_OPTIONS = "options"


def get_config(service: Service, _: Request) -> Answer:
    """Answer what clients need to know before anything else."""
    overrides = {"prefix": PREFIX}
    defaults = dict(service.client_options)
    if service.data_tokens is not None:
        defaults[DATA_TOKEN_ENABLED.key] = "true"
    return ConfigResponse(defaults=defaults, overrides=overrides).to_json()


def list_databases(service: Service, request: Request) -> Answer:
    """List the databases the principal may list."""
    page = request.page("databaseNamePattern")
    seen = (name for name in service.catalog.list_databases() if request.principal.sees(name))
    names, token = page.of(seen)
    return ListDatabasesResponse(databases=tuple(names), next_page_token=token).to_json()


def create_database(service: Service, request: Request) -> Answer:
    """Create a database, with its properties."""
    asked = request.read(CreateDatabaseRequest)
    name = check_database_name(asked.name)
    request.noted["database"] = name
    request.require(Action.CREATE, name)
    if _LOCATION in asked.options:
        raise InvalidInputError(
            f"Database '{name}' lies in the warehouse; '{_LOCATION}' cannot be chosen.",
            kind="database-location",
        )
    existed = _exists(service, name)
    if not existed:
        service.catalog.create_database(name, ignore_if_exists=True)
    options: Members = {**asked.options}
    by = request.principal.name

    def first(members: Members) -> Members:
        # Of two that create it at once, the first one that writes here does.
        if existed or members:
            raise AlreadyExistsError(
                f"Database '{name}' exists already.",
                kind="database-exists",
                details={"database": name},
            )
        return {_OPTIONS: options, "updatedAt": service.clock.now_millis(), "updatedBy": by}

    service.state.change(name, PROPERTIES, first, by=by)
    return None


def get_database(service: Service, request: Request) -> Answer:
    """Answer a database and its properties."""
    name = check_database_name(request.names["database"])
    if not request.principal.sees(name):
        request.require(Action.DESCRIBE, name)
    state = service.state
    identity = state.identity(name) if service.read_only else state.own_identity(name)
    members = state.read(name, PROPERTIES)
    by = "" if identity is None else identity.created_by
    return DatabaseResponse(
        id=None if identity is None else identity.id,
        name=name,
        location=service.catalog.database_path(name),
        options=cast("dict[str, str]", members.get(_OPTIONS, {})),
        owner=by,
        created_at=0 if identity is None else identity.created_at,
        created_by=by,
        updated_at=cast("int", members.get("updatedAt", identity.created_at if identity else 0)),
        updated_by=cast("str", members.get("updatedBy", by)),
    ).to_json()


def alter_database(service: Service, request: Request) -> Answer:
    """Set and remove properties."""
    name = check_database_name(request.names["database"])
    request.require(Action.ALTER, name)
    asked = request.read(AlterDatabaseRequest)
    if _LOCATION in asked.updates:
        raise InvalidInputError(f"'{_LOCATION}' cannot be changed.", kind="database-location")
    removed, by = set[str](), request.principal.name

    def changed(members: Members) -> Members:
        options = dict(cast("dict[str, str]", members.get(_OPTIONS, {})))
        removed.clear()
        removed.update(key for key in asked.removals if key in options)
        kept = {key: value for key, value in options.items() if key not in removed}
        after: Members = {**kept, **asked.updates}
        if after == options:
            return members
        return {_OPTIONS: after, "updatedAt": service.clock.now_millis(), "updatedBy": by}

    service.state.change(name, PROPERTIES, changed, by=by)
    return AlterDatabaseResponse(
        removed=tuple(key for key in asked.removals if key in removed),
        updated=tuple(asked.updates),
        missing=tuple(key for key in asked.removals if key not in removed),
    ).to_json()


def drop_database(service: Service, request: Request) -> Answer:
    """Drop a database with all its tables; clients have asked whether it may hold some."""
    name = check_database_name(request.names["database"])
    request.require(Action.DROP, name)
    for table in service.table_names(name):
        request.require(Action.DROP, name, table)
    service.catalog.drop_database(name, cascade=True)
    return None


def _exists(service: Service, name: str) -> bool:
    return name in service.catalog.list_databases()
