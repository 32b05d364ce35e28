"""Identifier, and the catalogs: the names of tables, and the stores of their versions.

    Catalog             names, schemas, the folder and the storage of each table
    VersionedCatalog    and snapshots, tags, branches and consumers of the tables it manages

A table whose `LoadedTable` names no `VersionedCatalog` keeps its versions itself: its directory
shows the newest snapshot. Of a managed table only the catalog knows it; files of snapshots,
schemas and tags are read where the catalog has put them, and are written by the catalog alone. Data
files, manifests, lists and statistics are always written by the committing process.
Source: `org.apache.paimon.catalog.Catalog`, `org.apache.paimon.catalog.Identifier`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

from msgspec import Struct, field
from msgspec.structs import replace

from paimon_assets.engine import errors
from paimon_assets.engine.control.features import check_readable
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.snapshot import PartitionStatistics, Snapshot, Tag
from paimon_assets.engine.spec.options.all_options import QUERY_AUTH_ENABLED
from paimon_assets.engine.spec.paths import MAIN_BRANCH
from paimon_assets.engine.spec.schema.schema import Schema, TableSchema
from paimon_assets.engine.spec.values import Value

if TYPE_CHECKING:
    from paimon_assets.engine.codec.rest import bodies
    from paimon_assets.engine.spec.evolution.schema_change import SchemaChange

SYSTEM_DATABASE = "sys"
"""Holds the system tables of a catalog, and nothing else."""
_SPLITTER = "$"
_BRANCH = "branch_"
_LONGEST_NAME = 250
"""Bytes of a name; file systems take 255, with the suffixes of temporary names."""


def check_name(kind: str, name: str) -> str:
    """Return `name` if it may become one directory below the warehouse: of a `database`, `table`.

    Refused are blanks around it, a dot in front (of a database anywhere), a slash, a backslash,
    `..`, a control character, and too long ones.
    """
    for is_fault, reason in (
        (not name.strip(), "is blank"),
        (name != name.strip(), "begins or ends with a blank"),
        ("/" in name or "\\" in name, "must not hold a slash"),
        (name.startswith("."), "must not begin with a dot"),
        (".." in name, "must not hold '..'"),
        (not name.isprintable(), "holds a control character"),
        (len(name.encode()) > _LONGEST_NAME, f"is longer than {_LONGEST_NAME} bytes"),
        (kind == "database" and "." in name, "must not hold a dot"),
    ):
        if is_fault:
            raise errors.InvalidInputError(
                f"The {kind} name {name!r} {reason}.", kind="name", **{kind: name}
            )
    return name


class Identifier(Struct, frozen=True):
    """Name of a table in a catalog, perhaps of a branch of it; names are checked (`check_name`).

    >>> Identifier.parse("sales.orders").table
    'orders'
    """

    database: str
    table: str
    branch: str = MAIN_BRANCH

    def __post_init__(self) -> None:
        check_name("database", self.database)
        check_name("table", self.table)

    def __str__(self) -> str:
        return f"{self.database}.{self.object_name}"

    @property
    def object_name(self) -> str:
        """The table's name, with that of a branch other than main: `t`, `t$branch_b`."""
        return self.table if self.branch == MAIN_BRANCH else f"{self.table}$branch_{self.branch}"

    def at_branch(self, branch: str) -> Self:
        """Return the name of another branch of the table."""
        return replace(self, branch=branch)

    @classmethod
    def parse(cls, text: object) -> Self:
        """Parse `database.table`; further dots belong to the table's name.

        Raises:
            InvalidInputError: It is no text, there is no dot, or a part is no legal name.

        >>> Identifier.parse("travel.flights").table
        'flights'
        """
        database, dot, table = text.partition(".") if isinstance(text, str) else ("", "", "")
        if not dot:
            raise errors.InvalidInputError(
                f"{text!r} names no table; write database.table.", kind="name"
            )
        return cls(database, table)


