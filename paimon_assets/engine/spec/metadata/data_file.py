"""A data file and the statistics of its columns, as metadata has them.

Both and the manifest entry around them are named tuples: a plan makes one of each for every live
file, and a frozen dataclass takes five times as long to make.
Source: `org.apache.paimon.io.DataFileMeta`, `org.apache.paimon.stats.SimpleStats`.
"""

import time
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

EMPTY_ROW = bytes(12)
"""Serialized BinaryRow without fields: arity 0, then eight zero bytes."""


class SimpleStats(NamedTuple):
    """Statistics as they lie on disk; decode with `codec.rows.binary_row` when asked."""

    min_values: bytes
    """Serialized BinaryRow; a null minimum is unknown unless all values are null."""
    max_values: bytes
    null_counts: tuple[int | None, ...]
    """One count a column; None is unknown."""


EMPTY_STATS = SimpleStats(min_values=EMPTY_ROW, max_values=EMPTY_ROW, null_counts=())


class FileOrigin(IntEnum):
    """The writer of a file."""

    APPEND = 0
    COMPACT = 1


class DataFileMeta(NamedTuple):
    """One data file; flat, because a table may have a million of them."""

    file_name: str
    file_size: int
    """Exact bytes; readers use it as the end of the file."""
    row_count: int
    """Physical rows, before deletion vectors and merging."""
    schema_id: int
    min_key: bytes = EMPTY_ROW
    """Serialized BinaryRow of the trimmed primary key; empty row for append files."""
    max_key: bytes = EMPTY_ROW
    key_stats: SimpleStats = EMPTY_STATS
    value_stats: SimpleStats = EMPTY_STATS
    min_sequence_number: int = 0
    max_sequence_number: int = 0
    level: int = 0
    extra_files: tuple[str, ...] = ()
    creation_time: int | None = None
    """Milliseconds of the local wall clock taken as if it were UTC, as Java stores it."""
    delete_row_count: int | None = None
    """Rows of kind -U or -D; None is unknown."""
    embedded_file_index: bytes | None = None
    file_source: FileOrigin | None = None
    value_stats_cols: tuple[str, ...] | None = None
    """Columns `value_stats` describes; None means `write_cols`, else all of the file's schema."""
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None
    """Columns the file holds on data-evolution tables; None is all."""
    column_sequences: tuple[int, ...] | None = None
    """Largest sequence number of each column of the file, of data-evolution tables (Paimon 2.1).

    Travels with splits; reads do not need it. Manifests that are written here do not carry it."""

    @property
    def file_format(self) -> str:
        """The format, from the name's extension; a compression suffix is skipped.

        >>> DataFileMeta(file_name="a.json.gz", file_size=0, row_count=0, schema_id=0).file_format
        'json'
        """
        parts = self.file_name.split(".")
        if len(parts) > 2 and parts[-1] in COMPRESSION_SUFFIXES:
            return parts[-2].lower()
        return parts[-1].lower() if len(parts) > 1 else ""


INDEX_SUFFIX = ".index"
"""Behind a data file's name: the name of a file index that is a file of its own."""
COMPRESSION_SUFFIXES = frozenset({"gz", "bz2", "deflate", "snappy", "lz4", "zst"})


def wall_clock_ms(epoch_ms: int) -> int:
    """Return this machine's local time at an instant, both in milliseconds."""
    return epoch_ms + time.localtime(epoch_ms / 1000).tm_gmtoff * 1000


def instant_ms(wall_ms: int) -> int:
    """Return the instant, in epoch milliseconds, of a local time of this machine.

    >>> instant_ms(wall_clock_ms(1_700_000_000_123))
    1700000000123
    """
    seconds, millis = divmod(wall_ms, 1000)
    return int(time.mktime((*time.gmtime(seconds)[:8], -1))) * 1000 + millis


BLOB_FORMAT = "blob"
"""Format of files that hold one BLOB column, perhaps of a part of the range's rows."""


def group_by_row_range(files: Iterable[DataFileMeta]) -> list[list[DataFileMeta]]:
    """Group the files of a bucket whose ranges of row ids overlap.

    On data-evolution tables an update of some columns writes a file of the same row ids with these
    columns only; the files of a range are read side by side and joined by position.
    Source: `org.apache.paimon.operation.DataEvolutionSplitRead`.

    Cost:
        O(n log n) for n files.

    >>> def file(name, first, rows):
    ...     return DataFileMeta(
    ...         file_name=name, file_size=1, row_count=rows, schema_id=0, first_row_id=first
    ...     )
    >>> files = [file("a", 0, 5), file("b", 5, 5), file("a2", 0, 5), file("c", None, 5)]
    >>> [[file.file_name for file in group] for group in group_by_row_range(files)]
    [['a', 'a2'], ['b'], ['c']]
    """
    listed = list(files)
    tracked = sorted(
        (file.first_row_id, number)
        for number, file in enumerate(listed)
        if file.first_row_id is not None and file.row_count
    )
    group_of = list(range(len(listed)))
    leader, end = -1, -1
    for first, number in tracked:
        if first >= end:
            leader, end = number, first
        group_of[number] = leader
        end = max(end, first + listed[number].row_count)
    groups: dict[int, list[DataFileMeta]] = {}
    for number, file in enumerate(listed):
        groups.setdefault(group_of[number], []).append(file)
    return list(groups.values())


def row_ranges(files: Iterable[DataFileMeta]) -> list[list[DataFileMeta]]:
    """Return the groups of `group_by_row_range` in the order of their row ids."""
    return sorted(group_by_row_range(files), key=lambda group: group[0].first_row_id or 0)


def anchor_file(group: Iterable[DataFileMeta]) -> DataFileMeta:
    """Return the file whose deletion vector counts for all files of a range: the oldest.

    Source: `org.apache.paimon.utils.DataEvolutionUtils.retrieveAnchorFile`.
    """
    plain = (file for file in group if file.file_format != BLOB_FORMAT)
    return min(plain, key=lambda file: (file.max_sequence_number, file.file_name))


def range_row_count(group: Iterable[DataFileMeta]) -> int:
    """Return the rows of a range; a file of blobs may hold some of them only."""
    return max(file.row_count for file in group)
