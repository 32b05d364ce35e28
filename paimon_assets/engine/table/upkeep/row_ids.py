"""Row ids for an append table that exists, by metadata alone.

    files without ids get some ─▶ options in one schema ─▶ files added meanwhile, too

A process that dies on the way leaves ids without the option, which all readers ignore; or
files without ids that were added between: a second call gives them some. Upstream discusses the
same order (https://github.com/apache/paimon/pull/10098).
"""

from typing import NoReturn

from paimon_assets.engine.control.clock import SystemClock
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.commit.row_ids import lacks_ids, stores_ids
from paimon_assets.engine.control.features import check_writable
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.managers.commit_history import NewUser
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.evolution.schema_change import SetOption
from paimon_assets.engine.spec.options.all_options import (
    DATA_EVOLUTION_ENABLED,
    ROW_TRACKING_ENABLED,
)


def enable_row_ids(store: FileStore, *, data_evolution: bool) -> FileStore:
    """Run `Table.enable_row_ids`, and return the store with the newest schema."""
    store = store.current()
    check_writable(store.label, store.schema)
    if store.managed is not None:
        _refuse(store, "its catalog keeps its schemas. Open the table by its warehouse")
    keys = [ROW_TRACKING_ENABLED.key, *([DATA_EVOLUTION_ENABLED.key] if data_evolution else [])]
    changes = [SetOption(key=key, value="true") for key in keys]
    now = SystemClock().now_millis()
    new = store.schemas.evolve(changes, time_millis=now, is_unwritten=True)
    evolves = new.typed_options.get(DATA_EVOLUTION_ENABLED)
    _assign(store, evolves=evolves)
    store.schemas.commit_changes(changes, time_millis=now, is_unwritten=True)
    store = store.reopen()
    _assign(store, evolves=evolves)
    return store


def _assign(store: FileStore, *, evolves: bool) -> None:
    latest = store.snapshots.latest()
    if latest is None:
        return
    files = [entry.file for entry in FileStoreScan(store).live_files(latest)]
    for file in files:
        if file.external_path is not None:
            _refuse(store, f"'{file.external_path}' is a file of a segment. Delete the segment")
        if evolves and stores_ids(file):
            _refuse(
                store,
                f"file '{file.file_name}' stores ids of its own, as updates and compactions of"
                " tables with row tracking alone write them. Overwrite the table",
            )
    if any(map(lacks_ids, files)):
        FileStoreCommit(store).assign_row_ids(commit_user=NewUser(), commit_identifier=0)


def _refuse(store: FileStore, reason: str) -> NoReturn:
    message = f"Cannot give the rows of table '{store.label}' row ids: {reason}."
    raise UnsupportedFeatureError(message, kind="unsupported-row-ids", table=store.label)
