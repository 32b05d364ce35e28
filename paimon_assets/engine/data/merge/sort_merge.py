"""Merge sorted runs by key range: memory is runs x batch, whatever the size of the bucket.

    run 0  ▕████████▏██████ …   every round: the bound is the smallest last key of the current
    run 1  ▕███▏███████ …       batches; all rows up to it are cut off by binary search, put in key
    run 2  ▕██████▏████ …       order at once (`data.key_order`), and merged to one row a key.
           └ bound

If only one run has rows up to the bound, they stay unchanged. While the rows of a round are
gathered in threads, the next round is cut and the batches after it are decoded.

`merge_sorted` merges the records of one write before they become a file, which holds each key once.
Source: replaces `org.apache.paimon.mergetree.compact.SortMergeReader`, which merges row by row;
`org.apache.paimon.mergetree.SortBufferWriteBuffer`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.numpy_columns import Array, Flags, from_numpy, to_numpy
from paimon_assets.engine.data.key_order import (
    KeyOrder,
    float_words,
    order_within_groups,
    sort_keys,
)
from paimon_assets.engine.data.merge.deduplicate import only
from paimon_assets.engine.data.merge.records import (
    MergedRows,
    MergeFunction,
    Records,
    adds,
    run_starts,
)
from paimon_assets.engine.data.threads import Threads, Work, read_ahead
from paimon_assets.engine.spec.schema.schema import SEQUENCE_NUMBER, VALUE_KIND
from paimon_assets.engine.spec.values import Value

KeyValues = tuple[Any, ...]
"""One key as Python values, in key order."""


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
        if self.last_key() <= bound:
            return rows.num_rows
        return bisect_right(range(rows.num_rows), bound, key=partial(self._key, rows))

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


FILE_RANK = "_FILE_RANK"
"""Column of the age of a row's file (larger is newer), in runs that are not ordered by age."""
FILE_LEVEL = "_FILE_LEVEL"
"""Column of the level of a row's file, where levels above 0 hold whole rows."""

_WIDE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
_MAX_OFFSET = 2**31 - 1
"""Bytes of values that 32-bit offsets can address."""
_FEW_RUNS = 16
"""With more runs, each reads a batch ahead: many small runs then end in one round."""


class MergePlan(Value):
    """The columns that a merge compares, and those it returns."""

    keys: tuple[str, ...]
    """Key columns, most significant first."""
    sequence_fields: tuple[str, ...] = ()
    """Columns of `sequence.field`, compared before the sequence number."""
    descending: bool = False
    """`sequence.field.sort-order`: the smallest value of the sequence fields wins."""
    runs_by_age: bool
    """All records of a run are older than those of the runs after it; then the order of the runs
    replaces sequence numbers and file ranks."""
    whole_above_0: bool = False
    """Records above level 0 include those of higher levels (`LookupStrategy`): of these records of
    a key only that of the lowest level counts. Batches hold `FILE_LEVEL` then."""
    columns: tuple[str, ...]
    """Columns to return; batches also hold further columns that the function needs."""
    repeats_keys: bool = False
    """A run may hold a key more than once."""
    keeps_retracts: bool = False
    """Return `_VALUE_KIND` too, last, and keys whose row retracts."""


def merge_runs(
    runs: Sequence[Iterator[pa.RecordBatch]],
    plan: MergePlan,
    function: MergeFunction,
    threads: Threads,
) -> Generator[pa.RecordBatch, None, None]:
    """Merge runs of sorted, unique keys into rows of unique keys in key order."""
    with closing(key_ranges(runs, plan.keys, threads)) as ranges:
        whole_keys = ([rows for _, rows in slices] for slices in ranges)
        yield from merge_ranges(whole_keys, plan, function, threads)


