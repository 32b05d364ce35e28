"""Read what differs between two states of a bucket.

    before-files ─▶ read_merged ─▶ all as -D ┐
                                             ├─▶ merge_runs ─▶ -D only before, +I only after,
    data files   ─▶ read_merged ─▶ all as +I ┘                 +U in both but not equal

Both states are read filtered and in key order, so memory is that of two merged reads. On a table
without key, files that are gone give -D and files that came give +I.
Source: `org.apache.paimon.table.source.splitread.IncrementalDiffSplitRead`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.data.merge.equal_rows import equal_values
from paimon_assets.engine.data.merge.records import ChosenRows, MergeFunction, Records
from paimon_assets.engine.data.merge.sort_merge import MergePlan, merge_runs
from paimon_assets.engine.data.read.merge_file_split_read import read_merged
from paimon_assets.engine.data.read.raw_file_split_read import read_raw
from paimon_assets.engine.data.read.row_stage import RowStage
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.schema.special_fields import ROW_KIND, VALUE_KIND
from paimon_assets.engine.spec.types.row_kind import RowKind

Batches = Generator[pa.RecordBatch, None, None]


def read_diff(context: ReadContext, split: DataSplit, file_io: FileIO, threads: Threads) -> Batches:
    """Yield the rows that differ: with their kind, or only those of the newer state.

    Raises:
        InvalidInputError: As `read_merged`.
    """
    has_key = context.schema.has_primary_key
    columns = context.schema.field_names
    whole = replace(context, columns=columns) if has_key else _without_kinds(context)
    before = replace(
        split,
        data_files=split.before_files,
        deletion_files=split.before_deletion_files,
        before_files=(),
        before_deletion_files=None,
    )
    after = replace(split, before_files=(), before_deletion_files=None)
    stage = RowStage(context=replace(context, predicate=None), partition=split.partition)
    read = read_merged if has_key else read_raw
    streams = [
        _as(RowKind.DELETE, read(whole, before, file_io, threads)),
        _as(RowKind.INSERT, read(whole, after, file_io, threads)),
    ]
    if not has_key:
        for stream in streams if context.keeps_kinds else streams[1:]:
            with closing(stream) as batches:
                yield from map(stage.apply, batches)
        return
    plan = MergePlan(
        keys=context.schema.trimmed_primary_keys,
        runs_by_age=True,
        columns=columns,
        keeps_retracts=context.keeps_kinds,
    )
    with closing(merge_runs(streams, plan, _Difference(columns), threads)) as merged:
        yield from map(stage.apply, merged)


def _without_kinds(context: ReadContext) -> ReadContext:
    others = tuple(name for name in context.columns if name != ROW_KIND.name)
    return replace(context, columns=others or context.schema.field_names[:1])


def _as(kind: RowKind, batches: Batches) -> Batches:
    with closing(batches):
        for batch in batches:
            kinds = np.full(batch.num_rows, kind, dtype=np.int8)
            yield batch.append_column(VALUE_KIND.name, from_numpy(kinds))


@dataclass(frozen=True, slots=True)
class _Difference(MergeFunction):
    """A merge of two records at most: the old row of a key, the new one, or both."""

    columns: Sequence[str]

    def merge(self, records: Records, *, keep_retracts: bool = False) -> ChosenRows:
        """Keep rows that are in one state only, and the newer of two that are not equal."""
        order = records.by_key.order
        first = np.flatnonzero(records.by_key.starts)
        last = np.append(first[1:], len(order)) - 1
        newest = order[last]
        both = np.flatnonzero(first != last)
        kinds = np.full(len(order), RowKind.INSERT, dtype=np.int8)
        if records.kinds is not None:
            kinds = records.kinds.copy()
        kinds[newest[both]] = RowKind.UPDATE_AFTER
        kept = np.ones(len(newest), dtype=np.bool_)
        kept[both] = ~self._equal(records.column, order[first[both]], newest[both])
        return ChosenRows.of(newest[kept], kinds, keep_retracts=keep_retracts)

    def _equal(self, column: Callable[[str], Any], old: Any, new: Any) -> Any:
        equal = np.ones(len(old), dtype=np.bool_)
        for name in self.columns:
            values = column(name)
            left, right = values.take(from_numpy(old)), values.take(from_numpy(new))
            equal &= equal_values(left, right)
        return equal
