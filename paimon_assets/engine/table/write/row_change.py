"""RowChangeBuilder: delete, update and merge rows of a table, in one snapshot, once.

    ┌─▶ newest snapshot ─▶ plan (manifests) ─▶ tasks on the executor ─▶ messages ─▶ commit
    │                                                                                │
    └────────────── files deleted, planned again ◀── the same rows have changed ◀────┘

A predicate over partition columns alone drops whole partitions by metadata.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.arrow_values import shown_rows
from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.contract import write_tasks
from paimon_assets.engine.contract.commit_message import CommitMessage, WriteReport, WriteResult
from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.contract.executor import Executor, TaskBatch, TaskRunner
from paimon_assets.engine.contract.merge_on import MergeOn
from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.control import row_change as planning
from paimon_assets.engine.control.commit.abort import deleted_on_definite_failure, discard
from paimon_assets.engine.control.commit.column_conflicts import columns_unchanged_since
from paimon_assets.engine.control.commit.file_store_commit import Condition
from paimon_assets.engine.control.commit.partition_filter import PartitionFilter
from paimon_assets.engine.control.commit.planned_on import PlannedOn
from paimon_assets.engine.control.commit.request import Attempts
from paimon_assets.engine.control.features import check_writable
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.managers.commit_history import NewUser
from paimon_assets.engine.control.write_planning import rewriting_schema, write_context
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import CommitConflictError, InvalidInputError
from paimon_assets.engine.spec.metadata.snapshot import CommitKind, Snapshot
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.schema.schema import TableSchema, with_tracking
from paimon_assets.engine.spec.types.literals import Literal
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.read.plan import as_predicate
from paimon_assets.engine.table.write.write_builder import CommitBuilder, WriteBuilder

Prepare = Callable[[], WriteContext]
"""Returns how rows are inserted now."""


class WhenMatched(StrEnum):
    """The action on a row that matches a source row."""

    UPDATE = "update"
    """It takes the source's values of all columns the source has."""
    DELETE = "delete"
    KEEP = "keep"


class MergeSource(Protocol):
    """Source rows of a merge; a row of the table matches one of them at most."""

    @property
    def on(self) -> MergeOn:
        """The columns that decide whether rows match."""

    @property
    def columns(self) -> Sequence[str]:
        """All columns of the source rows."""

    def predicate(self) -> pred.Predicate | None:
        """Return a bound predicate that every row passes which matches a source row.

        Raises:
            InvalidInputError: Kind `merge-duplicates` for source rows that are equal in the
                columns `on`, `merge-on` for values that do not fit them.
        """

    def change(
        self, change: write_tasks.RowChange, tasks: Sequence[write_tasks.RowChangeTask]
    ) -> Iterator[write_tasks.RowChangeResult]:
        """Run the tasks of a plan, and yield their results as they end.

        Args:
            change: Without source.
            tasks: All that may hold matches.
        """

    def insert(self, prepare: Prepare | None) -> WriteResult:
        """Write the source rows that matched nothing in the last `change`, if there was one.

        Args:
            prepare: None only counts them.

        Returns:
            `report.rows_in` counts them.
        """


