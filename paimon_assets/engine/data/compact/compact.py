"""The tasks `compact` and `place-waiting`: bytes in, a WriteResult as bytes out.

Without primary key, small files are copied one after the other into files of full size, without
rows that deletion vectors mark. With one:

    files of a bucket ─▶ sections ─▶ steps (`lsm`)
        rewrite    runs of each section, key range by key range ─▶ merged ─▶ files of the new level
        upgrade    the same file on the new level; read only if that gives changelog or deletions

Postponed rows are written, in order and with their kinds, into files on level 0 of their buckets,
as if they were written now.
Source: `org.apache.paimon.append.AppendCompactTask`, `BaseAppendFileStoreWrite.compactRewrite`,
`org.apache.paimon.mergetree.compact.MergeTreeCompactTask`, `MergeTreeCompactRewriter`,
`LookupMergeTreeCompactRewriter`, `FullChangelogMergeTreeCompactRewriter`,
`org.apache.paimon.flink.postpone.RewritePostponeBucketCommittableOperator`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from itertools import islice

import pyarrow as pa
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.numpy_columns import to_numpy
from paimon_assets.engine.contract import commit_message
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.wire import dump, load, load_split
from paimon_assets.engine.contract.write_tasks import CompactTask, PostponeContext
from paimon_assets.engine.data.compact import sections as sectioning
from paimon_assets.engine.data.compact.bucket_vectors import BucketVectors, deleted_rows
from paimon_assets.engine.data.compact.record_read import RecordRead, comparable_range
from paimon_assets.engine.data.merge.function import merge_function_of
from paimon_assets.engine.data.merge.sort_merge import key_ranges
from paimon_assets.engine.data.read.split_read import read_split
from paimon_assets.engine.data.threads import Threads, read_ahead
from paimon_assets.engine.data.write.input_check import parse_kinds, with_kinds
from paimon_assets.engine.data.write.rolling_file import (
    ONE_FILE,
    FileFactory,
    RollingFile,
    delete_unfinished,
)
from paimon_assets.engine.data.write.row_output import RowOutput, tracked_columns, write_stored
from paimon_assets.engine.data.write.table_write import write_rows
from paimon_assets.engine.data.write.write_support import changelog_schema
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.lsm import Section, UnitShape, compact_steps, interval_partition
from paimon_assets.engine.spec.merge.engine_traits import LookupStrategy
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, FileOrigin, row_ranges
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema.schema import ROW_KIND


def compact(shared: bytes, payload: bytes, file_io: FileIO, threads: Threads) -> bytes:
    """Compact files of one bucket.

    Cost:
        Reads and writes the files once; memory for a few row groups of rows, whatever their size.
    """
    context, task = load(ReadContext, shared), load(CompactTask, payload)
    if not context.schema.has_primary_key:
        return dump(_compact_append(context, task, file_io, threads))
    compaction = _KeyedCompaction(context, task, file_io, threads)
    try:
        return dump(compaction.run())
    except BaseException:
        compaction.abort()
        raise


def place_postponed(shared: bytes, payload: bytes, file_io: FileIO, threads: Threads) -> bytes:
    """Write the postponed rows of one partition to their buckets.

    Cost:
        Reads and writes the rows once; memory as for a write (`write-buffer-size`).
    """
    context, split = load(PostponeContext, shared), load_split(payload)
    name = ROW_KIND.name
    rows = (
        with_kinds(batch.drop_columns([name]), parse_kinds(batch.column(name), name))
        for batch in read_split(context.read, split, file_io, threads)
    )
    result = write_rows(context.write, rows, file_io, with_kinds_column=True, threads=threads)
    messages = [_message(split, commit_message.CompactIncrement(compact_before=split.data_files))]
    for message in result.messages:
        new = message.data_increment
        increment = commit_message.CompactIncrement(
            compact_after=new.new_files, changelog_files=new.changelog_files
        )
        messages.append(
            replace(
                message, data_increment=commit_message.DataIncrement(), compact_increment=increment
            )
        )
    return dump(replace(result, messages=tuple(messages)))


def _message(
    split: DataSplit, increment: commit_message.CompactIncrement
) -> commit_message.CommitMessage:
    return commit_message.CommitMessage(
        partition=split.partition,
        bucket=split.bucket,
        total_buckets=split.total_buckets,
        compact_increment=increment,
    )


class _KeyedCompaction:
    def __init__(
        self, context: ReadContext, task: CompactTask, file_io: FileIO, threads: Threads
    ) -> None:
        schema, level = context.schema, task.output_level
        self._context, self._task, self._file_io, self._threads = context, task, file_io, threads
        self._strategy = LookupStrategy.of(schema)
        self._function = merge_function_of(schema, context.table)
        self._vectors = BucketVectors(task, schema, file_io)
        self._factory = FileFactory(
            schema=schema,
            file_io=file_io,
            level=level,
            file_source=FileOrigin.COMPACT,
            keeps_deletes=task.keeps_deletes,
        )
        self._before: list[DataFileMeta] = []
        self._after: list[DataFileMeta] = []
        self._outputs: list[RowOutput] = []
        self._changelog: RowOutput | None = None
        """The changelog files, if this compaction writes them."""
        producer = schema.typed_options.get(opt.CHANGELOG_PRODUCER)
        full = producer is opt.ChangelogProducer.FULL_COMPACTION and level == task.max_level
        if full or self._strategy.produces_changelog:
            self._changelog = self._output(
                FileFactory(schema=changelog_schema(schema), file_io=file_io, level=level)
            )

    def _output(self, factory: FileFactory) -> RowOutput:
        output = RowOutput(factory, self._task.split.bucket_path, self._threads, write_records)
        self._outputs.append(output)
        return output

    def run(self) -> commit_message.WriteResult:
        task = self._task
        vectors = task.split.deletion_files or (None,) * len(task.split.data_files)
        marked = {
            file.file_name
            for file, vector in zip(task.split.data_files, vectors, strict=True)
            if vector is not None
        }
        options = self._context.schema.typed_options
        small_ratio = options.get(opt.COMPACTION_SMALL_FILE_RATIO)
        shape = UnitShape(
            output_level=task.output_level,
            max_level=task.max_level,
            min_file_size=int(self._factory.target_bytes * small_ratio),
            to_rewrite=marked,
            expired=task.expired_files,
            rewrites_files=task.rewrites_files,
            moves_files=not options.get(opt.COMPACTION_REWRITE_ALL_FILES),
        )
        sections = interval_partition(
            task.split.data_files, lambda file: comparable_range(file, self._context)
        )
        steps = compact_steps(sections, shape)
        for group in steps.rewrites:
            self._rewrite(group)
        for file in steps.upgrades:
            self._upgrade(file)
        changelog_files = () if self._changelog is None else self._changelog.finish()
        new_indexes, old_indexes = self._vectors.finish()
        increment = commit_message.CompactIncrement(
            compact_before=tuple(self._before),
            compact_after=tuple(self._after),
            changelog_files=changelog_files,
            new_index_files=new_indexes,
            deleted_index_files=old_indexes,
        )
        report = commit_message.WriteReport(
            rows_in=sum(file.row_count for file in self._before),
            rows_written=sum(file.row_count for file in self._after),
        )
        changes = increment != commit_message.CompactIncrement()
        messages = (_message(task.split, increment),) if changes else ()
        return commit_message.WriteResult(messages=messages, report=report)

    def _rewrite(self, group: Sequence[Section]) -> None:
        output = self._output(self._factory)
        files = [file for section in group for run in section for file in run]
        looked_up = self._strategy.is_needed and any(file.level == 0 for file in files)
        for section in group:
            plan = sectioning.plan_section(self._context, self._task, section, looked_up=looked_up)
            self._merge(plan, output)
        self._before += files
        self._after += output.finish()
        self._vectors.drop(file.file_name for file in files)

    def _upgrade(self, file: DataFileMeta) -> None:
        """Move a file to the output level, or rewrite it if its rows must change."""
        strategy, task = self._strategy, self._task
        looked_up = strategy.is_needed and file.level == 0
        plan = sectioning.plan_section(self._context, task, [[file]], looked_up=looked_up)
        has_deletes = strategy.deletion_vectors and file.delete_row_count != 0
        merges = bool(plan.above) and (strategy.first_stays or not plan.keys_only)
        if looked_up and (has_deletes or merges):
            self._rewrite([[[file]]])
            return
        on_top = task.output_level == task.max_level
        changes = self._changelog is not None and (looked_up or on_top)
        marks = looked_up and strategy.deletion_vectors and bool(plan.above)
        if changes or marks:
            self._merge(plan, None)
        self._before.append(file)
        self._after.append(file._replace(level=task.output_level))

    def _merge(self, plan: sectioning.SectionPlan, output: RowOutput | None) -> None:
        """Merge a section; without an output only for changelog and deletion vectors."""
        strategy, threads = self._strategy, self._threads
        lookup = None
        if plan.looked_up:
            lookup = sectioning.Lookup(
                plan=plan.merge, keys_only=plan.keys_only, drops_known=strategy.first_stays
            )
        logs = self._changelog is not None
        if strategy.produces_changelog:
            logs = plan.looked_up
        merge = sectioning.RangeMerge(
            plan=plan.merge,
            function=self._function,
            drops_deletes=self._task.drops_deletes,
            now_ms=self._task.now_ms,
            delete_retention_ms=self._task.delete_retention_ms,
            above_runs=len(plan.above_runs),
            lookup=lookup,
            changelog=self._changelog_rule() if logs else None,
            top_level=self._task.max_level,
        )
        pending: sectioning.Pending | None = None
        streams = plan.streams(self._file_io, threads)
        with closing(key_ranges(streams, plan.merge.keys, threads)) as ranges:
            for slices in ranges:
                following = merge.start(slices, threads)
                if pending is not None:
                    self._write(pending(), plan, output)
                pending = following
        if pending is not None:
            self._write(pending(), plan, output)

    def _changelog_rule(self) -> sectioning.ChangelogRule:
        schema, options = self._context.schema, self._context.schema.typed_options
        compared: tuple[int, ...] = ()
        if options.get(opt.CHANGELOG_ROW_DEDUPLICATE):
            ignored = options.get(opt.CHANGELOG_ROW_DEDUPLICATE_IGNORE)
            names = schema.field_names
            compared = tuple(n for n, name in enumerate(names) if name not in ignored)
        return sectioning.ChangelogRule(updates=not self._strategy.first_stays, compared=compared)

    def _write(
        self, merged: sectioning.MergedRange, plan: sectioning.SectionPlan, output: RowOutput | None
    ) -> None:
        names = self._context.schema.field_names
        for files, rows, columns in (
            (output, merged.rows, plan.merge.columns),
            (self._changelog, merged.changes, names),
        ):
            if files is not None and rows is not None and len(rows.numbers):
                files.write(rows.batch(columns))
        upper = merged.upper
        if upper is not None and self._strategy.deletion_vectors:
            for number, file in enumerate(plan.above):
                self._vectors.mark(file.file_name, upper.positions[upper.files == number])

    def abort(self) -> None:
        """Delete every file of this task; no commit names them yet."""
        for output in self._outputs:
            output.abort()
        paths = dict.fromkeys(path for each in self._outputs for path in each.factory.paths)
        delete_unfinished(self._file_io, [*paths, *self._vectors.paths], self._context.table)


def write_records(files: RollingFile, rows: pa.Table) -> None:
    """Append rows of `RecordRows.batch`."""
    numbers, kinds = (to_numpy(each.combine_chunks()) for each in rows.columns[-2:])
    files.write_records(rows.select(rows.column_names[:-2]), numbers, kinds)


def _compact_append(
    context: ReadContext, task: CompactTask, file_io: FileIO, threads: Threads
) -> commit_message.WriteResult:
    """Write the rows of a task's files, in their order, to new files."""
    schema, split = context.schema, task.split
    evolves = schema.typed_options.get(opt.DATA_EVOLUTION_ENABLED)
    factory = FileFactory(
        schema=schema,
        file_io=file_io,
        file_source=FileOrigin.COMPACT,
        write_cols=None if evolves else tracked_columns(schema),
    )
    vectors = BucketVectors(task, schema, file_io)
    try:
        if evolves:
            after = _join_files(context, task, factory, vectors, threads)
        else:
            after = _copy_file(context, task, factory, threads)
        vectors.drop(file.file_name for file in split.data_files)
        new_indexes, old_indexes = vectors.finish()
    except BaseException:
        delete_unfinished(file_io, [*factory.paths, *vectors.paths], context.table)
        raise
    increment = commit_message.CompactIncrement(
        compact_before=split.data_files,
        compact_after=after,
        new_index_files=new_indexes,
        deleted_index_files=old_indexes,
    )
    report = commit_message.WriteReport(
        rows_in=split.row_count, rows_written=sum(file.row_count for file in after)
    )
    return commit_message.WriteResult(messages=(_message(split, increment),), report=report)


