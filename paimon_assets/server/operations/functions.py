"""Functions: stored and listed as they are; this server runs none."""

import re
from collections.abc import Mapping
from typing import cast

from paimon_assets.engine.codec.rest.documents import (
    AlterFunctionRequest,
    CreateFunctionRequest,
    ListFunctionDetailsResponse,
    ListFunctionsGloballyResponse,
    ListFunctionsResponse,
)
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.control.catalog.catalog_state import function_of
from paimon_assets.engine.errors import AlreadyExistsError, NotFoundError
from paimon_assets.engine.spec.types.type_text import Json
from paimon_assets.server.operations.items import listed, listed_globally, named
from paimon_assets.server.principals import Action
from paimon_assets.server.refusal import bad_request
from paimon_assets.server.request import Request
from paimon_assets.server.routes import Answer
from paimon_assets.server.service import Service, check_database_name

_PATTERN = "functionNamePattern"
_NAME = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9._-]+")
"""The names Java's client lets through."""


def list_functions(service: Service, request: Request) -> Answer:
    """List the functions of a database the principal may list."""
    names, token = request.page(_PATTERN).of(listed(request, service.functions.all))
    return ListFunctionsResponse(functions=tuple(names), next_page_token=token).to_json()


def list_function_details(service: Service, request: Request) -> Answer:
    """As `list_functions`, whole."""
    found = listed(request, service.functions.all, Action.DESCRIBE)
    names, token = request.page(_PATTERN).of(found)
    details = tuple(function_of(name, found[name]) for name in names)
    return ListFunctionDetailsResponse(function_details=details, next_page_token=token).to_json()


def list_functions_globally(service: Service, request: Request) -> Answer:
    """List the functions of all databases the principal may list."""
    names_of = service.functions.all
    functions, token = listed_globally(service, request, _PATTERN, lambda d, _: names_of(d))
    return ListFunctionsGloballyResponse(functions=functions, next_page_token=token).to_json()


def create_function(service: Service, request: Request) -> Answer:
    """Store a function."""
    asked = request.read(CreateFunctionRequest)
    name = Identifier(check_database_name(request.names["database"]), asked.name)
    if not _NAME.fullmatch(asked.name):
        raise bad_request(f"Invalid function name: {asked.name!r}")
    request.noted["function"] = name.table
    request.require(Action.CREATE, name.database, name.table, noun="FUNCTION")
    service.functions.create(name, asked.to_json(), by=request.principal.name)
    return None


def get_function(service: Service, request: Request) -> Answer:
    """Answer a function."""
    name = named(request, "function", Action.DESCRIBE)
    return service.catalog.get_function(name).to_json()


def alter_function(service: Service, request: Request) -> Answer:
    """Change a function, all changes or none."""
    name = named(request, "function", Action.ALTER)
    changes = request.read(AlterFunctionRequest).changes

    def altered(members: dict[str, Json]) -> dict[str, Json]:
        for change in changes:
            members = _changed(members, change)
        return members

    service.functions.alter(name, altered, by=request.principal.name)
    return None


def drop_function(service: Service, request: Request) -> Answer:
    """Forget a function."""
    service.functions.drop(named(request, "function", Action.DROP))
    return None


def _changed(members: dict[str, Json], change: Mapping[str, Json]) -> dict[str, Json]:
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
                _check_definition(name, adds=action == "addDefinition", known=name in definitions)
                if action == "dropDefinition":
                    del definitions[name]
                else:
                    definitions[name] = change["definition"]
            case other:
                raise bad_request(f"A function has no change {other!r}.")
    except KeyError as error:
        raise bad_request(f"A change of a function lacks {error}.") from error
    return {**members, "options": options, "definitions": definitions}


def _check_definition(name: str, *, adds: bool, known: bool) -> None:
    if adds and known:
        raise AlreadyExistsError(
            f"The function has a definition '{name}' already.",
            kind="definition-exists",
            details={"definition": name},
        )
    if not adds and not known:
        raise NotFoundError(
            f"The function has no definition '{name}'.",
            kind="definition-not-found",
            details={"definition": name},
        )