class ArrowSource(Struct, kw_only=True):
    """A `MergeSource` in this process's memory; every task gets all of it."""

    on: MergeOn
    rows: pa.Table
    """With the columns `on` in the table's types."""
    insertable: pa.Table
    """The table's columns of the rows, as they were given."""
    executor: Executor[pa.Table]
    inserted_if: npt.NDArray[np.bool_] | None = None
    """Of each row, whether it may be inserted; None inserts all."""
    _matched: list[npt.NDArray[np.int64]] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        table: str,
        schema: TableSchema,
        rows: pa.Table,
        on: Sequence[str],
        executor: Executor[pa.Table],
    ) -> "ArrowSource":
        """Check source rows; raises as `MergeOn.of` and `MergeSource.predicate`."""
        checked = MergeOn.of(table, with_tracking(schema), on, rows.column_names)
        cast = checked.convert(rows)
        names = list(checked.names)
        keys = cast.select(names).drop_null()
        counts = keys.append_column("__rows", pa.repeat(pa.scalar(1), keys.num_rows))
        grouped: Any = counts.group_by(names).aggregate([("__rows", "sum")])
        double = grouped.filter(pc.field("__rows_sum") > 1)
        if double.num_rows:
            example = shown_rows(double.select(names).slice(0, 1))[0]
            raise duplicates(checked, double.num_rows, example)
        names = [name for name in rows.column_names if name in schema.by_name]
        return cls(on=checked, rows=cast, insertable=rows.select(names), executor=executor)

    @property
    def columns(self) -> Sequence[str]:
        """See `MergeSource`."""
        return self.rows.column_names

    def predicate(self) -> pred.Predicate | None:
        """See `MergeSource`."""
        return self.on.predicate(self.rows)

    def change(
        self, change: write_tasks.RowChange, tasks: Sequence[write_tasks.RowChangeTask]
    ) -> Iterator[write_tasks.RowChangeResult]:
        """See `MergeSource`."""
        self._matched = []
        shared = replace(change, source=write_tasks.dump_rows(self.rows), on=self.on.names)
        for result in run_row_change(self.executor, shared, tasks):
            self._matched.append(np.frombuffer(result.source_rows, dtype=np.int64))
            yield result

    def insert(self, prepare: Prepare | None) -> WriteResult:
        """See `MergeSource`."""
        alive = np.ones(self.insertable.num_rows, dtype=np.bool_)
        if self.inserted_if is not None:
            alive &= self.inserted_if
        for numbers in self._matched:
            alive[numbers] = False
        rows = self.insertable.filter(from_numpy(alive))
        counted = WriteReport(rows_in=rows.num_rows)
        if prepare is None or not rows.num_rows:
            return WriteResult(report=counted)
        return replace(self.executor.map_rows(prepare(), rows), report=counted)


def run_row_change(
    executor: TaskRunner, change: write_tasks.RowChange, tasks: Sequence[write_tasks.RowChangeTask]
) -> Iterator[write_tasks.RowChangeResult]:
    """Run tasks of a change on an executor, and yield their results as they end."""
    batch = TaskBatch(
        name=write_tasks.ROW_CHANGE_TASK,
        shared=dump(change),
        payloads=tuple(map(dump, tasks)),
        weights=tuple(task.input_bytes for task in tasks),
        file_io=change.read.file_io,
        subject=change.read.table,
    )
    for _, answer in executor.map_tasks(batch):
        yield load(write_tasks.RowChangeResult, answer)


def duplicates(on: MergeOn, count: int, example: Mapping[str, Any]) -> InvalidInputError:
    """Return the error for source rows that are equal in the columns `on`: so many keys."""
    message = (
        f"The rows to merge into table '{on.table}' hold {counted(count, 'key')} several times, "
        f"for example {example}; which of them counts is not known. Keep one of each."
    )
    return InvalidInputError(message, kind="merge-duplicates", table=on.table, keys=count)


READ_CHANGED = "read-changed"
"""Kind of the conflict of a condition: the table is not as the caller read it before."""
_FINAL = ("commit-retries", READ_CHANGED)
"""Kinds of the conflicts that planning again does not mend."""


def unchanged_since(store: FileStore, snapshot: Snapshot | None) -> Condition:
    """Return a commit condition that fails if rows changed since a snapshot was read.

    It raises a `CommitConflictError` of kind `READ_CHANGED`. Compactions change no row.
    """
    first = 0 if snapshot is None else snapshot.id

    def check(latest: Snapshot | None) -> None:
        last = 0 if latest is None else latest.id
        between = range(first + 1, last + 1)
        kinds = {store.snapshots.snapshot(number).commit_kind for number in between}
        if last < first or kinds - {CommitKind.COMPACT}:
            message = (
                f"Rows of table '{store.label}' were changed after they had been read; nothing was"
                " committed."
            )
            raise CommitConflictError(message, kind=READ_CHANGED, table=store.label)

    return check


class RowChangeOutcome(Value):
    """The outcome of a row change, made or planned."""

    snapshot: Snapshot | None
    """None if no row matched, or nothing was to be written."""
    rows_matched: int | None = None
    """None is unknown: partitions were dropped by metadata, and some of their files merge."""
    files_deleted: int = 0
    """Data files that went."""
    files_added: int = 0
    """Data files that came."""
    rows_written: int = 0
    """Rows in the files that came."""
    rows_inserted: int = 0
    """Source rows of a merge that became rows of the table."""
    plans: int = 1
    """How often it was planned."""
    was_already_committed: bool = False
    """This user and identifier had committed before: nothing was done now."""


