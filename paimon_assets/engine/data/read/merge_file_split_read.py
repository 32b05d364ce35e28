"""Read a split of a primary-key table whose files overlap: merge on read.

    interval_partition ─▶ sections of runs ─▶ per run: FileRead ─▶ key filter
        ─▶ merge_runs (the merge function of the table, retracted keys dropped) ─▶ RowStage

Before the merge only predicates on key columns may drop rows: a filter on a value could drop the
newest record of a key and let an older one through.
Source: `org.apache.paimon.operation.MergeFileSplitRead`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.arrow_values import internals
from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy
from paimon_assets.engine.codec.hashing.bucket_function import bucket_numbers
from paimon_assets.engine.codec.rows.binary_row import key_range
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.executor import ClusterOrder
from paimon_assets.engine.contract.report_tasks import row_starts
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.wire import load, load_split
from paimon_assets.engine.data.cluster import key_ranges as sorted_ranges
from paimon_assets.engine.data.field_mapping import file_schema_of
from paimon_assets.engine.data.merge.function import merge_function_of
from paimon_assets.engine.data.merge.records import MergeFunction
from paimon_assets.engine.data.merge.sort_merge import (
    FILE_LEVEL,
    FILE_RANK,
    MergePlan,
    merge_ranges,
    merge_runs,
)
from paimon_assets.engine.data.read.data_files import POSITION, FileRead
from paimon_assets.engine.data.read.row_stage import RowStage
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.lsm import interval_partition
from paimon_assets.engine.spec.merge.engine_traits import LookupStrategy
from paimon_assets.engine.spec.merge.sequence_padding import padding_of
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.predicate.predicate import Predicate, fields_of, only_on
from paimon_assets.engine.spec.predicate.prune import UNKNOWN, Bounds, may_match
from paimon_assets.engine.spec.schema import schema as table_schema
from paimon_assets.engine.spec.types.cast_rules import first_retyped
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.values import Value

Run = Sequence[DataFileMeta]
Selection = Callable[[str, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""(path of a file, its records) → the records of some keys."""

_KEY_AGE = "_KEY_AGE"
"""Column of the age of a row among those of its key in other buckets (larger is newer)."""
_PLACE = "_PLACE"
"""Column of the number of a row among those of a split's files."""
_COPIES = 4
"""A range of sorted rows is held about as often: as loaded, gathered, merged, and the next one."""
_ROWS_AT_HAND = 131_072
"""Rows decoded at a time over all runs of a section, so that many small runs need little memory."""
_MIN_BATCH_ROWS = 8192


