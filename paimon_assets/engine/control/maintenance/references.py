"""Files of snapshots, and concurrent changes during deletions: tags, branches, a rollback.

Whoever needs a snapshot makes its tag, branch or mark first and looks for the snapshot then.
Whoever deletes a snapshot deletes it first and looks for those then. Whatever the order of the four
steps, at least one of the two sees the other, and gives way.
Source: `org.apache.paimon.operation.FileDeletionBase`.
"""

from collections.abc import Collection, Container, Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Self

from msgspec import Struct

from paimon_assets.engine.control.commit.partition_filter import PartitionFilter
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.ledgers import ledger_files, ledgers_named
from paimon_assets.engine.control.rollback import rolled_back_to
from paimon_assets.engine.control.scan.split_generator import index_path
from paimon_assets.engine.errors import CommitConflictError, NotFoundError
from paimon_assets.engine.fileio.base import FileStatus
from paimon_assets.engine.spec.metadata.manifest import FileKind, IndexManifestEntry, ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import CommitKind, Snapshot
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.paths import MAIN_BRANCH
from paimon_assets.engine.spec.segments.segment import is_external, is_within, plain_path

_MOST_LISTINGS = 50
FileKey = tuple[bytes, int, str]
"""(partition, bucket, file name): names are unique, whatever the level."""


def key_of(entry: ManifestEntry) -> FileKey:
    return (entry.partition, entry.bucket, entry.file.file_name)


def data_file_paths(store: FileStore, entry: ManifestEntry) -> Iterator[str]:
    """Yield the paths of a data file and its extra files; none for an external file."""
    if is_external(store.schema.typed_options, entry.file):
        return
    path = store.file_path(entry)
    yield path
    directory = path.rpartition("/")[0]
    for name in entry.file.extra_files:
        yield f"{directory}/{name}"


def own_index_path(store: FileStore, entry: IndexManifestEntry) -> str | None:
    """Return the path of an index file, None for an external one."""
    path = index_path(store, entry)
    if entry.file.external_path is None:
        return path
    roots = store.schema.typed_options.get(opt.DATA_FILE_EXTERNAL_PATHS)
    is_own = path.rpartition("/")[2] == entry.file.file_name
    is_own = is_own and any(is_within(plain_path(path), plain_path(root)) for root in roots)
    return path if is_own else None


def metadata_paths(store: FileStore, snapshot: Snapshot) -> set[str]:
    """Return manifests, lists, index files, statistics and ledgers of a snapshot; no changelog."""
    lists = [snapshot.base_manifest_list, snapshot.delta_manifest_list]
    names = {*lists, *(meta.file_name for meta in store.manifests.manifests_of(snapshot))}
    paths = {store.paths.manifest(name) for name in names}
    if snapshot.index_manifest is not None:
        paths.add(store.paths.manifest(snapshot.index_manifest))
        index = store.manifests.read_index(snapshot.index_manifest)
        paths |= {path for entry in index if (path := own_index_path(store, entry)) is not None}
    if snapshot.statistics is not None:
        paths.add(store.paths.statistics(snapshot.statistics))
    return paths | ledger_paths(store, ledgers_named(snapshot).values())


def ledger_paths(store: FileStore, names: Iterable[str]) -> set[str]:
    """Return the paths of ledgers and of their parts. Cost: reads each ledger."""
    return {store.paths.ledger(file) for name in names for file in ledger_files(store, name)}


def changelog_entries(store: FileStore, snapshot: Snapshot) -> Iterator[ManifestEntry]:
    """Yield the changelog files of a snapshot; none if they are gone: tags do not keep them."""
    return _entries_of(store, snapshot.changelog_manifest_list)


def retained_changelog(store: FileStore, changelog: Snapshot) -> Iterator[ManifestEntry]:
    """Yield the entries of a changelog that outlived its snapshot; none if they are gone."""
    return _entries_of(store, _retained_list(store, changelog))


def _entries_of(store: FileStore, name: str | None) -> Iterator[ManifestEntry]:
    try:
        metas = () if name is None else store.manifests.read_list(name)
    except NotFoundError:
        metas = ()
    return store.manifests.read_all(metas)


def dropped_by(store: FileStore, snapshot: Snapshot) -> dict[FileKey, ManifestEntry]:
    """Return the files a snapshot deleted, without those it put on another level."""
    metas = store.manifests.read_list(snapshot.delta_manifest_list)
    if not any(meta.num_deleted_files for meta in metas):
        return {}
    entries = list(store.manifests.read_all(metas))
    added = {key_of(entry) for entry in entries if entry.kind is FileKind.ADD}
    return {
        key_of(entry): entry
        for entry in entries
        if entry.kind is FileKind.DELETE and key_of(entry) not in added
    }