def merge_ranges(
    ranges: Iterable[Sequence[pa.RecordBatch]],
    plan: MergePlan,
    function: MergeFunction,
    threads: Threads,
) -> Iterator[pa.RecordBatch]:
    """Merge rows of ranges of whole keys, one after the other, into rows of unique keys."""
    pending: _Gathering | None = None
    for slices in ranges:
        following = _gather(slices, plan, function, threads)
        if pending is not None:
            yield from pending.result()
        pending = following
    if pending is not None:
        yield from pending.result()


def key_ranges(
    runs: Sequence[Iterator[pa.RecordBatch]], keys: Sequence[str], threads: Threads
) -> Generator[list[tuple[int, pa.RecordBatch]], None, None]:
    """Cut sorted runs into ranges of whole keys, in key order."""
    streams = [read_ahead(run, threads) for run in runs]
    peeks = len(streams) > _FEW_RUNS
    try:
        cursors = [RunCursor(stream, keys, peeks=peeks) for stream in streams]
        while active := [entry for entry in enumerate(cursors) if entry[1].batch is not None]:
            yield _next_slices(active)
    finally:
        for stream in streams:
            stream.close()


def _next_slices(active: Sequence[tuple[int, RunCursor]]) -> list[tuple[int, pa.RecordBatch]]:
    """Cut off the rows of complete keys; runs at their end do not limit them."""
    unbounded = len(active) == 1 or all(cursor.is_at_end for _, cursor in active)
    if unbounded:
        return [(number, cursor.take_all()) for number, cursor in active]
    bound = min(cursor.last_key() for _, cursor in active if not cursor.is_at_end)
    slices = [(number, cursor.take_up_to(bound)) for number, cursor in active]
    return [(number, rows) for number, rows in slices if rows.num_rows]


class _Gathering(Struct, frozen=True):
    """Columns of one round, being gathered."""

    columns: Sequence[Any]
    """Arrays, or work whose results they are."""
    names: tuple[str, ...]

    def result(self) -> Iterator[pa.RecordBatch]:
        arrays = [
            column.result() if isinstance(column, Work) else column for column in self.columns
        ]
        batch = pa.RecordBatch.from_arrays(arrays, names=list(self.names))
        if batch.num_rows:
            yield batch


def _gather(
    slices: Sequence[pa.RecordBatch], plan: MergePlan, function: MergeFunction, threads: Threads
) -> _Gathering:
    kinds = _kinds(slices, plan)
    if len(slices) == 1 and not plan.repeats_keys:
        names = (*plan.columns, VALUE_KIND.name) if plan.keeps_retracts else plan.columns
        rows = slices[0].select(list(names))
        if kinds is not None and not plan.keeps_retracts:
            rows = rows.filter(from_numpy(adds(kinds)))
        return _Gathering(rows.columns, names)
    records = Records(
        by_key=counting_order(slices, plan),
        kinds=kinds,
        columns=plan.columns,
        column=lambda name: join(slices, name),
    )
    merged = function.merge(records, keep_retracts=plan.keeps_retracts)
    columns: list[Any] = [
        threads.submit(merged_column, merged, slices, name) for name in plan.columns
    ]
    if not plan.keeps_retracts:
        return _Gathering(columns, plan.columns)
    return _Gathering([*columns, _kinds_of(merged)], (*plan.columns, VALUE_KIND.name))


def _kinds_of(merged: MergedRows) -> pa.Array[Any]:
    kinds = np.zeros(len(merged.newest), np.int8) if merged.kinds is None else merged.kinds
    return from_numpy(kinds.astype(np.int8, copy=False))


def merged_column(merged: MergedRows, slices: Sequence[pa.RecordBatch], name: str) -> pa.Array[Any]:
    """Return a column of merged rows of a range, in the type of the read."""
    return as_read(merged.column(name, join(slices, name)), slices, name)


def _kinds(slices: Sequence[pa.RecordBatch], plan: MergePlan) -> npt.NDArray[np.int8] | None:
    if VALUE_KIND.name not in slices[0].schema.names:
        return None
    kinds: npt.NDArray[np.int8] = numbers(slices, VALUE_KIND.name)
    return None if adds(kinds).all() and not plan.keeps_retracts else kinds


