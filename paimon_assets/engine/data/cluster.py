"""Rows of a partition in the order of a curve, in bounded memory: an external range sort.

    sample of the sort columns ─▶ edges ─▶ rows distributed to key ranges, on local disk
                                         ─▶ range by range: loaded, sorted, yielded

Rows that fit the memory are sorted there. Rows of one key share a range, however many they are.

Curves use ranks, not values: all columns get the same number of cells, for any type and
distribution.
Source: `org.apache.paimon.flink.sorter.SortUtils`, `org.apache.paimon.sort.zorder.ZIndexer`;
J. Skilling, "Programming the Hilbert curve", 2004.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_assets.engine.codec.arrow.numpy_columns import Words, from_numpy
from paimon_assets.engine.contract.executor import ClusterOrder, Curve
from paimon_assets.engine.data.key_order import sort_keys
from paimon_assets.engine.spec.values import Value

_ONE = np.uint64(1)


def zorder(ranks: Sequence[Words], bits: int) -> Words:
    """Interleave the lowest `bits` bits of each column, the first column's first.

    >>> zorder([np.array([0, 1], np.uint64), np.array([1, 0], np.uint64)], 1).tolist()
    [1, 2]
    """
    keys = np.zeros(len(ranks[0]), dtype=np.uint64)
    for bit in range(bits - 1, -1, -1):
        for column in ranks:
            keys = (keys << _ONE) | ((column >> np.uint64(bit)) & _ONE)
    return keys


def hilbert(ranks: Sequence[Words], bits: int) -> Words:
    """Return the position of each row on the Hilbert curve of `bits` bits a column.

    >>> cells = [np.array([0, 0, 1, 1], np.uint64), np.array([0, 1, 1, 0], np.uint64)]
    >>> hilbert(cells, 1).tolist()
    [0, 1, 2, 3]
    """
    # A step changes only bits below its own, so the higher ones are final (Skilling, 2004).
    axes = [column.copy() for column in ranks]
    for bit in range(bits - 1, 0, -1):
        mask, below = np.uint64(1 << bit), np.uint64((1 << bit) - 1)
        for number, axis in enumerate(axes):
            is_set = (axis & mask) != 0
            swapped = (axes[0] ^ axis) & below
            axes[0] = np.where(is_set, axes[0] ^ below, axes[0] ^ swapped)
            if number:
                axes[number] = np.where(is_set, axis, axis ^ swapped)
    for number in range(1, len(axes)):
        axes[number] ^= axes[number - 1]
    turned = np.zeros(len(axes[0]), dtype=np.uint64)
    for bit in range(bits - 1, 0, -1):
        is_set = (axes[-1] & np.uint64(1 << bit)) != 0
        turned = np.where(is_set, turned ^ np.uint64((1 << bit) - 1), turned)
    return zorder([axis ^ turned for axis in axes], bits)


Batches = Iterator[pa.RecordBatch]
Read = Callable[[tuple[str, ...] | None], Batches]
"""Columns (None is all) → the rows of a partition, the same ones in the same order each time."""

SAMPLE_ROWS = 100_000
_MAX_RANGES = 512
_MAX_BITS = 10
"""Of one column: 1,024 cells."""
_KEY_BITS = 63
_BATCH_ROWS = 131_072


class ClusterKeys(Value):
    """Rows → their positions on a curve."""

    order: ClusterOrder
    edges: tuple[pa.Array[Any], ...] = ()
    """For each column the values where its cells begin, ascending; none where rows are ordered by
    the columns themselves."""

    @staticmethod
    def of(order: ClusterOrder, sample: pa.Table) -> ClusterKeys:
        """Cut each column into cells of equally many rows of the sample."""
        if order.curve is Curve.ORDER:
            return ClusterKeys(order=order)
        cells = 1 << bits_of(order)
        columns = [sample.column(name) for name in order.columns]
        return ClusterKeys(
            order=order, edges=tuple(_quantiles([column], cells)[0] for column in columns)
        )

    def keys(self, rows: pa.Table | pa.RecordBatch) -> Words:
        """Return the position of each row on the Z or Hilbert curve."""
        bits = bits_of(self.order)
        ranks = [
            # A column of few values spans the curve as well as one of many.
            _ranks([edges], [rows.column(name)]) * np.uint64((1 << bits) // (len(edges) + 1))
            for name, edges in zip(self.order.columns, self.edges, strict=True)
        ]
        curve = zorder if self.order.curve is Curve.ZORDER else hilbert
        return curve(ranks, bits)

    def sorted_rows(self, rows: pa.Table) -> pa.Table:
        """Return rows in order; equal ones keep theirs."""
        if self.order.curve is Curve.ORDER:
            order = sort_keys([rows.column(name) for name in self.order.columns]).order
        else:
            order = np.argsort(self.keys(rows), kind="stable")
        return rows.take(from_numpy(order))


def bits_of(order: ClusterOrder) -> int:
    return max(1, min(_MAX_BITS, _KEY_BITS // len(order.columns)))


def sort_by_clusters(
    read: Read, order: ClusterOrder, *, row_count: int, memory_bytes: int
) -> Batches:
    """Yield the rows of a partition in order. Cost: as `key_ranges`."""
    for keys, rows in key_ranges(read, order, row_count=row_count, memory_bytes=memory_bytes):
        yield from keys.sorted_rows(rows).to_batches(max_chunksize=_BATCH_ROWS)


def key_ranges(
    read: Read, order: ClusterOrder, *, row_count: int, memory_bytes: int
) -> Generator[tuple[ClusterKeys, pa.Table], None, None]:
    """Yield rows in ranges of their keys; within a range they keep the order of the read.

    Cost:
        Reads the rows once; beyond `memory_bytes` the sort columns twice, and writes and reads a
        copy of the rows on the local disk.
    """
    batches = read(None)
    first = next(batches, None)
    if first is None:
        return
    rows = chain([first], batches)
    estimate = first.nbytes * row_count // max(1, first.num_rows)
    ranges = min(_MAX_RANGES, -(-estimate // max(1, memory_bytes)))
    if ranges <= 1:
        table = pa.Table.from_batches(rows)
        step = max(1, table.num_rows // SAMPLE_ROWS)
        sample = table.take(from_numpy(np.arange(0, table.num_rows, step))) if step > 1 else table
        yield ClusterKeys.of(order, sample), table
        return
    names = tuple(order.columns)
    step = max(1, row_count // SAMPLE_ROWS)
    sample = pa.Table.from_batches(
        [batch.take(from_numpy(np.arange(0, batch.num_rows, step))) for batch in read(names)]
    )
    keys = ClusterKeys.of(order, sample)
    # Where the ranges but the first begin, so that each has equally many rows of the sample.
    bounds = _quantiles(_compare(keys, sample), ranges)
    for table in _in_ranges(rows, first.schema, keys, bounds):
        yield keys, table


def _compare(keys: ClusterKeys, rows: pa.Table | pa.RecordBatch) -> list[Any]:
    """Return the columns by which ranges are distinguished."""
    if keys.order.curve is Curve.ORDER:
        return [rows.column(name) for name in keys.order.columns]
    return [from_numpy(keys.keys(rows))]


def _in_ranges(
    rows: Batches, schema: pa.Schema, keys: ClusterKeys, bounds: Sequence[pa.Array[Any]]
) -> Iterator[pa.Table]:
    count_of_ranges = len(bounds[0]) + 1
    with tempfile.TemporaryDirectory(prefix="paimon-cluster-") as directory:
        paths = [Path(directory) / str(number) for number in range(count_of_ranges)]
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with ExitStack() as stack:
            writers = [
                stack.enter_context(pa.ipc.new_stream(str(path), schema, options=options))
                for path in paths
            ]
            for batch in rows:
                numbers = _ranks(bounds, _compare(keys, batch)).astype(np.int64)
                by_range = batch.take(from_numpy(np.argsort(numbers, kind="stable")))
                start = 0
                for writer, count in zip(
                    writers, np.bincount(numbers, minlength=count_of_ranges).tolist(), strict=True
                ):
                    if count:
                        writer.write_batch(by_range.slice(start, count))
                    start += count
        for path in paths:
            with pa.OSFile(str(path), "r") as source, pa.ipc.open_stream(source) as reader:
                table = reader.read_all()
            path.unlink()
            if table.num_rows:
                yield table


def _quantiles(columns: Sequence[Any], count: int) -> list[pa.Array[Any]]:
    """Return the rows that cut columns, compared as tuples, into `count` equal parts at most."""
    by_key = sort_keys(columns)
    positions = np.linspace(0, len(by_key.order), count + 1)[1:-1].astype(np.int64)
    # The first of equal rows counts, so that all bounds differ.
    firsts = np.flatnonzero(by_key.starts)
    keys = np.unique(np.searchsorted(firsts, positions, side="right") - 1)
    rows = from_numpy(by_key.order[firsts[keys[keys > 0]]])
    return [
        pa.chunked_array(_chunks(column.take(rows)), column.type).combine_chunks()
        for column in columns
    ]


def _ranks(edges: Sequence[pa.Array[Any]], columns: Sequence[Any]) -> Words:
    """Return for each row how many edges are not above it."""
    count = len(edges[0])
    values = [
        pa.chunked_array([edge, *_chunks(column)])
        for edge, column in zip(edges, columns, strict=True)
    ]
    order = sort_keys(values).order  # stable: an edge is before the rows that equal it
    is_edge = order < count
    ranks = np.empty(len(order) - count, dtype=np.uint64)
    ranks[order[~is_edge] - count] = np.cumsum(is_edge)[~is_edge]
    return ranks


def _chunks(column: Any) -> list[Any]:
    return list(column.chunks) if isinstance(column, pa.ChunkedArray) else [column]
