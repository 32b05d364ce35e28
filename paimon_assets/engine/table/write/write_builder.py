"""WriteBuilder: rows → data files → one snapshot."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence, Sized
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import pyarrow as pa
from msgspec import field
from msgspec.structs import replace

from paimon_assets.engine import errors
from paimon_assets.engine.contract.commit_message import CommitMessage, WriteReport
from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.contract.executor import Executor
from paimon_assets.engine.control.commit import abort as undo
from paimon_assets.engine.control.commit.file_store_commit import Condition, FileStoreCommit
from paimon_assets.engine.control.commit.partition_filter import (
    PartitionFilter,
    PartitionSpec,
    bound_spec,
)
from paimon_assets.engine.control.commit.planned_on import KEYS_CHANGED, WRITTEN_AGAIN
from paimon_assets.engine.control.commit.request import Attempts
from paimon_assets.engine.control.features import check_writable
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.listeners import find_followed
from paimon_assets.engine.control.managers.commit_history import NewUser
from paimon_assets.engine.control.write_planning import key_bootstrap, write_context
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.spec.metadata import snapshot as snap
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.predicate.predicate import Predicate, any_of, bind
from paimon_assets.engine.spec.schema.schema import BucketMode
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.frames.frames import Frame, to_rows

if TYPE_CHECKING:
    from paimon_assets.engine.table.write.staged_batch import Audit


class CommitBuilder(Value):
    """A commit being described; every `with_` returns a new builder.

    Methods that plan or commit may also raise `StorageError`, if the storage failed, and
    `FormatError`, if a file is damaged; nothing was committed.
    """

    commit_kinds: ClassVar[tuple[snap.CommitKind, ...]] = tuple(snap.CommitKind)
    """Which snapshots count as made before."""

    store: FileStore
    commit_user: str | None = None
    commit_identifier: int = snap.BATCH_COMMIT_IDENTIFIER
    properties: Mapping[str, str] = field(default_factory=dict)
    condition: Condition | None = None

    def with_commit_user(self, user: str) -> Self:
        """Set the commit user. A retry with one (user, identifier) finds the first commit.

        Commits of all sorts count: a user that writes and changes rows numbers the commits.
        """
        return replace(self, commit_user=user)

    def with_commit_identifier(self, identifier: int) -> Self:
        """Number the commits of one user, such as a stream's batches."""
        return replace(self, commit_identifier=identifier)

    def with_properties(self, properties: Mapping[str, str]) -> Self:
        """Store properties in the snapshot."""
        return replace(self, properties={**self.properties, **properties})

    def with_condition(self, condition: Condition) -> Self:
        """Commit only on top of a snapshot that `condition` does not raise for.

        It is called in each try of the commit with the snapshot below it, so that nothing can
        happen between the check and the commit. An error of it undoes the write; it ends a change
        of rows, if it is a conflict of kind `READ_CHANGED`. Several conditions all count.
        """
        return replace(self, condition=_both(self.condition, condition))

    def find_committed(self) -> snap.Snapshot | None:
        """Return the snapshot this user and identifier made before, if any."""
        if self.commit_user is None:
            return None
        return find_followed(
            self.store, self.commit_user, self.commit_identifier, self.commit_kinds
        )

    def commit_as(
        self,
        kind: snap.CommitKind,
        messages: Sequence[CommitMessage],
        condition: Condition | None = None,
        **checks: Any,
    ) -> snap.Snapshot:
        """Commit messages as one snapshot of a kind; `checks` are those of a `FileStoreCommit`."""
        both = _both(self.condition, condition)
        return FileStoreCommit(self.store, condition=both, **checks).commit(
            messages,
            commit_user=self.commit_user or NewUser(),
            commit_identifier=self.commit_identifier,
            kind=kind,
            properties=self.properties,
        )

    def overwrite_as(
        self,
        messages: Sequence[CommitMessage] = (),
        *,
        partitions: frozenset[bytes] | None = None,
        predicate: Predicate | None = None,
        **checks: Any,
    ) -> snap.Snapshot:
        """Replace partitions by the files of messages, as `FileStoreCommit.overwrite`."""
        return FileStoreCommit(self.store, condition=self.condition, **checks).overwrite(
            messages,
            commit_user=self.commit_user or NewUser(),
            commit_identifier=self.commit_identifier,
            partitions=partitions,
            predicate=predicate,
            properties=self.properties,
        )


