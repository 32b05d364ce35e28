"""Commands that read: read, plan."""

import sys
import time
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
from rich.table import Table as Grid

from paimon_assets.cli import commands, output
from paimon_assets.engine.contract.wire import SPLIT_VERSION
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.read.plan import first_rows
from paimon_assets.engine.table.read.read_builder import ReadBuilder
from paimon_assets.engine.table.table import Table

_TERMINAL_ROWS = 50
_reading_options = commands.together(
    commands.names("--columns", help="Comma list of columns."),
    click.option("--where", help="Filter, such as \"dt = '2024-01-01' and v > 3\"."),
    commands.integer("--snapshot", help="Snapshot id; the newest by default."),
    click.option("--tag", help="Tag to read."),
    click.option("--timestamp", help="Time to read, such as '2024-01-31 12:00:00' (UTC)."),
    click.option("--between", help="Two snapshots or tags, 'A,B': the changes after A."),
    click.option("--mode", type=commands.choice(opt.IncrementalMode), help="How --between looks."),
    commands.pairs(
        "--option", "options", help="KEY=VALUE of the table for this read; may be repeated."
    ),
    commands.flag("--row-kinds", help="Also deletes and old values, and the kind of rows."),
)
row_options = commands.together(
    click.option(
        "--out",
        type=click.Path(allow_dash=True),
        help="File for the rows, ending in .parquet, .arrow, .csv or .json; - is the standard"
        " output.",
    ),
    click.option(
        "--format",
        "file_format",
        type=click.Choice(output.OUTPUT_FORMATS),
        help="Of --out; by its ending if not given. json is one object a line, and the default of"
        " -.",
    ),
    click.option("--limit", type=click.IntRange(min=0), help="Rows at most."),
)
"""Options that `put_rows` takes."""


@commands.command("TARGET", executor=True)
@row_options
@_reading_options
@click.option(
    "--splits",
    type=click.Path(exists=True, dir_okay=False),
    help="Read the splits of this file, of `plan --out` or of Java; they say as of when.",
)
def read(args: commands.Arguments) -> None:
    """Read TARGET, or a system table such as TARGET$files.

    Rows go to the terminal, as JSON to a pipe, or to a file.
    """
    executor = args.new_executor()
    system = args.settings.system_table(args.target, _options(args))
    if system is not None:
        for name in ("columns", "where", "row_kinds", "splits"):
            if getattr(args, name):
                option = name.replace("_", "-")
                raise InvalidInputError(
                    f"A system table is read whole; leave out --{option}.", kind="cli"
                )
        reader, total = system.to_reader(executor), None
    else:
        limit: int | None = args.limit
        if args.out is None and not output.is_json():  # one row more shows that there are more
            limit = 1 + (_TERMINAL_ROWS if limit is None else limit)
        builder = _reading(args.table(), args).with_limit(limit)
        splits = args.splits
        plan = builder.plan_from(Path(splits).read_bytes()) if splits else builder.plan()
        reader = builder.read(plan, executor)
        total = sum(split.row_count for split in plan.splits)
    put_rows(reader, total, args, is_system=system is not None)


def put_rows(
    reader: pa.RecordBatchReader,
    total: int | None,
    args: commands.Arguments,
    *,
    is_system: bool = False,
) -> None:
    """Put rows where the options say: a file, a pipe, JSON, or the terminal."""
    out, limit = args.out, args.limit
    if out is None and not output.is_json():
        most = _TERMINAL_ROWS if limit is None else limit
        output.print_batches(reader.schema, first_rows(iter(reader), most + 1), most)
        return
    rows = iter(reader) if limit is None else first_rows(iter(reader), limit)
    if out is None:
        output.print_json_rows(rows, is_system=is_system)
        return
    with output.progress("reading", total) as advance:
        counting = output.counting(reader.schema, rows, advance)
        count = output.write_file(out, reader.schema, counting, args.file_format)
    click.echo(f"{counted(count, 'row')} in {out}", err=out == "-")


def _millis(text: str | None) -> int | None:
    try:
        return None if text is None else opt.parse_instant_ms(text)
    except ValueError as error:
        raise click.BadParameter(f"'{text}': {error}", param_hint="--timestamp") from error


def _options(args: commands.Arguments) -> dict[str, str]:
    values = {
        opt.SCAN_SNAPSHOT_ID.key: args.snapshot,
        opt.SCAN_TAG_NAME.key: args.tag,
        opt.SCAN_TIMESTAMP.key: _millis(args.timestamp),
        opt.INCREMENTAL_BETWEEN.key: args.between,
        opt.INCREMENTAL_BETWEEN_SCAN_MODE.key: args.mode,
    }
    options = {key: str(value) for key, value in values.items() if value is not None}
    return {**args.options, **options}


def _reading(table: Table, args: commands.Arguments) -> ReadBuilder:
    columns = args.columns
    repeated = [name for name in columns if columns.count(name) > 1]
    if repeated:
        raise InvalidInputError(
            f"Column '{repeated[0]}' is asked for twice; name it once.", kind="column"
        )
    builder = table.new_read_builder().with_columns(columns or None)
    builder = builder.with_filter(args.where).with_options(_options(args))
    return builder.with_row_kinds() if args.row_kinds else builder


@commands.command("TARGET")
@_reading_options
@click.option(
    "--out",
    type=click.Path(allow_dash=True),
    help="Also write the splits to this file, for `read --splits` or Java; - is the standard"
    " output, and nothing else is printed there.",
)
@commands.integer(
    "--split-version",
    default=SPLIT_VERSION,
    show_default=True,
    help="Of the DataSplits written: 8 is that of Paimon 1.3 to 2.0, 9 of 2.1.",
)
def plan(args: commands.Arguments) -> None:
    """Show which splits and files a read of TARGET would open."""
    started = time.perf_counter()
    table = args.table()
    planned = _reading(table, args).plan()
    millis = (time.perf_counter() - started) * 1000
    if args.out == "-":
        sys.stdout.buffer.write(planned.to_bytes(args.split_version))
        return
    if args.out:
        Path(args.out).write_bytes(planned.to_bytes(args.split_version))
    lines: list[dict[str, Any]] = [
        {
            "bucket": split.bucket_path.removeprefix(table.path).lstrip("/"),
            "files": [file.file_name for file in (*split.before_files, *split.data_files)],
            "rows": split.row_count,
            "bytes": split.file_bytes,
            "merge": not split.raw_convertible,
        }
        for split in planned.splits
    ]
    if output.is_json():
        snapshot = planned.snapshot
        output.print_json(
            {"snapshot_id": None if snapshot is None else snapshot.id, "splits": lines}
        )
        return
    grid = Grid(title=planned.context.table)
    for heading in ("split", "bucket", "files", "rows", "bytes", "merge"):
        grid.add_column(heading, justify="right")
    for number, line in enumerate(lines):
        merge = "yes" if line["merge"] else "no"
        grid.add_row(
            *(str(number), line["bucket"], str(len(line["files"]))),
            *(str(line["rows"]), str(line["bytes"]), merge),
        )
    output.print_grid(grid)
    count = sum(len(line["files"]) for line in lines)
    shown = "no snapshot" if planned.snapshot is None else f"snapshot {planned.snapshot.id}"
    click.echo(
        f"{shown}: {counted(len(lines), 'split')}, {counted(count, 'file')}, "
        f"planned in {millis:.0f} ms"
    )
