"""paimon-assets: tables on the command line. Stands on `engine.table`; adds no logic.

A TARGET is `database.table` of the catalog, which is `--warehouse` or a REST server, or a table
directory.
"""

import errno
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.text import Text

from paimon_assets.cli.files import json_value, read_files, write_file
from paimon_assets.cli.history import HISTORY_COMMANDS
from paimon_assets.cli.rows import ROW_COMMANDS
from paimon_assets.cli.segments import SEGMENT_COMMANDS
from paimon_assets.cli.serve import serve
from paimon_assets.cli.settings import Settings, environment_options, key_values, options_of_file
from paimon_assets.cli.view_commands import views
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.codec.row_files import RowFormat
from paimon_assets.engine.contract.wire.wire import SPLIT_VERSION
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError, PaimonError, without_secrets
from paimon_assets.engine.spec.options.catalog_options import METASTORE
from paimon_assets.engine.spec.options.rest_options import URI
from paimon_assets.engine.spec.options.scan_options import (
    INCREMENTAL_BETWEEN,
    INCREMENTAL_BETWEEN_SCAN_MODE,
    SCAN_SNAPSHOT_ID,
    SCAN_TAG_NAME,
    SCAN_TIMESTAMP,
    IncrementalMode,
)
from paimon_assets.engine.spec.options.secret_options import shown_options
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.read.read_builder import ReadBuilder
from paimon_assets.engine.table.schema.schema_inference import infer_schema
from paimon_assets.engine.table.table import Table
from paimon_assets.executors import EXECUTOR_KINDS, new_executor, spark_module

_TERMINAL_ROWS = 50
_WIDTH_OF_PIPES = 10_000
"""Characters a line may have where no terminal bounds it: nothing is cut."""


