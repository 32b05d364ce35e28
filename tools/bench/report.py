"""Measurements as one table of seconds, ratios and megabytes."""

import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One run of one step of one engine."""

    engine: str
    step: str
    seconds: float
    cpu_seconds: float
    peak_mib: float
    rows: int
    checksum: tuple[int, int]
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The median of a step's runs."""

    seconds: float
    cpu_seconds: float
    peak_mib: float
    rows: int
    checksums: frozenset[tuple[int, int]]

    @staticmethod
    def of(runs: Sequence[Measurement]) -> "Summary":
        return Summary(
            seconds=statistics.median(run.seconds for run in runs),
            cpu_seconds=statistics.median(run.cpu_seconds for run in runs),
            peak_mib=statistics.median(run.peak_mib for run in runs),
            rows=runs[0].rows,
            checksums=frozenset(run.checksum for run in runs),
        )


Summaries = Mapping[tuple[str, str], Summary]
"""(engine, step) → summary."""


def summarise(measurements: Sequence[Measurement]) -> dict[tuple[str, str], Summary]:
    """Group runs by engine and step."""
    keys = dict.fromkeys((run.engine, run.step) for run in measurements)
    return {
        key: Summary.of([run for run in measurements if (run.engine, run.step) == key])
        for key in keys
    }


def machine() -> str:
    """Describe the machine, and how busy it is, in one line."""
    memory = Path("/proc/meminfo")
    kib = int(memory.read_text().split()[1]) if memory.exists() else 0
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, {kib / 2**20:.0f} GiB, "
        f"{platform.system()}, Python {platform.python_version()}, "
        f"load {os.getloadavg()[0]:.1f} (CPU seconds are the figures to trust on a busy machine)"
    )


def print_report(
    console: Console, summaries: Summaries, engines: Sequence[str], steps: Sequence[str]
) -> None:
    """Print a row per step; a ratio below 1 means that ours is faster."""
    table = Table(title="seconds · ours ÷ theirs · CPU seconds · peak MB")
    table.add_column("step")
    table.add_column("rows", justify="right")
    for engine in engines:
        table.add_column(engine, justify="right")
    for step in steps:
        ours = summaries.get((engines[0], step))
        cells = [_cell(summaries.get((engine, step)), ours) for engine in engines]
        table.add_row(step, f"{ours.rows:,}" if ours else "", *cells)
    console.print(table)


def _cell(summary: Summary | None, ours: Summary | None) -> str:
    if summary is None:
        return "-"
    ratio = ""
    if ours is not None and summary is not ours:
        ratio = f" · {ours.seconds / summary.seconds:.2f}x"
    return f"{summary.seconds:.2f}{ratio} · {summary.cpu_seconds:.1f} · {summary.peak_mib:,.0f}"


def disagreements(summaries: Summaries, engines: Sequence[str], steps: Sequence[str]) -> list[str]:
    """Return sentences about steps whose rows differ between engines."""
    found = []
    for step in steps:
        checksums = {
            engine: (summaries[engine, step].rows, *sorted(summaries[engine, step].checksums))
            for engine in engines
            if (engine, step) in summaries
        }
        if len(set(checksums.values())) > 1:
            found.append(f"{step}: engines disagree: {checksums}")
    return found
