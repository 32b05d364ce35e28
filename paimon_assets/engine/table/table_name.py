"""TableName: the parts of a table's name around dollar signs, as `t$branch_b$files`.

Source: `org.apache.paimon.catalog.Identifier`.
"""

from dataclasses import dataclass
from typing import Self

from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError

SYSTEM_DATABASE = "sys"
"""Holds the system tables of a catalog, and nothing else."""
_SPLITTER = "$"
_BRANCH = "branch_"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableName:
    """A table, perhaps one of its branches, perhaps a system table of it."""

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
        """Take a name apart.

        >>> TableName.parse(Identifier("db", "t$branch_b$files")).system
        'files'
        """
        table, *parts = name.table.split(_SPLITTER)
        branch = None
        if parts and parts[0].startswith(_BRANCH):
            branch = parts.pop(0).removeprefix(_BRANCH)
        if len(parts) > 1 or not table or branch == "" or "" in parts:
            raise InvalidInputError(
                f"'{name}' names no table; write table, table$system_table, table$branch_name or"
                " table$branch_name$system_table.",
                kind="name",
                details={"table": str(name)},
            )
        identifier = Identifier(name.database, table)
        return cls(table=identifier, branch=branch, system=parts[0] if parts else None)

    @staticmethod
    def refuse_parts(name: Identifier) -> None:
        """Refuse the name of a new table that would mean a branch or a system table."""
        if _SPLITTER in name.table:
            raise InvalidInputError(
                f"A table cannot be called '{name}': what follows '{_SPLITTER}' names a branch or"
                " a system table.",
                kind="name",
                details={"table": str(name)},
            )
