"""paimon-assets: the group of all commands, on top of `engine.table`; adds no logic.

Errors are one line. `--help` and the completion of a name need a command's name and summary only:
the engine is loaded by a command's module, when the command is called.
"""

import errno
import importlib
import json
import logging
import traceback
from collections.abc import Mapping
from typing import IO, Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from paimon_assets.engine import errors
from paimon_assets.engine.add_ons import ERASE_COMMAND, REVIEW_COMMANDS, SQL_COMMAND
from paimon_assets.engine.spec.words import did_you_mean

Commands = Mapping[str, Mapping[str, tuple[str, str]]]
"""Heading of the help → name of the command → (its module below `cli`, its summary)."""

EXIT_CODES: Mapping[type[BaseException], int] = {
    errors.NotFoundError: 3,
    errors.AlreadyExistsError: 4,
    errors.AccessDeniedError: 5,
    errors.CommitConflictError: 6,
    errors.CommitUnknownError: 7,
    errors.FormatError: 9,
    errors.UnsupportedFeatureError: 10,
    errors.InvalidInputError: 2,
    errors.StorageError: 8,
    OSError: 8,
}
"""Error → exit code of a command. 1 is a fault that `check` found or another error, 2 also a wrong
use of the command; 11 is a question that was not answered with yes."""
NOT_CONFIRMED = 11
JSON_ASKED = "paimon-assets.json"
"""Key of click's `Context.meta`: whether the command was given --json."""

_ELSEWHERE = {"describe": "schema", "desc": "schema", "show": "ls", "stats": "analyze"}
"""Name of a command in other programs → its name here."""
_OPTIONS_ELSEWHERE = {"--set-option": "--set", "--add": "--add-column", "--mode": "--overwrite"}


