"""Iceberg's REST catalog, read only: databases, and the tables whose commits add Iceberg metadata.

Clients see such tables alone. A principal that may describe one gets its metadata. One that may
select from it, and asks for credentials, gets those of readers, never more.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from itertools import compress, islice
from typing import Any

from msgspec.structs import replace

from paimon_assets.engine.control.catalog.catalog import SYSTEM_DATABASE, Identifier
from paimon_assets.engine.errors import FormatError, InvalidInputError, NotFoundError
from paimon_assets.engine.fileio.opening import scheme_of
from paimon_assets.engine.spec.segments.segment import is_within
from paimon_assets.iceberg import options as ice
from paimon_assets.iceberg.rest.conventions import LEVELS, OAUTH, VENDED, client_storage
from paimon_assets.iceberg.rules import has_iceberg
from paimon_assets.iceberg.state import IcebergMetadata, iceberg_state
from paimon_assets.iceberg.table_schema import metadata_directory
from paimon_assets.server.operations.items import get_database, listed_database
from paimon_assets.server.operations.tables import issued_token
from paimon_assets.server.principals import Action
from paimon_assets.server.request import Answer, Page, Refusal, Request, not_implemented
from paimon_assets.server.service import ServedTable, Service

ENDPOINTS = (
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials",
)
"""Endpoints that the answer to `config` lists."""
_TABLES_AT_ONCE = 16
_pool = ThreadPoolExecutor(_TABLES_AT_ONCE, thread_name_prefix="iceberg")
_EVERYTHING = 10**9
_not_found = partial(Refusal, HTTPStatus.NOT_FOUND)
_BEHIND = "paimon-assets.commits-behind"
"""Property of metadata that does not show the newest commit yet: how many it lacks."""


def get_config(service: Service, _: Request) -> Answer:
    options = client_storage(service.client_options)
    defaults = {key: options[key] for key in options if key.startswith(("s3.", "client.region"))}
    return {"defaults": defaults, "overrides": {}, "endpoints": ENDPOINTS}


def refuse_oauth() -> Refusal:
    """Return the answer to a request for an OAuth token, with any secret."""
    return Refusal(
        HTTPStatus.BAD_REQUEST,
        "This server issues no tokens of OAuth. Give the client the bearer token of a principal: "
        "the property 'token', and no 'credential'.",
        OAUTH,
    )


def list_namespaces(service: Service, request: Request) -> Answer:
    """List the databases that the principal may list; namespaces have one level."""
    if request.query.get("parent"):
        _namespace(service, request, request.query["parent"])
        return {"namespaces": [], "next-page-token": None}
    seen = (name for name in service.catalog.list_databases() if request.principal.sees(name))
    names, token = _page(request).of(seen)
    return {"namespaces": [[name] for name in names], "next-page-token": token}


def load_namespace(service: Service, request: Request) -> Answer:
    """Answer a database; its properties only to principals with more than `list`."""
    database = _namespace(service, request, request.names["database"])
    location = {"location": database["location"]} if database.get("location") else {}
    return {"namespace": [database["name"]], "properties": {**database["options"], **location}}


def has_namespace(service: Service, request: Request) -> None:
    _namespace(service, request, request.names["database"])


def list_tables(service: Service, request: Request) -> Answer:
    """List the tables with Iceberg metadata that the principal may list."""
    _refuse_levels(request.names["database"])
    database, page = listed_database(request), _page(request)
    names = service.possible_names(database, after=page.after)
    seen = (name for name in names if request.principal.may(Action.LIST, database, name))
    found, token = page.of(_with_iceberg(service, database, seen))
    identifiers = [{"namespace": [database], "name": name} for name in found]
    return {"identifiers": identifiers, "next-page-token": token}


def load_table(service: Service, request: Request) -> Answer:
    """Answer a table's metadata; with credentials of readers if asked for, and may select."""
    table = _table(service, request, Action.DESCRIBE)
    metadata = _metadata(table)
    answer: dict[str, Any] = {
        "metadata-location": metadata.location,
        "metadata": metadata.document,
        "config": {},
    }
    wanted = {way.strip().lower() for way in request.delegation.split(",")}
    name = table.identifier
    if VENDED in wanted and request.principal.may(Action.SELECT, name.database, name.table):
        credentials = _credentials(service, request, table)
        if credentials:
            answer["config"] = credentials[0]["config"]
            answer["storage-credentials"] = credentials
    return answer


