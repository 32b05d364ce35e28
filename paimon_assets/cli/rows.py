"""Commands on rows: copy, write, update, delete, follow."""

import uuid
from threading import Event

import click
from msgspec.structs import replace

from paimon_assets.cli import commands, output
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.codec.row_files import RowFormat
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.all_options import MANIFEST_FORMAT
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.read.plan import as_expression
from paimon_assets.engine.table.read.read_builder import ReadBuilder
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.write.row_change import RowChangeBuilder, RowChangeOutcome

_OWN_PLACE = ("path", "branch", MANIFEST_FORMAT.key)
"""Options of the place and the metadata of a table; a copy has its own."""


@commands.command("TARGET", yes=True, executor=True)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, allow_dash=True))
@click.option(
    "--format",
    "file_format",
    type=commands.choice(RowFormat),
    help="Of the files; json for - by default.",
)
@click.option("--sep", default=",", help="The character between the columns of a CSV.")
@click.option("--commit-user", help="Name of the writer; writing again under it commits once.")
@commands.flag("--overwrite", help="Replace the partitions the rows lie in, or the whole table.")
def write(args: commands.Arguments) -> None:
    """Write the rows of FILES, in the order given, to TARGET.

    - is the standard input. All become one snapshot, or none does.
    """
    table = args.table()
    builder = table.new_write_builder()
    if args.commit_user:
        builder = builder.with_commit_user(args.commit_user)
    if args.overwrite:
        scope = "The partitions of the rows" if table.schema.partition_keys else "All rows"
        args.confirm(f"{scope} of {table.name} are replaced.", inputs=args.files)
        builder = builder.with_overwrite()
    columns = to_arrow_schema(table.schema.fields)
    with output.with_standard_input(args.files, args.file_format) as files:
        reader = output.read_files(files, args.file_format, columns, sep=args.sep)
        with output.progress("writing", None) as advance:
            rows = output.counting(reader.schema, reader, advance)
            outcome = builder.write(rows, args.new_executor())
    report, snapshot = outcome.report, outcome.snapshot
    if outcome.was_already_committed and snapshot is not None:
        line = f"already committed as snapshot {snapshot.id}; nothing written"
    else:
        done = "nothing to commit" if snapshot is None else f"snapshot {snapshot.id}"
        line = (
            f"{done}: {counted(report.rows_in, 'row')} in, {report.rows_ignored:,} ignored, "
            f"{report.rows_written:,} written"
        )
    counts = ("rows_in", "rows_ignored", "rows_written", "sequence_wraps")
    facts = {
        "snapshot_id": None if snapshot is None else snapshot.id,
        "already_committed": outcome.was_already_committed,
        **{name: getattr(report, name) for name in counts},
    }
    output.say(line, facts)
    if report.sequence_wraps and not output.is_json():
        click.echo(
            f"warning: {counted(report.sequence_wraps, 'row')} wrapped the padded sequence",
            err=True,
        )


@commands.command("SOURCE", "TARGET", executor=True)
@click.option("--where", help="Filter of the rows, as in read.")
@commands.integer("--snapshot", help="Snapshot id of SOURCE; the newest by default.")
@click.option("--tag", help="Tag of SOURCE.")
def copy(args: commands.Arguments) -> None:
    """Copy SOURCE to the new table TARGET: columns, options and rows.

    TARGET is a database.table that does not exist. Rows are written again, as a reader of SOURCE
    gets them: neither snapshots nor tags are copied. If the copy fails, TARGET stays without rows.
    """
    source, identifier = args.settings.table(args.source), Identifier.parse(args.target)
    read = source.new_read_builder().with_filter(args.where)
    if args.snapshot is not None:
        read = read.at_snapshot(args.snapshot)
    if args.tag:
        read = read.at_tag(args.tag)
    plan = read.plan()
    declared = read.read_schema().declared
    options = {key: value for key, value in declared.options.items() if key not in _OWN_PLACE}
    catalog = args.catalog
    catalog.create_database(identifier.database, ignore_if_exists=True)
    target = catalog.create_table(identifier, replace(declared, options=options))
    executor = args.new_executor()
    rows = read.read(plan, executor)
    with output.progress("copying", sum(split.row_count for split in plan.splits)) as advance:
        counting = output.counting(rows.schema, rows, advance)
        outcome = target.new_write_builder().write(counting, executor)
    snapshot = None if outcome.snapshot is None else outcome.snapshot.id
    written = outcome.report.rows_written
    facts = {"table": target.name, "snapshot_id": snapshot, "rows_written": written}
    output.say(f"{target.name} at {target.path}: {counted(written, 'row')} copied", facts)


@commands.command("TARGET", yes=True)
@click.option("--where", required=True, help="Filter, as in read.")
@commands.flag("--dry-run", help="Only count the rows.")
def delete(args: commands.Arguments) -> None:
    """Delete the rows of TARGET for which a filter is true."""
    builder = _changing(args)
    if not args.dry_run and not args.yes:
        planned = builder.with_dry_run().delete(args.where)
        args.confirm(
            f"{_rows_text(planned)} of {args.target}, for which {args.where}, will be deleted."
        )
    with output.working("deleting"):
        outcome = builder.delete(args.where)
    _show(outcome, "deleted")


