"""`paimon-assets alter`: changes of a schema, and what stored values would lose by them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from paimon_assets.cli.options import (
    confirm,
    executor_option,
    key_values,
    name_and_rest,
    pass_settings,
    says_json,
    target_argument,
    yes_option,
)
from paimon_assets.cli.output import print_json, print_rows_grid, working
from paimon_assets.cli.settings import Settings, spark_session
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.evolution.schema_change import (
    OnOverflow,
    SchemaChange,
    UpdateComment,
    add_column,
    drop_column,
    move_column,
    remove_option,
    rename_column,
    set_option,
    update_column_comment,
    update_column_default_value,
    update_column_nullability,
    update_column_type,
)
from paimon_assets.engine.spec.evolution.schema_change_json import changes_from_json
from paimon_assets.engine.table.schema.schema_changes import SchemaChangePlan
from paimon_assets.executors import new_executor


@click.command()
@target_argument
@click.option("--rename-column", "renamed", multiple=True, callback=key_values, help="OLD=NEW.")
@click.option("--drop-column", "dropped", multiple=True, help="NAME; its values go for readers.")
@click.option("--add-column", "added", multiple=True, help='"NAME TYPE", put at the end.')
@click.option("--type", "typed", multiple=True, help='"NAME TYPE": another type of a column.')
@click.option("--nullable", multiple=True, help="NAME may be null.")
@click.option("--not-null", multiple=True, help="NAME may not be null any more.")
@click.option("--default", "defaults", multiple=True, callback=key_values, help="NAME=VALUE.")
@click.option("--column-comment", "comments", multiple=True, callback=key_values, help="NAME=TEXT.")
@click.option("--move", "moved", multiple=True, help='"NAME first", "… last", "… after OTHER".')
@click.option("--set", "options", multiple=True, callback=key_values, help="KEY=VALUE, an option.")
@click.option("--unset", multiple=True, help="KEY, an option.")
@click.option("--comment", help="Of the table.")
@click.option(
    "--changes",
    type=click.Path(exists=True, dir_okay=False),
    help="Also those of this file, in the JSON of REST catalogs: a list of {action, …}.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would change and what would be lost.")
@click.option("--allow-loss", is_flag=True, help="Make the change though values are lost; asks.")
@yes_option
@pass_settings
@executor_option
def alter(settings: Settings, /, target: str, **arguments: Any) -> None:
    """Change the columns and options of TARGET, all changes or none.

    In the order of the options below, each of which may be repeated. A change that would lose
    stored values is refused, with a report of them; files are not written anew.
    """
    changes = [change for kind in _KINDS for change in kind(arguments)]
    if not changes:
        raise click.UsageError("Say what to change.")
    table = settings.table(target)
    executor = lambda: new_executor(arguments["executor"], spark_session)  # noqa: E731

    def judged(plan: SchemaChangePlan) -> None:
        _show(plan)
        if plan.loses and arguments["allow_loss"]:
            confirm(f"Stored values of {table.name} are lost as shown.")

    if arguments["dry_run"]:
        with working("looking at values"):
            plan = table.plan_alter(changes, executor=executor)
        _show(plan)
        return
    overflow = OnOverflow.ALLOW if arguments["allow_loss"] else OnOverflow.REFUSE
    made = table.alter_checked(changes, on_overflow=overflow, executor=executor, judged=judged)
    if not says_json():
        done = f"schema {made.new.id}" if made.differences else f"stays at schema {made.base.id}"
        click.echo(f"{table.name}: {done}")


def _show(plan: SchemaChangePlan) -> None:
    lines = [
        {"what": it.subject, "change": it.change, "before": it.before, "after": it.after}
        for it in plan.differences
    ]
    reports = [
        {
            "column": report.column,
            "before": report.before,
            "after": report.after,
            "values": report.rows,
            "lost": report.lost,
            "exact": report.is_exact,
            "losses": {str(loss): count for loss, count in report.counts.items()},
            "examples": [example.lost.value for example in report.examples],
        }
        for report in plan.columns
    ]
    if says_json():
        print_json({"schema": plan.new.id, "differences": lines, "values": reports})
        return
    if not lines:
        click.echo("nothing would change")
        return
    print_rows_grid(lines)
    for report in plan.columns:
        click.echo(str(report))
        for example in report.examples:
            becomes = "" if example.lost.becomes is None else f", becomes {example.lost.becomes}"
            click.echo(f"  {example.lost.value} {example.lost.loss}{becomes}: {example.path}")


Changes = Iterator[SchemaChange]


def _of_columns(arguments: dict[str, Any]) -> Changes:
    for name, new_name in arguments["renamed"].items():
        yield rename_column(name, new_name)
    for name in arguments["dropped"]:
        yield drop_column(name)
    for text in arguments["added"]:
        yield add_column(*name_and_rest(text, "NAME TYPE"))
    for text in arguments["typed"]:
        yield update_column_type(*name_and_rest(text, "NAME TYPE"))
    for name in arguments["nullable"]:
        yield update_column_nullability(name, nullable=True)
    for name in arguments["not_null"]:
        yield update_column_nullability(name, nullable=False)


def _of_what_columns_say(arguments: dict[str, Any]) -> Changes:
    for name, value in arguments["defaults"].items():
        yield update_column_default_value(name, value or None)
    for name, text in arguments["comments"].items():
        yield update_column_comment(name, text or None)
    for text in arguments["moved"]:
        name, place = name_and_rest(text, "NAME PLACE")
        match place.split():
            case ["first"]:
                yield move_column(name, first=True)
            case ["last"]:
                yield move_column(name)
            case ["after", other]:
                yield move_column(name, after=other)
            case ["before", other]:
                yield move_column(name, before=other)
            case _:
                raise InvalidInputError(
                    f"'{place}' is no place; say first, last, after NAME or before NAME.",
                    kind="column",
                )


def _of_the_table(arguments: dict[str, Any]) -> Changes:
    for key, value in arguments["options"].items():
        yield set_option(key, value)
    for key in arguments["unset"]:
        yield remove_option(key)
    if arguments["comment"] is not None:
        yield UpdateComment(comment=arguments["comment"] or None)
    if arguments["changes"] is not None:
        try:
            listed = json.loads(Path(arguments["changes"]).read_text(encoding="utf-8"))
        except ValueError as error:
            raise InvalidInputError(
                f"'{arguments['changes']}' is no JSON: {error}", kind="schema-change"
            ) from error
        yield from changes_from_json(listed)


_KINDS: tuple[Callable[[dict[str, Any]], Changes], ...] = (
    _of_columns,
    _of_what_columns_say,
    _of_the_table,
)
