"""Service: one warehouse as a REST catalog; the base of all operations.

The server holds no state of tables: several servers and clients of the file system work beside
each other, and each request sees all changes before it.
"""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from uuid import uuid4

from msgspec import field

from paimon_assets.engine.control.catalog import catalog_state
from paimon_assets.engine.control.catalog.catalog import (
    SYSTEM_DATABASE,
    Identifier,
    TableName,
    missing_table,
)
from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog
from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.managers.schema_manager import SchemaManager
from paimon_assets.engine.control.segments import SegmentRoots
from paimon_assets.engine.errors import InvalidInputError, NotFoundError, StorageError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.fileio.opening import canonical_path, file_io_for, scheme_of
from paimon_assets.engine.spec.options.all_options import BRANCH
from paimon_assets.engine.spec.paths import MAIN_BRANCH, TablePaths
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.segments.segment import is_within, plain_path
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.table import Table
from paimon_assets.server.issued_tokens import DataTokens
from paimon_assets.server.principals import Action, Principal
from paimon_assets.server.request import Request, bad_request, not_implemented
from paimon_assets.server.straight_paths import StraightFileIO

PATH = "path"
_STORAGES = frozenset(
    {"abfs", "abfss", "adl", "aws", "az", "azure", "cos", "cosn", "dfs", "dlf", "fs", "gcs", "gs",
     "hadoop", "hdfs", "hive", "jdbc", "lock", "obs", "oss", "s3", "s3a", "s3n", "security",
     "token", "tos", "wasb", "wasbs"}
)  # fmt: skip
"""First words of options of a storage or a catalog; clients may not set them for a table."""
_OF_CATALOGS = frozenset({"warehouse", "metastore", "table-path"})
_CODE_WORDS = frozenset({"callback", "callbacks", "class"})
"""Words of options that name code which every Java client of the table would load."""
_PLACE_WORDS = frozenset(
    {"path", "paths", "location", "dir", "dirs", "directory", "folder", "uri", "uris", "url",
     "endpoint"}
)  # fmt: skip
"""Words of options that may name a place; options are cut into words at dots and dashes."""
_NO_PLACES = frozenset(
    {
        "data-file.path-directory",  # in the table's folder
        "data-file.external-paths.strategy",
        "data-file.external-paths.specific-fs",
        "data-file.external-paths.weights",
    }
)
_NO_PLACE_VALUES = frozenset({"true", "false", "table-location", "catalog-location"})
_LISTING_SECONDS, _MOST_LISTINGS = 5.0, 64
_OF_COLUMNS = ("fields.", "file-index.")
"""Options that hold the name of a column, which may be any word."""


