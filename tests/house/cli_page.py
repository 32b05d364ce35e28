"""`docs/cli.md`, made from the commands by `make options`."""

from collections.abc import Iterator
from pathlib import Path

import click

from paimon_assets.cli.main import COMMANDS, main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
COMMAND = "make options"

_HEAD = f"""# The command line

Every command of `paimon-assets`; made from the commands by `{COMMAND}`. `python -m paimon_assets`
is the same. A TARGET is `database.table` of the catalog, or a table's directory; `TARGET$branch_b`
is a branch.

**Where the catalog is.** The command line says it, or `PAIMON_WAREHOUSE`, `PAIMON_URI`,
`PAIMON_TOKEN`, `PAIMON_S3_ENDPOINT` and the like, or a file: `--config`, `PAIMON_CONFIG`,
or `paimon.toml` of your configuration folder (`~/.config/paimon-assets/` on Linux):

```toml
warehouse = "/data/warehouse"

[catalogs.lake]                      # paimon-assets --catalog lake ls, or PAIMON_CATALOG=lake
warehouse = "s3://bucket/warehouse"
s3.endpoint = "http://store:9000"
```

The `paimon.toml` of a working folder is not read unless it is named. A named catalog takes
`warehouse`, `metastore` and `uri` from its own table alone. What comes first wins: options of the
command line, `--storage-options-file`, the chosen catalog, variables of the environment, the rest
of the file.

**Output.** `--json` prints JSON all through: times as ISO 8601, bytes as base64, decimals and NaN
as texts. `--out FILE` writes Parquet, Arrow, CSV or JSON lines; `--out -` writes them to a pipe,
with nothing else on the standard output, and `write TARGET -` reads them from one. Times of
commits are in UTC. Bars are shown on a terminal only. An error is one line;
`--verbose` shows the log, and where it comes from. With `--json` it is an object on the standard
error: `error`, `kind`, `message`, `details`, `exit_code`.

**Exit codes.**

| code | means |
|---|---|
| 0 | done |
| 1 | `check`, `doctor` or `health` found a fault, `maintain` failed for a table; any other error |
| 2 | the command, its input or the data is wrong; nothing was committed |
| 3, 4 | the table, database, snapshot, tag … does not exist; exists already |
| 5 | the catalog denies access |
| 6 | other writers were faster: run it again |
| 7 | the outcome of the commit is not known: look at the snapshots first |
| 8 | the storage failed |
| 9 | a file is damaged |
| 10 | this engine does not support it |
| 11 | a question was not answered with yes |
| 12 | `erase` left files that may hold such rows: foreign ones, or of no state |

**Destructive commands** list what they will delete and ask for confirmation. `--yes` answers; where
nobody can answer, nothing is done.

**Completion** of commands, options and tables: `eval "$(paimon-assets completion bash)"` in
`~/.bashrc`; zsh and fish likewise.
"""


def page() -> str:
    """Return the text of `docs/cli.md`."""
    with click.Context(main, info_name="paimon-assets") as ctx:
        return _HEAD + "\n## Before the command\n\n" + _options(main) + "".join(_sections(ctx))


def _sections(ctx: click.Context) -> Iterator[str]:
    for heading, named in COMMANDS.items():
        yield f"\n## {heading}\n"
        for name in named:
            command = main.get_command(ctx, name)
            assert command is not None
            yield from _command(command, f"paimon-assets {name}", ctx)


def _command(command: click.Command, path: str, ctx: click.Context) -> Iterator[str]:
    if isinstance(command, click.Group):
        yield f"\n### `{path.partition(' ')[2]}`\n\n{_prose(command)}\n"
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            if below is not None:
                yield from _command(below, f"{path} {name}", ctx)
        return
    usage = " ".join(command.collect_usage_pieces(ctx))
    table = _options(command)
    yield f"\n### `{path.partition(' ')[2]}`\n\n`{path} {usage}`\n\n{_prose(command)}\n"
    yield f"\n{table}" if table else ""


def _prose(command: click.Command) -> str:
    paragraphs = (command.help or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _options(command: click.Command) -> str:
    rows = [
        f"| {_cell(', '.join(f'`{name}`' for name in parameter.opts))} | {_value(parameter)} |"
        f" {_cell(parameter.help or '')} |\n"
        for parameter in command.params
        if isinstance(parameter, click.Option)
    ]
    return f"| option | value | meaning |\n|---|---|---|\n{''.join(rows)}" if rows else ""


def _value(option: click.Option) -> str:
    if option.is_flag:
        return ""
    kind = option.type
    shown = "text"
    if isinstance(kind, click.Choice):
        shown = ", ".join(f"`{choice}`" for choice in kind.choices)
    elif isinstance(kind, click.types.IntParamType):
        shown = "integer"
    elif isinstance(kind, click.Path):
        shown = "path"
    elif isinstance(kind, click.DateTime):
        shown = "time"
    default = option.default if option.show_default else None
    return f"{shown}; `{default}` by default" if isinstance(default, str | int) else shown


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
