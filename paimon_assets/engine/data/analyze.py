"""The task `analyze`: read one split, merged and filtered, and summarize its columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from paimon_assets.engine.codec.arrow.arrow_values import internals
from paimon_assets.engine.codec.arrow.numpy_columns import Array
from paimon_assets.engine.codec.file_index.file_index_bloom import is_long_decimal, to_longs
from paimon_assets.engine.codec.hashing.xxhash64 import split_mix, xxhash64
from paimon_assets.engine.contract import report_tasks
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.wire import dump, load, load_split
from paimon_assets.engine.data.cast_losses import show
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
    context, split = load(ReadContext, shared), load_split(payload)
    tallies = [_Tally(column) for column in context.fields]
    rows = 0
    for batch in read_split(context, split, file_io, threads):
        rows += batch.num_rows
        for tally, values in zip(tallies, batch.columns, strict=True):
            tally.add(values)
    summary = report_tasks.RowSummary(
        rows=rows, columns=tuple(tally.summary() for tally in tallies)
    )
    return dump(summary)


class _Tally(Struct):
    column: DataField
    nulls: int = 0
    minimum: report_tasks.Bound | None = None
    maximum: report_tasks.Bound | None = None
    total_bytes: int = 0
    longest_bytes: int = 0
    hashes: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))

    def add(self, values: Any) -> None:
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
        self.hashes = np.unique(hashes)[: report_tasks.MOST_HASHES]
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

    def _bound_of(self, value: Any) -> report_tasks.Bound:
        array = pa.repeat(value, 1)
        internal = internals(array, self.column.type)[0]
        if self.column.type.root in _AS_NUMBERS:
            return internal, str(internal)
        return internal, show(array, self.column.type)[0] or ""

    def summary(self) -> report_tasks.ColumnSummary:
        unordered = self.column.type.root in _WITHOUT_ORDER
        return report_tasks.ColumnSummary(
            nulls=self.nulls,
            minimum=self.minimum,
            maximum=self.maximum,
            total_bytes=self.total_bytes,
            longest_bytes=self.longest_bytes,
            hashes=None if unordered else tuple(int(each) for each in self.hashes),
        )


def _hash(distinct: Array, column: DataField) -> npt.NDArray[np.uint64]:
    """Hash values so that all bits of a hash are pseudo-random."""
    if column.type.root in CHARACTER_ROOTS | BINARY_ROOTS:
        return xxhash64(distinct)
    if is_long_decimal(column.type):
        return xxhash64(distinct.cast(pa.string()))
    return split_mix(to_longs(distinct, column.type).astype(np.uint64))
