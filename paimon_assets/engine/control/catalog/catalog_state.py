"""CatalogState: the state of a warehouse beside its tables: properties, views, functions, names.

    <warehouse>/.catalog/<id of the database>/{properties,views,functions,tables}-N.json

No client of the file system looks there; names with a dot in front are none of theirs. A database
that is dropped and made again has another id, and nothing of the old one's comes back.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from paimon_assets.engine.control.catalog.identity import (
    DATABASE_FILE,
    Identity,
    new_identity,
    read_identity,
)
from paimon_assets.engine.control.catalog.numbered_document import Members, NumberedDocument
from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.errors import NotFoundError

if TYPE_CHECKING:
    from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog

STATE_DIRECTORY = ".catalog"
PROPERTIES = "properties"
TABLES = "tables"
"""Names of tables that lie outside the warehouse."""
CONTENTS = ("views", "functions", TABLES)
"""Documents whose members lie in a database: one that holds some is not empty."""


class CatalogState:
    """The state of all databases of a warehouse."""

    def __init__(self, catalog: "FilesystemCatalog", *, clock: Clock | None = None) -> None:
        self.catalog = catalog
        self._file_io = catalog.file_io
        self.clock = clock or SystemClock()

    def identity(self, database: str) -> Identity | None:
        """Return the id of a database, None if it was never assigned."""
        path = self.catalog.database_path(database)
        return read_identity(self._file_io, f"{path}/{DATABASE_FILE}")

    def own_identity(self, database: str, by: str = "") -> Identity:
        """Return the id of a database; one is assigned if it has none."""
        found = self.identity(database)
        if found is not None:
            return found
        path = f"{self.catalog.database_path(database)}/{DATABASE_FILE}"
        return new_identity(self._file_io, path, by=by, now_millis=self.clock.now_millis())

    def read(self, database: str, kind: str) -> Members:
        """Return one document of a database, empty if there is none.

        Cost:
            Two reads, one listing, and whether the database exists.
        """
        found = self.identity(database)
        return {} if found is None else self.document(found, kind).read()

    def change(
        self, database: str, kind: str, changed: Callable[[Members], Members], *, by: str = ""
    ) -> Members:
        """Change one document of a database; see `NumberedDocument.change`."""
        identity = self.own_identity(database, by)
        members = self.document(identity, kind).change(changed)
        if self.identity(database) != identity:
            raise NotFoundError(
                f"Database '{database}' was dropped meanwhile.",
                kind="database-not-found",
                details={"database": database},
            )
        return members

    def forget(self, identity: Identity) -> None:
        """Delete the state of a database that was dropped."""
        self._file_io.delete_directory(self._directory(identity))

    def document(self, identity: Identity, kind: str) -> NumberedDocument:
        """Return one document of the database of an id."""
        return NumberedDocument(self._file_io, self._directory(identity), kind)

    def _directory(self, identity: Identity) -> str:
        return f"{self.catalog.warehouse.rstrip('/')}/{STATE_DIRECTORY}/{identity.id}"
