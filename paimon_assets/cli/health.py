"""The command that says which tables need upkeep."""

from typing import Any

import click

from paimon_assets.cli.commands import Arguments, command
from paimon_assets.cli.output import print_json, print_rows_grid, size_text
from paimon_assets.engine.table.system.table_health import DUE_SCORE


@command()
@click.argument("names", nargs=-1)
@click.option(
    "--score",
    type=click.IntRange(0, 100),
    default=DUE_SCORE,
    show_default=True,
    help="Ends with code 1 if a table has this score or less.",
)
@click.option("--record", metavar="TABLE", help="Append the result to this table, too.")
def health(args: Arguments) -> None:
    """Show how much upkeep the tables NAMES need, and why; worst first.

    NAMES are database.table, with * for any part; all tables by default. A score of 100 needs
    nothing, 50 or less has reached a limit. Reads metadata alone.
    """
    health = args.catalog.health(*args.names)
    rows = sorted(health.to_pylist(), key=lambda row: _order(row["score"]))
    if args.record:
        args.catalog.record_health(args.record, health)
    if args.json:
        print_json(rows)
    else:
        print_rows_grid([_line(row) for row in rows])
    if any(row["score"] is None or row["score"] <= args.score for row in rows):
        raise click.exceptions.Exit(1)


def _order(score: int | None) -> int:
    return -1 if score is None else score


def _line(row: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a row that fits a terminal."""
    size = row["total_bytes"]
    return {
        "table": f"{row['database_name']}.{row['table_name']}",
        "score": row["score"],
        "files": row["file_count"],
        "size": None if size is None else size_text(size),
        "snapshots": row["snapshot_count"],
        "reason": "cannot be read" if row["score"] is None else row["reason"],
    }
