"""Deleted rows of a data file, dropped by their position in the physical file.

A position counts all rows of the file from 0, also those that are not decoded; so rows are dropped
before any filter, and before columns are converted: a deleted value need not fit.
Source: `org.apache.paimon.deletionvectors.ApplyDeletionVectorReader`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.codec.bitmaps.deletion_vector import (
    FRAME_BYTES,
    DeletionVector,
    decode_vector,
)
from paimon_assets.engine.contract.split import DeletionFile
from paimon_assets.engine.errors import FormatError, NotFoundError, storage_failure
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta

RowRange = tuple[int, int]
"""Positions `[start, stop)` in a file."""
POSITION = "_POSITION"
"""Column of the positions of rows."""


def read_deletion_vector(
    file_io: FileIO, deletion: DeletionFile, file: DataFileMeta
) -> DeletionVector:
    """Read the deletion vector of a data file. Cost: one read of its bytes."""
    try:
        with file_io.open_input(deletion.path) as source:
            left = source.size() - deletion.offset
            if deletion.offset < 0 or not 0 <= deletion.length <= left:
                raise _unfit(
                    deletion,
                    f"the table says that it has {deletion.length} bytes at {deletion.offset}, in"
                    f" a file of {source.size()}",
                )
            source.seek(deletion.offset)
            data = source.read(min(left, deletion.length + FRAME_BYTES))
    except OSError as error:
        message = f"Storage failed while reading '{deletion.path}': {error}."
        raise storage_failure(message, deletion.path, error) from error
    except NotFoundError as error:
        raise NotFoundError(
            f"Index file '{deletion.path}' does not exist; it holds the deleted rows of data file"
            f" '{file.file_name}'. The snapshot that names it may have expired. Plan the read"
            " again.",
            kind=error.kind,
            details={"path": deletion.path},
        ) from error
    vector = decode_vector(
        data, deletion.path, length=deletion.length, cardinality=deletion.cardinality
    )
    if vector.last >= file.row_count:
        raise _unfit(
            deletion,
            f"it deletes row {vector.last} of '{file.file_name}', which has {file.row_count} rows",
        )
    return vector


def _unfit(deletion: DeletionFile, what: str) -> FormatError:
    return FormatError(
        f"{deletion.path}: wrong deletion vector, {what}.",
        kind="deletion-vector",
        details={"path": deletion.path},
    )


def live_rows(
    batches: Iterable[pa.RecordBatch],
    vectors: Sequence[DeletionVector],
    row_ranges: Iterable[RowRange],
) -> Iterator[pa.RecordBatch]:
    """Drop deleted rows; batches may become empty."""
    for batch, ranges in _with_ranges(batches, row_ranges):
        is_live = np.ones(batch.num_rows, dtype=np.bool_)
        first_row = 0
        for start, stop in ranges:
            for vector in vectors:
                positions = vector.positions(start, stop).astype(np.int64)
                is_live[first_row + positions - start] = False
            first_row += stop - start
        yield batch if is_live.all() else batch.filter(from_numpy(is_live))


def with_positions_of(
    batches: Iterable[pa.RecordBatch], row_ranges: Iterable[RowRange]
) -> Iterator[pa.RecordBatch]:
    """Add a column `POSITION`."""
    for batch, ranges in _with_ranges(batches, row_ranges):
        parts = [np.arange(start, stop, dtype=np.int64) for start, stop in ranges]
        positions = np.concatenate([np.empty(0, dtype=np.int64), *parts])
        yield batch.append_column(POSITION, from_numpy(positions))


def _with_ranges(
    batches: Iterable[pa.RecordBatch], row_ranges: Iterable[RowRange]
) -> Iterator[tuple[pa.RecordBatch, list[RowRange]]]:
    """Yield each batch with the positions of its rows."""
    ranges = deque(row_ranges)
    for batch in batches:
        parts, missing = [], batch.num_rows
        while missing:
            start, stop = ranges.popleft()
            if stop - start > missing:
                ranges.appendleft((start + missing, stop))
                stop = start + missing
            parts.append((start, stop))
            missing -= stop - start
        yield batch, parts
