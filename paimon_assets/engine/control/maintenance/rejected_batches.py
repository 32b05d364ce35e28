"""Rejected batches: the branches `audit_…` that audits leave, and the files only they have.

A branch goes before its files, and a file stays that anything else names: the run that staged it
may have been killed after it committed, before it dropped the branch.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.expire_snapshots import (
    delete_empty_partitions,
    delete_files,
)
from paimon_assets.engine.control.maintenance.orphan_files import needed_names
from paimon_assets.engine.control.maintenance.references import (
    data_file_paths,
    existing_snapshots,
    metadata_paths,
)
from paimon_assets.engine.control.managers.branch_manager import AUDIT_PREFIX
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.spec.options.all_options import BRANCH

DEFAULT_RETENTION_MS = 7 * 24 * 3_600_000
"""How long a refused batch is kept by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedBatches:
    """Refused batches that were dropped, or would be."""

    branches: tuple[str, ...] = ()
    files: int = 0
    """Data files and metadata."""
    data_bytes: int = 0
    """The bytes of the data files."""


def drop_rejected(
    store: FileStore, *, before_millis: int, dry_run: bool = False
) -> RejectedBatches:
    """Drop the batches of a table that were staged before a time, with the files only they have.

    Cost:
        A listing, and a snapshot a batch; if one is old, every manifest of the table, once.
    """
    names = staged_names(store.branches.list())
    old = {name: store.with_options({BRANCH.key: name}) for name in names}
    old = {name: at for name, at in old.items() if _staged_millis(at) < before_millis}
    if not old:
        return RejectedBatches()
    data: dict[str, int] = {}
    metadata: set[str] = set()
    for branch in old.values():
        for snapshot in existing_snapshots(branch):
            try:
                metadata |= metadata_paths(branch, snapshot)
                entries = FileStoreScan(branch).live_files(snapshot)
            except NotFoundError:
                continue  # half deleted before; the rest are orphans
            for entry in entries:
                paths = data_file_paths(branch, entry)
                data |= {path: entry.file.file_size * (not n) for n, path in enumerate(paths)}
    needed = needed_names(store, {_name(path) for path in (*data, *metadata)}, besides=old)
    going = [path for path in (*data, *sorted(metadata)) if _name(path) not in needed]
    if not dry_run:
        for name in old:
            store.branches.delete(name)
        delete_files(store, going)
        delete_empty_partitions(store, data)
    size = sum(data.get(path, 0) for path in going)
    return RejectedBatches(branches=tuple(old), files=len(going), data_bytes=size)


def staged_names(branches: Iterable[str]) -> list[str]:
    """Return the branches that hold a batch, sorted."""
    return sorted(name for name in branches if name.startswith(AUDIT_PREFIX))


def _staged_millis(branch: FileStore) -> int:
    """Return when a batch was staged; directories of object stores have no time."""
    snapshot = branch.snapshots.latest()
    if snapshot is not None:
        return snapshot.time_millis
    schemas = branch.file_io.list_directory(branch.paths.schema_directory)
    return max(status.modified_ms for status in schemas)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
