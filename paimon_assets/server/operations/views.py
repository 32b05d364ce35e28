"""Views."""

from paimon_assets.engine.codec.rest.documents import (
    AlterViewRequest,
    CreateViewRequest,
    ListViewDetailsResponse,
    ListViewsGloballyResponse,
    ListViewsResponse,
    RenameRequest,
)
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import AlreadyExistsError
from paimon_assets.engine.table.table_name import TableName
from paimon_assets.server.operations.items import listed, listed_globally, named, new_name
from paimon_assets.server.principals import Action
from paimon_assets.server.request import Request
from paimon_assets.server.routes import Answer
from paimon_assets.server.service import Service, check_database_name

_PATTERN = "viewNamePattern"


def list_views(service: Service, request: Request) -> Answer:
    """List the views of a database the principal may list."""
    names, token = request.page(_PATTERN).of(listed(request, service.views.all))
    return ListViewsResponse(views=tuple(names), next_page_token=token).to_json()


def list_view_details(service: Service, request: Request) -> Answer:
    """As `list_views`, with schemas."""
    found = listed(request, service.views.all, Action.DESCRIBE)
    names, token = request.page(_PATTERN).of(found)
    details = tuple(found[name] for name in names)
    return ListViewDetailsResponse(view_details=details, next_page_token=token).to_json()


def list_views_globally(service: Service, request: Request) -> Answer:
    """List the views of all databases the principal may list."""
    names_of = service.views.all
    views, token = listed_globally(service, request, _PATTERN, lambda d, _: names_of(d))
    return ListViewsGloballyResponse(views=views, next_page_token=token).to_json()


def create_view(service: Service, request: Request) -> Answer:
    """Create a view."""
    asked = request.read(CreateViewRequest)
    name = new_name(request, asked.identifier, "view")
    request.require(Action.CREATE, name.database, name.table, noun="VIEW")
    _refuse_tables(service, name)
    service.views.create(name, asked.schema, by=request.principal.name)
    return None


def get_view(service: Service, request: Request) -> Answer:
    """Answer a view."""
    name = named(request, "view", Action.DESCRIBE)
    return service.views.get(name).to_json()


def alter_view(service: Service, request: Request) -> Answer:
    """Change a view, all changes or none."""
    name = named(request, "view", Action.ALTER)
    changes = request.read(AlterViewRequest).changes
    service.views.alter(name, changes, by=request.principal.name)
    return None


def drop_view(service: Service, request: Request) -> Answer:
    """Drop a view."""
    service.views.drop(named(request, "view", Action.DROP))
    return None


def rename_view(service: Service, request: Request) -> Answer:
    """Give a view another name, perhaps in another database."""
    asked = request.read(RenameRequest)
    source = Identifier(asked.source.database, asked.source.object)
    target = Identifier(check_database_name(asked.destination.database), asked.destination.object)
    TableName.refuse_parts(target)
    request.noted["source"], request.noted["target"] = str(source), str(target)
    request.require_rename(source, target, noun="VIEW")
    _refuse_tables(service, target)
    service.views.rename(source, target)
    return None


def _refuse_tables(service: Service, name: Identifier) -> None:
    if service.has_table(name):
        raise AlreadyExistsError(
            f"There is a table '{name}'.", kind="view-exists", details={"view": name.table}
        )
