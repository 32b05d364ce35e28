"""Table: one Paimon table. Light to import: each method imports what does its work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_assets.engine.control.acknowledged import after
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.spec.evolution.schema_change import OnOverflow
from paimon_assets.engine.spec.options.all_options import BRANCH
from paimon_assets.engine.table.table_state import TableState

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from paimon_assets.engine.contract.executor import RewritingExecutor
    from paimon_assets.engine.contract.tasks.task_batch import TaskRunner
    from paimon_assets.engine.control.commit.partition_filter import PartitionSpec
    from paimon_assets.engine.control.maintenance.tag_files import DeletedTag
    from paimon_assets.engine.control.managers.branch_manager import BranchManager
    from paimon_assets.engine.control.managers.consumer_manager import ConsumerManager
    from paimon_assets.engine.control.managers.tag_manager import TagManager
    from paimon_assets.engine.control.rollback import Rollback
    from paimon_assets.engine.spec.evolution.schema_change import SchemaChange
    from paimon_assets.engine.spec.metadata.snapshot import Snapshot
    from paimon_assets.engine.spec.metadata.tag import Tag
    from paimon_assets.engine.spec.schema.schema import TableSchema
    from paimon_assets.engine.table.read.read_builder import ReadBuilder
    from paimon_assets.engine.table.schema.schema_changes import ExecutorChoice, SchemaChangePlan
    from paimon_assets.engine.table.segments.segments import Segments
    from paimon_assets.engine.table.system.system_table import SystemTable
    from paimon_assets.engine.table.upkeep.analyze import AnalyzeOutcome
    from paimon_assets.engine.table.upkeep.compaction import CompactionBuilder
    from paimon_assets.engine.table.upkeep.maintenance import Maintenance
    from paimon_assets.engine.table.write.row_change import RowChangeBuilder
    from paimon_assets.engine.table.write.write_builder import WriteBuilder


class Table(TableState):
    """One table, opened with its newest schema.

    Methods that read or write may also raise `StorageError`, if the storage failed, and
    `FormatError`, if a file is damaged.
    """

    def new_read_builder(self) -> ReadBuilder:
        """Begin to describe a read."""
        from paimon_assets.engine.table.read.read_builder import ReadBuilder

        return ReadBuilder(store=self._store)

    def new_write_builder(self) -> WriteBuilder:
        """Begin to describe a write."""
        from paimon_assets.engine.table.write.write_builder import WriteBuilder

        return WriteBuilder(store=self._store)

    def new_compaction_builder(self) -> CompactionBuilder:
        """Begin to describe a compaction."""
        from paimon_assets.engine.table.upkeep.compaction import CompactionBuilder

        return CompactionBuilder(store=self._store)

    def new_row_change_builder(self) -> RowChangeBuilder:
        """Begin to describe a deletion or an update of rows."""
        from paimon_assets.engine.table.write.row_change import RowChangeBuilder

        return RowChangeBuilder(store=self._store)

    def maintenance(self) -> Maintenance:
        """Return what keeps the table healthy: expiring and cleaning."""
        from paimon_assets.engine.table.upkeep.maintenance import Maintenance

        return Maintenance(store=self._store)

    def analyze(
        self,
        *,
        columns: Iterable[str] | None = None,
        executor: TaskRunner | None = None,
        commit_user: str | None = None,
    ) -> AnalyzeOutcome:
        """Compute and commit statistics of the rows; see `table.upkeep.analyze.analyze`.

        Raises:
            NotFoundError: There is no such column.
            CommitConflictError: The schema changed meanwhile, or others were faster too often.
            CommitUnknownError: It may have been committed.
            UnsupportedFeatureError: The table is not one this engine writes.
        """
        from paimon_assets.engine.table.upkeep.analyze import analyze

        return analyze(self._store, columns=columns, executor=executor, commit_user=commit_user)

    def delete_tag(self, name: str) -> DeletedTag:
        """Delete a tag, with the files that only it kept; see `control.maintenance.tag_files`.

        Raises:
            NotFoundError: There is no tag of this name.
            InvalidInputError: The tag keeps segment files from other engines (kind `tag-hold`).
        """
        from paimon_assets.engine.control.maintenance.tag_files import delete_tag

        return delete_tag(self._store, name)

    def alter(self, changes: Sequence[SchemaChange]) -> Table:
        """Change the schema, all changes or none, and return the table as it is then.

        Stored values are not looked at; see `plan_alter` and `alter_checked`. Readers opened
        before go on with the schema they were opened with; so do writers, where the newest one
        shows their values unchanged, and else they plan by the newest.

        Args:
            changes: In the order to apply them; see `spec.evolution.schema_change`.

        Raises:
            InvalidInputError: A change is refused; nothing was changed.
            UnsupportedFeatureError: Nothing here could read the table then; nothing was changed.
            CommitConflictError: Others changed the schema too often meanwhile.
            NotFoundError: The table was dropped or renamed.
            CommitUnknownError: The storage's answer was lost; look at the newest schema first. Kind
                `done-but-unread`: it is changed, only the new schema cannot be read.
        """
        from paimon_assets.engine.table.schema.schema_changes import evolved

        new = evolved(self._store, changes)
        self._store.schemas.commit_changes(changes, time_millis=new.time_millis)
        with after("changed", self._store.label):
            return self.reopened()

    def plan_alter(
        self, changes: Sequence[SchemaChange], *, executor: ExecutorChoice = None
    ) -> SchemaChangePlan:
        """Say what `alter` would change, and which stored values would be lost; changes nothing.

        Raises:
            InvalidInputError: A change is refused.
            NotFoundError: The table was dropped or renamed.
        """
        from paimon_assets.engine.table.schema.schema_changes import plan_schema_changes

        return plan_schema_changes(self._store, changes, executor=executor)

    def alter_checked(
        self,
        changes: Sequence[SchemaChange],
        *,
        on_overflow: OnOverflow = OnOverflow.REFUSE,
        executor: ExecutorChoice = None,
        judged: Callable[[SchemaChangePlan], None] | None = None,
    ) -> SchemaChangePlan:
        """Change the schema, unless stored values would be lost; return what was changed.

        `judged` is called with the plan, before it is refused or made.

        Raises:
            InvalidInputError: A change is refused, or loses values (kind `schema-overflow`).
            CommitConflictError: Others were faster too often.
            NotFoundError: The table was dropped or renamed.
            CommitUnknownError: The storage's answer was lost; look at the newest schema first.
        """
        from paimon_assets.engine.table.schema.schema_changes import change_schema

        return change_schema(
            self._store, changes, on_overflow=on_overflow, executor=executor, judged=judged
        )

    def change_made_since(
        self, changes: Sequence[SchemaChange], since_millis: int
    ) -> TableSchema | None:
        """Return the schema these changes made at or after a time, if they were made then.

        Raises:
            FormatError, StorageError: Metadata is damaged, or the storage failed.
        """
        from paimon_assets.engine.table.schema.schema_changes import change_made_since

        return change_made_since(self._store, changes, since_millis)

    def reopened(self) -> Table:
        """Return the table with its newest schema, and the dynamic options it was opened with.

        Raises:
            NotFoundError: The table or the branch was dropped, or renamed.
        """
        return Table(self._store.reopened())

    def truncate(self) -> Snapshot:
        """Empty the table in one snapshot; older snapshots keep their rows until they expire.

        Raises:
            CommitConflictError: Others were faster too often; nothing was committed.
            CommitUnknownError: It may have been committed.
            NotFoundError: The table was dropped or renamed.
            UnsupportedFeatureError: The table is not one this engine writes.
        """
        from paimon_assets.engine.table.write.table_commit import empty

        return empty(self._store)

    def drop_partitions(self, specs: Sequence[PartitionSpec]) -> Snapshot:
        """Empty the partitions that match one of some specs; see `table_commit`.

        Raises:
            InvalidInputError: No spec, an empty one, or one that does not fit the partition keys.
            CommitConflictError, CommitUnknownError, UnsupportedFeatureError: As `truncate`.
        """
        from paimon_assets.engine.table.write.table_commit import drop_partitions

        return drop_partitions(self._store, specs)

    def segments(self, *, roots: Sequence[str] | None = None) -> Segments:
        """Return the table's segments: files of others that it reads where they lie, and own loads.

        Args:
            roots: Folders that files may be taken from; any that a command names by default.

        Raises:
            InvalidInputError: A folder of `roots` is blank.
        """
        from paimon_assets.engine.control.segments.segment_roots import SegmentRoots
        from paimon_assets.engine.table.segments.segments import Segments

        allowed = None if roots is None else SegmentRoots.of(roots)
        return Segments(store=self._store, roots=allowed)

    def copy(self, options: Mapping[str, str]) -> Table:
        """Return the table with further dynamic options, such as a moment to read; see `branch`.

        Raises:
            NotFoundError: The options name a branch that does not exist.
        """
        return Table(self._store.with_options(options))

    def at_branch(self, name: str) -> Table:
        """Return a branch of the table, to read and to write.

        Raises:
            NotFoundError: There is no such branch.
        """
        return self.copy({BRANCH.key: name})

    def system_table(self, kind: str) -> SystemTable:
        """Return a system table of the table, such as `files` or `audit_log`.

        Raises:
            NotFoundError: There is none of this name.
        """
        from paimon_assets.engine.table.system.system_table import SystemTable

        return SystemTable.of(self._store, kind)

    @property
    def tags(self) -> TagManager:
        """Names of snapshots, which keep them."""
        return self._store.tags

    @property
    def branches(self) -> BranchManager:
        """Branches made from this one."""
        return self._store.branches

    @property
    def consumers(self) -> ConsumerManager:
        """How far readers have come (`ReadBuilder.with_consumer`)."""
        return self._store.consumers

    def drop_audited(self, *, before_millis: int) -> list[str]:
        """Drop the branches of batches kept out before a time, return their names.

        Files that nothing else names go with them; see `control.maintenance.refused_batches`.

        Raises:
            NotFoundError: A snapshot or tag that stays lacks a manifest; nothing was deleted.
            StorageError: A file could not be deleted; what is left are orphans.
        """
        from paimon_assets.engine.control.maintenance.refused_batches import drop_refused

        return list(drop_refused(self._store, before_millis=before_millis).branches)

    def create_tag(
        self,
        name: str,
        snapshot_id: int | None = None,
        *,
        time_retained: dt.timedelta | None = None,
        ignore_if_exists: bool = False,
    ) -> Tag:
        """Give a snapshot a name; the newest by default. See `TagManager.create`.

        Raises:
            NotFoundError: No such snapshot, or the table has none yet.
            AlreadyExistsError: There is a tag of this name.
            InvalidInputError: The name or the time is none.
            CommitUnknownError: The storage's answer was lost; look whether the tag is there.
        """
        snapshot = self.snapshot(snapshot_id)
        if snapshot is None:
            raise NotFoundError(
                f"Table '{self.name}' has no snapshot to tag yet.",
                kind="snapshot-not-found",
                details={"table": self.name},
            )
        return self.tags.create(
            name, snapshot, time_retained=time_retained, ignore_if_exists=ignore_if_exists
        )

    def pointed_ledger(self, key: str) -> str | None:
        """Return the ledger that counts if no snapshot names one; see `control.ledgers`.

        Raises:
            FormatError: The pointer is damaged; names the file.
        """
        from paimon_assets.engine.control.ledgers import pointed_ledger

        return pointed_ledger(self._store, key)

    def rollback_to(self, target: int | str) -> Rollback:
        """Undo everything after a snapshot; files of what was undone stay as orphans.

        Args:
            target: Id of a snapshot, or name of a tag.

        Raises:
            NotFoundError: No such snapshot or tag; nothing was changed.
            CommitUnknownError: The table was renamed or dropped meanwhile.
        """
        from paimon_assets.engine.control.rollback import rollback_to_snapshot, rollback_to_tag

        if isinstance(target, int):
            return rollback_to_snapshot(self._store, target)
        return rollback_to_tag(self._store, target)

    def rollback_schema(self, schema_id: int) -> Table:
        """Undo the schemas after one, and return the table as it is then. Stop writers first.

        Raises:
            NotFoundError: There is no such schema; nothing was changed.
            InvalidInputError: A snapshot, tag or changelog needs a later one (kind
                `rollback-schema`); nothing was changed.
            CommitUnknownError: No answer came; or kind `done-but-unread`, as for `alter`.
        """
        from paimon_assets.engine.control.rollback import rollback_schema

        _ = self._store.dynamic_options  # known from the schema that may go
        rollback_schema(self._store, schema_id)
        with after("changed", self._store.label):
            return self.reopened()

    def rescale(
        self,
        executor: RewritingExecutor,
        *,
        buckets: int | None = None,
        partition: PartitionSpec | None = None,
        commit_user: str | None = None,
    ) -> Snapshot | None:
        """Give partitions another bucket count; see `table.upkeep.rescale.rescale`.

        Raises:
            InvalidInputError: The table cannot be rescaled so (kind `rescale`).
            CommitConflictError: Others wrote into these partitions; nothing was committed.
            CommitUnknownError: It may have been committed.
            UnsupportedFeatureError: The table is not one this engine writes.
        """
        from paimon_assets.engine.table.upkeep.rescale import rescale

        return rescale(
            self._store, executor, buckets=buckets, partition=partition, commit_user=commit_user
        )
