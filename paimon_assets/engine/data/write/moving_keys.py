"""Keys that may change partition: the partition columns are no part of the primary key.

A row whose key is in another partition already:

    the newest record wins    the key moves: -D in the old partition, the row in the new one
    the first record stays    the key stays: rows of other partitions are dropped
    all other engines         the key stays: the row gets the partition of its first record

`KeyIndex` holds these keys as Arrow columns, sorted by hash; the keys decide between equal hashes.
Source: `org.apache.paimon.crosspartition.GlobalIndexAssigner`, `ExistingProcessor`.
"""

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.codec.arrow.arrow_values import to_scalar
from paimon_assets.engine.codec.arrow.numpy_columns import (
    Array,
    Ints,
    changes,
    from_numpy,
    to_numpy,
)
from paimon_assets.engine.codec.rows.binary_row import deserialize_row
from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.data.merge.records import Kinds
from paimon_assets.engine.data.write import dynamic_buckets, row_key_extractor
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.merge.engine_traits import EngineTraits
from paimon_assets.engine.spec.options.all_options import KEY_INDEX_BYTES
from paimon_assets.engine.spec.types.data_types import RowKind
from paimon_assets.engine.spec.values import Value


class _Run(NamedTuple):
    """Keys sorted by hash."""

    hashes: dynamic_buckets.Hashes
    keys: list[Any]
    partitions: Ints
    buckets: Ints

    @staticmethod
    def merge(runs: "Sequence[_Run]") -> "_Run":
        """Join runs, sorted or not."""
        hashes, keys, partitions, buckets = zip(*runs, strict=True)
        all_hashes = np.concatenate(hashes)
        order = np.argsort(all_hashes, kind="stable")
        columns: list[Any] = [
            pa.chunked_array(parts).combine_chunks().take(from_numpy(order))
            for parts in zip(*keys, strict=True)
        ]
        return _Run(
            all_hashes[order],
            columns,
            np.concatenate(partitions)[order],
            np.concatenate(buckets)[order],
        )


class KeyPositions(Value):
    """Keys, and their stored positions."""

    hashes: dynamic_buckets.Hashes
    keys: "Sequence[Any]"
    partitions: Ints
    """Key → partition, or `UNKNOWN`."""
    buckets: Ints
    """Key → bucket; arbitrary for unknown keys."""
    hits: list[tuple[_Run, dynamic_buckets.Rows, dynamic_buckets.Rows]]
    """(run, keys that it holds, their positions in it)."""


class KeyIndex(Struct):
    """Keys with their partition and bucket, as small numbers of 12 bytes for each."""

    total_bytes: int = 0
    _runs: list[_Run] = field(default_factory=list)

    def find(self, hashes: dynamic_buckets.Hashes, keys: "Sequence[Any]") -> KeyPositions:
        """Look keys up by hash, then by value."""
        partitions = np.full(len(hashes), dynamic_buckets.UNKNOWN, dtype=np.int32)
        buckets = np.zeros(len(hashes), dtype=np.int32)
        # A key is in one run at most. A row's candidate steps through the keys of its hash, until
        # one is equal or the hash ends.
        hits = []
        for run in self._runs:
            candidates = np.searchsorted(run.hashes, hashes, side="left")
            ends = np.searchsorted(run.hashes, hashes, side="right")
            rows = np.flatnonzero((candidates < ends) & (partitions == dynamic_buckets.UNKNOWN))
            while len(rows):  # as often as different keys share a hash
                equal = np.ones(len(rows), dtype=np.bool_)
                stored, asked = from_numpy(candidates[rows]), from_numpy(rows)
                for stored_column, column in zip(run.keys, keys, strict=True):
                    values: Array = pc.equal(stored_column.take(stored), column.take(asked))
                    equal &= to_numpy(values)
                matches = rows[equal]
                positions = candidates[matches]
                partitions[matches] = run.partitions[positions]
                buckets[matches] = run.buckets[positions]
                hits.append((run, matches, positions))
                candidates[rows] += 1
                rows = rows[~equal]
                rows = rows[candidates[rows] < ends[rows]]
        return KeyPositions(
            hashes=hashes, keys=keys, partitions=partitions, buckets=buckets, hits=hits
        )

    def put(self, former: KeyPositions, partitions: Ints, buckets: Ints) -> None:
        """Set the partitions and buckets of keys whose `former` ones `find` has just returned."""
        for run, rows, positions in former.hits:
            run.partitions[positions] = partitions[rows]
            run.buckets[positions] = buckets[rows]
        new = np.flatnonzero(former.partitions == dynamic_buckets.UNKNOWN)
        if not len(new):
            return
        columns: list[Any] = [column.take(from_numpy(new)) for column in former.keys]
        self.total_bytes += 12 * len(new) + sum(column.nbytes for column in columns)
        run = _Run(former.hashes[new], columns, partitions[new], buckets[new])
        self._runs.append(_Run.merge([run]))
        while len(self._runs) > 1 and len(self._runs[-2].hashes) < 2 * len(self._runs[-1].hashes):
            self._runs[-2:] = [_Run.merge(self._runs[-2:])]