def places_of(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the options that name places, but `path`, and each place; refuse those of clients."""
    for key, value in options.items():
        name = key.lower()
        words = re.split("[.-]", name)
        if key == PATH or name.startswith(_OF_COLUMNS):
            continue
        if words[0] in _STORAGES or name in _OF_CATALOGS or not _CODE_WORDS.isdisjoint(words):
            raise bad_request(
                f"Option '{key}' belongs to clients, which connect or run by it; no table has it."
            )
        if _PLACE_WORDS.isdisjoint(words) or name in _NO_PLACES:
            continue
        if value.lower() not in _NO_PLACE_VALUES:
            yield from ((key, place.strip()) for place in value.split(","))


class ServedTable(Value):
    """A table, or a branch of one, as of this request."""

    identifier: Identifier
    store: FileStore
    stored: TableSchema
    identity: catalog_state.Identity | None
    """None if it has none yet, and this server must not give it one."""
    is_external: bool
    """Whether it is outside the warehouse: then its writers commit by the file system."""

    @property
    def id(self) -> str:
        return "" if self.identity is None else self.identity.id

    @property
    def table(self) -> Table:
        return Table(self.store)

    def require_managed(self, service: "Service") -> "ServedTable":
        """Return the table, if the server may change it."""
        if self.is_external:
            raise not_implemented("commits of external tables; their writers commit by themselves")
        service.check_options(self.stored.options)  # clients of the storage can write it, too
        return self


class Service(Value, hidden=("storage_options", "_listings")):
    catalog: FilesystemCatalog
    clock: Clock = field(default_factory=SystemClock)
    storage_options: Mapping[str, str] = field(default_factory=dict)
    """Opens the storage of external tables."""
    client_options: Mapping[str, str] = field(default_factory=dict)
    """Handed to clients as defaults; no secrets."""
    roots: tuple[str, ...] = ()
    """Folders below which external tables may be."""
    read_only: bool = False
    data_tokens: DataTokens | None = None
    """Storage keys that clients get; None if clients have their own."""
    _listings: dict[str, tuple[float, list[str]]] = field(default_factory=dict)
    """Database → its directories and until when they serve the pages after the first. Whether a
    name is a table is looked up for each page; a table created in between may be missing."""

    @property
    def file_io(self) -> FileIO:
        return self.catalog.file_io

    @property
    def state(self) -> catalog_state.CatalogState:
        return catalog_state.CatalogState(self.catalog, clock=self.clock)

    @property
    def views(self) -> catalog_state.CatalogViews:
        return catalog_state.CatalogViews(self.state)

    @property
    def functions(self) -> catalog_state.NamedItems:
        return self.catalog.functions

    def check(self) -> None:
        if not self.file_io.exists(self.catalog.warehouse):
            raise StorageError(f"There is no warehouse '{self.catalog.warehouse}'.")

    def check_place(
        self, path: str, principal: Principal, *, own: Identifier | None = None, option: str = PATH
    ) -> None:
        """Refuse a folder for a table that is not the principal's to give, or another table's."""
        roots = [self.roots] if principal.roots is None else [self.roots, principal.roots]
        folder = self._allow_path(path, option, roots)
        for name, place in self._outside():
            other = plain_path(canonical_path(place))
            overlaps = is_within(folder, other) or is_within(other, folder)
            if name != own and overlaps and not self._is_forgotten(name, place):
                message = f"Path '{path}' of '{option}' overlaps the folder of another table."
                raise InvalidInputError(message, kind="path-taken")

    def check_options(self, options: Mapping[str, str], principal: Principal | None = None) -> None:
        """Refuse options of a storage, and places that are not the principal's to give."""
        if BRANCH.key in options and principal is not None:
            raise bad_request(
                f"Option '{BRANCH.key}' is of one read or write, and no table's: name a branch as "
                "table$branch_NAME."
            )
        for option, place in places_of(options):
            if principal is None:
                self._allow_path(place, option, [self.roots])
            else:
                self.check_place(place, principal, option=option)

    def _allow_path(self, path: str, option: str, roots: list[tuple[str, ...]]) -> str:
        """Return the canonical path of a folder that is below one root of each list."""
        try:
            for folders in roots:
                SegmentRoots.of(folders).check(path)
            folder = plain_path(canonical_path(path))
        except (InvalidInputError, ValueError) as error:  # ValueError: a NUL
            raise InvalidInputError(
                f"Path {path!r} of '{option}' is in no folder that this server allows you to "
                "use: below one of its --root, and one of the roots of your principal.",
                kind="path-outside",
            ) from error
        warehouse = plain_path(canonical_path(self.catalog.warehouse))
        if is_within(folder, warehouse) or is_within(warehouse, folder):
            raise InvalidInputError(
                f"Path '{path}' of '{option}' overlaps the warehouse, where tables lie by their "
                "names.",
                kind="path-taken",
            )
        return folder

    def _outside(self) -> Iterator[tuple[Identifier, str]]:
        """Yield the tables outside the warehouse, and their folders."""
        for database in self.catalog.list_databases():
            try:
                outside = self.state.read(database, catalog_state.TABLES)
            except NotFoundError:
                continue  # dropped since
            for table, path in outside.items():
                if isinstance(path, str):
                    yield Identifier(database, table), path

    def _is_forgotten(self, name: Identifier, path: str) -> bool:
        """Forget the name of a table that never came to be; whether that was so.

        The creator of a table looks at its name once more after the schema is published.
        """
        schemas = SchemaManager(self.file_io_of(path), TablePaths(table=path))
        if schemas.list_ids():
            return False
        self.state.change(
            name.database,
            catalog_state.TABLES,
            lambda m: {key: m[key] for key in m if (key, m[key]) != (name.table, path)},
        )
        if not schemas.list_ids():
            return True
        self.state.change(name.database, catalog_state.TABLES, lambda m: {name.table: path, **m})
        return False

    def table(self, request: Request, action: Action) -> ServedTable:
        name = self.table_name(request)
        request.require(action, name.table.database, name.table.table)
        if name.is_system_table:
            raise missing_table(name.table)
        table = self.load(name.table.at_branch(name.branch or MAIN_BRANCH))
        request.opened.append(table.id)
        return table

    def refuse_dropped(self, request: Request) -> None:
        """Refuse a request whose database or table was dropped since it began."""
        if "database" in request.names:
            self.catalog.database_path(request.names["database"])
        if request.opened:
            name = self.table_name(request).table
            if self.load(name, identifies=False).id not in request.opened:
                raise missing_table(name)

    def table_name(self, request: Request) -> TableName:
        return TableName.parse(Identifier(request.names["database"], request.names["table"]))

    def load(self, identifier: Identifier, *, identifies: bool = True) -> ServedTable:
        """Open a table or branch; with `identifies`, a table without an id gets one."""
        path = self.catalog.get_table_location(identifier)
        table = self._open(identifier, path, is_external=False, identifies=identifies)
        if table is None:
            outside = self.state.read(identifier.database, catalog_state.TABLES).get(
                identifier.table
            )
            if isinstance(outside, str):
                table = self._open(identifier, outside, is_external=True, identifies=identifies)
        if table is None:
            raise missing_table(identifier)
        return table

    def file_io_of(self, path: str) -> FileIO:
        """Return the storage of a folder outside the warehouse."""
        is_same = scheme_of(path) == self.file_io.spec.scheme
        file_io = self.file_io if is_same else file_io_for(path, self.storage_options)
        return StraightFileIO(file_io) if scheme_of(path) == "file" else file_io

    def _open(
        self, identifier: Identifier, path: str, *, is_external: bool, identifies: bool
    ) -> ServedTable | None:
        file_io = self.file_io_of(path) if is_external else self.file_io
        # The id first: one that a drop has left behind is of no table, so none is handed out.
        identity = catalog_state.read_identity(file_io, f"{path}/{catalog_state.TABLE_FILE}")
        schemas = SchemaManager(file_io, TablePaths(table=path, branch=identifier.branch))
        try:
            stored = schemas.existing(str(identifier.at_branch(MAIN_BRANCH)))
        except NotFoundError as error:
            if error.kind == "table-not-found":
                return None
            if SchemaManager(file_io, TablePaths(table=path)).latest() is None:
                return None
            raise
        is_main = identifier.branch == MAIN_BRANCH
        options = {} if is_main else {BRANCH.key: identifier.branch}
        store = FileStore(
            file_io=file_io,
            table_path=path,
            schema=stored.with_dynamic_options(options) if options else stored,
            name=str(identifier),
        )
        if identity is None and identifies and not self.read_only:
            identity = self.give_id(identifier, store)
        return ServedTable(
            identifier=identifier,
            store=store,
            stored=stored,
            identity=identity,
            is_external=is_external,
        )

    def give_id(
        self, identifier: Identifier, store: FileStore, by: str = ""
    ) -> catalog_state.Identity:
        """Give a table an id, unless it has one."""
        path = f"{store.table_path}/{catalog_state.TABLE_FILE}"
        # Remembered first: after a crash, an id that a client has seen is still found.
        own = str(uuid4())
        self.remember(own, identifier)
        made = catalog_state.new_identity(
            store.file_io, path, by=by, now_millis=store.created_ms, id_=own
        )
        if made.id != own:
            self.forget(own)
        if not store.schemas.is_same(store.schema):
            if not store.schemas.list_ids():
                store.file_io.delete_file(path)
                for directory in (path.rpartition("/")[0], store.table_path):
                    store.file_io.delete_empty_directory(directory)
                self.forget(own)
            raise missing_table(identifier)
        return made

    def remember(self, table_id: str, identifier: Identifier) -> None:
        """Write where a table of an id was last; it is only looked for there first."""
        name = f"{identifier.database}.{identifier.table}".encode()
        self.file_io.replace(self._hint(table_id), name)

    def forget(self, table_id: str) -> None:
        """Forget where a table was that was dropped."""
        self.file_io.delete_file(self._hint(table_id))

    def of_id(self, table_id: str) -> Identifier:
        """Return the table of an id: two reads, or all tables if it is not where it was."""
        if not re.fullmatch(catalog_state.IDENTITY_ID, table_id):
            raise missing_id(table_id)
        try:
            last = Identifier.parse(self.file_io.read_bytes(self._hint(table_id)).decode())
        except (NotFoundError, InvalidInputError, UnicodeDecodeError):
            # The place is written before anybody hears of the id.
            raise missing_id(table_id) from None
        everywhere = (
            Identifier(database, name)
            for database in self.catalog.list_databases()
            for name in self.table_names(database)
        )
        for name in chain([last], everywhere):
            with suppress(NotFoundError):
                identity = self.load(name).identity
                if identity is not None and identity.id == table_id:
                    return name
        raise missing_id(table_id)

    def leads_to(self, table_id: str, identifier: Identifier) -> bool:
        """Whether an id is of no other table: a folder outside may hold a copy of another's."""
        with suppress(NotFoundError):
            return self.of_id(table_id) == identifier
        return True

    def _hint(self, table_id: str) -> str:
        return (
            f"{self.catalog.warehouse.rstrip('/')}/{catalog_state.STATE_DIRECTORY}/ids/{table_id}"
        )

    def table_names(self, database: str, *, after: str = "", prefix: str = "") -> Iterator[str]:
        """Yield the names of a database's tables, also outside the warehouse, sorted."""
        outside = self.state.read(database, catalog_state.TABLES)
        for name in self.possible_names(database, after=after):
            if name.startswith(prefix) and self._is_table(database, name, outside):
                yield name

    def possible_names(self, database: str, *, after: str = "") -> Iterator[str]:
        """As `table_names`, with folders that are no tables."""
        until, inside = self._listings.get(database, (0.0, []))
        if not after or time.monotonic() >= until:
            inside = self.catalog.directory_names(database)
            if len(self._listings) >= _MOST_LISTINGS:
                self._listings.clear()
            self._listings[database] = (time.monotonic() + _LISTING_SECONDS, inside)
        outside = self.state.read(database, catalog_state.TABLES)
        names = sorted({*inside, *outside}) if outside else inside
        return (name for name in names if name > after)

    def has_table(self, identifier: Identifier) -> bool:
        """Whether there is a table of this name, be it outside the warehouse."""
        outside = self.state.read(identifier.database, catalog_state.TABLES)
        return self._is_table(identifier.database, identifier.table, outside)

    def _is_table(self, database: str, name: str, outside: Mapping[str, object]) -> bool:
        path = outside.get(name)
        if not isinstance(path, str):
            return self.catalog.has_table(Identifier(database, name))
        try:
            return bool(SchemaManager(self.file_io_of(path), TablePaths(table=path)).list_ids())
        except InvalidInputError:
            return True  # it has the name, and cannot be opened


def missing_id(table_id: str) -> NotFoundError:
    message = "There is no table of this id."
    return NotFoundError(message, kind="table-not-found", table=table_id)


def check_database_name(name: str) -> str:
    """Return the name of a database that may hold tables."""
    checked = Identifier(name, "t").database
    if checked == SYSTEM_DATABASE:
        raise InvalidInputError(
            f"Database '{SYSTEM_DATABASE}' is the system's.", kind="system-database"
        )
    return checked