def _both(first: Condition | None, second: Condition | None) -> Condition | None:
    """Return a condition that asks two."""
    if first is None or second is None:
        return first or second

    def check(latest: snap.Snapshot | None) -> None:
        first(latest)
        second(latest)

    return check


logger = logging.getLogger(__name__)

RowsT = TypeVar("RowsT")

_LOOKED_UP = frozenset({BucketMode.HASH_DYNAMIC, BucketMode.KEY_DYNAMIC})
"""Where a writer asks an index for the bucket of a key."""
_FEW_ROWS = 10_000
"""Up to so many rows are written while the storage is asked for the newest snapshot."""


class Overwrite(Value):
    """The partitions a write replaces."""

    is_dynamic: bool
    """Whether it replaces the partitions that its rows lie in."""
    predicate: Predicate | None = None
    """If not dynamic, the partitions to replace; None replaces the whole table."""


class WriteOutcome(Value):
    """The outcome of a write."""

    snapshot: snap.Snapshot | None
    """The snapshot that holds the rows; None if there was nothing to commit."""
    report: WriteReport
    was_already_committed: bool = False
    """This user and identifier had committed before: nothing was written now."""


class WriteBuilder(CommitBuilder):
    """A write being described; every `with_` returns a new builder.

    >>> _ = table.new_write_builder().with_overwrite().write(pa.table({"id": [1], "n": [5]}))
    """

    commit_empty: bool = False
    last_check: Callable[[], None] | None = None
    overwrites: Overwrite | None = None
    audit: Audit | None = None
    audit_branch: str = ""
    guess: Callable[[], bool] | None = None
    """Of the block of guesses in which rows are written: whether all were right."""
    removed: set[str] = field(default_factory=set)
    """Paths of files that were removed, and that no commit may name; copies of this share it."""

    def __repr__(self) -> str:
        over = ", overwriting" if self.overwrites is not None else ""
        return f"WriteBuilder({self.store.label}{over})"

    def with_empty_commits(self) -> WriteBuilder:
        """Make a snapshot even if no row was written."""
        return replace(self, commit_empty=True)

    def with_overwrite(self, partition: PartitionSpec | None = None) -> WriteBuilder:
        """Replace the stored rows, in one snapshot.

        Args:
            partition: Partition column → value, perhaps of some partition columns only: replaces
                these partitions, and without rows empties them; rows elsewhere are refused. An
                empty mapping means the whole table. None means the partitions that the rows lie in
                (the whole table, if it has none or `dynamic-partition-overwrite` is false).

        Raises:
            InvalidInputError: Kind `partition-spec` or `literal`; names the column.
        """
        schema = self.store.schema
        dynamic = bool(schema.partition_keys) and schema.typed_options.get(
            opt.DYNAMIC_PARTITION_OVERWRITE
        )
        if partition is None and dynamic:
            return self.with_dynamic_overwrite()
        predicate = bound_spec(schema, partition or {}, table=self.store.label)
        return replace(self, overwrites=Overwrite(is_dynamic=False, predicate=predicate))

    def with_dynamic_overwrite(self) -> WriteBuilder:
        """Replace the partitions that the rows belong to; without rows nothing changes."""
        return replace(self, overwrites=Overwrite(is_dynamic=True))

    def with_overwrite_where(self, predicate: Predicate) -> WriteBuilder:
        """Replace the partitions for which a predicate is true by the rows that are written.

        Without rows these become empty; rows of other partitions are refused.

        Raises:
            InvalidInputError: Kind `partition-spec` for a column that is no partition key,
                `literal` for a value that does not fit its column.
        """
        bound = bind(predicate, self.store.schema)
        PartitionFilter.where(self.store, bound)
        return replace(self, overwrites=Overwrite(is_dynamic=False, predicate=bound))

    def with_values_hidden(self) -> WriteBuilder:
        """Leave values of rows out of error messages."""
        return replace(self, store=self.store.with_options({opt.WRITE_SHOW_VALUES.key: "false"}))

    def with_last_check(self, check: Callable[[], None]) -> WriteBuilder:
        """Call `check` when all rows are written and none is committed; an error undoes them.

        It checks, for example, whether the source of the rows is unchanged.
        """
        return replace(self, last_check=check)

    def with_audit(self, audit: Audit, *, branch: str = "") -> WriteBuilder:
        """Judge the rows when all are written and none is committed (`staged_batch`).

        Args:
            audit: Its errors are raised by the write, and nothing is committed; after a
                `BatchRefusedError` the rows stay readable on a branch.
            branch: Name of that branch, after its prefix; a random one by default. Writes at the
                same time need names of their own.
        """
        return replace(self, audit=audit, audit_branch=branch or uuid.uuid4().hex[:8])

    def write(self, frame: Frame, executor: Executor[Any] | None = None) -> WriteOutcome:
        """Write rows and commit them as one snapshot, once.

        Args:
            frame: The table's columns by name, in any order: of pyarrow, pandas, polars or duckdb,
                anything with `__arrow_c_stream__`, or a Spark DataFrame for the executor of Spark.
            executor: Writes; this process by default.

        Raises:
            InvalidInputError: Rows do not fit the table; nothing was committed.
            CommitConflictError: Too many other writers; or of kind `keys-changed`, keys got a
                bucket meanwhile; or `schema-changed`, the schema changed so that the rows would
                change. Nothing was committed, files were removed.
            CommitUnknownError: The storage's answer was lost; look before trying again under the
                same user and identifier, which finds the commit if it happened.
            UnsupportedFeatureError: The table is not one this engine writes, or not so.
            BatchRefusedError: The audit kept the rows out; they stay readable on a branch.
            NotFoundError: The table was dropped or renamed meanwhile.
        """
        committed = self.find_committed()
        if committed is not None:
            return WriteOutcome(
                snapshot=committed, report=WriteReport(), was_already_committed=True
            )
        chosen: Executor[Any] = executor or EmbeddedExecutor()
        if self.store.managed is None:
            self.store.file_io.prepare_publish(self.store.paths.snapshot(snap.FIRST_SNAPSHOT_ID))
        if self._may_guess(frame, chosen):
            with self.store.ahead(with_break=True, guesses=True) as confirm:
                try:
                    outcome = self._write_frame(frame, chosen, confirm)
                    if outcome.snapshot is not None or confirm():
                        return outcome
                except errors.PaimonError:
                    if confirm():
                        raise
        with self.store.ahead():
            return self._write_frame(frame, chosen)

    def _may_guess(self, frame: Frame, executor: Executor[Any]) -> bool:
        """Whether a write is small and simple, and can be made again from its rows."""
        is_repeatable = isinstance(frame, pa.Table) or type(frame).__name__ == "DataFrame"
        return (
            isinstance(executor, EmbeddedExecutor)
            and is_repeatable
            and isinstance(frame, Sized)  # frames of Spark are not
            and len(frame) <= _FEW_ROWS
            and self.audit is None
            and self.last_check is None
            and not self.store.schema.typed_options.get(opt.WRITE_MERGE_SCHEMA)
        )

    def _write_frame(
        self, frame: Frame, chosen: Executor[Any], guess: Callable[[], bool] | None = None
    ) -> WriteOutcome:
        builder = self._plan_again()
        shown = self.store.schema.typed_options.get(opt.WRITE_SHOW_VALUES)
        rows = to_rows(frame, chosen, builder.store.schema, show_values=shown)
        return builder.write_as_is(rows, chosen, guess)

    def _plan_again(self) -> WriteBuilder:
        """Return the write with the newest schema, if that would change the values."""
        newest = self.store.current()
        if newest.schema.id == self.store.schema.id:
            return self
        from paimon_assets.engine.spec.evolution.schema_diff import first_unkept

        if first_unkept(self.store.schema, newest.schema) is None:
            return self
        return replace(self, store=newest)

    def write_as_is(
        self, rows: RowsT, executor: Executor[RowsT], guess: Callable[[], bool] | None = None
    ) -> WriteOutcome:
        """Write and commit like `write`, without looking for an earlier commit.

        Where keys got a bucket or the schema changed meanwhile, the rows are written again,
        up to `commit.max-retries` times; a stream of rows is read once, so it is not.
        Columns that `write.merge-schema` adds are published when the rows are checked and written.

        Raises:
            PaimonError: As `write`.
        """
        attempts = Attempts(self.store.label, self.store.schema.typed_options)
        while True:
            try:
                return self._write_once(rows, executor, guess)
            except errors.CommitConflictError as conflict:
                if conflict.kind not in WRITTEN_AGAIN or isinstance(rows, pa.RecordBatchReader):
                    raise
                attempts.wait(conflict)
            newest = self._plan_again()
            if newest is not self:
                return newest.write_as_is(rows, executor)
            guess = None

    def _write_once(
        self, rows: RowsT, executor: Executor[RowsT], guess: Callable[[], bool] | None
    ) -> WriteOutcome:
        store, new = self.store, None
        if store.schema.typed_options.get(opt.WRITE_MERGE_SCHEMA):
            from paimon_assets.engine.table.schema_merging import schema_of

            store, new = schema_of(self.store, executor.row_schema(rows))
        builder = replace(self, store=store)
        context, file_io = builder.prepare(), self.store.file_io
        if new is not None:
            context = replace(context, schema=new)
        side_by_side = nullcontext() if guess is None else file_io.at_once()
        with file_io.ahead(), side_by_side:  # the requests ahead so far were for the plan
            result = executor.map_rows(context, rows)
            try:
                if self.last_check is not None:
                    self.last_check()
            except BaseException:
                self.abort(result.messages)
                raise
            if new is not None:
                from paimon_assets.engine.table.schema_merging import publish

                with undo.deleted_on_definite_failure(lambda: self.abort(result.messages)):
                    store = publish(store, new, executor.row_schema(rows))
                builder = replace(builder, store=store)
            empties = self.overwrites is not None and not self.overwrites.is_dynamic
            if not result.messages and not self.commit_empty and not empties:
                return WriteOutcome(snapshot=None, report=result.report)
            if self.audit is None:
                snapshot = replace(builder, guess=guess).commit(result.messages)
            else:
                snapshot = _commit_audited(builder, result.messages, self.audit)
            return WriteOutcome(snapshot=snapshot, report=result.report)

    def prepare(self) -> WriteContext:
        """Return the writer's context, read from the newest snapshot.

        Raises:
            UnsupportedFeatureError: The table is not one this engine writes, or it is only
                overwritten as a whole (kind `overwrite-cross-partition`).
        """
        store, over = self.store, self.overwrites
        check_writable(store.label, store.schema)
        mode = store.schema.bucket_mode
        if over and mode is BucketMode.KEY_DYNAMIC and (over.is_dynamic or over.predicate):
            raise errors.UnsupportedFeatureError(
                f"Table '{store.label}' is overwritten as a whole only: keys may change partition,"
                " and rows of other partitions may have the new rows' keys.",
                kind="overwrite-cross-partition",
                table=store.label,
            )
        # Neither rows that an overwrite replaces nor those without buckets have numbers to go on.
        needs_none = over or mode is BucketMode.BUCKET_UNAWARE
        latest = None if needs_none else store.snapshots.latest()
        newest_id = 0 if latest is None else latest.id
        return replace(
            write_context(store, store.schema, latest),
            key_read=key_bootstrap(store, latest),
            keys_known_at=newest_id if mode in _LOOKED_UP and not over else None,
            partitions=over.predicate if over else None,
        )

    def commit(self, messages: Sequence[CommitMessage]) -> snap.Snapshot:
        """Commit messages as one snapshot; on a definite failure their files are removed.

        Raises:
            CommitConflictError: Another commit is in the way, or was faster too often.
            CommitUnknownError: It may have been committed; no file was removed.
            NotFoundError: The table was dropped or renamed meanwhile.
            UnsupportedFeatureError: The table is not one this engine writes.
            InvalidInputError: Kind `removed-files`: an earlier call failed, and removed them.
        """
        gone = self.removed and self.removed.intersection(undo.made_paths(self.store, messages))
        if gone:
            raise errors.InvalidInputError(
                f"Table '{self.store.label}': {len(gone)} of the files to commit were removed when"
                " they could not be committed before, or were given up. Write the rows again.",
                kind="removed-files",
                table=self.store.label,
                path=min(gone),
            )
        with undo.deleted_on_definite_failure(lambda: self.abort(messages)):
            snapshot = self._commit(messages)
        if self.overwrites is not None:
            try:
                undo.delete_changelogs(self.store, messages)  # no snapshot names them
            except errors.StorageError:
                message = "table %s: changelog files of an overwrite are left"
                logger.warning(message, self.store.label, exc_info=True)
        return snapshot

    def _confirm(self) -> bool:
        """Whether the rows were written on the newest snapshot, or on none.

        Raises:
            CommitConflictError: They were not, and have numbers and buckets of another one.
        """
        is_right = self.guess is None or self.guess()
        if is_right or self.store.schema.bucket_mode is BucketMode.BUCKET_UNAWARE:
            return is_right
        raise errors.CommitConflictError(
            f"Table '{self.store.label}' was changed since this process saw it. Write again.",
            kind=KEYS_CHANGED,
            table=self.store.label,
        )

    def _commit(self, messages: Sequence[CommitMessage]) -> snap.Snapshot:
        if self.overwrites is None:
            return self.commit_as(snap.CommitKind.APPEND, messages, confirm=self._confirm)
        written = frozenset(message.partition for message in messages)
        return self.overwrite_as(
            messages,
            partitions=written if self.overwrites.is_dynamic else None,
            predicate=self.overwrites.predicate,
            confirm=self._confirm,
        )

    def abort(self, messages: Sequence[CommitMessage]) -> None:
        """Remove the files of messages that will never be committed.

        Raises:
            StorageError: A file could not be deleted; the rest was not tried.
        """
        self.removed.update(undo.made_paths(self.store, messages))
        undo.abort(self.store, messages)


