"""Tables: their names, schemas, ids and data tokens."""

import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus

from msgspec.structs import replace

from paimon_assets.engine.codec.rest import bodies
from paimon_assets.engine.control.catalog import catalog_state
from paimon_assets.engine.control.catalog.catalog import (
    Identifier,
    TableName,
    missing_table,
    taken_table,
)
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.listeners import dropping, listeners, renaming
from paimon_assets.engine.control.managers.schema_manager import SchemaManager
from paimon_assets.engine.control.segments import check_own_folders
from paimon_assets.engine.errors import InvalidInputError, NotFoundError, StorageError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.evolution.schema_change import SetOption
from paimon_assets.engine.spec.paths import MAIN_BRANCH, TablePaths
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.server import bodies as own_bodies
from paimon_assets.server.issued_tokens import DataTokens
from paimon_assets.server.operations.items import listed_database, listed_globally, new_name
from paimon_assets.server.principals import Action
from paimon_assets.server.request import (
    Answer,
    Page,
    Refusal,
    Request,
    bad_request,
    forbidden,
    not_implemented,
)
from paimon_assets.server.service import PATH, ServedTable, Service, check_database_name, missing_id
from paimon_assets.server.straight_paths import recorded_path

logger = logging.getLogger(__name__)

_PATTERN = "tableNamePattern"
_CHANGED_FILE = "rest/table-changed.json"
"""In the folder of a table: the author of its newest schema."""


def list_tables(service: Service, request: Request) -> Answer:
    page = request.page(_PATTERN)
    names, token = page.of(_list(service, request, page))
    return bodies.ListTablesResponse(tables=tuple(names), next_page_token=token).to_json()


def list_table_details(service: Service, request: Request) -> Answer:
    """As `list_tables`, with schemas."""
    page, database = request.page(_PATTERN), request.names["database"]
    names, token = page.of(_list(service, request, page, Action.DESCRIBE))
    found = []
    for name in names:
        try:
            found.append(_response(service.load(Identifier(database, name))))
        except NotFoundError:
            continue  # dropped since
    return own_bodies.ListTableDetailsResponse(
        table_details=tuple(found), next_page_token=token
    ).to_json()


def list_tables_globally(service: Service, request: Request) -> Answer:
    tables, token = listed_globally(
        service, request, _PATTERN, lambda d, prefix: service.table_names(d, prefix=prefix)
    )
    return own_bodies.ListTablesGloballyResponse(tables=tables, next_page_token=token).to_json()


def create_table(service: Service, request: Request) -> None:
    body = request.read(bodies.CreateTableRequest)
    identifier = new_name(request, body.identifier, "table")
    request.require(Action.CREATE, identifier.database, identifier.table)
    schema = body.schema
    path = schema.options.get(PATH)
    if path is not None:
        service.check_place(path, request.principal, own=identifier)
    service.check_options(schema.options, request.principal)
    if identifier.table in service.views.all(identifier.database):
        raise taken_table(identifier)
    outside = service.state.read(identifier.database, catalog_state.TABLES).get(identifier.table)
    if outside is not None and not _is_free(service, str(outside)):
        raise taken_table(identifier)
    if path is not None:
        _create_outside(service, request, identifier, schema, path)
        return
    stored = service.catalog.create_table(identifier, schema)
    table_path = service.catalog.get_table_location(identifier)
    store = FileStore(
        file_io=service.file_io, table_path=table_path, schema=stored, name=str(identifier)
    )
    service.give_id(identifier, store, request.principal.name)


def register_table(service: Service, request: Request) -> None:
    body = request.read(own_bodies.RegisterTableRequest)
    identifier = new_name(request, body.identifier, "table")
    request.require(Action.CREATE, identifier.database, identifier.table)
    if service.has_table(identifier):
        raise taken_table(identifier)
    service.check_place(body.path, request.principal, own=identifier)
    path = recorded_path(body.path)
    try:
        store = FileStore.open(service.file_io_of(path), path, name=str(identifier))
    except NotFoundError as error:
        raise InvalidInputError(f"There is no table in '{path}'.", kind="register-path") from error
    service.check_options(store.schema.options, request.principal)
    _take_place(service, request, identifier, path)


def get_table(service: Service, request: Request) -> Answer:
    return _response(service.table(request, Action.DESCRIBE)).to_json()