def live_among(
    store: FileStore, snapshot: Snapshot, candidates: Collection[FileKey]
) -> set[FileKey]:
    """Return the files among some candidates that are live in a snapshot.

    Cost: manifests whose partition bounds rule the candidates out are not read; memory is that of
    the candidates' buckets.
    """
    if not candidates:
        return set()
    keys = set(candidates)
    partitions = PartitionFilter.of(store, frozenset(key[0] for key in keys))
    buckets = frozenset((partition, bucket) for partition, bucket, _ in keys)
    return keys & {key_of(entry) for entry in partitions.live_files(snapshot, buckets)}


def other_branches(store: FileStore) -> list[FileStore]:
    """Return the table's branches but the one at hand, main among them."""
    here, branches = store.schema.typed_options.get(opt.BRANCH), list[FileStore]()
    for name in (MAIN_BRANCH, *store.branches.list()):
        if name != here and store.branches.exists(name):
            try:
                branches.append(store.with_options({opt.BRANCH.key: name}))
            except NotFoundError:  # renamed or deleted since
                if store.branches.exists(name):
                    raise
    return branches


def existing_snapshots(store: FileStore) -> list[Snapshot]:
    """Return the snapshots of a branch, oldest first; one that was the newest is among them.

    During commits and expirations, all that was listed may be gone before it is read, or a
    listing in pages may have none: then nothing would seem to be needed. Later commits need no
    other old files. Cost: finds the newest, lists, and reads each.
    """
    for newest, ids in listed_snapshots(store):
        if newest is None and not ids:
            return []
        with store.file_io.ahead(reads=map(store.paths.snapshot, reversed(ids))):
            read = map(store.snapshots.snapshot_or_none, reversed(ids))
            snapshots = [snapshot for snapshot in read if snapshot is not None]
        if snapshots and newest is not None and newest.id <= snapshots[0].id == ids[-1]:
            return snapshots[::-1]
    raise AssertionError  # the listings end with an error


def listed_snapshots(store: FileStore) -> Iterator[tuple[Snapshot | None, list[int]]]:
    """Yield the newest snapshot and the ids of all, as a listing and requests by name agree."""
    for _ in range(_MOST_LISTINGS):
        newest, ids = store.snapshots.latest(), store.snapshots.list_ids()
        if (newest is None) == (not ids) and not store.snapshots.lacks(ids):
            yield newest, ids
    message = (
        f"Table '{store.label}': {_MOST_LISTINGS} times its newest snapshot expired before it was "
        "read, or the listing of its snapshots lacked one that is there. Nothing was deleted. Try "
        "again when less is going on; if that does not help, look at caches and proxies in front "
        "of the storage."
    )
    raise CommitConflictError(message, kind="snapshot-listing", table=store.label)


def existing_changelogs(store: FileStore) -> list[Snapshot]:
    """Return the changelogs that outlived their snapshots, oldest first. Cost: reads each."""
    changelogs = (
        store.changelogs.changelog_or_none(number) for number in store.changelogs.list_ids()
    )
    return [changelog for changelog in changelogs if changelog is not None]


def needed_by_branch(branch: FileStore, candidates: Collection[FileKey]) -> set[FileKey]:
    """Return the files among some candidates that a whole branch needs.

    Its snapshots need the files that are live in the oldest one, and all that are added later.
    """
    needed = set[FileKey]()
    snapshots = existing_snapshots(branch)
    if not candidates:
        return needed
    for snapshot in _first_of_runs(snapshots):
        needed |= live_among(branch, snapshot, candidates)
    for snapshot in snapshots:
        entries = (*branch.manifests.delta(snapshot), *changelog_entries(branch, snapshot))
        needed |= {key_of(entry) for entry in entries if entry.kind is FileKind.ADD}
    for tag in branch.tags.list():
        needed |= live_among(branch, tag.snapshot, candidates)
    needed |= needed_by_changelogs(branch, existing_changelogs(branch))
    return needed & set(candidates)


