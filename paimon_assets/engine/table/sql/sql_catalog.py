"""SqlCatalog: the catalog as statements use it; `api.TableCatalog` is one."""

from collections.abc import Mapping
from typing import Protocol

from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.views import Views


class SqlCatalog(Protocol):
    """Databases, tables and views by name; errors are those of `api.TableCatalog`."""

    @property
    def views(self) -> Views:
        """The views."""
        ...

    def list_databases(self) -> list[str]:
        """Return the names of all databases."""
        ...

    def create_database(
        self, name: str, *, ignore_if_exists: bool = False, options: Mapping[str, str] | None = None
    ) -> None:
        """Create a database."""
        ...

    def drop_database(self, name: str, *, cascade: bool = False) -> None:
        """Drop a database."""
        ...

    def list_tables(self, database: str) -> list[str]:
        """Return the names of a database's tables."""
        ...

    def create_table(
        self, identifier: str | Identifier, schema: Schema, *, ignore_if_exists: bool = False
    ) -> Table:
        """Create a table."""
        ...

    def get_table(
        self, identifier: str | Identifier, *, options: Mapping[str, str] | None = None
    ) -> Table:
        """Open a table."""
        ...

    def drop_table(self, identifier: str | Identifier, *, ignore_if_missing: bool = False) -> None:
        """Drop a table."""
        ...

    def rename_table(self, source: str | Identifier, target: str | Identifier) -> None:
        """Rename a table."""
        ...


def view_exists(catalog: SqlCatalog, name: Identifier) -> bool:
    """Whether there is a view of this name."""
    return name.table in catalog.views.list(name.database)
