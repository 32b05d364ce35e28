"""Read the files of a split one after the other: append tables, and buckets that need no merge.

    FileRead, or several joined ─▶ read ahead in a thread, unless files are small ─▶ RowStage

Source: `org.apache.paimon.operation.RawFileSplitRead`.
"""

from collections.abc import Collection, Generator
from contextlib import closing

import pyarrow as pa

from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.data.merge.run_cursor import read_ahead
from paimon_assets.engine.data.read.data_files import FileRead
from paimon_assets.engine.data.read.joined_files import read_joined
from paimon_assets.engine.data.read.row_stage import RowStage
from paimon_assets.engine.data.read.row_tracking import read_tracked
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.row_ranges import group_by_row_range
from paimon_assets.engine.spec.options.all_options import READ_BATCH_SIZE
from paimon_assets.engine.spec.schema.special_fields import TRACKING_FIELDS, VALUE_KIND

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
