"""The rows of a table that change: by a predicate, or because they match a source row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy
from paimon_assets.engine.contract.merge_on import MergeOn
from paimon_assets.engine.contract.tasks.row_change_task import RowChange, RowChangeTask
from paimon_assets.engine.data.arrow_predicate import passing_rows
from paimon_assets.engine.data.read.split_read import read_split
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.data.write.buckets.row_key_extractor import distinct_rows
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.predicate.predicate import fields_of

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

ROWS_AT_ONCE = 131_072
"""Rows to look up at once, at least; more if there are more source rows."""


@dataclass(frozen=True, kw_only=True)
class Matcher:
    """Finds the rows that change."""

    change: RowChange

    @cached_property
    def source(self) -> pa.RecordBatch | None:
        """The source rows, one batch; None if a predicate alone decides."""
        if self.change.source is None:
            return None
        return one_batch(pa.ipc.open_stream(self.change.source).read_all())

    @property
    def columns(self) -> frozenset[str]:
        """The columns by which rows match."""
        return fields_of(self.change.read.predicate) | set(self.change.on)

    def join_batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Join batches, so that the source is hashed for many rows at a time."""
        if self.source is None:
            yield from batches
            return
        yield from join_batches(batches, max(ROWS_AT_ONCE, self.source.num_rows))

    def matches(self, rows: pa.RecordBatch) -> tuple[Flags, Longs | None]:
        """Return which rows change and, for these, the number of their source row."""
        predicate = self.change.read.predicate
        mask: Flags = np.ones(rows.num_rows, dtype=np.bool_)
        if predicate is not None:
            fields = self.change.read.schema.by_name
            mask = to_numpy(passing_rows(predicate, rows.column, fields))
        if self.source is None:
            return mask, None
        source_rows = self._source_rows(self.source, rows)
        mask = mask & (source_rows >= 0)
        return mask, source_rows[mask]

    def source_of(self, numbers: Longs | None) -> pa.RecordBatch | None:
        """Return source rows by their numbers."""
        if self.source is None or numbers is None:
            return None
        return self.source.take(from_numpy(numbers))

    def _source_rows(self, source: pa.RecordBatch, rows: pa.RecordBatch) -> Longs:
        """Row → the source row that is equal in the columns `on`; -1 without one."""
        if not rows.num_rows or not source.num_rows:
            return np.full(rows.num_rows, -1, dtype=np.int64)
        columns: list[Any] = [
            pa.concat_arrays([source.column(name), rows.column(name)]) for name in self.change.on
        ]
        numbers, first_rows = distinct_rows(columns)
        first: Longs = first_rows[numbers[source.num_rows :]]
        matches: Flags = first < source.num_rows
        for name in self.change.on:
            matches &= to_numpy(pc.is_valid(rows.column(name)))
        return np.where(matches, first, -1)


def deleted_rows(change: RowChange, source: pa.RecordBatch | None, count: int) -> Flags:
    """Return which rows their source rows delete."""
    if change.deletes is None or source is None:
        return np.zeros(count, dtype=np.bool_)
    deletes: Any = source.column(change.deletes)
    return to_numpy(deletes.fill_null(False))  # noqa: FBT003 - a value


def one_batch(rows: pa.Table) -> pa.RecordBatch:
    """Join source rows."""
    batches = rows.combine_chunks().to_batches()
    if len(batches) > 1:
        raise UnsupportedFeatureError(
            f"{rows.num_rows} source rows that one task needs hold more than 2 GB in a column; "
            "merge them in parts, or into a table with more buckets.",
            kind="merge-source-size",
        )
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)


def join_batches(
    batches: Iterable[pa.RecordBatch], min_rows: int = ROWS_AT_ONCE
) -> Iterator[pa.RecordBatch]:
    """Join batches to larger ones of `min_rows` rows, except the last; long texts may split one."""
    parts: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        parts.append(batch)
        rows += batch.num_rows
        if rows >= min_rows:
            yield from pa.Table.from_batches(parts).combine_chunks().to_batches()
            parts, rows = [], 0
    if parts:
        yield from pa.Table.from_batches(parts).combine_chunks().to_batches()


Keys = Sequence["pa.Array[Any]"]
"""The keys of one batch, as `MergeOn.keys`."""


def match_keys(
    change: RowChange, task: RowChangeTask, on: MergeOn, file_io: FileIO, threads: Threads
) -> Iterator[Keys]:
    """Yield the keys of the rows of a task's files that pass the predicate.

    Cost:
        Reads the columns of the keys. A key of many rows comes once in 131,072 rows.
    """
    context = replace(change.read, columns=on.names)
    is_unique = change.read.schema.has_primary_key
    for split in task.splits:
        for rows in join_batches(read_split(context, split, file_io, threads)):
            keys = on.keys(rows)
            if not is_unique and rows.num_rows:
                first_rows = from_numpy(distinct_rows(keys)[1])
                keys = [key.take(first_rows) for key in keys]
            yield keys
