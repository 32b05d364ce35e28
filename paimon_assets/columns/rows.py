"""Values that a function made → files of their columns, beside the data.

A file has a row for each row of its range, also for those that are deleted: they take the values of
a neighbour. The task is given the values of all rows of its ranges that are not deleted, and reads
nothing but deletion vectors.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from paimon_assets.columns.task import ColumnTask
from paimon_assets.engine.codec.arrow.numpy_columns import Longs, from_numpy
from paimon_assets.engine.contract.commit_message import DataIncrement
from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.data.column_update import ColumnFiles, only_columns
from paimon_assets.engine.data.compact.bucket_vectors import deleted_rows
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.data.write.input_check import InputCheck
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata import data_file
from paimon_assets.engine.spec.words import counted

_ROWS_AT_ONCE = 65_536


def write_columns(shared: bytes, payload: bytes, file_io: FileIO, threads: Threads) -> bytes:
    """Write the given values of some columns of ranges of rows.

    Cost:
        The values of the task are in memory.
    """
    context, task = load(WriteContext, shared), load(ColumnTask, payload)
    rows = pa.ipc.open_stream(task.values).read_all()
    schema = only_columns(context.schema, rows.column_names)
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
    files = ColumnFiles(context, task.split, schema.field_names, file_io, threads)
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
