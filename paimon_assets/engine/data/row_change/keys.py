"""What the rows of a task hold in the columns they are matched by, for executors that join."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.contract.merge_on import MergeOn
from paimon_assets.engine.contract.tasks.row_change_task import RowChange, RowChangeTask
from paimon_assets.engine.data.read.split_read import read_split
from paimon_assets.engine.data.row_change.matches import gathered
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.data.write.buckets.row_key_extractor import distinct_rows
from paimon_assets.engine.fileio.base import FileIO

Keys = Sequence["pa.Array[Any]"]
"""The keys of one batch, as `MergeOn.keys`."""


def match_keys(
    change: RowChange, task: RowChangeTask, on: MergeOn, file_io: FileIO, threads: Threads
) -> Iterator[Keys]:
    """Yield the keys of the rows of a task's files that the predicate lets pass.

    Cost:
        Reads the columns of the keys. A key that many rows have comes once of each 131,072 rows.
    """
    context = replace(change.read, columns=on.names)
    is_unique = change.read.schema.has_primary_key
    for split in task.splits:
        for rows in gathered(read_split(context, split, file_io, threads)):
            keys = on.keys(rows)
            if not is_unique and rows.num_rows:
                first_rows = from_numpy(distinct_rows(keys)[1])
                keys = [key.take(first_rows) for key in keys]
            yield keys
