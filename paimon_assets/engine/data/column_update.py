"""Changes of some columns of a data-evolution table: files of these columns beside the data.

    each range of row ids ─▶ positions of rows that match ─┬─ none: nothing
                                                           ├─ some: a file of the columns, all rows
                                                           └─ deleted: marked in the vector of the
                                                              oldest file; all: the files go

A file of columns has a row for each row of its range, also for those that are deleted: they keep
their values, or take those of a neighbour. The task `write-columns` is given the values of all
rows of its ranges that are not deleted, and reads nothing but deletion vectors.
Source: `org.apache.paimon.spark.commands.MergeIntoPaimonDataEvolutionTable`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.numpy_columns import Longs, from_numpy
from paimon_assets.engine.contract.commit_message import DataIncrement, WriteResult
from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.contract.write_tasks import (
    ColumnTask,
    RowChange,
    RowChangeResult,
    RowChangeTask,
)
from paimon_assets.engine.data.compact.bucket_vectors import BucketVectors, deleted_rows
from paimon_assets.engine.data.compact.record_read import RecordRead
from paimon_assets.engine.data.row_update import Matcher, RowUpdate, replace_rows, rows_at
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.data.write.input_check import InputCheck
from paimon_assets.engine.data.write.rolling_file import ONE_FILE, FileFactory, delete_unfinished
from paimon_assets.engine.data.write.row_output import result_of, write_stored
from paimon_assets.engine.data.write.write_support import refuse_unwritable
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata import data_file
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.words import counted

_ROWS_AT_ONCE = 65_536


def write_columns(shared: bytes, payload: bytes, file_io: FileIO, threads: Threads) -> bytes:
    """Write the given values of some columns of ranges of rows.

    Cost:
        The values of the task are in memory.
    """
    context, task = load(WriteContext, shared), load(ColumnTask, payload)
    rows = pa.ipc.open_stream(task.values).read_all()
    schema = _only(context.schema, rows.column_names)
    check = InputCheck(table=context.table, schema=schema, new=frozenset(rows.column_names))
    groups = data_file.group_by_row_range(task.split.data_files)
    deleted = deleted_rows(task.split, file_io)
    gaps = [deleted(group) for group in groups]
    stored = sum(map(data_file.range_row_count, groups)) - sum(map(len, gaps))
    if stored != rows.num_rows:
        raise InvalidInputError(
            f"Table '{context.table}': {counted(rows.num_rows, 'row')} of new values for"
            f" {counted(stored, 'stored row')}. Give one for each, in their order.",
            kind="column-rows",
            table=context.table,
            rows=rows.num_rows,
            stored=stored,
        )
    files = _ColumnFiles(context, task.split, schema.field_names, file_io, threads)
    start = 0
    try:
        for group, gap in zip(groups, gaps, strict=True):
            count = data_file.range_row_count(group) - len(gap)
            if not count:
                continue
            part = _fill_gaps(rows.slice(start, count), gap)
            files.add(group, map(check.conform, part))
            start += count
    except BaseException:
        files.abort()
        raise
    return dump(files.result(stored, DataIncrement()))


def _fill_gaps(rows: pa.Table, gaps: Longs) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range; at the positions of deleted ones its neighbour's values."""
    if not len(gaps):
        yield from rows.to_batches()
        return
    live = np.ones(rows.num_rows + len(gaps), dtype=np.int64)
    live[gaps] = 0
    numbers = np.maximum(np.cumsum(live) - 1, 0)
    for start in range(0, len(numbers), _ROWS_AT_ONCE):
        wanted = numbers[start : start + _ROWS_AT_ONCE]
        first, last = int(wanted[0]), int(wanted[-1])
        part = rows.slice(first, last - first + 1).take(from_numpy(wanted - first))
        yield from part.to_batches()


