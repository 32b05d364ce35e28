"""The options before a command's name, and how TARGET is opened."""

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from paimon_assets.engine.errors import InvalidInputError, NotFoundError
from paimon_assets.engine.spec.options.catalog_options import METASTORE, PREFIX, URI, WAREHOUSE
from paimon_assets.engine.spec.words import did_you_mean
from paimon_assets.engine.table.api import TableCatalog, open_catalog, open_table
from paimon_assets.engine.table.system import GlobalSystemTable, SystemTable
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.table_name import SYSTEM_DATABASE
from paimon_assets.environment import VARIABLES, environment_options
from paimon_assets.executors import spark_module

_CONFIG = "paimon.toml"
"""Its name in the user's configuration folder."""
_PLACE = frozenset({WAREHOUSE.key, METASTORE.key, URI.key})
"""Options of which a catalog that has a name takes none of the unnamed one's."""


def options_of_file(path: str) -> dict[str, str]:
    """Return the options of a file of KEY=VALUE lines; without blank lines and comments."""
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


def options_of_config(
    path: str | None, catalog: str | None
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options of a TOML file, and those of its table `[catalogs.NAME]`.

    Dotted keys may be written as they are: `s3.endpoint = "http://…"`.
    """
    chosen = Path(path) if path else Path(click.get_app_dir("paimon-assets")) / _CONFIG
    if path is None and not chosen.is_file():
        beside = f" The {_CONFIG} of this folder is read by --config {_CONFIG}."
        hint = beside if Path(_CONFIG).is_file() else ""
        if catalog is not None:
            raise InvalidInputError(
                f"Catalog '{catalog}' needs --config, PAIMON_CONFIG or '{chosen}'.{hint}",
                kind="config",
            )
        return {}, {}
    try:
        document = tomllib.loads(chosen.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"'{chosen}' is no TOML: {error}", kind="config") from error
    catalogs = document.pop("catalogs", {})
    if catalog is not None and catalog not in catalogs:
        raise InvalidInputError(
            f"'{chosen}' has no table [catalogs.{catalog}]; there are {sorted(catalogs)}.",
            kind="config",
        )
    one = catalogs.get(catalog, {}) if catalog else {}
    general, own = dict(_flat(document, "", chosen)), dict(_flat(one, "", chosen))
    for key in (*general, *own):
        if "." not in key and key not in VARIABLES and key != PREFIX.key:
            nearest = difflib.get_close_matches(key, VARIABLES, 1)
            meant = f"; did you mean '{nearest[0]}'?" if nearest else "."
            raise InvalidInputError(f"'{chosen}' has an unknown key '{key}'{meant}", kind="config")
    if catalog:
        general = {key: value for key, value in general.items() if key not in _PLACE}
    return general, own


def _flat(table: Mapping[str, Any], prefix: str, path: Path) -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{key}.", path)
        elif isinstance(value, list):
            raise InvalidInputError(f"'{key}' of '{path}' is a list; give a text.", kind="config")
        else:
            yield key, str(value).lower() if isinstance(value, bool) else str(value)


def settings_of(args: Mapping[str, Any]) -> "Settings":
    """Return the settings of the first options, the environment and the files."""
    general, chosen = options_of_config(args["config"], args["catalog"])
    file = args["storage_options_file"]
    from_file = {} if file is None else options_of_file(file)
    flags = {key: args[key] for key in (WAREHOUSE.key, METASTORE.key, URI.key) if args[key]}
    environment = environment_options()
    if args["catalog"]:
        environment = {key: value for key, value in environment.items() if key not in _PLACE}
    named = {**general, **environment, **chosen, **flags}
    if URI.key in named:
        named.setdefault(METASTORE.key, "rest")
    root = named.pop(WAREHOUSE.key, None)
    return Settings(root, {**named, **from_file, **args["storage_options"]})


@dataclass(frozen=True, slots=True)
class Settings:
    """Options that stand before the command's name."""

    warehouse: str | None
    options: Mapping[str, str]

    @property
    def names_tables(self) -> bool:
        """Whether there is a catalog: a warehouse, or a server."""
        return self.warehouse is not None or self.is_served

    @property
    def is_served(self) -> bool:
        """Whether a REST server is the catalog."""
        return URI.key in self.options

    def catalog(self) -> TableCatalog:
        """Open the catalog."""
        if not self.names_tables:
            raise InvalidInputError(
                "This needs --warehouse, or --metastore rest --uri.", kind="target"
            )
        return open_catalog(self.warehouse or "", self.options)

    def check_warehouse(self) -> None:
        """Raise NotFoundError if the warehouse is a local folder that does not exist."""
        path = self.warehouse or ""
        if path and "://" not in path and not Path(path).expanduser().is_dir():
            raise NotFoundError(
                f"There is no warehouse at '{path}'; `db create` or `create` makes one.",
                kind="warehouse-not-found",
            )

    def table(self, target: str, options: Mapping[str, str] | None = None) -> Table:
        """Open TARGET, with dynamic options of the table."""
        if self._is_named(target):
            return self._named_table(target, options)
        if "/" in target or Path(target).is_dir():
            path, _, branch = target.partition("$branch_")
            table = open_table(path, self.options)
            table = table.at_branch(branch) if branch else table
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
        if not dollar or not name or "/" in kind or kind.startswith("branch_"):
            return None
        if self._is_named(target):
            return self.catalog().get_system_table(target, options=options)
        return self.table(name, options).system_table(kind)

    def _named_table(self, target: str, options: Mapping[str, str] | None) -> Table:
        catalog = self.catalog()
        try:
            return catalog.get_table(target, options=options)
        except NotFoundError as error:
            if error.kind != "table-not-found":
                raise
            databases = catalog.list_databases()
            names = [f"{name}.{each}" for name in databases for each in catalog.list_tables(name)]
            hint = did_you_mean(target, names)
            raise NotFoundError(
                f"{error.message}{hint}", kind=error.kind, details=error.details
            ) from error

    def _is_named(self, target: str) -> bool:
        return self.names_tables and "/" not in target


def spark_session() -> Any:
    """Return a SparkSession by SPARK_MASTER and SPARK_DRIVER_MEMORY."""
    module = spark_module("paimon_assets.spark.session")
    settings = module.SparkSettings(
        master=os.environ.get("SPARK_MASTER") or "local[*]",
        driver_memory=os.environ.get("SPARK_DRIVER_MEMORY") or None,
    )
    return module.get_session(settings)
