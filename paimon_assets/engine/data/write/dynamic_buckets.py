"""Dynamic buckets: the hash index of a partition.

The hash index has the hash of every key a bucket holds:

    hash   murmur of the trimmed primary key as BinaryRow, as for fixed buckets, but not reduced
    file   the distinct hashes as 4-byte big-endian integers; one file a bucket, always rewritten

A hash keeps its first bucket. New hashes fill the existing buckets up to a number of keys, lowest
first, then a new bucket. The result depends only on the index and the order of the hashes, so two
concurrent writers cannot put one key into two buckets without a conflict.
Source: `org.apache.paimon.index.PartitionIndex`, `BucketAssigner`, `HashIndexFile`,
`DynamicBucketIndexMaintainer`, `HashBucketAssigner`.
"""

from collections.abc import Iterable, Mapping
from itertools import chain, filterfalse
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct, field

from paimon_assets.engine.codec.arrow.numpy_columns import Ints
from paimon_assets.engine.codec.hashing.row_words import row_hashes
from paimon_assets.engine.contract.context import HashIndexState, WriteContext
from paimon_assets.engine.data.write.row_key_extractor import RowBuckets, bucket_path, partition_ids
from paimon_assets.engine.errors import FormatError, InvalidInputError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.manifest import HASH_INDEX, IndexFileMeta
from paimon_assets.engine.spec.options.all_options import (
    DYNAMIC_BUCKET_INITIAL,
    DYNAMIC_BUCKET_MAX,
    DYNAMIC_BUCKET_TARGET_ROWS,
    INDEX_FILE_IN_DATA_DIRECTORY,
)
from paimon_assets.engine.spec.paths import TablePaths
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.values import Value

Hashes = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int64]

UNKNOWN = -1
"""In place of a bucket or partition: the key is new."""
_MAX_BUCKETS = 32_767
"""Java keeps bucket numbers in 16 bits."""
_STORED = np.dtype(">i4")


class BucketRule(Value):
    target_rows: int
    """Hashes of a full bucket."""
    max_buckets: int
    """-1: no limit but the range of bucket numbers."""
    assigners: int
    """Hashes are distributed to so many assigners; each has the buckets of its own remainder."""

    @staticmethod
    def of(schema: TableSchema) -> "BucketRule":
        options = schema.typed_options
        for option in (DYNAMIC_BUCKET_TARGET_ROWS, DYNAMIC_BUCKET_INITIAL, DYNAMIC_BUCKET_MAX):
            value = options.get(option)
            if value < 1 and not (option is DYNAMIC_BUCKET_MAX and value == -1):
                message = f"Table option '{option.key}' must be at least 1, not {value}."
                raise InvalidInputError(message, kind="option-value", option=option.key)
        limit = options.get(DYNAMIC_BUCKET_MAX)
        initial = options.get(DYNAMIC_BUCKET_INITIAL)
        return BucketRule(
            target_rows=options.get(DYNAMIC_BUCKET_TARGET_ROWS),
            max_buckets=limit,
            assigners=initial if limit == -1 else min(initial, limit),
        )

    def assigner_of(self, hashes: Hashes) -> Ints:
        if self.assigners == 1:
            return np.zeros(len(hashes), dtype=np.int32)
        remainders = np.abs(np.fmod(hashes.astype(np.int64), self.assigners))
        return remainders.astype(np.int32)


