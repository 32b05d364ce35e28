"""Building blocks of commands: `@command`, and options that several commands have."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial, reduce, update_wrapper
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from paimon_assets.cli.main import JSON_ASKED, NOT_CONFIRMED, key_values
from paimon_assets.cli.output import STANDARD_INPUT
from paimon_assets.engine.control.catalog.catalog import SYSTEM_DATABASE
from paimon_assets.engine.errors import InvalidInputError, NotFoundError, PaimonError
from paimon_assets.engine.spec.evolution.option_rules import key_hints
from paimon_assets.engine.spec.options import catalog_options as opt
from paimon_assets.engine.spec.options.all_options import parse_duration_ms
from paimon_assets.engine.spec.words import did_you_mean
from paimon_assets.engine.table.api import TableCatalog, open_catalog, open_table
from paimon_assets.engine.table.table import Table

if TYPE_CHECKING:
    from paimon_assets.engine.table.system.system_table import GlobalSystemTable, SystemTable


_CONFIG = "paimon.toml"
"""Its name in the user's configuration folder."""
_PLACE = frozenset({opt.WAREHOUSE.key, opt.METASTORE.key, opt.URI.key})
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
            message = f"Catalog '{catalog}' needs --config, PAIMON_CONFIG or '{chosen}'.{hint}"
            raise InvalidInputError(message, kind="config")
        return {}, {}
    import tomllib

    try:
        document = tomllib.loads(chosen.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"'{chosen}' is no TOML: {error}", kind="config") from error
    catalogs = document.pop("catalogs", {})
    if catalog is not None and catalog not in catalogs:
        message = f"'{chosen}' has no table [catalogs.{catalog}]; there are {sorted(catalogs)}."
        raise InvalidInputError(message, kind="config")
    one = catalogs.get(catalog, {}) if catalog else {}
    general, own = dict(_flat(document, "", chosen)), dict(_flat(one, "", chosen))
    for key in (*general, *own):
        if "." not in key and key not in opt.VARIABLES and key != opt.PREFIX.key:
            message = f"'{chosen}' has an unknown key '{key}'.{did_you_mean(key, opt.VARIABLES)}"
            raise InvalidInputError(message, kind="config")
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


def settings_of(args: Mapping[str, Any]) -> Settings:
    """Return the settings of the first options, the environment and the files."""
    general, chosen = options_of_config(args["config"], args["catalog"])
    file = args["storage_options_file"]
    from_file = {} if file is None else options_of_file(file)
    flags = {
        key: args[key] for key in (opt.WAREHOUSE.key, opt.METASTORE.key, opt.URI.key) if args[key]
    }
    environment = opt.environment_options()
    if args["catalog"]:
        environment = {key: value for key, value in environment.items() if key not in _PLACE}
    named = {**general, **environment, **chosen, **flags}
    if opt.URI.key in named:
        named.setdefault(opt.METASTORE.key, "rest")
    root = named.pop(opt.WAREHOUSE.key, None)
    return Settings(root, {**named, **from_file, **args["storage_options"]})


class Settings(Struct, frozen=True):
    """Options before the command's name: where the catalog is, and its options."""

    warehouse: str | None
    options: Mapping[str, str]

    @property
    def names_tables(self) -> bool:
        """Whether there is a catalog: a warehouse, or a server."""
        return self.warehouse is not None or self.is_served

    @property
    def is_served(self) -> bool:
        """Whether a REST server is the catalog."""
        return opt.URI.key in self.options

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
            message = f"There is no warehouse at '{path}'; `db create` or `create` makes one."
            raise NotFoundError(message, kind="warehouse-not-found")

    def table(self, target: str, options: Mapping[str, str] | None = None) -> Table:
        """Open TARGET, with dynamic options of the table."""
        if self._is_named(target):
            return self._named_table(target, options)
        if "/" in target or Path(target).is_dir():
            path, _, branch = target.partition("$branch_")
            table = open_table(path, self.options)
            table = table.at_branch(branch) if branch else table
            return table.copy(options) if options else table
        message = f"'{target}' is no directory; give --warehouse to name a table in a catalog."
        raise InvalidInputError(message, kind="target")

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
            raise error.with_message(f"{error.message}{hint}") from error

    def _is_named(self, target: str) -> bool:
        return self.names_tables and "/" not in target


