"""Table: one Paimon table. Light to import: each method imports its implementation."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from paimon_assets.engine.add_ons import add_ons_of, load_column_writes
from paimon_assets.engine.control.publishing import after
from paimon_assets.engine.errors import AlreadyExistsError, InvalidInputError
from paimon_assets.engine.spec.evolution.schema_change import OnOverflow
from paimon_assets.engine.spec.options.all_options import BRANCH
from paimon_assets.engine.table.table_state import TableState, Tags

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from paimon_assets.engine.contract.executor import Executor, RewritingExecutor, TaskRunner
    from paimon_assets.engine.control.commit.partition_filter import PartitionSpec
    from paimon_assets.engine.control.file_store import FileStore
    from paimon_assets.engine.control.managers.branch_manager import BranchManager
    from paimon_assets.engine.control.managers.tag_manager import ConsumerManager
    from paimon_assets.engine.control.rollback import Rollback
    from paimon_assets.engine.spec.evolution.schema_change import SchemaChange
    from paimon_assets.engine.spec.metadata.snapshot import Snapshot
    from paimon_assets.engine.spec.predicate.predicate import Predicate
    from paimon_assets.engine.spec.schema.schema import TableSchema
    from paimon_assets.engine.table.frames.frames import Frame
    from paimon_assets.engine.table.read.plan import Columns, Where
    from paimon_assets.engine.table.read.read_builder import ReadBuilder
    from paimon_assets.engine.table.schema_changes import ExecutorChoice, SchemaChangePlan
    from paimon_assets.engine.table.segments.segments import Segments
    from paimon_assets.engine.table.system.system_table import SystemTable
    from paimon_assets.engine.table.upkeep.compaction import CompactionBuilder, CompactionOutcome
    from paimon_assets.engine.table.upkeep.maintenance import AnalyzeOutcome, Maintenance
    from paimon_assets.engine.table.write.row_change import RowChangeBuilder, RowChangeOutcome
    from paimon_assets.engine.table.write.write_builder import WriteBuilder, WriteOutcome


class Table:
    """One table, opened with its newest schema.

    >>> _ = table.upsert(pa.table({"id": [2], "n": [7]}))
    >>> table.to_arrow(where="id > 1").to_pylist()
    [{'id': 2, 'n': 7}]

    `to_arrow`, `scan`, `append`, `upsert`, `overwrite`, `delete`, `compact` and `count` do the
    usual in one call; the builders (`new_read_builder`, …) have all choices.

    Methods that read or write may also raise `StorageError`, if the storage failed, and
    `FormatError`, if a file is damaged.
    """

    def __init__(self, store: FileStore, *, preview: str = "") -> None:
        self._store = store
        self._preview = preview

    @property
    def _changing(self) -> FileStore:
        """The store that takes changes; with `preview` a branch of main's newest snapshot."""
        store, branch, tag = self._store, self._preview, None
        if branch:
            newest = store.snapshots.latest()
            with suppress(AlreadyExistsError):  # another process was faster
                if newest is not None and not store.branches.exists(branch):
                    tag = store.tags.create(preview_tag(branch), newest, ignore_if_exists=True).name
                store.branches.create(branch, tag=tag, ignore_if_exists=True)
            self._store, self._preview = store.with_options({BRANCH.key: branch}), ""
        return self._store

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}: {self.schema!r})"

    @property
    def name(self) -> str:
        """`database.table`, or the path of a bare directory."""
        return self._store.label

    @property
    def path(self) -> str:
        """The table's directory."""
        return self._store.table_path

    @property
    def schema(self) -> TableSchema:
        """The newest schema when the table was opened."""
        return self._store.schema

    def latest_snapshot(self) -> Snapshot | None:
        """Return the newest snapshot, None if nothing was committed yet."""
        return self._store.snapshots.latest()

    def snapshot(self, snapshot_id: int | None) -> Snapshot | None:
        """Return one snapshot; the newest for None."""
        if snapshot_id is None:
            return self.latest_snapshot()
        return self._store.snapshots.snapshot(snapshot_id)

    def snapshots(self) -> list[Snapshot]:
        """Return all snapshots that have not expired, oldest first. Cost: reads each."""
        return list(self._store.snapshots.all())

    def schemas(self) -> list[TableSchema]:
        """Return all schemas, oldest first."""
        return [self._store.schemas.schema(number) for number in self._store.schemas.list_ids()]

    @property
    def state(self) -> TableState:
        """Its files, sizes and bookkeeping; not part of the public API."""
        return TableState(self._store)

    @property
    def tags(self) -> Tags:
        """The tags: names that keep snapshots from expiring."""
        return Tags(self._changing)

    def history(self) -> pa.Table:
        """Return the snapshots that have not expired, newest last: the system table `snapshots`."""
        return self.system_table("snapshots").to_arrow()

    def refresh(self) -> Self:
        """Load the newest schema into this table, and return it; dynamic options stay.

        Raises:
            NotFoundError: The table or the branch was dropped, or renamed.
        """
        self._store = self._store.reopen()
        return self

    def scan(
        self, columns: Columns = None, where: Where | None = None, *, limit: int | None = None
    ) -> ReadBuilder:
        """Describe a read; `to_arrow`, `to_batches`, `to_polars`, `count`, … run it.

        Args:
            columns: Names; all of the table by default.
            where: Rows to return, such as `price > 3 AND dt = '2024-01-01'`; all by default.
            limit: At most so many rows.

        Raises:
            InvalidInputError: `where` does not parse.
        """
        return self.new_read_builder().with_columns(columns).with_filter(where).with_limit(limit)

    def to_arrow(
        self, columns: Columns = None, where: Where | None = None, *, limit: int | None = None
    ) -> pa.Table:
        """Read into memory; arguments as `scan`, errors as `ReadBuilder.plan` and `read`."""
        return self.scan(columns, where, limit=limit).to_arrow()

    def to_pandas(
        self, columns: Columns = None, where: Where | None = None, *, limit: int | None = None
    ) -> Any:
        """Read into a pandas DataFrame; arguments and errors as `to_arrow`."""
        return self.scan(columns, where, limit=limit).to_pandas()

    def to_polars(
        self, columns: Columns = None, where: Where | None = None, *, limit: int | None = None
    ) -> Any:
        """Read into a polars DataFrame; arguments and errors as `to_arrow`."""
        return self.scan(columns, where, limit=limit).to_polars()

    def count(self, where: Where | None = None) -> int:
        """Return the number of rows; from metadata alone where nothing is merged or filtered."""
        return self.scan(where=where).count()

    def append(self, rows: Frame, executor: Executor[Any] | None = None) -> WriteOutcome:
        """Add rows to a table without a primary key, as one snapshot.

        Args:
            rows: Of pyarrow, pandas, polars or duckdb, or anything with `__arrow_c_stream__`.
            executor: Writes; this process by default.

        Raises:
            InvalidInputError: The table has a primary key (kind `primary-key`).
            PaimonError: As `WriteBuilder.write`.
        """
        if self.schema.primary_keys:
            message = (
                f"Table '{self.name}' has a primary key ({', '.join(self.schema.primary_keys)});"
                " rows of keys that exist take their place. Use upsert."
            )
            raise InvalidInputError(message, kind="primary-key", table=self.name)
        return self.new_write_builder().write(rows, executor)

    def upsert(
        self, rows: Frame, *, on: Sequence[str] | None = None, executor: Executor[Any] | None = None
    ) -> WriteOutcome | RowChangeOutcome:
        """Update the rows that exist and insert the rest, as one snapshot.

        Args:
            rows: As `append`.
            on: Columns by which rows are the same; the primary key by default.
            executor: Writes; this process by default.

        Raises:
            InvalidInputError: Neither `on` nor a primary key (kind `primary-key`).
            PaimonError: As `WriteBuilder.write`; with `on`, as `RowChangeBuilder.merge`.

        Cost:
            By primary key a write, without a look at the table; with `on`, its columns are read.
        """
        if on is not None:
            return self.new_row_change_builder().merge(rows, on=on, executor=executor)
        if not self.schema.primary_keys:
            message = (
                f"Table '{self.name}' has no primary key; say by which columns rows are the same:"
                " upsert(rows, on=['id'])."
            )
            raise InvalidInputError(message, kind="primary-key", table=self.name)
        return self.new_write_builder().write(rows, executor)

    def overwrite(
        self,
        rows: Frame,
        partition: PartitionSpec | None = None,
        executor: Executor[Any] | None = None,
    ) -> WriteOutcome:
        """Replace partitions by rows, as one snapshot.

        Args:
            rows: As `append`.
            partition: As `WriteBuilder.with_overwrite`: by default the partitions that the rows lie
                in, of a table without partitions all rows; `{}` means the whole table.
            executor: Writes; this process by default.

        Raises:
            PaimonError: As `WriteBuilder.with_overwrite` and `write`.
        """
        return self.new_write_builder().with_overwrite(partition).write(rows, executor)

    def delete(
        self, where: Predicate | str | None, executor: TaskRunner | None = None
    ) -> RowChangeOutcome:
        """Delete rows, as one snapshot; arguments and errors as `RowChangeBuilder.delete`."""
        return self.new_row_change_builder().delete(where, executor)

    def compact(
        self, *, full: bool = False, executor: TaskRunner | None = None
    ) -> CompactionOutcome:
        """Compact due files, or with `full` everything; errors as `CompactionBuilder.run`."""
        builder = self.new_compaction_builder()
        return (builder.with_strategy("full") if full else builder).run(executor)

    def new_read_builder(self) -> ReadBuilder:
        """Begin to describe a read."""
        from paimon_assets.engine.table.read.read_builder import ReadBuilder

        return ReadBuilder(store=self._store)

    def new_write_builder(self) -> WriteBuilder:
        """Begin to describe a write."""
        from paimon_assets.engine.table.write.write_builder import WriteBuilder

        return WriteBuilder(store=self._changing)

    def new_compaction_builder(self) -> CompactionBuilder:
        """Begin to describe a compaction."""
        from paimon_assets.engine.table.upkeep.compaction import CompactionBuilder

        return CompactionBuilder(store=self._changing)

    def new_row_change_builder(self) -> RowChangeBuilder:
        """Begin to describe a deletion or an update of rows."""
        from paimon_assets.engine.table.write.row_change import RowChangeBuilder

        return RowChangeBuilder(store=self._changing)

    def new_column_write_builder(self, columns: Sequence[str], *, reads: Sequence[str] = ()) -> Any:
        """Begin to describe a write of some columns of a data-evolution table.

        Args:
            columns: Columns to write.
            reads: Columns from which they are made.

        Returns:
            A `paimon_assets.columns.write.ColumnWriteBuilder`.
        """
        builder = load_column_writes().ColumnWriteBuilder
        return builder(store=self._changing, columns=tuple(columns), reads=tuple(reads))

    def maintenance(self) -> Maintenance:
        """Return the upkeep of the table: expiring and cleaning."""
        from paimon_assets.engine.table.upkeep.maintenance import Maintenance

        return Maintenance(store=self._changing)

    def analyze(
        self,
        *,
        columns: Columns = None,
        executor: TaskRunner | None = None,
        commit_user: str | None = None,
    ) -> AnalyzeOutcome:
        """Compute and commit statistics of the rows, as a reader sees them.

        Statistics of the newest data are not computed again.

        Args:
            columns: To sum up; all by default. Rows are counted in any case.
            executor: Reads; this process by default.
            commit_user: Analyzing again under one name finds the first time.

        Raises:
            NotFoundError: There is no such column.
            CommitConflictError: The schema changed meanwhile (kind `schema-changed`), or other
                writers were faster too often.
            CommitUnknownError: It may have been committed.
            UnsupportedFeatureError: The table is not one this engine writes.

        Cost:
            One read of the columns; memory of a task is that of a merge and 4096 hashes a column.
        """
        from paimon_assets.engine.table.upkeep.maintenance import analyze

        return analyze(self._changing, columns=columns, executor=executor, commit_user=commit_user)

    def alter(self, changes: Sequence[SchemaChange | Mapping[str, Any]]) -> Table:
        """Change the schema, all changes or none, and return the table as it is then.

        Stored values are not looked at; see `plan_alter` and `alter_checked`. Readers opened
        before go on with the schema they were opened with; so do writers, where the newest one
        shows their values unchanged, and else they plan by the newest.

        Args:
            changes: In the order to apply them; see `spec.evolution.schema_change`. Or their JSON,
                as the job and the REST catalog take it: `{"action": "dropColumn", ...}`.

        Raises:
            InvalidInputError: A change is refused; nothing was changed.
            UnsupportedFeatureError: Nothing here could read the table then; nothing was changed.
            CommitConflictError: Other writers changed the schema too often meanwhile.
            NotFoundError: The table was dropped or renamed.
            CommitUnknownError: The storage's answer was lost; look at the newest schema first. Kind
                `done-but-unread`: it is changed, only the new schema cannot be read.
        """
        from paimon_assets.engine.codec.rest.structure import changes_of
        from paimon_assets.engine.table.schema_changes import evolve

        made = changes_of(changes)
        new = evolve(self._changing, made)
        self._changing.schemas.commit_changes(made, time_millis=new.time_millis)
        with after("changed", self._changing.label):
            return Table(_follow_branch(self._changing.reopen()))

    def enable_row_ids(self, *, data_evolution: bool = False) -> Table:
        """Give the rows of an append table that exists ids, and return the table as it is then.

        By metadata alone: a snapshot of new manifests and the same files, then the options
        `row-tracking.enabled` and, if asked, `data-evolution.enabled`. Older snapshots and tags
        stay as they are. If it ends on the way, the table is as before, or concurrently written
        rows have no ids: call it again. Writers of other engines are to open the table again.

        Raises:
            InvalidInputError: The table cannot have row ids: it has a primary key or buckets.
            UnsupportedFeatureError: It is in a REST catalog, or has files of segments; or files
                store ids themselves, and data evolution is asked for.
            CommitConflictError, CommitUnknownError, NotFoundError: As `alter`.

        Cost:
            The entries of all live files are in memory, and written again.
        """
        from paimon_assets.engine.table.upkeep.row_ids import enable_row_ids

        return Table(enable_row_ids(self._changing, data_evolution=data_evolution))

    def plan_alter(
        self,
        changes: Sequence[SchemaChange | Mapping[str, Any]],
        *,
        where: Predicate | None = None,
        executor: ExecutorChoice = None,
    ) -> SchemaChangePlan:
        """Return the effect of `alter`, and the stored values it would lose; changes nothing.

        With `where`, only files that may hold rows that pass are judged.

        Raises:
            InvalidInputError: A change is refused.
            NotFoundError: The table was dropped or renamed.
        """
        from paimon_assets.engine.table.schema_changes import plan_schema_changes

        return plan_schema_changes(self._store, changes, where=where, executor=executor)

    def alter_checked(
        self,
        changes: Sequence[SchemaChange | Mapping[str, Any]],
        *,
        on_overflow: OnOverflow = OnOverflow.REFUSE,
        executor: ExecutorChoice = None,
        judged: Callable[[SchemaChangePlan], None] | None = None,
    ) -> SchemaChangePlan:
        """Change the schema, unless stored values would be lost; return the change.

        `judged` is called with the plan, before it is refused or made.

        Raises:
            InvalidInputError: A change is refused, or loses values (kind `schema-overflow`).
            CommitConflictError: Other writers were faster too often.
            NotFoundError: The table was dropped or renamed.
            CommitUnknownError: The storage's answer was lost; look at the newest schema first.
        """
        from paimon_assets.engine.table.schema_changes import change_schema

        return change_schema(
            self._changing, changes, on_overflow=on_overflow, executor=executor, judged=judged
        )

    def truncate(self) -> Snapshot:
        """Empty the table in one snapshot; older snapshots keep their rows until they expire.

        Raises:
            CommitConflictError: Other writers were faster too often; nothing was committed.
            CommitUnknownError: It may have been committed.
            NotFoundError: The table was dropped or renamed.
            UnsupportedFeatureError: The table is not one this engine writes.
        """
        from paimon_assets.engine.table.write.write_builder import empty

        return empty(self._changing)

    def drop_partitions(self, specs: Sequence[PartitionSpec]) -> Snapshot:
        """Empty the partitions that match one of some specs, in one snapshot.

        A spec maps partition columns, perhaps not all, to values; None is null.

        Raises:
            InvalidInputError: No spec, an empty one, or one that does not fit the partition keys.
            CommitConflictError, CommitUnknownError, UnsupportedFeatureError: As `truncate`.
        """
        from paimon_assets.engine.table.write.write_builder import drop_partitions

        return drop_partitions(self._changing, specs)

    def segments(self, *, roots: Sequence[str] | None = None) -> Segments:
        """Return the table's segments: external files that it reads in place, and own loads.

        Args:
            roots: Folders that files may be taken from; any that a command names by default.

        Raises:
            InvalidInputError: A folder of `roots` is blank.
        """
        from paimon_assets.engine.control.segments import SegmentRoots
        from paimon_assets.engine.table.segments.segments import Segments

        allowed = None if roots is None else SegmentRoots.of(roots)
        return Segments(store=self._changing, roots=allowed)

    def copy(self, options: Mapping[str, str]) -> Table:
        """Return the table with further dynamic options, such as time travel; see `branch`.

        Raises:
            NotFoundError: The options name a branch that does not exist.
        """
        preview = "" if BRANCH.key in options else self._preview
        return Table(self._store.with_options(options), preview=preview)

    def at_branch(self, name: str) -> Table:
        """Return a branch of the table, to read and to write.

        Raises:
            NotFoundError: There is no such branch.
        """
        return self.copy({BRANCH.key: name})

    def system_table(self, kind: str) -> SystemTable:
        """Return a system table of the table, such as `files` or `audit_log`.

        Raises:
            NotFoundError: There is no such system table.
        """
        from paimon_assets.engine.table.system.system_table import SystemTable

        return SystemTable.of(self._store, kind)

    @property
    def branches(self) -> BranchManager:
        """Branches made from this one."""
        branches = self._store.branches
        branches.after_forward = self._follow_branch
        return branches

    def _follow_branch(self) -> None:
        from paimon_assets.engine.control.listeners import follow_change

        with after("made equal to its branch", self._store.label):
            follow_change(self._store.reopen())

    @property
    def consumers(self) -> ConsumerManager:
        """How far readers have come (`ReadBuilder.with_consumer`)."""
        return self._changing.consumers

    def rollback_to(self, target: int | str) -> Rollback:
        """Undo everything after a snapshot; the files of undone snapshots stay as orphans.

        Args:
            target: Id of a snapshot, or name of a tag.

        Raises:
            NotFoundError: No such snapshot or tag; nothing was changed.
            CommitUnknownError: The table was renamed or dropped meanwhile.
        """
        from paimon_assets.engine.control.rollback import rollback_to_snapshot, rollback_to_tag

        if isinstance(target, int):
            return rollback_to_snapshot(self._changing, target)
        return rollback_to_tag(self._changing, target)

    def rollback_schema(self, schema_id: int) -> Table:
        """Undo the schemas after one, and return the table as it is then. Stop writers first.

        Raises:
            NotFoundError: There is no such schema; nothing was changed.
            InvalidInputError: A snapshot, tag or changelog needs a later one (kind
                `rollback-schema`); nothing was changed.
            CommitUnknownError: No answer came; or kind `done-but-unread`, as for `alter`.
        """
        from paimon_assets.engine.control.rollback import rollback_schema

        _ = self._changing.dynamic_options  # known from the schema that may go
        rollback_schema(self._changing, schema_id)
        with after("changed", self._changing.label):
            return Table(self._changing.reopen())

    def rescale(
        self,
        executor: RewritingExecutor,
        *,
        buckets: int | None = None,
        partition: PartitionSpec | None = None,
        commit_user: str | None = None,
    ) -> Snapshot | None:
        """Give partitions another bucket count, in one snapshot.

        Args:
            executor: Reads and writes.
            buckets: The new count; the table's `bucket` by default. Our writers respect the count
                of each partition, and take the table's for new ones; Java's refuse partitions whose
                count is not the table's, so set `bucket`, too, where Java writes.
            partition: Partition column → value, perhaps of some partition columns only; all
                partitions by default.
            commit_user: Rescaling again under one name finds the first time.

        Returns:
            The snapshot; None if all these partitions have the count and the key types already.

        Raises:
            InvalidInputError: Kind `rescale`: the table has no fixed bucket count, and no dynamic
                buckets with files of other key types; or rows wait for a compaction.
            CommitConflictError: Another commit wrote into these partitions; nothing was committed.
            CommitUnknownError: It may have been committed.
            UnsupportedFeatureError: The table is not one this engine writes.
        """
        from paimon_assets.engine.table.upkeep.rescale import rescale

        return rescale(
            self._changing, executor, buckets=buckets, partition=partition, commit_user=commit_user
        )


def _follow_branch(store: FileStore) -> FileStore:
    """Return a store whose add-ons have followed its schema."""
    if add_ons_of(store.schema.options):
        from paimon_assets.engine.control.listeners import follow_change

        follow_change(store)
    return store


def preview_tag(branch: str) -> str:
    """Return the tag of main's snapshot that a branch of many tables began with."""
    return f"preview-{branch}"
