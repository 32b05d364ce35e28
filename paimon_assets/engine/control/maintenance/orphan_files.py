"""Orphan files: files in a table's directories that no snapshot, tag or changelog names.

    list old files ─▶ collect the files that a branch needs ─▶ the rest are orphans
                                       └─ again, if tags or branches came, went or moved ─┘

The listing is first, so files committed meanwhile are among the needed ones. Files
are known by name alone, which is unique, whatever directory a path is written with. Directories
that Paimon does not make are never entered, nor buckets that are links: external files and segment
registries are safe. A file whose name is none of Paimon's (`spec.own_names`) is foreign: it is
listed and stays. Old files in a folder `.staging-…`, of a write that was killed, are orphans.
A writer that holds a file back longer than `older_than` loses it.

Rejected batches are branches `audit_…`. A branch is deleted before its files, and a file stays that
anything else names: its run may have been killed between the commit and the drop of the branch.
Source: `org.apache.paimon.operation.OrphanFilesClean`, `LocalOrphanFilesClean`.
"""

import json
from collections.abc import Callable, Container, Generator, Iterable, Iterator

from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.ledgers import ledger_files, ledgers_named, pointed_ledgers
from paimon_assets.engine.control.listeners import listeners
from paimon_assets.engine.control.maintenance import expire_snapshots as expiry
from paimon_assets.engine.control.maintenance import references
from paimon_assets.engine.control.managers.branch_manager import AUDIT_PREFIX
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.errors import CommitConflictError, InvalidInputError, NotFoundError
from paimon_assets.engine.fileio.base import FileStatus
from paimon_assets.engine.fileio.owned_deletion import is_reached
from paimon_assets.engine.fileio.parallel_requests import with_witnesses
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import LEDGER_PROPERTY_PREFIX, Snapshot
from paimon_assets.engine.spec.options.all_options import BRANCH
from paimon_assets.engine.spec.own_names import OwnNames, is_temporary
from paimon_assets.engine.spec.paths import BRANCH_PREFIX, STAGING_PREFIX
from paimon_assets.engine.spec.values import Value

DAY_MS = 24 * 3_600_000
"""How old a file must be by default."""
_MOST_LOOKS = 20


class OrphanFiles(Value):
    """Files that nothing names, deleted or not."""

    files: tuple[FileStatus, ...]
    foreign: tuple[str, ...]
    """Paths inside the table's folder of files that are not the table's own, which stay."""
    deleted: bool

    @property
    def total_bytes(self) -> int:
        return sum(status.size for status in self.files)


@with_witnesses()
def clean_orphan_files(
    store: FileStore,
    *,
    older_than_ms: int = DAY_MS,
    dry_run: bool = True,
    clock: Clock | None = None,
) -> OrphanFiles:
    """Find, and perhaps delete, the files of a table that nothing needs.

    Cost: lists the table; reads every manifest of every snapshot and tag once. Memory for the paths
    of the table's old files, and for the names of its manifests.
    """
    if older_than_ms < 0:
        message = "The age of orphan files cannot be negative: 0 takes files of any age."
        raise InvalidInputError(message, kind="older-than")
    before_ms = (clock or SystemClock()).now_millis() - older_than_ms
    candidates: dict[str, list[FileStatus]] = {}
    empty, staged = list[str](), list[str]()
    for status in _candidates(store):
        is_old = status.modified_ms < before_ms
        if status.is_directory and is_old and status.name.startswith("bucket-"):
            empty.append(f"{status.path}/")
        elif status.is_directory and is_old:
            staged.append(status.path)
        if 0 < status.modified_ms < before_ms and not status.is_directory:
            candidates.setdefault(status.name, []).append(status)
    ledgers = set[str]()
    for name in needed_by_all(store, ledgers) if candidates else ():
        candidates.pop(name, None)
    rest = {status.path: status for statuses in candidates.values() for status in statuses}
    for name in candidates:
        if store.paths.ledger(name) in rest and _may_count(store, name, ledgers):
            for file in ledger_files(store, name):
                rest.pop(store.paths.ledger(file), None)
    foreign = _foreign(store, sorted(rest))
    orphans = [status for path, status in sorted(rest.items()) if path not in foreign]
    if not dry_run:
        expiry.delete_files(store, (status.path for status in orphans))
        expiry.delete_empty_partitions(store, empty)
        for folder in reversed(staged):
            store.file_io.delete_empty_directory(folder)
    return OrphanFiles(files=tuple(orphans), foreign=tuple(foreign.values()), deleted=not dry_run)


