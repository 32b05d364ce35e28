"""WriteBuilder: rows → data files → one snapshot."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from paimon_assets.engine.contract.commit_message import CommitMessage, WriteReport
from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.contract.executor import Executor
from paimon_assets.engine.control.commit.abort import abort
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.features import check_writable
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.planning import writer_state
from paimon_assets.engine.errors import CommitUnknownError, PaimonError
from paimon_assets.engine.spec.options import BUCKET
from paimon_assets.engine.spec.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot

RowsT = TypeVar("RowsT")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOutcome:
    """What a write did."""

    snapshot: Snapshot | None
    """The snapshot that holds the rows; None if there was nothing to commit."""
    report: WriteReport
    was_already_committed: bool = False
    """This user and identifier had committed before: nothing was written now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBuilder:
    """A write being described; every `with_` returns a new builder."""

    store: FileStore
    commit_user: str | None = None
    commit_identifier: int = BATCH_COMMIT_IDENTIFIER
    properties: Mapping[str, str] = field(default_factory=dict)
    commit_empty: bool = False
    last_check: Callable[[], None] | None = None

    def with_commit_user(self, user: str) -> "WriteBuilder":
        """Name the writer. Writing again under one (user, identifier) finds the first commit."""
        return replace(self, commit_user=user)

    def with_commit_identifier(self, identifier: int) -> "WriteBuilder":
        """Number the commits of one user, such as a stream's batches."""
        return replace(self, commit_identifier=identifier)

    def with_properties(self, properties: Mapping[str, str]) -> "WriteBuilder":
        """Keep these texts in the snapshot."""
        return replace(self, properties={**self.properties, **properties})

    def with_empty_commits(self) -> "WriteBuilder":
        """Make a snapshot even if no row was written."""
        return replace(self, commit_empty=True)

    def with_last_check(self, check: Callable[[], None]) -> "WriteBuilder":
        """Call `check` when all rows are written and none is committed; what it raises undoes them.

        It tells, for example, whether the source of the rows is still what it was.
        """
        return replace(self, last_check=check)

    def write(self, rows: RowsT, executor: Executor[RowsT]) -> WriteOutcome:
        """Write rows and commit them as one snapshot, once.

        Args:
            rows: What the executor takes: Arrow here, also a Spark DataFrame there. They hold the
                table's columns by name, in any order.
            executor: Who writes.

        Raises:
            InvalidInputError: Rows do not fit the table; nothing was committed.
            CommitConflictError: Too many other writers; nothing was committed, files were removed.
            CommitUnknownError: The storage's answer was lost; look before trying again under the
                same user and identifier, which finds the commit if it happened.
        """
        committed = self.find_committed()
        if committed is not None:
            return WriteOutcome(
                snapshot=committed, report=WriteReport(), was_already_committed=True
            )
        result = executor.map_rows(self.prepare(), rows)
        self._check_last(result.messages)
        if not result.messages and not self.commit_empty:
            return WriteOutcome(snapshot=None, report=result.report)
        return WriteOutcome(snapshot=self.commit(result.messages), report=result.report)

    def _check_last(self, messages: Sequence[CommitMessage]) -> None:
        if self.last_check is None:
            return
        try:
            self.last_check()
        except BaseException:
            self.abort(messages)
            raise

    def find_committed(self) -> Snapshot | None:
        """Return the snapshot this user and identifier made before, if any."""
        if self.commit_user is None:
            return None
        return self.store.snapshots.find_commit(self.commit_user, self.commit_identifier)

    def prepare(self) -> WriteContext:
        """Return what a writer must know, read from the newest snapshot."""
        store = self.store
        check_writable(store.label, store.schema)
        state = writer_state(store, store.snapshots.latest())
        return WriteContext(
            table=store.label,
            table_path=store.table_path,
            schema=store.schema,
            bucket_states=state.bucket_states,
            partition_buckets=state.differing_from(store.schema.typed_options.get(BUCKET)),
            file_io=store.file_io.spec,
        )

    def commit(self, messages: Sequence[CommitMessage]) -> Snapshot:
        """Commit messages as one snapshot; on a sure failure their files are removed."""
        try:
            return FileStoreCommit(self.store).commit(
                messages,
                commit_user=self.commit_user or str(uuid.uuid4()),
                commit_identifier=self.commit_identifier,
                kind=CommitKind.APPEND,
                properties=self.properties,
            )
        except CommitUnknownError:
            raise
        except PaimonError:
            self.abort(messages)
            raise

    def abort(self, messages: Sequence[CommitMessage]) -> None:
        """Remove the files of messages that will never be committed."""
        abort(self.store, messages)
