"""CatalogState: the state of a warehouse beside its tables: properties, views, functions, ids.

    <warehouse>/.catalog/<id of the database>/{properties,views,functions,tables}-N.json
    <database>.db/.database.json                     id and creator of the database
    <database>.db/<table>/rest/table.json            of the table
    <database>.db/<table>/rest/table-changed.json    the last author of its schema

Clients of the file system read none of these. The first request for an id publishes it. Its file is
in the directory that it names: a rename keeps it, a drop removes it, and a database that is
created again has another id and nothing of the old one's state.

Of a document the highest number counts. Of two changes at once one loses, and changes the result of
the other: so several processes or servers change one document without loss. A few old numbers stay
for readers that listed before. A slow writer may reuse a deleted number, so after its publish it
checks that the highest number remembers its change; and a reader lists twice before it answers by
a document without a publish. To rename a
view from one database to another is two changes; after a crash between them the same rename
completes it.
Source: `org.apache.paimon.view.ViewChange`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Protocol, cast
from uuid import uuid4

from msgspec import Meta, convert, structs, to_builtins

from paimon_assets.engine import errors
from paimon_assets.engine.codec.json.metadata_json import UNREADABLE, json_bytes
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.managers.numbered_files import (
    number_of,
    prefixed_files,
    read_or_none,
)
from paimon_assets.engine.control.publishing import publish_once
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.types.type_text import Json
from paimon_assets.engine.spec.values import Value

if TYPE_CHECKING:
    from paimon_assets.engine.codec.rest import bodies


logger = logging.getLogger(__name__)

Members = dict[str, Json]
_MOST_TRIES = 100
"""Most tries of one change under contention; each lost race is one that another writer won."""
_KEPT = 8
_MEMBERS = "members"
_HISTORY = "changes"
"""Names of the last changes, the newest first; so the bytes of each are its author's own."""
_REMEMBERED = 256
"""Changes that a document remembers; a writer overtaken by more gets no answer on its own."""


class NumberedDocument:
    """One document, with the storage and the path by which it is changed."""

    def __init__(self, file_io: FileIO, directory: str, name: str) -> None:
        self._file_io = file_io
        self._directory = directory
        self._prefix = f"{name}-"

    def read(self) -> Members:
        """Return the newest members, or none. Cost: two listings and one read."""
        return self._newest_since(0, "").members

    def change(self, changed: Callable[[Members], Members]) -> Members:
        """Publish the result of a function of the newest members, and return it.

        The function is called again if another writer was faster; its errors end the change.
        Nothing is published if it changes nothing.
        """
        for _ in range(_MOST_TRIES):
            newest, refusal = self._newest(), None
            try:
                after = changed(dict(newest.members))
            except errors.PaimonError as error:
                after, refusal = newest.members, error
            if after == newest.members:
                if not self._ends_with(newest.number):
                    continue
                if refusal is not None:
                    raise refusal
                return after
            own = uuid4().hex[:16]
            file = {_HISTORY: [own, *newest.history][:_REMEMBERED], _MEMBERS: after}
            data = json_bytes(cast("Members", file))
            number = newest.number + 1
            if publish_once(self._file_io, self._path(number), data) and self._counts(number, own):
                return after
        message = (
            f"'{self._directory}/{self._prefix}*.json' was changed by other writers {_MOST_TRIES} "
            "times meanwhile; look at it and change it again."
        )
        raise errors.CommitConflictError(message, kind="document-conflict", path=self._directory)

    def _newest(self) -> _Newest:
        for _ in range(_MOST_TRIES):
            numbers = self._numbers()
            if not numbers:
                return _Newest([], {}, [])
            path = self._path(numbers[-1])
            data = read_or_none(self._file_io, path)
            if data is not None:  # else it was deleted, because there are many newer ones
                return _Newest(numbers, *_parse(data, path))
        raise self._ghosts()

    def _numbers(self) -> list[int]:
        names = prefixed_files(self._file_io, self._directory, self._prefix)
        ours = (name.removesuffix(".json") for name in names if name.endswith(".json"))
        return sorted(number for name in ours if (number := number_of(name)) is not None)

    def _newest_since(self, number: int, change: str) -> _Newest:
        """Return the newest document; without the change, only if it is the newest for sure.

        A number that was listed may be deleted, and published again by a slow writer, before it is
        read. It is the newest for sure if a listing afterwards ends with it.
        """
        for _ in range(_MOST_TRIES):
            newest = self._newest()
            if newest.number < number:
                continue  # a listing without the number is no answer
            if change in newest.history or self._ends_with(newest.number):
                return newest
        raise self._ghosts()

    def _ends_with(self, number: int) -> bool:
        """Whether a number, 0 for none, is the highest now."""
        return max(self._numbers(), default=0) == number

    def _counts(self, number: int, change: str) -> bool:
        """Whether a published number counts; withdraws one that was published too late."""
        try:
            newest = self._newest_since(number, change)
            if change not in newest.history:
                if newest.number - number >= _REMEMBERED:
                    raise _unknown(self._path(number))
                self._file_io.delete_file(self._path(number))
                return False
        except errors.StorageError as error:
            raise _unknown(self._path(number)) from error
        try:
            for old in newest.numbers[:-_KEPT]:
                self._file_io.delete_file(self._path(old))
        except errors.StorageError:
            logger.warning("'%s': old numbers are left", self._directory, exc_info=True)
        return True

    def _ghosts(self) -> errors.StorageError:
        message = (
            f"Storage lists files '{self._prefix}*.json' of '{self._directory}' that it does not"
            " find."
        )
        return errors.StorageError(message, kind="document-listing", path=self._directory)

    def _path(self, number: int) -> str:
        return f"{self._directory}/{self._prefix}{number}.json"