class PaimonGroup(click.Group):
    """Turns every `PaimonError`, and what the disk refuses, into one clear line and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except PaimonError as error:
            raise click.ClickException(error.message) from error
        except OSError as error:
            if error.errno == errno.EPIPE:  # whoever read us has gone; click ends quietly
                raise
            raise click.ClickException(without_secrets(str(error))) from error


@click.group(cls=PaimonGroup)
@click.option("--warehouse", "-w", envvar="PAIMON_WAREHOUSE", help="Root of the catalog.")
@click.option(
    "--metastore", help="filesystem, or rest for a server; PAIMON_METASTORE. --uri says rest."
)
@click.option(
    "--uri",
    help="Where the REST catalog is; PAIMON_URI. Who asks says the environment: PAIMON_TOKEN, or"
    " PAIMON_DLF_ACCESS_KEY_ID and PAIMON_DLF_ACCESS_KEY_SECRET.",
)
@click.option(
    "--storage-option",
    "storage_options",
    multiple=True,
    callback=key_values,
    help="KEY=VALUE for the storage, such as s3.endpoint=…; may be repeated. Others see it in the "
    "list of processes: give secrets by --storage-options-file or the environment.",
)
@click.option(
    "--storage-options-file",
    envvar="PAIMON_STORAGE_OPTIONS_FILE",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="File of KEY=VALUE lines for the storage; - is the standard input.",
)
@click.version_option(package_name="paimon-assets")
@click.pass_context
def main(
    ctx: click.Context,
    warehouse: str | None,
    metastore: str | None,
    uri: str | None,
    storage_options: dict[str, str],
    storage_options_file: str | None,
) -> None:
    """Read and write Apache Paimon tables.

    Options of the storage come from --storage-option, then from --storage-options-file, then from
    variables such as PAIMON_S3_SECRET_KEY; what none of them says, from the storage's own
    environment and fsspec's configuration.
    """
    from_file = {} if storage_options_file is None else options_of_file(storage_options_file)
    flags = {METASTORE.key: metastore, URI.key: uri}
    named = environment_options() | {key: value for key, value in flags.items() if value}
    if URI.key in named:
        named.setdefault(METASTORE.key, "rest")
    ctx.obj = Settings(warehouse, {**named, **from_file, **storage_options})


def _executor_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--executor",
        type=click.Choice(sorted(EXECUTOR_KINDS)),
        default="embedded",
        show_default=True,
        help="Who does the work; spark takes its master from SPARK_MASTER, local[*] by default.",
    )(command)


def _session() -> Any:
    module = spark_module("paimon_assets.spark.session.session")
    settings = module.SparkSettings(
        master=os.environ.get("SPARK_MASTER") or "local[*]",
        driver_memory=os.environ.get("SPARK_DRIVER_MEMORY") or None,
    )
    return module.get_session(settings)


@main.command()
@click.argument("target")
@click.option("--column", "columns", multiple=True, help='"NAME TYPE"; may be repeated.')
@click.option("--like", type=click.Path(exists=True), help="Take the columns of this file.")
@click.option("--primary-key", default="", help="Comma list of columns.")
@click.option("--partition-by", default="", help="Comma list of columns.")
@click.option("--option", "options", multiple=True, callback=key_values, help="KEY=VALUE.")
@click.option("--comment", help="What the table is for.")
@click.option("--if-not-exists", is_flag=True, help="Do nothing if the table exists.")
@click.pass_obj
def create(settings: Settings, /, target: str, **arguments: Any) -> None:
    """Create TARGET, a database.table of the warehouse."""
    identifier = Identifier.parse(target)
    schema = Schema.of(
        _columns(arguments["columns"], arguments["like"]),
        primary_keys=_names(arguments["primary_key"]),
        partition_keys=_names(arguments["partition_by"]),
        options=arguments["options"],
        comment=arguments["comment"],
    )
    catalog = settings.catalog()
    catalog.create_database(identifier.database, ignore_if_exists=True)
    table = catalog.create_table(identifier, schema, ignore_if_exists=arguments["if_not_exists"])
    click.echo(f"{table.name} at {table.path}, schema {table.schema.id}")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _columns(declared: tuple[str, ...], like: str | None) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    if like is not None:
        for field in infer_schema(read_files([like], None).schema):
            columns[field.name] = field.type
    for text in declared:
        name, blank, type_text = text.strip().partition(" ")
        if not blank:
            raise InvalidInputError(f"'{text}' is not \"NAME TYPE\".", kind="column")
        if name in columns:
            raise InvalidInputError(f"Column '{name}' is given twice.", kind="column")
        columns[name] = type_text
    if not columns:
        raise InvalidInputError("Give --column or --like.", kind="column")
    return columns


@main.command()
@click.argument("target")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("--format", "file_format", type=click.Choice(sorted(RowFormat)), help="Of the files.")
@click.option("--commit-user", help="Name of the writer; writing again under it commits once.")
@_executor_option
@click.pass_obj
def write(settings: Settings, /, target: str, files: tuple[str, ...], **arguments: Any) -> None:
    """Write the rows of FILES, in the order given, to TARGET as one snapshot."""
    table = settings.table(target)
    builder = table.new_write_builder()
    if arguments["commit_user"]:
        builder = builder.with_commit_user(arguments["commit_user"])
    given = read_files(files, arguments["file_format"], to_arrow_schema(table.schema.fields))
    with _progress("writing", None) as advance:
        rows = pa.RecordBatchReader.from_batches(given.schema, _counted(given, advance))
        outcome = builder.write(rows, new_executor(arguments["executor"], _session))
    if outcome.was_already_committed and outcome.snapshot is not None:
        click.echo(f"already committed as snapshot {outcome.snapshot.id}; nothing written")
        return
    report = outcome.report
    done = "nothing to commit" if outcome.snapshot is None else f"snapshot {outcome.snapshot.id}"
    click.echo(
        f"{done}: {counted(report.rows_in, 'row')} in, {report.rows_ignored} ignored, "
        f"{report.rows_written} written"
    )
    if report.sequence_wraps:
        click.echo(
            f"warning: {counted(report.sequence_wraps, 'row')} wrapped the padded sequence",
            err=True,
        )


def _moment_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say which rows of a table's history are read."""
    for option in reversed(
        [
            click.option("--snapshot", type=int, help="Snapshot id; the newest by default."),
            click.option("--tag", help="Tag to read."),
            click.option("--timestamp", help="Time to read, such as '2024-01-31 12:00:00' (UTC)."),
            click.option("--between", help="Two snapshots or tags, 'A,B': what changed after A."),
            click.option(
                "--mode",
                type=click.Choice([mode.value for mode in IncrementalMode]),
                help="How --between looks.",
            ),
            click.option(
                "--option",
                "dynamic",
                multiple=True,
                callback=key_values,
                help="KEY=VALUE of the table for this read; may be repeated.",
            ),
        ]
    ):
        command = option(command)
    return command


