"""ColumnWriteBuilder: new values of some columns, made from the rows that there are.

┌─▶ newest snapshot ─▶ ranges of rows, perhaps only those behind
│      each: rows ─▶ function ─▶ columns ─▶ a file of them, beside the data ───┐
│                                                                               ▼
└── files deleted, planned again ◀── the rows changed meanwhile ◀──────── one commit
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct, field
from msgspec.structs import replace

from paimon_assets.columns.groups import ColumnGroups
from paimon_assets.columns.task import COLUMN_TASK, ColumnTask
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.contract.commit_message import CommitMessage, WriteReport, WriteResult
from paimon_assets.engine.contract.executor import Executor, TaskBatch
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.contract.write_tasks import dump_rows
from paimon_assets.engine.control.commit.abort import deleted_on_definite_failure, discard
from paimon_assets.engine.control.commit.column_conflicts import (
    COLUMNS_CHANGED,
    columns_unchanged_since,
)
from paimon_assets.engine.control.commit.file_store_commit import Condition
from paimon_assets.engine.control.commit.planned_on import WRITTEN_AGAIN
from paimon_assets.engine.control.commit.request import Attempts
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.managers.commit_history import NewUser
from paimon_assets.engine.control.write_planning import rewriting_schema, write_context
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import CommitConflictError, InvalidInputError
from paimon_assets.engine.spec.metadata.snapshot import CommitKind, Snapshot
from paimon_assets.engine.spec.options.all_options import WRITE_SHOW_VALUES
from paimon_assets.engine.spec.predicate.predicate import Predicate, bind
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.frames.frames import Frame, to_rows
from paimon_assets.engine.table.write.row_change import READ_CHANGED
from paimon_assets.engine.table.write.write_builder import CommitBuilder, WriteOutcome

_ROWS_AT_ONCE = 1_000_000
_PLANNED_AGAIN = {COLUMNS_CHANGED, READ_CHANGED, *WRITTEN_AGAIN}

Compute = Callable[[pa.Table], Frame]
"""Some rows, with the columns that are read → as many rows in their order, with the new columns."""


class RowsBehind(Value):
    """How many rows lack new values."""

    behind: int
    total: int
    by_partition: Mapping[str, "RowsBehind"] = field(default_factory=dict)
    """Partition, as `day=2024-01-01`, → its rows; empty if the table has no partitions."""

    @staticmethod
    def of(store: FileStore, counts: Mapping[bytes, Sequence[int]]) -> "RowsBehind":
        """Return the sum of partitions' rows: how many are behind, and how many there are."""
        parts = {}
        for partition, (behind, total) in counts.items() if store.schema.partition_keys else ():
            spec = store.partitions.spec(partition)
            name = "/".join(f"{column}={text}" for column, text in spec.items())
            parts[name] = RowsBehind(behind=behind, total=total)
        behind, total = (sum(count[at] for count in counts.values()) for at in (0, 1))
        return RowsBehind(behind=behind, total=total, by_partition=dict(sorted(parts.items())))


class ColumnWriteOutcome(WriteOutcome):
    """The outcome of a write of columns."""

    rows: RowsBehind = RowsBehind(behind=0, total=0)
    """As the write found them."""


class ColumnWriteBuilder(CommitBuilder):
    """A write of some columns being described; every `with_` returns a new builder."""

    columns: tuple[str, ...]
    reads: tuple[str, ...]
    predicate: Predicate | None = None
    only_behind: bool = True
    rows_at_once: int = _ROWS_AT_ONCE

    def with_partitions(self, predicate: Predicate) -> "ColumnWriteBuilder":
        """Write rows of some partitions only: those for which a predicate may be true."""
        return replace(self, predicate=predicate)

    def with_all_rows(self) -> "ColumnWriteBuilder":
        """Write all rows, not only ranges whose values are missing or older than their inputs."""
        return replace(self, only_behind=False)

    def with_rows_at_once(self, rows: int) -> "ColumnWriteBuilder":
        """Give the function about so many rows at a time; at least those of one file."""
        return replace(self, rows_at_once=rows)

    def rows_behind(self) -> RowsBehind:
        """Count rows.

        By metadata alone: all rows of a range count where one of them is behind.

        Raises:
            InvalidInputError, NotFoundError, UnsupportedFeatureError: As `write`.
        """
        snapshot = self.store.snapshots.latest()
        if snapshot is None:
            return RowsBehind(behind=0, total=0)
        return RowsBehind.of(self.store, self.groups(snapshot).counts())

    def write(self, compute: Compute, executor: Executor[Any] | None = None) -> ColumnWriteOutcome:
        """Write the columns that a function makes of rows, in one snapshot, once.

        Args:
            compute: Is given some rows at a time, and called again for the same rows if they
                change meanwhile.
            executor: Writes the files; this process by default, which reads in any case.

        Raises:
            InvalidInputError: Values do not fit the columns, or are not as many as the rows (kind
                `column-rows`); nothing was committed.
            NotFoundError: A column does not exist.
            UnsupportedFeatureError: The table type does not support column writes.
            CommitConflictError: The same columns changed too often; nothing was committed.
            CommitUnknownError: The storage's answer was lost; write again as the same user with the
                same identifier, which finds the commit if it happened.

        Cost:
            Reads the columns `reads` of the ranges that are written. Memory for about a million
            rows of both.
        """
        runner = executor or EmbeddedExecutor()
        return self.write_by(lambda named: _Run(builder=named, executor=runner).outcome(compute))

    def write_by(
        self, attempt: Callable[["ColumnWriteBuilder"], ColumnWriteOutcome]
    ) -> ColumnWriteOutcome:
        """Write by a function that makes one plan and commits it; see `write`."""
        committed = self.find_committed()
        if committed is not None:
            return ColumnWriteOutcome(
                snapshot=committed, report=WriteReport(), was_already_committed=True
            )
        named = replace(self, store=self.store.current(), commit_user=self.commit_user or NewUser())
        attempts = Attempts(self.store.label, self.store.schema.typed_options)
        while True:
            try:
                return attempt(named)
            except CommitConflictError as conflict:
                if conflict.kind not in _PLANNED_AGAIN:
                    raise
                attempts.wait(conflict)

    @property
    def names_read(self) -> list[str]:
        """The columns the function gets: one at least, for the number of rows."""
        return list(self.reads or self.store.schema.field_names[:1])

    def groups(self, snapshot: Snapshot) -> ColumnGroups:
        """Return the ranges of rows of a snapshot."""
        predicate = None if self.predicate is None else bind(self.predicate, self.store.schema)
        return ColumnGroups.of(
            self.store, snapshot, predicate, columns=self.columns, reads=self.reads
        )