class PartitionIndex(Struct, kw_only=True):
    """The hashes of one assigner in one partition. Memory: 6 bytes a hash."""

    rule: BucketRule
    assigner: int
    counts: dict[int, int] = field(default_factory=dict)
    """Bucket of this assigner → hashes in it."""
    _runs: list[tuple[Hashes, npt.NDArray[np.int16]]] = field(default_factory=list)
    """Sorted hashes and their buckets; each run at least twice as long as the next."""

    @staticmethod
    def of(rule: BucketRule, assigner: int, hashes: Mapping[int, Hashes]) -> "PartitionIndex":
        """Begin with the hashes of every bucket of the partition, of all assigners."""
        # Known keys may be in buckets of other assigners, from a time when there were more or
        # fewer; new keys only go to buckets of their own.
        index = PartitionIndex(rule=rule, assigner=assigner)
        parts = []
        for bucket, stored in sorted(hashes.items()):
            if bucket % rule.assigners == assigner:
                index.counts[bucket] = len(stored)
            own = stored[rule.assigner_of(stored) == assigner]
            parts.append((own, np.full(len(own), bucket, dtype=np.int16)))
        if parts:
            index._add(
                np.concatenate([own for own, _ in parts]),
                np.concatenate([buckets for _, buckets in parts]),
            )
        return index

    def assign(self, hashes: Hashes) -> tuple[Ints, npt.NDArray[np.int64]]:
        """Return the bucket of each hash, and the positions of new hashes."""
        # A hash is in one run at most, so its first hit is its bucket. New hashes take buckets in
        # the order of their first rows, whatever the order of hashes.
        distinct, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        buckets = np.full(len(distinct), UNKNOWN, dtype=np.int32)
        for run, run_buckets in self._runs:
            positions = np.minimum(np.searchsorted(run, distinct), len(run) - 1)
            hit = run[positions] == distinct
            buckets[hit] = run_buckets[positions[hit]]
        new = np.flatnonzero(buckets == UNKNOWN)
        if len(new):
            by_arrival = new[np.argsort(first[new])]
            buckets[by_arrival] = self._fill(distinct[by_arrival])
            self._add(distinct[new], buckets[new].astype(np.int16))
        return buckets[inverse], first[new]

    def _fill(self, hashes: Hashes) -> Ints:
        """Assign new hashes, in order, to buckets with room; beyond the limit, to full ones."""
        rule = self.rule
        limit = _MAX_BUCKETS if rule.max_buckets == -1 else rule.max_buckets
        candidates = range(self.assigner, limit, rule.assigners)
        buckets = fill_buckets(len(hashes), self.counts, rule.target_rows, candidates)
        if len(buckets) == len(hashes):
            return buckets
        if rule.max_buckets == -1:
            raise InvalidInputError(
                f"A partition would have more than {limit} buckets; raise "
                f"'{DYNAMIC_BUCKET_TARGET_ROWS.key}', now {rule.target_rows}.",
                kind="bucket-count",
                option=DYNAMIC_BUCKET_TARGET_ROWS.key,
            )
        # Java picks at random; concurrent writers must not differ.
        full = np.array(sorted(self.counts), dtype=np.int32)
        rest = hashes[len(buckets) :].astype(np.int64)
        return np.concatenate([buckets, full[np.abs(rest) % len(full)]])

    def _add(self, hashes: Hashes, buckets: npt.NDArray[np.int16]) -> None:
        """Add hashes; runs are merged as they double, so a hash is moved log(n) times."""
        if not len(hashes):
            return
        self._runs.append(_by_hash(hashes, buckets))
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            (old, old_buckets), (new, new_buckets) = self._runs[-2:]
            self._runs[-2:] = [
                _by_hash(np.concatenate([old, new]), np.concatenate([old_buckets, new_buckets]))
            ]


def fill_buckets(
    key_count: int, counts: dict[int, int], target_rows: int, candidates: Iterable[int]
) -> Ints:
    """Return buckets for new keys, in order: those with room first, then unused candidates.

    Adds the keys to `counts`. The result is shorter than `key_count` if candidates run out.
    """
    buckets = np.empty(key_count, dtype=np.int32)
    start = 0
    open_buckets = [bucket for bucket in sorted(counts) if counts[bucket] < target_rows]
    for bucket in chain(open_buckets, filterfalse(set(counts).__contains__, candidates)):
        size = counts.get(bucket, 0)
        end = min(key_count, start + target_rows - size)
        buckets[start:end] = bucket
        counts[bucket] = size + end - start
        start = end
        if start == key_count:
            break
    return buckets[:start]


def _by_hash(
    hashes: Hashes, buckets: npt.NDArray[np.int16]
) -> tuple[Hashes, npt.NDArray[np.int16]]:
    order = np.argsort(hashes, kind="stable")  # merges sorted parts in linear time
    return hashes[order], buckets[order]


def key_hashes(schema: TableSchema, rows: pa.RecordBatch) -> Hashes:
    """Return Java's hash of each trimmed primary key, or of the whole one across partitions."""
    fields = schema.columns(schema.lookup_keys)
    columns: list[Any] = [rows.column(field.name) for field in fields]
    hashes: Hashes = row_hashes(columns, [field.type for field in fields]).view(np.int32)
    return hashes


