"""Where the rows of a write go, by the bucket mode of the table.

    fixed, unaware    hash of the bucket key, or the only bucket
    dynamic           hash index, which is written anew where keys are new
    cross-partition   index of all keys, made for the write
    one bucket        whatever the mode: somebody routed the rows already

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
from paimon_assets.engine.data.write.buckets.key_assigner import KeyAssigner, KnownKeys
from paimon_assets.engine.data.write.buckets.row_key_extractor import (
    UNAWARE_BUCKET,
    Places,
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
    """Rows on their way to buckets."""

    rows: pa.RecordBatch
    kinds: Kinds | None
    """Row → `_VALUE_KIND`; None if every row is +I."""
    places: Places | None
    """None: all rows go into the router's only bucket."""


@dataclass(kw_only=True)
class Router(ABC):
    """Finds the bucket of every row of one write."""

    only_bucket: tuple[bytes, int] | None = None
    """The (partition, bucket) of all rows, if there is but one."""
    index: HashIndexWriter | None = None
    """Of dynamic buckets."""

    @property
    def paths(self) -> list[str]:
        """Every file that was created; whoever gives up deletes them."""
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
    known: Iterable[KnownKeys],
) -> Router:
    """Return the router of a write."""
    if context.schema.bucket_mode is BucketMode.KEY_DYNAMIC and target is None:
        assigner = KeyAssigner(context=context)
        assigner.load(known)
        return _KeyRouter(assigner=assigner)
    if context.schema.bucket_mode is BucketMode.HASH_DYNAMIC:
        index = HashIndexWriter(context=context, file_io=file_io)
        if target is not None:
            return _IndexedBucket(context=context, only_bucket=target, index=index)
        return _DynamicRouter(
            assigner=HashBucketAssigner(context=context, file_io=file_io), index=index
        )
    only = _only_bucket(context) if target is None else target
    return _HashRouter(context=context, only_bucket=only)


def _only_bucket(context: WriteContext) -> tuple[bytes, int] | None:
    """Return the only bucket there can be, if so: rows need not be routed then."""
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
        places = assign_buckets(self.context, rows) if self.only_bucket is None else None
        yield Routed(rows=rows, kinds=kinds, places=places)


@dataclass(kw_only=True)
class _IndexedBucket(Router):
    """Takes rows of one dynamic bucket, and notes their keys."""

    context: WriteContext
    only_bucket: tuple[bytes, int]
    index: HashIndexWriter

    def route(self, rows: pa.RecordBatch, kinds: Kinds | None) -> Iterator[Routed]:
        self.index.add(*self.only_bucket, key_hashes(self.context.schema, rows))
        yield Routed(rows=rows, kinds=kinds, places=None)


@dataclass(kw_only=True)
class _DynamicRouter(Router):
    """Routes by the hash indexes."""

    assigner: HashBucketAssigner
    index: HashIndexWriter

    def route(self, rows: pa.RecordBatch, kinds: Kinds | None) -> Iterator[Routed]:
        assigned = self.assigner.assign(rows)
        places, fresh = assigned.places, assigned.fresh
        ids, buckets = places.partition_ids[fresh], places.buckets[fresh]
        hashes = assigned.hashes[fresh]
        for partition_id in np.unique(ids).tolist():  # steps over buckets with new keys
            inside = ids == partition_id
            for bucket in np.unique(buckets[inside]).tolist():
                chosen = hashes[inside & (buckets == bucket)]
                self.index.add(places.partitions[partition_id], bucket, chosen)
        yield Routed(rows=rows, kinds=kinds, places=places)


@dataclass(kw_only=True)
class _KeyRouter(Router):
    """Routes by where each key lies, and moves keys between partitions."""

    assigner: KeyAssigner

    def route(self, rows: pa.RecordBatch, kinds: Kinds | None) -> Iterator[Routed]:
        placed = self.assigner.assign(rows, kinds)
        if placed.rows.num_rows:
            yield Routed(rows=placed.rows, kinds=placed.kinds, places=placed.places)
