"""The partition and bucket of every key of a table, for keys that may change partition.

Keys are Arrow columns, sorted by hash; the keys themselves decide between equal hashes.
Source: `org.apache.paimon.crosspartition.GlobalIndexAssigner` (its key-value store).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy
from paimon_assets.engine.data.write.buckets.partition_index import Hashes, Numbers

Rows = npt.NDArray[np.int64]

UNKNOWN = -1
"""Partition of a key that the table does not hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    hashes: Hashes
    keys: list[Any]
    partitions: Numbers
    buckets: Numbers

    @classmethod
    def merge(cls, parts: "Sequence[_Run]") -> Self:
        """Join runs into one that is sorted by hash."""
        hashes = np.concatenate([part.hashes for part in parts])
        order = np.argsort(hashes, kind="stable")
        keys: list[Any] = [
            pa.chunked_array(columns).combine_chunks().take(from_numpy(order))
            for columns in zip(*(part.keys for part in parts), strict=True)
        ]
        return cls(
            hashes=hashes[order],
            keys=keys,
            partitions=np.concatenate([part.partitions for part in parts])[order],
            buckets=np.concatenate([part.buckets for part in parts])[order],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPositions:
    """The result of a look-up of keys."""

    partitions: Numbers
    """Key → partition, or `UNKNOWN`."""
    buckets: Numbers
    """Key → bucket; arbitrary for unknown keys."""
    hits: list[tuple[_Run, Rows, Rows]]
    """(run, keys that it holds, their positions in it)."""


@dataclass(slots=True)
class KeyIndex:
    """Keys with their partition and bucket, as small numbers.

    Memory: the keys, and 12 bytes for each.
    """

    total_bytes: int = 0
    _runs: list[_Run] = field(default_factory=list)

    def find(self, hashes: Hashes, keys: "Sequence[Any]") -> KeyPositions:
        """Look keys up by hash, then by value."""
        partitions = np.full(len(hashes), UNKNOWN, dtype=np.int32)
        buckets = np.zeros(len(hashes), dtype=np.int32)
        hits = []
        for run in self._runs:
            candidates = np.searchsorted(run.hashes, hashes, side="left")
            ends = np.searchsorted(run.hashes, hashes, side="right")
            rows = np.flatnonzero((candidates < ends) & (partitions == UNKNOWN))
            while len(rows):  # as often as different keys share a hash
                equal = _equal(run.keys, candidates[rows], keys, rows)
                matches = rows[equal]
                positions = candidates[matches]
                partitions[matches] = run.partitions[positions]
                buckets[matches] = run.buckets[positions]
                hits.append((run, matches, positions))
                candidates[rows] += 1
                rows = rows[~equal]
                rows = rows[candidates[rows] < ends[rows]]
        return KeyPositions(partitions=partitions, buckets=buckets, hits=hits)

    def put(
        self,
        former: KeyPositions,
        hashes: Hashes,
        keys: "Sequence[Any]",
        partitions: Numbers,
        buckets: Numbers,
    ) -> None:
        """Set the partitions and buckets of keys whose `former` ones `find` has just returned."""
        for run, rows, positions in former.hits:
            run.partitions[positions] = partitions[rows]
            run.buckets[positions] = buckets[rows]
        new = np.flatnonzero(former.partitions == UNKNOWN)
        if not len(new):
            return
        columns: list[Any] = [column.take(from_numpy(new)) for column in keys]
        self.total_bytes += 12 * len(new) + sum(column.nbytes for column in columns)
        run = _Run(
            hashes=hashes[new], keys=columns, partitions=partitions[new], buckets=buckets[new]
        )
        self._runs.append(_Run.merge([run]))
        while len(self._runs) > 1 and len(self._runs[-2].hashes) < 2 * len(self._runs[-1].hashes):
            self._runs[-2:] = [_Run.merge(self._runs[-2:])]


def _equal(
    left: "Sequence[Any]", left_rows: Rows, right: "Sequence[Any]", right_rows: Rows
) -> npt.NDArray[np.bool_]:
    equal = np.ones(len(left_rows), dtype=np.bool_)
    for left_column, right_column in zip(left, right, strict=True):
        left_values = left_column.take(from_numpy(left_rows))
        equal &= to_numpy(pc.equal(left_values, right_column.take(from_numpy(right_rows))))
    return equal
