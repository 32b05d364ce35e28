"""Databases as people see them, and the functions that a catalog keeps in them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from paimon_assets.engine.control.catalog.catalog import Catalog
from paimon_assets.engine.control.catalog.database_catalog import DatabaseCatalog
from paimon_assets.engine.errors import UnsupportedFeatureError


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A database."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    """Its properties."""
    location: str | None = None
    owner: str = ""
    """Who made it, as far as that is known."""

    @classmethod
    def of(cls, catalog: Catalog, name: str) -> "Database":
        """Ask a catalog for a database.

        Raises:
            NotFoundError: There is no such database.
            UnsupportedFeatureError: As `with_properties`.
        """
        found = with_properties(catalog).get_database(name)
        return cls(
            name=name,
            options=dict(found.options),
            location=found.location,
            owner=found.owner or "",
        )


def with_properties(catalog: Catalog) -> DatabaseCatalog:
    """Return a catalog whose databases have properties and functions.

    Raises:
        UnsupportedFeatureError: This one's have none (kind `no-properties`).
    """
    if not isinstance(catalog, DatabaseCatalog):
        raise UnsupportedFeatureError(
            "Databases of this catalog have no properties and no functions; those of a warehouse "
            "and of a REST server have.",
            kind="no-properties",
        )
    return catalog
