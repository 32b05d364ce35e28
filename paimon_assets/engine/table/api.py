"""TableCatalog: databases and tables by name; open a warehouse, or a bare table directory.

>>> catalog = open_catalog("/warehouse")                              # doctest: +SKIP
>>> table = catalog.get_table("sales.orders")                         # doctest: +SKIP
>>> table.new_read_builder().with_filter("price > 3").to_arrow()      # doctest: +SKIP

Light to import, as `table.table` is.

Databases as people see them, and the functions that a catalog keeps in them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from fnmatch import filter as matching
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import field
from msgspec.structs import replace

from paimon_assets.engine import errors
from paimon_assets.engine.add_ons import load_sql
from paimon_assets.engine.control.catalog.catalog import (
    SYSTEM_DATABASE,
    Catalog,
    DatabaseCatalog,
    Identifier,
    TableName,
)
from paimon_assets.engine.control.publishing import after
from paimon_assets.engine.spec.options.all_options import BRANCH, Options
from paimon_assets.engine.spec.options.catalog_options import METASTORE, TOKEN, URI, WAREHOUSE
from paimon_assets.engine.spec.paths import table_name
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from paimon_assets.engine.contract.executor import CountingExecutor
    from paimon_assets.engine.spec.evolution.schema_change import SchemaChange
    from paimon_assets.engine.spec.schema.schema import Schema, TableSchema
    from paimon_assets.engine.table.frames.frames import FrameResults
    from paimon_assets.engine.table.system.system_table import GlobalSystemTable, SystemTable
    from paimon_assets.engine.table.system.table_health import HealthLimits
    from paimon_assets.engine.table.views import Views


class Database(Value):
    """A database."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    """Its properties."""
    location: str | None = None
    owner: str = ""
    """Its creator, as far as that is known."""

    @classmethod
    def of(cls, catalog: Catalog, name: str) -> Database:
        """Ask a catalog for a database; NotFoundError, or as `with_properties`."""
        database = with_properties(catalog).get_database(name)
        return cls(
            name=name,
            options=dict(database.options),
            location=database.location,
            owner=database.owner or "",
        )


def with_properties(catalog: Catalog) -> DatabaseCatalog:
    """Return a catalog whose databases have properties and functions.

    Raises:
        UnsupportedFeatureError: This one's have none (kind `no-properties`).
    """
    if not isinstance(catalog, DatabaseCatalog):
        raise errors.UnsupportedFeatureError(
            "Databases of this catalog have no properties and no functions; those of a warehouse "
            "and of a REST server have.",
            kind="no-properties",
        )
    return catalog


class TableCatalog:
    """Databases and tables by name.

    >>> catalog.list_tables("shop")
    ['orders']

    Names are `database.table` texts or `Identifier`s. Missing things raise `NotFoundError`, taken
    names `AlreadyExistsError`. The database `sys` holds the catalog's system tables and takes no
    other: `InvalidInputError`. If the storage fails, every method raises `StorageError`.

    Args:
        catalog: The catalog that knows the names.
        options: The catalog's options, as `sys.catalog_options` shows them; secrets stay hidden.
        preview: A branch that tables are read from where they have it, and whose first write makes
            it from main's newest snapshot; none by default.
    """

    def __init__(
        self, catalog: Catalog, *, options: Mapping[str, str] | None = None, preview: str = ""
    ) -> None:
        self._catalog = catalog
        self._preview = preview
        self._options = dict(options or {})

    def __repr__(self) -> str:
        where = self._options.get(URI.key) or self._options.get(WAREHOUSE.key, "")
        return f"TableCatalog({errors.without_secrets(where)!r})"

    @property
    def views(self) -> Views:
        """The views of the catalog.

        Raises:
            UnsupportedFeatureError: It keeps none.
        """
        from paimon_assets.engine.table.views import Views

        return Views(self._catalog)

    def list_databases(self) -> list[str]:
        """Return the names of all databases, sorted."""
        return self._catalog.list_databases()

    def create_database(
        self, name: str, *, ignore_if_exists: bool = False, options: Mapping[str, str] | None = None
    ) -> None:
        """Create a database.

        Args:
            name: Its name.
            ignore_if_exists: Whether one that exists is left as it is.
            options: Its properties.

        Raises:
            AlreadyExistsError: It exists, and `ignore_if_exists` is not set.
            InvalidInputError: The name is invalid, or is `sys`.
        """
        _refuse_system(name)
        if options:
            with_properties(self._catalog).create_database(
                name, ignore_if_exists=ignore_if_exists, options=options
            )
        else:
            self._catalog.create_database(name, ignore_if_exists=ignore_if_exists)

    def get_database(self, name: str) -> Database:
        """Return a database with its properties.

        Raises:
            NotFoundError: There is no such database.
            UnsupportedFeatureError: Databases of this catalog have none (kind `no-properties`).
        """
        _refuse_system(name)
        return Database.of(self._catalog, name)

    def alter_database(
        self, name: str, *, updates: Mapping[str, str] | None = None, removals: Sequence[str] = ()
    ) -> Database:
        """Set and remove properties of a database, all at once.

        Raises:
            NotFoundError: There is no such database; removed properties may be missing.
            InvalidInputError: The location was to be changed.
            UnsupportedFeatureError: As `get_database`.
            CommitUnknownError: No answer came; look at the database first.
        """
        _refuse_system(name)
        catalog = with_properties(self._catalog)
        catalog.alter_database(name, removals=removals, updates=updates)
        return Database.of(self._catalog, name)

    def list_functions(self, database: str) -> list[str]:
        """Return the names of a database's functions, sorted. They are not run here.

        Raises:
            NotFoundError: There is no such database.
            UnsupportedFeatureError: As `get_database`.
        """
        return with_properties(self._catalog).list_functions(database)

    def get_function(self, name: str | Identifier) -> dict[str, Any]:
        """Return a function as its JSON members: parameters, definitions, comment, options.

        Raises:
            NotFoundError: There is no such function.
            UnsupportedFeatureError: As `get_database`.
        """
        return with_properties(self._catalog).get_function(_identifier(name)).to_json()

    def drop_database(self, name: str, *, cascade: bool = False) -> None:
        """Drop a database; with `cascade` also its folder with all its content.

        Raises:
            NotFoundError: There is no such database.
            InvalidInputError: It holds tables, views, functions or foreign files and `cascade` is
                not set, or it is `sys`.
            StorageError: The storage failed; some tables may be gone.
        """
        from paimon_assets.engine.control.listeners import dropping_database

        _refuse_system(name)
        with dropping_database(self._catalog, name):
            self._catalog.drop_database(name, cascade=cascade)

    def list_tables(self, database: str) -> list[str]:
        """Return the names of a database's tables, sorted.

        Raises:
            NotFoundError: There is no such database.
        """
        if database == SYSTEM_DATABASE:
            return _global_system_tables()
        return self._catalog.list_tables(database)

    def create_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema | Mapping[str, str],
        *,
        ignore_if_exists: bool = False,
        dry_run: bool = False,
    ) -> Table:
        """Create a table and open it.

        Args:
            identifier: Its name.
            schema: Its columns, keys and options; for a table without keys also the columns alone,
                as `Schema.of` takes them.
            ignore_if_exists: Whether a table of this name is opened as it is.
            dry_run: Whether a table that does not exist is only opened as it would be, without
                rows; nothing is written. A catalog server cannot.

        Raises:
            InvalidInputError: The schema breaks a rule; nothing was written.
            UnsupportedFeatureError: Nothing here could read such a table; nothing was written.
            AlreadyExistsError: The table exists and `ignore_if_exists` is not set.
            NotFoundError: There is no such database, or of a dry run on a catalog server no table.
            CommitUnknownError: The storage's answer was lost; look whether the table is there. Kind
                `done-but-unread`: it is there, only it cannot be opened.
        """
        from paimon_assets.engine.control.catalog.catalog import refuse_unreadable
        from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema

        if not isinstance(schema, Schema):
            schema = Schema.of(schema)
        name = _user_identifier(identifier)
        TableName.refuse_parts(name)
        first = first_table_schema(schema, time_millis=0)
        refuse_unreadable(str(name), first, self._catalog, verb="created")
        if dry_run:
            from paimon_assets.engine.control.file_store import FileStore

            store = FileStore.load(self._catalog, name, newest=first)
            return Table(replace(store, is_planned=True))
        made = self._catalog.create_table(name, schema, ignore_if_exists=ignore_if_exists)
        with after("found or created" if ignore_if_exists else "created", str(name)):
            return self._open(TableName.parse(name), None, newest=made)

    def get_table(
        self, identifier: str | Identifier, *, options: Mapping[str, str] | None = None
    ) -> Table:
        """Open a table.

        Args:
            identifier: Which.
            options: Dynamic options, for this use of the table only.

        Raises:
            NotFoundError: There is no such table or branch.
            UnsupportedFeatureError: It is a view.
            InvalidInputError: The name is not `database.table`, or is that of a system table.
        """
        name = _identifier(identifier)
        parts = TableName.parse(name)
        if parts.is_system_table:
            message = (
                f"'{name}' is a system table, not one of rows of its own; open it by"
                " get_system_table."
            )
            raise errors.InvalidInputError(message, kind="system-table", table=str(name))
        return self._open(parts, options)

    load_table = get_table
    """The same under the name that other table libraries have."""

    def get_system_table(
        self, identifier: str | Identifier, *, options: Mapping[str, str] | None = None
    ) -> SystemTable | GlobalSystemTable:
        """Open a system table: `db.table$files`, `db.table$branch_b$files`, `sys.tables`, ….

        Args:
            identifier: Which.
            options: Dynamic options, such as a time-travel target; none for those of the catalog.

        Raises:
            InvalidInputError: The name is not that of a system table.
            NotFoundError: No such table, branch or system table.
        """
        name = _identifier(identifier)
        parts = TableName.parse(name)
        if parts.is_global:
            return self._global(name, options)
        if parts.system is None:
            raise errors.InvalidInputError(
                f"'{name}' names no system table; write database.table$name.", kind="name"
            )
        return self._open(parts, options).system_table(parts.system)

    def _global(self, name: Identifier, options: Mapping[str, str] | None) -> GlobalSystemTable:
        from paimon_assets.engine.table.system.system_table import GlobalSystemTable

        table = GlobalSystemTable.of(self._catalog, self._options, name.table)
        if options:
            message = (
                f"'{name}' shows the newest state of all tables and takes no options, such as"
                f" '{min(options)}'."
            )
            raise errors.InvalidInputError(message, kind="system-table", table=str(name))
        return table

    def health(self, *patterns: str, limits: HealthLimits | None = None) -> pa.Table:
        """Return how much upkeep tables need, and why: one row a table, as `sys.table_health`.

        Args:
            *patterns: Names of tables, with `*` for any part, such as `shop.*`; all by default.
            limits: From how much on upkeep is due; the defaults of `HealthLimits`.

        Raises:
            NotFoundError: A name is of no table, or no table matches its pattern.
            StorageError: The databases cannot be listed. A table that cannot be read shows nulls.

        Cost:
            The manifests of the newest snapshot of each table; eight tables at a time.
        """
        for name in patterns:
            if "*" not in name and not self.table_exists(name):
                self.get_table(name)
        health = self._global(Identifier(SYSTEM_DATABASE, "table_health"), None)
        rows = replace(health, patterns=patterns, limits=limits).to_arrow()
        columns = (rows.column("database_name"), rows.column("table_name"))
        names = [f"{a}.{b}" for a, b in zip(*(c.to_pylist() for c in columns), strict=True)]
        for pattern in patterns:
            if not matching(names, pattern):
                ways = "`list_tables` and `paimon-assets ls` show the names"
                message = f"No table matches '{pattern}'; {ways}."
                raise errors.NotFoundError(message, kind="table-not-found", table=pattern)
        return rows

    def record_health(self, identifier: str | Identifier, health: pa.Table) -> Table:
        """Append the health of tables to a table, made if it is missing, with its database.

        Args:
            identifier: The table of the history; its column `measured_at` is the time of the rows.
            health: Of `health`.

        Raises:
            InvalidInputError: The table has other columns.
            CommitUnknownError: The storage's answer was lost; rows may be there.
        """
        import pyarrow as pa

        now = pa.scalar(time.time_ns() // 1_000_000, pa.timestamp("ms", "UTC"))
        times = pa.repeat(now, health.num_rows)
        rows = health.add_column(0, "measured_at", times)
        database = _user_identifier(identifier).database
        self.create_database(database, ignore_if_exists=True)
        table = self.create_table(identifier, rows.schema, ignore_if_exists=True)
        table.append(rows)
        return table

    def _open(
        self,
        parts: TableName,
        options: Mapping[str, str] | None,
        *,
        newest: TableSchema | None = None,
    ) -> Table:
        from paimon_assets.engine.control.file_store import FileStore

        try:
            store = FileStore.load(self._catalog, parts.table, options=options, newest=newest)
        except errors.NotFoundError as error:
            if error.kind == "table-not-found":
                from paimon_assets.engine.table.views import refuse_view

                refuse_view(self._catalog, parts.table)
            raise
        branch = parts.branch
        if branch is None and self._preview and BRANCH.key not in (options or {}):
            if not store.branches.exists(self._preview):
                return Table(store, preview=self._preview)
            branch = self._preview
        table = Table(store)
        return table if branch is None else table.at_branch(branch)

    def table_exists(self, identifier: str | Identifier) -> bool:
        """Whether a table of this name exists. Cost: its newest schema.

        Raises:
            InvalidInputError: The name is not `database.table`.
        """
        name = _identifier(identifier)
        if name.database == SYSTEM_DATABASE:
            return False
        try:
            self._catalog.load_schema(name)
        except errors.NotFoundError:
            return False
        return True

    def alter_table(self, identifier: str | Identifier, changes: Sequence[SchemaChange]) -> Table:
        """Change a table's schema, all changes or none, and open it again.

        Raises:
            InvalidInputError: A change is refused; nothing was changed.
            CommitConflictError: Other writers changed the schema too often meanwhile.
            NotFoundError: There is no such table.
            CommitUnknownError: The storage's answer was lost; look at the newest schema first.
        """
        name = _user_identifier(identifier)
        self._catalog.load_schema(name)
        return self.get_table(name).alter(changes)

    def execute(
        self,
        statement: str,
        executor: CountingExecutor[Any] | None = None,
        *,
        database: str | None = None,
        roots: Sequence[str] | None = None,
    ) -> pa.Table:
        """Run a statement that needs no query engine: DDL, DELETE, UPDATE, CALL, SHOW, segments.

        `sql` runs queries; INSERT and MERGE need Spark (`paimon_assets.sql.spark_sql`).
        `docs/sql/sql.md` has the list.

        Args:
            statement: As Paimon's Spark SQL spells it, and CarbonData those on segments.
            executor: Reads and writes; this process by default.
            database: Where tables lie whose names have no database.
            roots: As for `Table.segments`.

        Returns:
            The rows to show, or one row on the change that was made.

        Raises:
            InvalidInputError: No statement (kind `statement`), or it is wrong; nothing was done.
            UnsupportedFeatureError: A statement that is not taken, or not here; names the way out.
            PaimonError: As the method that the statement calls.
        """
        shown: pa.Table = load_sql("run").execute(
            self, statement, executor, database=database, roots=roots
        )
        return shown

    def sql(
        self, query: str, *, database: str | None = None, external_access: bool = True
    ) -> FrameResults:
        """Return a query over tables of the catalog, which duckdb runs when it is read.

        `to_arrow`, `to_pandas`, `to_polars`, `to_reader` and `to_batches` read it. Columns and
        filters of the query reach the reads of the tables. `database.table VERSION AS OF 3` (an id
        or a tag) and `… TIMESTAMP AS OF '2024-01-31 12:00:00'` read a table as it was;
        `"t$snapshots"` is a system table.

        Args:
            query: A SELECT, in duckdb's SQL.
            database: Of tables that are named without one.
            external_access: Whether the query may read any file and address that this process can,
                as `read_csv` does. Pass False for a query of another person.

        Raises:
            PaimonError: When it is read, as `SqlQuery.to_reader`.
        """
        run: FrameResults = load_sql("query").new_query(
            self, query, database=database, external_access=external_access
        )
        return run

    def drop_table(
        self,
        identifier: str | Identifier,
        *,
        ignore_if_missing: bool = False,
        cascade: bool = False,
    ) -> None:
        """Drop a table with all its files; with `cascade` also with foreign ones in its folder.

        Raises:
            NotFoundError: There is no such table, and `ignore_if_missing` is not set.
            InvalidInputError: The name is not `database.table`, or its database is `sys`; or the
                table's folder is a link, or holds foreign files (kind `foreign-files`) and
                `cascade` is not set. Nothing was deleted.
            StorageError: The storage failed; some files may be gone.
        """
        from paimon_assets.engine.control.listeners import dropping

        table = _user_identifier(identifier)
        with dropping(self._catalog, table):
            self._catalog.drop_table(table, ignore_if_missing=ignore_if_missing, cascade=cascade)

    def rename_table(self, source: str | Identifier, target: str | Identifier) -> None:
        """Give a table another name, perhaps in another database.

        Raises:
            NotFoundError: There is no table `source`, or no database for `target`.
            AlreadyExistsError: There is a table `target`.
            InvalidInputError: A name is not `database.table`, or its database is `sys`.
        """
        from paimon_assets.engine.control.listeners import renaming

        table, renamed = _user_identifier(source), _user_identifier(target)
        with renaming(self._catalog, table, renamed):
            self._catalog.rename_table(table, renamed)


def _identifier(name: str | Identifier) -> Identifier:
    return name if isinstance(name, Identifier) else Identifier.parse(name)


def _user_identifier(name: str | Identifier) -> Identifier:
    identifier = _identifier(name)
    _refuse_system(identifier.database)
    return identifier


def _filesystem(warehouse: str, options: Mapping[str, str]) -> Catalog:
    from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog
    from paimon_assets.engine.fileio.opening import file_io_for

    return FilesystemCatalog(warehouse, file_io_for(warehouse, options))


def _rest(warehouse: str, options: Mapping[str, str]) -> Catalog:
    from paimon_assets.engine.control.catalog.rest_catalog import RestCatalog

    return RestCatalog({**options, WAREHOUSE.key: warehouse})


CATALOGS: dict[str, Callable[[str, Mapping[str, str]], Catalog]] = {
    METASTORE.default: _filesystem,
    "rest": _rest,
}
"""Value of `metastore` → (warehouse, options of the catalog and its storage) → catalog."""


def _global_system_tables() -> list[str]:
    from paimon_assets.engine.table.system.system_table import GLOBAL_SYSTEM_TABLES

    return sorted(GLOBAL_SYSTEM_TABLES)


def _refuse_system(database: str) -> None:
    if database == SYSTEM_DATABASE:
        message = (
            f"Database '{SYSTEM_DATABASE}' holds the catalog's system tables, which are read only"
            f" ({', '.join(_global_system_tables())}); use another name."
        )
        raise errors.InvalidInputError(message, kind="system-database", database=database)


def open_catalog(
    warehouse: str = "",
    options: Mapping[str, str] | None = None,
    *,
    metastore: str | None = None,
    uri: str | None = None,
    token: str | None = None,
    preview: str = "",
) -> TableCatalog:
    """Open a warehouse directory, or the catalog behind a REST server.

    Args:
        warehouse: A path (`~` is the home), or a URI such as `s3://bucket/warehouse`. Of a REST
            server, the name it gives its warehouse, if it has more than one.
        options: For the catalog and its storage, such as `s3.endpoint`; never shown in messages.
        metastore: `rest`; a directory by default. Like the next two it is short for the option.
        uri: Where the REST server is.
        token: The bearer token it wants; a secret.
        preview: A branch to work on, as `TableCatalog` takes it.

    Raises:
        UnsupportedFeatureError: Another catalog than these is asked for.
        AccessDeniedError: The REST server does not know the client.
        InvalidInputError: The path is blank or carries a key, its scheme is unknown, or the package
            for it is not installed.
        StorageError: The storage could not be opened.
    """
    if warehouse.startswith("~"):
        warehouse = str(Path(warehouse).expanduser())
    short = {METASTORE.key: metastore, URI.key: uri, TOKEN.key: token}
    chosen = {**(options or {}), **{key: value for key, value in short.items() if value}}
    kind = Options(chosen).get(METASTORE)
    if kind not in CATALOGS:
        message = (
            f"'{METASTORE.key}' = {kind} is no catalog of this engine. Open the warehouse it"
            f" keeps its tables in ('{METASTORE.key}' = {METASTORE.default}), or a table by path."
        )
        raise errors.UnsupportedFeatureError(message, kind="unsupported-metastore", metastore=kind)
    of_catalog = {**chosen, WAREHOUSE.key: warehouse}
    return TableCatalog(CATALOGS[kind](warehouse, chosen), options=of_catalog, preview=preview)


def open_table(path: str, options: Mapping[str, str] | None = None) -> Table:
    """Open a bare table directory; `options` as in `open_catalog`.

    >>> open_table("/warehouse/sales.db/orders").latest_snapshot()        # doctest: +SKIP

    Raises:
        NotFoundError: There is no table in the directory, or no such branch.
        InvalidInputError: As `open_catalog`.
    """
    from paimon_assets.engine.control.file_store import FileStore
    from paimon_assets.engine.fileio.opening import file_io_for

    return Table(FileStore.open(file_io_for(path, options), path, name=table_name(path)))
