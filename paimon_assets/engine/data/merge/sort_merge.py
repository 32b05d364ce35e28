"""Merge sorted runs by key range: memory is runs x batch, whatever the size of the bucket.

    run 0  ▕████████▏██████ …   every round: the bound is the smallest last key of the batches at
    run 1  ▕███▏███████ …       hand; all rows up to it are cut off by binary search, put in key
    run 2  ▕██████▏████ …       order at once (`data.key_order`), and merged to one row a key.
           └ bound

Where one run alone has rows up to the bound they pass through untouched. While the rows of a round
are gathered in the pool, the next round is cut and the batches after it are decoded.
Source: replaces `org.apache.paimon.mergetree.compact.SortMergeReader`, row by row there.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_assets.engine.codec.numpy_columns import from_numpy, to_numpy
from paimon_assets.engine.data.key_order import KeyOrder, order_within_groups, sort_keys
from paimon_assets.engine.data.merge.function import MergeFunction
from paimon_assets.engine.data.merge.records import MergedRows, Records, adds
from paimon_assets.engine.data.merge.run_cursor import RunCursor, read_ahead
from paimon_assets.engine.spec.special_fields import SEQUENCE_NUMBER, VALUE_KIND

FILE_RANK = "_FILE_RANK"
"""Column of the age of a row's file (larger is newer), in runs that are not ordered by age."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """What the merge looks at, and what it returns."""

    keys: tuple[str, ...]
    """Key columns, most significant first."""
    sequence_fields: tuple[str, ...] = ()
    """Columns of `sequence.field`, compared before the sequence number."""
    descending: bool = False
    """`sequence.field.sort-order`: the smallest value of the sequence fields wins."""
    runs_by_age: bool
    """Every record of a run is older than every one of the runs after it; then the order of the
    runs stands for sequence numbers and file ranks."""
    columns: tuple[str, ...]
    """Columns to return; batches hold them and those the function needs besides."""


def merge_runs(
    runs: Sequence[Iterator[pa.RecordBatch]],
    plan: MergePlan,
    function: MergeFunction,
    pool: ThreadPoolExecutor,
) -> Generator[pa.RecordBatch, None, None]:
    """Merge runs of sorted, unique keys into rows of unique keys in key order.

    Args:
        runs: Oldest first. Batches hold the plan's columns, `_VALUE_KIND` if some record retracts,
            and `_SEQUENCE_NUMBER` and `FILE_RANK` unless runs are by age.
        plan: What to look at.
        function: How records of one key become one row.
        pool: Decodes ahead and gathers columns; needs no more threads than there are cores.
    """
    streams = [read_ahead(run, pool) for run in runs]
    try:
        cursors = [RunCursor(stream, plan.keys) for stream in streams]
        waiting: _Gathering | None = None
        while active := [cursor for cursor in cursors if cursor.batch is not None]:
            started = _gather(_next_slices(active), plan, function, pool)
            if waiting is not None:
                yield from waiting.result()
            waiting = started
        if waiting is not None:
            yield from waiting.result()
    finally:
        for stream in streams:
            stream.close()


def _next_slices(active: Sequence[RunCursor]) -> list[pa.RecordBatch]:
    if len(active) == 1:
        return [active[0].take_all()]
    bound = min(cursor.last_key() for cursor in active)
    slices = [cursor.take_up_to(bound) for cursor in active]
    return [rows for rows in slices if rows.num_rows]


@dataclass(frozen=True, slots=True)
class _Gathering:
    """Columns of one round, being gathered in the pool."""

    columns: Sequence[Any]
    """Arrays, or futures of arrays."""
    names: tuple[str, ...]

    def result(self) -> Iterator[pa.RecordBatch]:
        arrays = [
            column.result() if isinstance(column, Future) else column for column in self.columns
        ]
        batch = pa.RecordBatch.from_arrays(arrays, names=list(self.names))
        if batch.num_rows:
            yield batch


def _gather(
    slices: Sequence[pa.RecordBatch],
    plan: MergePlan,
    function: MergeFunction,
    pool: ThreadPoolExecutor,
) -> _Gathering:
    kinds = _kinds(slices)
    if len(slices) == 1:
        rows = slices[0].select(list(plan.columns))
        if kinds is not None:
            rows = rows.filter(from_numpy(adds(kinds)))
        return _Gathering(rows.columns, plan.columns)
    records = Records(
        by_key=_order(slices, plan),
        kinds=kinds,
        columns=plan.columns,
        column=lambda name: _joined(slices, name),
    )
    merged = function.merge(records)
    columns = [pool.submit(_column, merged, slices, name) for name in plan.columns]
    return _Gathering(columns, plan.columns)


def _column(merged: MergedRows, slices: Sequence[pa.RecordBatch], name: str) -> pa.Array[Any]:
    return merged.column(name, _joined(slices, name))


def _kinds(slices: Sequence[pa.RecordBatch]) -> npt.NDArray[np.int8] | None:
    if VALUE_KIND.name not in slices[0].schema.names:
        return None
    kinds: npt.NDArray[np.int8] = _numbers(slices, VALUE_KIND.name)
    return None if adds(kinds).all() else kinds


def _order(slices: Sequence[pa.RecordBatch], plan: MergePlan) -> KeyOrder:
    by_key = sort_keys([_joined(slices, name) for name in plan.keys])
    if plan.runs_by_age and not plan.sequence_fields:
        return by_key
    then: list[Any] = [_joined(slices, name) for name in plan.sequence_fields]
    if not plan.runs_by_age:
        then += [_numbers(slices, name) for name in (SEQUENCE_NUMBER.name, FILE_RANK)]
    order = order_within_groups(by_key, then, descending=plan.descending)
    return KeyOrder(order=order, starts=by_key.starts)


def _joined(slices: Sequence[pa.RecordBatch], name: str) -> pa.Array[Any]:
    return pa.concat_arrays([rows.column(name) for rows in slices])


def _numbers(slices: Sequence[pa.RecordBatch], name: str) -> npt.NDArray[Any]:
    return np.concatenate([to_numpy(rows.column(name)) for rows in slices])
