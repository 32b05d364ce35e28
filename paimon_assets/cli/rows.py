"""Commands that change rows: delete, update."""

from typing import Any

import click

from paimon_assets.cli.options import confirm, pass_settings, target_argument, yes_option
from paimon_assets.cli.output import say, working
from paimon_assets.cli.settings import Settings
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.read.where import parse_expression
from paimon_assets.engine.table.write.row_change import RowChangeBuilder, RowChangeOutcome


@click.command()
@target_argument
@click.option("--where", required=True, help="Filter, as in read.")
@click.option("--dry-run", is_flag=True, help="Only count the rows.")
@yes_option
@pass_settings
def delete(settings: Settings, /, target: str, *, where: str, dry_run: bool) -> None:
    """Delete the rows of TARGET for which a filter is true."""
    if not dry_run:
        confirm(f"Rows of {target} for which {where} go.")
    with working("deleting"):
        outcome = _changing(settings, target, dry_run=dry_run).delete(where)
    _show(outcome, "deleted")


@click.command()
@target_argument
@click.option("--set", "assignments", multiple=True, required=True, help='"COLUMN = EXPRESSION".')
@click.option("--where", help="Filter, as in read.")
@click.option("--all", "is_all", is_flag=True, help="Every row, instead of a filter.")
@click.option("--dry-run", is_flag=True, help="Only count the rows.")
@yes_option
@pass_settings
def update(settings: Settings, /, target: str, **arguments: Any) -> None:
    """Give the rows of TARGET for which a filter is true new values."""
    where, dry_run = arguments["where"], arguments["dry_run"]
    if (where is None) is not arguments["is_all"]:
        raise click.UsageError("Give either --where, or --all for every row.")
    values = {}
    for text in arguments["assignments"]:
        name, sign, expression = text.partition("=")
        if not sign or not name.strip():
            raise InvalidInputError(f"'{text}' is not \"COLUMN = EXPRESSION\".", kind="column")
        values[name.strip()] = parse_expression(expression)
    if not dry_run:
        which = "" if where is None else f" for which {where}"
        confirm(f"Rows of {target}{which} change.")
    with working("updating"):
        outcome = _changing(settings, target, dry_run=dry_run).update(values, where)
    _show(outcome, "updated")


def _changing(settings: Settings, target: str, *, dry_run: bool) -> RowChangeBuilder:
    builder = settings.table(target).new_row_change_builder()
    return builder.with_dry_run() if dry_run else builder


def _show(outcome: RowChangeOutcome, done: str) -> None:
    matched, snapshot = outcome.rows_matched, outcome.snapshot
    rows = "an unknown number of rows" if matched is None else counted(matched, "row")
    if snapshot is None:
        line = f"{rows} match{'es' if matched == 1 else ''}, none was {done}"
    else:
        went = counted(outcome.files_deleted, "file")
        line = f"{rows} {done} in snapshot {snapshot.id}: {went} went, {outcome.files_added} came"
    facts = {
        "snapshot_id": None if snapshot is None else snapshot.id,
        "rows_matched": matched,
        "files_deleted": outcome.files_deleted,
        "files_added": outcome.files_added,
    }
    say(line, facts)
