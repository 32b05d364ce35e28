"""The buckets of the rows of a write, by the bucket mode of the table.

    fixed, unaware    hash of the bucket key, or the only bucket
    dynamic           key hash → assigner (hash remainder) → its index of the partition → bucket
    cross-partition   index of all keys, built for the write
    one bucket        in any mode: the rows are routed already

Source: subclasses of `org.apache.paimon.table.sink.RowKeyExtractor`,
`org.apache.paimon.index.HashBucketAssigner`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.data.merge.records import Kinds
from paimon_assets.engine.data.write.buckets.hash_index import (
    BucketRule,
    Hashes,
    HashIndexWriter,
    PartitionIndex,
    key_hashes,
    read_hashes,
)
from paimon_assets.engine.data.write.buckets.key_assigner import BucketKeys, KeyAssigner
from paimon_assets.engine.data.write.buckets.row_key_extractor import (
    UNAWARE_BUCKET,
    Numbers,
    RowBuckets,
    assign_buckets,
    partition_ids,
    total_buckets,
)
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.index_file import IndexFileMeta
from paimon_assets.engine.spec.metadata.simple_stats import EMPTY_ROW
from paimon_assets.engine.spec.schema.schema import BucketMode


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


IndexFiles = tuple[tuple[IndexFileMeta, ...], tuple[IndexFileMeta, ...]]
"""New index files of a bucket, and those they replace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """Rows with their buckets."""

    rows: pa.RecordBatch
    kinds: Kinds | None
    """Row → `_VALUE_KIND`; None if every row is +I."""
    row_buckets: RowBuckets | None
    """None: the router's only bucket."""


@dataclass(kw_only=True)
class Router(ABC):
    """Finds the bucket of every row of one write."""

    only_bucket: tuple[bytes, int] | None = None
    """The (partition, bucket) of all rows, if there is only one."""
    index: HashIndexWriter | None = None
    """Of dynamic buckets."""

    @property
    def paths(self) -> list[str]:
        """Every file that was created; an aborted write deletes them."""
        return [] if self.index is None else self.index.paths

    @abstractmethod
    def route(self, rows: pa.RecordBatch, kinds: Kinds | None) -> Iterator[Routed]:
        """Route a batch of at least one row; rows of one key stay in order."""

    def index_files(self, partition: bytes, bucket: int) -> IndexFiles:
        """Write the index of a bucket, if it changed; called once, after all rows."""
        return ((), ()) if self.index is None else self.index.increment(partition, bucket)


def router_of(
    context: WriteContext,
    file_io: FileIO,
    target: tuple[bytes, int] | None,
    stored_keys: Iterable[BucketKeys],
) -> Router:
    """Return the router of a write."""
    if context.schema.bucket_mode is BucketMode.KEY_DYNAMIC and target is None:
        assigner = KeyAssigner(context=context)
        assigner.load(stored_keys)
        return _KeyRouter(assigner=assigner)
    if context.schema.bucket_mode is BucketMode.HASH_DYNAMIC:
        index = HashIndexWriter(context=context, file_io=file_io)
        if target is not None:
            return _IndexedBucket(context=context, only_bucket=target, index=index)
        bucket_assigner = HashBucketAssigner(context=context, file_io=file_io)
        return _DynamicRouter(assigner=bucket_assigner, index=index)
    only = _only_bucket(context) if target is None else target
    return _HashRouter(context=context, only_bucket=only)


def _only_bucket(context: WriteContext) -> tuple[bytes, int] | None:
    """Return the bucket of all rows if a table can have only one: no row is routed then."""
    schema = context.schema
    if schema.partition_keys:
        return None
    unaware = schema.bucket_mode is BucketMode.BUCKET_UNAWARE
    if unaware or total_buckets(context, EMPTY_ROW) == 1:
        return EMPTY_ROW, UNAWARE_BUCKET
    return None


@dataclass(kw_only=True)
class _HashRouter(Router):
    """Routes by the bucket function."""

    context: WriteContext

    def route(self, rows: pa.RecordBatch, kinds: Kinds | None) -> Iterator[Routed]:
        row_buckets = assign_buckets(self.context, rows) if self.only_bucket is None else None
        yield Routed(rows=rows, kinds=kinds, row_buckets=row_buckets)


@dataclass(kw_only=True)
class _IndexedBucket(Router):
    """Routes all rows into one dynamic bucket, and adds their keys to its index."""

    context: WriteContext
    only_bucket: tuple[bytes, int]
    index: HashIndexWriter

    def route(self, rows: pa.RecordBatch, kinds: Kinds | None) -> Iterator[Routed]:
        self.index.add(*self.only_bucket, key_hashes(self.context.schema, rows))
        yield Routed(rows=rows, kinds=kinds, row_buckets=None)


@dataclass(kw_only=True)
class _DynamicRouter(Router):
    """Routes by the hash indexes."""

    assigner: HashBucketAssigner
    index: HashIndexWriter

    def route(self, rows: pa.RecordBatch, kinds: Kinds | None) -> Iterator[Routed]:
        assigned = self.assigner.assign(rows)
        row_buckets, fresh = assigned.row_buckets, assigned.fresh
        ids, buckets = row_buckets.partition_ids[fresh], row_buckets.buckets[fresh]
        hashes = assigned.hashes[fresh]
        for partition_id in np.unique(ids).tolist():  # steps over buckets with new keys
            inside = ids == partition_id
            for bucket in np.unique(buckets[inside]).tolist():
                partition = row_buckets.partitions[partition_id]
                self.index.add(partition, bucket, hashes[inside & (buckets == bucket)])
        yield Routed(rows=rows, kinds=kinds, row_buckets=row_buckets)


@dataclass(kw_only=True)
class _KeyRouter(Router):
    """Routes by the index of all keys, and moves keys between partitions."""

    assigner: KeyAssigner

    def route(self, rows: pa.RecordBatch, kinds: Kinds | None) -> Iterator[Routed]:
        assigned = self.assigner.assign(rows, kinds)
        if assigned.rows.num_rows:
            yield Routed(rows=assigned.rows, kinds=assigned.kinds, row_buckets=assigned.row_buckets)
