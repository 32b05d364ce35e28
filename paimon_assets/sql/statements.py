"""Statements, as values. Queries and expressions for other engines stay texts."""

from collections.abc import Mapping
from enum import StrEnum

import pyarrow as pa
from msgspec import field

from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.evolution.schema_change import SchemaChange
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.literals import Literal
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.system.metadata import columns
from paimon_assets.sql.segment_sql import CleanFiles, DeleteSegments, SegmentStatement
from paimon_assets.sql.words import words_of

CATALOG_NAME = "paimon"
"""How statements name the catalog they run in: `paimon.db.t`."""


class Names(Value):
    """The meaning of names in a statement."""

    catalog: str = CATALOG_NAME
    database: str | None = None
    """Where tables lie whose names have no database."""

    def identifier(self, path: tuple[str, ...]) -> Identifier:
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
        match path:
            case (database,) | (_, database) if len(path) == 1 or path[0] == self.catalog:
                return database
            case _:
                raise InvalidInputError(
                    f"'{'.'.join(path)}' names no database of this catalog.", kind="name"
                )


PartitionTexts = tuple[tuple[str, Literal], ...]
"""Partition column → value."""


class Select(Value):
    query: str


class Insert(Value):
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


class Delete(Value):
    """DELETE FROM; None deletes every row."""

    table: Identifier
    alias: str | None
    where: str | None


class Update(Value):
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
    """The rows that a WHEN is for: matched, or of one side alone."""

    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    NOT_BY_SOURCE = "not matched by source"


class When(Value):
    """One WHEN of a MERGE."""

    meets: Meets
    condition: str | None
    acts: Acts
    values: tuple[tuple[str, str], ...] | None = None
    """Column → expression; None is every column by its name (`*`)."""


class Merge(Value):
    table: Identifier
    alias: str | None
    source: str
    """The source behind USING, as written: a table or a query, with its alias."""
    source_alias: str
    on: str
    whens: tuple[When, ...]


class CreateTable(Value):
    """CREATE TABLE, perhaps LIKE or AS."""

    table: Identifier
    schema: Schema
    """With a query, its columns come from there."""
    if_not_exists: bool = False
    query: str | None = None
    like: Identifier | None = None


class AlterTable(Value):
    """ALTER TABLE: changes of its schema."""

    table: Identifier
    changes: tuple[SchemaChange, ...]


class Rename(Value):
    """ALTER TABLE or VIEW RENAME TO."""

    name: Identifier
    target: Identifier
    is_view: bool = False


class Drop(Value):
    """DROP TABLE or VIEW."""

    name: Identifier
    if_exists: bool
    is_view: bool = False
    cascade: bool = False


class CreateDatabase(Value):
    name: str
    if_not_exists: bool
    options: Mapping[str, str]


class DropDatabase(Value):
    name: str
    if_exists: bool
    cascade: bool


class CreateView(Value):
    name: Identifier
    query: str
    columns: tuple[tuple[str, str | None], ...] = ()
    """Names and comments of the columns; those of the query by default."""
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False
    replaces: bool = False


class Truncate(Value):
    """TRUNCATE TABLE, or ALTER TABLE DROP PARTITION."""

    table: Identifier
    partitions: tuple[PartitionTexts, ...] = ()


class Call(Value):
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


class Show(Value):
    shown: Shown
    table: Identifier | None = None
    database: str | None = None
    pattern: str | None = None
    """Of LIKE: `*` for any letters, `|` between alternatives."""
    partition: PartitionTexts = ()


class Describe(Value):
    table: Identifier
    extended: bool


class Analyze(Value):
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


def view_exists(catalog: TableCatalog, name: Identifier) -> bool:
    return name.table in catalog.views.list(name.database)


def is_query(text: str) -> bool:
    """Whether a statement only reads, by its first word.

    >>> is_query("with a as (select 1) select * from a"), is_query("DROP TABLE t")
    (True, False)
    """
    first = next((word.text for word in words_of(text) if word.text != "("), "")
    return first.upper() in {"SELECT", "WITH", "VALUES", "FROM"}


_OUTCOME = columns(
    "statement STRING, name STRING, snapshot_id BIGINT, commit_user STRING, rows_written BIGINT,"
    " rows_matched BIGINT, rows_inserted BIGINT"
)


def outcome(
    statement: str,
    name: object,
    snapshot: Snapshot | None = None,
    *,
    written: int | None = None,
    matched: int | None = None,
    inserted: int | None = None,
) -> pa.Table:
    """Return the result of a statement, in one row."""
    made = (None, None) if snapshot is None else (snapshot.id, snapshot.commit_user)
    row = (statement, str(name), *made, written, matched, inserted)
    return pa.Table.from_pylist([dict(zip(_OUTCOME.names, row, strict=True))], schema=_OUTCOME)


_ADDING_CALLS = ("create_tag", "create_branch", "rename", "compact", "rescale", "trigger", "alter")
"""How procedures begin that delete nothing which a reader could miss."""


def _is_dry(call: Call) -> bool:
    """Whether a procedure only lists the files that it would delete."""
    names = ("dry_run", "2") if call.procedure == "remove_orphan_files" else ()
    named = {name.lower(): value for name, value in call.arguments.items()}
    return any(str(named.get(name)).lower() == "true" for name in names)


def loss_of(statement: Statement) -> str | None:
    """Return a sentence on the rows, tables or history that a statement deletes or changes."""
    match statement:
        case Drop(is_view=True):
            return f"View {statement.name} is dropped."
        case Drop():
            foreign = ", foreign ones in its folder" if statement.cascade else ""
            return f"Table {statement.name} is dropped, with its files{foreign} and its history."
        case DropDatabase():
            return f"Database {statement.name} is dropped{' with' * statement.cascade}" + (
                " all its tables." if statement.cascade else "."
            )
        case Truncate():
            return f"Rows of {statement.table} are deleted."
        case Insert(overwrites=True):
            return f"Rows of {statement.table} are replaced."
        case Delete() | Update() | Merge():
            which = "All rows" if getattr(statement, "where", "") is None else "Rows"
            return f"{which} of {statement.table} are deleted or changed."
        case Call() if not (statement.procedure.startswith(_ADDING_CALLS) or _is_dry(statement)):
            return f"CALL {statement.procedure} deletes or replaces snapshots, tags or files."
        case DeleteSegments():
            return f"Segments of {statement.table} can no longer be read; their files stay."
        case CleanFiles(force=True, dry_run=False):
            return f"Segments of {statement.table} are removed from older snapshots."
        case _:
            return None
