"""CatalogViews: the views of a warehouse, as values.

What changes make of a view.

Source: `org.apache.paimon.view.ViewChange`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from paimon_assets.engine.codec.rest.resources import (
    AddDialect,
    DropDialect,
    RemoveViewOption,
    SetViewOption,
    UpdateDialect,
    UpdateViewComment,
    ViewChange,
    ViewSchema,
)
from paimon_assets.engine.codec.rest.rest_responses import ViewResponse
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.control.catalog.catalog_state import CatalogState
from paimon_assets.engine.control.catalog.named_items import NamedItems
from paimon_assets.engine.control.catalog.numbered_document import Members
from paimon_assets.engine.errors import AlreadyExistsError, NotFoundError
from paimon_assets.engine.spec.types.type_text import Json


def changed_view(view: ViewSchema, changes: Iterable[ViewChange]) -> ViewSchema:
    """Return a view after changes, made in their order."""
    for change in changes:
        view = _changed(view, change)
    return view


def _changed(view: ViewSchema, change: ViewChange) -> ViewSchema:
    options, dialects = dict(view.options), dict(view.dialects)
    match change:
        case SetViewOption(key=key, value=value):
            options[key] = value
        case RemoveViewOption(key=key):
            options.pop(key, None)
        case UpdateViewComment(comment=comment):
            return replace(view, comment=comment)
        case AddDialect(dialect=dialect, query=query):
            if dialect in dialects:
                raise AlreadyExistsError(
                    f"The view has a dialect '{dialect}' already.",
                    kind="dialect-exists",
                    details={"dialect": dialect},
                )
            dialects[dialect] = query
        case UpdateDialect(dialect=dialect, query=query):
            _existing(dialects, dialect)
            dialects[dialect] = query
        case DropDialect(dialect=dialect):
            _existing(dialects, dialect)
            del dialects[dialect]
    return replace(view, options=options, dialects=dialects)


def _existing(dialects: dict[str, str], dialect: str) -> None:
    if dialect not in dialects:
        raise NotFoundError(
            f"The view has no dialect '{dialect}'.",
            kind="dialect-not-found",
            details={"dialect": dialect},
        )


_SCHEMA = "schema"


class CatalogViews:
    """The views of a warehouse; whether a table has the name is the caller's to know.

    Errors are those of `NamedItems`.
    """

    def __init__(self, state: CatalogState) -> None:
        self._items = NamedItems(state, "view")

    def all(self, database: str) -> dict[str, ViewResponse]:
        """Return name → view, by name."""
        return {name: _view(name, found) for name, found in self._items.all(database).items()}

    def get(self, name: Identifier) -> ViewResponse:
        """Return a view."""
        return _view(name.table, self._items.get(name))

    def create(self, name: Identifier, schema: ViewSchema, *, by: str = "") -> None:
        """Create a view."""
        self._items.create(name, {_SCHEMA: cast("Json", schema.to_json())}, by=by)

    def alter(self, name: Identifier, changes: Sequence[ViewChange], *, by: str = "") -> None:
        """Change a view, all changes or none."""

        def altered(members: Members) -> Members:
            view = changed_view(ViewSchema.from_json(members[_SCHEMA]), changes)
            return {**members, _SCHEMA: cast("Json", view.to_json())}

        self._items.alter(name, altered, by=by)

    def drop(self, name: Identifier) -> None:
        """Drop a view."""
        self._items.drop(name)

    def rename(self, source: Identifier, target: Identifier) -> None:
        """Give a view another name, perhaps in another database."""
        self._items.rename(source, target)


def _view(name: str, members: Mapping[str, Json]) -> ViewResponse:
    return ViewResponse.from_json({**members, "name": name, "owner": members["createdBy"]})
