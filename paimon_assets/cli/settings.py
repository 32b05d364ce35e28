"""What stands before a command's name on the command line, and how TARGET is opened."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.catalog_options import METASTORE
from paimon_assets.engine.spec.options.rest_options import (
    DLF_ACCESS_KEY_ID,
    DLF_ACCESS_KEY_SECRET,
    DLF_REGION,
    DLF_SECURITY_TOKEN,
    DLF_TOKEN_PATH,
    TOKEN,
    TOKEN_PROVIDER,
    URI,
)
from paimon_assets.engine.table.api import TableCatalog, open_catalog, open_table
from paimon_assets.engine.table.system import GlobalSystemTable, SystemTable
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.table_name import SYSTEM_DATABASE

_ENVIRONMENT = {
    f"s3.{name}": f"PAIMON_S3_{name.upper().replace('-', '_')}"
    for name in (
        "endpoint", "region", "access-key", "secret-key", "session-token", "path-style-access",
    )
}  # fmt: skip
"""Option of the storage → environment variable it comes from, where that is set."""
_CATALOG_ENVIRONMENT = {
    option: f"PAIMON_{option.upper().replace('.', '_').replace('-', '_')}"
    for option in (
        METASTORE.key, URI.key, TOKEN.key, TOKEN_PROVIDER.key, DLF_REGION.key,
        DLF_ACCESS_KEY_ID.key, DLF_ACCESS_KEY_SECRET.key, DLF_SECURITY_TOKEN.key,
        DLF_TOKEN_PATH.key,
    )
}  # fmt: skip
"""Option of the catalog → environment variable."""


def environment_options() -> dict[str, str]:
    """Return the options of catalog and storage that the environment gives."""
    return {
        option: os.environ[variable]
        for option, variable in (_CATALOG_ENVIRONMENT | _ENVIRONMENT).items()
        if os.environ.get(variable)
    }


def options_of_file(path: str) -> dict[str, str]:
    """Return the options of a file of KEY=VALUE lines; blank lines and # comments are passed over.

    Raises:
        InvalidInputError: A line is none; names the line's number, not its text.
    """
    with click.open_file(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    options = {}
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        key, equals, value = line.partition("=")
        if not equals:
            raise InvalidInputError(f"Line {number} of '{path}' is not KEY=VALUE.", kind="option")
        options[key.strip()] = value.strip()
    return options


def key_values(_ctx: click.Context, _param: click.Parameter, items: tuple[str, ...]) -> Any:
    """Return options given as KEY=VALUE as a dictionary; a callback of click."""
    pairs = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals:
            raise click.BadParameter(f"'{item}' is not KEY=VALUE")
        pairs[key.strip()] = value.strip() or value
    return pairs


@dataclass(frozen=True, slots=True)
class Settings:
    """Options that stand before the command's name."""

    warehouse: str | None
    options: Mapping[str, str]

    @property
    def names_tables(self) -> bool:
        """Whether there is a catalog: a warehouse, or a server."""
        return self.warehouse is not None or URI.key in self.options

    def catalog(self) -> TableCatalog:
        """Open the catalog.

        Raises:
            InvalidInputError: There is none.
        """
        if not self.names_tables:
            raise InvalidInputError(
                "This needs --warehouse, or --metastore rest --uri.", kind="target"
            )
        return open_catalog(self.warehouse or "", self.options)

    def table(self, target: str, options: Mapping[str, str] | None = None) -> Table:
        """Open TARGET, with dynamic options of the table."""
        if self._is_named(target):
            return self.catalog().get_table(target, options=options)
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
            return self.catalog().get_system_table(target, options=options)
        name, dollar, kind = target.rpartition("$")
        if not dollar or "/" in kind or kind.startswith("branch_"):
            return None
        if self._is_named(target):
            return self.catalog().get_system_table(target, options=options)
        return self.table(name, options).system_table(kind)

    def _is_named(self, target: str) -> bool:
        return self.names_tables and "/" not in target
