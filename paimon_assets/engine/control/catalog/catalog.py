"""Identifier, and the Catalog protocol: databases and tables by name."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.evolution.schema_change import SchemaChange
from paimon_assets.engine.spec.schema.schema import Schema, TableSchema


def check_name(kind: str, name: str) -> str:
    """Return `name` if it may become one directory below the warehouse.

    Args:
        kind: `database` or `table`: for the message.
        name: What a person or a configuration gave.

    Raises:
        InvalidInputError: The name is blank, has blanks around it, begins with a dot, or holds a
            slash, a backslash, `..` or a control character; a database name holds a dot.
    """
    reason = _name_fault(name)
    if reason is None and kind == "database" and "." in name:
        reason = "must not hold a dot"
    if reason is not None:
        raise InvalidInputError(
            f"The {kind} name {name!r} {reason}.", kind="name", details={kind: name}
        )
    return name


def _name_fault(name: str) -> str | None:
    if not name.strip():
        return "is blank"
    if name != name.strip():
        return "begins or ends with a blank"
    if "/" in name or "\\" in name:
        return "must not hold a slash"
    if name.startswith("."):
        return "must not begin with a dot"
    if ".." in name:
        return "must not hold '..'"
    if any(not character.isprintable() for character in name):
        return "holds a control character"
    return None


@dataclass(frozen=True, slots=True)
class Identifier:
    """Name of a table in a catalog; both parts are checked (`check_name`)."""

    database: str
    table: str

    def __post_init__(self) -> None:
        check_name("database", self.database)
        check_name("table", self.table)

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `database.table`; further dots belong to the table's name.

        Raises:
            InvalidInputError: There is no dot, or a part is no legal name.

        >>> Identifier.parse("travel.flights")
        Identifier(database='travel', table='flights')
        """
        database, dot, table = text.partition(".")
        if not dot:
            raise InvalidInputError(f"'{text}' names no table; write database.table.", kind="name")
        return cls(database, table)


class Catalog(Protocol):
    """Databases and tables by name.

    Missing things raise `NotFoundError`, taken names `AlreadyExistsError`; both name the database
    or table.
    """

    def list_databases(self) -> list[str]:
        """Return the names of all databases, sorted."""
        ...

    def create_database(self, name: str, *, ignore_if_exists: bool = False) -> None:
        """Create a database."""
        ...

    def drop_database(self, name: str, *, cascade: bool = False) -> None:
        """Drop a database; with `cascade` also the tables in it.

        Raises:
            InvalidInputError: It holds tables and `cascade` is not set.
        """
        ...

    def list_tables(self, database: str) -> list[str]:
        """Return the names of a database's tables, sorted."""
        ...

    def get_table_location(self, identifier: Identifier) -> str:
        """Return the path of a table's directory, whether the table exists or not."""
        ...

    def load_schema(self, identifier: Identifier) -> TableSchema:
        """Return the newest schema of a table."""
        ...

    def create_table(
        self, identifier: Identifier, schema: Schema, *, ignore_if_exists: bool = False
    ) -> TableSchema:
        """Create a table; of several processes creating it exactly one succeeds.

        Returns:
            The schema the table has now: with `ignore_if_exists`, perhaps another's.
        """
        ...

    def alter_table(self, identifier: Identifier, changes: Sequence[SchemaChange]) -> TableSchema:
        """Apply changes to a table's schema, all or none; see `SchemaManager.commit_changes`.

        Returns:
            The schema the table has now.
        """
        ...

    def drop_table(self, identifier: Identifier, *, ignore_if_missing: bool = False) -> None:
        """Drop a table with all its files."""
        ...

    def rename_table(self, source: Identifier, target: Identifier) -> None:
        """Give a table another name, perhaps in another database."""
        ...