def _foreign(store: FileStore, paths: Iterable[str]) -> dict[str, str]:
    """Return those of the paths that are no names of the table's → the path inside its folder."""
    inside = {path: path.removeprefix(f"{store.paths.table}/") for path in paths}
    own = OwnNames.of([store.schema.typed_options])
    if not all(map(own.has, inside.values())):  # a schema before may have had another prefix
        own = OwnNames.of(store.schemas.schema(n).typed_options for n in store.schemas.list_ids())
    return {path: name for path, name in inside.items() if not own.has(name)}


def _candidates(store: FileStore) -> Iterator[FileStatus]:
    """Yield the files of a table that may be deleted if nothing needs them."""
    list_directory = store.file_io.list_tree(store.paths.table)
    for directory in (
        store.paths.manifest_directory,
        store.paths.index_directory,
        f"{store.paths.table}/statistics",
    ):
        if is_reached(store.file_io, store.roots, directory):
            yield from list_directory(directory)
    for status in list_directory(store.paths.ledger_directory):
        if status.name.startswith("ledger-") and status.name.endswith((".json", ".parquet")):
            yield status
    for listener in listeners(store.schema.options):
        yield from listener.stored_files(store)
    yield from _data_files(store, list_directory)
    if store.file_io.spec.scheme == "file":
        yield from _staged_files(store, store.paths.table, STAGING_PREFIX)
    branch_homes = [
        status.path
        for status in list_directory(store.paths.branches_directory)
        if status.is_directory and status.name.startswith(BRANCH_PREFIX)
    ]
    for home in (store.paths.table, *branch_homes):
        for name in ("schema", "snapshot", "changelog", "tag", "consumer"):
            listed = list_directory(f"{home}/{name}")
            yield from (status for status in listed if is_temporary(status.name))


def _data_files(
    store: FileStore, list_directory: Callable[[str], list[FileStatus]]
) -> Iterator[FileStatus]:
    """Yield the files of all bucket directories, and those directories that are empty."""
    inside = store.paths.data_directory
    folders = [f"{store.paths.table}/{inside}" if inside else store.paths.table]
    for _ in store.schema.partition_keys:
        folders = [
            status.path
            for folder in folders
            for status in list_directory(folder)
            if status.is_directory and "=" in status.name
        ]
    for folder in folders:
        for bucket in list_directory(folder):
            if not (bucket.is_directory and bucket.name.startswith("bucket-")):
                continue
            if is_reached(store.file_io, store.roots, bucket.path):
                yield from (files := list_directory(bucket.path))
                if not files:
                    yield bucket


def _staged_files(store: FileStore, folder: str, prefix: str = "") -> Iterator[FileStatus]:
    """Yield the folders of single writes, and all below them; a folder before its content."""
    for status in store.file_io.list_directory(folder):
        if not status.is_directory:
            if not prefix:
                yield status
        elif status.name.startswith(prefix) and is_reached(store.file_io, store.roots, status.path):
            yield status
            yield from _staged_files(store, status.path)


def _may_count(store: FileStore, name: str, ledgers: set[str]) -> bool:
    """Whether a file is a ledger whose source no snapshot names: without it rows come twice."""
    if not (name.startswith("ledger-") and name.endswith(".json")):
        return False
    try:
        source = json.loads(store.file_io.read_bytes(store.paths.ledger(name)))["source"]
    except (ValueError, TypeError, KeyError, RecursionError, NotFoundError):
        return True
    return f"{LEDGER_PROPERTY_PREFIX}{source}" not in ledgers


def needed_by_all(
    store: FileStore, ledgers: set[str], *, besides: Container[str] = ()
) -> Iterator[str]:
    """Yield the names of all needed files, again if the table changed; see the module.

    Each manifest is read once. The properties that name ledgers are added to `ledgers`.
    """
    seen: set[str] = set()
    for _ in range(_MOST_LOOKS):
        before, are_whole = references.Watch.of(store), True
        for branch in (store, *references.other_branches(store)):
            if branch.paths.branch in besides:
                continue
            try:
                are_whole &= yield from _needed_files(branch, ledgers, seen)
            except NotFoundError as error:  # renamed or deleted since it was listed
                if branch is store or error.kind != "table-not-found":
                    raise
                are_whole = False
        if are_whole and before == references.Watch.of(store):
            return
    message = (
        f"Table '{store.label}': its tags and branches changed, or its newest snapshot expired, "
        f"{_MOST_LOOKS} times while needed files were collected; nothing was deleted. "
        "Try again when less is going on."
    )
    raise CommitConflictError(message, kind="orphan-files", table=store.label)


