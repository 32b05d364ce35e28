"""Statements, as values. Queries and expressions for other engines stay texts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.evolution.schema_change import SchemaChange
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.literals import Literal
from paimon_assets.engine.table.segments.segment_sql import SegmentStatement
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.views import Views

CATALOG_NAME = "paimon"
"""How statements name the catalog they run in: `paimon.db.t`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The meaning of names in a statement."""

    catalog: str = CATALOG_NAME
    database: str | None = None
    """Where tables lie whose names have no database."""

    def identifier(self, path: tuple[str, ...]) -> Identifier:
        """Return the table a name means."""
        match path:
            case (name,) if self.database is not None:
                return Identifier(self.database, name)
            case (database, name):
                return Identifier(database, name)
            case (catalog, database, name) if catalog == self.catalog:
                return Identifier(database, name)
            case _:
                raise InvalidInputError(
                    f"'{'.'.join(path)}' names no table of this catalog; write database.table, or"
                    f" {self.catalog}.database.table.",
                    kind="name",
                )

    def database_of(self, path: tuple[str, ...]) -> str:
        """Return the database a name means."""
        match path:
            case (database,) | (_, database) if len(path) == 1 or path[0] == self.catalog:
                return database
            case _:
                raise InvalidInputError(
                    f"'{'.'.join(path)}' names no database of this catalog.", kind="name"
                )


PartitionTexts = tuple[tuple[str, Literal], ...]
"""Partition column → value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """A query."""

    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """INSERT INTO or OVERWRITE."""

    table: Identifier
    query: str
    overwrites: bool = False
    columns: tuple[str, ...] = ()
    by_name: bool = False
    fixed: PartitionTexts = ()
    """PARTITION columns with a value."""
    dynamic: tuple[str, ...] = ()
    """PARTITION columns without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """DELETE FROM; None deletes every row."""

    table: Identifier
    alias: str | None
    where: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """UPDATE; None updates every row."""

    table: Identifier
    alias: str | None
    assignments: tuple[tuple[tuple[str, ...], str], ...]
    where: str | None


class Acts(StrEnum):
    """The action of a WHEN."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


class Meets(StrEnum):
    """Which rows a WHEN is about."""

    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    NOT_BY_SOURCE = "not matched by source"


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """One WHEN of a MERGE."""

    meets: Meets
    condition: str | None
    acts: Acts
    values: tuple[tuple[str, str], ...] | None = None
    """Column → expression; None is every column by its name (`*`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """MERGE INTO."""

    table: Identifier
    alias: str | None
    source: str
    """The source behind USING, as written: a table or a query, with its alias."""
    source_alias: str
    on: str
    whens: tuple[When, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """CREATE TABLE, perhaps LIKE or AS."""

    table: Identifier
    schema: Schema
    """With a query, its columns come from there."""
    if_not_exists: bool = False
    query: str | None = None
    like: Identifier | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTable:
    """ALTER TABLE: changes of its schema."""

    table: Identifier
    changes: tuple[SchemaChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    """ALTER TABLE or VIEW RENAME TO."""

    name: Identifier
    target: Identifier
    is_view: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """DROP TABLE or VIEW."""

    name: Identifier
    if_exists: bool
    is_view: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDatabase:
    """CREATE DATABASE."""

    name: str
    if_not_exists: bool
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDatabase:
    """DROP DATABASE."""

    name: str
    if_exists: bool
    cascade: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateView:
    """CREATE VIEW."""

    name: Identifier
    query: str
    columns: tuple[tuple[str, str | None], ...] = ()
    """Names and comments of the columns; those of the query by default."""
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False
    replaces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """TRUNCATE TABLE, or ALTER TABLE DROP PARTITION."""

    table: Identifier
    partitions: tuple[PartitionTexts, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """CALL of a procedure, or a statement that is short for one."""

    procedure: str
    arguments: Mapping[str, Literal]
    """Those without a name stand under their number, from 0."""


class Shown(StrEnum):
    """The subject of a SHOW."""

    DATABASES = "databases"
    TABLES = "tables"
    VIEWS = "views"
    COLUMNS = "columns"
    PARTITIONS = "partitions"
    TAGS = "tags"
    PROPERTIES = "tblproperties"
    CREATE = "create table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """SHOW."""

    shown: Shown
    table: Identifier | None = None
    database: str | None = None
    pattern: str | None = None
    """Of LIKE: `*` for any letters, `|` between alternatives."""
    partition: PartitionTexts = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """DESCRIBE TABLE."""

    table: Identifier
    extended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Analyze:
    """ANALYZE TABLE; None computes statistics of no column, () of all."""

    table: Identifier
    columns: tuple[str, ...] | None


Statement = (
    Select
    | Insert
    | Delete
    | Update
    | Merge
    | CreateTable
    | AlterTable
    | Rename
    | Drop
    | CreateDatabase
    | DropDatabase
    | CreateView
    | Truncate
    | Call
    | Show
    | Describe
    | Analyze
    | SegmentStatement
)
"""One statement."""


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
