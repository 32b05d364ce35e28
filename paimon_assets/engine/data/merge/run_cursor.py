"""RunCursor: the next rows of one sorted run, up to a key."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_assets.engine.codec.arrow.numpy_columns import to_numpy
from paimon_assets.engine.data.key_order import float_words
from paimon_assets.engine.data.threads import Threads

KeyValues = tuple[Any, ...]
"""One key as Python values, in key order."""


def read_ahead(
    batches: Iterator[pa.RecordBatch], threads: Threads
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the non-empty batches, decoding one batch ahead in a thread.

    Closing it waits for that batch and closes `batches`, and with them their file.
    """
    ahead = threads.submit(_next_rows, batches)
    try:
        while (batch := ahead.result()) is not None:
            ahead = threads.submit(_next_rows, batches)
            yield batch
    finally:
        # A generator cannot be closed while a thread runs it.
        ahead.stop()
        if isinstance(batches, Generator):
            batches.close()


def _next_rows(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return next((batch for batch in batches if batch.num_rows), None)


class RunCursor:
    """Batches of a sorted run with unique keys, consumed in key order."""

    def __init__(
        self, batches: Iterator[pa.RecordBatch], keys: Sequence[str], *, peeks: bool = False
    ) -> None:
        self._batches = batches
        self._keys = tuple(keys)
        self.batch: pa.RecordBatch | None = next(batches, None)
        self._peeks = peeks
        self._following = next(batches, None) if peeks else None

    @property
    def is_at_end(self) -> bool:
        """Whether the current batch is certainly the last."""
        return self._peeks and self._following is None

    def _refill(self) -> None:
        following = next(self._batches, None)
        self.batch = self._following if self._peeks else following
        self._following = following if self._peeks else None

    def last_key(self) -> KeyValues:
        """Return the largest key of the current batch."""
        rows = self._rows()
        return self._key(rows, rows.num_rows - 1)

    def take_up_to(self, bound: KeyValues) -> pa.RecordBatch:
        """Remove and return the rows whose keys are at most `bound`; refill if no row is left."""
        rows = self._rows()
        count = self._first_above(rows, bound)
        if count < rows.num_rows:
            self.batch = rows.slice(count)
        else:
            self._refill()
        return rows.slice(0, count)

    def take_all(self) -> pa.RecordBatch:
        """Remove and return the current batch, and refill."""
        rows = self._rows()
        self._refill()
        return rows

    def _rows(self) -> pa.RecordBatch:
        if self.batch is None:
            raise ValueError("the run has ended")
        return self.batch

    def _first_above(self, rows: pa.RecordBatch, bound: KeyValues) -> int:
        column = rows.column(self._keys[0])
        integers = pa.types.is_integer(column.type) and not column.null_count
        if len(self._keys) == 1 and integers and bound[0][0]:  # the bound is not null
            return int(np.searchsorted(to_numpy(column), bound[0][1], side="right"))
        low, high = 0, rows.num_rows
        if self._key(rows, high - 1) <= bound:
            return high
        while low < high:
            middle = (low + high) // 2
            if self._key(rows, middle) <= bound:
                low = middle + 1
            else:
                high = middle
        return low

    def _key(self, rows: pa.RecordBatch, row: int) -> KeyValues:
        return tuple(comparable(rows.column(name)[row]) for name in self._keys)


def comparable(scalar: Any) -> Any:
    """Return a scalar as a Python value in the order of `key_order`."""
    if not scalar.is_valid:
        return (0, 0)
    data_type = scalar.type
    if pa.types.is_temporal(data_type):
        return (1, scalar.value)
    value = scalar.as_py()
    if isinstance(value, str):
        return (1, value.encode())
    return (1, int(float_words(np.array([value]))[0]) if isinstance(value, float) else value)