def named_by_branch(
    branch: FileStore, candidates: Collection[FileKey], *, besides: Container[str] = ()
) -> set[FileKey]:
    """Return the files among some candidates that a branch names, be it as deleted.

    Cost: the deltas of all snapshots and changelogs; of the oldest snapshot and the tags the
    manifests of the candidates' partitions.
    """
    keys, named = set(candidates), set[FileKey]()
    if not keys:
        return named
    snapshots = existing_snapshots(branch)
    for snapshot in _first_of_runs(snapshots):
        named |= live_among(branch, snapshot, keys)
    for snapshot in snapshots:
        named |= keys & {key_of(entry) for entry in branch.manifests.delta(snapshot)}
    for changelog in existing_changelogs(branch):
        try:
            named |= keys & {key_of(entry) for entry in branch.manifests.delta(changelog)}
        except NotFoundError:
            continue  # it lives on without its delta
    for tag in branch.tags.list():
        if tag.name not in besides:
            named |= live_among(branch, tag.snapshot, keys)
    return named


def _first_of_runs(snapshots: list[Snapshot]) -> Iterator[Snapshot]:
    """Yield the snapshots without a predecessor."""
    yield from snapshots[:1]
    for before, snapshot in pairwise(snapshots):
        if snapshot.id != before.id + 1:
            yield snapshot


def needed_by_changelogs(store: FileStore, changelogs: Iterable[Snapshot]) -> set[FileKey]:
    """Return the files that changelogs without snapshots consist of."""
    return {
        key_of(entry)
        for changelog in changelogs
        for entry in retained_changelog(store, changelog)
        if entry.kind is FileKind.ADD
    }


def retained_changelog_paths(store: FileStore, changelog: Snapshot) -> set[str]:
    """Return the list and the manifests of a changelog that outlived its snapshot."""
    return _list_paths(store, _retained_list(store, changelog))


def changelog_paths(store: FileStore, snapshot: Snapshot) -> set[str]:
    """Return the list and the manifests of a snapshot's changelog."""
    return _list_paths(store, snapshot.changelog_manifest_list)


def _retained_list(store: FileStore, changelog: Snapshot) -> str | None:
    """Return the list of appended files, which a table without changelog producer retains."""
    if changelog.changelog_manifest_list is not None:
        return changelog.changelog_manifest_list
    producer = store.schema.typed_options.get(opt.CHANGELOG_PRODUCER)
    appends = changelog.commit_kind is CommitKind.APPEND
    keeps = producer is opt.ChangelogProducer.NONE and appends
    return changelog.delta_manifest_list if keeps else None


def _list_paths(store: FileStore, name: str | None) -> set[str]:
    try:
        names = [] if name is None else [meta.file_name for meta in store.manifests.read_list(name)]
    except NotFoundError:
        return set()
    return {store.paths.manifest(each) for each in (name, *names) if each is not None}


class Watch(Struct, frozen=True):
    """The tags and branches of a table when a deletion began to be planned."""

    store: FileStore
    tags: frozenset[FileStatus]
    """Of the branch at hand, with the marks of rollbacks."""
    other_tags: frozenset[FileStatus]
    """Of the table's other branches, which share files with it."""
    managed_tags: frozenset[tuple[str, str]]
    """(branch, name) of those a catalog keeps."""
    branches: frozenset[str]
    whole_branches: frozenset[str]
    """Those that `other_branches` gives: object stores copy the files of a new one by and by."""

    @classmethod
    def of(cls, store: FileStore) -> Self:
        """Read the tags and branches. Cost: lists branches, and tags and schemas of each one."""
        lists = [store.paths.branches_directory, store.paths.tag_directory]
        with store.file_io.ahead(lists=lists):
            branches = frozenset(store.branches.list())
            whole = frozenset(filter(store.branches.exists, sorted(branches)))
            own, *names = dict.fromkeys((store.paths.branch, MAIN_BRANCH, *sorted(branches)))
            tags = {
                name: frozenset(
                    store.file_io.list_directory(store.paths.of_branch(name).tag_directory)
                )
                for name in (own, *names)
            }
        managed = set[tuple[str, str]]()
        if store.managed is not None:
            for at in map(store.managed.at_branch, tags):
                with suppress(NotFoundError):  # it was renamed or deleted since
                    listed = at.catalog.list_tags(at.identifier)
                    managed.update((at.identifier.branch, name) for name in listed)
        other_tags = frozenset[FileStatus]().union(*(tags[name] for name in names))
        return cls(store, tags[own], other_tags, frozenset(managed), branches, whole)

    @property
    def rollbacks(self) -> list[int]:
        """Snapshots that rollbacks which have not finished go back to."""
        return rolled_back_to(status.name for status in self.tags)

    def has_more(self) -> bool:
        """Whether there is a new tag, branch or mark. Cost: as `of`."""
        now = type(self).of(self.store)
        return bool(
            now.tags - self.tags
            or now.other_tags - self.other_tags
            or now.managed_tags - self.managed_tags
            or now.branches - self.branches
            or now.whole_branches - self.whole_branches
        )
