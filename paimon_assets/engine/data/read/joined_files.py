"""Files of one range of row ids, read side by side: each holds some columns of the same rows.

    per file: FileRead of its columns ─▶ aligned by position ─▶ live rows ─▶ one batch

A column comes from the newest file that has it, by field id; BLOB columns from blob files, of which
several may follow each other. Nothing is left out of a file before its rows are aligned.
Source: `org.apache.paimon.operation.DataEvolutionSplitRead`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NoReturn

import pyarrow as pa

from paimon_assets.engine.data.deletion import live_rows, numbered
from paimon_assets.engine.data.field_mapping import file_schema_of
from paimon_assets.engine.data.read.data_files import FileRead, held_columns
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.row_ranges import BLOB_FORMAT
from paimon_assets.engine.spec.types.data_types import DataField


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """Files that together hold some columns of every row: one file, or blob files in a row."""

    files: tuple[DataFileMeta, ...]
    held: Mapping[int, DataField]
    """Field id → column."""

    @property
    def age(self) -> tuple[int, bool]:
        """Sorts the newest first; a blob file after the file it was written with."""
        return -self.files[0].max_sequence_number, self.files[0].file_format == BLOB_FORMAT

    @property
    def rows(self) -> tuple[int | None, int]:
        """(first row id, rows)."""
        return self.files[0].first_row_id, sum(file.row_count for file in self.files)

    @property
    def is_gapless(self) -> bool:
        """Whether each file begins where the one before it ends."""
        return all(
            (before.first_row_id or 0) + before.row_count == after.first_row_id
            for before, after in pairwise(self.files)
        )


def read_joined(
    read: FileRead, files: Sequence[DataFileMeta], *, with_positions: bool = False
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of a range as batches of `read.fields`, in row order."""
    sources = sorted(_sources(read, files), key=lambda source: source.age)
    columns = _columns_by_source(read.fields, sources)
    range_rows = sources[0].rows
    if any(sources[number].rows != range_rows for number in columns) or not all(
        sources[number].is_gapless for number in columns
    ):
        _misaligned(read, files)
    names = [field.name for field in read.fields]
    vectors = [vector for file in files if (vector := read.deletion_vector(file)) is not None]
    with ExitStack() as opened:
        streams = [
            opened.enter_context(closing(_rows_of(read, sources[number], fields)))
            for number, fields in columns.items()
        ]
        joined: Iterator[pa.RecordBatch] = (
            _side_by_side(rows, names) for rows in _align(streams, read, files)
        )
        if with_positions:
            joined = numbered(joined, [(0, range_rows[1])])
        yield from live_rows(joined, vectors, [(0, range_rows[1])]) if vectors else joined


def _sources(read: FileRead, files: Sequence[DataFileMeta]) -> Iterator[_Source]:
    blobs: dict[tuple[int, ...], list[DataFileMeta]] = {}
    held_of = {}
    for file in files:
        schema = file_schema_of(
            read.context.schemas_by_id, file.schema_id, read.split.path_of(file)
        )
        held = held_columns(file, schema).by_id
        if file.file_format == BLOB_FORMAT:
            key = (file.max_sequence_number, *held)
            held_of[key] = held
            blobs.setdefault(key, []).append(file)
        else:
            yield _Source(files=(file,), held=held)
    for key, parts in blobs.items():
        ordered = sorted(parts, key=lambda file: file.first_row_id or 0)
        yield _Source(files=tuple(ordered), held=held_of[key])


def _columns_by_source(
    fields: Sequence[DataField], sources: Sequence[_Source]
) -> dict[int, tuple[DataField, ...]]:
    """Return which source, by number, each column is read from.

    Columns that no source has come from the newest: there they are null.
    """
    chosen: dict[int, tuple[DataField, ...]] = {}
    for field in fields:
        holders = (number for number, source in enumerate(sources) if field.id in source.held)
        number = next(holders, 0)
        chosen[number] = (*chosen.get(number, ()), field)
    return chosen


def _rows_of(
    read: FileRead, source: _Source, fields: tuple[DataField, ...]
) -> Generator[pa.RecordBatch, None, None]:
    part = replace(read, fields=fields, predicate=None)
    for file in source.files:
        yield from part.batches(file, with_deleted=True)


def _align(
    streams: Sequence[Iterator[pa.RecordBatch]], read: FileRead, files: Sequence[DataFileMeta]
) -> Iterator[list[pa.RecordBatch]]:
    """Yield slices of equal length, one of each stream."""
    waiting = [next(stream, None) for stream in streams]
    while batches := [batch for batch in waiting if batch is not None]:
        if len(batches) < len(streams):
            _misaligned(read, files)
        count = min(batch.num_rows for batch in batches)
        yield [batch.slice(0, count) for batch in batches]
        waiting = [
            batch.slice(count) if batch.num_rows > count else next(stream, None)
            for batch, stream in zip(batches, streams, strict=True)
        ]


def _side_by_side(rows: Sequence[pa.RecordBatch], names: Sequence[str]) -> pa.RecordBatch:
    found = {name: part.column(name) for part in rows for name in part.schema.names}
    return pa.RecordBatch.from_arrays([found[name] for name in names], names=list(names))


def _misaligned(read: FileRead, files: Sequence[DataFileMeta]) -> NoReturn:
    paths = ", ".join(f"'{read.split.path_of(file)}'" for file in files)
    raise FormatError(
        f"Data files {paths} of table '{read.context.table}' share row ids but do not hold the"
        " same rows.",
        kind="row-range",
        details={"table": read.context.table, "path": read.split.path_of(files[0])},
    )
