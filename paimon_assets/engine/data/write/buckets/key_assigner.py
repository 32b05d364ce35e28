"""Partition and bucket of rows whose key may lie in another partition already.

    the newest record wins    the key moves: -D where it was, the row where it belongs now
    the first record stays    the key stays: rows of other partitions are dropped
    others                    the key stays: the row gets the partition of its first record

Source: `org.apache.paimon.crosspartition.GlobalIndexAssigner`, `ExistingProcessor`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.codec.arrow.arrow_values import to_scalar
from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.codec.rows.binary_row import deserialize_row
from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.data.merge.records import Kinds
from paimon_assets.engine.data.write.buckets.key_index import UNKNOWN, FoundKeys, KeyIndex
from paimon_assets.engine.data.write.buckets.partition_index import BucketRule, Hashes
from paimon_assets.engine.data.write.buckets.row_key_extractor import (
    Numbers,
    Places,
    distinct_rows,
    partition_ids,
)
from paimon_assets.engine.data.write.files.hash_index import key_hashes
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.merge.engine_traits import EngineTraits
from paimon_assets.engine.spec.options.write_options import KEY_INDEX_BYTES
from paimon_assets.engine.spec.types.row_kind import RowKind

Rows = npt.NDArray[np.int64]
KnownKeys = tuple[bytes, int, pa.RecordBatch]
"""(partition, bucket, key columns) of rows the table holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedRows:
    """Rows with their place, in order; some were made, some are gone."""

    rows: pa.RecordBatch
    kinds: Kinds
    places: Places


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keyed:
    """The distinct keys of a batch."""

    ids: Numbers
    """Row → key."""
    first: Rows
    """Key → its first row."""
    hashes: Hashes
    columns: list[Any]
    found: FoundKeys


