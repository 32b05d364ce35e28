"""The end of `make demo`: each table read back and held against its expectation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import dagster as dg
import pandas as pd
import pyarrow as pa
from rich.box import SIMPLE_HEAD
from rich.table import Table as Grid

from jobs.demo import archive, expectations
from jobs.demo.home import LANDING
from jobs.demo.landing import arrived_changes
from jobs.demo.nycflights import read_planes, read_weather
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.table import Table

LOSSY = "flights_unpadded"
_NUMBERS = ("snapshot", "rows read", "rows after merge", "expected rows", "files", "seconds")


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One table of the demo after a run."""

    name: str
    snapshot_id: int
    rows_read: int
    """Rows that this run took in."""
    rows: int
    """Rows a reader gets, after the merge."""
    expected_rows: int
    files: int
    seconds: float
    """The seconds of the step that writes the table."""
    difference: str | None
    """Difference from the expectation; None without one."""


Judge = Callable[[pa.Table], tuple[int, str | None]]
"""From a table's rows to their expected number, and the difference."""


def judges(every: int) -> Mapping[str, Judge]:
    """Table of the demo → how to judge it, at a scale of every n-th flight."""
    flights = partial(expectations.expected_flights, every)
    archived = partial(archive.expected_archive, every)
    daily = partial(expectations.expected_daily_delays, every)
    departures = partial(expectations.expected_departures, every)
    return {
        "flights": _rows(flights, expectations.KEY),
        LOSSY: _number(lambda: expectations.without_padding(arrived_changes(LANDING))),
        "weather": _rows(_expected_weather, ["origin", "time_hour"]),
        "planes": _rows(read_planes, ["tailnum"]),
        "flight_archive": _rows(archived, expectations.KEY),
        "daily_delays": _rows(daily, ["month", "day", "origin"]),
        "departures": _rows(departures, expectations.KEY),
    }


def compare_tables(
    catalog: TableCatalog,
    result: dg.ExecuteInProcessResult,
    seconds: Mapping[str, float],
    *,
    every: int,
) -> list[Compared]:
    """Judge the tables that a run wrote; `seconds` has each step's time, `every` the scale."""
    return [
        _compare(catalog.get_table(f"demo.{name}"), _rows_in(result, step), seconds[step], judge)
        for name, judge in judges(every).items()
        if (step := f"demo__{name}") in seconds
    ]


def report_grid(compared: Sequence[Compared]) -> Grid:
    """The short table at the end."""
    grid = Grid(box=SIMPLE_HEAD)
    grid.add_column("table", no_wrap=True)
    for title in _NUMBERS:
        grid.add_column(title, justify="right", no_wrap=True)
    grid.add_column("", no_wrap=True)
    for table in compared:
        praise = "lossy, as computed" if table.name == f"demo.{LOSSY}" else "every value right"
        grid.add_row(
            table.name,
            str(table.snapshot_id),
            f"{table.rows_read:,}",
            f"{table.rows:,}",
            f"{table.expected_rows:,}",
            f"{table.files:,}",
            f"{table.seconds:.1f}",
            "[red]WRONG[/]" if table.difference else f"[green]{praise}[/]",
        )
    return grid


def _compare(table: Table, rows_in: int, seconds: float, judge: Judge) -> Compared:
    rows = table.new_read_builder().to_arrow()
    expected_rows, difference = judge(rows)
    snapshot = table.latest_snapshot()
    return Compared(
        name=table.name,
        snapshot_id=snapshot.id if snapshot else 0,
        rows_read=rows_in,
        rows=rows.num_rows,
        expected_rows=expected_rows,
        files=len(table.state.live_files()),
        seconds=seconds,
        difference=difference,
    )


def _rows_in(result: dg.ExecuteInProcessResult, step: str) -> int:
    """Return the ingested rows by the run's materialization; 0 if it wrote nothing."""
    events = result.asset_materializations_for_node(step)
    values = [event.metadata.get("paimon/rows_in") for event in events]
    return sum(value.value or 0 for value in values if isinstance(value, dg.IntMetadataValue))


def _rows(expect: Callable[[], pd.DataFrame], key: Sequence[str]) -> Judge:
    def judge(actual: pa.Table) -> tuple[int, str | None]:
        expected = expect()
        return len(expected), expectations.difference(actual, expected, key)

    return judge


def _number(expect: Callable[[], int]) -> Judge:
    def judge(actual: pa.Table) -> tuple[int, str | None]:
        expected = expect()
        is_right = actual.num_rows == expected
        return expected, None if is_right else f"{actual.num_rows:,} rows instead of {expected:,}"

    return judge


def _expected_weather() -> pd.DataFrame:
    return read_weather().drop(columns=["year", "month", "day", "hour"])
