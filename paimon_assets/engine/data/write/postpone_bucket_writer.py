"""Rows that wait for a compaction to give them a bucket: written as they come, keys and kinds kept.

Their number is unknown (-1): the compaction replays them, file by file, and numbers them.
Source: `org.apache.paimon.postpone.PostponeBucketWriter`.
"""

from dataclasses import dataclass

import numpy as np

from paimon_assets.engine.data.write.bucket_writer import BucketWriter
from paimon_assets.engine.data.write.merge_tree_writer import key_value_chunk
from paimon_assets.engine.data.write.row_buffer import RouteRows
from paimon_assets.engine.spec.schema.schema import TableSchema

_UNKNOWN_SEQUENCE = -1


@dataclass(slots=True, kw_only=True)
class PostponeBucketWriter(BucketWriter):
    """Writer of the waiting rows of one partition; the order of rows is kept."""

    schema: TableSchema

    def write(self, part: RouteRows) -> None:
        """Append rows to the current file, or to a new one at the target size."""
        factory, kinds = self.files.factory, part.kinds()
        step = factory.rows_at_once(part.row_count, part.total_bytes)
        start = 0
        for rows in part.slices(step):
            end = start + rows.num_rows
            numbers = np.full(rows.num_rows, _UNKNOWN_SEQUENCE, dtype=np.int64)
            self.files.write(
                key_value_chunk(self.schema, rows, numbers, kinds[start:end], factory.arrow_schema)
            )
            start = end
        self.rows_written += start
