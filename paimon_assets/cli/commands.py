"""Building blocks of commands: `@command`, and options that several commands have."""

from collections.abc import Callable, Iterable
from functools import partial, update_wrapper
from types import SimpleNamespace
from typing import Any

import click

from paimon_assets.cli.main import JSON_ASKED, NOT_CONFIRMED, key_values
from paimon_assets.cli.settings import Settings, settings_of, spark_session
from paimon_assets.engine.errors import InvalidInputError, PaimonError
from paimon_assets.engine.spec.evolution.option_rules import key_hints
from paimon_assets.engine.spec.options.option import parse_duration_ms
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.table import Table
from paimon_assets.executors import new_executor


def _names(_ctx: click.Context, _param: click.Parameter, text: str | None) -> list[str]:
    """Return the names of a comma list; a callback of click."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _duration_ms(_ctx: click.Context, _param: click.Parameter, text: str | None) -> int | None:
    """Return a duration such as '7 d' in milliseconds; a callback of click."""
    try:
        return None if text is None else parse_duration_ms(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def choice(values: Iterable[str]) -> click.Choice[str]:
    """Return the type of an option that has one of some values."""
    return click.Choice([str(value) for value in values])


_Option = Callable[..., Callable[[Callable[..., Any]], Callable[..., Any]]]
flag: _Option = partial(click.option, is_flag=True)
integer: _Option = partial(click.option, type=int)
texts: _Option = partial(click.option, multiple=True)
pairs: _Option = partial(click.option, multiple=True, callback=key_values)
names: _Option = partial(click.option, callback=_names)
duration: _Option = partial(click.option, callback=_duration_ms)
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
    help="Who does the work; auto is spark, if installed, for inputs above 512 MB. spark takes its"
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
        return new_executor(self.executor, spark_session)

    def confirm(self, what: str, show: Callable[[], None] | None = None) -> None:
        """Print the plan, and ask for confirmation, unless --yes was given."""
        if self.yes:
            return
        if show is not None:
            show()
        try:
            is_agreed = click.confirm(f"{what} Go on?", err=True)
        except click.Abort:
            raise _NotConfirmed("nobody answered. Give --yes to go on without a question") from None
        if not is_agreed:
            raise _NotConfirmed("the answer was no")


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

    def made(run: Callable[[Arguments], None]) -> click.Command:
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

    return made


def _argument(text: str) -> click.Argument:
    name = text.strip("[]")
    complete = _tables_like if name == "TARGET" else None
    return click.Argument([name.lower()], required=name == text, shell_complete=complete)


def _tables_like(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the tables a TARGET may go on as."""
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
    """Return the first word of a text and what stands behind it."""
    name, _, rest = text.strip().partition(" ")
    if not rest.strip():
        raise InvalidInputError(f"'{text}' is not \"{form}\".", kind="column")
    return name, rest.strip()