class TableName(Value):
    """The parts of a name around dollar signs, as `t$branch_b$files`."""

    table: Identifier
    branch: str | None = None
    system: str | None = None

    @property
    def is_global(self) -> bool:
        """Whether it is a system table of the whole catalog, such as `sys.tables`."""
        return self.table.database == SYSTEM_DATABASE

    @property
    def is_system_table(self) -> bool:
        """Whether it is a system table, of a table or of the catalog."""
        return self.is_global or self.system is not None

    @classmethod
    def parse(cls, name: Identifier) -> Self:
        """Split a name into its parts.

        >>> TableName.parse(Identifier("db", "t$branch_b$files")).system
        'files'
        """
        table, *parts = name.table.split(_SPLITTER)
        branch = None
        if parts and parts[0].startswith(_BRANCH):
            branch = parts.pop(0).removeprefix(_BRANCH)
        if len(parts) > 1 or not table or branch == "" or "" in parts:
            message = (
                f"'{name}' names no table; write table, table$system_table, table$branch_name or"
                " table$branch_name$system_table."
            )
            raise errors.InvalidInputError(message, kind="name", table=str(name))
        identifier = Identifier(name.database, table)
        return cls(table=identifier, branch=branch, system=parts[0] if parts else None)

    @staticmethod
    def refuse_parts(name: Identifier) -> None:
        """Refuse the name of a new table that would mean a branch or a system table."""
        if _SPLITTER in name.table:
            message = (
                f"A table cannot be called '{name}': the part after '{_SPLITTER}' names a branch or"
                " a system table."
            )
            raise errors.InvalidInputError(message, kind="name", table=str(name))


def missing_table(identifier: Identifier) -> errors.NotFoundError:
    return errors.NotFoundError(
        f"Table '{identifier}' does not exist.", kind="table-not-found", table=str(identifier)
    )


def taken_table(identifier: Identifier) -> errors.AlreadyExistsError:
    return errors.AlreadyExistsError(
        f"Table '{identifier}' exists already.", kind="table-exists", table=str(identifier)
    )


class LoadedTable(Value):
    """A table, or a branch of one, as its catalog knows it."""

    location: str
    """The table's directory, without a trailing slash; the same for all its branches."""
    schema: TableSchema
    """The newest schema: its id, columns, keys and options. When it was made, and the highest id a
    column ever had, are asked of its file."""
    file_io: FileIO
    """The storage of this table. Credentials that end are renewed behind it: ask for its `spec`
    again whenever work is sent to other machines; it has a time of validity."""
    uuid: str | None = None
    """Unique, also among tables of the same name made later; None if the catalog is a directory
    that keeps no ids."""
    versions: VersionedCatalog | None = None
    """The keeper of its snapshots, tags, branches and consumers; None if its directory keeps them.
    Tables that a catalog calls external have a uuid and no such keeper."""
    audit: Mapping[str, str | int | None] = field(default_factory=dict)
    """`owner`, `created_at`, `created_by`, `updated_at`, `updated_by` (epoch milliseconds), as far
    as the catalog has them."""


class Catalog(Protocol):
    """Databases and tables by name.

    Missing things raise `NotFoundError`, taken names `AlreadyExistsError`; both name the database
    or table.
    """

    def list_databases(self) -> list[str]:
        """Return the names of all databases, sorted."""

    def create_database(self, name: str, *, ignore_if_exists: bool = False) -> None: ...

    def drop_database(self, name: str, *, cascade: bool = False) -> None:
        """Drop a database; with `cascade` its tables, views and functions too.

        Raises:
            InvalidInputError: It holds something and `cascade` is not set.
        """

    def list_tables(self, database: str) -> list[str]:
        """Return the names of a database's tables, sorted."""

    def load_table(
        self, identifier: Identifier, *, newest: TableSchema | None = None
    ) -> LoadedTable:
        """Return the facts that open a table, or the branch that the identifier names.

        `newest` is its newest schema, if that was read or made just now.

        Raises:
            NotFoundError: No such database (kind `database-not-found`), table (`table-not-found`)
                or branch (`branch-not-found`).
        """

    def load_schema(self, identifier: Identifier) -> TableSchema:
        """Return the newest schema of a table."""

    def create_table(
        self, identifier: Identifier, schema: Schema, *, ignore_if_exists: bool = False
    ) -> TableSchema:
        """Create a table; of several processes creating it exactly one succeeds.

        Returns:
            The schema the table has now: with `ignore_if_exists`, perhaps another's.
        """

    def alter_table(self, identifier: Identifier, changes: Sequence[SchemaChange]) -> TableSchema:
        """Apply changes to the newest schema of a table or branch, all or none.

        After a lost race the changes are applied to the schema of the winner.

        Returns:
            The schema the table has now: its newest before if the changes change nothing.

        Raises:
            NotFoundError: There is no such table or branch.
            InvalidInputError: A change is refused; nothing was changed.
            CommitConflictError: Other writers were faster too often; nothing was changed.
            CommitUnknownError: No answer arrived; look at the newest schema first.
        """

    def drop_table(
        self, identifier: Identifier, *, ignore_if_missing: bool = False, cascade: bool = False
    ) -> None:
        """Drop a table with all its files; with `cascade` also with foreign ones in its folder.

        Raises:
            InvalidInputError: Its folder holds foreign files (kind `foreign-files`), and `cascade`
                is not set; or is a link. Nothing was deleted.
        """

    def rename_table(self, source: Identifier, target: Identifier) -> None:
        """Give a table another name, perhaps in another database."""


