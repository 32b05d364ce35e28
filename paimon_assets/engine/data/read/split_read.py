"""Read one split: choose between reading files as they are and merging them.

    append table, or nothing to merge   read_raw      files one after the other, or joined
    streaming: every record counts      read_raw      the same, with their kinds
    primary-key table                   read_merged   newest record of each key
    before-files                        read_diff     the difference of two states of a bucket

The difference:

    before-files ─▶ read_merged ─▶ all as -D ┐
                                             ├─▶ merge_runs ─▶ -D only before, +I only after,
    data files   ─▶ read_merged ─▶ all as +I ┘                 +U in both but not equal

Both states are read filtered and in key order, so memory is that of two merged reads. On a table
without key, deleted files give -D and new files give +I.

Files of one range of row ids hold some columns each of the same rows; they are joined by position:

    per file: FileRead of its columns ─▶ aligned by position ─▶ live rows ─▶ one batch

A column is read from the newest file that has it, by field id; BLOB columns from blob files, of
which several may follow each other. No row of a file is dropped before its rows are aligned.

Columns of row tracking:

    _ROW_ID            the file's; else its first row id plus the row's position
    _SEQUENCE_NUMBER   the file's; else that of the file's snapshot, in joined files the newest

The schema of a file whose `schema-N` is gone is read from the field ids inside the file. Parquet
and ORC files carry these; Avro files do not.
Source: `org.apache.paimon.table.source.splitread`, `org.apache.paimon.operation.RawFileSplitRead`,
`DataEvolutionSplitRead`, `org.apache.paimon.utils.ApplyRowTracking`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.arrow_types import from_arrow_type, to_arrow_type
from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.data.field_mapping import file_schema_of
from paimon_assets.engine.data.format.formats import open_reader
from paimon_assets.engine.data.read.data_files import (
    OPENED,
    POSITION,
    PREPARED,
    FileRead,
    held_columns,
    live_rows,
    open_ahead,
    with_positions_of,
)
from paimon_assets.engine.data.read.row_stage import RowStage
from paimon_assets.engine.data.threads import CALLER_ONLY, Threads, read_ahead
from paimon_assets.engine.errors import FormatError, InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.data_file import (
    BLOB_FORMAT,
    DataFileMeta,
    group_by_row_range,
)
from paimon_assets.engine.spec.options.all_options import READ_BATCH_SIZE
from paimon_assets.engine.spec.predicate.predicate import fields_of, only_on
from paimon_assets.engine.spec.schema.schema import (
    ROW_ID,
    ROW_KIND,
    SEQUENCE_NUMBER,
    TRACKING_FIELDS,
    VALUE_KIND,
)
from paimon_assets.engine.spec.types.data_types import DataField, RowKind
from paimon_assets.engine.spec.values import Value

if TYPE_CHECKING:
    from paimon_assets.engine.data.read.merge_file_split_read import Selection

Batches = Generator[pa.RecordBatch, None, None]


def read_diff(context: ReadContext, split: DataSplit, file_io: FileIO, threads: Threads) -> Batches:
    """Yield the rows that differ: with their kind, or only rows of the newer state."""
    has_key = context.schema.has_primary_key
    columns = context.schema.field_names
    if has_key:
        whole = replace(context, columns=columns)
    else:
        stored = tuple(name for name in context.columns if name != ROW_KIND.name)
        whole = replace(context, columns=stored or columns[:1])
    before = replace(
        split,
        data_files=split.before_files,
        deletion_files=split.before_deletion_files,
        before_files=(),
        before_deletion_files=None,
    )
    after = replace(split, before_files=(), before_deletion_files=None)
    stage = RowStage(context=replace(context, predicate=None), partition=split.partition)
    from paimon_assets.engine.data.read.merge_file_split_read import read_merged

    read = read_merged if has_key else read_raw
    streams = [
        _as(RowKind.DELETE, read(whole, before, file_io, threads)),
        _as(RowKind.INSERT, read(whole, after, file_io, threads)),
    ]
    if not has_key:
        for stream in streams if context.keeps_kinds else streams[1:]:
            with closing(stream) as batches:
                yield from map(stage.apply, batches)
        return
    from paimon_assets.engine.data.merge.sort_merge import MergePlan

    plan = MergePlan(
        keys=context.schema.trimmed_primary_keys,
        runs_by_age=True,
        columns=columns,
        keeps_retracts=context.keeps_kinds,
    )
    from paimon_assets.engine.data.merge.equal_rows import Difference
    from paimon_assets.engine.data.merge.sort_merge import merge_runs

    with closing(merge_runs(streams, plan, Difference(columns), threads)) as merged:
        yield from map(stage.apply, merged)


def _as(kind: RowKind, batches: Batches) -> Batches:
    with closing(batches):
        for batch in batches:
            kinds = np.full(batch.num_rows, kind, dtype=np.int8)
            yield batch.append_column(VALUE_KIND.name, from_numpy(kinds))


_IDS = (b"PARQUET:field_id", b"paimon.id")
_BY_ID = frozenset({"parquet", "orc"})


def with_file_schemas(context: ReadContext, split: DataSplit, file_io: FileIO) -> ReadContext:
    """Add the schemas that the plan lacks, by the footers of the split's files."""
    fields: dict[int, dict[int, DataField]] = {}
    layouts = set()
    for file in (*split.before_files, *split.data_files):
        layout = file.schema_id, None if file.write_cols is None else tuple(file.write_cols)
        is_new = file.schema_id not in context.schemas_by_id and layout not in layouts
        if is_new and file.file_format in _BY_ID:
            layouts.add(layout)
            file_fields = {field.id: field for field in _fields_in(context, split, file, file_io)}
            if file_fields:
                fields.setdefault(file.schema_id, {}).update(file_fields)
    if not fields:
        return context
    schemas = (
        replace(context.schema, id=schema_id, fields=tuple(by_id.values()))
        for schema_id, by_id in fields.items()
    )
    whole = replace(context, file_schemas=(*context.file_schemas, *schemas))
    if context.schema.has_primary_key and not split.is_streaming:
        from paimon_assets.engine.data.read.merge_file_split_read import check_key_order

        for file in split.data_files:
            if file.schema_id in fields:  # the plan lacked the schema, too, and cut by key ranges
                check_key_order(file, whole)
    return whole