def has_table(service: Service, request: Request) -> None:
    """Answer nothing, if there is the table, and it can be loaded."""
    _metadata(_table(service, request, Action.DESCRIBE))


def load_credentials(service: Service, request: Request) -> Answer:
    credentials = _credentials(service, request, _table(service, request, Action.SELECT))
    if not credentials:
        raise not_implemented("credentials of this table: clients bring their own")
    return {"storage-credentials": credentials}


def _page(request: Request) -> Page:
    """Return the part of a list that is asked for: all of it, if the client knows no pages."""
    page = request.page(size_name="pageSize")
    if "pageToken" in request.query or "pageSize" in request.query:
        return page
    return replace(page, most=_EVERYTHING)


def _namespace(service: Service, request: Request, name: str) -> Mapping[str, Any]:
    _refuse_levels(name)
    return get_database(service, replace(request, names={"database": name})) or {}


def _refuse_levels(name: str) -> None:
    """Refuse a namespace that no database has: of two levels, or the system's."""
    if LEVELS in name or name == SYSTEM_DATABASE:
        shown = name.replace(LEVELS, ".")
        raise _not_found(f"Namespace '{shown}' does not exist.", "DATABASE", shown)


def _with_iceberg(service: Service, database: str, names: Iterator[str]) -> Iterator[str]:
    def adds_metadata(name: str) -> bool:
        try:
            table = service.load(Identifier(database, name), identifies=False)
            return has_iceberg(table.stored.typed_options)
        except (InvalidInputError, FormatError):  # no table, or an unreadable one
            return False

    while step := list(islice(names, _TABLES_AT_ONCE)):
        yield from compress(step, _pool.map(adds_metadata, step))


def _table(service: Service, request: Request, action: Action) -> ServedTable:
    """Open the table that the path names, if its commits add Iceberg metadata."""
    database, name = request.names["database"], request.names["table"]
    if LEVELS in database or database == SYSTEM_DATABASE or "$" in name:
        # Spark asks so for `db.t.snapshots` and branches, and wants to hear of no *table*.
        shown = f"{database}.{name}".replace(LEVELS, ".")
        raise _not_found(f"Table '{shown}' does not exist.", "TABLE", name)
    try:
        table = service.table(request, action)
    except NotFoundError as error:
        if error.kind != "table-not-found" or name not in service.views.all(database):
            raise
        raise _not_found(
            f"'{database}.{name}' is a view; this server gives views to Paimon's clients only.",
            "TABLE",
            name,
        ) from error
    if not has_iceberg(table.stored.typed_options):
        raise _not_found(
            f"Table '{table.identifier}' has no Iceberg metadata. Set its option "
            f"'{ice.ICEBERG_STORAGE.key}' = 'table-location'; its commits add that from then on.",
            "ICEBERG-TABLE",
            name,
        )
    return table


def _credentials(service: Service, request: Request, table: ServedTable) -> list[dict[str, Any]]:
    """Return the credentials of readers for a table's folders; none if the server has none."""
    path = table.store.table_path
    if service.data_tokens is None or table.is_external or scheme_of(path) == "file":
        return []
    token = issued_token(service.data_tokens, service, request, Action.SELECT)
    if token is None:
        return []
    config = client_storage({**service.client_options, **token.token})
    folders = sorted({path, metadata_directory(table.store)})
    return [
        {"prefix": folder, "config": config}
        for folder in folders
        if folder == path or not is_within(folder, path)
    ]


def _metadata(table: ServedTable) -> IcebergMetadata:
    """Return a table's newest Iceberg metadata; its properties name missing snapshots."""
    store = table.store
    in_table = is_within(metadata_directory(store), store.table_path)
    # The server may not look at the folders beside an external table.
    state = None if table.is_external and not in_table else iceberg_state(store)
    metadata = None if state is None else state.metadata
    if state is None or metadata is None:
        raise _not_found(
            f"Table '{table.identifier}' has no Iceberg metadata yet: its next commit adds it.",
            "ICEBERG-TABLE",
            table.identifier.table,
        )
    if not state.behind:
        return metadata
    properties = {**(metadata.document.get("properties") or {}), _BEHIND: str(state.behind)}
    return replace(metadata, document={**metadata.document, "properties": properties})
