"""The task `segment-footers`: the footers of some external files, as values and bytes.

One task looks at many files of one format. Of text formats, which have no footer, the rows are
read, checked and counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.spec.metadata.simple_stats import EMPTY_STATS, SimpleStats
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.segments.segment import FileColumn

FOOTER_TASK = "segment-footers"


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterContext:
    """The context that all tasks of one import share."""

    format: str
    schema: TableSchema
    """The table's: its columns are looked for in the files, by name."""
    options: Mapping[str, str] = field(default_factory=dict)
    """How files of text formats are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterRequest:
    """The files one task looks at."""

    paths: tuple[str, ...]
    sizes: tuple[int, ...]
    """Bytes of each file, as it was listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFooter:
    """The facts of one footer."""

    rows: int
    columns: tuple[FileColumn, ...]
    """The file's own columns; equal ones of a task are one object."""
    stats_columns: tuple[str, ...] = ()
    """Table columns that `stats` describes, in order."""
    stats: SimpleStats = EMPTY_STATS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Footers:
    """The result of one task; equal schemas of files are written once."""

    layouts: tuple[tuple[tuple[FileColumn, ...], tuple[str, ...]], ...]
    """(columns, columns with statistics)."""
    numbers: tuple[int, ...]
    """Of each file's layout."""
    files: tuple[FileFooter, ...]
    """Without what their layouts say."""


def dump_footers(footers: Sequence[FileFooter]) -> bytes:
    """Encode the result of one task."""
    layouts: dict[tuple[tuple[FileColumn, ...], tuple[str, ...]], int] = {}
    numbers = tuple(
        layouts.setdefault((footer.columns, footer.stats_columns), len(layouts))
        for footer in footers
    )
    files = tuple(replace(footer, columns=(), stats_columns=()) for footer in footers)
    return dump(_Footers(layouts=tuple(layouts), numbers=numbers, files=files))


def load_footers(data: bytes) -> list[FileFooter]:
    """Inverse of `dump_footers`."""
    found = load(_Footers, data)
    layouts = (found.layouts[number] for number in found.numbers)
    return [
        replace(file, columns=columns, stats_columns=names)
        for file, (columns, names) in zip(found.files, layouts, strict=True)
    ]