def _copy_file(
    context: ReadContext, task: CompactTask, factory: FileFactory, threads: Threads
) -> tuple[DataFileMeta, ...]:
    split = task.split
    read = RecordRead(
        context=context,
        split=split,
        file_io=factory.file_io,
        names=context.schema.field_names,
        tracked=factory.write_cols is not None,
        threads=threads,
    )
    first_number = None if read.tracked else split.data_files[0].min_sequence_number
    with closing(read_ahead(read.rows(split.data_files), threads)) as batches:
        return write_stored(batches, factory, split.bucket_path, threads, first_number=first_number)


def _join_files(
    context: ReadContext,
    task: CompactTask,
    factory: FileFactory,
    vectors: BucketVectors,
    threads: Threads,
) -> tuple[DataFileMeta, ...]:
    """Join neighbouring ranges of row ids to files of all columns, which keep their ids.

    Rows that are marked as deleted are kept, and marked in the new file.
    """
    split = task.split
    factory.target_bytes = ONE_FILE
    marked = deleted_rows(split, factory.file_io)
    read = RecordRead(
        context=context,
        split=replace(split, deletion_files=None),
        file_io=factory.file_io,
        names=context.schema.field_names,
        threads=threads,
    )

    def rows(groups: Iterable[Sequence[DataFileMeta]]) -> Generator[pa.RecordBatch, None, None]:
        for group in groups:
            yield from read.range_rows(group)

    joined, left = [], iter(split.data_files)
    for count in task.joins:
        files = list(islice(left, count))
        groups = row_ranges(files)
        with closing(read_ahead(rows(groups), threads)) as batches:
            (file,) = write_stored(batches, factory, split.bucket_path, threads, first_number=None)
        first = groups[0][0].first_row_id or 0
        for group in groups:
            rows_before = (group[0].first_row_id or 0) - first
            vectors.mark(file.file_name, marked(group) + rows_before)
        joined.append(
            file._replace(
                first_row_id=first,
                min_sequence_number=min(each.min_sequence_number for each in files),
                max_sequence_number=max(each.max_sequence_number for each in files),
            )
        )
    return tuple(joined)