class CommandError(click.ClickException):
    """An error of a command: one line, with --json an object on the standard error."""

    def __init__(self, error: errors.PaimonError | OSError, *, as_json: bool) -> None:
        super().__init__(errors.without_secrets(str(error)))
        self._as_json = as_json
        self._error = error

    @property
    def exit_code(self) -> int:  # type: ignore[override]  # click has a class variable
        """The code of `EXIT_CODES`."""
        if isinstance(self._error, errors.PaimonError) and self._error.kind == "data-type":
            return EXIT_CODES[errors.InvalidInputError]  # no file: the text of a column's type
        codes = (code for kind, code in EXIT_CODES.items() if isinstance(self._error, kind))
        return next(codes, 1)

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the error."""
        if not self._as_json:
            super().show(file)
            return
        error = self._error
        document: dict[str, Any] = {"error": type(error).__name__, "message": self.message}
        if isinstance(error, errors.PaimonError):
            document |= {"message": errors.without_secrets(error.message), "kind": error.kind}
            document |= {"details": error.details}
        document["exit_code"] = self.exit_code
        click.echo(json.dumps(document, default=str, ensure_ascii=False), err=True)


class LazyGroup(click.Group):
    """A group whose commands are in modules of their own."""

    def __init__(self, *, index: Commands, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._index = index
        self._modules = {
            name: module for named in index.values() for name, (module, _) in named.items()
        }

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command.

        Every `PaimonError`, and every error of the disk, becomes one clear line and an exit code of
        `EXIT_CODES`. With --verbose the traceback is printed before it.
        """
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            name, inner = error.option_name, error.ctx
            if inner is None:
                raise
            wanted = _OPTIONS_ELSEWHERE.get(name, "")
            if name in (option for each in self.params for option in each.opts):
                hint = f"It precedes the command: {ctx.command_path} {name} … {inner.info_name}."
            elif wanted in (option for each in inner.command.params for option in each.opts):
                hint = f"Did you mean '{wanted}'?"
            else:
                raise
            raise click.UsageError(f"No such option '{name}'. {hint}", inner) from error
        except (errors.PaimonError, OSError) as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # whoever read us has gone; click ends quietly
            if ctx.find_root().params.get("verbose"):
                click.echo(
                    errors.without_secrets("".join(traceback.format_exception(error))), err=True
                )
            raise CommandError(error, as_json=ctx.meta.get(JSON_ASKED, False)) from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return sorted({*self._modules, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command."""
        module = self._modules.get(cmd_name)
        if module is None:
            return super().get_command(ctx, cmd_name)
        command: click.Command
        place = module if "." in module else f"{__package__}.{module}"
        command = getattr(importlib.import_module(place), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is called; one that is not there may be misspelt."""
        name, known = args[0], self.list_commands(ctx)
        if name not in known and not name.startswith("-") and not ctx.resilient_parsing:
            hint = did_you_mean(_ELSEWHERE.get(name, name), known)
            ctx.fail(f"No such command '{name}'.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summaries of the commands; loads none of them."""
        del ctx
        width = max(map(len, self._modules))
        for heading, named in self._index.items():
            with formatter.section(heading):
                rows = [(name.ljust(width), summary) for name, (_, summary) in named.items()]
                formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a name; loads no command."""
        commands = [
            CompletionItem(name, help=summary)
            for named in self._index.values()
            for name, (_, summary) in named.items()
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)


def key_values(_ctx: click.Context, _param: click.Parameter, items: tuple[str, ...]) -> Any:
    """Return options given as KEY=VALUE as a dictionary; a callback of click."""
    pairs = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals:
            raise click.BadParameter(f"'{item}' is not KEY=VALUE")
        pairs[key.strip()] = value.strip() or value
    return pairs


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands in SHELL.

    For bash: eval "$(paimon-assets completion bash)" in ~/.bashrc.
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException(f"There is no completion for {shell}.")
    script = kind(ctx.find_root().command, {}, "paimon-assets", "_PAIMON_ASSETS_COMPLETE")
    click.echo(script.source())


COMMANDS = {
    "Catalog": {
        "ls": ("catalog_commands", "List the databases, or the tables of DATABASE."),
        "db": ("catalog_commands", "Create, show, change and drop databases."),
        "create": ("tables", "Create TARGET, a database.table, and its database if needed."),
        "doctor": ("upkeep", "Look whether Java, packages and the storage are as they should be."),
        "schema": ("tables", "Print the columns, keys and options of TARGET."),
        "alter": ("tables", "Change the columns and options of TARGET, all changes or none."),
        "rename": ("catalog_commands", "Give the table SOURCE the name TARGET."),
        "drop": ("catalog_commands", "Drop TARGET with all its files."),
        "views": ("catalog_commands", "Named queries of a catalog: create, change, show, drop."),
        "serve": (
            "catalog_commands",
            "Serve --warehouse as a Paimon REST catalog, until it is interrupted.",
        ),
    },
    "Rows": {
        "read": ("queries", "Read TARGET, or a system table such as TARGET$files."),
        "follow": ("rows", "Print the rows that come to TARGET, as one JSON object a line."),
        "sql": (
            SQL_COMMAND,
            "Run STATEMENT: queries by duckdb, the rest by the engine, or by Spark.",
        ),
        "copy": ("rows", "Copy SOURCE to the new table TARGET: columns, options and rows."),
        "write": ("rows", "Write the rows of FILES, in the order given, to TARGET."),
        "update": ("rows", "Give the rows of TARGET for which a filter is true new values."),
        "delete": ("rows", "Delete the rows of TARGET for which a filter is true."),
        "erase": (
            ERASE_COMMAND,
            "Erase rows of TARGET from all snapshots, tags, changelogs and branches.",
        ),
        "segments": ("segments", "Add foreign folders to a table, without copying a byte."),
    },
    "History": {
        "snapshots": ("history", "List the snapshots of TARGET."),
        "tag": ("history", "List, create, rename and delete tags."),
        "branch": ("history", "List, create, delete and fast-forward branches."),
        "consumer": ("history", "List, set and delete how far readers have come."),
        "diff": (
            REVIEW_COMMANDS,
            "Show the rows, columns and schema that differ between two states of TARGET.",
        ),
        "promote": (
            REVIEW_COMMANDS,
            "Make tables equal to their branch BRANCH; none if main has moved in one.",
        ),
        "discard": (REVIEW_COMMANDS, "Delete the branch BRANCH of all tables, or of TABLES."),
        "rollback": ("history", "Return TARGET to a snapshot, a tag or a schema."),
    },
    "Files": {
        "partitions": ("history", "List the partitions of TARGET."),
        "files": ("history", "List the live data files of TARGET."),
        "plan": ("queries", "Show which splits and files a read of TARGET would open."),
        "check": ("upkeep", "Check that all files of TARGET are there, and its rows if asked."),
        "health": ("upkeep", "Show how much upkeep the tables NAMES need, and why; worst first."),
        "compact": ("upkeep", "Merge the runs and fold the small files of TARGET."),
        "rescale": ("upkeep", "Give the partitions of TARGET another number of buckets."),
        "analyze": ("upkeep", "Compute statistics of the rows of TARGET and commit them."),
        "clean": ("upkeep", "Delete files of TARGET that no snapshot names."),
        "expire": ("upkeep", "Expire by the options of TARGET: snapshots, tags, partitions."),
        "maintain": (
            "upkeep",
            "Do the upkeep that is due for the tables NAMES, by the options of each.",
        ),
    },
    "This command": {"completion": ("main", "Print the script that completes commands in SHELL.")},
}


@click.group(cls=LazyGroup, index=COMMANDS)
@click.option("--warehouse", "-w", help="Root of the catalog; PAIMON_WAREHOUSE.")
@click.option(
    "--metastore", help="filesystem, or rest for a server; PAIMON_METASTORE. --uri implies rest."
)
@click.option(
    "--uri",
    help="Where the REST catalog is; PAIMON_URI. Credentials are read from PAIMON_TOKEN, or"
    " PAIMON_DLF_ACCESS_KEY_ID and PAIMON_DLF_ACCESS_KEY_SECRET.",
)
@click.option(
    "--storage-option",
    "storage_options",
    multiple=True,
    callback=key_values,
    help="KEY=VALUE for the storage, such as s3.endpoint=…; may be repeated. Visible in the list "
    "of processes: give secrets by --storage-options-file or the environment.",
)
@click.option(
    "--storage-options-file",
    envvar="PAIMON_STORAGE_OPTIONS_FILE",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="File of KEY=VALUE lines for the storage; - is the standard input.",
)
@click.option(
    "--config",
    envvar="PAIMON_CONFIG",
    type=click.Path(exists=True, dir_okay=False),
    help="TOML file of warehouse, uri and options; by default paimon.toml of the user's "
    "configuration folder, such as ~/.config/paimon-assets.",
)
@click.option(
    "--catalog",
    envvar="PAIMON_CATALOG",
    help="One of the tables [catalogs.NAME] of the config file.",
)
@click.option("--verbose", "-v", is_flag=True, help="Show the log, and the traceback of an error.")
@click.version_option(package_name="paimon-assets")
@click.pass_context
def main(ctx: click.Context, /, **args: object) -> None:
    """Read and write Apache Paimon tables.

    TARGET is a database.table, or a table's directory. Options of the catalog and its storage come
    from the command line, then from --storage-options-file, from the --catalog of the config file,
    from variables such as PAIMON_S3_SECRET_KEY, and from the rest of that file; all else, from the
    storage's own environment and fsspec's configuration.
    """
    if args.pop("verbose"):
        logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        logging.getLogger("paimon_assets").setLevel(logging.DEBUG)
    settings = importlib.import_module(f"{__package__}.commands")
    ctx.obj = settings.settings_of(args)
