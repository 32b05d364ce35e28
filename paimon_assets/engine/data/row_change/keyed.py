"""Rows of a primary-key table: a record of kind -D or +U for each row that matches.

The key of a row stays, so its bucket does, and nothing needs to be routed.
Source: `org.apache.paimon.spark.commands.DeleteFromPaimonTableCommand`.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.contract.commit_message import WriteResult
from paimon_assets.engine.contract.tasks.row_change_task import (
    RowChange,
    RowChangeResult,
    RowChangeTask,
)
from paimon_assets.engine.data.read.split_read import read_split
from paimon_assets.engine.data.row_change.assign import RowUpdate
from paimon_assets.engine.data.row_change.matches import Longs, Matcher, deleted_rows
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.data.write.row_kinds import with_kinds
from paimon_assets.engine.data.write.table_write import write_bucket
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.types.row_kind import RowKind


def change_keyed(
    change: RowChange, task: RowChangeTask, file_io: FileIO, threads: Threads
) -> RowChangeResult:
    """Write a record for each row that matches; memory as for reading and writing.

    Returns:
        One message, or none if no row matches.
    """
    records = _Records(change=change, rows=_rows(change, task, file_io, threads))
    if change.only_counts:
        rows_matched = sum(rows.num_rows for rows, _ in records.matching())
        return RowChangeResult(rows_matched=rows_matched, source_rows=records.source_rows)
    split = task.splits[0]
    written = write_bucket(
        change.write,
        (split.partition, split.bucket),
        records.batches(),
        file_io,
        with_kinds_column=True,
        threads=threads,
    )
    messages = tuple(
        replace(message, total_buckets=split.total_buckets) for message in written.messages
    )
    return RowChangeResult(
        rows_matched=written.report.rows_in,
        result=WriteResult(messages=messages, report=written.report),
        source_rows=records.source_rows,
    )


class _Records:
    """The records of one bucket."""

    def __init__(self, *, change: RowChange, rows: Iterator[pa.RecordBatch]) -> None:
        self._change, self._rows = change, rows
        self._matcher = Matcher(change=change)
        self._source_rows: list[Longs] = []

    @property
    def source_rows(self) -> bytes:
        """The numbers of the source rows that matched so far."""
        return b"".join(numbers.tobytes() for numbers in self._source_rows)

    def matching(self) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch | None]]:
        """Yield the rows that match, as they are now, and their source rows."""
        matcher = self._matcher
        for rows in matcher.gathered(self._rows):
            if matcher.source is None:  # reading applies the predicate
                yield rows, None
                continue
            mask, numbers = matcher.matches(rows)
            if numbers is not None and len(numbers):
                self._source_rows.append(numbers)
                yield rows.filter(from_numpy(mask)), matcher.source_of(numbers)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield what replaces them, `with_kinds`; an empty batch first, for its schema."""
        change = self._change
        empty = pa.RecordBatch.from_pylist([], schema=to_arrow_schema(change.read.fields))
        yield with_kinds(empty, np.empty(0, dtype=np.int8))
        update = None
        if change.assignments is not None:
            update = RowUpdate(
                table=change.read.table,
                schema=change.write.schema,
                assignments=change.assignments,
            )
        kind = RowKind.DELETE if update is None else RowKind.UPDATE_AFTER
        for rows, source in self.matching():
            changed = rows if update is None else update.apply(rows, source)
            kinds = np.full(rows.num_rows, kind, dtype=np.int8)
            kinds[deleted_rows(change, source, rows.num_rows)] = RowKind.DELETE
            yield with_kinds(changed, kinds)


def _rows(
    change: RowChange, task: RowChangeTask, file_io: FileIO, threads: Threads
) -> Iterator[pa.RecordBatch]:
    for split in task.splits:
        yield from read_split(change.read, split, file_io, threads)
