"""The task `row-change`: deletes, updates and merges in the files of one bucket.

With primary key, each row that matches gets a record of kind -D or +U. Its key stays, so its bucket
does, and nothing is routed. Without one:

    each file ─▶ positions of rows that match ─┬─ none: the file stays
                                               ├─ all live rows: the file is removed
                                               └─ some: deletion vector, or the file is rewritten

With deletion vectors, new values go to new files. Rewritten files keep the order of their rows, and
their sequence numbers.
Source: `org.apache.paimon.spark.commands.DeleteFromPaimonTableCommand`,
`UpdatePaimonTableCommand`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.arrow_types import empty_batch, to_arrow_schema
from paimon_assets.engine.codec.arrow.numpy_columns import Flags, Longs, from_numpy
from paimon_assets.engine.contract import commit_message
from paimon_assets.engine.contract.merge_on import MergeOn
from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.contract.write_tasks import RowChange, RowChangeResult, RowChangeTask
from paimon_assets.engine.data import row_update
from paimon_assets.engine.data.column_update import change_columns
from paimon_assets.engine.data.compact.bucket_vectors import BucketVectors
from paimon_assets.engine.data.compact.record_read import RecordRead
from paimon_assets.engine.data.read.data_files import read_deletion_vector
from paimon_assets.engine.data.read.split_read import read_split
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.data.write.input_check import with_kinds
from paimon_assets.engine.data.write.rolling_file import FileFactory, delete_unfinished
from paimon_assets.engine.data.write.row_key_extractor import distinct_rows
from paimon_assets.engine.data.write.row_output import result_of, tracked_columns, write_stored
from paimon_assets.engine.data.write.table_write import write_rows
from paimon_assets.engine.data.write.write_support import refuse_unwritable
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.options.all_options import DATA_EVOLUTION_ENABLED
from paimon_assets.engine.spec.schema.schema import ROW_ID, SEQUENCE_NUMBER
from paimon_assets.engine.spec.types.data_types import RowKind


def change_rows(shared: bytes, payload: bytes, file_io: FileIO, threads: Threads) -> bytes:
    change, task = load(RowChange, shared), load(RowChangeTask, payload)
    return dump(run_change(change, task, file_io, threads))


def run_change(
    change: RowChange, task: RowChangeTask, file_io: FileIO, threads: Threads
) -> RowChangeResult:
    """Delete or update rows in files of one bucket, as `change_rows` does.

    Cost:
        With primary key as for reading and writing. Without one, reads the predicate's columns of
        all files, and all columns of files with a match; the positions of the matches of one file
        are in memory.
    """
    if change.read.schema.has_primary_key:
        return _change_keyed(change, task, file_io, threads)
    if change.read.schema.typed_options.get(DATA_EVOLUTION_ENABLED):
        return change_columns(change, task, file_io, threads)
    return _AppendChange(change, task, file_io, threads).run()


def match_keys(
    change: RowChange, task: RowChangeTask, on: MergeOn, file_io: FileIO, threads: Threads
) -> Iterator[Sequence[pa.Array[Any]]]:
    """Yield the keys (`MergeOn.keys`) of the rows of a task's files that pass the predicate.

    Cost:
        Reads the columns of the keys. A key of many rows is yielded once in 131,072 rows.
    """
    context = replace(change.read, columns=on.names)
    is_unique = change.read.schema.has_primary_key
    for split in task.splits:
        for rows in row_update.join_batches(read_split(context, split, file_io, threads)):
            keys = on.keys(rows)
            if not is_unique and rows.num_rows:
                first_rows = from_numpy(distinct_rows(keys)[1])
                keys = [key.take(first_rows) for key in keys]
            yield keys


def _update_of(change: RowChange) -> row_update.RowUpdate | None:
    return None if change.assignments is None else row_update.RowUpdate(change, change.assignments)


def _change_keyed(
    change: RowChange, task: RowChangeTask, file_io: FileIO, threads: Threads
) -> RowChangeResult:
    """Write a record for each row that matches."""
    matcher = row_update.Matcher(change)
    matched: list[Longs] = []

    def stored_rows() -> Iterator[pa.RecordBatch]:
        for split in task.splits:
            yield from read_split(change.read, split, file_io, threads)

    def matching() -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch | None]]:
        for rows in matcher.join_batches(stored_rows()):
            if matcher.source is None:  # reading applies the predicate
                yield rows, None
                continue
            mask, numbers = matcher.matches(rows)
            if numbers is not None and len(numbers):
                matched.append(numbers)
                yield rows.filter(from_numpy(mask)), matcher.source_of(numbers)

    def records() -> Iterator[pa.RecordBatch]:
        """Yield the new records, `with_kinds`."""
        yield with_kinds(empty_batch(to_arrow_schema(change.read.fields)), np.empty(0, np.int8))
        update = _update_of(change)
        kind = RowKind.DELETE if update is None else RowKind.UPDATE_AFTER
        for rows, source in matching():
            changed = rows if update is None else update.apply(rows, source)
            kinds = np.full(rows.num_rows, kind, dtype=np.int8)
            kinds[matcher.deletes(source, rows.num_rows)] = RowKind.DELETE
            yield with_kinds(changed, kinds)

    result = commit_message.WriteResult()
    if change.only_counts:
        rows_matched = sum(rows.num_rows for rows, _ in matching())
    else:
        split = task.splits[0]
        target = (split.partition, split.bucket)
        written = write_rows(
            change.write,
            records(),
            file_io,
            target=target,
            with_kinds_column=True,
            stored=True,
            threads=threads,
        )
        total = split.total_buckets
        messages = tuple(replace(message, total_buckets=total) for message in written.messages)
        result, rows_matched = replace(written, messages=messages), written.report.rows_in
    return RowChangeResult(rows_matched=rows_matched, result=result, source_rows=_as_bytes(matched))


def _as_bytes(numbers: Iterable[Longs]) -> bytes:
    return b"".join(part.tobytes() for part in numbers)


class _AppendChange:
    """The change of rows without primary key, file by file."""

    def __init__(
        self, change: RowChange, task: RowChangeTask, file_io: FileIO, threads: Threads
    ) -> None:
        self._change, self._file_io, self._threads = change, file_io, threads
        self._split = task.splits[0]
        self._matcher = row_update.Matcher(change)
        self._vectors = BucketVectors(task, change.read.schema, file_io)
        self._names = list(change.read.schema.field_names)
        self._tracked = tracked_columns(change.read.schema)
        """Columns of the files that are written, with those of row tracking if rows have ids."""
        self._deleted: list[DataFileMeta] = []
        self._new: list[DataFileMeta] = []

    def run(self) -> RowChangeResult:
        change, split = self._change, self._split
        files_with_matches: list[tuple[DataFileMeta, Longs, Longs | None]] = []
        """(file, positions of its rows that match, their source rows)."""
        try:
            for file in split.data_files:
                positions, numbers = self._matching(file)
                if not len(positions):
                    continue
                files_with_matches.append((file, positions, numbers))
                if not change.only_counts:
                    self._change_file(file, positions, numbers)
            rows_matched = sum(len(positions) for _, positions, _ in files_with_matches)
            result = commit_message.WriteResult()
            if rows_matched and not change.only_counts:
                if change.marks and change.assignments is not None:
                    state = change.write.states_by_bucket.get((split.partition, split.bucket))
                    first_number = 0 if state is None else state.max_sequence_number + 1
                    self._new += self._write(self._new_rows(files_with_matches), first_number)
                new_indexes, old_indexes = self._vectors.finish()
                increment = commit_message.DataIncrement(
                    new_files=tuple(self._new),
                    deleted_files=tuple(self._deleted),
                    new_index_files=new_indexes,
                    deleted_index_files=old_indexes,
                )
                result = result_of(split, rows_matched, increment)
        except BaseException:
            new_paths = [
                f"{split.bucket_path}/{name}"
                for file in self._new
                for name in (file.file_name, *file.extra_files)
            ]
            delete_unfinished(self._file_io, [*new_paths, *self._vectors.paths], change.read.table)
            raise
        source_rows = _as_bytes(rows for _, _, rows in files_with_matches if rows is not None)
        return RowChangeResult(rows_matched=rows_matched, result=result, source_rows=source_rows)

    def _matching(self, file: DataFileMeta) -> tuple[Longs, Longs | None]:
        return self._matcher.positions(self._read(self._matcher.columns, pruned=True).rows([file]))

    def _change_file(self, file: DataFileMeta, positions: Longs, numbers: Longs | None) -> None:
        """Mark the rows that match, or remove or rewrite their file."""
        change = self._change
        is_whole = len(positions) == self._live_rows(file)
        if change.marks and not is_whole:
            self._vectors.mark(file.file_name, positions)
        else:
            self._deleted.append(file)
            self._vectors.drop([file.file_name])
        if not change.marks and (change.assignments is not None or not is_whole):
            # Rows of a rewritten file keep their sequence numbers.
            rows = self._rewritten_rows(file, positions, numbers)
            self._new += self._write(rows, file.min_sequence_number)

    def _rewritten_rows(
        self, file: DataFileMeta, positions: Longs, numbers: Longs | None
    ) -> Iterator[pa.RecordBatch]:
        update = _update_of(self._change)
        names = list(self._tracked or self._names)
        for rows in self._read(self._names, pruned=False).rows([file]):
            mask, source = self._match(rows, positions, numbers)
            plain = rows.select(names)
            if update is None:
                yield plain.filter(from_numpy(~mask))
            elif not mask.any():
                yield plain
            else:
                new = self._update_rows(update, rows.filter(from_numpy(mask)), source)
                stays = np.ones(plain.num_rows, dtype=np.bool_)
                stays[mask] = ~self._matcher.deletes(source, new.num_rows)
                yield row_update.replace_rows(plain, new, mask).filter(from_numpy(stays))

    def _update_rows(
        self, update: row_update.RowUpdate, rows: pa.RecordBatch, source: pa.RecordBatch | None
    ) -> pa.RecordBatch:
        """Return rows with their new values; they keep their row ids, and get new numbers."""
        new = update.apply(rows.select(self._names), source)
        if self._tracked is None:
            return new
        new = new.append_column(ROW_ID.name, rows.column(ROW_ID.name))
        return new.append_column(SEQUENCE_NUMBER.name, pa.nulls(new.num_rows, pa.int64()))

    def _new_rows(
        self, files: Iterable[tuple[DataFileMeta, Longs, Longs | None]]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that match with their new values, in the order of the files."""
        update = _update_of(self._change)
        for file, positions, numbers in files:
            for rows in self._read(self._names, pruned=True).rows([file]):
                mask, source = self._match(rows, positions, numbers)
                if update is not None and mask.any():
                    new = self._update_rows(update, rows.filter(from_numpy(mask)), source)
                    deleted = self._matcher.deletes(source, new.num_rows)
                    yield new.filter(from_numpy(~deleted))

    def _match(
        self, rows: pa.RecordBatch, matching: Longs, numbers: Longs | None
    ) -> tuple[Flags, pa.RecordBatch | None]:
        """Return which rows match, and the source rows of those."""
        mask, places = row_update.rows_at(matching, rows)
        source = None if numbers is None else self._matcher.source_of(numbers[places])
        return mask, source

    def _read(self, names: Collection[str], *, pruned: bool) -> RecordRead:
        schema = self._change.read.schema
        return RecordRead(
            context=self._change.read,
            split=self._split,
            file_io=self._file_io,
            names=tuple(name for name in schema.field_names if name in names),
            numbers={file.file_name: 0 for file in self._split.data_files},
            predicate=self._change.read.predicate if pruned else None,
            tracked=self._tracked is not None,
            threads=self._threads,
        )

    def _live_rows(self, file: DataFileMeta) -> int:
        deletions = self._split.deletion_files or (None,) * len(self._split.data_files)
        deletion = deletions[self._split.data_files.index(file)]
        if deletion is None:
            return file.row_count
        if deletion.cardinality is not None:
            return file.row_count - deletion.cardinality
        return file.row_count - len(read_deletion_vector(self._file_io, deletion, file))

    def _write(self, rows: Iterator[pa.RecordBatch], first_number: int) -> tuple[DataFileMeta, ...]:
        context, path = self._change.write, self._split.bucket_path
        refuse_unwritable(context.schema, context.table)
        factory = FileFactory(
            schema=context.schema, file_io=self._file_io, write_cols=self._tracked
        )
        number = first_number if self._tracked is None else None
        try:
            return write_stored(rows, factory, path, self._threads, first_number=number)
        except BaseException:
            delete_unfinished(self._file_io, factory.paths, context.table)
            raise