BucketKeys = tuple[bytes, int, pa.RecordBatch]
"""(partition, bucket, key columns) of rows the table holds."""
AssignedBatch = tuple[pa.RecordBatch, Kinds, row_key_extractor.RowBuckets]
"""Rows in order, with retractions and without dropped rows, their kinds and buckets."""


class _Keys(NamedTuple):
    """The distinct keys of a batch."""

    ids: Ints
    """Row → key."""
    first: dynamic_buckets.Rows
    """Key → its first row."""
    former: KeyPositions


class KeyAssigner(Struct, kw_only=True, dict=True):
    """Assigns partitions and buckets to the rows of one write; must see every row of its keys."""

    context: WriteContext
    assigner: int = 0
    assigners: int = 1
    """New keys go to buckets of this remainder."""
    _index: KeyIndex = field(default_factory=KeyIndex)
    _partitions: list[bytes] = field(default_factory=list)
    _numbers: dict[bytes, int] = field(default_factory=dict)
    _values: list[list[Any]] = field(default_factory=list)
    """Partition column → its value in each partition."""
    _counts: dict[int, dict[int, int]] = field(default_factory=dict)
    """Partition → bucket of this assigner → keys in it."""

    def __post_init__(self) -> None:
        schema = self.context.schema
        self._target_rows = dynamic_buckets.BucketRule.of(schema).target_rows
        self._limit_bytes = schema.typed_options.get(KEY_INDEX_BYTES)
        self._traits = EngineTraits.of(schema)
        self._values = [[] for _ in schema.partition_fields]

    def load(self, stored_keys: Iterable[BucketKeys]) -> None:
        """Add the keys the table holds, without those of other assigners."""
        for partition, bucket, batch in stored_keys:
            hashes = dynamic_buckets.key_hashes(self.context.schema, batch)
            own = np.flatnonzero(self.assigner_of(hashes, self.assigners) == self.assigner)
            number = self._number(partition)
            counts = self._counts.setdefault(number, {})
            if bucket % self.assigners == self.assigner:
                counts[bucket] = counts.get(bucket, 0) + len(own)
            keys = self._keys(batch.take(from_numpy(own)))
            numbers = np.full(len(keys.first), number, dtype=np.int32)
            self._put(keys.former, numbers, np.full(len(numbers), bucket, dtype=np.int32))

    @staticmethod
    def assigner_of(hashes: dynamic_buckets.Hashes, assigners: int) -> Ints:
        return np.mod(hashes.astype(np.int64), assigners).astype(np.int32)

    def assign(self, rows: pa.RecordBatch, kinds: Kinds | None) -> AssignedBatch:
        if kinds is None:
            kinds = np.zeros(rows.num_rows, dtype=np.int8)
        if not rows.num_rows:
            empty = np.empty(0, dtype=np.int32)
            return rows, kinds, row_key_extractor.RowBuckets(self._partitions, empty, empty)
        partitions, ids = row_key_extractor.partition_ids(rows, self.context.schema)
        numbers = np.array(list(map(self._number, partitions)), dtype=np.int32)[ids]
        keys = self._keys(rows)
        if self._traits.newest_wins:
            return self._move_keys(rows, kinds, numbers, keys)
        return self._keep_keys(rows, kinds, numbers, keys)

    def _keys(self, rows: pa.RecordBatch) -> _Keys:
        schema = self.context.schema
        names = list(schema.lookup_keys)
        columns: list[Any] = [rows.column(name) for name in names]
        ids, first = row_key_extractor.distinct_rows(columns)
        keys = [column.take(from_numpy(first)) for column in columns]
        hashes = dynamic_buckets.key_hashes(schema, pa.RecordBatch.from_arrays(keys, names=names))
        return _Keys(ids, first, self._index.find(hashes, keys))

    def _put(self, former: KeyPositions, partitions: Ints, buckets: Ints) -> None:
        self._index.put(former, partitions, buckets)
        if self._index.total_bytes > self._limit_bytes:
            raise InvalidInputError(
                f"Table '{self.context.table}' has keys that may change partition, and the index "
                f"of these keys needs more than {self._limit_bytes} bytes of memory. Raise "
                f"'{KEY_INDEX_BYTES.key}', let more tasks share the keys "
                "(Spark), or make the partition columns part of the primary key.",
                kind="key-index",
                table=self.context.table,
                option=KEY_INDEX_BYTES.key,
            )

    def _keep_keys(
        self, rows: pa.RecordBatch, kinds: Kinds, numbers: Ints, keys: _Keys
    ) -> AssignedBatch:
        """Leave each key in its first partition."""
        new = np.flatnonzero(keys.former.partitions == dynamic_buckets.UNKNOWN)
        key_partitions, buckets = keys.former.partitions.copy(), keys.former.buckets.copy()
        key_partitions[new] = numbers[keys.first[new]]
        by_arrival = new[np.argsort(keys.first[new])]
        buckets[by_arrival] = self._fill_buckets(key_partitions[by_arrival])
        self._put(keys.former, key_partitions, buckets)
        partitions, row_buckets = key_partitions[keys.ids], buckets[keys.ids]
        same = partitions == numbers
        if self._traits.first_stays:
            rows, kinds = rows.filter(from_numpy(same)), kinds[same]
            partitions, row_buckets = partitions[same], row_buckets[same]
        elif not same.all():
            rows = self._in_partitions(rows, partitions)
        return rows, kinds, row_key_extractor.RowBuckets(self._partitions, partitions, row_buckets)

    def _move_keys(
        self, rows: pa.RecordBatch, kinds: Kinds, numbers: Ints, keys: _Keys
    ) -> AssignedBatch:
        """Let each key follow its rows; all arrays here are ordered by (key, arrival)."""
        order = np.argsort(keys.ids, kind="stable")
        ids, partitions = keys.ids[order], numbers[order]
        starts = changes(ids)
        # `former` is the partition of the key before each row; where it differs, the key moves. A
        # row that does not move has the bucket of the last one that did, else the key's former
        # bucket.
        former = _previous(partitions, starts, keys.former.partitions[ids])
        moves = np.flatnonzero(former != partitions)
        buckets = keys.former.buckets[ids]
        by_arrival = moves[np.argsort(order[moves])]
        buckets[by_arrival] = self._fill_buckets(partitions[by_arrival])
        anchors = starts.copy()
        anchors[moves] = True
        buckets = buckets[np.maximum.accumulate(np.where(anchors, np.arange(len(order)), 0))]
        former_buckets = _previous(buckets, starts, keys.former.buckets[ids])
        ends = np.append(np.flatnonzero(starts)[1:] - 1, len(order) - 1)
        self._put(keys.former, partitions[ends], buckets[ends])

        left = moves[former[moves] != dynamic_buckets.UNKNOWN]
        places, key_counts = np.unique(
            np.stack([former[left], former_buckets[left]]), axis=1, return_counts=True
        )
        for number, bucket, size in zip(*places.tolist(), key_counts.tolist(), strict=True):
            if bucket in self._counts[number]:
                self._counts[number][bucket] -= size
        deleted = order[left]
        retracts = self._in_partitions(rows.take(from_numpy(deleted)), former[left])
        # A -D is right before the row that moves its key.
        positions = np.argsort(np.concatenate([np.arange(rows.num_rows) * 2 + 1, deleted * 2]))
        row_buckets = np.empty_like(buckets)
        row_buckets[order] = buckets
        delete_kinds = np.full(len(left), RowKind.DELETE, dtype=np.int8)
        table = pa.Table.from_batches([rows, retracts]).take(from_numpy(positions))
        numbers = np.concatenate([numbers, former[left]])[positions]
        all_buckets = np.concatenate([row_buckets, former_buckets[left]])[positions]
        return (
            table.combine_chunks().to_batches()[0],
            np.concatenate([kinds, delete_kinds])[positions],
            row_key_extractor.RowBuckets(self._partitions, numbers, all_buckets),
        )

    def _number(self, partition: bytes) -> int:
        number = self._numbers.get(partition)
        if number is None:
            number = self._numbers[partition] = len(self._partitions)
            self._partitions.append(partition)
            fields = self.context.schema.partition_fields
            row = deserialize_row(partition, [column.type for column in fields])
            for column, value, values in zip(fields, row, self._values, strict=True):
                values.append(to_scalar(value, column.type).cast(to_arrow_type(column.type)))
        return number

    def _in_partitions(self, rows: pa.RecordBatch, numbers: Ints) -> pa.RecordBatch:
        """Return rows with the values of other partitions."""
        arrays = list(rows.columns)
        for column, values in zip(self.context.schema.partition_fields, self._values, strict=True):
            array: Array = pa.array(values, to_arrow_type(column.type))
            arrays[rows.schema.get_field_index(column.name)] = array.take(from_numpy(numbers))
        return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)

    def _fill_buckets(self, numbers: Ints) -> Ints:
        """Assign new keys, in order, to buckets of their partitions with room."""
        buckets = np.empty(len(numbers), dtype=np.int32)
        for number in np.unique(numbers).tolist():  # steps over partitions, then buckets
            rows = np.flatnonzero(numbers == number)
            counts = self._counts.setdefault(number, {})
            candidates = count(self.assigner, self.assigners)
            buckets[rows] = dynamic_buckets.fill_buckets(
                len(rows), counts, self._target_rows, candidates
            )
        return buckets


def _previous(values: Ints, starts: npt.NDArray[np.bool_], at_start: Ints) -> Ints:
    """Return the value before each, within groups; `at_start` where a group begins."""
    before = np.empty_like(values)
    before[1:] = values[:-1]
    before[starts] = at_start[starts]
    return before
