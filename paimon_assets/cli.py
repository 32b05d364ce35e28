"""paimon-assets: tables on the command line. Stands on `engine.table`; adds no logic.

A TARGET is `database.table` in `--warehouse`, or a table directory.
"""

import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

import click
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid

from paimon_assets.engine.contract.executor import Executor
from paimon_assets.engine.embedded import ArrowRows, EmbeddedExecutor
from paimon_assets.engine.errors import InvalidInputError, PaimonError
from paimon_assets.engine.spec.schema import Schema
from paimon_assets.engine.table.api import open_catalog, open_table
from paimon_assets.engine.table.read_builder import ReadBuilder
from paimon_assets.engine.table.schema_inference import infer_schema
from paimon_assets.engine.table.system_tables import files_table, schemas_table, snapshots_table
from paimon_assets.engine.table.table import Table

_TERMINAL_ROWS = 50
_FILE_FORMATS: Mapping[str, Callable[[], pyarrow.dataset.FileFormat]] = {
    "parquet": pyarrow.dataset.ParquetFileFormat,
    "csv": pyarrow.dataset.CsvFileFormat,
    "json": pyarrow.dataset.JsonFileFormat,
    "orc": pyarrow.dataset.OrcFileFormat,
    "arrow": pyarrow.dataset.IpcFileFormat,
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Options that stand before the command's name."""

    warehouse: str | None
    options: Mapping[str, str]

    def table(self, target: str) -> Table:
        """Open TARGET."""
        if self.warehouse is not None and "/" not in target:
            return open_catalog(self.warehouse, self.options).get_table(target)
        if "/" in target or Path(target).is_dir():
            return open_table(target, self.options)
        raise InvalidInputError(
            f"'{target}' is no directory; give --warehouse to name a table in a catalog.",
            kind="target",
        )


class PaimonGroup(click.Group):
    """Turns every `PaimonError` into one clear line and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except PaimonError as error:
            raise click.ClickException(error.message) from error


def _key_values(_ctx: click.Context, _param: click.Parameter, items: tuple[str, ...]) -> Any:
    pairs = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals:
            raise click.BadParameter(f"'{item}' is not KEY=VALUE")
        pairs[key.strip()] = value.strip()
    return pairs


@click.group(cls=PaimonGroup)
@click.option("--warehouse", "-w", envvar="PAIMON_WAREHOUSE", help="Root of the catalog.")
@click.option(
    "--storage-option",
    "storage_options",
    multiple=True,
    callback=_key_values,
    help="KEY=VALUE for the storage, such as s3.endpoint=…; may be repeated.",
)
@click.version_option(package_name="paimon-assets")
@click.pass_context
def main(ctx: click.Context, warehouse: str | None, storage_options: dict[str, str]) -> None:
    """Read and write Apache Paimon tables."""
    ctx.obj = Settings(warehouse, storage_options)


def _executor_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--executor",
        type=click.Choice(["embedded", "spark"]),
        default="embedded",
        show_default=True,
        help="Who does the work; spark takes its master from SPARK_MASTER.",
    )(command)


def _new_executor(name: str) -> Executor[ArrowRows]:
    if name == "embedded":
        return EmbeddedExecutor()
    # By name, because pyspark is an extra that most commands do not need.
    module = importlib.import_module("paimon_assets.spark.executor")
    return cast("Executor[ArrowRows]", module.local_executor())


@main.command()
@click.argument("target")
@click.option("--column", "columns", multiple=True, help='"NAME TYPE"; may be repeated.')
@click.option("--like", type=click.Path(exists=True), help="Take the columns of this file.")
@click.option("--primary-key", default="", help="Comma list of columns.")
@click.option("--partition-by", default="", help="Comma list of columns.")
@click.option("--option", "options", multiple=True, callback=_key_values, help="KEY=VALUE.")
@click.option("--comment", help="What the table is for.")
@click.option("--if-not-exists", is_flag=True, help="Do nothing if the table exists.")
@click.pass_obj
def create(settings: Settings, /, target: str, **arguments: Any) -> None:
    """Create TARGET, a database.table of the warehouse."""
    if settings.warehouse is None:
        raise InvalidInputError("Creating a table needs --warehouse.", kind="target")
    schema = Schema.of(
        _columns(arguments["columns"], arguments["like"]),
        primary_keys=_names(arguments["primary_key"]),
        partition_keys=_names(arguments["partition_by"]),
        options=arguments["options"],
        comment=arguments["comment"],
    )
    catalog = open_catalog(settings.warehouse, settings.options)
    catalog.create_database(target.partition(".")[0], ignore_if_exists=True)
    table = catalog.create_table(target, schema, ignore_if_exists=arguments["if_not_exists"])
    click.echo(f"{table.name} at {table.path}, schema {table.schema.id}")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _columns(declared: tuple[str, ...], like: str | None) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    if like is not None:
        for field in infer_schema(_dataset([like], None).schema):
            columns[field.name] = field.type
    for text in declared:
        name, blank, type_text = text.strip().partition(" ")
        if not blank:
            raise InvalidInputError(f"'{text}' is not \"NAME TYPE\".", kind="column")
        columns[name] = type_text
    if not columns:
        raise InvalidInputError("Give --column or --like.", kind="column")
    return columns


@main.command()
@click.argument("target")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True))
@click.option(
    "--format", "file_format", type=click.Choice(sorted(_FILE_FORMATS)), help="Of the files."
)
@click.option("--commit-user", help="Name of the writer; writing again under it commits once.")
@_executor_option
@click.pass_obj
def write(settings: Settings, /, target: str, files: tuple[str, ...], **arguments: Any) -> None:
    """Write the rows of FILES, in the order given, to TARGET as one snapshot."""
    table = settings.table(target)
    builder = table.new_write_builder()
    if arguments["commit_user"]:
        builder = builder.with_commit_user(arguments["commit_user"])
    dataset = _dataset(list(files), arguments["file_format"])
    with _progress("writing", None) as advance:
        rows = pa.RecordBatchReader.from_batches(
            dataset.schema, _counted(dataset.to_batches(), advance)
        )
        outcome = builder.write(rows, _new_executor(arguments["executor"]))
    if outcome.was_already_committed and outcome.snapshot is not None:
        click.echo(f"already committed as snapshot {outcome.snapshot.id}; nothing written")
        return
    report = outcome.report
    done = "nothing to commit" if outcome.snapshot is None else f"snapshot {outcome.snapshot.id}"
    click.echo(
        f"{done}: {report.rows_in} rows in, {report.rows_ignored} ignored, "
        f"{report.rows_written} written"
    )
    if report.sequence_wraps:
        click.echo(f"warning: {report.sequence_wraps} rows wrapped the padded sequence", err=True)


def _dataset(files: list[str], file_format: str | None) -> pyarrow.dataset.Dataset:
    chosen = file_format or Path(files[0]).suffix.lstrip(".").lower()
    if chosen not in _FILE_FORMATS:
        raise InvalidInputError(
            f"Cannot tell the format of '{files[0]}'; give --format.", kind="input-format"
        )
    try:
        return pyarrow.dataset.dataset(files, format=_FILE_FORMATS[chosen]())
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidInputError(
            f"Cannot read {', '.join(files)} as {chosen}: {error}", kind="input-format"
        ) from error


@main.command()
@click.argument("target")
@click.option("--out", type=click.Path(), help="File ending in .parquet, .arrow, .csv or .json.")
@click.option("--columns", default="", help="Comma list of columns.")
@click.option("--where", help="Filter, such as \"dt = '2024-01-01' and v > 3\".")
@click.option("--snapshot", type=int, help="Snapshot id to read; the newest by default.")
@click.option("--limit", type=int, help="Rows at most.")
@_executor_option
@click.pass_obj
def read(settings: Settings, /, target: str, **arguments: Any) -> None:
    """Read TARGET to the terminal or to a file."""
    builder = _reading(settings.table(target), arguments)
    plan = builder.plan()
    batches = _new_executor(arguments["executor"]).map_splits(plan.context, plan.splits)
    out = arguments["out"]
    limit = arguments["limit"]
    if out is None:
        _print_rows(plan.arrow_schema, _limited(batches, limit or _TERMINAL_ROWS + 1), limit)
        return
    total = sum(split.row_count for split in plan.splits)
    with _progress("reading", total) as advance:
        rows = _counted(_limited(batches, limit), advance)
        count = _write_file(Path(out), plan.arrow_schema, rows)
    click.echo(f"{count} rows in {out}")


def _reading(table: Table, arguments: Mapping[str, Any]) -> ReadBuilder:
    columns = _names(arguments["columns"])
    builder = table.new_read_builder().with_columns(columns or None)
    builder = builder.with_filter(arguments["where"])
    if arguments["snapshot"] is not None:
        builder = builder.at_snapshot(arguments["snapshot"])
    return builder


def _limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches:
        if left is None:
            yield batch
            continue
        if left <= 0:
            return
        yield batch.slice(0, left)
        left -= batch.num_rows


def _write_file(path: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    """Write batches to a new file beside `path`, and put it in place when it is whole."""
    part = path.with_name(path.name + ".part")
    try:
        count = _write_part(path, part, schema, batches)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return count


def _write_part(
    path: Path, part: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> int:
    count = 0
    match path.suffix.lower():
        case ".parquet":
            with pq.ParquetWriter(part, schema, compression="zstd") as writer:
                for batch in batches:
                    writer.write_batch(batch)
                    count += batch.num_rows
        case ".arrow":
            with pa.OSFile(str(part), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
                    count += batch.num_rows
        case ".csv":
            with pyarrow.csv.CSVWriter(part, schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
                    count += batch.num_rows
        case ".json":
            with part.open("w", encoding="utf-8") as lines:
                for batch in batches:
                    # JSON lines have no columnar writer in Arrow; one Python object a row.
                    lines.writelines(
                        json.dumps(row, default=str, ensure_ascii=False) + "\n"
                        for row in batch.to_pylist()
                    )
                    count += batch.num_rows
        case suffix:
            _refuse_suffix(path, suffix)
    return count


def _refuse_suffix(path: Path, suffix: str) -> NoReturn:
    raise InvalidInputError(
        f"Cannot write '{path}': '{suffix}' is none of .parquet, .arrow, .csv, .json.",
        kind="output-format",
    )


@main.command()
@click.argument("target")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def schema(settings: Settings, /, target: str, *, as_json: bool) -> None:
    """Print the columns, keys and options of TARGET."""
    table = settings.table(target)
    if as_json:
        _print_json(schemas_table(table))
        return
    newest = table.schema
    grid = Grid(title=f"{table.name}, schema {newest.id}")
    for heading in ("id", "column", "type", "key", "comment"):
        grid.add_column(heading)
    for field in newest.fields:
        primary = "primary" if field.name in newest.primary_keys else ""
        partition = "partition" if field.name in newest.partition_keys else ""
        key = " ".join(part for part in (primary, partition) if part)
        grid.add_row(str(field.id), field.name, str(field.type), key, field.description or "")
    Console().print(grid)
    for option, value in sorted(newest.options.items()):
        click.echo(f"{option} = {value}")


@main.command()
@click.argument("target")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def snapshots(settings: Settings, /, target: str, *, as_json: bool) -> None:
    """List the snapshots of TARGET."""
    _print_table(snapshots_table(settings.table(target)), as_json=as_json)


@main.command()
@click.argument("target")
@click.option("--snapshot", type=int, help="Snapshot id; the newest by default.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def files(settings: Settings, /, target: str, *, snapshot: int | None, as_json: bool) -> None:
    """List the live data files of TARGET."""
    table = settings.table(target)
    _print_table(files_table(table, table.snapshot(snapshot)), as_json=as_json)


@main.command()
@click.argument("target")
@click.option("--columns", default="", help="Comma list of columns.")
@click.option("--where", help="Filter, as in read.")
@click.option("--snapshot", type=int, help="Snapshot id; the newest by default.")
@click.pass_obj
def plan(settings: Settings, /, target: str, **arguments: Any) -> None:
    """Show which splits and files a read of TARGET would open."""
    started = time.perf_counter()
    table = settings.table(target)
    planned = _reading(table, arguments).plan()
    millis = (time.perf_counter() - started) * 1000
    grid = Grid(title=f"{planned.context.table}")
    for heading in ("split", "bucket", "files", "rows", "bytes", "merge"):
        grid.add_column(heading, justify="right")
    for number, split in enumerate(planned.splits):
        grid.add_row(
            str(number),
            split.bucket_path.removeprefix(table.path).lstrip("/"),
            str(len(split.data_files)),
            str(split.row_count),
            str(split.file_bytes),
            "no" if split.raw_convertible else "yes",
        )
    Console().print(grid)
    count = sum(len(split.data_files) for split in planned.splits)
    shown = "no snapshot" if planned.snapshot is None else f"snapshot {planned.snapshot.id}"
    click.echo(f"{shown}: {len(planned.splits)} splits, {count} files, planned in {millis:.0f} ms")


def _print_table(table: pa.Table, *, as_json: bool) -> None:
    if as_json:
        _print_json(table)
    else:
        _print_rows(table.schema, iter(table.to_batches()), None)


def _print_json(table: pa.Table) -> None:
    click.echo(json.dumps(table.to_pylist(), default=str, indent=2, ensure_ascii=False))


def _print_rows(schema: pa.Schema, batches: Iterator[pa.RecordBatch], limit: int | None) -> None:
    grid = Grid()
    for name in schema.names:
        grid.add_column(name)
    shown = 0
    most = limit or _TERMINAL_ROWS
    for batch in batches:
        for row in batch.slice(0, most - shown).to_pylist():
            grid.add_row(*("" if value is None else str(value) for value in row.values()))
        shown += min(batch.num_rows, most - shown)
        if batch.num_rows and shown >= most:
            break
    Console(width=None if sys.stdout.isatty() else 200).print(grid)
    click.echo(f"{shown} rows" + (" (use --limit or --out for more)" if shown >= most else ""))


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
