"""`paimon-assets completion`: scripts for shells that complete commands and options."""

import click
from click.shell_completion import get_completion_class

_NAME = "paimon-assets"


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
    script = kind(ctx.find_root().command, {}, _NAME, "_PAIMON_ASSETS_COMPLETE")
    click.echo(script.source())