class RowChangeBuilder(CommitBuilder):
    """A change of rows being described; every `with_` returns a new builder.

    >>> table.new_row_change_builder().delete("day < DATE '2024-01-01'")  # doctest: +SKIP
    """

    dry_run: bool = False

    def with_dry_run(self) -> "RowChangeBuilder":
        """Only count the rows that match."""
        return replace(self, dry_run=True)

    def delete(
        self, where: pred.Predicate | str | None, executor: TaskRunner | None = None
    ) -> RowChangeOutcome:
        """Delete the rows for which a predicate is true.

        Where reads of a primary-key table leave level 0 out, as with deletion vectors, this and
        `update` are seen after the next compaction.

        Args:
            where: A `Predicate`, or a text such as `price > 3 AND day IN ('2024-01-01')`; None
                deletes every row.
            executor: Reads and writes; this process by default.

        Raises:
            InvalidInputError: The predicate does not fit the table.
            UnsupportedFeatureError: The table does not take deletes; names the option. Or, of kind
                `segment-mixed-formats`, it has segments of another format; `Table.truncate` and
                overwrites take these, too.
            CommitConflictError: The same rows changed too often; nothing was committed.
            CommitUnknownError: The storage's answer was lost; run again as the same user with the
                same identifier, which finds the commit if it happened.
            NotFoundError: The table was dropped or renamed meanwhile.
        """
        newest = self._on_newest()
        if newest is not self:
            return newest.delete(where, executor)
        predicate = None if where is None else self._bind_where(where)
        done = self._find_committed()
        if done is not None:
            return done
        store = self.store
        check_writable(store.label, store.schema)
        drops = predicate is None or (
            pred.decided_by(predicate, store.schema.partition_keys)
            and bool(pred.fields_of(predicate))
        )
        if drops and not self.dry_run:
            return self._drop(predicate)
        planning.check_deletable(store)
        return self._run(predicate, None, executor)

    def update(
        self,
        assignments: Mapping[str, pred.Expression | Literal],
        where: pred.Predicate | str | None,
        executor: TaskRunner | None = None,
    ) -> RowChangeOutcome:
        """Give the rows for which a predicate is true new values.

        Args:
            assignments: Column → value, or an expression over the row as it is
                (`where.parse_expression`). Keys, partition, bucket and sequence columns stay.
            where: As in `delete`; None updates every row.
            executor: Reads and writes; this process by default.

        Raises:
            InvalidInputError: Columns or values do not fit the table.
            UnsupportedFeatureError: The table does not take updates; names the option.
            CommitConflictError, CommitUnknownError: As in `delete`.
        """
        if not assignments:
            raise InvalidInputError("An update needs a column to set.", kind="update-column")
        newest = self._on_newest()
        if newest is not self:
            return newest.update(assignments, where, executor)
        store = self.store
        predicate = None if where is None else self._bind_where(where)
        bound = pred.bind_assignments(assignments, store.schema)
        done = self._find_committed()
        if done is not None:
            return done
        check_writable(store.label, store.schema)
        planning.check_updatable(store, assignments)
        return self._run(predicate, bound, executor)

    def merge(
        self,
        rows: pa.Table,
        *,
        on: Sequence[str],
        when_matched: WhenMatched | Mapping[str, pred.Expression | Literal] = WhenMatched.UPDATE,
        inserts: bool = True,
        executor: Executor[pa.Table] | None = None,
    ) -> RowChangeOutcome:
        """Merge rows into the table: matching rows are updated or deleted, new ones inserted.

        Args:
            rows: The source, in this process's memory.
            on: Columns, of both sides, in which a row and a source row are equal if they match;
                of a primary-key table its primary key. Null equals nothing.
            when_matched: Action for rows that match; a mapping has columns and their new values,
                as for `update`, and may name the source's (`source.price`).
            inserts: Whether source rows without a match become rows of the table.
            executor: Reads and writes; this process by default.

        Raises:
            InvalidInputError: Source rows that are equal in `on` (kind `merge-duplicates`), or
                columns and values that do not fit the table.
            UnsupportedFeatureError: The table does not take such changes; names the option.
            CommitConflictError, CommitUnknownError: As in `delete`.

        Cost:
            The source is sent to every task.
        """
        runner = executor or EmbeddedExecutor()
        source = ArrowSource.of(self.store.label, self.store.schema, rows, on, runner)
        return self.merge_from(source, when_matched=when_matched, inserts=inserts)

    def merge_from(
        self,
        source: MergeSource,
        *,
        when_matched: WhenMatched | Mapping[str, pred.Expression | Literal] = WhenMatched.UPDATE,
        inserts: bool = True,
        deletes: str | None = None,
    ) -> RowChangeOutcome:
        """Merge like `merge`, rows that need not be in memory.

        Args:
            source: The rows.
            when_matched: As in `merge`.
            inserts: As in `merge`.
            deletes: A boolean column of the source: rows that match one where it is true are
                deleted, and the rest updated.

        Raises:
            As `merge`.
        """
        newest = self._on_newest()
        if newest is not self:
            return newest.merge_from(
                source, when_matched=when_matched, inserts=inserts, deletes=deletes
            )
        store, done = self.store, self._find_committed()
        if done is not None:
            return done
        check_writable(store.label, store.schema)
        if when_matched is WhenMatched.UPDATE:
            names = [name for name in source.columns if name in store.schema.by_name]
            when_matched = {n: pred.SourceValue(n) for n in names if n not in source.on.names}
        if isinstance(when_matched, WhenMatched):
            if when_matched is WhenMatched.DELETE:
                planning.check_deletable(store)
            keeps = when_matched is WhenMatched.KEEP
            return self._run(_Merge(source=source, keeps=keeps, inserts=inserts), None, None)
        bound = pred.bind_assignments(when_matched, store.schema, source.columns)
        planning.check_updatable(store, when_matched)
        if deletes is not None:
            planning.check_deletable(store)
        merge = _Merge(source=source, keeps=not bound, inserts=inserts, deletes=deletes)
        return self._run(merge, bound, None)

    def _on_newest(self) -> "RowChangeBuilder":
        """Return this change with the table's newest schema."""
        store = self.store.current()
        return self if store is self.store else replace(self, store=store)

    def _bind_where(self, where: pred.Predicate | str) -> pred.Predicate:
        return pred.bind(as_predicate(where), with_tracking(self.store.schema))

    def _find_committed(self) -> RowChangeOutcome | None:
        snapshot = None if self.dry_run else self.find_committed()
        if snapshot is None:
            return None
        return RowChangeOutcome(snapshot=snapshot, was_already_committed=True)

    def _run(
        self,
        chosen: "pred.Predicate | _Merge | None",
        assignments: tuple[pred.Assignment, ...] | None,
        executor: TaskRunner | None,
    ) -> RowChangeOutcome:
        builder = replace(self, commit_user=self.commit_user or NewUser())
        merge = chosen if isinstance(chosen, _Merge) else None
        new_run = partial(
            _Run,
            builder=builder,
            predicate=chosen.source.predicate() if isinstance(chosen, _Merge) else chosen,
            assignments=assignments,
            merge=merge,
            executor=executor or EmbeddedExecutor(),
        )
        attempts = Attempts(self.store.label, self.store.schema.typed_options)
        while True:
            try:
                return replace(new_run().outcome(), plans=attempts.count)
            except CommitConflictError as conflict:
                if conflict.kind in _FINAL:
                    raise
                attempts.wait(conflict)

    def _drop(self, predicate: pred.Predicate | None) -> RowChangeOutcome:
        """Drop the partitions a predicate over partition columns is true for; None drops all."""
        store = self.store
        latest = store.snapshots.latest()
        if latest is not None:
            planning.check_segments(store, latest, "delete")
        if latest is None or not PartitionFilter.where(store, predicate).live_files(latest):
            return RowChangeOutcome(snapshot=None, rows_matched=0)
        snapshot = self.overwrite_as(predicate=predicate)
        delta = list(store.manifests.delta(snapshot))
        return RowChangeOutcome(
            snapshot=snapshot,
            rows_matched=planning.dropped_rows(store, snapshot, delta),
            files_deleted=len(delta),
        )