def read_merged(
    context: ReadContext,
    split: DataSplit,
    file_io: FileIO,
    threads: Threads,
    *,
    select: Selection | None = None,
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the merged rows of a split in key order; with `select`, of some keys alone."""
    function = merge_function_of(context.schema, context.table)
    read = _MergeRead(context=context, split=split, file_io=file_io, threads=threads, select=select)
    if has_retyped_key(context, split):
        yield from read.sorted_rows(function)
        return
    for section in read.sections():
        yield from read.section(section, function)


def covered_rows(shared: bytes, payload: bytes, file_io: FileIO, threads: Threads) -> bytes:
    """Return which rows of a split's files are not rows of the table; see `COVERED_TASK`.

    For a table of which the newest record of a key is its row. Reads the key columns.
    """
    split = load_split(payload)
    context = replace(load(ReadContext, shared), columns=(), predicate=None)
    function = merge_function_of(context.schema, context.table)
    starts = row_starts(split.data_files)
    places = dict(zip((file.file_name for file in split.data_files), starts, strict=False))
    read = _MergeRead(context=context, split=split, file_io=file_io, threads=threads, places=places)
    covered = np.ones(starts[-1], dtype=np.bool_)
    for section in read.sections():
        for batch in read.section(section, function):
            covered[to_numpy(batch.column(_PLACE))] = False
    return np.packbits(covered, bitorder="little").tobytes()


class _MergeRead(Value, dict=True):
    context: ReadContext
    split: DataSplit
    file_io: FileIO
    threads: Threads
    places: Mapping[str, int] | None = None
    """File name → number of its first row: rows are only counted. None returns the rows."""
    select: Selection | None = None
    """Selects records before they are merged."""

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

    def sections(self) -> list[list[list[DataFileMeta]]]:
        types = [field.type for field in self.context.schema.key_fields]
        return interval_partition(self.split.data_files, partial(key_range, types=types))

    def section(self, runs: Sequence[Run], function: MergeFunction) -> Iterator[pa.RecordBatch]:
        aged = sorted(runs, key=lambda run: max(file.max_sequence_number for file in run))
        plan = self._plan(aged)
        merges = len(aged) > 1 or self.select is not None
        needed = function.needed_columns(plan.columns) if merges else plan.columns
        read = self._file_read(aged, plan, needed)
        read.prepare([run[0] for run in aged])
        streams = [self._rows(run, read, plan) for run in aged]
        with closing(merge_runs(streams, plan, function, self.threads)) as merged:
            for batch in merged:
                yield batch if self.places is not None else self.stage.apply(batch)

    def sorted_rows(self, function: MergeFunction) -> Iterator[pa.RecordBatch]:
        """Yield the merged rows of all files, sorted by key: some are in the order of other types.

        Cost:
            Beyond `read.batch-memory` the keys are read twice, and rows copied to the local disk.
        """
        schema = self.context.schema
        files, ages = self.split.data_files, self._key_ages()
        plan = self._plan([files], is_sorted=False)
        read = self._file_read([files], plan, function.needed_columns(plan.columns))
        only_keys = replace(read, fields=tuple(schema.key_fields), system_fields=())

        def rows(columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
            for file in files:
                for batch in self._rows([file], only_keys if columns else read, plan):
                    if batch.num_rows:
                        yield batch.append_column(_KEY_AGE, self._ages(batch, file, ages))

        ranges = sorted_ranges(
            rows,
            ClusterOrder(columns=plan.keys),
            row_count=self.split.row_count,
            memory_bytes=schema.typed_options.get(opt.READ_BATCH_MEMORY) // _COPIES,
        )
        size = schema.typed_options.get(opt.READ_BATCH_SIZE)
        with closing(ranges):
            slices = (table.to_batches() for _, table in ranges)
            for batch in merge_ranges(slices, plan, function, self.threads):
                result = self.stage.apply(batch)
                yield from (result.slice(start, size) for start in range(0, result.num_rows, size))

    def _key_ages(self) -> Mapping[int, int]:
        """Return schema id → age of its key types: the place of the first schema that has them."""
        schema, by_id = self.context.schema, self.context.schemas_by_id
        ids = sorted({file.schema_id for file in self.split.data_files})
        schemas = [*map(by_id.__getitem__, ids), schema]
        ages = [
            next(
                n for n, each in enumerate(schemas) if not first_retyped(each.key_fields, own.by_id)
            )
            for own in schemas
        ]
        reason = None
        if ages != sorted(ages) and not schema.typed_options.get(opt.SEQUENCE_FIELD):
            reason = "has a type again that it had before, and no sequence field orders its rows"
        elif LookupStrategy.of(schema).merges_whole_rows:
            reason = "has another type in some files, and which rows are whole is not known"
        if reason is not None:
            message = f"The key of table '{self.context.table}' {reason}. Overwrite the table."
            raise UnsupportedFeatureError(message, kind="key-type-change", table=self.context.table)
        return dict(zip(ids, ages, strict=False))

    def _ages(self, rows: pa.RecordBatch, file: DataFileMeta, ages: Mapping[int, int]) -> Any:
        """Return the order of a key's rows over buckets: those in the key's own are the newest.

        Other buckets hold rows of the time when the key had another type, even if they were
        compacted since; among these the type decides.
        """
        schema, buckets = self.context.schema, self.split.total_buckets or 0
        result = np.full(rows.num_rows, ages[file.schema_id], dtype=np.int64)
        if schema.bucket_mode is table_schema.BucketMode.HASH_FIXED and buckets > 0:
            fields = schema.columns(schema.bucket_keys)
            columns = [rows.column(field.name) for field in fields]
            types = [field.type for field in fields]
            function = schema.typed_options.get(opt.BUCKET_FUNCTION)
            folder = self.split.path_of(file).rsplit("/", 2)[-2]
            own = bucket_numbers(columns, types, buckets, function)
            result[own == int(folder.removeprefix("bucket-"))] = np.iinfo(np.int64).max
        descending = schema.typed_options.get(opt.SEQUENCE_SORT_ORDER) is opt.SortOrder.DESCENDING
        return from_numpy(-result if descending else result)

    def _plan(self, aged: Sequence[Run], *, is_sorted: bool = True) -> MergePlan:
        schema = self.context.schema
        options = schema.typed_options
        fields = options.get(opt.SEQUENCE_FIELD)
        return MergePlan(
            keys=schema.trimmed_primary_keys,
            sequence_fields=(fields if len(aged) > 1 else ()) if is_sorted else (*fields, _KEY_AGE),
            descending=options.get(opt.SEQUENCE_SORT_ORDER) is opt.SortOrder.DESCENDING,
            runs_by_age=is_sorted and runs_by_age(aged),
            whole_above_0=LookupStrategy.of(schema).merges_whole_rows,
            columns=(
                (_PLACE,)
                if self.places is not None
                else tuple(field.name for field in self.stage.file_fields)
            ),
            repeats_keys=not is_sorted,
            keeps_retracts=self.context.keeps_kinds,
        )

    def _file_read(self, runs: Sequence[Run], plan: MergePlan, needed: Sequence[str]) -> FileRead:
        """Decode the requested columns and those the merge needs."""
        schema = self.context.schema
        merges = len(runs) > 1 or plan.repeats_keys or self.select is not None
        compared = {*plan.keys, *plan.sequence_fields} if merges else set()
        names = {*needed, *compared, *fields_of(self.key_predicate)}
        # Always the row kind: some writers count no deletes for files that hold them.
        system: list[DataField] = [table_schema.VALUE_KIND]
        if not plan.runs_by_age or self.select is not None:
            system.append(table_schema.SEQUENCE_NUMBER)
        batch_rows = schema.typed_options.get(opt.READ_BATCH_SIZE)
        return FileRead(
            context=self.context,
            split=self.split,
            file_io=self.file_io,
            fields=tuple(field for field in schema.fields if field.name in names),
            system_fields=tuple(system),
            predicate=self.key_predicate,
            batch_rows=min(batch_rows, max(_MIN_BATCH_ROWS, _ROWS_AT_HAND // len(runs))),
            threads=self.threads,
            runs=len(runs),
        )

    def _rows(self, run: Run, read: FileRead, plan: MergePlan) -> Iterator[pa.RecordBatch]:
        for file in read.following(run):
            batches: Iterator[pa.RecordBatch]
            batches = read.batches(file, with_positions=self.places is not None)
            if self.select is not None:
                batches = self.select(self.split.path_of(file), batches)
            for batch in batches:
                rows = batch
                if self.places is not None:
                    place: Any = pc.add(rows.column(POSITION), self.places[file.file_name])
                    rows = rows.append_column(_PLACE, place)
                if self.key_predicate is not None:
                    rows = self.stage.filter(batch, self.key_predicate)
                if not plan.runs_by_age:
                    rank = pa.repeat(self.file_ranks[file.file_name], rows.num_rows)
                    rows = rows.append_column(FILE_RANK, rank)
                if plan.whole_above_0:
                    level = pa.repeat(file.level, rows.num_rows)
                    rows = rows.append_column(FILE_LEVEL, level)
                yield rows
                if not plan.repeats_keys and self._is_past(batch):
                    return

    def _is_past(self, batch: pa.RecordBatch) -> bool:
        """Whether no key behind those of a batch may pass: the rest of the run is not decoded."""
        first = self.context.schema.key_fields[0]
        if first.name not in fields_of(self.key_predicate) or not batch.num_rows:
            return False
        (key,) = internals(batch.column(first.name).slice(batch.num_rows - 1), first.type)
        behind = {first.name: Bounds(minimum=key)}
        return not may_match(self.key_predicate, lambda name: behind.get(name, UNKNOWN))


def file_ranks(
    files: Sequence[DataFileMeta], schema: table_schema.TableSchema
) -> Mapping[str, int]:
    """Return file name → place in the order of age: decides between equal sequence numbers.

    The newest file wins, except where numbers hold digits of a counter: one that wrapped makes
    equal numbers, and the record before the wrap was meant to be higher.
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
    sign = -1 if padding is not None and padding.has_counter else 1
    return {file.file_name: sign * rank for rank, (_, file) in enumerate(aged)}


def check_key_order(file: DataFileMeta, context: ReadContext) -> None:
    """Refuse a file that is in the order of a key of another type."""
    column = _retyped_key(file, context)
    if column is not None:
        held = context.schemas_by_id[file.schema_id].by_id
        raise UnsupportedFeatureError(
            f"Key column '{column.name}' of table '{context.table}' is {column.type}, but data"
            f" file '{file.file_name}' is in the order of {held[column.id].type}, and its schema is"
            f" gone. Restore 'schema/schema-{file.schema_id}' of the table, or overwrite it.",
            kind="key-type-change",
            table=context.table,
            column=column.name,
            path=file.file_name,
        )


def has_retyped_key(context: ReadContext, split: DataSplit) -> bool:
    """Whether a file is in the order of a key of another type."""
    return any(_retyped_key(file, context) for file in split.data_files)


def _retyped_key(file: DataFileMeta, context: ReadContext) -> DataField | None:
    held = file_schema_of(context.schemas_by_id, file.schema_id, file.file_name).by_id
    return first_retyped(context.schema.key_fields, held)


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