@dataclass(kw_only=True)
class KeyAssigner:
    """Places the rows of one write; must see every row of its keys."""

    context: WriteContext
    assigner: int = 0
    assigners: int = 1
    """New keys go to buckets of this remainder."""
    _index: KeyIndex = field(init=False, default_factory=KeyIndex)
    _partitions: list[bytes] = field(init=False, default_factory=list)
    _numbers: dict[bytes, int] = field(init=False, default_factory=dict)
    _values: list[list[Any]] = field(init=False, default_factory=list)
    """Partition column → its value in each partition."""
    _counts: dict[int, dict[int, int]] = field(init=False, default_factory=dict)
    """Partition → bucket → keys in it."""

    def __post_init__(self) -> None:
        """Take the rule of the table."""
        schema = self.context.schema
        self._target_rows = BucketRule.of(schema).target_rows
        self._limit_bytes = schema.typed_options.get(KEY_INDEX_BYTES)
        self._traits = EngineTraits.of(schema)
        self._values = [[] for _ in schema.partition_fields]

    def load(self, known: Iterable[KnownKeys]) -> None:
        """Take in the keys the table holds; those of other assigners are passed over."""
        for partition, bucket, batch in known:
            hashes = key_hashes(self.context.schema, batch)
            mine = np.flatnonzero(self.share_of(hashes, self.assigners) == self.assigner)
            rows = batch.take(from_numpy(mine))
            number = self._number(partition)
            counts = self._counts.setdefault(number, {})
            counts[bucket] = counts.get(bucket, 0) + len(mine)
            keyed = self._keyed(rows)
            places = np.full(len(keyed.first), number, dtype=np.int32)
            self._put(keyed, places, np.full(len(places), bucket, dtype=np.int32))

    @staticmethod
    def share_of(hashes: Hashes, assigners: int) -> Numbers:
        """Return the assigner of each key hash."""
        return np.mod(hashes.astype(np.int64), assigners).astype(np.int32)

    def assign(self, rows: pa.RecordBatch, kinds: Kinds | None) -> PlacedRows:
        """Place rows, in the order given."""
        given = np.zeros(rows.num_rows, dtype=np.int8) if kinds is None else kinds
        if not rows.num_rows:
            nowhere = np.empty(0, dtype=np.int32)
            return self._place(rows, given, nowhere, nowhere)
        partitions, ids = partition_ids(rows, self.context.schema)
        numbers = np.array([self._number(each) for each in partitions], dtype=np.int32)[ids]
        keyed = self._keyed(rows)
        if self._traits.newest_wins:
            return self._shift(rows, given, numbers, keyed)
        return self._kept(rows, given, numbers, keyed)

    def _keyed(self, rows: pa.RecordBatch) -> _Keyed:
        schema = self.context.schema
        names = list(schema.lookup_keys)
        columns: list[Any] = [rows.column(name) for name in names]
        ids, first = distinct_rows(columns)
        keys = [column.take(from_numpy(first)) for column in columns]
        hashes = key_hashes(schema, pa.RecordBatch.from_arrays(keys, names=names))
        return _Keyed(
            ids=ids,
            first=first,
            hashes=hashes,
            columns=keys,
            found=self._index.find(hashes, keys),
        )

    def _put(self, keyed: _Keyed, partitions: Numbers, buckets: Numbers) -> None:
        self._index.put(keyed.found, keyed.hashes, keyed.columns, partitions, buckets)
        if self._index.total_bytes > self._limit_bytes:
            raise InvalidInputError(
                f"Table '{self.context.table}' has keys that may change partition, and finding "
                f"them takes more than {self._limit_bytes} bytes of memory. Raise "
                f"'{KEY_INDEX_BYTES.key}', let more tasks share the keys "
                "(Spark), or make the partition columns part of the primary key.",
                kind="key-index",
                details={"table": self.context.table, "option": KEY_INDEX_BYTES.key},
            )

    def _kept(
        self, rows: pa.RecordBatch, kinds: Kinds, numbers: Numbers, keyed: _Keyed
    ) -> PlacedRows:
        """Leave each key where it was first."""
        found = keyed.found
        new = np.flatnonzero(found.partitions == UNKNOWN)
        homes, buckets = found.partitions.copy(), found.buckets.copy()
        homes[new] = numbers[keyed.first[new]]
        arrived = new[np.argsort(keyed.first[new])]
        buckets[arrived] = self._open(homes[arrived])
        self._put(keyed, homes, buckets)
        places, row_buckets = homes[keyed.ids], buckets[keyed.ids]
        if self._traits.first_stays:
            kept = np.flatnonzero(places == numbers)
            taken = rows.take(from_numpy(kept))
            return self._place(taken, kinds[kept], places[kept], row_buckets[kept])
        elsewhere = bool((places != numbers).any())
        at_home = self._in_partitions(rows, places) if elsewhere else rows
        return self._place(at_home, kinds, places, row_buckets)

    def _shift(
        self, rows: pa.RecordBatch, kinds: Kinds, numbers: Numbers, keyed: _Keyed
    ) -> PlacedRows:
        """Let each key follow its rows; all arrays here are ordered by (key, arrival)."""
        order = np.argsort(keyed.ids, kind="stable")
        keys, places = keyed.ids[order], numbers[order]
        starts = np.ones(len(order), dtype=np.bool_)
        starts[1:] = keys[1:] != keys[:-1]
        former = _shift(places, starts, keyed.found.partitions[keys])
        moves = np.flatnonzero(former != places)
        buckets = keyed.found.buckets[keys]
        arrived = moves[np.argsort(order[moves])]
        buckets[arrived] = self._open(places[arrived])
        anchors = starts.copy()
        anchors[moves] = True
        buckets = buckets[np.maximum.accumulate(np.where(anchors, np.arange(len(order)), 0))]
        former_buckets = _shift(buckets, starts, keyed.found.buckets[keys])
        ends = np.append(np.flatnonzero(starts)[1:] - 1, len(order) - 1)
        self._put(keyed, places[ends], buckets[ends])

        left = moves[former[moves] != UNKNOWN]
        self._leave(former[left], former_buckets[left])
        deleted = order[left]
        retracts = self._in_partitions(rows.take(from_numpy(deleted)), former[left])
        both = pa.Table.from_batches([rows, retracts])
        # A -D stands right before the row that moves its key.
        positions = np.concatenate([np.arange(rows.num_rows) * 2 + 1, deleted * 2])
        turn = np.argsort(positions)
        row_buckets = np.empty_like(buckets)
        row_buckets[order] = buckets
        delete_kinds = np.full(len(left), RowKind.DELETE, dtype=np.int8)
        batch = both.take(from_numpy(turn)).combine_chunks().to_batches()[0]
        return self._place(
            batch,
            np.concatenate([kinds, delete_kinds])[turn],
            np.concatenate([numbers, former[left]])[turn],
            np.concatenate([row_buckets, former_buckets[left]])[turn],
        )

    def _place(
        self, rows: pa.RecordBatch, kinds: Kinds, numbers: Numbers, buckets: Numbers
    ) -> PlacedRows:
        places = Places(self._partitions, numbers, buckets)
        return PlacedRows(rows=rows, kinds=kinds, places=places)

    def _number(self, partition: bytes) -> int:
        found = self._numbers.get(partition)
        if found is None:
            found = self._numbers[partition] = len(self._partitions)
            self._partitions.append(partition)
            fields = self.context.schema.partition_fields
            values = deserialize_row(partition, [column.type for column in fields])
            for column, value, known in zip(fields, values, self._values, strict=True):
                known.append(to_scalar(value, column.type).cast(to_arrow_type(column.type)))
        return found

    def _in_partitions(self, rows: pa.RecordBatch, numbers: Numbers) -> pa.RecordBatch:
        """Return rows with the values of other partitions."""
        arrays = list(rows.columns)
        for column, known in zip(self.context.schema.partition_fields, self._values, strict=True):
            values: Any = pa.array(known, to_arrow_type(column.type))
            arrays[rows.schema.get_field_index(column.name)] = values.take(from_numpy(numbers))
        return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)

    def _open(self, numbers: Numbers) -> Numbers:
        """Give new keys, in order, to buckets of their partitions with room."""
        given = np.empty(len(numbers), dtype=np.int32)
        for number in np.unique(numbers).tolist():  # steps over partitions, then buckets
            rows = np.flatnonzero(numbers == number)
            counts = self._counts.setdefault(number, {})
            start = 0
            for bucket in self._with_room(counts):
                end = min(len(rows), start + self._target_rows - counts[bucket])
                given[rows[start:end]] = bucket
                counts[bucket] += end - start
                start = end
                if start == len(rows):
                    break
        return given

    def _with_room(self, counts: dict[int, int]) -> Iterator[int]:
        for bucket in sorted(counts):
            if bucket % self.assigners == self.assigner and counts[bucket] < self._target_rows:
                yield bucket
        for bucket in count(self.assigner, self.assigners):
            if bucket not in counts:
                counts[bucket] = 0
                yield bucket

    def _leave(self, numbers: Numbers, buckets: Numbers) -> None:
        if not len(numbers):
            return
        pairs, leaving = np.unique(np.stack([numbers, buckets]), axis=1, return_counts=True)
        for number, bucket, keys in zip(*pairs.tolist(), leaving.tolist(), strict=True):
            self._counts[number][bucket] -= keys


def _shift(values: Numbers, starts: npt.NDArray[np.bool_], at_start: Numbers) -> Numbers:
    """Return the value before each, within groups; `at_start` where a group begins."""
    before = np.empty_like(values)
    before[1:] = values[:-1]
    before[starts] = at_start[starts]
    return before