def read_hashes(state: HashIndexState, file_io: FileIO) -> Hashes:
    data = file_io.read_bytes(state.path)
    if len(data) != _STORED.itemsize * state.file.row_count:
        message = (
            f"Hash index '{state.path}' has {len(data)} bytes, but {state.file.row_count} hashes."
        )
        raise FormatError(message, kind="hash-index", file=state.path)
    return np.frombuffer(data, dtype=_STORED).astype(np.int32)


class HashIndexWriter(Struct, kw_only=True):
    context: WriteContext
    file_io: FileIO
    paths: list[str] = field(default_factory=list)
    """Every path that was created; an aborted write deletes them."""
    _added: dict[tuple[bytes, int], list[Hashes]] = field(default_factory=dict)
    _identity: str = field(default_factory=lambda: str(uuid4()))

    def add(self, partition: bytes, bucket: int, hashes: Hashes) -> None:
        """Add the keys of rows of a bucket; the index may hold some already."""
        self._added.setdefault((partition, bucket), []).append(np.unique(hashes))

    def increment(
        self, partition: bytes, bucket: int
    ) -> tuple[tuple[IndexFileMeta, ...], tuple[IndexFileMeta, ...]]:
        """Rewrite a bucket's index if it has new keys; return (new files, those they replace)."""
        added = self._added.pop((partition, bucket), None)
        if added is None:
            return (), ()
        state = self.context.indexes_by_partition.get(partition, {}).get(bucket)
        stored = np.empty(0, np.int32) if state is None else read_hashes(state, self.file_io)
        new = np.setdiff1d(np.concatenate(added), stored)
        if not len(new):
            return (), ()
        hashes = np.concatenate([stored, new])
        name = f"index-{self._identity}-{len(self.paths)}"
        path = index_path(self.context, partition, bucket, name)
        data = hashes.astype(_STORED).tobytes()
        self.paths.append(path)
        self.file_io.write_bytes(path, data)
        file = IndexFileMeta(
            index_type=HASH_INDEX, file_name=name, file_size=len(data), row_count=len(hashes)
        )
        return (file,), () if state is None else (state.file,)


def index_path(context: WriteContext, partition: bytes, bucket: int, name: str) -> str:
    if context.schema.typed_options.get(INDEX_FILE_IN_DATA_DIRECTORY):
        return f"{bucket_path(context, partition, bucket)}/{name}"
    return TablePaths(table=context.table_path).index(name)


class HashBucketAssigner(Struct, kw_only=True):
    """Assigns the buckets of one write; must see every row of its partitions and assigners.

    Memory: 6 bytes for each key of the partitions of its rows.
    """

    context: WriteContext
    file_io: FileIO
    writer: HashIndexWriter | None = None
    """Takes the keys that no index holds."""
    _indexes: dict[tuple[bytes, int], PartitionIndex] = field(default_factory=dict)

    def assign(self, rows: pa.RecordBatch) -> RowBuckets:
        partitions, ids = partition_ids(rows, self.context.schema)
        hashes = key_hashes(self.context.schema, rows)
        buckets = np.zeros(len(hashes), dtype=np.int32)
        if not len(hashes):
            return RowBuckets(partitions, ids, buckets)
        assigners = BucketRule.of(self.context.schema).assigner_of(hashes)
        width = int(assigners.max()) + 1
        # A group has the rows of one partition and assigner, in their order: so its buckets do not
        # depend on the rows of other groups.
        codes = ids.astype(np.int64) * width + assigners
        order = np.argsort(codes, kind="stable")
        for group in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
            partition_id, assigner = divmod(int(codes[group[0]]), width)
            partition = partitions[partition_id]
            buckets[group], new = self._index(partition, assigner).assign(hashes[group])
            if self.writer is not None:
                first = group[new]
                for bucket in np.unique(buckets[first]).tolist():
                    inside = first[buckets[first] == bucket]
                    self.writer.add(partition, bucket, hashes[inside])
        return RowBuckets(partitions, ids, buckets)

    def _index(self, partition: bytes, assigner: int) -> PartitionIndex:
        index = self._indexes.get((partition, assigner))
        if index is None:
            states = self.context.indexes_by_partition.get(partition, {})
            hashes = {bucket: read_hashes(state, self.file_io) for bucket, state in states.items()}
            index = PartitionIndex.of(BucketRule.of(self.context.schema), assigner, hashes)
            self._indexes[partition, assigner] = index
        return index