def spark_session() -> Any:
    """Return a SparkSession by SPARK_MASTER and SPARK_DRIVER_MEMORY."""
    from paimon_assets.engine.executors import spark_module

    module = spark_module("paimon_assets.spark.session")
    settings = module.SparkSettings(
        master=os.environ.get("SPARK_MASTER") or "local[*]",
        driver_memory=os.environ.get("SPARK_DRIVER_MEMORY") or None,
    )
    return module.get_session(settings)


def _names(_ctx: click.Context, _param: click.Parameter, text: str | None) -> list[str]:
    """Split a list at its commas; a callback of click."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _duration_ms(_ctx: click.Context, _param: click.Parameter, text: str | None) -> int | None:
    """Return a duration such as '7 d' in milliseconds; a callback of click."""
    try:
        return None if text is None else parse_duration_ms(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def choice(values: Iterable[str]) -> click.Choice[str]:
    """Return the click type of an option with a fixed set of values."""
    return click.Choice([str(value) for value in values])


_Option = Callable[..., Callable[[Callable[..., Any]], Callable[..., Any]]]
flag: _Option = partial(click.option, is_flag=True)
integer: _Option = partial(click.option, type=int)
texts: _Option = partial(click.option, multiple=True)
pairs: _Option = partial(click.option, multiple=True, callback=key_values)
names: _Option = partial(click.option, callback=_names)
duration: _Option = partial(click.option, callback=_duration_ms)


def together(*options: Callable[..., Any]) -> Callable[..., Any]:
    """Return a decorator that adds options to a command, in order."""
    return lambda run: reduce(lambda decorated, option: option(decorated), reversed(options), run)


any_option = flag("--any-option", help="Also set an option that looks misspelt.")
root_option = texts(
    "--root",
    "roots",
    envvar="PAIMON_SEGMENT_ROOTS",
    help="Take files from below this folder only, links followed; may be repeated. By default"
    " those of PAIMON_SEGMENT_ROOTS, with blanks between them; without, from anywhere.",
)
_YES = click.Option(["--yes", "-y"], is_flag=True, help="Do it without asking.")
_JSON = click.Option(["--json"], is_flag=True, help="Print JSON.")
_EXECUTOR = click.Option(
    ["--executor"],
    type=click.Choice(["auto", "embedded", "spark"]),
    default="embedded",
    show_default=True,
    help="Where tasks run; auto is spark, if installed, for inputs above 512 MB. spark takes its"
    " master from SPARK_MASTER, local[*] by default.",
)


class Arguments(SimpleNamespace):
    """The values of a command's arguments and options, by name."""

    settings: Settings

    @property
    def catalog(self) -> TableCatalog:
        """The catalog, opened."""
        return self.settings.catalog()

    def table(self, options: dict[str, str] | None = None) -> Table:
        """Open TARGET, with dynamic options of the table."""
        return self.settings.table(self.target, options)

    def check_options(self, options: Iterable[str]) -> None:
        """Refuse misspelt options, unless --any-option is given; unknown ones are other engines'.

        Raises:
            InvalidInputError: Kind `option-unknown`; names the nearest one.
        """
        for key, known in key_hints(() if self.any_option else options).items():
            raise InvalidInputError(
                f"Option '{key}' is not known. Did you mean '{known}'? Give --any-option to set it"
                " anyway.",
                kind="option-unknown",
            )

    def new_executor(self) -> Any:
        """Return the executor that --executor names."""
        from paimon_assets.engine.executors import new_executor

        return new_executor(self.executor, spark_session)

    def confirm(
        self, plan: str, show: Callable[[], None] | None = None, *, inputs: Iterable[str] = ()
    ) -> None:
        """Print the plan, and ask for confirmation, unless --yes was given.

        No answer is read from the standard input if it is one of the inputs.
        """
        if self.yes:
            return
        if any(map(_is_standard_input, inputs)):
            raise _NotConfirmed(
                "the standard input holds the data, and no answer. Give --yes to go on"
                " without a question"
            )
        if show is not None:
            show()
        is_agreed = None
        with suppress(click.Abort):
            is_agreed = click.confirm(f"{plan} Go on?", err=True)
        if is_agreed is None or not sys.stdin.isatty():  # nothing has ended the question's line
            click.echo(err=True)
        if is_agreed is None:
            raise _NotConfirmed("there was no answer. Give --yes to skip the question")
        if not is_agreed:
            raise _NotConfirmed("the answer was no")