def get_table_by_id(service: Service, request: Request) -> Answer:
    """Answer the table of an id; without a grant the table does not exist."""
    table_id = request.names["id"]
    identifier = service.of_id(table_id)
    if not request.principal.may(Action.DESCRIBE, identifier.database, identifier.table):
        raise missing_id(table_id)
    return _response(service.load(identifier)).to_json()


def alter_table(service: Service, request: Request) -> None:
    table = service.table(request, Action.ALTER)
    changes = request.read(bodies.AlterTableRequest).changes
    options = {change.key: change.value for change in changes if isinstance(change, SetOption)}
    service.check_options(options, request.principal)
    if PATH in options:
        raise bad_request("Change path is not supported yet.")
    check_own_folders(table.store, changes)
    now = service.clock.now_millis()
    after = table.store.schemas.commit_changes(changes, time_millis=now)
    request.noted["schema"] = after.id
    if not table.is_external:
        for listener in listeners(table.store.schema.options):  # a new one follows the next commit
            listener.changed(table.store.with_schema(after))
    if table.identity is not None and after.id != table.stored.id:
        by = request.principal.name
        members = {"id": table.identity.id, "schemaId": after.id, "updatedBy": by}
        data = json.dumps(members, separators=(",", ":")).encode()
        with suppress(StorageError):  # the schema is committed; only its author stays unknown
            table.store.file_io.replace(f"{table.store.table_path}/{_CHANGED_FILE}", data)


def drop_table(service: Service, request: Request) -> None:
    """Drop a table with its files, and by `cascade=true` foreign ones; an external one's name."""
    table = service.table(request, Action.DROP)
    if table.identifier.branch != MAIN_BRANCH:
        raise bad_request("A branch is dropped as one, not as a table.")
    if not table.is_external:
        with dropping(service.catalog, table.identifier):
            cascade = request.query.get("cascade") == "true"
            service.catalog.drop_table(table.identifier, cascade=cascade)
        if table.identity is not None:
            service.forget(table.identity.id)
        return
    _forget_outside(service, table.identifier, missing_is_error=True)


def rename_table(service: Service, request: Request) -> None:
    body = request.read(bodies.RenameRequest)
    source = Identifier(body.source.database, body.source.object)
    target = Identifier(body.destination.database, body.destination.object)
    for name in (source, target):
        TableName.refuse_parts(name)
    check_database_name(target.database)
    request.noted["source"], request.noted["target"] = str(source), str(target)
    request.require_rename(source, target, noun="TABLE")
    table = service.load(source)
    if service.has_table(target):
        raise taken_table(target)
    is_own_id = table.identity is not None and service.leads_to(table.identity.id, source)
    if table.is_external:
        path, by = table.store.table_path, request.principal.name
        _note_outside(service, target, path, by)
        _forget_outside(service, source)
    else:
        with renaming(service.catalog, source, target):
            service.catalog.rename_table(source, target)
    if table.identity is not None and is_own_id:
        service.remember(table.identity.id, target)


def _list(
    service: Service, request: Request, page: Page, action: Action = Action.LIST
) -> Iterator[str]:
    database = listed_database(request)
    names = service.table_names(database, after=page.after, prefix=page.prefix)
    seen = (name for name in names if request.principal.may(action, database, name))
    kind = request.query.get("tableType")
    for name in seen:
        if not kind:
            yield name
            continue
        with suppress(NotFoundError):  # dropped since
            stored = service.load(Identifier(database, name), identifies=False).stored
            if stored.options.get("type", "table") == kind:
                yield name


def _response(table: ServedTable) -> bodies.TableResponse:
    stored, identity = table.stored, table.identity
    owner = identity.created_by if identity else ""
    return bodies.TableResponse(
        id=identity.id if identity else None,
        database=table.identifier.database,
        name=table.identifier.object_name,
        path=table.store.table_path,
        is_external=table.is_external,
        schema_id=stored.id,
        schema=stored.declared,
        owner=owner,
        created_at=identity.created_at if identity else 0,
        created_by=owner,
        updated_at=stored.time_millis,
        updated_by=_author_of_schema(table),
    )


