"""The files of a source, sorted by name, in parts that are merged as manifests are.

    part 100,000 names │ part 100,000 │ part 40,000 │ part 600 │ part 3 ◀─ new names
                                                      └── merged when the new ones are as many ──┘

A part is a Parquet file that never changes. What an ingestion writes is what is new, and now and
then a merge of small parts; what a tick reads is the parts among whose names the folder has some.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as papq

from paimon_assets.engine.control.segments.segment_folder import FolderFile

PART_FILES = 100_000
"""Most names of a part that is merged of others."""

_COLUMNS: dict[str, pa.DataType] = {
    "name": pa.string(),
    "size": pa.int64(),
    "modified": pa.int64(),
}
_SCHEMA = pa.schema(_COLUMNS)
_MERGED_BELOW = 2
"""A part is merged with new names if it has less than so many times as many."""
_PARTS_REMEMBERED = 4
"""The fewest parts that hold what is remembered: names are forgotten by whole parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some of the files of a ledger."""

    count: int
    first: str
    last: str
    file: str = ""
    """Name of the file that holds them; empty until it is written."""
    rows: pa.Table | None = None
    """What it will hold, until it is written."""


Read = Callable[[Part], pa.Table]
"""Returns the rows of a part, sorted by name."""


def part_of(files: Iterable[FolderFile]) -> Part:
    """Return a part that is not written yet; of at least one file."""
    ordered = sorted(files)
    rows = pa.table(
        [
            [file.name for file in ordered],
            [file.size for file in ordered],
            [file.modified_ms for file in ordered],
        ],
        schema=_SCHEMA,
    )
    return _unwritten(rows)


def _unwritten(rows: pa.Table) -> Part:
    names = rows["name"]
    return Part(count=len(rows), first=names[0].as_py(), last=names[-1].as_py(), rows=rows)


def merged(parts: Sequence[Part], read: Read, *, most: int = PART_FILES) -> tuple[Part, ...]:
    """Return parts of the same files, at most one of them not written yet: the last one.

    The oldest come first; those that are not written come last. No part of more than `most` names
    is made of older ones.
    """
    kept = [part for part in parts if part.file]
    taken = [part for part in parts if not part.file]
    count = sum(part.count for part in taken)
    while (
        taken
        and kept
        and kept[-1].count < _MERGED_BELOW * count
        and (kept[-1].count + count <= most)
    ):
        taken.append(kept.pop())
        count += taken[-1].count
    if not taken:
        return tuple(kept)
    # The newest first: of a name that was taken in again, that counts.
    rows = pa.concat_tables([read(part) for part in taken])
    order = pa.array(np.arange(len(rows)))
    ordered = rows.append_column("order", order).sort_by(
        [("name", "ascending"), ("order", "ascending")]
    )
    names = ordered["name"].to_numpy()
    is_newest = np.append(True, names[1:] != names[:-1])
    newest_of_each = ordered.drop_columns(["order"]).filter(pa.array(is_newest))
    return (*kept, _unwritten(newest_of_each.combine_chunks()))


def most_of_a_part(remembered: int | None) -> int:
    """Return how many names a part may have where only so many are remembered."""
    if remembered is None:
        return PART_FILES
    return max(1, min(PART_FILES, remembered // _PARTS_REMEMBERED))


def newest(parts: Sequence[Part], remembered: int) -> tuple[Part, ...]:
    """Return the parts that hold the last names, as many as are remembered at least."""
    kept: set[int] = set()
    count = 0
    for number in sorted(range(len(parts)), key=lambda it: parts[it].last, reverse=True):
        if count >= remembered:
            break
        kept.add(number)
        count += parts[number].count
    return tuple(part for number, part in enumerate(parts) if number in kept)


def look_up(
    files: Sequence[FolderFile], parts: Iterable[Part], read: Read
) -> tuple[list[FolderFile], list[FolderFile]]:
    """Return (files that no part has, files that a part has with another size or time).

    The files are sorted; parts are read where they may have one of them.
    """
    names = [file.name for file in files]
    is_known, is_other = np.zeros((2, len(files)), dtype=bool)
    for part in parts:
        start = bisect_left(names, part.first)
        end = bisect_right(names, part.last, start)
        if start == end:
            continue
        rows = read(part)
        found = pc.index_in(
            pa.array(names[start:end], pa.string()), value_set=rows["name"].combine_chunks()
        )
        has = found.is_valid().to_numpy(zero_copy_only=False)
        held = rows.take(found.drop_null())
        places = start + np.flatnonzero(has)
        there = [files[int(place)] for place in places]
        sizes = np.array([file.size for file in there], np.int64)
        times = np.array([file.modified_ms for file in there], np.int64)
        is_known[places] = True
        is_other[places] = (held["size"].to_numpy() != sizes) | (
            held["modified"].to_numpy() != times
        )
    return _chosen(files, ~is_known), _chosen(files, is_other)


def _chosen(files: Sequence[FolderFile], mask: np.ndarray) -> list[FolderFile]:
    return [files[int(place)] for place in np.flatnonzero(mask)]


def part_to_bytes(rows: pa.Table) -> bytes:
    """Return the bytes of a part's file."""
    sink = pa.BufferOutputStream()
    papq.write_table(rows, sink, compression="zstd", use_dictionary=False)
    return bytes(sink.getvalue())


def part_from_bytes(data: bytes) -> pa.Table:
    """Parse a part's file."""
    return papq.read_table(pa.BufferReader(data), schema=_SCHEMA)
