"""The commands `diff`, `promote` and `discard`."""

import click
from msgspec import to_builtins

from paimon_assets.cli.commands import Arguments, command, flag
from paimon_assets.cli.output import say
from paimon_assets.engine.spec.words import counted
from paimon_assets.review import comparison, operations


@command("TARGET", executor=True)
@click.option("--from", "before", default="main@latest", show_default=True, help="A state.")
@click.option("--to", "after", default="latest", show_default=True, help="Another one.")
@click.option(
    "--examples", type=click.IntRange(min=0), default=10, help="Rows to show; 0 hides all."
)
@flag("--markdown", help="Print the text of a comment.")
def diff(args: Arguments) -> None:
    """Show the rows, columns and schema that differ between two states of TARGET.

    A state is `latest`, a snapshot's id or a tag; of another branch with its name in front, such as
    `main@5` or `preview@latest`.
    """
    difference = comparison.diff(
        args.table(), args.before, args.after, executor=args.new_executor(), examples=args.examples
    )
    text = difference.markdown().rstrip() if args.markdown else difference.lines()
    say(text, to_builtins(difference))


@command("BRANCH", executor=True, yes=True)
@click.argument("tables", nargs=-1)
@flag("--dry-run", help="Only show the report.")
@flag("--markdown", help="Print the text of a comment.")
def promote(args: Arguments) -> None:
    """Make tables equal to their branch BRANCH; none if main has moved in one.

    All tables that have it, or TABLES. Exit code 6 if main has moved; no commit of main is undone.
    """
    if not args.dry_run:
        args.confirm(f"Tables become their branch {args.branch}, which is deleted.")
    report = operations.promote(
        args.branch, args.tables, args.dry_run, catalog=args.catalog, executor=args.new_executor()
    )
    texts = [
        one.markdown()
        if args.markdown
        else f"{'refused: ' + one.refusal + '. ' if one.refusal else ''}{one.diff.summary()}"
        for one in report
    ]
    promoted = sum(one.is_promoted for one in report)
    done = "Nothing was changed" if args.dry_run else f"{promoted} promoted"
    say([*texts, f"{counted(len(report), 'table')}. {done}."], to_builtins(report))
    if any(one.refusal for one in report):
        click.get_current_context().exit(6)


@command("BRANCH", yes=True)
@click.argument("tables", nargs=-1)
def discard(args: Arguments) -> None:
    """Delete the branch BRANCH of all tables, or of TABLES."""
    args.confirm(f"Branch {args.branch} is deleted, with its snapshots.")
    names = operations.discard(args.branch, args.tables, catalog=args.catalog)
    say(f"discarded: {', '.join(names) or 'none'}", {"discarded": names})