class VersionedCatalog(Catalog, Protocol):
    """A catalog that keeps the versions of the tables it manages.

    Identifiers name a branch; consumers, tags and snapshots are the branch's own. Three outcomes of
    a change are never mixed up:

        returned                     it is made
        CommitUnknownError           it may have been made: the answer was lost, broken or of a
                                     server that failed midway. Nothing may be deleted.
        every other PaimonError      it is definitely not made, and will not be

    Of these `StorageError` may succeed later, `NotFoundError` also means that the table was dropped
    or created again, `InvalidInputError` that it was refused. The catalog may wait for a busy
    server and repeat a request, as long as it keeps to the above.
    """

    def load_snapshot(self, identifier: Identifier) -> Snapshot | None:
        """Return the newest snapshot, None if nothing was committed yet.

        Raises:
            NotFoundError: There is no such table or branch.
            StorageError: The catalog cannot say.
        """

    def commit_snapshot(
        self,
        identifier: Identifier,
        table_uuid: str,
        snapshot: Snapshot,
        *,
        base_uuid: str | None,
        statistics: Sequence[PartitionStatistics],
    ) -> bool:
        """Make a snapshot the newest if the one before is still the newest.

        Everything the snapshot names is written. It may be called again with the same arguments
        after a CommitUnknownError: the snapshot is not made twice, and the answer is then either.

        Args:
            identifier: The table and the branch.
            table_uuid: Of the table the snapshot was made for.
            snapshot: Its id is one more than the newest's.
            base_uuid: `uuid` of the snapshot it is built on; None if there is none, or if that one
                has no uuid.
            statistics: Its changes of each partition.

        Returns:
            True if it is the newest snapshot now, or was meanwhile. False if it definitely lost the
            race: the newest is not the one it is built on.

        Raises:
            NotFoundError: There is no table or branch of this name and uuid; nothing was committed.
            CommitUnknownError: Whether it was committed is unknown. The caller looks by
                `load_snapshot` and among the snapshot files, and calls again.
            PaimonError: As any change: nothing was committed. The caller deletes the files that the
                snapshot names.
        """

    def rollback_to(
        self, identifier: Identifier, target: int | str, *, from_snapshot: int | None = None
    ) -> None:
        """Make a snapshot the newest again; later snapshots and their tags go.

        Args:
            identifier: The table and the branch.
            target: Id of a snapshot, or name of a tag.
            from_snapshot: The newest snapshot the caller knows; with another one nothing is done.

        Raises:
            NotFoundError: No such snapshot or tag.
            CommitConflictError: The newest snapshot is not `from_snapshot`.
        """

    def rollback_schema(self, identifier: Identifier, schema_id: int) -> None:
        """Make a schema the newest again; later ones go.

        Raises:
            NotFoundError: No such schema.
            InvalidInputError: A snapshot, tag or changelog needs a later one; nothing was changed.
        """

    def list_tags(self, identifier: Identifier) -> list[str]:
        """Return the names of all tags, sorted."""

    def get_tag(self, identifier: Identifier, name: str) -> Tag:
        """Return a tag; NotFoundError (kind `tag-not-found`) if there is none."""

    def create_tag(
        self,
        identifier: Identifier,
        name: str,
        snapshot_id: int,
        *,
        time_retained: dt.timedelta | None = None,
    ) -> None:
        """Give a snapshot a name.

        Raises:
            AlreadyExistsError: There is a tag of this name (kind `tag-exists`).
            NotFoundError: There is no such snapshot (kind `snapshot-not-found`).
        """

    def delete_tag(self, identifier: Identifier, name: str) -> None:
        """Delete a tag; NotFoundError (kind `tag-not-found`) if there is none."""

    def list_branches(self, identifier: Identifier) -> list[str]:
        """Return the names of all branches but main, sorted."""

    def create_branch(
        self, identifier: Identifier, name: str, *, from_tag: str | None = None
    ) -> None:
        """Make a branch: empty, or with the state of a tag.

        Raises:
            AlreadyExistsError: There is a branch of this name (kind `branch-exists`).
            NotFoundError: There is no such tag (kind `tag-not-found`).
        """

    def drop_branch(self, identifier: Identifier, name: str) -> None:
        """Delete a branch; NotFoundError (kind `branch-not-found`) if there is none."""

    def fast_forward(self, identifier: Identifier, name: str, *, keeps_main: bool = False) -> None:
        """Make main equal to a branch.

        Raises:
            NotFoundError: There is no such branch (kind `branch-not-found`).
            CommitConflictError: Main has a commit that the branch lacks, and `keeps_main`.
        """

    def list_consumers(self, identifier: Identifier) -> dict[str, int]:
        """Return consumer → the next snapshot it will read, by name."""

    def reset_consumer(
        self, identifier: Identifier, consumer_id: str, next_snapshot: int | None
    ) -> None:
        """Let a consumer go on at a snapshot, a new one as well; None forgets it."""