def change_columns(
    change: RowChange, task: RowChangeTask, file_io: FileIO, threads: Threads
) -> RowChangeResult:
    """Update or delete rows of whole ranges of row ids.

    Cost:
        Reads the columns of the predicate of all files, and the assigned columns, with those that
        they are made from, of ranges with a match. The positions of the matches of one range are in
        memory.
    """
    split, matcher = task.splits[0], Matcher(change)
    names = tuple(each.column for each in change.assignments or ())
    names = tuple(name for name in change.read.schema.field_names if name in names)
    files = _ColumnFiles(change.write, split, names, file_io, threads)
    needed = {*names, *pred.columns_of(change.assignments or ())}
    source_rows: list[Longs] = []
    matched = 0

    vectors = BucketVectors(task, change.read.schema, file_io)
    gone = deleted_rows(split, file_io)
    removed: list[data_file.DataFileMeta] = []

    def read(wanted: Collection[str], *, matching: bool) -> RecordRead:
        return RecordRead(
            context=change.read,
            split=split if matching else replace(split, deletion_files=None),
            file_io=file_io,
            names=tuple(name for name in change.read.schema.field_names if name in wanted),
            predicate=change.read.predicate if matching else None,
            threads=threads,
        )

    def new_values(
        group: Sequence[data_file.DataFileMeta], positions: Longs, numbers: Longs | None
    ) -> Iterator[pa.RecordBatch]:
        update = RowUpdate(change, change.assignments or (), names)
        for rows in read(needed, matching=False).range_rows(group):
            mask, places = rows_at(positions, rows)
            old = rows.select(list(names))
            if mask.any():
                source = None if numbers is None else matcher.source_of(numbers[places])
                new = update.apply(rows.filter(from_numpy(mask)), source)
                old = replace_rows(old, new, mask)
            yield old

    try:
        for group in data_file.group_by_row_range(split.data_files):
            positions, numbers = matcher.positions(
                read(matcher.columns, matching=True).range_rows(group)
            )
            matched += len(positions)
            source_rows += [] if numbers is None else [numbers]
            if not len(positions) or change.only_counts:
                continue
            deletes = matcher.deletes(matcher.source_of(numbers), len(positions))
            if change.assignments is None:
                deletes[:] = True
            live_rows = data_file.range_row_count(group) - len(gone(group))
            if deletes.sum() == live_rows:
                removed += group
                vectors.drop([data_file.anchor_file(group).file_name])
                continue
            vectors.mark(data_file.anchor_file(group).file_name, positions[deletes])
            if names and not deletes.all():
                some = None if numbers is None else numbers[~deletes]
                files.add(group, new_values(group, positions[~deletes], some))
        new_indexes, old_indexes = vectors.finish()
    except BaseException:
        files.abort()
        delete_unfinished(file_io, vectors.paths, change.read.table)
        raise
    increment = DataIncrement(
        deleted_files=tuple(removed), new_index_files=new_indexes, deleted_index_files=old_indexes
    )
    return RowChangeResult(
        rows_matched=matched,
        result=files.result(matched, increment),
        source_rows=b"".join(part.tobytes() for part in source_rows),
    )


def _only(schema: TableSchema, names: Iterable[str]) -> TableSchema:
    return replace(schema, fields=schema.columns(names), partition_keys=())


class _ColumnFiles:
    def __init__(
        self,
        context: WriteContext,
        split: DataSplit,
        names: Sequence[str],
        file_io: FileIO,
        threads: Threads,
    ) -> None:
        refuse_unwritable(_only(context.schema, names), context.table)
        self._split, self._threads, self._table = split, threads, context.table
        self._factory = FileFactory(schema=context.schema, file_io=file_io, write_cols=tuple(names))
        self._factory.target_bytes = ONE_FILE
        self._files: list[data_file.DataFileMeta] = []

    def add(self, group: Sequence[data_file.DataFileMeta], rows: Iterable[pa.RecordBatch]) -> None:
        path = self._split.bucket_path
        (file,) = write_stored(rows, self._factory, path, self._threads, first_number=None)
        first = min(other.first_row_id or 0 for other in group)
        self._files.append(file._replace(first_row_id=first))

    def result(self, rows_in: int, changes: DataIncrement) -> WriteResult:
        """Return one message of the files, and of the task's other changes."""
        return result_of(self._split, rows_in, replace(changes, new_files=tuple(self._files)))

    def abort(self) -> None:
        delete_unfinished(self._factory.file_io, self._factory.paths, self._table)
