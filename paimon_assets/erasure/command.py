"""The command `erase`."""

import json
from functools import partial
from pathlib import Path

import click
from msgspec.structs import asdict

from paimon_assets.cli import commands, output
from paimon_assets.erasure import run

REMAINS = 12
"""Exit code if rows may be left where it does not reach."""


@commands.command("TARGET", yes=True, executor=True)
@click.option("--where", required=True, help="Filter, as in read.")
@click.option(
    "--history",
    type=commands.choice(run.History),
    default="keep",
    show_default=True,
    help="Whether states before the newest stay.",
)
@commands.flag("--dry-run", help="Only report.")
@commands.duration(
    "--older-than",
    default="1 d",
    show_default=True,
    help="Delete files that no state names, if they are older.",
)
@click.option("--report", type=click.Path(dir_okay=False), help="File to write the report to.")
def erase(args: commands.Arguments) -> None:
    """Erase rows of TARGET from all snapshots, tags, changelogs and branches.

    Ends with code 12 if files outside of the table, or of no state, may hold such rows.
    """
    erase_rows = partial(
        run.erase,
        args.table(),
        args.where,
        history=run.History(args.history),
        executor=args.new_executor(),
    )
    if not args.dry_run:
        args.confirm(
            f"Rows of {args.target} for which {args.where} are erased from its whole history.",
            lambda: click.echo("\n".join(erase_rows(dry_run=True).lines()), err=True),
        )
    with output.working("erasing"):
        report = erase_rows(dry_run=args.dry_run, orphans_older_than_ms=args.older_than)
    facts = {**asdict(report), "places": list(map(asdict, report.places))}
    facts["is_complete"] = report.is_complete
    if args.report:
        Path(args.report).write_text(f"{json.dumps(facts, indent=2)}\n", encoding="utf-8")
    output.say(report.lines(), facts)
    if not report.is_complete:
        raise click.exceptions.Exit(REMAINS)
