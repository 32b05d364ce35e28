"""Which dynamic bucket holds which key hash, and where new hashes go.

A key stays in the bucket its hash was given once. New hashes fill the buckets there are up to a
number of keys, lowest first, then begin another. What happens depends on nothing but the index and
the order of the hashes: two writers that begin alike never give one key two buckets unnoticed.
Source: `org.apache.paimon.index.PartitionIndex`, `BucketAssigner`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

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
_BUCKETS_AT_MOST = 32_767
"""Java keeps bucket numbers in 16 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRule:
    """The rule by which buckets of a partition fill."""

    target_rows: int
    """Hashes a bucket takes before the next one is begun."""
    max_buckets: int
    """-1 is as many as numbers allow."""
    assigners: int
    """Hashes are dealt to so many assigners; each has the buckets of its own remainder."""

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
        wished = options.get(DYNAMIC_BUCKET_INITIAL)
        return BucketRule(
            target_rows=options.get(DYNAMIC_BUCKET_TARGET_ROWS),
            max_buckets=limit,
            assigners=wished if limit == -1 else min(wished, limit),
        )

    def assigner_of(self, hashes: Hashes) -> Numbers:
        """Return the assigner of each hash."""
        if self.assigners == 1:
            return np.zeros(len(hashes), dtype=np.int32)
        remainders = np.abs(np.fmod(hashes.astype(np.int64), self.assigners))
        return remainders.astype(np.int32)


@dataclass(slots=True, kw_only=True)
class PartitionIndex:
    """The hashes one assigner knows of one partition.

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
        """Begin with the hashes of each bucket of the partition, of whatever assigner."""
        index = PartitionIndex(rule=rule, assigner=assigner)
        parts = []
        for bucket, found in sorted(hashes.items()):
            if bucket % rule.assigners == assigner:
                index.counts[bucket] = len(found)
            own = found[rule.assigner_of(found) == assigner]
            parts.append((own, np.full(len(own), bucket, dtype=np.int16)))
        if parts:
            index._keep(  # another name of this class
                np.concatenate([own for own, _ in parts]),
                np.concatenate([buckets for _, buckets in parts]),
            )
        return index

    def assign(self, hashes: Hashes) -> tuple[Numbers, npt.NDArray[np.int64]]:
        """Give each hash its bucket.

        Cost:
            A sort of the hashes given; about 10 million/s.
        """
        distinct, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        found = self._find(distinct)
        new = np.flatnonzero(found == _UNKNOWN)
        if len(new):
            arrived = new[np.argsort(first[new])]
            found[arrived] = self._fill(distinct[arrived])
            self._keep(distinct[new], found[new].astype(np.int16))
        return found[inverse], first[new]

    def _find(self, distinct: Hashes) -> Numbers:
        found = np.full(len(distinct), _UNKNOWN, dtype=np.int32)
        for hashes, buckets in self._runs:
            places = np.minimum(np.searchsorted(hashes, distinct), len(hashes) - 1)
            hit = hashes[places] == distinct
            found[hit] = buckets[places[hit]]
        return found

    def _fill(self, hashes: Hashes) -> Numbers:
        """Give new hashes, in order, to the buckets with room."""
        given = np.empty(len(hashes), dtype=np.int32)
        start = 0
        for bucket in self._with_room():
            end = min(len(hashes), start + self.rule.target_rows - self.counts[bucket])
            given[start:end] = bucket
            self.counts[bucket] += end - start
            start = end
            if start == len(hashes):
                return given
        # Java picks at random; two writers that begin alike must not differ.
        full = np.array(sorted(self.counts), dtype=np.int32)
        given[start:] = full[np.abs(hashes[start:].astype(np.int64)) % len(full)]
        return given

    def _with_room(self) -> Iterator[int]:
        """Yield the buckets that take more hashes, then new ones; none behind the upper bound."""
        for bucket in sorted(self.counts):
            if self.counts[bucket] < self.rule.target_rows:
                yield bucket
        limit = _BUCKETS_AT_MOST if self.rule.max_buckets == -1 else self.rule.max_buckets
        for bucket in count(self.assigner, self.rule.assigners):
            if bucket >= limit:
                break
            if bucket not in self.counts:
                self.counts[bucket] = 0
                yield bucket
        if self.rule.max_buckets == -1:
            raise InvalidInputError(
                f"A partition would have more than {limit} buckets; raise "
                f"'{DYNAMIC_BUCKET_TARGET_ROWS.key}', now {self.rule.target_rows}.",
                kind="bucket-count",
                details={"option": DYNAMIC_BUCKET_TARGET_ROWS.key},
            )

    def _keep(self, hashes: Hashes, buckets: npt.NDArray[np.int16]) -> None:
        """Add hashes; runs are merged as they double, so a hash is moved log(n) times."""
        if not len(hashes):
            return
        self._runs.append(_by_hash(hashes, buckets))
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            (old, old_buckets), (new, new_buckets) = self._runs[-2:]
            both = _by_hash(np.concatenate([old, new]), np.concatenate([old_buckets, new_buckets]))
            self._runs[-2:] = [both]


def _by_hash(
    hashes: Hashes, buckets: npt.NDArray[np.int16]
) -> tuple[Hashes, npt.NDArray[np.int16]]:
    order = np.argsort(hashes, kind="stable")  # merges sorted parts in linear time
    return hashes[order], buckets[order]
