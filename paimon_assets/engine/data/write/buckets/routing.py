"""The buckets of the rows of a write, by the bucket mode of the table.

    fixed, unaware    hash of the bucket key, or the only bucket
    dynamic           hash index, which is rewritten where keys are new
    cross-partition   index of all keys, built for the write
    one bucket        in any mode: the rows are routed already

Source: `org.apache.paimon.table.sink.RowKeyExtractor` and its kin.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.data.merge.records import Kinds
from paimon_assets.engine.data.write.buckets.bucket_assigner import HashBucketAssigner
from paimon_assets.engine.data.write.buckets.key_assigner import BucketKeys, KeyAssigner
from paimon_assets.engine.data.write.buckets.row_key_extractor import (
    UNAWARE_BUCKET,
    RowBuckets,
    assign_buckets,
    total_buckets,
)
from paimon_assets.engine.data.write.files.hash_index import HashIndexWriter, key_hashes
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.index_file import IndexFileMeta
from paimon_assets.engine.spec.metadata.simple_stats import EMPTY_ROW
from paimon_assets.engine.spec.schema.schema import BucketMode

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
