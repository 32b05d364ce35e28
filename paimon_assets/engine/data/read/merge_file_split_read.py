"""Read a split of a primary-key table whose files overlap: merge on read.

    interval_partition ─▶ sections of runs ─▶ per run: FileRead ─▶ key filter
        ─▶ merge_runs (the merge function of the table, retracted keys dropped) ─▶ RowStage

Before the merge only predicates on key columns may drop rows: a filter on a value could drop the
newest record of a key and let an older one through.
Source: `org.apache.paimon.operation.MergeFileSplitRead`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import pyarrow as pa

from paimon_assets.engine.codec.arrow.arrow_values import internals
from paimon_assets.engine.codec.rows.key_range import ComparableKey, key_range
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.data.field_mapping import file_schema_of
from paimon_assets.engine.data.merge.function import merge_function_of
from paimon_assets.engine.data.merge.records import MergeFunction
from paimon_assets.engine.data.merge.sort_merge import (
    FILE_LEVEL,
    FILE_RANK,
    MergePlan,
    merge_runs,
)
from paimon_assets.engine.data.read.data_files import FileRead
from paimon_assets.engine.data.read.row_stage import RowStage
from paimon_assets.engine.data.sequence import has_counter
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.lsm.interval_partition import interval_partition
from paimon_assets.engine.spec.merge.lookup import LookupStrategy
from paimon_assets.engine.spec.merge.sequence_padding import padding_of
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.options.all_options import (
    READ_BATCH_SIZE,
    SEQUENCE_FIELD,
    SEQUENCE_SORT_ORDER,
    SortOrder,
)
from paimon_assets.engine.spec.predicate.predicate import Predicate, fields_of, only_on
from paimon_assets.engine.spec.predicate.prune import UNKNOWN, Bounds, may_match
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.schema.special_fields import SEQUENCE_NUMBER, VALUE_KIND
from paimon_assets.engine.spec.types.cast_rules import first_retyped
from paimon_assets.engine.spec.types.data_types import DataField

Run = Sequence[DataFileMeta]

_ROWS_AT_HAND = 131_072
"""Rows decoded at a time over all runs of a section, so that many small runs need little memory."""
_MIN_BATCH_ROWS = 8192


def read_merged(
    context: ReadContext, split: DataSplit, file_io: FileIO, threads: Threads
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the merged rows of a split in key order."""
    for file in split.data_files:
        check_key_order(file, context)
    function = merge_function_of(context.schema, context.table)
    read = _MergeRead(context=context, split=split, file_io=file_io, threads=threads)
    for section in interval_partition(split.data_files, read.key_range):
        yield from read.section(section, function)


