"""The task `compact`: a CompactTask in, a WriteResult out, both as bytes.

Without primary key, small files are copied one after the other into files of full size, without
rows that deletion vectors mark. With one:

    files of a bucket ─▶ sections ─▶ steps (lsm.compact_steps)
        rewrite    runs of each section, key range by key range ─▶ merged ─▶ files of the new level
        upgrade    the same file on the new level; read only if that gives changelog or deletions

Source: `org.apache.paimon.append.AppendCompactTask`, `BaseAppendFileStoreWrite.compactRewrite`,
`org.apache.paimon.mergetree.compact.MergeTreeCompactTask`, `MergeTreeCompactRewriter`,
`LookupMergeTreeCompactRewriter`, `FullChangelogMergeTreeCompactRewriter`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from paimon_assets.engine.contract.commit_message import (
    CommitMessage,
    CompactIncrement,
    WriteReport,
    WriteResult,
)
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.tasks.compact_task import CompactTask
from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.data.compact.output import RecordOutput, record_factory
from paimon_assets.engine.data.compact.range_merge import (
    ChangelogRule,
    Lookup,
    MergedRange,
    Pending,
    RangeMerge,
)
from paimon_assets.engine.data.compact.section_read import (
    RecordRead,
    SectionPlan,
    comparable_range,
    plan_section,
)
from paimon_assets.engine.data.compact.vectors import BucketVectors
from paimon_assets.engine.data.merge.function import merge_function_of
from paimon_assets.engine.data.merge.records import MergeFunction
from paimon_assets.engine.data.merge.run_cursor import read_ahead
from paimon_assets.engine.data.merge.sort_merge import key_ranges
from paimon_assets.engine.data.threads import Threads, Work
from paimon_assets.engine.data.write.files.rolling_file import Chunk, FileFactory, RollingFile
from paimon_assets.engine.data.write.unfinished import delete_unfinished
from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.lsm.compact_steps import Section, UnitShape, compact_steps
from paimon_assets.engine.lsm.interval_partition import interval_partition
from paimon_assets.engine.spec.merge.engine_traits import LookupStrategy
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, FileOrigin
from paimon_assets.engine.spec.options.all_options import CHANGELOG_PRODUCER, ChangelogProducer
from paimon_assets.engine.spec.options.compaction_options import (
    CHANGELOG_ROW_DEDUPLICATE,
    CHANGELOG_ROW_DEDUPLICATE_IGNORE,
    COMPACTION_REWRITE_ALL_FILES,
    COMPACTION_SMALL_FILE_RATIO,
)


def compact_keyed(
    context: ReadContext, task: CompactTask, file_io: FileIO, threads: Threads
) -> WriteResult:
    """Compact the files of a task."""
    work = _KeyedCompaction(context=context, task=task, file_io=file_io, threads=threads)
    try:
        return work.run()
    except BaseException:
        work.abort()
        raise


@dataclass(kw_only=True)
class _KeyedCompaction:
    context: ReadContext
    task: CompactTask
    file_io: FileIO
    threads: Threads
    _before: list[DataFileMeta] = field(default_factory=list)
    _after: list[DataFileMeta] = field(default_factory=list)
    _outputs: list[RecordOutput] = field(default_factory=list)

    @cached_property
    def strategy(self) -> LookupStrategy:
        return LookupStrategy.of(self.context.schema)

    @cached_property
    def function(self) -> MergeFunction:
        return merge_function_of(self.context.schema, self.context.table)

    @cached_property
    def factory(self) -> FileFactory:
        level = self.task.output_level
        return record_factory(self.context.schema, self.file_io, level=level)

    @cached_property
    def vectors(self) -> BucketVectors:
        return BucketVectors.of(self.task, self.context.schema, self.file_io)

    @cached_property
    def changelog(self) -> RecordOutput | None:
        """The changelog files, if this compaction writes them."""
        producer = self.context.schema.typed_options.get(CHANGELOG_PRODUCER)
        on_top = self.task.output_level == self.task.max_level
        full = producer is ChangelogProducer.FULL_COMPACTION and on_top
        if not full and not self.strategy.produces_changelog:
            return None
        level = self.task.output_level
        factory = record_factory(self.context.schema, self.file_io, level=level, is_changelog=True)
        return self._output(factory)

    @cached_property
    def changelog_rule(self) -> ChangelogRule:
        schema = self.context.schema
        options = schema.typed_options
        compared: tuple[int, ...] = ()
        if options.get(CHANGELOG_ROW_DEDUPLICATE):
            ignored = options.get(CHANGELOG_ROW_DEDUPLICATE_IGNORE)
            names = schema.field_names
            compared = tuple(n for n, name in enumerate(names) if name not in ignored)
        return ChangelogRule(updates=not self.strategy.first_stays, compared=compared)

    def run(self) -> WriteResult:
        task = self.task
        vectors = task.split.deletion_files or (None,) * len(task.split.data_files)
        marked = {
            file.file_name
            for file, vector in zip(task.split.data_files, vectors, strict=True)
            if vector is not None
        }
        options = self.context.schema.typed_options
        small_ratio = options.get(COMPACTION_SMALL_FILE_RATIO)
        shape = UnitShape(
            output_level=task.output_level,
            max_level=task.max_level,
            min_file_size=int(self.factory.target_bytes * small_ratio),
            to_rewrite=marked,
            expired=task.expired_files,
            rewrites_files=task.rewrites_files,
            moves_files=not options.get(COMPACTION_REWRITE_ALL_FILES),
        )
        sections = interval_partition(
            task.split.data_files, lambda file: comparable_range(file, self.context)
        )
        steps = compact_steps(sections, shape)
        for group in steps.rewrites:
            self._rewrite(group)
        for file in steps.upgrades:
            self._upgrade(file)
        return self._result()

    def _result(self) -> WriteResult:
        changelog_files = () if self.changelog is None else self.changelog.finish()
        new_indexes, old_indexes = self.vectors.finish()
        split = self.task.split
        increment = CompactIncrement(
            compact_before=tuple(self._before),
            compact_after=tuple(self._after),
            changelog_files=changelog_files,
            new_index_files=new_indexes,
            deleted_index_files=old_indexes,
        )
        message = CommitMessage(
            partition=split.partition,
            bucket=split.bucket,
            total_buckets=split.total_buckets,
            compact_increment=increment,
        )
        report = WriteReport(
            rows_in=sum(file.row_count for file in self._before),
            rows_written=sum(file.row_count for file in self._after),
        )
        changed = increment != CompactIncrement()
        return WriteResult(messages=(message,) if changed else (), report=report)

    def _rewrite(self, group: Sequence[Section]) -> None:
        """Write neighbouring sections into common files."""
        output = self._output(self.factory)
        files = [file for section in group for run in section for file in run]
        looked_up = self.strategy.is_needed and any(file.level == 0 for file in files)
        for section in group:
            self._merge(plan_section(self.context, self.task, section, looked_up=looked_up), output)
        self._before += files
        self._after += output.finish()
        self.vectors.drop(file.file_name for file in files)

    def _upgrade(self, file: DataFileMeta) -> None:
        """Move a file to the output level, or rewrite it if its rows must change."""
        looked_up = self.strategy.is_needed and file.level == 0
        plan = plan_section(self.context, self.task, [[file]], looked_up=looked_up)
        if looked_up and self._must_rewrite(file, plan):
            self._rewrite([[[file]]])
            return
        on_top = self.task.output_level == self.task.max_level
        changes = self.changelog is not None and (looked_up or on_top)
        marks = looked_up and self.strategy.deletion_vectors and bool(plan.above)
        if changes or marks:
            self._merge(plan, None)
        self._before.append(file)
        self._after.append(file._replace(level=self.task.output_level))

    def _must_rewrite(self, file: DataFileMeta, plan: SectionPlan) -> bool:
        if self.strategy.deletion_vectors and file.delete_row_count != 0:
            return True
        return bool(plan.above) and (self.strategy.first_stays or not plan.keys_only)

    def _merge(self, plan: SectionPlan, output: RecordOutput | None) -> None:
        """Merge a section; without an output only for changelog and deletion vectors."""
        merge = self._range_merge(plan)
        pending: Pending | None = None
        streams = plan.streams(self.file_io, self.threads)
        with closing(key_ranges(streams, plan.merge.keys, self.threads)) as ranges:
            for slices in ranges:
                following = merge.start(slices, self.threads)
                if pending is not None:
                    self._write(pending(), plan, output)
                pending = following
        if pending is not None:
            self._write(pending(), plan, output)

    def _write(self, merged: MergedRange, plan: SectionPlan, output: RecordOutput | None) -> None:
        if output is not None:
            output.write(merged.rows)
        if merged.changes is not None and self.changelog is not None:
            self.changelog.write(merged.changes)
        upper = merged.upper
        if upper is not None and self.strategy.deletion_vectors:
            for number, file in enumerate(plan.above):
                self.vectors.mark(file.file_name, upper.positions[upper.files == number])

    def _range_merge(self, plan: SectionPlan) -> RangeMerge:
        lookup = None
        if plan.looked_up:
            lookup = Lookup(
                plan=plan.merge, keys_only=plan.keys_only, drops_known=self.strategy.first_stays
            )
        changes = self.changelog is not None
        if self.strategy.produces_changelog:
            changes = plan.looked_up
        return RangeMerge(
            plan=plan.merge,
            function=self.function,
            drops_deletes=self.task.drops_deletes,
            above_runs=len(plan.above_runs),
            lookup=lookup,
            changelog=self.changelog_rule if changes else None,
            top_level=self.task.max_level,
        )

    def _output(self, factory: FileFactory) -> RecordOutput:
        output = RecordOutput(
            factory=factory, bucket_path=self.task.split.bucket_path, threads=self.threads
        )
        self._outputs.append(output)
        return output

    def abort(self) -> None:
        """Delete every file of this task; no commit names them yet."""
        for output in self._outputs:
            output.abort()
        paths = [path for output in self._outputs for path in output.factory.paths]
        delete_unfinished(
            self.file_io, [*dict.fromkeys(paths), *self.vectors.paths], self.context.table
        )


def compact_append(
    context: ReadContext, task: CompactTask, file_io: FileIO, threads: Threads
) -> WriteResult:
    """Write the rows of a task's files, in their order, to new files."""
    schema, split = context.schema, task.split
    factory = FileFactory(
        schema=schema, file_io=file_io, columns=schema.fields, file_source=FileOrigin.COMPACT
    )
    vectors = BucketVectors.of(task, schema, file_io)
    try:
        after = _copy_rows(context, task, factory, threads)
        vectors.drop(file.file_name for file in split.data_files)
        new_indexes, old_indexes = vectors.finish()
    except BaseException:
        delete_unfinished(file_io, [*factory.paths, *vectors.paths], context.table)
        raise
    message = CommitMessage(
        partition=split.partition,
        bucket=split.bucket,
        total_buckets=split.total_buckets,
        compact_increment=CompactIncrement(
            compact_before=split.data_files,
            compact_after=after,
            new_index_files=new_indexes,
            deleted_index_files=old_indexes,
        ),
    )
    report = WriteReport(
        rows_in=split.row_count, rows_written=sum(file.row_count for file in after)
    )
    return WriteResult(messages=(message,), report=report)


