"""Records of some keys, of files that two states of a table share: each file is decoded once."""

from collections.abc import Callable, Iterator

import pyarrow as pa

from paimon_assets.engine.codec.arrow.numpy_columns import Longs, from_numpy


class SharedRecords:
    """The records of some keys, by file.

    Args:
        rows_of: Batch → positions of the rows with such keys, ascending.
        most_bytes: Memory for the records; files beyond it are decoded again when they are read.
    """

    def __init__(self, rows_of: Callable[[pa.RecordBatch], Longs], most_bytes: int) -> None:
        self._rows_of = rows_of
        self._left = most_bytes
        self._files: dict[str, list[pa.RecordBatch]] = {}
        self.counts: dict[str, int] = {}
        """File → its records, once it was read."""

    def select(self, path: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the records of a file, of which `batches` are all rows."""
        if path in self._files:
            yield from self._files[path]
            return
        records, count = [], 0
        for batch in batches:
            positions = self._rows_of(batch)
            rows = batch.take(from_numpy(positions)) if len(positions) else batch.slice(0, 0)
            count += len(positions)
            self._left -= rows.nbytes
            if self._left >= 0:
                records.append(rows)
            yield rows
        self.counts[path] = count
        if self._left >= 0:
            self._files[path] = records
