"""Read the files of a split one after the other: append tables, and buckets that need no merge.

    FileRead, or several joined ─▶ read ahead in a thread, unless files are small ─▶ RowStage

Files of one range of row ids hold some columns each of the same rows; they are joined by position:

    per file: FileRead of its columns ─▶ aligned by position ─▶ live rows ─▶ one batch

A column comes from the newest file that has it, by field id; BLOB columns come from blob files, of
which several may follow each other. No row of a file is dropped before its rows are aligned.

Columns of row tracking:

    _ROW_ID            the file's; else its first row id plus the row's position
    _SEQUENCE_NUMBER   the file's; else that of the file's snapshot, in joined files the newest

Source: `org.apache.paimon.operation.RawFileSplitRead`, `DataEvolutionSplitRead`,
`org.apache.paimon.utils.ApplyRowTracking`.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.data.field_mapping import file_schema_of
from paimon_assets.engine.data.merge.sort_merge import read_ahead
from paimon_assets.engine.data.read.data_files import (
    OPENED,
    POSITION,
    FileRead,
    held_columns,
    live_rows,
    open_ahead,
    with_positions_of,
)
from paimon_assets.engine.data.read.row_stage import RowStage
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.fileio.object_clients import OBJECT_SCHEMES
from paimon_assets.engine.spec.metadata.data_file import (
    BLOB_FORMAT,
    DataFileMeta,
    group_by_row_range,
)
from paimon_assets.engine.spec.options.all_options import READ_BATCH_SIZE
from paimon_assets.engine.spec.schema.schema import (
    ROW_ID,
    SEQUENCE_NUMBER,
    TRACKING_FIELDS,
    VALUE_KIND,
)
from paimon_assets.engine.spec.types.data_types import DataField


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """Files that together hold some columns of all rows: one file, or consecutive blob files."""

    files: tuple[DataFileMeta, ...]
    held: Mapping[int, DataField]
    """Field id → column."""

    @property
    def age(self) -> tuple[int, bool]:
        """Sort key, newest first; a blob file comes after its data file."""
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
    with ExitStack() as stack:
        streams = [
            stack.enter_context(closing(_rows_of(read, sources[number], fields)))
            for number, fields in columns.items()
        ]
        aligned = (
            {name: part.column(name) for part in parts for name in part.schema.names}
            for parts in _align(streams, read, files)
        )
        joined: Iterator[pa.RecordBatch] = (
            pa.RecordBatch.from_arrays([held[name] for name in names], names=names)
            for held in aligned
        )
        if with_positions:
            joined = with_positions_of(joined, [(0, range_rows[1])])
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
    """Return number of the source → columns to read from it.

    Columns that no source has are read from the newest: there they are null.
    """
    columns: dict[int, tuple[DataField, ...]] = {}
    for field in fields:
        holders = (number for number, source in enumerate(sources) if field.id in source.held)
        number = next(holders, 0)
        columns[number] = (*columns.get(number, ()), field)
    return columns


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
    heads = [next(stream, None) for stream in streams]
    while batches := [batch for batch in heads if batch is not None]:
        if len(batches) < len(streams):
            _misaligned(read, files)
        count = min(batch.num_rows for batch in batches)
        yield [batch.slice(0, count) for batch in batches]
        heads = [
            batch.slice(count) if batch.num_rows > count else next(stream, None)
            for batch, stream in zip(batches, streams, strict=True)
        ]


def _misaligned(read: FileRead, files: Sequence[DataFileMeta]) -> NoReturn:
    paths = ", ".join(f"'{read.split.path_of(file)}'" for file in files)
    raise FormatError(
        f"Data files {paths} of table '{read.context.table}' share row ids but do not hold the"
        " same rows.",
        kind="row-range",
        details={"table": read.context.table, "path": read.split.path_of(files[0])},
    )


def read_tracked(
    read: FileRead, files: Sequence[DataFileMeta], columns: Collection[str]
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of one range of row ids, with tracking columns behind the others."""
    newest = max(files, key=lambda file: file.max_sequence_number)
    if len(files) > 1:
        batches = read_joined(read, files, with_positions=True)
    else:
        stored = [field for field in TRACKING_FIELDS if field.name in (newest.write_cols or ())]
        system_fields = tuple(field for field in stored if field.name in columns)
        physical = replace(read, system_fields=(*read.system_fields, *system_fields))
        batches = physical.batches(newest, with_positions=True)
    first_row_id = min((file.first_row_id or 0 for file in files), default=0)
    for batch in batches:
        ids: Any = pa.nulls(batch.num_rows, pa.int64())
        if newest.first_row_id is not None:
            ids = pc.add(batch.column(POSITION), pa.scalar(first_row_id, pa.int64()))
        number: Any = pa.scalar(newest.max_sequence_number, pa.int64())
        numbers = pa.repeat(number, batch.num_rows)
        rows = batch.drop_columns([POSITION])
        for name, default in ((ROW_ID.name, ids), (SEQUENCE_NUMBER.name, numbers)):
            if (
                name in columns and name in rows.schema.names
            ):  # the file may store some rows' values
                filled: Any = pc.coalesce(rows.column(name), default)
                rows = rows.set_column(rows.schema.get_field_index(name), name, filled)
            elif name in columns:
                rows = rows.append_column(name, default)
        yield rows


_SMALL_FILE_BYTES = 512 * 1024
"""Files below this size are not worth a thread."""


def read_raw(
    context: ReadContext, split: DataSplit, file_io: FileIO, threads: Threads
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of all files, in the order of the split and of the files."""
    stage = RowStage(context=context, partition=split.partition)
    has_key = context.schema.has_primary_key
    read = FileRead(
        context=context,
        split=split,
        file_io=file_io,
        fields=stage.file_fields,
        system_fields=(VALUE_KIND,) if context.keeps_kinds and has_key else (),
        predicate=context.predicate,
        batch_rows=context.schema.typed_options.get(READ_BATCH_SIZE),
        threads=threads,
    )
    tracking = {field.name for field in TRACKING_FIELDS} & set(context.columns)
    tracking -= set(context.schema.field_names)
    decoded = _batches(read, split, tracking)
    # A hand-over between threads costs more than to decode a small file.
    is_small = split.file_bytes < _SMALL_FILE_BYTES * len(split.data_files)
    with closing(decoded if is_small else read_ahead(decoded, threads)) as batches:
        for batch in batches:
            if batch.num_rows:
                yield stage.apply(batch)


def _batches(
    read: FileRead, split: DataSplit, tracking: Collection[str]
) -> Generator[pa.RecordBatch, None, None]:
    groups = list(group_by_row_range(split.data_files))
    is_far = read.file_io.spec.scheme in OBJECT_SCHEMES
    for number, files in enumerate(groups):
        if tracking:
            yield from read_tracked(read, files, tracking)
            continue
        if is_far and len(groups) == len(split.data_files):
            if number:
                open_ahead(split, read.file_io, first=number + OPENED - 1, count=1)
            read.prepare(split.data_files[number : number + OPENED])
        yield from read.batches(files[0]) if len(files) == 1 else read_joined(read, files)
