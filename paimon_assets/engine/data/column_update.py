"""Changes of some columns of a data-evolution table: files of these columns beside the data.

    each range of row ids ─▶ positions of rows that match ─┬─ none: nothing
                                                           ├─ some: a file of the columns, all rows
                                                           └─ deleted: marked in the vector of the
                                                              oldest file; all: the files go

A file of columns has a row for each row of its range, also for those that are deleted: they keep
their values.
Source: `org.apache.paimon.spark.commands.MergeIntoPaimonDataEvolutionTable`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import pyarrow as pa
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.numpy_columns import Longs, from_numpy
from paimon_assets.engine.contract.commit_message import DataIncrement, WriteResult
from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.write_tasks import RowChange, RowChangeResult, RowChangeTask
from paimon_assets.engine.data.compact.bucket_vectors import BucketVectors, deleted_rows
from paimon_assets.engine.data.compact.record_read import RecordRead
from paimon_assets.engine.data.row_update import Matcher, RowUpdate, replace_rows, rows_at
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.data.write.rolling_file import ONE_FILE, FileFactory, delete_unfinished
from paimon_assets.engine.data.write.row_output import result_of, write_stored
from paimon_assets.engine.data.write.write_support import refuse_unwritable
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata import data_file
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.schema.schema import TableSchema


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
    files = ColumnFiles(change.write, split, names, file_io, threads)
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


def only_columns(schema: TableSchema, names: Iterable[str]) -> TableSchema:
    return replace(schema, fields=schema.columns(names), partition_keys=())


class ColumnFiles:
    def __init__(
        self,
        context: WriteContext,
        split: DataSplit,
        names: Sequence[str],
        file_io: FileIO,
        threads: Threads,
    ) -> None:
        refuse_unwritable(only_columns(context.schema, names), context.table)
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
