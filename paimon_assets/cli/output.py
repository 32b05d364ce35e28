"""Output of commands: grids, JSON, bars. Grids fit a terminal; to a pipe nothing is cut."""

import base64
import datetime as dt
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click
import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.text import Text

from paimon_assets.engine.codec.arrow.arrow_values import shown_rows
from paimon_assets.engine.spec.words import counted

_WIDTH_OF_PIPES = 10_000
"""Characters a line may have where no terminal bounds it: nothing is cut."""

_UNITS = ("KiB", "MiB", "GiB", "TiB")


def is_json() -> bool:
    """Whether the command that runs was given --json."""
    return bool(click.get_current_context().params.get("json"))


def print_rows_of(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows as a grid, with --json as an array of objects; see `print_rows_grid`."""
    if is_json():
        print_json(rows)
    else:
        print_rows_grid(rows)


def print_rows_grid(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows with the columns of the first one, in the texts of the JSON output."""
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


def table_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a system table; texts of JSON are parsed."""
    return [
        {name: _parse(value) for name, value in row.items()}
        for row in table.to_pylist(maps_as_pydicts="strict")
    ]


def _parse(value: Any) -> Any:
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


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
            return {str(_key(key)): _plain(one) for key, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
        case _:
            return value


def _key(value: Any) -> Any:
    return value if isinstance(value, str | int | float) else _json_value(value)


def _json_value(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if isinstance(value, dt.date | dt.time) else str(value)


def say(text: str | Iterable[str], facts: Any) -> None:
    """Print a result: a line or lines, with --json the facts."""
    if is_json():
        print_json(facts)
        return
    for line in [text] if isinstance(text, str) else text:
        click.echo(line)


def print_json_rows(batches: Iterable[pa.RecordBatch], *, is_system: bool = False) -> None:
    """Print rows as a JSON array, a batch at a time; those of system tables as `table_rows`."""
    opening = "["
    for batch in batches:
        # JSON has no columnar writer in Arrow; one Python object a row.
        table = pa.Table.from_batches([batch])
        for row in table_rows(table) if is_system else batch.to_pylist(maps_as_pydicts="strict"):
            click.echo(f"{opening}\n  {json_text(row)}", nl=False)
            opening = ","
    click.echo("[]" if opening == "[" else "\n]")


def print_grid(grid: Grid) -> None:
    """Print a grid, as wide as the terminal."""
    Console(width=None if sys.stdout.isatty() else _WIDTH_OF_PIPES).print(grid)


def print_batches(schema: pa.Schema, batches: Iterable[pa.RecordBatch], most: int) -> None:
    """Print `most` rows; one more among the batches shows that there are more."""
    grid = Grid()
    for name in schema.names:
        grid.add_column(name, overflow="fold")
    seen = 0
    for batch in batches:
        for row in shown_rows(batch.slice(0, max(0, most - seen))):
            grid.add_row(*("" if value is None else Text(str(value)) for value in row.values()))
        seen += batch.num_rows
    print_grid(grid)
    shown = min(seen, most)
    click.echo(counted(shown, "row") + (" (use --limit or --out for more)" if seen > most else ""))


def limited(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yield batches up to `limit` rows."""
    left = limit
    for batch in batches:
        if left is None:
            yield batch
            continue
        if left <= 0:
            return
        yield batch.slice(0, left)
        left -= batch.num_rows


@contextmanager
def progress(
    what: str, total: int | None, noun: str = "rows"
) -> Iterator[Callable[[int, int | None], None]]:
    """Show a bar on a terminal's stderr, nothing where there is none."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *([TextColumn(f"{{task.completed:,.0f}} {noun}")] if noun else []),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
    )
    task = bar.add_task(what, total=total)

    def advance(done: int, of: int | None = None) -> None:
        if of is not None:
            bar.update(task, total=of)
        bar.advance(task, done)

    with bar:
        yield advance


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on a terminal's stderr that something goes on, nothing where there is none."""
    with progress(what, None, ""):
        yield


def counting(
    batches: Iterable[pa.RecordBatch], advance: Callable[[int, int | None], None]
) -> Iterator[pa.RecordBatch]:
    """Yield batches, and count their rows."""
    for batch in batches:
        advance(batch.num_rows, None)
        yield batch


def size_text(size: int) -> str:
    """Return bytes as people read them.

    >>> size_text(999), size_text(2_500_000)
    ('999 B', '2.4 MiB')
    """
    if size < 1024:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, len(_UNITS))
    return f"{size / 1024**power:.1f} {_UNITS[power - 1]}"