def _is_standard_input(path: str) -> bool:
    return path == STANDARD_INPUT or os.path.samestat(Path(path).stat(), os.fstat(0))


class _NotConfirmed(click.ClickException):
    """A question was not answered with yes."""

    exit_code = NOT_CONFIRMED

    def __init__(self, why: str) -> None:
        super().__init__(f"Nothing was done: {why}.")


def command(
    *arguments: str,
    group: click.Group | None = None,
    yes: bool = False,
    json: bool = True,
    executor: bool = False,
) -> Callable[[Callable[[Arguments], None]], click.Command]:
    """Return a decorator that makes a command of a function of `Arguments`.

    Args:
        *arguments: Such as `TARGET`, or `[DATABASE]` if it may be left out.
        group: The command's; of the group `tag` the function is called `tag_create`.
        yes: Whether it takes --yes, for it asks.
        json: Whether it takes --json, which `is_json` asks for.
        executor: Whether it takes --executor.
    """

    def make_command(run: Callable[[Arguments], None]) -> click.Command:
        @click.pass_obj
        def callback(settings: Settings, /, **values: Any) -> None:
            click.get_current_context().meta[JSON_ASKED] = bool(values.get("json"))
            run(Arguments(settings=settings, **values))

        name = run.__name__ if group is None else run.__name__.removeprefix(f"{group.name}_")
        built = click.command(name.replace("_", "-"))(update_wrapper(callback, run))
        shared = {_YES: yes, _JSON: json, _EXECUTOR: executor}
        built.params = [
            *map(_argument, arguments),
            *built.params,
            *(option for option, is_taken in shared.items() if is_taken),
        ]
        if group is not None:
            group.add_command(built)
        return built

    return make_command


def _argument(text: str) -> click.Argument:
    name = text.strip("[]")
    complete = _tables_like if name == "TARGET" else None
    return click.Argument([name.lower()], required=name == text, shell_complete=complete)


def _tables_like(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete TARGET: return the tables whose names begin with an incomplete one."""
    begun, dot, _ = incomplete.partition(".")
    try:
        catalog = settings_of(ctx.find_root().params).catalog()
        return [
            f"{name}.{table}"
            for name in catalog.list_databases()
            if name == begun or (not dot and name.startswith(begun))
            for table in catalog.list_tables(name)
            if f"{name}.{table}".startswith(incomplete)
        ]
    except (PaimonError, OSError):
        return []  # a shell has no place for errors


def name_and_rest(text: str, form: str) -> tuple[str, str]:
    """Split a text at its first blank; a name with blanks is in backquotes, as in SQL."""
    quoted = re.match(r"\s*`((?:[^`]|``)+)`\s+(?=\S)", text)
    if quoted:
        return quoted[1].replace("``", "`"), text[quoted.end() :].strip()
    name, _, rest = text.strip().partition(" ")
    if not rest.strip():
        raise InvalidInputError(f"'{text}' is not \"{form}\".", kind="column")
    return name, rest.strip()
