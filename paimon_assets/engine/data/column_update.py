"""Changes of some columns of a data-evolution table: files of these columns, beside the others.

    each range of row ids ─▶ positions of rows that match ─┬─ none: nothing
                                                           └─ some: a file of the columns, all rows

The task `write-columns` is given the values of all rows of its ranges, and reads nothing.
Source: `org.apache.paimon.spark.commands.MergeIntoPaimonDataEvolutionTable`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy
from paimon_assets.engine.contract.commit_message import (
    CommitMessage,
    DataIncrement,
    WriteReport,
    WriteResult,
)
from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.contract.write_tasks import (
    ColumnTask,
    RowChange,
    RowChangeResult,
    RowChangeTask,
)
from paimon_assets.engine.data.compact.sections import RecordRead
from paimon_assets.engine.data.read.data_files import POSITION
from paimon_assets.engine.data.row_update import Longs, Matcher, RowUpdate, replace_rows
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.data.write.input_check import InputCheck
from paimon_assets.engine.data.write.rolling_file import ONE_FILE, FileFactory, delete_unfinished
from paimon_assets.engine.data.write.stored_rows import write_stored
from paimon_assets.engine.data.write.write_support import refuse_unwritable
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.data_file import (
    DataFileMeta,
    group_by_row_range,
    range_row_count,
)
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.schema.schema import TableSchema


def write_columns(shared: bytes, payload: bytes, file_io: FileIO, threads: Threads) -> bytes:
    """Write the given values of some columns of ranges of rows.

    Cost:
        The values of the task are in memory.
    """
    context, task = load(WriteContext, shared), load(ColumnTask, payload)
    rows = pa.ipc.open_stream(task.values).read_all()
    schema = _only(context.schema, rows.column_names)
    check = InputCheck(table=context.table, schema=schema, new=frozenset(rows.column_names))
    groups = group_by_row_range(task.split.data_files)
    stored = sum(map(range_row_count, groups))
    if stored != rows.num_rows:
        raise InvalidInputError(
            f"Table '{context.table}': {rows.num_rows} rows of new values are for {stored} stored"
            " rows. Give one for each, in their order.",
            kind="column-rows",
            details={"table": context.table, "rows": rows.num_rows, "stored": stored},
        )
    files = _ColumnFiles(context, task.split, schema.field_names, file_io, threads)
    start = 0
    try:
        for group in groups:
            count = range_row_count(group)
            part = rows.slice(start, count)
            files.add(group, map(check.conform, part.to_batches()))
            start += count
    except BaseException:
        files.abort()
        raise
    return dump(files.result(stored))


def change_columns(
    change: RowChange, task: RowChangeTask, file_io: FileIO, threads: Threads
) -> RowChangeResult:
    """Update rows of whole ranges of row ids.

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

    def read(wanted: Iterable[str], *, pruned: bool) -> RecordRead:
        schema = change.read.schema
        stored = [name for name in schema.field_names if name not in schema.partition_keys]
        columns = set(wanted) & set(schema.field_names)
        if not columns & set(stored):
            columns |= set(stored[:1])  # or a batch does not keep its number of rows
        return RecordRead(
            context=change.read,
            split=split,
            file_io=file_io,
            names=tuple(name for name in schema.field_names if name in columns),
            runs=1,
            predicate=change.read.predicate if pruned else None,
            threads=threads,
        )

    def new_values(
        group: Sequence[DataFileMeta], positions: Longs, numbers: Longs | None
    ) -> Iterator[pa.RecordBatch]:
        update = RowUpdate(change, change.assignments or (), names)
        for rows in read(needed, pruned=False).range_rows(group):
            found = np.searchsorted(positions, to_numpy(rows.column(POSITION)))
            found = np.minimum(found, len(positions) - 1)
            mask = positions[found] == to_numpy(rows.column(POSITION))
            old = rows.select(list(names))
            if mask.any():
                source = None if numbers is None else matcher.source_of(numbers[found[mask]])
                new = update.apply(rows.filter(from_numpy(mask)), source)
                old = replace_rows(old, new, mask)
            yield old

    try:
        for group in group_by_row_range(split.data_files):
            rows = read(matcher.columns, pruned=len(group) == 1).range_rows(group)
            positions, numbers = matcher.positions(rows)
            matched += len(positions)
            source_rows += [] if numbers is None else [numbers]
            if len(positions) and names and not change.only_counts:
                files.add(group, new_values(group, positions, numbers))
    except BaseException:
        files.abort()
        raise
    return RowChangeResult(
        rows_matched=matched,
        result=files.result(matched),
        source_rows=b"".join(part.tobytes() for part in source_rows),
    )


def _only(schema: TableSchema, names: Iterable[str]) -> TableSchema:
    return replace(schema, fields=schema.columns(names), partition_keys=())


class _ColumnFiles:
    """The files of some columns that one task writes."""

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
        self._files: list[DataFileMeta] = []

    def add(self, group: Sequence[DataFileMeta], rows: Iterable[pa.RecordBatch]) -> None:
        """Write the columns of a range of rows."""
        path = self._split.bucket_path
        (file,) = write_stored(rows, self._factory, path, self._threads, first_number=None)
        first = min(other.first_row_id or 0 for other in group)
        self._files.append(file._replace(first_row_id=first))

    def result(self, rows_in: int) -> WriteResult:
        if not self._files:
            return WriteResult()
        message = CommitMessage(
            partition=self._split.partition,
            bucket=self._split.bucket,
            total_buckets=self._split.total_buckets,
            data_increment=DataIncrement(new_files=tuple(self._files)),
        )
        written = sum(file.row_count for file in self._files)
        report = WriteReport(rows_in=rows_in, rows_written=written)
        return WriteResult(messages=(message,), report=report)

    def abort(self) -> None:
        """Delete the files; no commit names them yet."""
        delete_unfinished(self._factory.file_io, self._factory.paths, self._table)