def _commit_audited(
    write: WriteBuilder, messages: Sequence[CommitMessage], audit: Audit
) -> snap.Snapshot:
    with undo.deleted_on_definite_failure(lambda: write.abort(messages)):
        from paimon_assets.engine.table.write.staged_batch import stage

        batch = stage(write.store, messages, write.audit_branch)
    from paimon_assets.engine.table.write.staged_batch import BatchRefusedError, unstage

    try:
        audit(batch)
    except BatchRefusedError:
        raise
    except BaseException:
        unstage(write.store, batch)
        undo.discard(write.store, messages, "a batch that could not be judged")
        raise
    with undo.deleted_on_definite_failure(lambda: unstage(write.store, batch)):
        snapshot = write.commit(messages)
    unstage(write.store, batch)
    return snapshot


def drop_partitions(
    store: FileStore, specs: Sequence[PartitionSpec], *, commit_user: str | None = None
) -> snap.Snapshot:
    """Empty all partitions that match one of some specs (`Table.drop_partitions`)."""
    bound = [bound_spec(store.schema, spec, table=store.label) for spec in specs]
    predicates = [predicate for predicate in bound if predicate is not None]
    if not predicates or len(predicates) < len(specs):
        message = f"Name the partitions of table '{store.label}' to drop; to empty it, truncate it."
        raise errors.InvalidInputError(message, kind="partition-spec", table=store.label)
    return empty(store, any_of(predicates), commit_user=commit_user)


def empty(
    store: FileStore, predicate: Predicate | None = None, *, commit_user: str | None = None
) -> snap.Snapshot:
    """Empty the partitions for which a bound predicate is true; None empties the table.

    Emptying again under one name finds the first time.
    """
    return CommitBuilder(store=store, commit_user=commit_user).overwrite_as(predicate=predicate)
