"""Which Spark task writes which bucket.

Spark's `repartition(n, column)` sends a row to partition `murmur3(value) mod n`: numbers 0 … n-1
collide, and some tasks get several buckets and some get none. `partition_slots` inverts the
hash: its i-th number lands in partition i, so every task is addressed exactly.
Source: `org.apache.spark.sql.catalyst.expressions.Murmur3Hash`, `HashPartitioning`.
"""

import zlib
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Slots = npt.NDArray[np.int32]

_SPARK_SEED = 42
_TASKS_PER_CORE = 4


def spark_hash(values: Slots) -> Slots:
    """Return Spark SQL's `hash(value)` of INT values.

    >>> spark_hash(np.array([0, 1], dtype=np.int32)).tolist()
    [933211791, -559580957]
    """
    u32 = np.uint32

    def rotate_words(words: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
        return (words << u32(bits)) | (words >> u32(32 - bits))

    mixed = rotate_words(values.astype(np.uint32) * u32(0xCC9E2D51), 15) * u32(0x1B873593)
    state = rotate_words(mixed ^ u32(_SPARK_SEED), 13) * u32(5) + u32(0xE6546B64)
    state ^= u32(4)
    state = (state ^ (state >> u32(16))) * u32(0x85EBCA6B)
    state = (state ^ (state >> u32(13))) * u32(0xC2B2AE35)
    return (state ^ (state >> u32(16))).view(np.int32)


@lru_cache(maxsize=32)
def partition_slots(count: int) -> tuple[int, ...]:
    """Return numbers of which `repartition(count, number)` sends the i-th to partition i."""
    slots = np.full(count, -1, dtype=np.int64)
    start, step = 0, max(1024, 4 * count)
    # A slot that is set is the smallest number that Spark sends to its partition.
    while (slots < 0).any():
        candidates = np.arange(start, start + step, dtype=np.int32)
        targets, first = np.unique(
            spark_hash(candidates).astype(np.int64) % count, return_index=True
        )
        fresh = slots[targets] < 0
        slots[targets[fresh]] = candidates[first[fresh]]
        start += step
    return tuple(slots.tolist())


def write_tasks(buckets: int, *, parallelism: int, partitioned: bool) -> int:
    """Return how many tasks write a table of `buckets` buckets a partition."""
    limit = _TASKS_PER_CORE * parallelism
    if buckets >= limit:
        return limit
    if not partitioned or buckets >= 2 * parallelism:
        return buckets
    return buckets * -(-2 * parallelism // buckets)


def task_of(partition: bytes, bucket: int, *, buckets: int, tasks: int) -> int:
    """Return the task that writes a bucket; neighbouring buckets go to neighbouring tasks."""
    stride = buckets if tasks % buckets == 0 else 1
    return (bucket + zlib.crc32(partition) * stride) % tasks
