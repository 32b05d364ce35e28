"""The dynamic bucket of each row: by the hash index of its partition.

    rows → key hash → assigner (hash remainder) → its index of the partition → bucket

Source: `org.apache.paimon.index.HashBucketAssigner`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.data.write.buckets.key_assigner import KeyAssigner
from paimon_assets.engine.data.write.buckets.partition_index import (
    BucketRule,
    Hashes,
    PartitionIndex,
)
from paimon_assets.engine.data.write.buckets.row_key_extractor import (
    Numbers,
    RowBuckets,
    partition_ids,
)
from paimon_assets.engine.data.write.files.hash_index import key_hashes, read_hashes
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.simple_stats import EMPTY_ROW


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedRows:
    """The buckets of one batch's rows."""

    row_buckets: RowBuckets
    hashes: Hashes
    """Row → key hash."""
    fresh: npt.NDArray[np.int64]
    """Rows whose hash is in no index."""


def assigners_of(context: WriteContext, rows: pa.RecordBatch) -> RowBuckets:
    """Return the assigner of each row's bucket, in place of a bucket."""
    partitions, ids = partition_ids(rows, context.schema)
    rule = BucketRule.of(context.schema)
    return RowBuckets(partitions, ids, rule.assigner_of(key_hashes(context.schema, rows)))


def key_assigners_of(context: WriteContext, rows: pa.RecordBatch, assigners: int) -> RowBuckets:
    """Return the assigner of each row where keys may change partition: the same in all."""
    hashes = key_hashes(context.schema, rows)
    ids = np.zeros(rows.num_rows, dtype=np.int32)
    return RowBuckets([EMPTY_ROW], ids, KeyAssigner.assigner_of(hashes, assigners))


def writers_of(context: WriteContext, rows: pa.RecordBatch, writers: int) -> RowBuckets:
    """Return the writer of each row whose bucket is postponed: a key has one writer."""
    partitions, ids = partition_ids(rows, context.schema)
    hashes = key_hashes(context.schema, rows).astype(np.int64)
    return RowBuckets(partitions, ids, np.mod(hashes, writers).astype(np.int32))


@dataclass(kw_only=True)
class HashBucketAssigner:
    """Assigns the buckets of one write; must see every row of its partitions and assigners.

    Memory: 6 bytes for each key of the partitions of its rows.
    """

    context: WriteContext
    file_io: FileIO
    _rule: BucketRule = field(init=False)
    _indexes: dict[tuple[bytes, int], PartitionIndex] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._rule = BucketRule.of(self.context.schema)

    def assign(self, rows: pa.RecordBatch) -> AssignedRows:
        """Assign a bucket to each row, in order."""
        partitions, ids = partition_ids(rows, self.context.schema)
        hashes = key_hashes(self.context.schema, rows)
        buckets = np.zeros(len(hashes), dtype=np.int32)
        fresh = [np.empty(0, dtype=np.int64)]
        for partition_id, assigner, group in _groups(ids, self._rule.assigner_of(hashes)):
            index = self._index(partitions[partition_id], assigner)
            buckets[group], new = index.assign(hashes[group])
            fresh.append(group[new])
        row_buckets = RowBuckets(partitions, ids, buckets)
        return AssignedRows(row_buckets=row_buckets, hashes=hashes, fresh=np.concatenate(fresh))

    def _index(self, partition: bytes, assigner: int) -> PartitionIndex:
        index = self._indexes.get((partition, assigner))
        if index is None:
            states = self.context.indexes_by_partition.get(partition, {})
            hashes = {bucket: read_hashes(state, self.file_io) for bucket, state in states.items()}
            index = PartitionIndex.of(self._rule, assigner, hashes)
            self._indexes[partition, assigner] = index
        return index


def _groups(ids: Numbers, assigners: Numbers) -> Iterator[tuple[int, int, npt.NDArray[np.int64]]]:
    """Yield (partition id, assigner, its rows in order)."""
    if not len(ids):
        return
    width = int(assigners.max()) + 1
    codes = ids.astype(np.int64) * width + assigners
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order])) + 1
    for group in np.split(order, starts):
        partition_id, assigner = divmod(int(codes[group[0]]), width)
        yield partition_id, assigner, group