@dataclass(frozen=True, kw_only=True)
class _MergeRead:
    context: ReadContext
    split: DataSplit
    file_io: FileIO
    threads: Threads

    @cached_property
    def stage(self) -> RowStage:
        return RowStage(context=self.context, partition=self.split.partition)

    @cached_property
    def file_ranks(self) -> Mapping[str, int]:
        return file_ranks(self.split.data_files, self.context.schema)

    @cached_property
    def key_predicate(self) -> Predicate | None:
        schema = self.context.schema
        return only_on(self.context.predicate, schema.trimmed_primary_keys)

    def key_range(self, file: DataFileMeta) -> tuple[ComparableKey, ComparableKey]:
        types = [field.type for field in self.context.schema.key_fields]
        return key_range(file, types)

    def section(self, runs: Sequence[Run], function: MergeFunction) -> Iterator[pa.RecordBatch]:
        aged = sorted(runs, key=lambda run: max(file.max_sequence_number for file in run))
        plan = self._plan(aged)
        needed = function.needed(plan.columns) if len(aged) > 1 else plan.columns
        read = self._file_read(aged, plan, needed)
        streams = [self._rows(run, read, plan) for run in aged]
        with closing(merge_runs(streams, plan, function, self.threads)) as merged:
            for batch in merged:
                yield self.stage.apply(batch)

    def _plan(self, aged: Sequence[Run]) -> MergePlan:
        schema = self.context.schema
        options = schema.typed_options
        return MergePlan(
            keys=schema.trimmed_primary_keys,
            sequence_fields=options.get(SEQUENCE_FIELD) if len(aged) > 1 else (),
            descending=options.get(SEQUENCE_SORT_ORDER) is SortOrder.DESCENDING,
            runs_by_age=runs_by_age(aged),
            whole_above_0=LookupStrategy.of(schema).merges_whole_rows,
            columns=tuple(field.name for field in self.stage.file_fields),
            keeps_retracts=self.context.keeps_kinds,
        )

    def _file_read(self, runs: Sequence[Run], plan: MergePlan, needed: Sequence[str]) -> FileRead:
        """Decode the columns asked for and those the merge looks at, and no others."""
        schema = self.context.schema
        compared = {*plan.keys, *plan.sequence_fields} if len(runs) > 1 else set()
        wanted = {*needed, *compared, *fields_of(self.key_predicate)}
        # Always the row kind: some writers count no deletes for files that hold them.
        system: list[DataField] = [VALUE_KIND]
        if not plan.runs_by_age:
            system.append(SEQUENCE_NUMBER)
        batch_rows = schema.typed_options.get(READ_BATCH_SIZE)
        return FileRead(
            context=self.context,
            split=self.split,
            file_io=self.file_io,
            fields=tuple(field for field in schema.fields if field.name in wanted),
            system_fields=tuple(system),
            predicate=self.key_predicate,
            batch_rows=min(batch_rows, max(_MIN_BATCH_ROWS, _ROWS_AT_HAND // len(runs))),
            threads=self.threads,
            runs=len(runs),
        )

    def _rows(self, run: Run, read: FileRead, plan: MergePlan) -> Iterator[pa.RecordBatch]:
        for file in run:
            for batch in read.batches(file):
                kept = batch
                if self.key_predicate is not None:
                    kept = self.stage.filter(batch, self.key_predicate)
                if not plan.runs_by_age:
                    rank = pa.repeat(self.file_ranks[file.file_name], kept.num_rows)
                    kept = kept.append_column(FILE_RANK, rank)
                if plan.whole_above_0:
                    level = pa.repeat(file.level, kept.num_rows)
                    kept = kept.append_column(FILE_LEVEL, level)
                yield kept
                if self._is_past(batch):
                    return

    def _is_past(self, batch: pa.RecordBatch) -> bool:
        """Whether no key behind those of a batch may pass: the rest of the run is not decoded."""
        first = self.context.schema.key_fields[0]
        if first.name not in fields_of(self.key_predicate) or not batch.num_rows:
            return False
        (key,) = internals(batch.column(first.name).slice(batch.num_rows - 1), first.type)
        behind = {first.name: Bounds(minimum=key)}
        return not may_match(self.key_predicate, lambda name: behind.get(name, UNKNOWN))


def file_ranks(files: Sequence[DataFileMeta], schema: TableSchema) -> Mapping[str, int]:
    """Return file name → place in the order of age: decides between equal sequence numbers.

    The newest file wins, except where numbers hold digits of a counter: only one that wrapped
    makes equal numbers, and the record before the wrap was meant to be higher.
    """
    aged = sorted(
        enumerate(files),
        key=lambda entry: (
            -entry[1].level,
            entry[1].creation_time or 0,
            entry[1].max_sequence_number,
            entry[0],
        ),
    )
    padding = padding_of(schema)
    sign = -1 if padding is not None and has_counter(padding) else 1
    return {file.file_name: sign * rank for rank, (_, file) in enumerate(aged)}


def check_key_order(file: DataFileMeta, context: ReadContext) -> None:
    """Refuse a file that is in the order of a key of another type."""
    held = file_schema_of(context.schemas_by_id, file.schema_id, file.file_name).by_id
    column = first_retyped(context.schema.key_fields, held)
    if column is not None:
        raise UnsupportedFeatureError(
            f"Key column '{column.name}' of table '{context.table}' is {column.type}, but data"
            f" file '{file.file_name}' is in the order of {held[column.id].type}.",
            kind="key-type-change",
            details={
                "table": context.table,
                "column": column.name,
                "path": file.file_name,
            },
        )


def runs_by_age(aged: Sequence[Run]) -> bool:
    """Whether every record of a run has a smaller sequence number than those of the next run."""
    ranges = [
        (
            min(file.min_sequence_number for file in run),
            max(file.max_sequence_number for file in run),
        )
        for run in aged
    ]
    return all(older[1] < newer[0] for older, newer in pairwise(ranges))