class _Merge(Value):
    """The source of a change, and its actions."""

    source: MergeSource
    keeps: bool
    """Rows that match stay as they are."""
    inserts: bool
    deletes: str | None = None
    """The source's column that marks the rows to delete."""


class _Run(Struct, kw_only=True):
    """One try: a plan, its tasks and its commit."""

    builder: RowChangeBuilder
    predicate: pred.Predicate | None
    assignments: tuple[pred.Assignment, ...] | None
    merge: _Merge | None
    executor: TaskRunner
    messages: list[CommitMessage] = field(default_factory=list)
    rows_matched: int = 0
    rows_inserted: int = 0
    plan: planning.RowChangePlan | None = None

    def outcome(self) -> RowChangeOutcome:
        """Plan, change and commit; uncommitted files are deleted.

        Raises:
            CommitConflictError: The same rows changed meanwhile; kind `commit-retries` if other
                commits were only faster.
        """
        snapshot = self.builder.store.snapshots.latest()
        deletes = self.assignments is None and self.merge is None
        plan = None
        if snapshot is not None:
            plan = planning.plan_row_change(
                self.builder.store,
                snapshot,
                self.predicate,
                deletes=deletes,
                marks=self.assignments is None
                or (self.merge is not None and self.merge.deletes is not None),
            )
        try:
            if plan is not None:
                self._execute(plan)
            if self.merge is not None and self.merge.inserts:  # source rows that match nothing
                writing = WriteBuilder(store=self.builder.store)
                prepare = None if self.builder.dry_run else writing.prepare
                written = self.merge.source.insert(prepare)
                self.rows_inserted = written.report.rows_in
                self.messages += written.messages
        except BaseException:
            self._discard()
            raise
        with deleted_on_definite_failure(self._discard):
            committed = self._commit(snapshot)
        increments = [message.data_increment for message in self.messages]
        added = [file for increment in increments for file in increment.new_files]
        return RowChangeOutcome(
            snapshot=committed,
            rows_matched=self.rows_matched,
            rows_inserted=self.rows_inserted,
            files_deleted=sum(len(increment.deleted_files) for increment in increments),
            files_added=len(added),
            rows_written=sum(file.row_count for file in added),
        )

    def _execute(self, plan: planning.RowChangePlan) -> None:
        builder, merge = self.builder, self.merge
        self.plan, store = plan, builder.store
        self.rows_matched = plan.rows_dropped
        change = write_tasks.RowChange(
            read=plan.context,
            write=write_context(store, rewriting_schema(store.schema), plan.snapshot),
            assignments=self.assignments,
            marks=store.schema.typed_options.get(opt.DELETION_VECTORS_ENABLED),
            only_counts=builder.dry_run or (merge is not None and merge.keeps),
            deletes=None if merge is None else merge.deletes,
        )
        results = (
            run_row_change(self.executor, change, plan.tasks)
            if merge is None
            else merge.source.change(change, plan.tasks)
        )
        for result in results:
            self.rows_matched += result.rows_matched
            self.messages += result.result.messages
        if not builder.dry_run:
            self.messages += plan.dropped

    def _commit(self, planned_on: Snapshot | None) -> Snapshot | None:
        if not self.messages:
            return None
        builder = self.builder
        store = builder.store
        keyed = store.schema.has_primary_key
        condition, kind = None, CommitKind.APPEND
        if store.schema.typed_options.get(opt.DATA_EVOLUTION_ENABLED):
            condition = self._columns_unchanged(planned_on)
            if any(map(_deletes, self.messages)):
                kind = CommitKind.OVERWRITE
        elif not keyed:
            kind = CommitKind.OVERWRITE
        # Records of keys hold for the rows that were read, inserts for those that were not there.
        guard = PlannedOn(
            snapshot_id=0 if planned_on is None else planned_on.id, predicate=self.predicate
        )
        guarded = keyed or self.rows_inserted > 0
        planned = guard if guarded else None
        return builder.commit_as(kind, self.messages, planned_on=planned, condition=condition)

    def _columns_unchanged(self, planned_on: Snapshot | None) -> Condition | None:
        """Return the condition of a change of some columns; their inputs count, too."""
        increments = [message.data_increment for message in self.messages]
        files = [f for each in increments for f in (*each.new_files, *each.deleted_files)]
        indexes = [index for increment in increments for index in increment.new_index_files]
        marked = {
            vector.data_file_name for index in indexes for vector in index.deletion_vectors or ()
        }
        splits = [] if self.plan is None else [s for task in self.plan.tasks for s in task.splits]
        files += [f for split in splits for f in split.data_files if f.file_name in marked]
        written = [file for file in files if file.first_row_id is not None]
        if planned_on is None or not written:
            return None
        assignments = self.assignments or ()
        columns = {each.column for each in assignments} | pred.columns_of(assignments)
        columns |= pred.fields_of(self.predicate)
        columns |= set() if self.merge is None else set(self.merge.source.on.names)
        own = columns & set(self.builder.store.schema.field_names)
        return columns_unchanged_since(self.builder.store, planned_on, written, own)

    def _discard(self) -> None:
        discard(self.builder.store, self.messages, "a change")


def _deletes(message: CommitMessage) -> bool:
    increment = message.data_increment
    return bool(increment.deleted_files or increment.new_index_files)
