"""ColumnWriteBuilder: new values of some columns, made from the rows that there are.

┌─▶ newest snapshot ─▶ ranges of rows, perhaps only those behind
│      each: rows ─▶ function ─▶ columns ─▶ a file of them, beside the others ─┐
│                                                                               ▼
└── files deleted, planned again ◀── others changed what was read ◀────── one commit
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.contract.commit_message import CommitMessage, WriteReport, WriteResult
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.executor import TaskBatch, TaskRunner
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.contract.write_tasks import COLUMN_TASK, ColumnTask, dump_source
from paimon_assets.engine.control.column_groups import ColumnGroups
from paimon_assets.engine.control.commit.abort import deleted_on_definite_failure, discard
from paimon_assets.engine.control.commit.column_conflicts import (
    COLUMNS_CHANGED,
    columns_unchanged_since,
)
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.managers.commit_history import NewUser
from paimon_assets.engine.control.row_change import change_write_context
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import CommitConflictError, InvalidInputError
from paimon_assets.engine.spec.metadata.snapshot import COLUMNS_PROPERTY, CommitKind, Snapshot
from paimon_assets.engine.spec.options.all_options import WRITE_SHOW_VALUES
from paimon_assets.engine.spec.predicate.predicate import Predicate, bind
from paimon_assets.engine.table.frames.frames import Frame, to_rows
from paimon_assets.engine.table.write.write_builder import CommitBuilder, WriteOutcome

logger = logging.getLogger(__name__)

_ROWS_AT_ONCE = 1_000_000
_MOST_PLANS = 5

Compute = Callable[[pa.Table], Frame]
"""Some rows, with the columns that are read → as many rows in their order, with the new columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsBehind:
    """How many rows lack new values."""

    behind: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
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
        """Write all rows, not only ranges whose values are missing or older than what is read."""
        return replace(self, only_behind=False)

    def with_rows_at_once(self, rows: int) -> "ColumnWriteBuilder":
        """Give the function about so many rows at a time; at least those of one file."""
        return replace(self, rows_at_once=rows)

    def rows_behind(self) -> RowsBehind:
        """Count rows, by metadata alone; of a range with a row that is behind all rows count.

        Raises:
            InvalidInputError, NotFoundError, UnsupportedFeatureError: As `write`.
        """
        snapshot = self.store.newest()
        if snapshot is None:
            return RowsBehind(behind=0, total=0)
        groups = self._groups(snapshot)
        return RowsBehind(behind=groups.behind().row_count, total=groups.row_count)

    def write(self, compute: Compute, executor: TaskRunner | None = None) -> WriteOutcome:
        """Write the columns that a function makes of rows, in one snapshot, once.

        Args:
            compute: Is given some rows at a time, and called again for the same rows if others
                change what it read.
            executor: Writes the files; this process by default, which reads in any case.

        Raises:
            InvalidInputError: Values do not fit the columns, or are not as many as the rows (kind
                `column-rows`); nothing was committed.
            NotFoundError: A column does not exist.
            UnsupportedFeatureError: The table has no files of some columns alone; says the way out.
            CommitConflictError: Others changed the same columns too often; nothing was committed.
            CommitUnknownError: The storage's answer was lost; write again as the same user with the
                same identifier, which finds the commit if it happened.

        Cost:
            Reads the columns `reads` of the ranges that are written. Memory for about a million
            rows of both.
        """
        committed = self.find_committed()
        if committed is not None:
            return WriteOutcome(
                snapshot=committed, report=WriteReport(), was_already_committed=True
            )
        named = replace(self, store=self.store.current(), commit_user=self.commit_user or NewUser())
        for number in range(1, _MOST_PLANS + 1):
            try:
                return _Run(builder=named, executor=executor or EmbeddedExecutor()).outcome(compute)
            except CommitConflictError as conflict:
                if conflict.kind != COLUMNS_CHANGED or number == _MOST_PLANS:
                    raise
                logger.warning("table %s: written again, %s", self.store.label, conflict.message)
        raise AssertionError("the last plan returns or raises")

    def _groups(self, snapshot: Snapshot) -> ColumnGroups:
        predicate = None if self.predicate is None else bind(self.predicate, self.store.schema)
        return ColumnGroups.of(
            self.store, snapshot, predicate, columns=self.columns, reads=self.reads
        )


@dataclass(kw_only=True)
class _Run:
    """One plan, and its commit."""

    builder: ColumnWriteBuilder
    executor: TaskRunner
    messages: list[CommitMessage] = field(init=False, default_factory=list)

    def outcome(self, compute: Compute) -> WriteOutcome:
        builder = self.builder
        snapshot = builder.store.newest()
        if snapshot is None:
            return WriteOutcome(snapshot=None, report=WriteReport())
        groups = builder._groups(snapshot)  # noqa: SLF001 - of this module
        if builder.only_behind:
            groups = groups.behind()
        try:
            for split in groups.splits(builder.rows_at_once):
                self.messages += self._written(groups, split, compute)
        except BaseException:
            self._discard()
            raise
        report = WriteReport(rows_in=groups.row_count, rows_written=groups.row_count)
        if not self.messages:
            return WriteOutcome(snapshot=None, report=report)
        unchanged = columns_unchanged_since(
            builder.store, snapshot, groups.files, {*builder.columns, *builder.reads}
        )
        with deleted_on_definite_failure(self._discard):
            committed = FileStoreCommit(builder.store, condition=unchanged).commit(
                self.messages,
                commit_user=builder.commit_user or "",
                commit_identifier=builder.commit_identifier,
                kind=CommitKind.APPEND,
                properties={**builder.properties, COLUMNS_PROPERTY: ",".join(builder.columns)},
            )
        return WriteOutcome(snapshot=committed, report=report)

    def _written(
        self, groups: ColumnGroups, split: DataSplit, compute: Compute
    ) -> Iterator[CommitMessage]:
        builder, store = self.builder, self.builder.store
        read = store.rewrite_context(file.schema_id for file in split.data_files)
        names = builder.reads or (store.schema.field_names[0],)
        rows = _rows(replace(read, columns=names), split)
        values = self._values(compute(rows), rows.num_rows)
        batch = TaskBatch(
            name=COLUMN_TASK,
            shared=dump(change_write_context(store, groups.snapshot)),
            payloads=(dump(ColumnTask(split=split, values=dump_source(values))),),
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
        found = to_rows(frame, EmbeddedExecutor(), schema, show_values=show)
        table = found.read_all() if isinstance(found, pa.RecordBatchReader) else found
        missing = [name for name in builder.columns if name not in table.column_names]
        others = [n for n in table.column_names if n not in (*builder.columns, *builder.reads)]
        if missing or others:
            raise InvalidInputError(
                f"Table '{builder.store.label}': the function returns the columns"
                f" {', '.join(table.column_names) or 'none'}, but is to return"
                f" {', '.join(builder.columns)}.",
                kind="input-columns",
                details={"table": builder.store.label, "column": [*missing, *others][0]},
            )
        if table.num_rows != count:
            raise InvalidInputError(
                f"Table '{builder.store.label}': the function was given {count} rows and returns"
                f" {table.num_rows}. Return one for each, in their order.",
                kind="column-rows",
                details={"table": builder.store.label, "rows": table.num_rows, "stored": count},
            )
        return table.select(list(builder.columns))

    def _discard(self) -> None:
        discard(self.builder.store, self.messages, "a write of columns")


def _rows(context: ReadContext, split: DataSplit) -> pa.Table:
    batches = list(EmbeddedExecutor().map_splits(context, [split]))
    return pa.Table.from_batches(batches, schema=to_arrow_schema(context.fields))
