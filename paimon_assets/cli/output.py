"""Output of commands: grids, JSON, bars; and files that rows are read from and written to.

Grids fit a terminal; to a pipe nothing is cut.
"""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import click

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.words import counted, separator_of

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.progress import ProgressColumn
    from rich.table import Table as Grid
    from rich.text import Text

    from paimon_assets.engine.codec.row_files import RowFile


_MOST_CHARACTERS = 4_000
"""Of a value in a grid."""
_WIDTH_OF_PIPES = 10_000
"""Characters a line may have where no terminal bounds it: nothing is cut."""

_UNITS = ("KiB", "MiB", "GiB", "TiB")


def is_json() -> bool:
    """Whether the command that runs was given --json."""
    return bool(click.get_current_context().params.get("json"))


def print_rows_of(rows: Sequence[Mapping[str, Any]], shown: str = "") -> None:
    """Print rows as a grid, with --json as an array of objects; see `print_rows_grid`.

    Args:
        rows: All columns, for JSON.
        shown: Columns of the grid, such as `id=snapshot_id, size=bytes`; all by default. Sizes are
            printed as people read them.
    """
    if is_json():
        print_json(rows)
        return
    pairs = [tuple(part.split("=")) for part in shown.split(", ") if part]
    print_rows_grid([{head: _short(head, row[key]) for head, key in pairs} or row for row in rows])


def _short(heading: str, value: Any) -> Any:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return size_text(value) if heading == "size" and value is not None else value


