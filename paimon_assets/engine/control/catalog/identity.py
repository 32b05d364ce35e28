"""Identity: the uuid of a table or database, and its creator, in a small file of its own.

    <database>.db/.database.json        <database>.db/<table>/rest/table.json

The file system's catalogs know no ids: who asks for one first, publishes it if there is none. It
goes where the directory goes: a rename keeps it, a drop takes it along, and what is made again
under the same name gets another. `table-changed.json` beside it says who changed the schema last.
"""

import json
from dataclasses import dataclass
from uuid import uuid4

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
