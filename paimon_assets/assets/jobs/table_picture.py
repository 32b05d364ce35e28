"""Pictures and texts of a table's shape: its runs by level, its files by size."""

import base64
from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise
from math import inf

import dagster as dg

from paimon_assets.assets.metadata import grid
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.system.table_health import RunShape, TableShape

_KILO, _MEGA = 1024, 1024 * 1024
_SIZE_LIMITS: Sequence[float] = (
    *(0, 16 * _KILO, 128 * _KILO, _MEGA, 8 * _MEGA, 32 * _MEGA, 128 * _MEGA, 512 * _MEGA, inf),
)

_WIDTH, _GAP, _TITLE, _LINE = 400, 24, 28, 22
_LABEL, _BAR = 58, 150
_HISTOGRAM = 120
_MOST_SEGMENTS = 40
"""More runs than this on one level are drawn as one bar."""
_FONT = "font-family='sans-serif' font-size='11' fill='#33415c'"
_FRESH, _MERGED, _FILES = "#e07a5f", "#3d7ea6", "#81a684"

Levels = Mapping[int, Sequence[RunShape]]


def picture(panels: Mapping[str, TableShape]) -> dg.MarkdownMetadataValue:
    """Return shapes beside each other as an image: runs by level, and a histogram of file sizes."""
    data = base64.b64encode(svg(panels).encode()).decode()
    return dg.MetadataValue.md(f"![{', '.join(panels)}](data:image/svg+xml;base64,{data})")


def svg(panels: Mapping[str, TableShape]) -> str:
    """Return the picture's text; bars of all panels have one scale."""
    levels = {title: levels_of(shape) for title, shape in panels.items()}
    numbers = sorted({level for by_level in levels.values() for level in by_level}) or [0]
    widest = max(
        (_bytes(runs) for by_level in levels.values() for runs in by_level.values()), default=1
    )
    counts = {title: size_counts(shape.file_sizes) for title, shape in panels.items()}
    highest = max((count for bars in counts.values() for count in bars.values()), default=1)
    height = _TITLE + len(numbers) * _LINE + _HISTOGRAM + 44
    width = len(panels) * (_WIDTH + _GAP) + _GAP
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}'>",
        f"<rect width='{width}' height='{height}' rx='6' fill='#fbfbf8'/>",
    ]
    for number, (title, shape) in enumerate(panels.items()):
        left = _GAP + number * (_WIDTH + _GAP)
        parts.append(_text(left, 18, f"{title}: {summary(shape)}", weight="bold"))
        for line, level in enumerate(numbers):
            runs = levels[title].get(level, ())
            parts += _level(left, _TITLE + line * _LINE, level, runs, widest)
        parts += _histogram(left, _TITLE + len(numbers) * _LINE, counts[title], highest)
    return "".join([*parts, "</svg>"])


def levels_of(shape: TableShape) -> Levels:
    levels: dict[int, list[RunShape]] = {}
    for bucket in shape.buckets:
        for run in bucket.runs:
            levels.setdefault(run.level, []).append(run)
    return levels


def size_counts(sizes: Sequence[int]) -> Mapping[str, int]:
    """Return range of sizes → how many files are in it.

    >>> counts = size_counts([10, 20_000, 20_001])
    >>> counts["< 16 KB"], counts["< 128 KB"], counts["< 1 MB"]
    (1, 2, 0)
    """
    return {
        f"< {size_text(high)}" if high < inf else f"≥ {size_text(low)}": sum(
            low <= size < high for size in sizes
        )
        for low, high in pairwise(_SIZE_LIMITS)
    }


def size_text(size: float) -> str:
    """Return bytes for people.

    >>> size_text(10), size_text(2048), size_text(5.5 * 1024 * 1024)
    ('10 B', '2 KB', '5.5 MB')
    """
    value, units = float(size), ["B", "KB", "MB", "GB", "TB"]
    while value >= _KILO and len(units) > 1:
        value, units = value / _KILO, units[1:]
    return f"{value:.1f}".removesuffix(".0") + f" {units[0]}"


def summary(shape: TableShape) -> str:
    files = len(shape.file_sizes)
    return (
        f"{files:,} file{'' if files == 1 else 's'}, {size_text(shape.total_bytes)}, read "
        f"amplification {shape.read_amplification:.2f}"
    )


def levels_table(panels: Mapping[str, TableShape]) -> dg.TableMetadataValue:
    """Return the same as a table, a line for each shape and level."""
    lines = [
        {
            "when": title,
            "level": level,
            "runs": len(runs),
            "files": sum(run.file_count for run in runs),
            "bytes": _bytes(runs),
            "rows": sum(run.row_count for run in runs),
        }
        for title, shape in panels.items()
        for level, runs in sorted(levels_of(shape).items())
    ]
    return grid(lines or [{"when": ", ".join(panels), "level": None, "runs": 0}])


def _bytes(runs: Sequence[RunShape]) -> int:
    return sum(run.total_bytes for run in runs)


def _level(left: int, top: int, level: int, runs: Sequence[RunShape], widest: int) -> list[str]:
    """Draw a level as one bar, cut where its runs end."""
    color = _FRESH if level == 0 else _MERGED
    parts = [_text(left, top + 14, f"level {level}")]
    sizes = [run.total_bytes for run in runs]
    if len(sizes) > _MOST_SEGMENTS:
        sizes = [sum(sizes)]
    start = float(left + _LABEL)
    for size in sizes:
        width = max(2.0, size / max(1, widest) * _BAR)
        parts.append(_bar(start, top + 3, width, _LINE - 7, color))
        start += width + 1
    files = sum(run.file_count for run in runs)
    caption = (
        f"{counted(len(runs), 'run')}, {counted(files, 'file')}, {size_text(_bytes(runs))}"
        if runs
        else "empty"
    )
    return [*parts, _text(int(start) + 6, top + 14, caption)]


def _histogram(left: int, top: int, counts: Mapping[str, int], highest: int) -> list[str]:
    base, step = top + _HISTOGRAM, _WIDTH / len(counts)
    parts = [_text(left, top + 18, "files by size")]
    for number, (label, count) in enumerate(counts.items()):
        x, height = left + number * step, count / max(1, highest) * (_HISTOGRAM - 44)
        parts.append(_bar(x + 4, base - height, step - 8, max(height, 0.5), _FILES))
        if count:
            parts.append(_text(int(x + 6), int(base - height) - 4, f"{count:,}"))
        parts.append(_text(int(x), base + 16, label, size=9))
    return parts


def _bar(x: float, y: float, width: float, height: float, color: str) -> str:
    return (
        f"<rect x='{x:.1f}' y='{y:.1f}' width='{width:.1f}' height='{height:.1f}' fill='{color}'/>"
    )


def _text(x: int, y: int, text: str, *, weight: str = "normal", size: int = 11) -> str:
    font = _FONT.replace("'11'", f"'{size}'")
    return f"<text x='{x}' y='{y}' {font} font-weight='{weight}'>{escape(text)}</text>"
