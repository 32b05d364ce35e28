"""The version of a table's data: the last commit that changed a row.

    append 7-a…    compaction 8-b…    statistics 9-c…    append 10-d…
    7-a…           7-a…               7-a…               10-d…

A commit that changes no row names the version in a property, so it outlives its snapshot.
Compactions of other engines do not; behind them one looks back.
"""

from collections.abc import Mapping

from paimon_assets.engine.control.commit.changes import CommitChanges
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.split_generator import shows_rows_later
from paimon_assets.engine.spec.metadata.manifest import FileKind
from paimon_assets.engine.spec.metadata.snapshot import (
    BUILT_ON_PROPERTY,
    DATA_VERSION_PROPERTY,
    INHERITED_PROPERTIES,
    CommitKind,
    Snapshot,
)

_CHANGE_NO_ROW = frozenset({CommitKind.COMPACT, CommitKind.ANALYZE})
_MOST_LOOKED_AT = 1_000


def data_version(store: FileStore, snapshot: Snapshot) -> str:
    """Return the version of the data that a snapshot shows.

    Cost: nothing for a snapshot of this engine. Of others' compactions each one before is read; if
    all that is left of history are such, the oldest names the version.
    """
    for _ in range(_MOST_LOOKED_AT):
        version = snapshot.properties.get(DATA_VERSION_PROPERTY)
        if version is not None:
            return version
        shows = snapshot.commit_kind is CommitKind.COMPACT and shows_rows_later(store.schema)
        if shows or snapshot.commit_kind not in _CHANGE_NO_ROW:
            break
        before = store.snapshots.snapshot_or_none(snapshot.id - 1)
        if before is None:
            break
        snapshot = before
    return snapshot.name


def inherited_properties(
    store: FileStore, latest: Snapshot | None, changes: CommitChanges, kind: CommitKind
) -> Mapping[str, str]:
    """Return the properties of a snapshot on top of `latest`: inherited ones and its own."""
    if latest is None:
        return {}
    properties = {
        key: value
        for key, value in latest.properties.items()
        if key.startswith(INHERITED_PROPERTIES)
    }
    properties[BUILT_ON_PROPERTY] = latest.delta_manifest_list
    if _changes_no_row(store, changes, kind):
        properties[DATA_VERSION_PROPERTY] = data_version(store, latest)
    return properties


def _changes_no_row(store: FileStore, changes: CommitChanges, kind: CommitKind) -> bool:
    if not changes.entries and not changes.index:
        return True
    if kind is not CommitKind.COMPACT or not shows_rows_later(store.schema):
        return kind in _CHANGE_NO_ROW
    return not any(
        entry.kind is FileKind.DELETE and (entry.file.level == 0 or entry.bucket < 0)
        for entry in changes.entries
    )
