"""The hook through which the engine calls this add-on: `control.listeners.CommitListener`."""

from collections.abc import Iterator
from contextlib import contextmanager

from paimon_assets.engine.control.catalog.catalog import Catalog, Identifier
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.iceberg import cleanup, follow
from paimon_assets.iceberg.state import iceberg_state

committed = follow.follow_commit
changed = follow.follow_quietly
repair = follow.repair
stored_files = cleanup.stored_files
needed_names = cleanup.needed_names
dropping_database = cleanup.forgotten_database


def behind(store: FileStore) -> int | None:
    """Return how many commits Iceberg's readers do not see; None without such metadata."""
    state = iceberg_state(store)
    return None if state is None else state.behind


def rebuild(store: FileStore) -> None:
    """Write all metadata again, and delete all that was written before."""
    follow.repair(store, from_start=True)
    cleanup.delete_earlier(store)


@contextmanager
def dropping(catalog: Catalog, table: Identifier) -> Iterator[None]:
    """Delete the metadata of a table that the block drops."""
    with cleanup.forget(catalog, table):
        yield


@contextmanager
def renaming(catalog: Catalog, source: Identifier, target: Identifier) -> Iterator[None]:
    """Delete the metadata under the old name, and write it under the new one."""
    with cleanup.forget(catalog, source) as has_metadata:
        yield
    if has_metadata:
        follow.follow_quietly(FileStore.load(catalog, target))
