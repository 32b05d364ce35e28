"""Shared parts of tables, views and functions: names in a database, listed by grants."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from paimon_assets.engine.codec.rest import documents
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.table.table_name import TableName
from paimon_assets.server.principals import Action
from paimon_assets.server.refusal import bad_request
from paimon_assets.server.request import Request, prefix_of
from paimon_assets.server.service import Service, check_database_name

T = TypeVar("T")
_SEPARATOR = "\x01"
"""Between database and name in a page's token: in no name, and in front of everything in them."""


def new_name(request: Request, given: documents.Identifier, noun: str) -> Identifier:
    """Return the name of a new item, and note it for the audit line under `noun`."""
    name = Identifier(check_database_name(given.database), given.object)
    TableName.refuse_parts(name)
    if name.database != request.names["database"]:
        raise bad_request("The path names another database than the body.")
    request.noted[noun] = name.table
    return name


def listed_database(request: Request) -> str:
    """Return the path's database."""
    database = check_database_name(request.names["database"])
    if not request.principal.sees(database):
        request.require(Action.LIST, database)
    return database


def listed(
    request: Request, items_of: Callable[[str], Mapping[str, T]], action: Action = Action.LIST
) -> dict[str, T]:
    """Return the items of the path's database that the principal may list, or more."""
    database = listed_database(request)
    return {
        name: item
        for name, item in items_of(database).items()
        if request.principal.may(action, database, name)
    }


def listed_globally(
    service: Service,
    request: Request,
    pattern_name: str,
    names_of: Callable[[str, str], Iterable[str]],
) -> tuple[tuple[documents.Identifier, ...], str | None]:
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
    return tuple(documents.Identifier(database=d, object=name) for d, _, name in parts), token


def named(request: Request, noun: str, action: Action) -> Identifier:
    """Return the item that the path names, if the principal may do that to it."""
    name = Identifier(request.names["database"], request.names[noun])
    request.require(action, name.database, name.table, noun=noun.upper())
    return name
