"""The figures of a soak: a line for each day, a table of some days, a plot of all."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

SHOWN_DAYS = (1, 10, 20, 40, 60, 80, 100, 120)
_PLOTTED = (
    "seconds_a_run", "data_over_live", "disk_over_live", "metadata_bytes", "files", "live_files",
    "directories", "snapshots", "branches", "log_rewritten",
)  # fmt: skip
_WIDTH, _HEIGHT, _LEFT = 640, 90, 190


@dataclass(frozen=True, kw_only=True)
class Day:
    """The figures of one day, after its maintenance."""

    day: int
    runs: int
    seconds_a_run: float
    live_bytes: int
    data_over_live: float
    """Bytes in buckets and of segments over those of live files."""
    disk_over_live: float
    """All bytes of the warehouse and of segments over those of live files."""
    metadata_bytes: int
    """All bytes that are not in buckets: snapshots, manifests, branches, ledgers."""
    files: int
    live_files: int
    directories: int
    snapshots: int
    branches: int
    log_rewritten: float
    """Bytes that compactions of the append log wrote since day 1, over its live bytes."""
    versions: int
    """Data versions that the table had which is written on the first five days alone."""
    requested_below: int
    """Runs that were requested below it."""
    orphans: int
    """Orphans that this night's maintenance counted: there are none, for no writer is killed."""
    newest_still: int
    """The newest snapshot of that table."""

    def line(self) -> str:
        return " ".join(f"{name}={_text(value)}" for name, value in vars(self).items())


def table_text(days: Sequence[Day]) -> str:
    """Return some days as a table: a figure a line, a day a column."""
    shown = [day for day in days if day.day in SHOWN_DAYS or day is days[-1]]
    return "\n".join(
        f"{each.name:16}" + "".join(f"{_text(getattr(day, each.name)):>12}" for day in shown)
        for each in fields(Day)
    )


def plot(days: Sequence[Day]) -> str:
    """Return all days as SVG: a line for each figure, each from zero to its largest value."""
    parts = []
    for number, name in enumerate(_PLOTTED):
        values = [float(getattr(day, name)) for day in days]
        most, base = max(values) or 1.0, (number + 1) * _HEIGHT
        step = _WIDTH / max(1, len(days) - 1)
        points = " ".join(
            f"{_LEFT + step * at:.1f},{base - value / most * (_HEIGHT - 20):.1f}"
            for at, value in enumerate(values)
        )
        text = f"{name}, to {_text(most)}"
        parts.append(f'<text x="4" y="{base - 8}" font-size="12">{text}</text>')
        parts.append(f'<polyline points="{points}" fill="none" stroke="#2b6cb0"/>')
    size = f'width="{_LEFT + _WIDTH + 8}" height="{len(_PLOTTED) * _HEIGHT + 8}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" {size}>'
    return "\n".join([head, *parts, "</svg>"])


def _text(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"