@runtime_checkable
class QueryAuth(Protocol):
    """A catalog that judges reads."""

    def is_plain_query(self, identifier: Identifier, columns: Sequence[str]) -> bool:
        """Whether a reader may read these columns as they are.

        Returns:
            False if rows must be filtered or values masked.

        Raises:
            AccessDeniedError: The reader may not.
        """


def refuse_unreadable(table: str, schema: TableSchema, catalog: object, *, verb: str) -> None:
    """Refuse to make a schema that every read and write would refuse; other engines may make it."""
    if isinstance(catalog, QueryAuth):  # it decides which reads are allowed
        schema = replace(schema, options={**schema.options, QUERY_AUTH_ENABLED.key: "false"})
    try:
        check_readable(table, schema)
    except errors.UnsupportedFeatureError as error:
        raise error.with_message(
            f"Table '{table}' is not {verb}, because nothing here could read or write it."
            f" {error.message}"
        ) from None


@runtime_checkable
class DatabaseCatalog(Protocol):
    """Databases with properties. Missing things raise `NotFoundError`."""

    def create_database(
        self, name: str, *, ignore_if_exists: bool = False, options: Mapping[str, str] | None = None
    ) -> None: ...

    def get_database(self, name: str) -> bodies.DatabaseResponse:
        """Return a database, with its properties and owner."""

    def alter_database(
        self, name: str, *, removals: Sequence[str] = (), updates: Mapping[str, str] | None = None
    ) -> bodies.AlterDatabaseResponse: ...

    def list_functions(self, database: str) -> list[str]:
        """Return the names of a database's functions, sorted."""

    def get_function(self, identifier: Identifier) -> bodies.FunctionResponse:
        """Return a function; NotFoundError (kind `function-not-found`) if there is none."""


@runtime_checkable
class ViewCatalog(Protocol):
    """Views by name.

    Missing ones raise `NotFoundError` (kind `view-not-found`), taken names `AlreadyExistsError`
    (`view-exists`).
    """

    def list_views(self, database: str) -> list[str]:
        """Return the names of a database's views, sorted."""

    def get_view(self, identifier: Identifier) -> bodies.ViewResponse: ...

    def create_view(self, identifier: Identifier, schema: bodies.ViewSchema) -> None: ...

    def alter_view(self, identifier: Identifier, changes: Sequence[bodies.ViewChange]) -> None:
        """Change a view, all changes or none."""

    def drop_view(self, identifier: Identifier, *, ignore_if_missing: bool = False) -> None: ...

    def rename_view(self, source: Identifier, target: Identifier) -> None:
        """Give a view another name, perhaps in another database."""