@main.command()
@click.argument("target")
@click.option("--out", type=click.Path(), help="File ending in .parquet, .arrow, .csv or .json.")
@click.option("--columns", default="", help="Comma list of columns.")
@click.option("--where", help="Filter, such as \"dt = '2024-01-01' and v > 3\".")
@_moment_options
@click.option("--row-kinds", is_flag=True, help="Show what retracts too, and the kind of rows.")
@click.option(
    "--splits",
    type=click.Path(exists=True, dir_okay=False),
    help="Read the splits of this file, of `plan --out` or of Java; they say as of when.",
)
@click.option("--limit", type=click.IntRange(min=0), help="Rows at most.")
@_executor_option
@click.pass_obj
def read(settings: Settings, /, target: str, **arguments: Any) -> None:
    """Read TARGET, or a system table such as TARGET$files, to the terminal or to a file."""
    executor = new_executor(arguments["executor"], _session)
    system = settings.system_table(target, _moment(arguments))
    if system is not None:
        _refuse_for_system_tables(arguments)
        reader, total = system.to_reader(executor), None
    else:
        builder = _reading(settings.table(target), arguments)
        splits = arguments["splits"]
        plan = builder.plan_from(Path(splits).read_bytes()) if splits else builder.plan()
        reader = builder.read(plan, executor)
        total = sum(split.row_count for split in plan.splits)
    out = arguments["out"]
    limit = arguments["limit"]
    if out is None:
        most = _TERMINAL_ROWS if limit is None else limit
        _print_rows(reader.schema, _limited(reader, most + 1), most)
        return
    with _progress("reading", total) as advance:
        rows = _counted(_limited(reader, limit), advance)
        count = write_file(Path(out), reader.schema, rows)
    click.echo(f"{counted(count, 'row')} in {out}")


def _refuse_for_system_tables(arguments: Mapping[str, Any]) -> None:
    given = [name for name in ("columns", "where", "row_kinds", "splits") if arguments[name]]
    if given:
        option = given[0].replace("_", "-")
        raise InvalidInputError(f"A system table is read whole; leave out --{option}.", kind="cli")


