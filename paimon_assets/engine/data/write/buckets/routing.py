"""The buckets of the rows of a write, by the bucket mode of the table.

    fixed, unaware    hash of the bucket key, or the only bucket
    dynamic           key hash → assigner (hash remainder) → its index of the partition → bucket
    cross-partition   index of all keys, built for the write
    one bucket        in any mode: the rows are routed already

Source: subclasses of `org.apache.paimon.table.sink.RowKeyExtractor`,
`org.apache.paimon.index.HashBucketAssigner`.
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.data.merge.records import Kinds
from paimon_assets.engine.data.write.buckets.hash_index import (
    BucketRule,
    HashBucketAssigner,
    HashIndexWriter,
    key_hashes,
)
from paimon_assets.engine.data.write.buckets.key_assigner import BucketKeys, KeyAssigner
from paimon_assets.engine.data.write.buckets.row_key_extractor import (
    UNAWARE_BUCKET,
    RowBuckets,
    assign_buckets,
    has_hashed_buckets,
    partition_ids,
    total_buckets,
)
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.simple_stats import EMPTY_ROW
from paimon_assets.engine.spec.schema.schema import BucketMode


def shuffle_buckets(context: WriteContext, rows: pa.RecordBatch, tasks: int) -> RowBuckets:
    """Return the buckets of rows or, where only a task can know them, the number of its share.

    A share is the assigner of a dynamic bucket, one of `tasks` assigners of keys that may change
    partition (the same in all partitions), or one of `tasks` writers of postponed rows.
    """
    schema = context.schema
    if schema.bucket_mode is BucketMode.KEY_DYNAMIC:
        numbers = KeyAssigner.assigner_of(key_hashes(schema, rows), tasks)
        return RowBuckets([EMPTY_ROW], np.zeros(rows.num_rows, dtype=np.int32), numbers)
    if schema.bucket_mode is BucketMode.HASH_DYNAMIC:
        numbers = BucketRule.of(schema).assigner_of(key_hashes(schema, rows))
        return RowBuckets(*partition_ids(rows, schema), numbers)
    if schema.bucket_mode is BucketMode.POSTPONE and not has_hashed_buckets(schema):
        numbers = KeyAssigner.assigner_of(key_hashes(schema, rows), tasks)
        return RowBuckets(*partition_ids(rows, schema), numbers)
    return assign_buckets(context, rows)


class Router:
    """Finds the bucket of every row of one write.

    Args:
        context: Of the write.
        file_io: Where the table lies.
        target: The (partition, bucket) of all rows, if they are routed already.
        stored_keys: The keys of the table, where keys may change partition.
    """

    def __init__(
        self,
        context: WriteContext,
        file_io: FileIO,
        target: tuple[bytes, int] | None,
        stored_keys: Iterable[BucketKeys],
    ) -> None:
        schema = context.schema
        self._context = context
        self._hashes: HashBucketAssigner | None = None
        self._keys: KeyAssigner | None = None
        self.only_bucket = target
        """The (partition, bucket) of all rows, if there is only one: no row is routed then."""
        self.index: HashIndexWriter | None = None
        """Of dynamic buckets."""
        match schema.bucket_mode:
            case BucketMode.HASH_DYNAMIC:
                self.index = HashIndexWriter(context=context, file_io=file_io)
                if target is None:
                    self._hashes = HashBucketAssigner(
                        context=context, file_io=file_io, writer=self.index
                    )
            case BucketMode.KEY_DYNAMIC if target is None:
                self._keys = KeyAssigner(context=context)
                self._keys.load(stored_keys)
            case mode if target is None and not schema.partition_keys:
                unaware = mode is BucketMode.BUCKET_UNAWARE
                if unaware or total_buckets(context, EMPTY_ROW) == 1:
                    self.only_bucket = EMPTY_ROW, UNAWARE_BUCKET
            case _:
                pass

    def route(
        self, rows: pa.RecordBatch, kinds: Kinds | None
    ) -> tuple[pa.RecordBatch, Kinds | None, RowBuckets | None]:
        """Return rows, kinds and buckets (None: the only one) for a batch of at least one row.

        Rows of one key stay in order.
        """
        if self._keys is not None:
            return self._keys.assign(rows, kinds)
        row_buckets = None
        if self._hashes is not None:
            row_buckets = self._hashes.assign(rows)
        elif self.only_bucket is None:
            row_buckets = assign_buckets(self._context, rows)
        elif self.index is not None:
            self.index.add(*self.only_bucket, key_hashes(self._context.schema, rows))
        return rows, kinds, row_buckets
