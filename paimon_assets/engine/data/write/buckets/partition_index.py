"""Which dynamic bucket holds which key hash, and where new hashes go.

A hash keeps its first bucket. New hashes fill the existing buckets up to a number of keys, lowest
first, then a new bucket. The result depends only on the index and the order of the hashes, so two
concurrent writers cannot put one key into two buckets without a conflict.
Source: `org.apache.paimon.index.PartitionIndex`, `BucketAssigner`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, filterfalse

import numpy as np
import numpy.typing as npt

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.write_options import (
    DYNAMIC_BUCKET_INITIAL,
    DYNAMIC_BUCKET_MAX,
    DYNAMIC_BUCKET_TARGET_ROWS,
)
from paimon_assets.engine.spec.schema.schema import TableSchema

Hashes = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.int32]

_UNKNOWN = -1
_MAX_BUCKETS = 32_767
"""Java keeps bucket numbers in 16 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRule:
    """The rule by which buckets of a partition fill."""

    target_rows: int
    """Hashes of a full bucket."""
    max_buckets: int
    """-1: no limit but the range of bucket numbers."""
    assigners: int
    """Hashes are distributed to so many assigners; each has the buckets of its own remainder."""

    @staticmethod
    def of(schema: TableSchema) -> "BucketRule":
        """Return the rule of a table."""
        options = schema.typed_options
        for option in (DYNAMIC_BUCKET_TARGET_ROWS, DYNAMIC_BUCKET_INITIAL, DYNAMIC_BUCKET_MAX):
            value = options.get(option)
            if value < 1 and not (option is DYNAMIC_BUCKET_MAX and value == -1):
                raise InvalidInputError(
                    f"Table option '{option.key}' must be at least 1, not {value}.",
                    kind="option-value",
                    details={"option": option.key},
                )
        limit = options.get(DYNAMIC_BUCKET_MAX)
        initial = options.get(DYNAMIC_BUCKET_INITIAL)
        return BucketRule(
            target_rows=options.get(DYNAMIC_BUCKET_TARGET_ROWS),
            max_buckets=limit,
            assigners=initial if limit == -1 else min(initial, limit),
        )

    def assigner_of(self, hashes: Hashes) -> Numbers:
        """Return the assigner of each hash."""
        if self.assigners == 1:
            return np.zeros(len(hashes), dtype=np.int32)
        remainders = np.abs(np.fmod(hashes.astype(np.int64), self.assigners))
        return remainders.astype(np.int32)


@dataclass(slots=True, kw_only=True)
class PartitionIndex:
    """The hashes of one assigner in one partition.

    Memory: 6 bytes a hash.
    """

    rule: BucketRule
    assigner: int
    counts: dict[int, int] = field(default_factory=dict)
    """Bucket of this assigner → hashes in it."""
    _runs: list[tuple[Hashes, npt.NDArray[np.int16]]] = field(default_factory=list)
    """Sorted hashes and their buckets; each run at least twice as long as the next."""

    @staticmethod
    def of(rule: BucketRule, assigner: int, hashes: Mapping[int, Hashes]) -> "PartitionIndex":
        """Begin with the hashes of every bucket of the partition, of all assigners."""
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

    def assign(self, hashes: Hashes) -> tuple[Numbers, npt.NDArray[np.int64]]:
        """Return the bucket of each hash, and the positions of new hashes.

        Cost:
            A sort of the hashes; about 10 million/s.
        """
        distinct, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        buckets = self._find(distinct)
        new = np.flatnonzero(buckets == _UNKNOWN)
        if len(new):
            by_arrival = new[np.argsort(first[new])]
            buckets[by_arrival] = self._fill(distinct[by_arrival])
            self._add(distinct[new], buckets[new].astype(np.int16))
        return buckets[inverse], first[new]

    def _find(self, distinct: Hashes) -> Numbers:
        result = np.full(len(distinct), _UNKNOWN, dtype=np.int32)
        for hashes, buckets in self._runs:
            positions = np.minimum(np.searchsorted(hashes, distinct), len(hashes) - 1)
            hit = hashes[positions] == distinct
            result[hit] = buckets[positions[hit]]
        return result

    def _fill(self, hashes: Hashes) -> Numbers:
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
                details={"option": DYNAMIC_BUCKET_TARGET_ROWS.key},
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
) -> Numbers:
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
