"""Keys that several rows share, which breaks the uniqueness of a primary key.

They are found in two passes over the key columns: the first collects 32 bits of each key's hash and
finds hashes that occur twice; the second, if there are any, compares the few rows that have them.
If there are too many rows, the first pass is repeated for parts of the hashes: never are all keys
in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.arrow_values import shown_rows
from paimon_assets.engine.codec.hashing.bucket_function import bucket_numbers
from paimon_assets.engine.contract.executor import EXAMPLES, ROWS, RepeatedKeys
from paimon_assets.engine.spec.types.data_types import DataField

ROWS_A_PASS = 50_000_000
"""Rows whose hashes are in memory at once: 200 MB, and twice that while sorting."""

_HASHES = 2**31 - 1


def repeated_keys(
    read: Callable[[], Iterable[pa.RecordBatch]], key: Sequence[DataField], most_rows: int
) -> RepeatedKeys:
    """Return the keys that several rows share; nulls count as equal. Cost: 4 bytes a row."""
    names, types = [column.name for column in key], [column.type for column in key]
    passes = -(-most_rows // ROWS_A_PASS) or 1

    def keys_and_hashes() -> Iterator[tuple[pa.RecordBatch, np.ndarray[Any, np.dtype[np.int32]]]]:
        for batch in read():
            keys = batch.select(names)
            yield keys, bucket_numbers(keys.columns, types, _HASHES)

    rows = 0
    shared = []
    # A pass sees all rows of a key, as it takes hashes by their remainder. Different keys may share
    # a hash, but a key that repeats never escapes: its hash is among the suspects.
    for number in range(passes):
        parts = []
        rows = 0
        for batch, hashes in keys_and_hashes():
            rows += batch.num_rows
            parts.append(hashes[hashes % passes == number] if passes > 1 else hashes)
        ordered = np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int32)
        shared.append(np.unique(ordered[1:][ordered[1:] == ordered[:-1]]))
    suspects = np.concatenate(shared)
    if not len(suspects):
        return RepeatedKeys(rows=rows)
    candidates = pa.Table.from_batches(
        batch.filter(pa.array(np.isin(hashes, suspects))) for batch, hashes in keys_and_hashes()
    )
    counts = (
        candidates.group_by(names).aggregate([([], "count_all")]).rename_columns([*names, ROWS])
    )
    repeated = counts.filter(pc.greater(counts[ROWS], pa.scalar(1)))
    return RepeatedKeys(
        rows=rows,
        keys=repeated.num_rows,
        rows_of_keys=pc.sum(repeated[ROWS]).as_py() or 0,
        examples=tuple(shown_rows(repeated.sort_by([(ROWS, "descending")]).slice(0, EXAMPLES))),
    )