def _author_of_schema(table: ServedTable) -> str:
    """Return the author of the newest schema, the creator of the table for its first one."""
    identity, schema_id = table.identity, table.stored.id
    if identity is None or not schema_id:
        return identity.created_by if identity else ""
    try:
        data = table.store.file_io.read_bytes(f"{table.store.table_path}/{_CHANGED_FILE}")
        members = json.loads(data)
        if (members["id"], members["schemaId"]) == (identity.id, schema_id):
            return str(members["updatedBy"])
    except (NotFoundError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return ""


def _take_place(service: Service, request: Request, identifier: Identifier, path: str) -> None:
    """Reserve a table's folder, unless an overlapping one was reserved meanwhile."""
    _note_outside(service, identifier, path, request.principal.name)
    try:
        service.check_place(path, request.principal, own=identifier)
    except InvalidInputError:
        _forget_outside(service, identifier)
        raise


def _create_outside(
    service: Service, request: Request, identifier: Identifier, schema: Schema, path: str
) -> None:
    """Create a table elsewhere; the name first, so that a crash leaves no nameless table."""
    path = recorded_path(path)
    schemas = _schemas(service.file_io_of(path), path)
    if schemas.list_ids():
        raise InvalidInputError(
            f"There is a table in '{path}' already; register it.", kind="create-path"
        )
    if service.state.read(identifier.database, catalog_state.TABLES).get(identifier.table) != path:
        # A folder that holds something, be it not known to this catalog.
        file_io, own = service.file_io_of(path), TablePaths(table=path).schema_directory
        foreign = {entry.path for entry in file_io.list_directory(path)} - {own}
        if foreign or file_io.list_directory(own):
            message = f"Path '{path}' is not empty; a new table takes an empty folder."
            raise InvalidInputError(message, kind="create-path")
    _take_place(service, request, identifier, path)
    options = {key: value for key, value in schema.options.items() if key != PATH}
    table = replace(schema, options=options)
    schemas.create(table, time_millis=service.clock.now_millis())
    if service.state.read(identifier.database, catalog_state.TABLES).get(identifier.table) != path:
        service.file_io_of(path).delete_file(TablePaths(table=path).schema(0))
        raise InvalidInputError(
            f"Path '{path}' was given to another table meanwhile.", kind="path-taken"
        )
    service.load(identifier)


def _note_outside(service: Service, identifier: Identifier, path: str, by: str) -> None:
    if service.catalog.has_table(identifier):
        raise taken_table(identifier)

    def add_table(members: catalog_state.Members) -> catalog_state.Members:
        known = members.get(identifier.table)
        if known is not None and not _is_free(service, str(known)):
            raise taken_table(identifier)
        return {**members, identifier.table: path}

    service.state.change(identifier.database, catalog_state.TABLES, add_table, by=by)


def _is_free(service: Service, path: str) -> bool:
    """Whether a name was given to a table that never came to be."""
    return not _schemas(service.file_io_of(path), path).list_ids()


def _schemas(file_io: FileIO, path: str) -> SchemaManager:
    return SchemaManager(file_io, TablePaths(table=path))


def _forget_outside(
    service: Service, identifier: Identifier, *, missing_is_error: bool = False
) -> None:
    def without(members: catalog_state.Members) -> catalog_state.Members:
        if members.pop(identifier.table, None) is None and missing_is_error:
            raise missing_table(identifier)
        return members

    service.state.change(identifier.database, catalog_state.TABLES, without)


def get_table_token(service: Service, request: Request) -> Answer:
    """Answer the storage token of a table: for writing with `update`, else for reading."""
    name = service.table_name(request).table
    updates = request.principal.may(Action.UPDATE, name.database, name.table)
    action = Action.UPDATE if updates and not service.read_only else Action.SELECT
    if service.data_tokens is None:
        request.require(Action.DESCRIBE, name.database, name.table)
        raise not_implemented("data tokens: clients need credentials")
    table = service.table(request, action)
    if table.is_external:
        raise not_implemented("data tokens of external tables: clients need credentials")
    token = issued_token(service.data_tokens, service, request, action)
    if token is None:
        raise forbidden("TABLE", name.table)
    return token.to_json()


def issued_token(
    tokens: DataTokens, service: Service, request: Request, action: Action
) -> bodies.TokenResponse | None:
    """Return the storage token for a right, and note it for the audit line."""
    try:
        token = tokens.issue(action, service.clock.now_millis())
    except InvalidInputError as error:
        logger.error("request %s: %s", request.id, error.message)  # noqa: TRY400 - no stack
        raise Refusal(
            HTTPStatus.INTERNAL_SERVER_ERROR, f"No token can be issued; request {request.id}."
        ) from error
    if token is not None:
        request.noted["token"] = action.value
    return token
