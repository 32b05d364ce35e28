"""The tasks that read files and report on them: their requests and answers, as values and bytes.

    analyze            statistics of one split's columns, in a form that adds up
    segment-footers    the footers of some external files of one format; of text formats, which have
                       none, the rows are read, checked and counted
    overflow           the losses of casts of one data file's columns
    covered            which rows of one split's files a newer record of their key, or a delete,
                       takes out of the table: a bit a row, those of a file from a whole word on

Distinct values are counted by the smallest hashes: as long as a column has fewer than `MOST_HASHES`
of them the number is exact, beyond that an estimate within about 2 % (one standard deviation).
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from msgspec import field
from msgspec.structs import replace

from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.spec.metadata.data_file import EMPTY_STATS, DataFileMeta, SimpleStats
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.segments.segment import FileColumn
from paimon_assets.engine.spec.segments.text_options import TextOptions
from paimon_assets.engine.spec.types.cast_fit import Loss
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.types.literals import Internal
from paimon_assets.engine.spec.values import Value

ANALYZE_TASK = "analyze"
COVERED_TASK = "covered"
WORD_BITS = 64
MOST_HASHES = 4096
_HASHES = 2.0**64

Bound = tuple[Internal, str]
"""(internal value, the same as Java casts it to a text)."""


class ColumnSummary(Value):
    nulls: int = 0
    minimum: Bound | None = None
    maximum: Bound | None = None
    total_bytes: int = 0
    """The bytes of all values that are not null."""
    longest_bytes: int = 0
    hashes: tuple[int, ...] | None = ()
    """The smallest hashes, ascending; None for types whose values are not distinguished."""

    @property
    def distinct_count(self) -> int | None:
        """Distinct values without null, exact or estimated; None is unknown."""
        if self.hashes is None or len(self.hashes) < MOST_HASHES:
            return None if self.hashes is None else len(self.hashes)
        return round((MOST_HASHES - 1) / (self.hashes[-1] / _HASHES))


class RowSummary(Value):
    rows: int
    columns: tuple[ColumnSummary, ...]

    def average_bytes(self, column: ColumnSummary) -> int | None:
        """Return the average length of values, rounded up; None without any."""
        known = self.rows - column.nulls
        return -(-column.total_bytes // known) if known else None


def join_summaries(summaries: Iterable[RowSummary], width: int) -> RowSummary:
    """Add up the statistics of several splits."""
    all_rows = list(summaries)
    columns = (_join([part.columns[number] for part in all_rows]) for number in range(width))
    return RowSummary(rows=sum(part.rows for part in all_rows), columns=tuple(columns))


def _join(parts: list[ColumnSummary]) -> ColumnSummary:
    def first(bound: Bound) -> Any:
        return bound[0]

    hashes: set[int] | None = set()
    for part in parts:
        hashes = None if hashes is None or part.hashes is None else hashes.union(part.hashes)
    return ColumnSummary(
        nulls=sum(part.nulls for part in parts),
        minimum=min((p.minimum for p in parts if p.minimum is not None), key=first, default=None),
        maximum=max((p.maximum for p in parts if p.maximum is not None), key=first, default=None),
        total_bytes=sum(part.total_bytes for part in parts),
        longest_bytes=max((part.longest_bytes for part in parts), default=0),
        hashes=None if hashes is None else tuple(sorted(hashes)[:MOST_HASHES]),
    )


FOOTER_TASK = "segment-footers"


class FooterContext(Value):
    """The context that all tasks of one import share."""

    format: str
    schema: TableSchema
    """The table's: its columns are looked for in the files, by name."""
    options: Mapping[str, str] = field(default_factory=dict)
    """How files of text formats are written."""


class FooterRequest(Value):
    """The files one task looks at."""

    paths: tuple[str, ...]
    sizes: tuple[int, ...]
    """Bytes of each file, as it was listed."""


class FileFooter(Value):
    rows: int
    columns: tuple[FileColumn, ...]
    """The file's own columns; equal ones of a task are one object."""
    stats_columns: tuple[str, ...] = ()
    """Table columns that `stats` describes, in order."""
    stats: SimpleStats = EMPTY_STATS


class _Footers(Value):
    """The result of one task; equal schemas of files are written once."""

    layouts: tuple[tuple[tuple[FileColumn, ...], tuple[str, ...]], ...]
    """(columns, columns with statistics)."""
    numbers: tuple[int, ...]
    """Of each file's layout."""
    files: tuple[FileFooter, ...]
    """Without their layouts."""


def dump_footers(footers: Sequence[FileFooter]) -> bytes:
    layouts: dict[tuple[tuple[FileColumn, ...], tuple[str, ...]], int] = {}
    numbers = tuple(
        layouts.setdefault((footer.columns, footer.stats_columns), len(layouts))
        for footer in footers
    )
    files = tuple(replace(footer, columns=(), stats_columns=()) for footer in footers)
    return dump(_Footers(layouts=tuple(layouts), numbers=numbers, files=files))


def load_footers(data: bytes) -> list[FileFooter]:
    found = load(_Footers, data)
    layouts = (found.layouts[number] for number in found.numbers)
    return [
        replace(file, columns=columns, stats_columns=names)
        for file, (columns, names) in zip(found.files, layouts, strict=True)
    ]


OVERFLOW_TASK = "overflow"


class OverflowContext(Value):
    """The context that all tasks of one overflow report share."""

    table: str
    options: Mapping[str, str]
    """The table's: they say how it casts."""
    batch_rows: int
    examples: int
    """Values to show of each kind of loss, at most."""


class CastColumn(Value):
    """One column of a file, and its new type."""

    held: DataField
    """As the file has it."""
    wanted: DataField
    """As it will be read."""
    forbids_null: bool = False
    """Whether nulls are a loss: the column becomes NOT NULL."""


class OverflowRequest(Value):
    path: str
    file: DataFileMeta
    columns: tuple[CastColumn, ...]
    text_options: TextOptions | None = None
    """How a file of a text segment is written; None for other files."""


class LostValue(Value):
    """An example of a value that is not kept."""

    loss: Loss
    value: str | None
    becomes: str | None = None


class ColumnLosses(Value):
    """The losses of one column in one file."""

    column: str
    """Name it will be read by."""
    rows: int
    counts: Mapping[Loss, int] = field(default_factory=dict)
    unjudged: int = 0
    """Rows that were not looked at, because so many before them could not be cast."""
    examples: tuple[LostValue, ...] = ()


class OverflowResult(Value):
    """The losses of one file, column by column: the result of one task."""

    columns: tuple[ColumnLosses, ...]


def row_starts(files: Sequence[DataFileMeta]) -> list[int]:
    """Return the number of the first bit of each file in an answer of `covered`, and the end."""
    words = (-(-file.row_count // WORD_BITS) for file in files)
    return [WORD_BITS * word for word in accumulate(words, initial=0)]
