"""`paimon-assets follow`: rows as they are committed, until it is interrupted."""

import uuid
from threading import Event
from typing import Any

import click

from paimon_assets.cli.history import duration_ms
from paimon_assets.cli.options import executor_option, names, target_argument
from paimon_assets.cli.output import json_text
from paimon_assets.cli.settings import Settings, spark_session
from paimon_assets.engine.table.read.read_builder import ReadBuilder
from paimon_assets.engine.table.table import Table
from paimon_assets.executors import new_executor


@click.command()
@target_argument
@click.option("--columns", default="", help="Comma list of columns.")
@click.option("--where", help="Filter, as in read.")
@click.option("--row-kinds", is_flag=True, help="Show what retracts too, and the kind of rows.")
@click.option(
    "--from",
    "start",
    default="latest",
    show_default=True,
    help="earliest: the rows there are, then what changes; latest; or the id of a snapshot.",
)
@click.option("--consumer", help="Go on where this consumer is, and remember how far it came.")
@click.option("--every", default="1 s", show_default=True, help="How often it looks.")
@click.option("--once", is_flag=True, help="End when there is nothing new.")
@executor_option
@click.pass_obj
def follow(settings: Settings, /, target: str, **arguments: Any) -> None:
    """Print the rows that come to TARGET, as one JSON object a line.

    Until it is interrupted. With --consumer, rows that were printed and not yet remembered are
    printed again by the next one.
    """
    table = settings.table(target)
    executor = new_executor(arguments["executor"], spark_session)
    consumer, position = arguments["consumer"], _position(table, arguments)
    seconds = duration_ms(arguments["every"]) / 1000
    pause = Event()
    try:
        while True:
            table = table.reopened()
            read = _reading(table, arguments).with_consumer(
                consumer or str(uuid.uuid4()), start=position
            )
            plan = read.plan()
            for batch in read.read(plan, executor):
                # JSON lines have no columnar writer in Arrow; one Python object a row.
                for row in batch.to_pylist(maps_as_pydicts="strict"):
                    click.echo(json_text(row))
            is_over = arguments["once"] and plan.next_snapshot == position
            position = plan.next_snapshot
            if consumer and position is not None:
                table.consumers.advance(consumer, position)
            if is_over:
                return
            if not plan.splits and not arguments["once"]:
                pause.wait(seconds)
    except KeyboardInterrupt:
        return


def _position(table: Table, arguments: dict[str, Any]) -> int | None:
    """Return the snapshot to begin with; None begins with the rows there are."""
    consumer, start = arguments["consumer"], arguments["start"]
    known = table.consumers.next_snapshot(consumer) if consumer else None
    if known is not None:
        return known
    if start == "earliest":
        return None
    if start == "latest":
        newest = table.latest_snapshot()
        return 1 if newest is None else newest.id + 1
    if not start.isdecimal():
        raise click.BadParameter(
            "say earliest, latest or the id of a snapshot", param_hint="--from"
        )
    return int(start)


def _reading(table: Table, arguments: dict[str, Any]) -> ReadBuilder:
    builder = table.new_read_builder().with_columns(names(arguments["columns"]) or None)
    builder = builder.with_filter(arguments["where"])
    return builder.with_row_kinds() if arguments["row_kinds"] else builder
