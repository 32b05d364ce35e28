"""Read one split: choose between reading files as they are and merging them.

    append table, or nothing to merge   read_raw      files one after the other
    streaming: every record counts      read_raw      the same, with their kinds
    primary-key table                   read_merged   newest record of each key
    before-files                        read_diff     what differs between two states

Source: `org.apache.paimon.table.source.splitread`.
"""

from collections.abc import Callable, Generator
from contextlib import closing

import pyarrow as pa

from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.data.read.data_files import FileRead
from paimon_assets.engine.data.read.diff_split_read import read_diff
from paimon_assets.engine.data.read.merge_file_split_read import read_merged
from paimon_assets.engine.data.read.own_schema import with_own_schemas
from paimon_assets.engine.data.read.raw_file_split_read import read_raw
from paimon_assets.engine.data.threads import CALLER_ONLY, Threads
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.row_ranges import group_by_row_range
from paimon_assets.engine.spec.predicate.predicate import fields_of, only_on
from paimon_assets.engine.spec.schema.special_fields import ROW_KIND

Read = Callable[[ReadContext, DataSplit, FileIO, Threads], Generator[pa.RecordBatch, None, None]]


def read_split(
    context: ReadContext, split: DataSplit, file_io: FileIO, threads: Threads = CALLER_ONLY
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the split's rows as batches of exactly the schema of `context.columns`.

    Rows come in key order if they were merged, else in file order. Empty batches are left out.
    Decoding and gathering run in `threads` beside the caller; closing the iterator ends them.

    Raises:
        FormatError: A file is damaged, or not what its metadata says; names it.
        NotFoundError: A file is gone, or a column does not exist.
        StorageError: The storage failed.
        UnsupportedFeatureError: The split needs what this engine does not do; names it.
    """
    context = context.of(split)
    _check_supported(context, split)
    context = with_own_schemas(context, split, file_io)
    with closing(_chosen(context, split)(context, split, file_io, threads)) as batches:
        yield from (batch for batch in batches if batch.num_rows)


def bytes_to_decode(context: ReadContext, split: DataSplit, file_io: FileIO) -> int:
    """Return about how many bytes of files `read_split` decodes, whatever columns it reads.

    Raises:
        PaimonError: As `read_split`.

    Cost:
        The footer and the file index of each file, if the read has a predicate.
    """
    context = context.of(split)
    predicate = context.predicate
    if not _is_raw(context, split):
        predicate = only_on(predicate, context.schema.trimmed_primary_keys)
    joined = any(len(group) > 1 for group in group_by_row_range(split.data_files))
    wanted = fields_of(predicate) - set(context.schema.partition_keys)
    if not wanted or joined or split.is_difference:
        return split.file_bytes
    context = with_own_schemas(context, split, file_io)
    names = [field.name for field in context.schema.fields if field.name in wanted]
    read = FileRead(
        context=context,
        split=split,
        file_io=file_io,
        fields=tuple(context.schema.columns(names)),
        predicate=predicate,
        batch_rows=1,
    )
    return sum(map(read.bytes_to_decode, split.data_files))


def _chosen(context: ReadContext, split: DataSplit) -> Read:
    if split.is_difference:
        return read_diff
    return read_raw if _is_raw(context, split) else read_merged


def _is_raw(context: ReadContext, split: DataSplit) -> bool:
    if not context.schema.has_primary_key or split.is_streaming:
        return True
    # A file that may hold retractions must be merged even alone, or they would come out as rows.
    return split.raw_convertible and all(file.delete_row_count == 0 for file in split.data_files)


def _check_supported(context: ReadContext, split: DataSplit) -> None:
    if split.is_streaming and context.schema.has_primary_key and not context.keeps_kinds:
        raise UnsupportedFeatureError(
            f"A streaming split of table '{context.table}' keeps the kinds of its rows; ask for"
            f" the column '{ROW_KIND.name}' to read it.",
            kind="streaming-split",
            details={"table": context.table},
        )