class _Newest(Value, kw_only=False):
    numbers: list[int]
    """All that were listed, ascending; none if nothing was published yet."""
    members: Members
    history: list[Json]

    @property
    def number(self) -> int:
        return self.numbers[-1] if self.numbers else 0


def _parse(data: bytes, path: str) -> tuple[Members, list[Json]]:
    try:
        file = json.loads(data)
        return convert(file[_MEMBERS], dict[str, Any]), convert(file[_HISTORY], list[Any])
    except UNREADABLE as error:
        message = f"{path}: not a document of a catalog; expected '{_MEMBERS}' and '{_HISTORY}'."
        raise errors.FormatError(message, kind="metadata-json", path=path) from error


def _unknown(path: str) -> errors.CommitUnknownError:
    return errors.CommitUnknownError(
        f"Whether '{path}' came in time is unknown; look at the document first.", path=path
    )


DATABASE_FILE = ".database.json"
TABLE_FILE = "rest/table.json"

IDENTITY_ID = r"\A[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z"
"""An id: it becomes a part of paths, and other programs may write the folder that stores it."""


class Identity(Value, rename="camel"):
    """The creator and the permanent id of a table or database."""

    id: Annotated[str, Meta(pattern=IDENTITY_ID)]
    created_at: int
    """Epoch milliseconds of the identity; earlier contents of the folder are older."""
    created_by: str
    """Empty if a client of the file system made it."""


def read_identity(file_io: FileIO, path: str) -> Identity | None:
    try:
        return convert(json.loads(file_io.read_bytes(path)), Identity)
    except errors.NotFoundError:
        return None
    except UNREADABLE as error:
        raise errors.FormatError(
            f"{path}: not the file of an identity ({error!r}).", kind="metadata-json", path=path
        ) from error


def new_identity(
    file_io: FileIO, path: str, *, by: str, now_millis: int, id_: str | None = None
) -> Identity:
    """Publish an identity, and return the stored one: ours, or that of a faster writer."""
    made = Identity(id=id_ or str(uuid4()), created_at=now_millis, created_by=by)
    if publish_once(file_io, path, json.dumps(to_builtins(made), separators=(",", ":")).encode()):
        return made
    stored = read_identity(file_io, path)
    if stored is None:
        raise errors.NotFoundError(f"'{path}' was deleted meanwhile.", path=path)
    return stored


STATE_DIRECTORY = ".catalog"
PROPERTIES = "properties"
TABLES = "tables"
"""Names of tables that lie outside the warehouse."""
CONTENTS = ("views", "functions", TABLES)
"""Documents whose members lie in a database: one that holds some is not empty."""


