"""Which keys occur more than once, without holding all keys.

Two passes over the key columns: the first keeps 32 bits of each key's hash and finds hashes that
occur twice; the second, if there are any, looks at the few rows that have them, exactly. Of more
rows than fit the first pass is taken in parts.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.arrow_values import shown_rows
from paimon_assets.engine.codec.hashing.bucket_function import bucket_numbers
from paimon_assets.engine.contract.repeated_keys import EXAMPLES, ROWS, RepeatedKeys
from paimon_assets.engine.spec.types.data_types import DataField

ROWS_A_PASS = 50_000_000
"""Rows whose hashes are held at once: 200 MB, and as much again while sorting."""

_HASHES = 2**31 - 1


def repeated_keys(
    read: Callable[[], Iterable[pa.RecordBatch]], key: Sequence[DataField], most_rows: int
) -> RepeatedKeys:
    """Find the keys that several rows share; nulls count as equal.

    Cost:
        At most 4 bytes a row of `ROWS_A_PASS` rows, and the rows that share a hash.
    """
    names, types = [column.name for column in key], [column.type for column in key]
    passes = -(-most_rows // ROWS_A_PASS) or 1

    def hashed() -> Iterator[tuple[pa.RecordBatch, np.ndarray[Any, np.dtype[np.int32]]]]:
        for batch in read():
            keys = batch.select(names)
            yield keys, bucket_numbers(keys.columns, types, _HASHES)

    rows = 0
    shared = []
    for number in range(passes):
        parts = []
        rows = 0
        for batch, hashes in hashed():
            rows += batch.num_rows
            parts.append(hashes[hashes % passes == number] if passes > 1 else hashes)
        ordered = np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int32)
        shared.append(np.unique(ordered[1:][ordered[1:] == ordered[:-1]]))
    suspects = np.concatenate(shared)
    if not len(suspects):
        return RepeatedKeys(rows=rows)
    alike = [batch.filter(pa.array(np.isin(hashes, suspects))) for batch, hashes in hashed()]
    counted = _count(pa.Table.from_batches(alike), names)
    return _duplicates(rows, counted)


def _count(rows: pa.Table, key: list[str]) -> pa.Table:
    """Return the keys that occur more than once, with their number of rows."""
    grouped = rows.group_by(key).aggregate([([], "count_all")])
    named = grouped.rename_columns([*key, ROWS])
    return named.filter(pc.greater(named[ROWS], pa.scalar(1))).sort_by([(ROWS, "descending")])


def _duplicates(rows: int, counted: pa.Table) -> RepeatedKeys:
    return RepeatedKeys(
        rows=rows,
        keys=counted.num_rows,
        rows_of_keys=pc.sum(counted[ROWS]).as_py() or 0,
        examples=tuple(shown_rows(counted.slice(0, EXAMPLES))),
    )
