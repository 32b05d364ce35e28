"""How long snapshots and changelogs stay, and the files to delete with each expiring snapshot.

    data files      those a later snapshot up to the oldest that stays deleted; not those another
                    snapshot, the nearest earlier tag, a branch or a changelog still has
    changelog       files of its changelog, unless changelogs live longer
    metadata        lists, manifests, index files, statistics, ledgers that only expired ones have

All is decided before anything is deleted. A file goes with the last of the snapshots that need it.
Files that the oldest of them itself deleted are looked at again: an expiration that was killed may
have left them.
Source: `org.apache.paimon.operation.SnapshotDeletion`, `org.apache.paimon.utils.TagManager`,
`org.apache.paimon.options.ExpireConfig`, `ExpireSnapshotsImpl`.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
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
from paimon_assets.engine.errors import InvalidInputError, NotFoundError
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options.maintenance_options import (
    CHANGELOG_NUM_RETAINED_MAX,
    CHANGELOG_NUM_RETAINED_MIN,
    CHANGELOG_TIME_RETAINED,
    SNAPSHOT_EXPIRE_LIMIT,
    SNAPSHOT_NUM_RETAINED_MAX,
    SNAPSHOT_NUM_RETAINED_MIN,
    SNAPSHOT_TIME_RETAINED,
)
from paimon_assets.engine.spec.options.option import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The retention rule for numbered snapshots."""

    min_count: int
    """The newest ones that stay, however old they are; at least 1."""
    max_count: int
    """More than these go, however young they are."""
    time_ms: int
    """How long one stays after the next one was made."""
    limit: int
    """Most to expire at a time."""
    before: int | None = None
    """All before this one go, and no other; the numbers above but the limit count for nothing."""

    def __post_init__(self) -> None:
        if not 1 <= self.min_count <= self.max_count or self.limit < 1 or self.time_ms < 0:
            raise InvalidInputError(
                f"Of the snapshots at least {self.min_count} and at most {self.max_count} shall "
                f"stay, and {self.limit} expire at a time; expected 1 <= "
                f"'{SNAPSHOT_NUM_RETAINED_MIN.key}' <= '{SNAPSHOT_NUM_RETAINED_MAX.key}' and 1 <= "
                f"'{SNAPSHOT_EXPIRE_LIMIT.key}'.",
                kind="retention",
            )

    @classmethod
    def of_snapshots(cls, options: Options) -> Self:
        """Read the retention of a table's snapshots."""
        return cls(
            min_count=options.get(SNAPSHOT_NUM_RETAINED_MIN),
            max_count=options.get(SNAPSHOT_NUM_RETAINED_MAX),
            time_ms=options.get(SNAPSHOT_TIME_RETAINED),
            limit=options.get(SNAPSHOT_EXPIRE_LIMIT),
        )

    @classmethod
    def of_changelogs(cls, options: Options) -> Self:
        """Read the retention of a table's changelogs."""
        base, time_ms = cls.of_snapshots(options), options.get(CHANGELOG_TIME_RETAINED)
        fewest = options.get(CHANGELOG_NUM_RETAINED_MIN)
        most = options.get(CHANGELOG_NUM_RETAINED_MAX)
        return cls(
            min_count=base.min_count if fewest is None else fewest,
            max_count=base.max_count if most is None else most,
            time_ms=base.time_ms if time_ms is None else time_ms,
            limit=base.limit,
        )

    def first_retained(
        self, earliest: int, latest: int, *, now_ms: int, time_of: Callable[[int], int | None]
    ) -> int:
        """Return the id of the oldest one that stays; all before it go.

        >>> keep = Retention(min_count=2, max_count=5, time_ms=10, limit=50)
        >>> keep.first_retained(1, 9, now_ms=100, time_of=lambda number: 10 * number)
        8
        >>> keep.first_retained(1, 9, now_ms=45, time_of=lambda number: 10 * number)
        5
        """
        if self.before is not None:
            return max(min(self.before, latest, earliest + self.limit), earliest)
        end = min(latest - self.min_count + 1, earliest + self.limit)
        judged, made = 0, None
        for number in range(max(latest - self.max_count + 1, earliest), end):
            if number >= judged:
                judged, made = self._make(number + 1, latest, now_ms, time_of)
            if made is not None and now_ms - self.time_ms <= made:
                return max(number, earliest)
        return max(end, earliest)

    def _make(
        self, number: int, latest: int, now_ms: int, time_of: Callable[[int], int | None]
    ) -> tuple[int, int | None]:
        """Return when one was made, with its number, or that of a later one which says it.

        A clock that is ahead by more than `time_ms` would hold all that follow until it is right:
        so the time is taken of the next one whose clock is not. If there is none, it is now.
        """
        for later in range(number, latest + 1):
            made = time_of(later)
            if made is None and later > number:
                continue
            if made is None or made - now_ms <= self.time_ms:
                return later, made
        return latest, now_ms


def changelogs_live_longer(options: Options) -> bool:
    """Whether an expired snapshot leaves its changelog behind."""
    changelogs, snapshots = Retention.of_changelogs(options), Retention.of_snapshots(options)
    return (
        changelogs.max_count > snapshots.max_count
        or changelogs.min_count > snapshots.min_count
        or changelogs.time_ms > snapshots.time_ms
    )


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
