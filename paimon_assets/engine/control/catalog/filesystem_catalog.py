"""FilesystemCatalog: a warehouse directory is the catalog.

    <warehouse>/<database>.db/<table>/schema/schema-0

A database is a directory; a table exists if its `schema/` holds a `schema-N`. Views lie where no
other catalog of the file system looks (`catalog_state`).
Source: `org.apache.paimon.catalog.FileSystemCatalog`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, cast
from uuid import uuid4

from paimon_assets.engine import errors
from paimon_assets.engine.control.catalog import catalog_state
from paimon_assets.engine.control.catalog.catalog import (
    Identifier,
    LoadedTable,
    check_name,
    missing_table,
    taken_table,
)
from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.managers.schema_manager import SchemaManager
from paimon_assets.engine.control.publishing import publish_once
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.paths import MAIN_BRANCH, TablePaths
from paimon_assets.engine.spec.schema.schema import Schema, TableSchema
from paimon_assets.engine.spec.words import counted, shorten

if TYPE_CHECKING:
    from paimon_assets.engine.codec.rest import bodies
    from paimon_assets.engine.spec.evolution.schema_change import SchemaChange


_LOCATION = "location"
_OPTIONS = "options"


def refuse_location(name: str, options: Mapping[str, str]) -> None:
    """Refuse a property that sets the location of a database."""
    if _LOCATION in options:
        message = f"Database '{name}' is in the warehouse; '{_LOCATION}' cannot be chosen."
        raise errors.InvalidInputError(message, kind="database-location", database=name)


_SUFFIX = ".db"
_DROPPED = ".dropped"
_LEFTOVER = (
    rf"(?s){re.escape(catalog_state.DATABASE_FILE)}|\.{re.escape(catalog_state.DATABASE_FILE)}\.[0-9a-f]{{32}}\.tmp"
    rf"|\..+\.[0-9a-f]{{32}}{re.escape(_DROPPED)}"
)
"""Files in the folder of an empty database: its id, and leftovers of killed processes."""
_RENAMES_AT_ONCE = frozenset({"file", "hdfs"})


class FilesystemCatalog:
    """Catalog over the directories of a warehouse."""

    def __init__(self, warehouse: str, file_io: FileIO, *, clock: Clock | None = None) -> None:
        if not warehouse.strip():
            message = "The warehouse path is blank; give the folder of the warehouse."
            raise errors.InvalidInputError(message, kind="path")
        self.warehouse = warehouse.rstrip("/") or "/"
        self.file_io = file_io
        self._clock = clock or SystemClock()

    def list_databases(self) -> list[str]:
        return sorted(
            entry.name.removesuffix(_SUFFIX)
            for entry in self.file_io.list_directory(self.warehouse)
            if entry.is_directory
            and entry.name.endswith(_SUFFIX)
            and not entry.name.startswith(".")
        )

    def create_database(
        self, name: str, *, ignore_if_exists: bool = False, options: Mapping[str, str] | None = None
    ) -> None:
        path = self._database_path(name)
        refuse_location(name, options or {})
        if self.file_io.is_directory(path):
            if ignore_if_exists:
                return
            raise _taken_database(name)
        self.file_io.make_directory(path)
        if options:
            self.describe_database(name, options, existed=False)

    def describe_database(
        self, name: str, options: Mapping[str, str], *, existed: bool, by: str = ""
    ) -> None:
        refuse_location(name, options)

        def first(members: catalog_state.Members) -> catalog_state.Members:
            if existed or members:
                raise _taken_database(name)
            return self._properties({**options}, by)

        self._state.change(name, catalog_state.PROPERTIES, first, by=by)

    def _properties(self, options: catalog_state.Members, by: str) -> catalog_state.Members:
        return {_OPTIONS: options, "updatedAt": self._clock.now_millis(), "updatedBy": by}

    @property
    def _state(self) -> catalog_state.CatalogState:
        return catalog_state.CatalogState(self, clock=self._clock)

    def get_database(self, name: str) -> bodies.DatabaseResponse:
        """Return a database, with its properties and owner; its id if a change gave it one."""
        state = self._state
        identity, members = state.identity(name), state.read(name, catalog_state.PROPERTIES)
        by = "" if identity is None else identity.created_by
        made = 0 if identity is None else identity.created_at
        from paimon_assets.engine.codec.rest import bodies

        return bodies.DatabaseResponse(
            id=None if identity is None else identity.id,
            name=name,
            location=self.database_path(name),
            options=cast("dict[str, str]", members.get(_OPTIONS, {})),
            owner=by,
            created_at=made,
            created_by=by,
            updated_at=cast("int", members.get("updatedAt", made)),
            updated_by=cast("str", members.get("updatedBy", by)),
        )

    def alter_database(
        self,
        name: str,
        *,
        removals: Sequence[str] = (),
        updates: Mapping[str, str] | None = None,
        by: str = "",
    ) -> bodies.AlterDatabaseResponse:
        updates, removed = updates or {}, set[str]()
        refuse_location(name, updates)

        def change_members(members: catalog_state.Members) -> catalog_state.Members:
            options = dict(cast("dict[str, str]", members.get(_OPTIONS, {})))
            removed.clear()
            removed.update(key for key in removals if key in options)
            rest = {key: value for key, value in options.items() if key not in removed}
            after: catalog_state.Members = {**rest, **updates}
            return members if after == options else self._properties(after, by)

        self._state.change(name, catalog_state.PROPERTIES, change_members, by=by)
        from paimon_assets.engine.codec.rest import bodies

        return bodies.AlterDatabaseResponse(
            removed=tuple(key for key in removals if key in removed),
            updated=tuple(updates),
            missing=tuple(key for key in removals if key not in removed),
        )

    @property
    def functions(self) -> catalog_state.NamedItems:
        return catalog_state.NamedItems(self._state, "function")

    def list_functions(self, database: str) -> list[str]:
        return list(self.functions.all(database))

    def get_function(self, identifier: Identifier) -> bodies.FunctionResponse:
        return catalog_state.function_of(identifier.table, self.functions.get(identifier))

    def drop_database(self, name: str, *, cascade: bool = False) -> None:
        """Drop a database; with `cascade` its folder with all its content.

        Without `cascade` the folder is deleted only if it is empty, in one step of the storage:
        a table or view that another process creates meanwhile stays, and so does the database.
        """
        state = self._state
        if not cascade:
            self._drop_empty(name, state)
            return
        identity = None
        with suppress(errors.FormatError):  # it is dropped all the same
            identity = state.identity(name)
        if not self._delete(self._database_path(name)):
            self.database_path(name)
        if identity is not None:
            state.forget(identity)

    def _drop_empty(self, name: str, state: catalog_state.CatalogState) -> None:
        identity = state.identity(name)
        path = self._database_path(name)
        identity_file, content = f"{path}/{catalog_state.DATABASE_FILE}", b""
        if identity is not None:
            content = self.file_io.read_bytes(identity_file)
        for leftover in self._refuse_content(name, identity, state):
            if leftover.endswith(_DROPPED):
                self.file_io.delete_directory(leftover)
            elif leftover != identity_file or identity is not None:  # else it came meanwhile
                self.file_io.delete_file(leftover)
        # A new view is published before its database is checked, so one of the two sees the other.
        try:
            self._refuse_content(name, identity, state)
            if not self.file_io.delete_empty_directory(path) and self.file_io.exists(path):
                self._refuse_content(name, identity, state)
                raise _not_empty(name, "something that came meanwhile")
        except errors.PaimonError:
            if identity is not None:
                publish_once(self.file_io, identity_file, content)
            raise
        if identity is not None:
            state.forget(identity)

    def _refuse_content(
        self, name: str, identity: catalog_state.Identity | None, state: catalog_state.CatalogState
    ) -> list[str]:
        """Return the files in a database's folder that no catalog counts as its content."""
        for kind in catalog_state.CONTENTS:
            items = {} if identity is None else state.document(identity, kind).read()
            if items:
                raise _not_empty(name, f"the {kind.removesuffix('s')} '{min(items)}'")
        leftovers = []
        for entry in self.file_io.list_directory(self._database_path(name)):
            if not re.fullmatch(_LEFTOVER, entry.name):
                is_table = entry.is_directory and self._schemas(entry.path).list_ids()
                raise _not_empty(name, f"'{entry.name}'{'' if is_table else ', which is no table'}")
            leftovers.append(entry.path)
        return leftovers

    def list_tables(self, database: str) -> list[str]:
        """Return the names of a database's tables, sorted. Cost: one listing a directory."""
        return list(self.table_names(database))

    def table_names(self, database: str) -> Iterator[str]:
        """Yield the names of a database's tables, sorted. Cost: a listing, and one for each."""
        names = self.directory_names(database)
        return (name for name in names if self.has_table(Identifier(database, name)))

    def directory_names(self, database: str) -> list[str]:
        """Return the names of possible table folders of a database, sorted. Cost: one listing."""
        return sorted(
            entry.name
            for entry in self.file_io.list_directory(self.database_path(database))
            if entry.is_directory and not entry.name.startswith(".")
        )

    def has_table(self, identifier: Identifier) -> bool:
        """Whether there is such a table. Cost: one listing."""
        return bool(self._schemas(self.get_table_location(identifier)).list_ids())

    def get_table_location(self, identifier: Identifier) -> str:
        """Return the path of a table's directory, whether the table exists or not."""
        return f"{self._database_path(identifier.database)}/{identifier.table}"

    def load_table(
        self, identifier: Identifier, *, newest: TableSchema | None = None
    ) -> LoadedTable:
        """Return the facts that open a table, or a branch; its directory keeps its versions."""
        path = self.get_table_location(identifier)
        schemas = SchemaManager(self.file_io, TablePaths(table=path, branch=identifier.branch))
        schema = newest or schemas.existing(str(identifier.at_branch(MAIN_BRANCH)))
        return LoadedTable(location=path, schema=schema, file_io=self.file_io)

    def load_schema(self, identifier: Identifier) -> TableSchema:
        schema = self._schemas(self.get_table_location(identifier)).latest()
        if schema is None:
            self.database_path(identifier.database)
            raise missing_table(identifier)
        return schema

    def create_table(
        self, identifier: Identifier, schema: Schema, *, ignore_if_exists: bool = False
    ) -> TableSchema:
        paths = TablePaths(table=self.get_table_location(identifier))
        database, schemas = paths.table.rpartition("/")[0], SchemaManager(self.file_io, paths)
        with self.file_io.ahead(folders=[database], lists=[paths.table]):
            self.database_path(identifier.database)
            is_there = bool(self.file_io.list_directory(paths.table))
        from paimon_assets.engine.fileio.owned_deletion import is_link

        is_there = is_there or is_link(self.file_io, paths.table)
        existing = schemas.latest() if is_there else None
        if is_there and existing is None and (content := _content(self.file_io, paths.table)):
            existing = schemas.latest()  # its creator may have been faster
            if existing is None:
                raise content
        if existing is None:
            try:
                return schemas.create(schema, time_millis=self._clock.now_millis())
            except errors.AlreadyExistsError:
                existing = schemas.latest()
        if existing is not None and ignore_if_exists:
            return existing
        raise taken_table(identifier)

    def alter_table(self, identifier: Identifier, changes: Sequence[SchemaChange]) -> TableSchema:
        self.load_schema(identifier)
        schemas = self._schemas(self.get_table_location(identifier))
        return schemas.commit_changes(changes, time_millis=self._clock.now_millis())

    def drop_table(
        self, identifier: Identifier, *, ignore_if_missing: bool = False, cascade: bool = False
    ) -> None:
        path = self.get_table_location(identifier)
        schemas = self._schemas(path)
        ids = schemas.list_ids()
        if not ids:
            if ignore_if_missing:
                return
            raise missing_table(identifier)
        if not cascade and (names := self._foreign_files(schemas, ids, path)):
            raise errors.InvalidInputError(
                f"The folder '{path}' of table '{identifier}' holds "
                f"{counted(len(names), 'foreign file')}: {shorten(names)}. Move them first, or drop"
                " the table with cascade, which deletes all that its folder holds.",
                kind="foreign-files",
                table=str(identifier),
                files=len(names),
            )
        if not self._delete(path):
            raise missing_table(identifier)

    def _foreign_files(self, schemas: SchemaManager, ids: Sequence[int], path: str) -> list[str]:
        """Return the files in a table's folder that are not its own, sorted."""
        options = []
        for number in ids:
            with suppress(errors.FormatError, errors.NotFoundError):  # a damaged table is dropped
                options.append(schemas.schema(number).typed_options)
        from paimon_assets.engine.fileio.owned_deletion import files_below
        from paimon_assets.engine.spec.own_names import OwnNames

        own = OwnNames.of(options)
        return sorted(name for name in files_below(self.file_io, path) if not own.has(name))

    def rename_table(self, source: Identifier, target: Identifier) -> None:
        path = self.get_table_location(source)
        if not self._schemas(path).list_ids():
            raise missing_table(source)
        self.database_path(target.database)
        try:
            self.file_io.rename_directory(path, self.get_table_location(target))
        except errors.AlreadyExistsError as error:
            raise taken_table(target) from error
        except errors.NotFoundError as error:  # dropped since
            raise missing_table(source) from error

    @property
    def views(self) -> catalog_state.CatalogViews:
        return catalog_state.CatalogViews(self._state)

    def list_views(self, database: str) -> list[str]:
        return list(self.views.all(database))

    def get_view(self, identifier: Identifier) -> bodies.ViewResponse:
        return self.views.get(identifier)

    def create_view(self, identifier: Identifier, schema: bodies.ViewSchema) -> None:
        """Create a view, of a name that no table has."""
        self._refuse_table(identifier)
        self.views.create(identifier, schema)

    def alter_view(self, identifier: Identifier, changes: Sequence[bodies.ViewChange]) -> None:
        self.views.alter(identifier, changes)

    def drop_view(self, identifier: Identifier, *, ignore_if_missing: bool = False) -> None:
        try:
            self.views.drop(identifier)
        except errors.NotFoundError as error:
            if not ignore_if_missing or error.kind != "view-not-found":
                raise

    def rename_view(self, source: Identifier, target: Identifier) -> None:
        self._refuse_table(target)
        self.views.rename(source, target)

    def _refuse_table(self, identifier: Identifier) -> None:
        if self.has_table(identifier):
            raise errors.AlreadyExistsError(
                f"There is a table '{identifier}'.", kind="view-exists", view=identifier.table
            )

    def _delete(self, path: str) -> bool:
        """Delete a directory, at once where a rename is one step; whether it was there.

        A writer that is at work there finds no table then, and no half of one either. Killed in
        between, a drop leaves a hidden directory behind.
        """
        from paimon_assets.engine.fileio.owned_deletion import is_link

        if is_link(self.file_io, path):
            message = (
                f"'{path}' is a link, and its target belongs to another owner; remove the link by"
                " hand."
            )
            raise errors.InvalidInputError(message, kind="folder-link", path=path)
        if self.file_io.spec.scheme in _RENAMES_AT_ONCE:
            parent, _, name = path.rpartition("/")
            dropped = f"{parent}/.{name[:40]}.{uuid4().hex}{_DROPPED}"
            try:
                self.file_io.rename_directory(path, dropped)
            except errors.NotFoundError:
                return False  # renamed, or dropped by another process
            path = dropped
        self.file_io.delete_directory(path)
        return True

    def _database_path(self, name: str) -> str:
        return f"{self.warehouse.rstrip('/')}/{check_name('database', name)}{_SUFFIX}"

    def database_path(self, name: str) -> str:
        path = self._database_path(name)
        if not self.file_io.is_directory(path):
            raise errors.NotFoundError(
                f"Database '{name}' does not exist.", kind="database-not-found", database=name
            )
        return path

    def _schemas(self, table_path: str) -> SchemaManager:
        return SchemaManager(self.file_io, TablePaths(table=table_path))


