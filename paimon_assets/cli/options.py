"""Options that several commands have; loads no engine."""

from collections.abc import Callable
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

json_option: Decorator = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_AS_JSON = "paimon_assets.cli.as_json"


def _remember(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001
    ctx.meta[_AS_JSON] = value


said_option: Decorator = click.option(
    "--json", is_flag=True, expose_value=False, callback=_remember, help="Print JSON."
)
"""For commands that print by `output.say`, which asks `says_json`."""


def says_json() -> bool:
    """Whether the command that runs was given the option of `said_option`."""
    return bool(click.get_current_context().meta.get(_AS_JSON))


yes_option: Decorator = click.option("--yes", "-y", is_flag=True, help="Do it without asking.")
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


def names(text: str) -> list[str]:
    """Return the names of a comma list."""
    return [name.strip() for name in text.split(",") if name.strip()]


def confirm(what: str, *, yes: bool) -> None:
    """Say what will be done, and ask whether to do it.

    Raises:
        Abort: No; also where nobody can be asked.
    """
    if not yes:
        click.confirm(f"{what} Go on?", abort=True, err=True)