def _needed_files(
    store: FileStore, ledgers: set[str], seen: set[str]
) -> Generator[str, None, bool]:
    """Yield the names of the files a branch needs, but for those that seen manifests name."""
    snapshots = references.existing_snapshots(store)
    store.manifests.fetch_lists(snapshots)
    is_whole = True
    for snapshot in reversed(snapshots):
        try:
            yield from _needed_by(store, snapshot, seen)
        except NotFoundError:
            if store.snapshots.is_same(snapshot):
                raise
            is_whole &= snapshot is not snapshots[-1]
        yield from map(_name, references.changelog_paths(store, snapshot))
        yield from _names(references.changelog_entries(store, snapshot))
        ledgers.update(ledgers_named(snapshot))
    # An expiration writes changelogs and pointers, then deletes snapshots: they are read last.
    for changelog in references.existing_changelogs(store):
        yield from map(_name, references.retained_changelog_paths(store, changelog))
        yield from _names(references.retained_changelog(store, changelog))
    for tag in store.tags.list():
        try:
            yield from _needed_by(store, tag.snapshot, seen)
        except NotFoundError:
            if store.tags.get_or_none(tag.name) is not None:
                raise
    for listener in listeners(store.schema.options):
        yield from listener.needed_names(store)
    pointed = pointed_ledgers(store)
    ledgers.update(pointed)
    for name in pointed.values():
        yield from ledger_files(store, name)
    return is_whole


def _needed_by(store: FileStore, snapshot: Snapshot, seen: set[str]) -> Iterator[str]:
    """Yield the files of a snapshot, and all names in its manifests, live or not."""
    yield from map(_name, references.metadata_paths(store, snapshot))
    fresh = [m for m in store.manifests.manifests_of(snapshot) if m.file_name not in seen]
    yield from _names(store.manifests.read_all(fresh))
    seen.update(meta.file_name for meta in fresh)


def _names(entries: Iterable[ManifestEntry]) -> Iterator[str]:
    for entry in entries:
        yield entry.file.file_name
        yield from entry.file.extra_files
        if entry.file.external_path is not None:
            yield _name(entry.file.external_path)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


DEFAULT_RETENTION_MS = 7 * 24 * 3_600_000
"""How long a rejected batch is kept by default."""


class RejectedBatches(Value):
    """Rejected batches that were dropped, or would be."""

    branches: tuple[str, ...] = ()
    files: int = 0
    data_bytes: int = 0


@with_witnesses()
def drop_rejected(
    store: FileStore, *, before_millis: int, dry_run: bool = False
) -> RejectedBatches:
    """Drop the batches that were staged before a time, with the files that only they have."""
    old: dict[str, FileStore] = {}
    for name in staged_names(store.branches.list()):
        branch = store.with_options({BRANCH.key: name})
        snapshot = branch.snapshots.latest()
        if snapshot is None:  # directories of object stores have no time, files have
            schemas = branch.file_io.list_directory(branch.paths.schema_directory)
            staged = max(status.modified_ms for status in schemas)
        else:
            staged = snapshot.time_millis
        if staged < before_millis:
            old[name] = branch
    if not old:
        return RejectedBatches()
    data: dict[str, int] = {}
    metadata: set[str] = set()
    for branch in old.values():
        for snapshot in references.existing_snapshots(branch):
            try:
                metadata |= references.metadata_paths(branch, snapshot)
                entries = FileStoreScan(branch).live_files(snapshot)
            except NotFoundError:
                continue  # half deleted before; the rest are orphans
            for entry in entries:
                paths = references.data_file_paths(branch, entry)
                data |= {path: entry.file.file_size * (not n) for n, path in enumerate(paths)}
    names = frozenset(_name(path) for path in (*data, *metadata))
    needed = {name for name in needed_by_all(store, set(), besides=old) if name in names}
    going = [path for path in (*data, *sorted(metadata)) if _name(path) not in needed]
    if not dry_run:
        for name in old:
            store.branches.delete(name)
        expiry.delete_files(store, going)
        expiry.delete_empty_partitions(store, data)
    size = sum(data.get(path, 0) for path in going)
    return RejectedBatches(branches=tuple(old), files=len(going), data_bytes=size)


def staged_names(branches: Iterable[str]) -> list[str]:
    """Return the branches that hold a batch, sorted."""
    return sorted(name for name in branches if name.startswith(AUDIT_PREFIX))
