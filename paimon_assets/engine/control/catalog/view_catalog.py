"""ViewCatalog: a catalog that keeps views beside its tables.

Source: `org.apache.paimon.catalog.Catalog`, `org.apache.paimon.view.View`.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from paimon_assets.engine.codec.rest.resources import ViewChange, ViewSchema
from paimon_assets.engine.codec.rest.rest_responses import ViewResponse
from paimon_assets.engine.control.catalog.catalog import Identifier


@runtime_checkable
class ViewCatalog(Protocol):
    """Views by name.

    Missing ones raise `NotFoundError` (kind `view-not-found`), taken names `AlreadyExistsError`
    (`view-exists`).
    """

    def list_views(self, database: str) -> list[str]:
        """Return the names of a database's views, sorted."""
        ...

    def get_view(self, identifier: Identifier) -> ViewResponse:
        """Return a view."""
        ...

    def create_view(self, identifier: Identifier, schema: ViewSchema) -> None:
        """Create a view."""
        ...

    def alter_view(self, identifier: Identifier, changes: Sequence[ViewChange]) -> None:
        """Change a view, all changes or none."""
        ...

    def drop_view(self, identifier: Identifier, *, ignore_if_missing: bool = False) -> None:
        """Drop a view."""
        ...

    def rename_view(self, source: Identifier, target: Identifier) -> None:
        """Give a view another name, perhaps in another database."""
        ...
