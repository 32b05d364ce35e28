"""The task `analyze`: read one split, merged and filtered, and summarize its columns.

Keys that occur more than once are found in two passes over the key columns: the first collects 32
bits of each key's hash and finds hashes that occur twice; the second, if there are any, compares
the few rows that have them. If there are too many rows, the first pass is repeated for parts of the
hashes: never are all keys in memory.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.arrow_values import internals, shown_rows
from paimon_assets.engine.codec.file_index.file_index_bloom import is_long_decimal, to_longs
from paimon_assets.engine.codec.hashing.bucket_function import bucket_numbers
from paimon_assets.engine.codec.hashing.xxhash64 import xxhash64
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.executor import EXAMPLES, ROWS, RepeatedKeys
from paimon_assets.engine.contract.tasks.report_tasks import (
    MOST_HASHES,
    Bound,
    ColumnSummary,
    RowSummary,
)
from paimon_assets.engine.contract.wire import dump, load, load_split
from paimon_assets.engine.data.overflow import show
from paimon_assets.engine.data.read.split_read import read_split
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.types.data_types import (
    BINARY_ROOTS,
    CHARACTER_ROOTS,
    DataField,
    TypeRoot,
)

_WITHOUT_ORDER = frozenset(
    {
        TypeRoot.VARIANT, TypeRoot.BLOB, TypeRoot.ARRAY, TypeRoot.MULTISET, TypeRoot.MAP,
        TypeRoot.ROW, TypeRoot.VECTOR,
    }
)  # fmt: skip
_BYTES = {
    TypeRoot.BOOLEAN: 1,
    TypeRoot.TINYINT: 1,
    TypeRoot.SMALLINT: 2,
    TypeRoot.INT: 4,
    TypeRoot.FLOAT: 4,
    TypeRoot.DATE: 4,
    TypeRoot.TIME: 4,
    TypeRoot.DECIMAL: 16,
}
_LONG_BYTES = 8
_AS_NUMBERS = frozenset({TypeRoot.DATE, TypeRoot.TIME})
"""Java, which reads the statistics before every commit, parses these as integers."""


def analyze_split(shared: bytes, payload: bytes, file_io: FileIO, threads: Threads) -> bytes:
    """Summarize the columns of one split."""
    context, split = load(ReadContext, shared), load_split(payload)
    tallies = [_Tally(column) for column in context.fields]
    rows = 0
    for batch in read_split(context, split, file_io, threads):
        rows += batch.num_rows
        for tally, values in zip(tallies, batch.columns, strict=True):
            tally.add(values)
    summary = RowSummary(rows=rows, columns=tuple(tally.summary() for tally in tallies))
    return dump(summary)


@dataclass(slots=True)
class _Tally:
    column: DataField
    nulls: int = 0
    minimum: Bound | None = None
    maximum: Bound | None = None
    total_bytes: int = 0
    longest_bytes: int = 0
    hashes: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))

    def add(self, values: Any) -> None:
        """Add the values of a batch."""
        self.nulls += values.null_count
        present = values.drop_null()
        if self.column.type.root in _WITHOUT_ORDER or not len(present):
            return
        if isinstance(present, pa.DictionaryArray):
            present = present.dictionary_decode()
        root = self.column.type.root
        if root in CHARACTER_ROOTS | BINARY_ROOTS:
            lengths = pc.binary_length(present)
            self.total_bytes += pc.sum(lengths).as_py()
            self.longest_bytes = max(self.longest_bytes, pc.max(lengths).as_py())
        else:
            self.longest_bytes = _BYTES.get(root, _LONG_BYTES)
            self.total_bytes += len(present) * self.longest_bytes
        distinct = pc.unique(present)
        hashes = np.concatenate([self.hashes, _hash(distinct, self.column)])
        self.hashes = np.unique(hashes)[:MOST_HASHES]
        if root in BINARY_ROOTS:
            return
        extremes = pc.min_max(distinct)
        if not extremes["min"].is_valid:
            return
        low, high = self._bound_of(extremes["min"]), self._bound_of(extremes["max"])
        smaller: Any = low[0]
        larger: Any = high[0]
        if self.minimum is None or smaller < self.minimum[0]:
            self.minimum = low
        if self.maximum is None or larger > self.maximum[0]:
            self.maximum = high

    def _bound_of(self, value: Any) -> Bound:
        array = pa.repeat(value, 1)
        internal = internals(array, self.column.type)[0]
        if self.column.type.root in _AS_NUMBERS:
            return internal, str(internal)
        return internal, show(array, self.column.type)[0] or ""

    def summary(self) -> ColumnSummary:
        """Return the summary of all values."""
        unordered = self.column.type.root in _WITHOUT_ORDER
        return ColumnSummary(
            nulls=self.nulls,
            minimum=self.minimum,
            maximum=self.maximum,
            total_bytes=self.total_bytes,
            longest_bytes=self.longest_bytes,
            hashes=None if unordered else tuple(int(each) for each in self.hashes),
        )


def _hash(distinct: Any, column: DataField) -> npt.NDArray[np.uint64]:
    """Hash values so that all bits of a hash are pseudo-random."""
    if column.type.root in CHARACTER_ROOTS | BINARY_ROOTS:
        return xxhash64(distinct)
    if is_long_decimal(column.type):
        return xxhash64(distinct.cast(pa.string()))
    # The finalizer of SplitMix64.
    mixed = to_longs(distinct, column.type).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


ROWS_A_PASS = 50_000_000
"""Rows whose hashes are in memory at once: 200 MB, and twice that while sorting."""

_HASHES = 2**31 - 1


def repeated_keys(
    read: Callable[[], Iterable[pa.RecordBatch]], key: Sequence[DataField], most_rows: int
) -> RepeatedKeys:
    """Return the keys that several rows share; nulls count as equal.

    Cost:
        At most 4 bytes a row of `ROWS_A_PASS` rows, and the rows that share a hash.
    """
    names, types = [column.name for column in key], [column.type for column in key]
    passes = -(-most_rows // ROWS_A_PASS) or 1

    def keys_and_hashes() -> Iterator[tuple[pa.RecordBatch, np.ndarray[Any, np.dtype[np.int32]]]]:
        for batch in read():
            keys = batch.select(names)
            yield keys, bucket_numbers(keys.columns, types, _HASHES)

    rows = 0
    shared = []
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
