"""The files to delete with each expiring snapshot, decided before anything is deleted.

    data files      those a later snapshot up to the oldest that stays deleted; not those another
                    snapshot, the nearest earlier tag, a branch or a changelog still has
    changelog       files of its changelog, unless changelogs live longer
    metadata        lists, manifests, index files, statistics, ledgers that only expired ones have

A file goes with the last of the snapshots that need it. The files that the oldest of them itself
deleted are looked at again: an expiration that was killed may have left them.
Source: `org.apache.paimon.operation.SnapshotDeletion`, `org.apache.paimon.utils.TagManager`.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.ledgers import ledgers_named, pointed_ledgers
from paimon_assets.engine.control.maintenance.references import (
    FileKey,
    changelog_entries,
    changelog_paths,
    data_file_paths,
    dropped_by,
    existing_changelogs,
    existing_snapshots,
    key_of,
    ledger_paths,
    live_among,
    metadata_paths,
    needed_by_branch,
    needed_by_changelogs,
    other_branches,
    retained_changelog_paths,
)
from paimon_assets.engine.control.maintenance.retention import changelogs_live_longer
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import Snapshot


@dataclass(slots=True, kw_only=True)
class ExpiryStep:
    """The files that go with one snapshot."""

    snapshot: Snapshot
    data_paths: list[str] = field(default_factory=list)
    data_bytes: int = 0
    """The bytes of the data files, without files that belong to them."""
    metadata_paths: list[str] = field(default_factory=list)

    def add(self, store: FileStore, entry: ManifestEntry) -> None:
        """Plan to delete a data file, unless it is external."""
        paths = list(data_file_paths(store, entry))
        self.data_paths += paths
        self.data_bytes += entry.file.file_size if paths else 0


@dataclass(frozen=True, kw_only=True)
class Holders:
    """Whatever may still need files of snapshots that expire."""

    store: FileStore
    tags: tuple[Snapshot, ...]
    """Tagged snapshots of this branch, by id."""
    survivors: tuple[Snapshot, ...]
    """The oldest snapshot that stays, and the newest."""
    branches: tuple[FileStore, ...]
    changelogs: tuple[Snapshot, ...]
    """Changelogs without snapshots, and those about to be."""

    @classmethod
    def of(
        cls, store: FileStore, survivors: Iterable[Snapshot], changelogs: Iterable[Snapshot]
    ) -> Self:
        """Read the tags, and list the branches."""
        tags = sorted((tag.snapshot for tag in store.tags.list()), key=lambda tagged: tagged.id)
        return cls(
            store=store,
            tags=tuple(tags),
            survivors=tuple(survivors),
            branches=tuple(other_branches(store)),
            changelogs=tuple(changelogs),
        )

    def tag_before(self, snapshot_id: int) -> Snapshot | None:
        """Return the newest tagged snapshot before one; no earlier tag has a file that it lacks.

        For a file that a snapshot deletes was live in all snapshots since its own.
        """
        position = bisect_left(self.tags, snapshot_id, key=lambda tagged: tagged.id)
        return self.tags[position - 1] if position else None

    def needed(self, candidates: Collection[FileKey]) -> set[FileKey]:
        """Return the files that something beside a tag of this branch needs."""
        needed = set[FileKey]()
        if not candidates:
            return needed
        for snapshot in self.survivors:
            needed |= live_among(self.store, snapshot, candidates)
        for branch in self.branches:
            needed |= needed_by_branch(branch, candidates)
        return needed | (needed_by_changelogs(self.store, self.changelogs) & set(candidates))

    def metadata(self, tags: Iterable[Snapshot]) -> set[str]:
        """Return the metadata files that survivors, some tags, branches and changelogs need."""
        paths = set[str]()
        for snapshot in self.survivors:
            paths |= metadata_paths(self.store, snapshot) | changelog_paths(self.store, snapshot)
        for tagged in tags:
            paths |= metadata_paths(self.store, tagged)
        for branch in self.branches:
            for snapshot in existing_snapshots(branch):
                paths |= metadata_paths(branch, snapshot) | changelog_paths(branch, snapshot)
            for tag in branch.tags.list():
                paths |= metadata_paths(branch, tag.snapshot)
            for changelog in existing_changelogs(branch):
                paths |= retained_changelog_paths(branch, changelog)
        for changelog in self.changelogs:
            paths |= retained_changelog_paths(self.store, changelog)
        return paths


def plan_expiry(
    store: FileStore, expired: Sequence[Snapshot], survivor: Snapshot, newest: Snapshot
) -> list[ExpiryStep]:
    """Return the files to delete with each of the oldest snapshots, oldest first.

    Cost: reads the deltas of the expired snapshots and of the survivor; of the survivor, the newest
    and the nearest tags the manifests of partitions where files go; all of other branches.
    """
    keeps_changelogs = changelogs_live_longer(store.schema.typed_options)
    kept = expired if keeps_changelogs else ()
    survivors = (survivor,) if newest.id == survivor.id else (survivor, newest)
    holders = Holders.of(store, survivors, (*existing_changelogs(store), *kept))
    steps = [ExpiryStep(snapshot=snapshot) for snapshot in expired]
    _plan_data(store, steps, holders, keeps_changelogs=keeps_changelogs)
    _plan_metadata(store, steps, holders)
    return steps


def _plan_data(
    store: FileStore, steps: list[ExpiryStep], holders: Holders, *, keeps_changelogs: bool
) -> None:
    going: dict[FileKey, tuple[ExpiryStep, ManifestEntry]] = {}
    chain = [*(step.snapshot for step in steps), holders.survivors[0]]
    for position, snapshot in enumerate(chain):
        step = steps[max(position - 1, 0)]
        dropped = dict[FileKey, ManifestEntry]()
        with suppress(NotFoundError):  # an expiration of another engine died in the middle
            dropped = dropped_by(store, snapshot)
        tagged = holders.tag_before(snapshot.id)
        if tagged is not None:
            for key in live_among(store, tagged, dropped):
                del dropped[key]
        going |= {key: (step, entry) for key, entry in dropped.items()}
    if not keeps_changelogs:
        for step in steps:
            for entry in changelog_entries(store, step.snapshot):
                going[key_of(entry)] = (step, entry)
    for key in holders.needed(going.keys()):
        del going[key]
    for step, entry in going.values():
        step.add(store, entry)


def _plan_metadata(store: FileStore, steps: list[ExpiryStep], holders: Holders) -> None:
    going: dict[str, ExpiryStep] = {}
    for step in steps:
        with suppress(NotFoundError):
            going |= dict.fromkeys(metadata_paths(store, step.snapshot), step)
        going |= dict.fromkeys(changelog_paths(store, step.snapshot), step)
    first, last = steps[0].snapshot.id, steps[-1].snapshot.id
    before = holders.tag_before(first)
    tags = [tagged for tagged in holders.tags if first <= tagged.id <= last]
    needed = holders.metadata(tags if before is None else [before, *tags])
    named: dict[str, str] = {}
    for step in steps:
        named |= ledgers_named(step.snapshot)
    # Ledgers that count by a pointer, or will: no snapshot that stays names them.
    ledgers = {name for key, name in named.items() if key not in holders.survivors[0].properties}
    for branch in (store, *holders.branches) if named else ():
        ledgers.update(pointed_ledgers(branch).values())
    needed |= ledger_paths(store, ledgers)
    for path, step in going.items():
        if path not in needed:
            step.metadata_paths.append(path)