class Folders(Protocol):
    """The folders of a warehouse, as its catalog names them."""

    warehouse: str
    file_io: FileIO

    def database_path(self, name: str) -> str:
        """Return the folder of a database that exists."""


class CatalogState:
    """The state of all databases of a warehouse."""

    def __init__(self, folders: Folders, *, clock: Clock | None = None) -> None:
        self._folders = folders
        self._file_io = folders.file_io
        self.clock = clock or SystemClock()

    def identity(self, database: str) -> Identity | None:
        """Return the id of a database, None if it was never assigned."""
        path = self._folders.database_path(database)
        return read_identity(self._file_io, f"{path}/{DATABASE_FILE}")

    def own_identity(self, database: str, by: str = "") -> Identity:
        """Return the id of a database; one is assigned if it has none."""
        identity = self.identity(database)
        if identity is not None:
            return identity
        path = f"{self._folders.database_path(database)}/{DATABASE_FILE}"
        return new_identity(self._file_io, path, by=by, now_millis=self.clock.now_millis())

    def read(self, database: str, kind: str) -> Members:
        """Return one document of a database, or none. Cost: two reads, two listings."""
        identity = self.identity(database)
        return {} if identity is None else self.document(identity, kind).read()

    def change(
        self, database: str, kind: str, changed: Callable[[Members], Members], *, by: str = ""
    ) -> Members:
        """Change one document of a database; see `NumberedDocument.change`."""
        identity = self.own_identity(database, by)
        members = self.document(identity, kind).change(changed)
        if self.identity(database) != identity:
            message = f"Database '{database}' was dropped meanwhile."
            raise errors.NotFoundError(message, kind="database-not-found", database=database)
        return members

    def forget(self, identity: Identity) -> None:
        """Delete the state of a database that was dropped."""
        self._file_io.delete_directory(self._directory(identity))

    def document(self, identity: Identity, kind: str) -> NumberedDocument:
        """Return one document of the database of an id."""
        return NumberedDocument(self._file_io, self._directory(identity), kind)

    def _directory(self, identity: Identity) -> str:
        return f"{self._folders.warehouse.rstrip('/')}/{STATE_DIRECTORY}/{identity.id}"


ID = "id"


class NamedItems:
    """The views, or the functions, of a warehouse.

    Each has its own members, and `id`, `createdAt`, `createdBy`, `updatedAt`, `updatedBy`: epoch
    milliseconds, and names that may be empty.
    """

    def __init__(self, state: CatalogState, noun: str) -> None:
        self._state = state
        self._noun = noun
        self._kind = f"{noun}s"

    def all(self, database: str) -> dict[str, Members]:
        """Return name → members, by name."""
        items = cast("dict[str, Members]", self._state.read(database, self._kind))
        return dict(sorted(items.items()))

    def get(self, name: Identifier) -> Members:
        members = self.all(name.database).get(name.table)
        if members is None:
            raise self._missing(name)
        return members

    def create(self, name: Identifier, members: Members, *, by: str = "") -> Members:
        """Add one, and return it with its id."""
        now = self._state.clock.now_millis()
        made: Members = {
            **members,
            ID: str(uuid4()),
            "createdAt": now,
            "createdBy": by,
            "updatedAt": now,
            "updatedBy": by,
        }

        def add_members(items: Members) -> Members:
            if name.table in items:
                raise self._name_conflict(name)
            return {**items, name.table: made}

        self._state.change(name.database, self._kind, add_members, by=by)
        return made

    def alter(
        self, name: Identifier, altered: Callable[[Members], Members], *, by: str = ""
    ) -> Members:
        """Replace the members of an item by the result of a function."""
        now = self._state.clock.now_millis()

        def change_members(items: Members) -> Members:
            before = items.get(name.table)
            if before is None:
                raise self._missing(name)
            after = altered(cast("Members", before))
            if after == before:
                return items
            return {**items, name.table: {**after, "updatedAt": now, "updatedBy": by}}

        items = self._state.change(name.database, self._kind, change_members, by=by)
        return cast("Members", items[name.table])

    def drop(self, name: Identifier) -> None:
        def without(items: Members) -> Members:
            if items.pop(name.table, None) is None:
                raise self._missing(name)
            return items

        self._state.change(name.database, self._kind, without)

    def rename(self, source: Identifier, target: Identifier) -> None:
        moved = self.get(source)

        def add_members(items: Members) -> Members:
            other = cast("Members | None", items.get(target.table))
            if other is not None and other.get(ID) != moved.get(ID):
                raise self._name_conflict(target)
            if source.database == target.database and items.pop(source.table, None) is None:
                raise self._missing(source)
            return {**items, target.table: moved}

        self._state.change(target.database, self._kind, add_members)
        if source.database != target.database:
            self.drop(source)

    def _missing(self, name: Identifier) -> errors.NotFoundError:
        return errors.NotFoundError(
            f"{self._noun.capitalize()} '{name}' does not exist.",
            kind=f"{self._noun}-not-found",
            **{self._noun: name.table},
        )

    def _name_conflict(self, name: Identifier) -> errors.AlreadyExistsError:
        return errors.AlreadyExistsError(
            f"{self._noun.capitalize()} '{name}' exists already.",
            kind=f"{self._noun}-exists",
            **{self._noun: name.table},
        )


