"""What views and functions have in common: names in a database, listed by grants."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from paimon_assets.engine.codec.rest import resources
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.server.paging import across_databases
from paimon_assets.server.principals import Action
from paimon_assets.server.request import Request
from paimon_assets.server.service import Service, check_database_name

T = TypeVar("T")


def listed(request: Request, items_of: Callable[[str], Mapping[str, T]]) -> dict[str, T]:
    """Return the items of the path's database that the principal may list.

    Raises:
        Refusal: 403; it may not list the database.
        NotFoundError: There is no such database.
    """
    database = check_database_name(request.names["database"])
    if not request.principal.sees(database):
        request.require(Action.LIST, database)
    return {
        name: item
        for name, item in items_of(database).items()
        if request.principal.may(Action.LIST, database, name)
    }


def listed_globally(
    service: Service,
    request: Request,
    pattern_name: str,
    names_of: Callable[[str], Iterable[str]],
) -> tuple[tuple[resources.Identifier, ...], str | None]:
    """Return a page of the names of all databases that the principal may list, and its token."""
    found, token = across_databases(
        request,
        pattern_name,
        service.catalog.list_databases(),
        lambda database, prefix: (
            name
            for name in names_of(database)
            if name.startswith(prefix) and request.principal.may(Action.LIST, database, name)
        ),
    )
    return tuple(resources.Identifier(database=d, object=name) for d, name in found), token


def named(request: Request, noun: str, action: Action) -> Identifier:
    """Return the item that the path names, if the principal may do that to it.

    Args:
        request: The request.
        noun: `view` or `function`.
        action: What is to be done.

    Raises:
        Refusal: 403, be there such a thing or not.
    """
    name = Identifier(request.names["database"], request.names[noun])
    request.require(action, name.database, name.table, noun=noun.upper())
    return name
