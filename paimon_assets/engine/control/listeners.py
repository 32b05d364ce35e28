"""The add-ons that follow the commits of a table, and clean up after it."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol, cast

from paimon_assets.engine.add_ons import ADD_ONS, add_ons_of
from paimon_assets.engine.control.catalog.catalog import Catalog, Identifier
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.fileio.base import FileStatus
from paimon_assets.engine.spec.metadata.snapshot import CommitKind, Snapshot

logger = logging.getLogger(__name__)


class CommitListener(Protocol):
    """Module `listener` of an add-on. A failure in a call does not undo the operation before it.

    A table may have the option and nothing to follow; each function looks itself.
    """

    def committed(self, store: FileStore, snapshot: Snapshot, base: Snapshot | None) -> None:
        """Follow a commit on `base`; never raises."""

    def changed(self, store: FileStore) -> None:
        """Follow a change of tags, snapshots or schema; logs failures of the storage."""

    def repair(self, store: FileStore) -> None:
        """Follow the newest snapshot; raises the error of a failure."""

    def rebuild(self, store: FileStore) -> None:
        """Write all again from the table as it is now, and delete all that was there before."""

    def behind(self, store: FileStore) -> int | None:
        """Return how many commits are not followed yet; None if there is nothing to follow."""

    def stored_files(self, store: FileStore) -> Iterator[FileStatus]:
        """Yield the add-on's own files, which an orphan cleaning may delete."""

    def needed_names(self, store: FileStore) -> Iterator[str]:
        """Yield the names of those that are in use."""

    def dropping(self, catalog: Catalog, table: Identifier) -> AbstractContextManager[None]:
        """Delete the add-on's files of a table that the block drops."""

    def dropping_database(self, catalog: Catalog, database: str) -> AbstractContextManager[None]:
        """Delete the add-on's files of the tables of a database that the block drops."""

    def renaming(
        self, catalog: Catalog, source: Identifier, target: Identifier
    ) -> AbstractContextManager[None]:
        """Follow a table that the block renames."""


def listeners(options: Mapping[str, str]) -> Iterator[CommitListener]:
    """Yield the add-ons that follow a table with these options."""
    for each in add_ons_of(options):
        yield cast("CommitListener", each.load("listener"))


def follow_commit(store: FileStore, snapshot: Snapshot, base: Snapshot | None = None) -> None:
    """Let the add-ons of a table follow a commit."""
    for listener in listeners(_options_at(store, snapshot)):
        listener.committed(store, snapshot, base)


def find_followed(
    store: FileStore, commit_user: str, number: int, kinds: Iterable[CommitKind] = tuple(CommitKind)
) -> Snapshot | None:
    """Return the snapshot that a user made before, if any (`SnapshotManager.find_commit`).

    Add-ons follow it: the process that made it may have died before they did.
    """
    made = store.snapshots.find_commit(commit_user, number, kinds)
    if made is not None:
        follow_commit(store, made)
    return made


def _options_at(store: FileStore, snapshot: Snapshot) -> Mapping[str, str]:
    """Return the options of a commit's schema: one may be set since the writer opened the table."""
    options = store.schema.options
    if snapshot.schema_id == store.schema.id or add_ons_of(options):
        return options
    try:
        return store.schemas.schema(snapshot.schema_id).options
    except PaimonError as error:
        logger.warning("table %s: no add-on is asked: %s", store.label, error.message)
        return options


def follow_change(store: FileStore) -> None:
    """Let the add-ons follow a change that is no commit: of tags, snapshots, schema."""
    for listener in listeners(store.schema.options):
        listener.changed(store)


def behind(store: FileStore) -> int | None:
    """Return how many commits the add-ons of a table have not followed; None without one."""
    counts = (each.behind(store) for each in listeners(store.schema.options))
    return max((count for count in counts if count is not None), default=None)


def dropping(catalog: Catalog, table: Identifier) -> ExitStack:
    """Let add-ons clean up after a table that the block drops."""
    return _enter(each.dropping(catalog, table) for each in _all())


def dropping_database(catalog: Catalog, database: str) -> ExitStack:
    """Let add-ons clean up after the tables of a database that the block drops."""
    return _enter(each.dropping_database(catalog, database) for each in _all())


def renaming(catalog: Catalog, source: Identifier, target: Identifier) -> ExitStack:
    """Let add-ons follow a table that the block renames."""
    return _enter(each.renaming(catalog, source, target) for each in _all())


def _all() -> Iterator[CommitListener]:
    return (cast("CommitListener", each.load("listener")) for each in ADD_ONS)


def _enter(managers: Iterator[AbstractContextManager[None]]) -> ExitStack:
    with ExitStack() as stack:
        for manager in managers:
            stack.enter_context(manager)
        return stack.pop_all()
