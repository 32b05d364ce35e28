"""Databases, views and functions, and the parts that tables share: names, listed by grants.

Functions are stored and listed as they are; this server runs none.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar, cast

from msgspec import structs

from paimon_assets.engine.codec.rest import bodies
from paimon_assets.engine.control.catalog.catalog import Identifier, TableName
from paimon_assets.engine.control.catalog.catalog_state import Members, function_of
from paimon_assets.engine.control.catalog.filesystem_catalog import refuse_location
from paimon_assets.engine.control.listeners import dropping_database
from paimon_assets.engine.errors import AlreadyExistsError, NotFoundError
from paimon_assets.engine.spec.options.catalog_options import DATA_TOKEN_ENABLED, DROPS_EMPTY
from paimon_assets.engine.spec.types.type_text import Json
from paimon_assets.engine.spec.values import Value
from paimon_assets.server import bodies as own_bodies
from paimon_assets.server.principals import Action
from paimon_assets.server.request import PREFIX, Answer, Request, bad_request, prefix_of
from paimon_assets.server.service import Service, check_database_name

T = TypeVar("T")
_SEPARATOR = "\x01"
"""Between database and name in a page's token: in no name, and in front of everything in them."""
_FUNCTION_NAME = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9._-]+")


class Listing(Value, Generic[T]):
    """The documents that list one sort of items."""

    noun: str
    items: Callable[[Service], Callable[[str], Mapping[str, T]]]
    """Returns the function from a database to its items, by name."""
    detail: Callable[[str, T], object]
    names_document: Callable[..., bodies.Page]
    details_document: Callable[..., bodies.Page]
    global_document: Callable[..., bodies.Page]

    def list_names(self, service: Service, request: Request) -> Answer:
        """List the items of a database that the principal may list."""
        items = self._allowed_items(service, request, Action.LIST)
        names, token = request.page(self._pattern).of(items)
        members = {f"{self.noun}s": tuple(names)}
        return self.names_document(**members, next_page_token=token).to_json()

    def list_details(self, service: Service, request: Request) -> Answer:
        """As `list_names`, with the items whole."""
        items = self._allowed_items(service, request, Action.DESCRIBE)
        names, token = request.page(self._pattern).of(items)
        members = {f"{self.noun}_details": tuple(self.detail(n, items[n]) for n in names)}
        return self.details_document(**members, next_page_token=token).to_json()

    def list_globally(self, service: Service, request: Request) -> Answer:
        """List the items of all databases that the principal may list."""
        items_of = self.items(service)
        names, token = listed_globally(service, request, self._pattern, lambda d, _: items_of(d))
        return self.global_document(**{f"{self.noun}s": names}, next_page_token=token).to_json()

    @property
    def _pattern(self) -> str:
        return f"{self.noun}NamePattern"

    def _allowed_items(self, service: Service, request: Request, action: Action) -> dict[str, T]:
        database = listed_database(request)
        items = self.items(service)(database).items()
        return {n: each for n, each in items if request.principal.may(action, database, n)}


VIEWS: Listing[bodies.ViewResponse] = Listing(
    noun="view",
    items=lambda service: service.views.all,
    detail=lambda _, view: view,
    names_document=bodies.ListViewsResponse,
    details_document=own_bodies.ListViewDetailsResponse,
    global_document=own_bodies.ListViewsGloballyResponse,
)
FUNCTIONS: Listing[Members] = Listing(
    noun="function",
    items=lambda service: service.functions.all,
    detail=function_of,
    names_document=bodies.ListFunctionsResponse,
    details_document=own_bodies.ListFunctionDetailsResponse,
    global_document=own_bodies.ListFunctionsGloballyResponse,
)


def new_name(request: Request, given: bodies.Identifier, noun: str) -> Identifier:
    """Return the name of a new item, and note it for the audit line under `noun`."""
    name = Identifier(check_database_name(given.database), given.object)
    TableName.refuse_parts(name)
    if name.database != request.names["database"]:
        raise bad_request("The path names another database than the body.")
    request.noted[noun] = name.table
    return name


def listed_database(request: Request) -> str:
    database = check_database_name(request.names["database"])
    if not request.principal.sees(database):
        request.require(Action.LIST, database)
    return database


def listed_globally(
    service: Service,
    request: Request,
    pattern_name: str,
    names_of: Callable[[str, str], Iterable[str]],
) -> tuple[tuple[bodies.Identifier, ...], str | None]:
    """Return a page of the names of all databases that the principal may list, and its token."""
    page = request.page()
    of_database = request.page("databaseNamePattern")
    of_name = request.page(pattern_name)
    prefix = prefix_of(of_name.pattern or "")

    def all_names() -> Iterator[str]:
        for database in service.catalog.list_databases():
            behind = database >= page.after.partition(_SEPARATOR)[0]
            if not (behind and of_database.matches(database)):
                continue
            try:
                for name in names_of(database, prefix):
                    if of_name.matches(name) and request.principal.may(Action.LIST, database, name):
                        yield f"{database}{_SEPARATOR}{name}"
            except NotFoundError:
                continue  # dropped since

    found, token = page.of(all_names())
    parts = (name.partition(_SEPARATOR) for name in found)
    return tuple(bodies.Identifier(database=d, object=name) for d, _, name in parts), token


def item_of(request: Request, noun: str, action: Action) -> Identifier:
    name = Identifier(request.names["database"], request.names[noun])
    request.require(action, name.database, name.table, noun=noun.upper())
    return name


def get_config(service: Service, _: Request) -> Answer:
    """Answer the settings that clients ask for first."""
    overrides = {"prefix": PREFIX, DROPS_EMPTY: "true"}
    defaults = dict(service.client_options)
    if service.data_tokens is not None:
        defaults[DATA_TOKEN_ENABLED.key] = "true"
    return bodies.ConfigResponse(defaults=defaults, overrides=overrides).to_json()


