"""Which keys occur more than once, without holding all keys.

On Spark one grouped count. In this process two passes over the key columns: the first keeps 32 bits
of each key's hash and finds hashes that occur twice; the second, if there are any, looks at the few
rows that have them, exactly. Tables of more rows than fit take the first pass in parts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.hashing.bucket_function import bucket_numbers
from paimon_assets.engine.contract.executor import Executor
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.spec.types.data_types import DataType
from paimon_assets.engine.table.read.read_builder import Plan, ReadBuilder
from paimon_assets.engine.table.table import Table

ROWS_A_PASS = 50_000_000
"""Rows whose hashes are held at once: 200 MB, and as much again while sorting."""

_HASHES = 2**31 - 1
_EXAMPLES = 20
_ROWS = "rows"


@dataclass(frozen=True, kw_only=True)
class DuplicateKeys:
    """Keys of more than one row."""

    rows: int
    """Rows of the table."""
    keys: int = 0
    """Keys that several rows share."""
    rows_of_keys: int = 0
    """Rows that share their key."""
    examples: tuple[dict[str, Any], ...] = field(default=())
    """Some of the keys: column → value, and how many `rows`."""


def find_duplicates(
    table: Table,
    key: Sequence[str],
    executor: Executor[Any],
    physical_rows: int,
    *,
    is_merged: bool = True,
) -> DuplicateKeys:
    """Find the keys of a table's newest snapshot that occur more than once.

    Args:
        table: The table.
        key: Its key columns; nulls count as equal.
        executor: Who reads.
        physical_rows: No fewer than the table's rows; decides the number of passes.
        is_merged: Look at rows as a reader gets them; else at every stored row.

    Raises:
        NotFoundError: A key column does not exist.

    Cost:
        At most 4 bytes a row of `ROWS_A_PASS` rows, and the rows that share a hash.
    """
    read = table.new_read_builder().with_columns(key)
    snapshot = table.latest_snapshot()
    if snapshot is not None:
        read = read.at_snapshot(snapshot.id)  # every pass must see the same rows
    plan = read.plan() if is_merged else unmerged_plan(read)
    if isinstance(executor, EmbeddedExecutor):
        types = [column.type for column in table.schema.columns(key)]
        passes = -(-physical_rows // ROWS_A_PASS) or 1
        return _here(lambda: read.read(plan), types, key, passes)
    return _on_spark(plan, key, executor)


def unmerged_plan(read: ReadBuilder) -> Plan:
    """Plan a read of every stored row, also of those that newer ones replace, with its kind."""
    plan = read.with_row_kinds().plan()
    return replace(plan, splits=tuple(replace(it, is_streaming=True) for it in plan.splits))


def _here(
    read: Callable[[], pa.RecordBatchReader],
    types: Sequence[DataType],
    key: Sequence[str],
    passes: int,
) -> DuplicateKeys:

    def hashed() -> Iterator[tuple[pa.RecordBatch, "np.ndarray[Any, np.dtype[np.int32]]"]]:
        for batch in read():
            keys = batch.select(list(key))
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
        return DuplicateKeys(rows=rows)
    alike = [batch.filter(pa.array(np.isin(hashes, suspects))) for batch, hashes in hashed()]
    counted = _counted(pa.Table.from_batches(alike), key)
    return _duplicates(rows, counted)


def _counted(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the keys that occur more than once, with their number of rows."""
    grouped = rows.group_by(list(key)).aggregate([([], "count_all")])
    named = grouped.rename_columns([*key, _ROWS])
    return named.filter(pc.greater(named[_ROWS], pa.scalar(1))).sort_by([(_ROWS, "descending")])


def _duplicates(rows: int, counted: pa.Table) -> DuplicateKeys:
    return DuplicateKeys(
        rows=rows,
        keys=counted.num_rows,
        rows_of_keys=pc.sum(counted[_ROWS]).as_py() or 0,
        examples=tuple(counted.slice(0, _EXAMPLES).to_pylist()),
    )


def _on_spark(plan: Plan, key: Sequence[str], executor: Any) -> DuplicateKeys:
    frame = executor.to_dataframe(plan.context, plan.splits)
    quoted = [f"`{name.replace('`', '``')}`" for name in key]
    counted = frame.groupBy(*quoted).count().withColumnRenamed("count", _ROWS)
    totals = counted.selectExpr(
        f"sum({_ROWS}) AS all_rows",
        f"count_if({_ROWS} > 1) AS shared_keys",
        f"sum(if({_ROWS} > 1, {_ROWS}, 0)) AS shared_rows",
    ).first()
    if not totals["shared_keys"]:
        return DuplicateKeys(rows=totals["all_rows"] or 0)
    worst = counted.where(f"{_ROWS} > 1").orderBy(_ROWS, ascending=False).limit(_EXAMPLES)
    return DuplicateKeys(
        rows=totals["all_rows"],
        keys=totals["shared_keys"],
        rows_of_keys=totals["shared_rows"],
        examples=tuple(worst.toArrow().to_pylist()),
    )
