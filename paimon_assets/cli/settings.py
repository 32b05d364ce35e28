"""What stands before a command's name on the command line, and how TARGET is opened."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.table.api import open_catalog, open_table
from paimon_assets.engine.table.system import GlobalSystemTable, SystemTable
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.table_name import SYSTEM_DATABASE


@dataclass(frozen=True, slots=True)
class Settings:
    """Options that stand before the command's name."""

    warehouse: str | None
    options: Mapping[str, str]

    def table(self, target: str, options: Mapping[str, str] | None = None) -> Table:
        """Open TARGET, with dynamic options of the table."""
        if self._is_named(target):
            catalog = open_catalog(str(self.warehouse), self.options)
            return catalog.get_table(target, options=options)
        if "/" in target or Path(target).is_dir():
            table = open_table(target, self.options)
            return table.copy(options) if options else table
        raise InvalidInputError(
            f"'{target}' is no directory; give --warehouse to name a table in a catalog.",
            kind="target",
        )

    def system_table(
        self, target: str, options: Mapping[str, str] | None = None
    ) -> SystemTable | GlobalSystemTable | None:
        """Open TARGET if it is a system table, such as `database.table$files` or `sys.tables`."""
        if self._is_named(target) and target.startswith(f"{SYSTEM_DATABASE}."):
            return open_catalog(str(self.warehouse), self.options).get_system_table(
                target, options=options
            )
        name, dollar, kind = target.rpartition("$")
        if not dollar or "/" in kind or kind.startswith("branch_"):
            return None
        if self._is_named(target):
            catalog = open_catalog(str(self.warehouse), self.options)
            return catalog.get_system_table(target, options=options)
        return self.table(name, options).system_table(kind)

    def _is_named(self, target: str) -> bool:
        return self.warehouse is not None and "/" not in target