def function_of(name: str, members: Mapping[str, Json]) -> bodies.FunctionResponse:
    from paimon_assets.engine.codec.rest import bodies

    return bodies.FunctionResponse.from_json(
        {**members, "name": name, "uuid": members[ID], "owner": members["createdBy"]}
    )


def changed_view(
    view: bodies.ViewSchema, changes: Iterable[bodies.ViewChange]
) -> bodies.ViewSchema:
    """Return a view after changes, made in their order."""
    options, dialects, comment = dict(view.options), dict(view.dialects), view.comment
    from paimon_assets.engine.codec.rest import bodies

    for change in changes:
        match change:
            case bodies.SetViewOption(key=key, value=value):
                options[key] = value
            case bodies.RemoveViewOption(key=key):
                options.pop(key, None)
            case bodies.UpdateViewComment():
                comment = change.comment
            case bodies.AddDialect(dialect=dialect) if dialect in dialects:
                message = f"The view has a dialect '{dialect}' already."
                raise errors.AlreadyExistsError(message, kind="dialect-exists", dialect=dialect)
            case bodies.AddDialect(dialect=dialect, query=query):
                dialects[dialect] = query
            case bodies.UpdateDialect(dialect=dialect) | bodies.DropDialect(dialect=dialect) if (
                dialect not in dialects
            ):
                message = f"The view has no dialect '{dialect}'."
                raise errors.NotFoundError(message, kind="dialect-not-found", dialect=dialect)
            case bodies.UpdateDialect(dialect=dialect, query=query):
                dialects[dialect] = query
            case bodies.DropDialect(dialect=dialect):
                del dialects[dialect]
    return structs.replace(view, options=options, dialects=dialects, comment=comment)


_SCHEMA = "schema"


class CatalogViews:
    """The views of a warehouse; the caller checks that no table has the name."""

    def __init__(self, state: CatalogState) -> None:
        self._items = NamedItems(state, "view")

    def all(self, database: str) -> dict[str, bodies.ViewResponse]:
        return {name: _view(name, members) for name, members in self._items.all(database).items()}

    def get(self, name: Identifier) -> bodies.ViewResponse:
        return _view(name.table, self._items.get(name))

    def create(self, name: Identifier, schema: bodies.ViewSchema, *, by: str = "") -> None:
        self._items.create(name, {_SCHEMA: cast("Json", schema.to_json())}, by=by)

    def alter(
        self, name: Identifier, changes: Sequence[bodies.ViewChange], *, by: str = ""
    ) -> None:
        from paimon_assets.engine.codec.rest import bodies

        def alter_members(members: Members) -> Members:
            view = changed_view(bodies.ViewSchema.from_json(members[_SCHEMA]), changes)
            return {**members, _SCHEMA: cast("Json", view.to_json())}

        self._items.alter(name, alter_members, by=by)

    def drop(self, name: Identifier) -> None:
        self._items.drop(name)

    def rename(self, source: Identifier, target: Identifier) -> None:
        self._items.rename(source, target)


def _view(name: str, members: Mapping[str, Json]) -> bodies.ViewResponse:
    from paimon_assets.engine.codec.rest import bodies

    return bodies.ViewResponse.from_json({**members, "name": name, "owner": members["createdBy"]})
