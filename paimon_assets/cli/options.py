"""Options that several commands have; loads no engine."""

import importlib
from collections.abc import Callable
from typing import Any

import click

from paimon_assets.engine.errors import InvalidInputError, PaimonError

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _tables_like(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the tables a TARGET may go on as."""
    settings = importlib.import_module(f"{__package__}.settings")
    begun, dot, _ = incomplete.partition(".")
    try:
        catalog = settings.settings_of(ctx.find_root().params).catalog()
        return [
            f"{name}.{table}"
            for name in catalog.list_databases()
            if name == begun or (not dot and name.startswith(begun))
            for table in catalog.list_tables(name)
            if f"{name}.{table}".startswith(incomplete)
        ]
    except (PaimonError, OSError):
        return []  # a shell has no place for errors


target_argument: Decorator = click.argument("target", shell_complete=_tables_like)


def _remember(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: FBT001
    ctx.meta[f"{__name__}.{param.name}"] = value


def _was_given(name: str) -> bool:
    return bool(click.get_current_context().meta.get(f"{__name__}.{name}"))


_json_option: Decorator = click.option(
    "--json", is_flag=True, expose_value=False, callback=_remember, help="Print JSON."
)
yes_option: Decorator = click.option(
    *("--yes", "-y"),
    is_flag=True,
    expose_value=False,
    callback=_remember,
    help="Do it without asking.",
)
"""For commands that `confirm` something."""


def pass_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Hand a command the `Settings`, and let it take --json, which `says_json` asks for."""
    return _json_option(click.pass_obj(command))


def says_json() -> bool:
    """Whether the command that runs was given --json."""
    return _was_given("json")


executor_option: Decorator = click.option(
    "--executor",
    type=click.Choice(["auto", "embedded", "spark"]),
    default="embedded",
    show_default=True,
    help="Who does the work; auto is spark where pyspark is installed. spark takes its master from"
    " SPARK_MASTER, local[*] by default.",
)


def key_values(_ctx: click.Context, _param: click.Parameter, items: tuple[str, ...]) -> Any:
    """Return options given as KEY=VALUE as a dictionary; a callback of click."""
    pairs = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals:
            raise click.BadParameter(f"'{item}' is not KEY=VALUE")
        pairs[key.strip()] = value.strip() or value
    return pairs


def name_and_rest(text: str, form: str) -> tuple[str, str]:
    """Return the first word of a text and what stands behind it."""
    name, _, rest = text.strip().partition(" ")
    if not rest.strip():
        raise InvalidInputError(f"'{text}' is not \"{form}\".", kind="column")
    return name, rest.strip()


def names(text: str) -> list[str]:
    """Return the names of a comma list."""
    return [name.strip() for name in text.split(",") if name.strip()]


def confirm(what: str, show: Callable[[], None] | None = None) -> None:
    """Say what will be done, and ask whether to do it, unless --yes was given."""
    if not _was_given("yes"):
        if show is not None:
            show()
        click.confirm(f"{what} Go on?", abort=True, err=True)
