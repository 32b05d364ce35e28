"""CatalogViews: the views of a warehouse, as values."""

from collections.abc import Mapping, Sequence
from typing import cast

from paimon_assets.engine.codec.rest.resources import ViewChange, ViewSchema
from paimon_assets.engine.codec.rest.rest_responses import ViewResponse
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.control.catalog.catalog_state import CatalogState
from paimon_assets.engine.control.catalog.named_items import NamedItems
from paimon_assets.engine.control.catalog.numbered_document import Members
from paimon_assets.engine.control.catalog.view_changes import changed_view
from paimon_assets.engine.spec.types.type_text import Json

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