def _copy_rows(
    context: ReadContext, task: CompactTask, factory: FileFactory, threads: Threads
) -> tuple[DataFileMeta, ...]:
    split = task.split
    read = RecordRead(
        context=context,
        split=split,
        file_io=factory.file_io,
        names=context.schema.field_names,
        runs=1,
        threads=threads,
    )
    files = RollingFile(factory=factory, bucket_path=split.bucket_path)
    first_number = split.data_files[0].min_sequence_number
    encoding: Work[None] | None = None
    try:
        with closing(read_ahead(read.rows(split.data_files), threads)) as batches:
            for rows in _row_groups(batches, factory):
                if encoding is not None:
                    encoding.result()
                chunk = Chunk(
                    rows=pa.Table.from_arrays(rows.columns, schema=factory.arrow_schema),
                    min_sequence_number=first_number,
                    max_sequence_number=first_number + rows.num_rows - 1,
                    delete_rows=0,
                )
                first_number += rows.num_rows
                encoding = threads.submit(files.write, chunk)
        if encoding is not None:
            encoding.result()
        return files.finish()
    except BaseException:
        if encoding is not None:
            encoding.stop()
        with suppress(PaimonError, OSError, pa.ArrowException):  # the first error is raised
            files.abort()
        raise


def _row_groups(batches: Iterator[pa.RecordBatch], factory: FileFactory) -> Iterator[pa.Table]:
    """Collect batches to the rows that are encoded at once."""
    names = factory.schema.field_names
    buffered: list[pa.RecordBatch] = []
    rows, size = 0, 0
    for batch in batches:
        buffered.append(batch.select(list(names)))
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= factory.rows_at_once(rows, size):
            step = factory.rows_at_once(rows, size)
            table = pa.Table.from_batches(buffered)
            whole = rows - rows % step
            for start in range(0, whole, step):
                yield table.slice(start, step)
            rest = table.slice(whole)
            buffered = rest.to_batches()
            rows, size = rest.num_rows, rest.nbytes
    if rows:
        yield pa.Table.from_batches(buffered)


def compact(shared: bytes, payload: bytes, file_io: FileIO, threads: Threads) -> bytes:
    """Compact files of one bucket.

    Cost:
        Reads and writes the files once; memory for a few row groups of rows, whatever their size.
    """
    context, task = load(ReadContext, shared), load(CompactTask, payload)
    run = compact_keyed if context.schema.has_primary_key else compact_append
    return dump(run(context, task, file_io, threads))
