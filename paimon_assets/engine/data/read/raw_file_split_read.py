"""Read the files of a split one after the other: append tables, and buckets that need no merge.

    FileRead, or several joined ─▶ read ahead in a thread, unless files are small ─▶ RowStage

Source: `org.apache.paimon.operation.RawFileSplitRead`.

Row ids and sequence numbers of tables with row tracking, as columns of a read.

    _ROW_ID            what the file stores; else its first row id plus the row's position
    _SEQUENCE_NUMBER   what the file stores; else the snapshot that added the file

Of files that hold some columns each of the same rows, the newest says the sequence number.
Source: `org.apache.paimon.utils.ApplyRowTracking`, `DataEvolutionSplitRead`.
"""

from collections.abc import Collection, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.data.deletion import POSITION
from paimon_assets.engine.data.merge.run_cursor import read_ahead
from paimon_assets.engine.data.read.data_files import FileRead
from paimon_assets.engine.data.read.joined_files import read_joined
from paimon_assets.engine.data.read.row_stage import RowStage
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.row_ranges import group_by_row_range
from paimon_assets.engine.spec.options.all_options import READ_BATCH_SIZE
from paimon_assets.engine.spec.schema.special_fields import (
    ROW_ID,
    SEQUENCE_NUMBER,
    TRACKING_FIELDS,
    VALUE_KIND,
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
        wanted = tuple(field for field in stored if field.name in columns)
        physical = replace(read, system_fields=(*read.system_fields, *wanted))
        batches = physical.batches(newest, with_positions=True)
    first_row_id = min((file.first_row_id or 0 for file in files), default=0)
    for batch in batches:
        ids: Any = pa.nulls(batch.num_rows, pa.int64())
        if newest.first_row_id is not None:
            ids = pc.add(batch.column(POSITION), pa.scalar(first_row_id, pa.int64()))
        number: Any = pa.scalar(newest.max_sequence_number, pa.int64())
        numbers = pa.repeat(number, batch.num_rows)
        rows = batch.drop_columns([POSITION])
        for name, known in ((ROW_ID.name, ids), (SEQUENCE_NUMBER.name, numbers)):
            if name in columns:
                rows = _with_column(rows, name, known)
        yield rows


def _with_column(rows: pa.RecordBatch, name: str, known: Any) -> pa.RecordBatch:
    """Add a column, or fill the gaps of the one the file stores."""
    if name in rows.schema.names:
        filled: Any = pc.coalesce(rows.column(name), known)
        return rows.set_column(rows.schema.get_field_index(name), name, filled)
    return rows.append_column(name, known)


_SMALL_FILE_BYTES = 512 * 1024
"""The size of files of which none is worth a thread."""


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
    # Handing over a small file costs more than to decode it here.
    is_small = split.file_bytes < _SMALL_FILE_BYTES * len(split.data_files)
    with closing(decoded if is_small else read_ahead(decoded, threads)) as batches:
        for batch in batches:
            if batch.num_rows:
                yield stage.apply(batch)


def _batches(
    read: FileRead, split: DataSplit, tracking: Collection[str]
) -> Generator[pa.RecordBatch, None, None]:
    for files in group_by_row_range(split.data_files):
        if tracking:
            yield from read_tracked(read, files, tracking)
            continue
        yield from read.batches(files[0]) if len(files) == 1 else read_joined(read, files)