def list_databases(service: Service, request: Request) -> Answer:
    page = request.page("databaseNamePattern")
    seen = (name for name in service.catalog.list_databases() if request.principal.sees(name))
    names, token = page.of(seen)
    return bodies.ListDatabasesResponse(databases=tuple(names), next_page_token=token).to_json()


def create_database(service: Service, request: Request) -> None:
    body = request.read(bodies.CreateDatabaseRequest)
    name = check_database_name(body.name)
    request.noted["database"] = name
    request.require(Action.CREATE, name)
    refuse_location(name, body.options)
    existed = name in service.catalog.list_databases()
    if not existed:
        service.catalog.create_database(name, ignore_if_exists=True)
    by = request.principal.name
    service.catalog.describe_database(name, body.options, existed=existed, by=by)


def get_database(service: Service, request: Request) -> Answer:
    """Answer a database; properties and owner only to principals with more than `list`."""
    name = check_database_name(request.names["database"])
    if not request.principal.sees(name):
        request.require(Action.DESCRIBE, name)
    database = service.catalog.get_database(name)
    if not request.principal.may(Action.DESCRIBE, name):
        database = structs.replace(database, options={}, owner="", created_by="", updated_by="")
    return database.to_json()


def alter_database(service: Service, request: Request) -> Answer:
    name = check_database_name(request.names["database"])
    request.require(Action.ALTER, name)
    body = request.read(bodies.AlterDatabaseRequest)
    return service.catalog.alter_database(
        name, removals=body.removals, updates=body.updates, by=request.principal.name
    ).to_json()


def drop_database(service: Service, request: Request) -> None:
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
    with dropping_database(service.catalog, name):
        service.catalog.drop_database(name, cascade=request.query.get("cascade") != "false")


def create_view(service: Service, request: Request) -> None:
    body = request.read(bodies.CreateViewRequest)
    name = new_name(request, body.identifier, "view")
    request.require(Action.CREATE, name.database, name.table, noun="VIEW")
    _refuse_tables(service, name)
    service.views.create(name, body.schema, by=request.principal.name)


def get_view(service: Service, request: Request) -> Answer:
    return service.views.get(item_of(request, "view", Action.DESCRIBE)).to_json()


def alter_view(service: Service, request: Request) -> None:
    name = item_of(request, "view", Action.ALTER)
    changes = request.read(bodies.AlterViewRequest).changes
    service.views.alter(name, changes, by=request.principal.name)


def drop_view(service: Service, request: Request) -> None:
    service.views.drop(item_of(request, "view", Action.DROP))


def rename_view(service: Service, request: Request) -> None:
    body = request.read(bodies.RenameRequest)
    source = Identifier(body.source.database, body.source.object)
    target = Identifier(check_database_name(body.destination.database), body.destination.object)
    TableName.refuse_parts(target)
    request.noted["source"], request.noted["target"] = str(source), str(target)
    request.require_rename(source, target, noun="VIEW")
    _refuse_tables(service, target)
    service.views.rename(source, target)


def _refuse_tables(service: Service, name: Identifier) -> None:
    if service.has_table(name):
        raise AlreadyExistsError(f"There is a table '{name}'.", kind="view-exists", view=name.table)


def create_function(service: Service, request: Request) -> None:
    body = request.read(own_bodies.CreateFunctionRequest)
    name = Identifier(check_database_name(request.names["database"]), body.name)
    if not _FUNCTION_NAME.fullmatch(body.name):
        raise bad_request(f"Invalid function name: {body.name!r}")
    request.noted["function"] = name.table
    request.require(Action.CREATE, name.database, name.table, noun="FUNCTION")
    service.functions.create(name, body.to_json(), by=request.principal.name)


def get_function(service: Service, request: Request) -> Answer:
    name = item_of(request, "function", Action.DESCRIBE)
    return service.catalog.get_function(name).to_json()


def alter_function(service: Service, request: Request) -> None:
    name = item_of(request, "function", Action.ALTER)
    changes = request.read(own_bodies.AlterFunctionRequest).changes

    def alter_members(members: dict[str, Json]) -> dict[str, Json]:
        for change in changes:
            members = _change_members(members, change)
        return members

    service.functions.alter(name, alter_members, by=request.principal.name)


def drop_function(service: Service, request: Request) -> None:
    service.functions.drop(item_of(request, "function", Action.DROP))


def _change_members(members: dict[str, Json], change: Mapping[str, Json]) -> dict[str, Json]:
    options = dict(cast("dict[str, Json]", members.get("options") or {}))
    definitions = dict(cast("dict[str, Json]", members.get("definitions") or {}))
    try:
        match change.get("action"):
            case "setOption":
                options[str(change["key"])] = str(change["value"])
            case "removeOption":
                options.pop(str(change["key"]), None)
            case "updateComment":
                return {**members, "comment": change.get("comment")}
            case "addDefinition" | "updateDefinition" | "dropDefinition" as action:
                name = str(change["name"])
                if action == "addDefinition" and name in definitions:
                    message = f"The function has a definition '{name}' already."
                    raise AlreadyExistsError(message, kind="definition-exists", definition=name)
                if action != "addDefinition" and name not in definitions:
                    message = f"The function has no definition '{name}'."
                    raise NotFoundError(message, kind="definition-not-found", definition=name)
                if action == "dropDefinition":
                    del definitions[name]
                else:
                    definitions[name] = change["definition"]
            case other:
                raise bad_request(f"A function has no change {other!r}.")
    except KeyError as error:
        raise bad_request(f"A change of a function lacks {error}.") from error
    return {**members, "options": options, "definitions": definitions}
