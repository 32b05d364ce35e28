"""The group of all commands: errors are one line, and modules are loaded when they are called.

`--help` and the completion of a name need a command's name and summary only, and load no engine.
"""

import errno
import importlib
import traceback
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import click
from click.shell_completion import CompletionItem

from paimon_assets.engine.errors import PaimonError, without_secrets

Commands = Mapping[str, Mapping[str, tuple[str, str]]]
"""Heading of the help → name of the command → (its module below `cli`, its summary)."""


class LazyGroup(click.Group):
    """A group whose commands are in modules of their own.

    Args:
        index: Where the commands are.
        arguments: What `click.Group` takes.
    """

    def __init__(self, *, index: Commands, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._index = index
        self._modules = {
            name: module for named in index.values() for name, (module, _) in named.items()
        }

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command.

        Every `PaimonError`, and what the disk refuses, becomes one clear line and exit code 1. With
        --verbose the traceback stands before it.
        """
        try:
            return super().invoke(ctx)
        except (PaimonError, OSError) as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # whoever read us has gone; click ends quietly
            if ctx.find_root().params.get("verbose"):
                click.echo(without_secrets("".join(traceback.format_exception(error))), err=True)
            raise click.ClickException(without_secrets(str(error))) from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return sorted({*self._modules, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command."""
        module = self._modules.get(cmd_name)
        if module is None:
            return super().get_command(ctx, cmd_name)
        loaded = importlib.import_module(f"{__package__}.{module}")
        command: click.Command = getattr(loaded, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is called; one that is not there may be misspelt."""
        name, known = args[0], self.list_commands(ctx)
        if name not in known and not name.startswith("-") and not ctx.resilient_parsing:
            near = get_close_matches(name, known, n=1)
            ctx.fail(f"No such command '{name}'." + (f" Did you mean {near[0]}?" if near else ""))
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
        found = [
            CompletionItem(name, help=summary)
            for named in self._index.values()
            for name, (_, summary) in named.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)