class _Run(Struct, kw_only=True):
    """One plan, and its commit."""

    builder: ColumnWriteBuilder
    executor: Executor[Any]
    messages: list[CommitMessage] = field(default_factory=list)

    def outcome(self, compute: Compute) -> ColumnWriteOutcome:
        builder = self.builder
        store, snapshot = builder.store, builder.store.snapshots.latest()
        if snapshot is None:
            return ColumnWriteOutcome(snapshot=None, report=WriteReport())
        try:
            condition, counts = self._write_ranges(snapshot, compute)
        except BaseException:
            self._discard()
            raise
        rows = RowsBehind.of(store, counts)
        count = rows.behind if builder.only_behind else rows.total
        report = WriteReport(rows_in=count, rows_written=count)
        if not self.messages:
            return ColumnWriteOutcome(snapshot=None, report=report, rows=rows)
        with deleted_on_definite_failure(self._discard):
            committed = builder.commit_as(CommitKind.APPEND, self.messages, condition=condition)
        return ColumnWriteOutcome(snapshot=committed, report=report, rows=rows)

    def _write_ranges(
        self, snapshot: Snapshot, compute: Compute
    ) -> tuple[Condition, Mapping[bytes, Sequence[int]]]:
        builder = self.builder
        groups = builder.groups(snapshot)
        counts = groups.counts()
        if builder.only_behind:
            groups = groups.behind()
        for split in groups.splits(builder.rows_at_once):
            self.messages += self._write_groups(groups, split, compute)
        columns = {*builder.columns, *builder.reads}
        return columns_unchanged_since(builder.store, snapshot, groups.files, columns), counts

    def _write_groups(
        self, groups: ColumnGroups, split: DataSplit, compute: Compute
    ) -> Iterator[CommitMessage]:
        builder, store = self.builder, self.builder.store
        read = store.rewrite_context(file.schema_id for file in split.data_files)
        context = replace(read, columns=tuple(builder.names_read))
        batches = list(EmbeddedExecutor().map_splits(context, [split]))
        rows = pa.Table.from_batches(batches, schema=to_arrow_schema(context.fields))
        values = self._values(compute(rows), rows.num_rows)
        write = write_context(store, rewriting_schema(store.schema), groups.snapshot)
        batch = TaskBatch(
            name=COLUMN_TASK,
            shared=dump(write),
            payloads=(dump(ColumnTask(split=split, values=dump_rows(values))),),
            weights=(values.nbytes,),
            file_io=read.file_io,
            subject=store.label,
        )
        for _, answer in self.executor.map_tasks(batch):
            yield from load(WriteResult, answer).messages

    def _values(self, frame: Frame, count: int) -> pa.Table:
        """Return the new columns of a frame, a row for each that it was made from."""
        builder, schema = self.builder, self.builder.store.schema
        show = schema.typed_options.get(WRITE_SHOW_VALUES)
        made = to_rows(frame, EmbeddedExecutor(), schema, show_values=show)
        table = made.read_all() if isinstance(made, pa.RecordBatchReader) else made
        missing = [name for name in builder.columns if name not in table.column_names]
        unknown = [n for n in table.column_names if n not in (*builder.columns, *builder.reads)]
        if missing or unknown:
            raise InvalidInputError(
                f"Table '{builder.store.label}': the function returns the columns"
                f" {', '.join(table.column_names) or 'none'}, but is to return"
                f" {', '.join(builder.columns)}.",
                kind="input-columns",
                table=builder.store.label,
                column=[*missing, *unknown][0],
            )
        if table.num_rows != count:
            raise InvalidInputError(
                f"Table '{builder.store.label}': the function was given {counted(count, 'row')} and"
                f" returns {table.num_rows}. Return one for each, in their order.",
                kind="column-rows",
                table=builder.store.label,
                rows=table.num_rows,
                stored=count,
            )
        return table.select(list(builder.columns))

    def _discard(self) -> None:
        discard(self.builder.store, self.messages, "a write of columns")
