"""The task `place-waiting`: postponed rows are written, in order and with kinds, into buckets.

The new files are on level 0 of their buckets, as if the rows were written now.
Source: `org.apache.paimon.flink.postpone.RewritePostponeBucketCommittableOperator`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_assets.engine.codec.arrow.numpy_columns import to_numpy
from paimon_assets.engine.contract.commit_message import (
    CommitMessage,
    CompactIncrement,
    DataIncrement,
)
from paimon_assets.engine.contract.tasks.compact_task import PostponeContext
from paimon_assets.engine.contract.wire import dump, load, load_split
from paimon_assets.engine.data.read.split_read import read_split
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.data.write.row_kinds import with_kinds
from paimon_assets.engine.data.write.table_write import write_rows
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.schema.schema import ROW_KIND
from paimon_assets.engine.spec.types.data_types import BY_SHORT_TEXT


def place_postponed(shared: bytes, payload: bytes, file_io: FileIO, threads: Threads) -> bytes:
    """Write the postponed rows of one partition to their buckets.

    Cost:
        Reads and writes the rows once; memory as for a write (`write-buffer-size`).
    """
    context, split = load(PostponeContext, shared), load_split(payload)
    rows = _rows(read_split(context.read, split, file_io, threads))
    result = write_rows(context.write, rows, file_io, with_kinds_column=True, threads=threads)
    removal = CommitMessage(
        partition=split.partition,
        bucket=split.bucket,
        total_buckets=split.total_buckets,
        compact_increment=CompactIncrement(compact_before=split.data_files),
    )
    messages = (removal, *map(_as_compaction, result.messages))
    return dump(replace(result, messages=messages))


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        encoded: Any = batch.column(ROW_KIND.name).dictionary_encode()
        kinds = np.array(
            [BY_SHORT_TEXT[text] for text in encoded.dictionary.to_pylist()], dtype=np.int8
        )
        yield with_kinds(batch.drop_columns([ROW_KIND.name]), kinds[to_numpy(encoded.indices)])


def _as_compaction(message: CommitMessage) -> CommitMessage:
    data = message.data_increment
    return replace(
        message,
        data_increment=DataIncrement(),
        compact_increment=CompactIncrement(
            compact_after=data.new_files, changelog_files=data.changelog_files
        ),
    )