def _moment(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the table options that the options of a command mean."""
    given = {
        SCAN_SNAPSHOT_ID.key: arguments["snapshot"],
        SCAN_TAG_NAME.key: arguments["tag"],
        SCAN_TIMESTAMP.key: arguments["timestamp"],
        INCREMENTAL_BETWEEN.key: arguments["between"],
        INCREMENTAL_BETWEEN_SCAN_MODE.key: arguments["mode"],
    }
    options = {key: str(value) for key, value in given.items() if value is not None}
    return {**arguments["dynamic"], **options}


def _reading(table: Table, arguments: Mapping[str, Any]) -> ReadBuilder:
    columns = _names(arguments["columns"])
    repeated = [name for name in columns if columns.count(name) > 1]
    if repeated:
        raise InvalidInputError(f"Column '{repeated[0]}' is asked for twice.", kind="column")
    builder = table.new_read_builder().with_columns(columns or None)
    builder = builder.with_filter(arguments["where"]).with_options(_moment(arguments))
    return builder.with_row_kinds() if arguments.get("row_kinds") else builder


def _limited(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches:
        if left is None:
            yield batch
            continue
        if left <= 0:
            return
        yield batch.slice(0, left)
        left -= batch.num_rows


@main.command()
@click.argument("target")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def schema(settings: Settings, /, target: str, *, as_json: bool) -> None:
    """Print the columns, keys and options of TARGET."""
    table = settings.table(target)
    if as_json:
        _print_json(table.system_table("schemas").to_arrow())
        return
    newest = table.schema
    grid = Grid(title=f"{table.name}, schema {newest.id}")
    for heading in ("id", "column", "type", "key", "comment"):
        grid.add_column(heading)
    for field in newest.fields:
        primary = "primary" if field.name in newest.primary_keys else ""
        partition = "partition" if field.name in newest.partition_keys else ""
        key = " ".join(part for part in (primary, partition) if part)
        cells = (str(field.id), field.name, str(field.type), key, field.description or "")
        grid.add_row(*map(Text, cells))
    _print_grid(grid)
    for option, value in sorted(shown_options(newest.options).items()):
        click.echo(f"{option} = {value}")


@main.command()
@click.argument("target")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def snapshots(settings: Settings, /, target: str, *, as_json: bool) -> None:
    """List the snapshots of TARGET."""
    _print_table(settings.table(target).system_table("snapshots").to_arrow(), as_json=as_json)


@main.command()
@click.argument("target")
@click.option("--snapshot", type=int, help="Snapshot id; the newest by default.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def files(settings: Settings, /, target: str, *, snapshot: int | None, as_json: bool) -> None:
    """List the live data files of TARGET."""
    moment = {} if snapshot is None else {SCAN_SNAPSHOT_ID.key: str(snapshot)}
    table = settings.table(target, moment)
    _print_table(table.system_table("files").to_arrow(), as_json=as_json)


@main.command()
@click.argument("target")
@click.option("--columns", default="", help="Comma list of columns.")
@click.option("--where", help="Filter, as in read.")
@_moment_options
@click.option("--row-kinds", is_flag=True, help="Plan what retracts too.")
@click.option("--out", type=click.Path(), help="Also write the splits to this file: read --splits.")
@click.option(
    "--split-version",
    type=int,
    default=SPLIT_VERSION,
    show_default=True,
    help="Of the DataSplits written: 8 is that of Paimon 1.3 to 2.0.",
)
@click.pass_obj
def plan(settings: Settings, /, target: str, **arguments: Any) -> None:
    """Show which splits and files a read of TARGET would open."""
    started = time.perf_counter()
    table = settings.table(target)
    planned = _reading(table, arguments).plan()
    millis = (time.perf_counter() - started) * 1000
    if arguments["out"]:
        Path(arguments["out"]).write_bytes(planned.to_bytes(arguments["split_version"]))
    grid = Grid(title=f"{planned.context.table}")
    for heading in ("split", "bucket", "files", "rows", "bytes", "merge"):
        grid.add_column(heading, justify="right")
    for number, split in enumerate(planned.splits):
        grid.add_row(
            str(number),
            split.bucket_path.removeprefix(table.path).lstrip("/"),
            str(len(split.before_files) + len(split.data_files)),
            str(split.row_count),
            str(split.file_bytes),
            "no" if split.raw_convertible else "yes",
        )
    _print_grid(grid)
    count = sum(len(split.before_files) + len(split.data_files) for split in planned.splits)
    shown = "no snapshot" if planned.snapshot is None else f"snapshot {planned.snapshot.id}"
    click.echo(
        f"{shown}: {counted(len(planned.splits), 'split')}, {counted(count, 'file')}, "
        f"planned in {millis:.0f} ms"
    )


for _command in (*HISTORY_COMMANDS, *ROW_COMMANDS, *SEGMENT_COMMANDS, serve, views):
    main.add_command(_command)


def _print_table(table: pa.Table, *, as_json: bool) -> None:
    if as_json:
        _print_json(table)
    else:
        _print_rows(table.schema, iter(table.to_batches()), table.num_rows)


def _print_json(table: pa.Table) -> None:
    click.echo(json.dumps(table.to_pylist(), default=json_value, indent=2, ensure_ascii=False))


def _print_grid(grid: Grid) -> None:
    Console(width=None if sys.stdout.isatty() else _WIDTH_OF_PIPES).print(grid)


def _print_rows(schema: pa.Schema, batches: Iterator[pa.RecordBatch], most: int) -> None:
    """Print `most` rows; one more among the batches shows that there are more."""
    grid = Grid()
    for name in schema.names:
        grid.add_column(name, overflow="fold")
    seen = 0
    for batch in batches:
        for row in batch.slice(0, max(0, most - seen)).to_pylist():
            # Text, because rich takes square brackets in a str for markup.
            grid.add_row(*("" if value is None else Text(str(value)) for value in row.values()))
        seen += batch.num_rows
    _print_grid(grid)
    shown = min(seen, most)
    click.echo(counted(shown, "row") + (" (use --limit or --out for more)" if seen > most else ""))


class _progress:  # noqa: N801 - used like a function
    """Show a bar on a terminal's stderr; nothing where there is none."""

    def __init__(self, what: str, total: int | None) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} rows"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            disable=not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task(what, total=total)

    def __enter__(self) -> Callable[[int], None]:
        self._bar.start()
        return lambda rows: self._bar.advance(self._task, rows)

    def __exit__(self, *_exc: object) -> None:
        self._bar.stop()


def _counted(
    batches: Iterator[pa.RecordBatch], advance: Callable[[int], None]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        advance(batch.num_rows)
        yield batch