def print_rows_grid(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows with the columns of the first one, in the texts of the JSON output."""
    from rich.table import Table as Grid

    grid = Grid()
    for name, value in (rows[0] if rows else {}).items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        grid.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in rows:
        grid.add_row(*map(_cell, row.values()))
    if rows:
        print_grid(grid)
    click.echo(counted(len(rows), "row"))


def _cell(value: Any) -> Text:
    # Text, because rich takes square brackets in a str for markup.
    from rich.text import Text

    match value:
        case None:
            return Text("")
        case bool():
            return Text(str(value).lower())
        case int():
            return Text(f"{value:,}")
        case dt.datetime():
            return Text(value.replace(tzinfo=None).isoformat(" ", "seconds"))
        case _:
            return Text(str(value))


def python_rows(rows: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
    """Return rows as Python's values; those that Python does not have, as the year 0, as texts."""
    try:
        return rows.to_pylist(maps_as_pydicts="strict")
    except (OverflowError, ValueError):
        from paimon_assets.engine.codec.arrow.arrow_values import shown_rows

        return shown_rows(rows)


def table_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a system table; texts of JSON are parsed."""
    rows = python_rows(table)
    for row in rows:
        for name, value in row.items():
            if isinstance(value, str) and value[:1] in ("{", "["):
                with suppress(ValueError):
                    row[name] = json.loads(value)
    return rows


def print_json(value: Any) -> None:
    """Print JSON; see `json_text`."""
    click.echo(json_text(value, indent=2))


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Return JSON: times as ISO 8601, bytes as base64, decimals and NaN as texts."""
    plain = _plain(value)
    return json.dumps(plain, default=_json_value, indent=indent, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Return a value without NaN and infinities, for which JSON has no numbers."""
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case Mapping():
            return {
                str(key if isinstance(key, str | int | float) else _json_value(key)): _plain(one)
                for key, one in value.items()
            }
        case list() | tuple():
            return [_plain(one) for one in value]
        case _:
            return value


def _json_value(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if isinstance(value, dt.date | dt.time) else str(value)


def say(text: str | Iterable[str], facts: Any) -> None:
    """Print a result as lines; with --json as an object of `facts`."""
    if is_json():
        print_json(facts)
        return
    for line in [text] if isinstance(text, str) else text:
        click.echo(line)


def print_json_rows(batches: Iterable[pa.RecordBatch], *, is_system: bool = False) -> None:
    """Print rows as a JSON array, a batch at a time; those of system tables as `table_rows`."""
    import pyarrow as pa

    opening = "["
    for batch in batches:
        # JSON has no columnar writer in Arrow; one Python object a row.
        table = pa.Table.from_batches([batch])
        for row in table_rows(table) if is_system else python_rows(batch):
            click.echo(f"{opening}\n  {json_text(row)}", nl=False)
            opening = ","
    click.echo("[]" if opening == "[" else "\n]")


def print_grid(grid: Grid) -> None:
    """Print a grid, as wide as the terminal."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else _WIDTH_OF_PIPES).print(grid)


def print_batches(schema: pa.Schema, batches: Iterable[pa.RecordBatch], most: int) -> None:
    """Print `most` rows; one more among the batches shows that there are more."""
    from rich.table import Table as Grid
    from rich.text import Text

    from paimon_assets.engine.codec.arrow.arrow_values import shown_rows

    grid = Grid()
    for name in schema.names:
        grid.add_column(name, overflow="fold")
    seen = 0
    for batch in batches:
        for row in shown_rows(batch.slice(0, max(0, most - seen))):
            grid.add_row(*(Text(_cut(value)) for value in row.values()))
        seen += batch.num_rows
    print_grid(grid)
    shown = min(seen, most)
    click.echo(counted(shown, "row") + (" (use --limit or --out for more)" if seen > most else ""))


def _cut(value: object) -> str:
    """Return a value for a cell; all of a long one is in `--json` and `--out`."""
    if isinstance(value, str | bytes):
        value = value[: _MOST_CHARACTERS + 1]
    text = "" if value is None else str(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


@contextmanager
def progress(
    action: str, total: int | None, noun: str = "rows"
) -> Iterator[Callable[[int, int | None], None]]:
    """Show a progress bar on stderr, if that is a terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    numbers: list[ProgressColumn] = [
        TextColumn(f"{{task.completed:,.0f}} {noun}"),
        TimeRemainingColumn(compact=True),
        TextColumn("left,"),
    ]
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *(numbers if noun else []),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
    )
    task = bar.add_task(action, total=total)

    def advance(done: int, of: int | None = None) -> None:
        if of is not None:
            bar.update(task, total=of)
        bar.advance(task, done)

    with bar:
        yield advance


@contextmanager
def working(action: str) -> Iterator[None]:
    """Show on stderr that a command is working, if that is a terminal."""
    with progress(action, None, ""):
        yield


def counting(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], advance: Callable[[int, int | None], None]
) -> pa.RecordBatchReader:
    """Return a reader of batches that counts their rows."""
    import pyarrow as pa

    def counted_batches() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            advance(batch.num_rows, None)
            yield batch

    return pa.RecordBatchReader.from_batches(schema, counted_batches())


def size_text(size: int) -> str:
    """Return bytes as people read them.

    >>> size_text(999), size_text(2_500_000)
    ('999 B', '2.4 MiB')
    """
    if size < 1024:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, len(_UNITS))
    return f"{size / 1024**power:.1f} {_UNITS[power - 1]}"


OUTPUT_FORMATS = ("parquet", "arrow", "csv", "json")
_STANDARD_OUTPUT = STANDARD_INPUT = "-"
_MOST_OF_A_LINE = 1 << 16
_CSV_OPTIONS = {
    # As our CSV files are written: null is nothing, an empty text is "".
    "null_values": [""],
    "strings_can_be_null": True,
    "quoted_strings_can_be_null": False,
}


@contextmanager
def with_standard_input(files: Sequence[str], file_format: str | None) -> Iterator[tuple[str, ...]]:
    """Return paths of files; - is a copy of the standard input, which footers need, on disk."""
    if STANDARD_INPUT not in files:
        yield tuple(files)
        return
    suffix = f".{file_format or 'json'}"
    with tempfile.NamedTemporaryFile(suffix=suffix) as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield tuple(copy.name if file == STANDARD_INPUT else file for file in files)


def read_files(
    files: Sequence[str],
    file_format: str | None,
    columns: pa.Schema | None = None,
    *,
    sep: str = ",",
) -> pa.RecordBatchReader:
    """Return the rows of files, file by file, read as they are consumed.

    Cost:
        One footer, or the first block of a text file, each.
    """
    schemas = []
    for file in files:
        with _open(file, file_format, columns, sep) as rows:
            schemas.append(rows.schema)
        _compare(file, schemas[-1], files[0], schemas[0])
    names = schemas[0].names

    def batches() -> Iterator[pa.RecordBatch]:
        for file in files:
            with _open(file, file_format, columns, sep) as rows:
                for batch in rows.batches:
                    yield batch.select(names)

    import pyarrow as pa

    return pa.RecordBatchReader.from_batches(schemas[0], batches())


@contextmanager
def _open(
    file: str, file_format: str | None, columns: pa.Schema | None, sep: str
) -> Iterator[RowFile]:
    from paimon_assets.engine.codec.row_files import RowFormat

    try:
        row_format = RowFormat(file_format or Path(file).suffix.lstrip(".").lower())
    except ValueError as error:
        raise InvalidInputError(
            f"The format of '{file}' is not known; give --format.", kind="input-format"
        ) from error
    of_tables = (RowFormat.PARQUET, RowFormat.ORC, RowFormat.JSON)
    if row_format in of_tables:
        from paimon_assets.engine.data.format.external_files import FileKind, open_external_file
        from paimon_assets.engine.fileio.local import LocalFileIO

        kind = FileKind(format=row_format.value)
        with open_external_file(LocalFileIO(), file, kind, columns) as rows:
            yield rows
        return
    import pyarrow as pa

    from paimon_assets.engine.codec.row_files import naming, open_rows

    with naming(file, row_format), pa.OSFile(file, "rb") as source:
        if row_format is RowFormat.CSV and columns is not None:
            [line, *_] = source.read(_MOST_OF_A_LINE).decode(errors="replace").splitlines() or [""]
            source.seek(0)
            mark = separator_of(line.split(sep), columns.names)
            if mark is not None:
                message = f"'{file}' has one column, '{line}'. Give --sep {mark!r}."
                raise InvalidInputError(message, kind="input-columns")
        yield open_rows(source, row_format, columns, options=_CSV_OPTIONS, sep=sep)


def _compare(file: str, schema: pa.Schema, first: str, expected: pa.Schema) -> None:
    differing = [
        f"{field.name} {field.type}"
        for one, other in ((schema, expected), (expected, schema))
        for field in one
        if field.name not in other.names or other.field(field.name).type != field.type
    ]
    if differing:
        raise InvalidInputError(
            f"'{file}' and '{first}' differ in columns ({', '.join(differing)}); write them one by "
            "one, or make them alike.",
            kind="input-columns",
        )


def write_file(
    out: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], file_format: str | None = None
) -> int:
    """Write batches to a new file beside `out`, and put it in place when it is whole."""
    import pyarrow as pa

    if out == _STANDARD_OUTPUT:
        chosen = file_format or "json"
        _check_format(out, chosen, schema)
        # A closed sink must not close the standard output.
        with pa.PythonFile(_Kept(sys.stdout.buffer), "w") as sink:
            return _write_part(chosen, sink, schema, batches, as_stream=True)
    path = Path(out)
    chosen = file_format or path.suffix.lower().lstrip(".")
    _check_format(out, chosen, schema)
    if path.is_dir():
        _refuse(out, "it is a folder.")
    if not path.parent.is_dir():
        _refuse(out, f"'{path.parent}' is no folder.")
    part = path.with_name(path.name + ".part")
    try:
        with pa.OSFile(str(part), "wb") as sink:
            count = _write_part(chosen, sink, schema, batches, as_stream=False)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return count


class _Kept(io.RawIOBase):
    """A file that ignores `close`."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._file.write(data)

    def flush(self) -> None:
        """Flush the rows written so far."""
        self._file.flush()


def _check_format(out: str, file_format: str, schema: pa.Schema) -> None:
    if file_format not in OUTPUT_FORMATS:
        known = ", ".join(f".{name}" for name in OUTPUT_FORMATS)
        _refuse(out, f"'.{file_format}' is none of {known}; name one, or give --format.")
    import pyarrow.types as pat

    nested = [field.name for field in schema if pat.is_nested(field.type)]
    if file_format == "csv" and nested:
        _refuse(
            out,
            f"CSV holds no nested columns ({', '.join(nested)}); leave them out with --columns, or "
            "write another format.",
        )


def _refuse(out: str, reason: str) -> NoReturn:
    raise InvalidInputError(f"Cannot write '{out}': {reason}", kind="output-file")


def _write_part(
    file_format: str,
    sink: Any,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    as_stream: bool,
) -> int:
    match file_format:
        case "parquet":
            import pyarrow.parquet as pq

            opened: Any = pq.ParquetWriter(sink, schema, compression="zstd")
        case "csv":
            from pyarrow.csv import CSVWriter

            opened = CSVWriter(sink, schema)
        case "arrow":
            import pyarrow as pa

            opened = (pa.ipc.new_stream if as_stream else pa.ipc.new_file)(sink, schema)
        case _:
            opened = nullcontext(_JsonLines(sink))
    count = 0
    with opened as writer:
        for batch in batches:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


class _JsonLines:
    """A writer of one JSON object a line."""

    def __init__(self, sink: Any) -> None:
        self._sink = sink

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write rows: JSON lines have no columnar writer in Arrow; one Python object a row."""
        rows = python_rows(batch)
        self._sink.write("".join(f"{json_text(row)}\n" for row in rows).encode())
