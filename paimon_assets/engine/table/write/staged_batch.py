"""A batch that is written and not committed yet, readable by anyone: write, audit, publish.

    rows ─▶ files ─▶ branch `audit_…` ─▶ audit ─┬─ passes ─▶ one commit to the table; branch dropped
                                                ├─ refuses ─▶ nothing committed; branch stays
                                                └─ fails ─▶ nothing committed, nothing left

The branch holds the batch and nothing else, so that `<table>$branch_audit_…` reads exactly the rows
that were refused, in any engine. Until it is dropped (`control.maintenance.orphan_files`) an
orphan cleaning keeps its files.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from paimon_assets.engine.contract.commit_message import (
    CommitMessage,
    CompactIncrement,
    DataIncrement,
)
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.managers.branch_manager import AUDIT_PREFIX
from paimon_assets.engine.control.managers.commit_history import NewUser
from paimon_assets.engine.errors import Detail, InvalidInputError, NotFoundError, StorageError
from paimon_assets.engine.spec.metadata.snapshot import FIRST_SNAPSHOT_ID, Snapshot
from paimon_assets.engine.spec.options.all_options import BRANCH, IncrementalMode
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.read.read_builder import ReadBuilder

logger = logging.getLogger(__name__)


class StagedBatch(Value):
    """Rows that a write is about to commit."""

    store: FileStore
    """The branch that holds them, and only them."""
    snapshot: Snapshot

    @property
    def name(self) -> str:
        """The name in commands and other engines: `database.table$branch_audit_…`."""
        return self.store.label

    @property
    def branch(self) -> str:
        """The branch."""
        return self.store.paths.branch

    @property
    def physical_rows(self) -> int:
        """Rows in the batch's files; those of one key are merged when they are read."""
        return self.snapshot.total_record_count

    def new_read_builder(self) -> ReadBuilder:
        """Begin to describe a read of the batch: the last row of each key, without deletes."""
        if not self.store.schema.has_primary_key:
            return ReadBuilder(store=self.store)
        return batch_read(self.store, self.snapshot)  # also rows that wait for a compaction


class BatchRefusedError(InvalidInputError):
    """An audit rejected a batch; nothing was committed, and the batch stays readable.

    Args:
        message: Why, and where the batch is.
        details: As of any error.
        results: The result of each check, to show it.
    """

    default_kind = "batch-refused"

    def __init__(
        self,
        message: str,
        /,
        *,
        kind: str | None = None,
        results: Sequence[Any] = (),
        **details: Detail,
    ) -> None:
        super().__init__(message, kind=kind, **details)
        self.results = tuple(results)


Audit = Callable[[StagedBatch], None]
"""Judges a batch; an error that it raises keeps the batch from being committed.

Only a `BatchRefusedError` keeps it readable.
"""


def batch_read(store: FileStore, snapshot: Snapshot) -> ReadBuilder:
    """Start a read of the rows that one APPEND snapshot added."""
    read = ReadBuilder(store=store)
    added = read.between(snapshot.id - 1, snapshot.id, IncrementalMode.DELTA)
    return added.with_waiting_rows()


def stage(store: FileStore, messages: Sequence[CommitMessage], branch: str) -> StagedBatch:
    """Make a branch that shows the rows of messages before they are committed.

    One of an earlier try is replaced.

    Cost:
        A copy of the schemas, and one small commit.
    """
    name = f"{AUDIT_PREFIX}{branch}"
    branches = store.branches
    if branches.exists(name):
        branches.delete(name)
    branches.create(name)
    staged = store.with_options({BRANCH.key: name})
    rows_only = [
        replace(
            message,
            data_increment=DataIncrement(new_files=message.data_increment.new_files),
            compact_increment=CompactIncrement(),
        )
        for message in messages
    ]
    snapshot = FileStoreCommit(staged).commit(
        rows_only, commit_user=NewUser(), commit_identifier=FIRST_SNAPSHOT_ID
    )
    return StagedBatch(store=staged, snapshot=snapshot)


def unstage(store: FileStore, batch: StagedBatch) -> None:
    """Drop the branch of a batch with its metadata; files that cannot be deleted become orphans."""
    manifests, snapshot = batch.store.manifests, batch.snapshot
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
    try:
        names = {meta.file_name for name in lists for meta in manifests.read_list(name)}
        store.branches.delete(batch.branch)
        for name in (*names, *lists):
            store.manifests.delete(name)
    except (StorageError, NotFoundError):
        logger.warning("table %s: branch '%s' is left", store.label, batch.branch, exc_info=True)