def counting_order(slices: Sequence[pa.RecordBatch], plan: MergePlan) -> KeyOrder:
    """Return the rows of a range that count, in key order; see `MergePlan.whole_above_0`."""
    by_key = record_order(slices, plan)
    if not plan.whole_above_0:
        return by_key
    levels = numbers(slices, FILE_LEVEL)
    counts = lowest_of_each_key(by_key, levels, levels > 0)
    return by_key if counts.all() else only(by_key, counts)


def lowest_of_each_key(by_key: KeyOrder, levels: npt.NDArray[Any], candidates: Flags) -> Flags:
    """Return which places count: all but the candidates that are not the lowest of their key."""
    counts = np.ones(len(by_key.order), dtype=np.bool_)
    places = np.flatnonzero(candidates[by_key.order])
    keys = np.cumsum(by_key.starts)[places]
    in_order = np.lexsort((levels[by_key.order][places], keys))
    counts[places] = False
    counts[places[in_order[run_starts(keys[in_order])]]] = True
    return counts


def record_order(slices: Sequence[pa.RecordBatch], plan: MergePlan) -> KeyOrder:
    """Return the rows of a range in key order, within a key from the oldest to the newest."""
    by_key = sort_keys([join(slices, name) for name in plan.keys])
    if plan.runs_by_age and not plan.sequence_fields:
        return by_key  # the sort is stable, and older runs come first
    then: list[Any] = [join(slices, name) for name in plan.sequence_fields]
    if not plan.runs_by_age:
        then += [numbers(slices, name) for name in (SEQUENCE_NUMBER.name, FILE_RANK)]
    order = order_within_groups(by_key, then, descending=plan.descending)
    return KeyOrder(order=order, starts=by_key.starts)


def join(slices: Sequence[pa.RecordBatch], name: str) -> pa.Array[Any]:
    """Return one column of the rows of a range, with 64-bit offsets if 32 bits do not suffice."""
    columns = [rows.column(name) for rows in slices]
    wide = _WIDE.get(columns[0].type)
    if wide is not None and sum(column.nbytes for column in columns) > _MAX_OFFSET:
        columns = [column.cast(wide) for column in columns]
    return pa.concat_arrays(columns)


def as_read(column: pa.Array[Any], slices: Sequence[pa.RecordBatch], name: str) -> pa.Array[Any]:
    """Return a merged column in the type of the read."""
    read_type = slices[0].column(name).type
    return column.cast(read_type) if _WIDE.get(read_type) == column.type else column


def numbers(slices: Sequence[pa.RecordBatch], name: str) -> npt.NDArray[Any]:
    """Return one column of numbers without nulls."""
    return np.concatenate([to_numpy(rows.column(name)) for rows in slices])


def merge_sorted(
    records: Records, function: MergeFunction, *, rows_at_once: int
) -> Iterator[tuple[MergedRows, list[Array]]]:
    """Merge records to one row a key, keeping rows that retract; yield them and their columns.

    Cost:
        Memory for the columns of one slice, besides the columns of `records`.
    """
    if records.kinds is not None and not records.kinds.any():  # all are +I
        records = replace(records, kinds=None)
    for by_key in key_slices(records.by_key, rows_at_once):
        merged = function.merge(replace(records, by_key=by_key), keep_retracts=True)
        yield merged, [merged.column(name, records.column(name)) for name in records.columns]


def key_slices(by_key: KeyOrder, rows_at_once: int) -> Iterator[KeyOrder]:
    """Cut records in key order into slices of whole keys, of about `rows_at_once` records."""
    count, starts = len(by_key.order), np.flatnonzero(by_key.starts)
    begin = 0
    while begin < count:
        key = int(np.searchsorted(starts, begin + rows_at_once))
        end = int(starts[key]) if key < len(starts) else count
        yield KeyOrder(order=by_key.order[begin:end], starts=by_key.starts[begin:end])
        begin = end