def _content(file_io: FileIO, path: str) -> errors.InvalidInputError | None:
    """Return the refusal of a folder for a new table; None if the table takes it.

    Files of killed or late writers are taken: a table reads none that it does not name.
    """
    from paimon_assets.engine.fileio.owned_deletion import files_below, is_link
    from paimon_assets.engine.spec.own_names import OwnNames

    if is_link(file_io, path):
        problem = "is a link"
    else:
        own = OwnNames.of(())
        name = next((name for name in files_below(file_io, path) if not own.is_unread(name)), None)
        problem = "" if name is None else f"holds '{name}'"
    if not problem:
        return None
    message = (
        f"'{path}' {problem}; a new table takes a folder that is empty, or not there. Choose"
        " another name, or remove its content."
    )
    return errors.InvalidInputError(message, kind="folder-not-empty", path=path)


def _taken_database(name: str) -> errors.AlreadyExistsError:
    message = f"Database '{name}' exists already."
    return errors.AlreadyExistsError(message, kind="database-exists", database=name)


def _not_empty(name: str, content: str) -> errors.InvalidInputError:
    message = (
        f"Database '{name}' holds {content}; drop or move it first, or drop the database with "
        "cascade, which deletes all that its folder holds."
    )
    return errors.InvalidInputError(message, kind="database-not-empty", database=name)
