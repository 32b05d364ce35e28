"""CatalogState: the state of a warehouse beside its tables: properties, views, names, ids.

    <warehouse>/.catalog/<id of the database>/{properties,views,functions,tables}-N.json
    <database>.db/.database.json                     id and creator of the database
    <database>.db/<table>/rest/table.json            of the table
    <database>.db/<table>/rest/table-changed.json    the last author of its schema

Clients of the file system look at none of these. They know no ids either: the first one who asks
for an id publishes it. It lies in the directory that it names: a rename keeps it, a drop removes
it, and a database that is created again has another id and nothing of the old one's state.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from paimon_assets.engine.control.catalog.numbered_document import Members, NumberedDocument
from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.publishing import published
from paimon_assets.engine.errors import FormatError, NotFoundError
from paimon_assets.engine.fileio.base import FileIO

DATABASE_FILE = ".database.json"
TABLE_FILE = "rest/table.json"
_CHANGED_FILE = "rest/table-changed.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The creator and the permanent id of a table or database."""

    id: str
    created_at: int
    """Epoch milliseconds of the identity; what was there before is older."""
    created_by: str = ""
    """Empty if a client of the file system made it."""


def read_identity(file_io: FileIO, path: str) -> Identity | None:
    """Return the identity a file holds, None if there is no file."""
    try:
        members = json.loads(file_io.read_bytes(path))
        return Identity(
            id=str(members["id"]),
            created_at=int(members["createdAt"]),
            created_by=str(members["createdBy"]),
        )
    except NotFoundError:
        return None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError(
            f"{path}: not the file of an identity ({error!r}).",
            kind="metadata-json",
            details={"path": path},
        ) from error


def new_identity(
    file_io: FileIO, path: str, *, by: str, now_millis: int, id_: str | None = None
) -> Identity:
    """Publish an identity, and return the stored one: ours, or that of a faster writer."""
    made = Identity(id=id_ or str(uuid4()), created_at=now_millis, created_by=by)
    members = {"id": made.id, "createdAt": made.created_at, "createdBy": made.created_by}
    if published(file_io, path, json.dumps(members, separators=(",", ":")).encode()):
        return made
    found = read_identity(file_io, path)
    if found is None:
        raise NotFoundError(f"'{path}' was deleted meanwhile.", details={"path": path})
    return found


def note_change(
    file_io: FileIO, table_path: str, identity: Identity, schema_id: int, by: str
) -> None:
    """Store the author of the newest schema of a table."""
    members = {"id": identity.id, "schemaId": schema_id, "updatedBy": by}
    data = json.dumps(members, separators=(",", ":")).encode()
    file_io.replace(f"{table_path}/{_CHANGED_FILE}", data)


def changed_by(file_io: FileIO, table_path: str, identity: Identity, schema_id: int) -> str:
    """Return the author of the newest schema; the creator of the table if none is stored."""
    if not schema_id:
        return identity.created_by
    try:
        members = json.loads(file_io.read_bytes(f"{table_path}/{_CHANGED_FILE}"))
        if (members["id"], members["schemaId"]) == (identity.id, schema_id):
            return str(members["updatedBy"])
    except (NotFoundError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return ""


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

        Cost: two reads, one listing, and whether the database exists.
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