def _fields_in(
    context: ReadContext, split: DataSplit, file: DataFileMeta, file_io: FileIO
) -> Iterator[DataField]:
    path = split.path_of(file)
    with open_reader(
        file_io, path, file_format=file.file_format, file_bytes=file.file_size
    ) as reader:
        for column in reader.schema:
            metadata = column.metadata or {}
            field_id = next((int(metadata[key]) for key in _IDS if key in metadata), None)
            if field_id is None:
                continue
            current = context.schema.by_id.get(field_id)
            if current is not None and to_arrow_type(current.type) == column.type:
                yield replace(current, name=column.name)
                continue
            try:
                data_type = from_arrow_type(column.type, nullable=column.nullable)
            except InvalidInputError:  # a dropped column may have any type
                if current is not None:
                    raise
                continue
            yield DataField(id=field_id, name=column.name, type=data_type)


def read_split(
    context: ReadContext,
    split: DataSplit,
    file_io: FileIO,
    threads: Threads = CALLER_ONLY,
    *,
    select: Selection | None = None,
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the split's rows as batches of exactly the schema of `context.columns`.

    With `select`, rows of some keys alone: the split is of a primary key, and merged.

    Rows come in key order if they were merged, else in file order. Empty batches are left out.
    Decoding and gathering run in `threads` beside the caller; closing the iterator ends them.
    """
    context = context.of(split)
    if split.is_streaming and context.schema.has_primary_key and not context.keeps_kinds:
        message = (
            f"A streaming split of table '{context.table}' keeps the kinds of its rows; ask for"
            f" the column '{ROW_KIND.name}' to read it."
        )
        raise UnsupportedFeatureError(message, kind="streaming-split", table=context.table)
    context = with_file_schemas(context, split, file_io)
    if context.file_tags:
        file_io.expect(
            {
                split.path_of(file): context.file_tags[file.file_name]
                for file in split.data_files
                if file.file_name in context.file_tags
            }
        )
    open_ahead(split, file_io, split.data_files[:OPENED])
    read: Callable[..., Batches] = read_diff if split.is_difference else read_raw
    if select is not None or not (split.is_difference or _is_raw(context, split)):
        from paimon_assets.engine.data.read.merge_file_split_read import read_merged

        read = read_merged if select is None else partial(read_merged, select=select)
    with closing(read(context, split, file_io, threads)) as batches:
        yield from (batch for batch in batches if batch.num_rows)


def bytes_to_decode(context: ReadContext, split: DataSplit, file_io: FileIO) -> int:
    """Estimate the bytes of files that `read_split` decodes, by footers and file indexes."""
    context = context.of(split)
    predicate = context.predicate
    if not _is_raw(context, split):
        predicate = only_on(predicate, context.schema.trimmed_primary_keys)
    joined = any(len(group) > 1 for group in group_by_row_range(split.data_files))
    filtered = fields_of(predicate) - set(context.schema.partition_keys)
    if not filtered or joined or split.is_difference:
        return split.file_bytes
    context = with_file_schemas(context, split, file_io)
    names = [field.name for field in context.schema.fields if field.name in filtered]
    read = FileRead(
        context=context,
        split=split,
        file_io=file_io,
        fields=tuple(context.schema.columns(names)),
        predicate=predicate,
        batch_rows=1,
    )
    return sum(map(read.bytes_to_decode, split.data_files))


def _is_raw(context: ReadContext, split: DataSplit) -> bool:
    if not context.schema.has_primary_key or split.is_streaming:
        return True
    # A file that may hold retractions must be merged even alone, or they would come out as rows.
    return split.raw_convertible and all(file.delete_row_count == 0 for file in split.data_files)


class _Source(Value):
    """Files that together hold some columns of all rows: one file, or consecutive blob files."""

    files: Sequence[DataFileMeta]
    held: Mapping[int, DataField]
    """Field id → column."""

    @property
    def rows(self) -> tuple[int | None, int]:
        """(first row id, rows)."""
        return self.files[0].first_row_id, sum(file.row_count for file in self.files)

    @property
    def is_gapless(self) -> bool:
        return all(
            (before.first_row_id or 0) + before.row_count == after.first_row_id
            for before, after in pairwise(self.files)
        )


def read_joined(
    read: FileRead, files: Sequence[DataFileMeta], *, with_positions: bool = False
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of a range as batches of `read.fields`, in row order."""
    sources = _sources(read, files)
    columns: defaultdict[int, list[DataField]] = defaultdict(list)
    for field in read.fields:
        # Columns that no source has are read from the newest: there they are null.
        holders = (number for number, source in enumerate(sources) if field.id in source.held)
        columns[next(holders, 0)].append(field)
    range_rows = sources[0].rows
    for source in map(sources.__getitem__, columns):
        if source.rows != range_rows or not source.is_gapless:
            _refuse_misaligned(read, files)
    names = [field.name for field in read.fields]
    vectors = [vector for file in files if (vector := read.deletion_vector(file)) is not None]
    with ExitStack() as stack:
        parts = [
            (replace(read, fields=tuple(fields), predicate=None), sources[number])
            for number, fields in columns.items()
        ]
        for part, source in parts:
            part.prepare(source.files[:1])
        streams = [stack.enter_context(closing(_rows_of(*each))) for each in parts]
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


def _sources(read: FileRead, files: Sequence[DataFileMeta]) -> list[_Source]:
    """Return the sources of a range, the newest first; a blob file is after its data file."""
    groups: defaultdict[Hashable, list[DataFileMeta]] = defaultdict(list)
    held_of: dict[Hashable, Mapping[int, DataField]] = {}
    for file in files:
        path = read.split.path_of(file)
        schema = file_schema_of(read.context.schemas_by_id, file.schema_id, path)
        held = held_columns(file, schema).by_id
        is_blob = file.file_format == BLOB_FORMAT
        key: Hashable = (file.max_sequence_number, *held) if is_blob else file.file_name
        held_of[key] = held
        groups[key].append(file)
    sources = [
        _Source(files=sorted(parts, key=lambda file: file.first_row_id or 0), held=held_of[key])
        for key, parts in groups.items()
    ]
    return sorted(
        sources,
        key=lambda each: (
            -each.files[0].max_sequence_number,
            each.files[0].file_format == BLOB_FORMAT,
        ),
    )


def _rows_of(part: FileRead, source: _Source) -> Generator[pa.RecordBatch, None, None]:
    for file in part.following(source.files):
        yield from part.batches(file, with_deleted=True)


def _align(
    streams: Sequence[Iterator[pa.RecordBatch]], read: FileRead, files: Sequence[DataFileMeta]
) -> Iterator[list[pa.RecordBatch]]:
    """Yield slices of equal length, one of each stream."""
    heads = [next(stream, None) for stream in streams]
    while batches := [batch for batch in heads if batch is not None]:
        if len(batches) < len(streams):
            _refuse_misaligned(read, files)
        count = min(batch.num_rows for batch in batches)
        yield [batch.slice(0, count) for batch in batches]
        heads = [
            batch.slice(count) if batch.num_rows > count else next(stream, None)
            for batch, stream in zip(batches, streams, strict=True)
        ]


def _refuse_misaligned(read: FileRead, files: Sequence[DataFileMeta]) -> NoReturn:
    paths = ", ".join(f"'{read.split.path_of(file)}'" for file in files)
    raise FormatError(
        f"Data files {paths} of table '{read.context.table}' share row ids but do not hold the"
        " same rows.",
        kind="row-range",
        table=read.context.table,
        path=read.split.path_of(files[0]),
    )


def read_tracked(
    read: FileRead, files: Sequence[DataFileMeta], columns: Collection[str]
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of one range of row ids, with tracking columns and `POSITION` at the end."""
    newest = max(files, key=lambda file: file.max_sequence_number)
    if len(files) > 1:
        batches = read_joined(read, files, with_positions=True)
    else:
        stored = [field for field in TRACKING_FIELDS if field.name in (newest.write_cols or ())]
        system_fields = tuple(field for field in stored if field.name in columns)
        physical = replace(
            read,
            system_fields=(*read.system_fields, *system_fields),
            # The file's nulls stand for values that only the metadata has.
            predicate=only_on(read.predicate, read.context.schema.field_names),
        )
        batches = physical.batches(newest, with_positions=True)
    first_row_id = min((file.first_row_id or 0 for file in files), default=0)
    for batch in batches:
        ids: Any = pa.nulls(batch.num_rows, pa.int64())
        if newest.first_row_id is not None:
            ids = pc.add(batch.column(POSITION), pa.scalar(first_row_id, pa.int64()))
        number: Any = pa.scalar(newest.max_sequence_number, pa.int64())
        numbers = pa.repeat(number, batch.num_rows)
        rows = batch
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
    asked = {*context.columns, *fields_of(context.predicate)}
    tracking = {field.name for field in TRACKING_FIELDS} & asked
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
    are_single = not tracking and len(groups) == len(split.data_files)
    opened = OPENED
    for number, files in enumerate(groups):
        if number:
            open_ahead(split, read.file_io, split.data_files[opened : opened + len(files)])
            opened += len(files)
        if tracking:
            for rows in read_tracked(read, files, tracking):
                yield rows.drop_columns([POSITION])
            continue
        if are_single:
            read.prepare(split.data_files[number : number + PREPARED])
        yield from read.batches(files[0]) if len(files) == 1 else read_joined(read, files)
