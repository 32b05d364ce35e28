"""DatabaseCatalog: a catalog whose databases have properties, and hold functions."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from paimon_assets.engine.codec.rest.rest_responses import (
    AlterDatabaseResponse,
    DatabaseResponse,
    FunctionResponse,
)
from paimon_assets.engine.control.catalog.catalog import Identifier


@runtime_checkable
class DatabaseCatalog(Protocol):
    """Databases with properties. Missing things raise `NotFoundError`."""

    def create_database(
        self, name: str, *, ignore_if_exists: bool = False, options: Mapping[str, str] | None = None
    ) -> None:
        """Create a database, with properties."""
        ...

    def get_database(self, name: str) -> DatabaseResponse:
        """Return a database, with its properties and owner."""
        ...

    def alter_database(
        self, name: str, *, removals: Sequence[str] = (), updates: Mapping[str, str] | None = None
    ) -> AlterDatabaseResponse:
        """Remove and set properties of a database."""
        ...

    def list_functions(self, database: str) -> list[str]:
        """Return the names of a database's functions, sorted."""
        ...

    def get_function(self, identifier: Identifier) -> FunctionResponse:
        """Return a function; NotFoundError (kind `function-not-found`) if there is none."""
        ...