@commands.command("TARGET", yes=True)
@commands.texts("--set", "assignments", required=True, help='"COLUMN = EXPRESSION".')
@click.option("--where", help="Filter, as in read.")
@commands.flag("--all", "is_all", help="Every row, instead of a filter.")
@commands.flag("--dry-run", help="Only count the rows.")
def update(args: commands.Arguments) -> None:
    """Give the rows of TARGET for which a filter is true new values."""
    if (args.where is None) is not args.is_all:
        raise click.UsageError("Give either --where, or --all for every row.")
    values = {}
    for text in args.assignments:
        name, sign, expression = text.partition("=")
        if not sign or not name.strip():
            raise InvalidInputError(f"'{text}' is not \"COLUMN = EXPRESSION\".", kind="column")
        values[name.strip()] = as_expression(expression)
    builder = _changing(args)
    if not args.dry_run and not args.yes:
        planned = builder.with_dry_run().update(values, args.where)
        which = "" if args.where is None else f", for which {args.where}"
        args.confirm(f"{_rows_text(planned)} of {args.target}{which}, will be changed.")
    with output.working("updating"):
        outcome = builder.update(values, args.where)
    _show(outcome, "updated")


def _changing(args: commands.Arguments) -> RowChangeBuilder:
    builder = args.table().new_row_change_builder()
    return builder.with_dry_run() if args.dry_run else builder


def _rows_text(outcome: RowChangeOutcome) -> str:
    matched = outcome.rows_matched
    return "an unknown number of rows" if matched is None else counted(matched, "row")


def _show(outcome: RowChangeOutcome, done: str) -> None:
    matched, snapshot, rows = outcome.rows_matched, outcome.snapshot, _rows_text(outcome)
    if snapshot is None:
        line = f"{rows} match{'es' if matched == 1 else ''}, none was {done}"
    else:
        replaced = f"{counted(outcome.files_deleted, 'file')} replaced by {outcome.files_added}"
        line = f"{rows} {done} in snapshot {snapshot.id} ({replaced})"
    facts = {
        "snapshot_id": None if snapshot is None else snapshot.id,
        "rows_matched": matched,
        "files_deleted": outcome.files_deleted,
        "files_added": outcome.files_added,
    }
    output.say(line, facts)


@commands.command("TARGET", executor=True, json=False)
@commands.names("--columns", help="Comma list of columns.")
@click.option("--where", help="Filter, as in read.")
@commands.flag("--row-kinds", help="Also deletes and old values, and the kind of rows.")
@click.option(
    "--from",
    "start",
    default="latest",
    show_default=True,
    help="earliest: the rows there are, then changes; latest; or the id of a snapshot.",
)
@click.option("--consumer", help="Go on where this consumer is, and remember how far it came.")
@commands.duration("--every", default="1 s", show_default=True, help="How often it looks.")
@commands.flag("--once", help="End when there is nothing new.")
def follow(args: commands.Arguments) -> None:
    """Print the rows that come to TARGET, as one JSON object a line.

    Until it is interrupted. With --consumer, rows that were printed and not yet remembered are
    printed again by the next one.
    """
    table, executor, consumer = args.table(), args.new_executor(), args.consumer
    position, pause = _position(table, args), Event()
    try:
        while True:
            table = table.refresh()
            read = _reading(table, args).with_consumer(
                consumer or str(uuid.uuid4()), start=position
            )
            plan = read.plan()
            for batch in read.read(plan, executor):
                # JSON lines have no columnar writer in Arrow; one Python object a row.
                for row in output.python_rows(batch):
                    click.echo(output.json_text(row))
            is_over = args.once and plan.next_snapshot == position
            position = plan.next_snapshot
            if consumer and position is not None:
                table.consumers.advance(consumer, position)
            if is_over:
                return
            if not plan.splits and not args.once:
                pause.wait(args.every / 1000)
    except KeyboardInterrupt:
        return


def _position(table: Table, args: commands.Arguments) -> int | None:
    """Return the first snapshot to follow; None follows from the rows that are stored now."""
    known = table.consumers.next_snapshot(args.consumer) if args.consumer else None
    if known is not None:
        return known
    if args.start == "earliest":
        return None
    if args.start == "latest":
        newest = table.latest_snapshot()
        return 1 if newest is None else newest.id + 1
    if not args.start.isdecimal():
        raise click.BadParameter(
            "say earliest, latest or the id of a snapshot", param_hint="--from"
        )
    return int(args.start)


def _reading(table: Table, args: commands.Arguments) -> ReadBuilder:
    builder = table.new_read_builder().with_columns(args.columns or None)
    builder = builder.with_filter(args.where)
    return builder.with_row_kinds() if args.row_kinds else builder
