"""Expire old snapshots and changelogs, oldest first, each with the files that nothing else needs.

    hint ─▶ changelogs kept? ─▶ some snapshot files ─▶ needed by now? ─▶ their files ─▶ next ones
    hint to the oldest ─▶ changelog file ─▶ its data files ─▶ its list and manifests ─▶ the next one

Numbers decide which snapshots stay (`Retention`), then readers: consumers, and snapshots that a
command has to find again. All is planned before anything is deleted: data files that a later
snapshot deleted, and that no other snapshot, tag, branch or changelog has; metadata that only
expired ones have. Files that the oldest of them itself deleted are looked at again: an expiration
that was killed may have left them. Unlike Java, snapshots go before their files. After each one
an expiration checks that the oldest kept snapshot still exists, and before it deletes files that
no new name needs one (`Watch`); else it stops.
Source: `org.apache.paimon.table.ExpireSnapshotsImpl`, `ExpireChangelogImpl`,
`org.apache.paimon.operation.SnapshotDeletion`, `org.apache.paimon.utils.TagManager`,
`org.apache.paimon.options.ExpireConfig`.
"""

import logging
from bisect import bisect_left
from collections.abc import Callable, Collection, Container, Iterable, Sequence
from contextlib import suppress
from typing import Self

from msgspec import Struct, field

from paimon_assets.engine.codec.json.metadata_json import snapshot_to_json
from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.ledgers import (
    forget_older,
    ledgers_named,
    point_to,
    pointed_ledgers,
)
from paimon_assets.engine.control.listeners import follow_change
from paimon_assets.engine.control.maintenance import references as ref
from paimon_assets.engine.control.managers.snapshot_manager import SnapshotManager
from paimon_assets.engine.control.publishing import publish_once
from paimon_assets.engine.control.rollback import rolled_back_to
from paimon_assets.engine.control.scan.segment_scan import keep_ids
from paimon_assets.engine.errors import InvalidInputError, NotFoundError
from paimon_assets.engine.fileio.owned_deletion import delete_owned
from paimon_assets.engine.fileio.parallel_requests import with_witnesses
from paimon_assets.engine.spec.metadata.manifest import FileKind, ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.paths import EARLIEST, LATEST, MAIN_BRANCH
from paimon_assets.engine.spec.values import Value


class Retention(Value):
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
                f"'{opt.SNAPSHOT_NUM_RETAINED_MIN.key}' <= '{opt.SNAPSHOT_NUM_RETAINED_MAX.key}' "
                f"and 1 <= '{opt.SNAPSHOT_EXPIRE_LIMIT.key}'.",
                kind="retention",
            )

    @classmethod
    def of_snapshots(cls, options: opt.Options) -> Self:
        return cls(
            min_count=options.get(opt.SNAPSHOT_NUM_RETAINED_MIN),
            max_count=options.get(opt.SNAPSHOT_NUM_RETAINED_MAX),
            time_ms=options.get(opt.SNAPSHOT_TIME_RETAINED),
            limit=options.get(opt.SNAPSHOT_EXPIRE_LIMIT),
        )

    @classmethod
    def of_changelogs(cls, options: opt.Options) -> Self:
        base, time_ms = cls.of_snapshots(options), options.get(opt.CHANGELOG_TIME_RETAINED)
        fewest = options.get(opt.CHANGELOG_NUM_RETAINED_MIN)
        most = options.get(opt.CHANGELOG_NUM_RETAINED_MAX)
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
        """Return the time of a snapshot, with its number, or of the next one that has a time.

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


def changelogs_live_longer(options: opt.Options) -> bool:
    """Whether an expired snapshot leaves its changelog behind."""
    changelogs, snapshots = Retention.of_changelogs(options), Retention.of_snapshots(options)
    return (
        changelogs.max_count > snapshots.max_count
        or changelogs.min_count > snapshots.min_count
        or changelogs.time_ms > snapshots.time_ms
    )


class ExpiryStep(Struct, kw_only=True):
    """The files that go with one snapshot."""

    snapshot: Snapshot
    data_paths: list[str] = field(default_factory=list)
    data_bytes: int = 0
    """The bytes of the data files, without files that belong to them."""
    metadata_paths: list[str] = field(default_factory=list)

    def add(self, store: FileStore, entry: ManifestEntry) -> None:
        """Plan to delete a data file, unless it is external."""
        paths = list(ref.data_file_paths(store, entry))
        self.data_paths += paths
        self.data_bytes += entry.file.file_size if paths else 0


class Holders(Value):
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
            branches=tuple(ref.other_branches(store)),
            changelogs=tuple(changelogs),
        )

    def tag_before(self, snapshot_id: int) -> Snapshot | None:
        """Return the newest tagged snapshot before one; no earlier tag has a file that it lacks.

        For a file that a snapshot deletes was live in all snapshots since its own.
        """
        position = bisect_left(self.tags, snapshot_id, key=lambda tagged: tagged.id)
        return self.tags[position - 1] if position else None

    def needed_files(self, candidates: Collection[ref.FileKey]) -> set[ref.FileKey]:
        """Return the files that something beside a tag of this branch needs."""
        needed = set[ref.FileKey]()
        if not candidates:
            return needed
        for snapshot in self.survivors:
            needed |= ref.live_among(self.store, snapshot, candidates)
        for branch in self.branches:
            needed |= ref.needed_by_branch(branch, candidates)
        return needed | (ref.needed_by_changelogs(self.store, self.changelogs) & set(candidates))

    def metadata(self, tags: Iterable[Snapshot]) -> set[str]:
        """Return the metadata files that survivors, some tags, branches and changelogs need."""
        paths = set[str]()
        for snapshot in self.survivors:
            paths |= ref.metadata_paths(self.store, snapshot) | ref.changelog_paths(
                self.store, snapshot
            )
        for tagged in tags:
            paths |= ref.metadata_paths(self.store, tagged)
        for branch in self.branches:
            for snapshot in ref.existing_snapshots(branch):
                paths |= ref.metadata_paths(branch, snapshot) | ref.changelog_paths(
                    branch, snapshot
                )
            for tag in branch.tags.list():
                paths |= ref.metadata_paths(branch, tag.snapshot)
            for changelog in ref.existing_changelogs(branch):
                paths |= ref.retained_changelog_paths(branch, changelog)
        for changelog in self.changelogs:
            paths |= ref.retained_changelog_paths(self.store, changelog)
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
    paths = store.paths
    lists = (paths.changelog_directory, paths.tag_directory, paths.branches_directory)
    reads = store.manifests.unread_lists((*expired, *survivors))
    with store.file_io.ahead(lists=lists, reads=reads):
        holders = Holders.of(store, survivors, (*ref.existing_changelogs(store), *kept))
        steps = [ExpiryStep(snapshot=snapshot) for snapshot in expired]
        _plan_data(store, steps, holders, keeps_changelogs=keeps_changelogs)
        _plan_metadata(store, steps, holders)
    return steps


def _plan_data(
    store: FileStore, steps: list[ExpiryStep], holders: Holders, *, keeps_changelogs: bool
) -> None:
    going: dict[ref.FileKey, tuple[ExpiryStep, ManifestEntry]] = {}
    chain = [*(step.snapshot for step in steps), holders.survivors[0]]
    for position, snapshot in enumerate(chain):
        step = steps[max(position - 1, 0)]
        dropped = dict[ref.FileKey, ManifestEntry]()
        with suppress(NotFoundError):  # an expiration of another engine died in the middle
            dropped = ref.dropped_by(store, snapshot)
        tagged = holders.tag_before(snapshot.id)
        if tagged is not None:
            for key in ref.live_among(store, tagged, dropped):
                del dropped[key]
        going |= {key: (step, entry) for key, entry in dropped.items()}
    if not keeps_changelogs:
        for step in steps:
            for entry in ref.changelog_entries(store, step.snapshot):
                going[ref.key_of(entry)] = (step, entry)
    for key in holders.needed_files(going.keys()):
        del going[key]
    for step, entry in going.values():
        step.add(store, entry)


def _plan_metadata(store: FileStore, steps: list[ExpiryStep], holders: Holders) -> None:
    going: dict[str, ExpiryStep] = {}
    for step in steps:
        with suppress(NotFoundError):
            going |= dict.fromkeys(ref.metadata_paths(store, step.snapshot), step)
        going |= dict.fromkeys(ref.changelog_paths(store, step.snapshot), step)
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
    needed |= ref.ledger_paths(store, ledgers)
    for path in sorted(going.keys() - needed):
        going[path].metadata_paths.append(path)


logger = logging.getLogger(__name__)

_STRAY = (
    "snapshot {above}, which is not built on snapshot {below}: see the error 'snapshot-gap' of the "
    "next commit"
)
OVERTAKEN = "a rollback, or a new tag or branch, while it ran; the next run continues"


class ExpiredSnapshots(Value):
    """The outcome of an expiration, made or planned."""

    snapshot_ids: tuple[int, ...] = ()
    data_files: int = 0
    """With files that belong to them, such as file indexes."""
    data_bytes: int = 0
    metadata_files: int = 0
    held_by: str = ""
    """Reason why snapshots stay that are old enough to expire; empty without one."""
    has_more: bool = False
    """Whether more may be old enough: the limit was reached, or another process interfered."""

    @classmethod
    def of(cls, steps: Sequence[ExpiryStep], held_by: str, *, has_more: bool = False) -> Self:
        return cls(
            snapshot_ids=tuple(step.snapshot.id for step in steps),
            data_files=sum(len(step.data_paths) for step in steps),
            data_bytes=sum(step.data_bytes for step in steps),
            metadata_files=sum(len(step.metadata_paths) for step in steps),
            held_by=held_by,
            has_more=has_more and bool(steps),
        )


@with_witnesses()
def expire_snapshots(
    store: FileStore,
    *,
    retention: Retention | None = None,
    clock: Clock | None = None,
    dry_run: bool = False,
) -> ExpiredSnapshots:
    """Let the snapshots of a branch expire that are old enough. Cost: see `plan_expiry`."""
    now_ms, read = (clock or SystemClock()).now_millis(), store.snapshots.snapshot_or_none
    options = store.schema.typed_options
    keep = retention or Retention.of_snapshots(options)
    idle_ms = options.get(opt.CONSUMER_EXPIRATION_TIME)
    idle = () if idle_ms is None else store.consumers.expire(idle_ms, dry_run=dry_run)
    watch = ref.Watch.of(store)
    newest, ids = next(ref.listed_snapshots(store))
    if newest is None or newest.id not in ids:
        return ExpiredSnapshots(held_by=OVERTAKEN if ids else "")
    if (gap := store.snapshots.break_at(newest)) is not None:
        return ExpiredSnapshots(held_by=_STRAY.format(above=gap[1], below=gap[0]))
    first_retained = keep.first_retained(
        ids[0], newest.id, now_ms=now_ms, time_of=lambda number: _time(read(number))
    )
    held_by, is_limited = "", first_retained - ids[0] >= keep.limit
    for consumer, following in store.consumers.list().items():
        # A consumer needs the snapshot before, too: it reads an overwrite as a difference.
        if following - 1 < first_retained and consumer not in idle:
            first_retained, held_by = max(following - 1, ids[0]), f"consumer '{consumer}'"
    if watch.rollbacks and min(watch.rollbacks) < first_retained:
        first_retained = max(min(watch.rollbacks), ids[0])
        held_by = f"a rollback to snapshot {first_retained} that has not finished"
    position = bisect_left(ids, first_retained)
    if not position:
        return ExpiredSnapshots(held_by=held_by)
    with store.file_io.ahead(reads=map(store.paths.snapshot, ids[: position + 1])):
        expired = [snapshot for number in ids[:position] if (snapshot := read(number)) is not None]
        survivor = read(ids[position])
    if not expired or survivor is None:
        return ExpiredSnapshots(held_by=OVERTAKEN if expired else held_by)
    shared = {snapshot.id for snapshot in expired if _is_in_main(store, snapshot)}
    try:
        steps = plan_expiry(store, expired, survivor, newest)
    except NotFoundError:  # another expiration deletes a snapshot before its files
        if store.snapshots.is_same(expired[0]):
            raise
        return ExpiredSnapshots(held_by=OVERTAKEN)
    if not dry_run:
        keep_ids(store, now_ms)
        _keep_ledgers(store, expired, survivor)
        count = _delete(store, steps, survivor, watch, shared)
        if count < len(steps):
            return ExpiredSnapshots.of(steps[:count], OVERTAKEN, has_more=True)
        follow_change(store)
    return ExpiredSnapshots.of(steps, held_by, has_more=is_limited)


def _time(snapshot: Snapshot | None) -> int | None:
    return None if snapshot is None else snapshot.time_millis


def _keep_ledgers(store: FileStore, expired: Sequence[Snapshot], survivor: Snapshot) -> None:
    """Point to the ledgers that the survivor, a commit of another engine, does not name."""
    last: dict[str, Snapshot] = {}
    for snapshot in expired:
        last |= dict.fromkeys(ledgers_named(snapshot), snapshot)
    for key, snapshot in last.items():
        ledger = store.paths.ledger(snapshot.properties[key])
        if key not in survivor.properties and store.file_io.exists(ledger):
            point_to(store, snapshot, key)
    if last:
        forget_older(store)


def _is_in_main(store: FileStore, snapshot: Snapshot) -> bool:
    """Whether main has a snapshot of another branch: it began there, or main became that branch."""
    if store.paths.branch == MAIN_BRANCH:
        return False
    main = SnapshotManager(store.file_io, store.paths.of_branch(MAIN_BRANCH))
    return main.is_same(snapshot)


_STEPS_AT_ONCE = 25
"""Snapshots that go before the files of the first: so many leave orphans where it is stopped."""


def _delete(
    store: FileStore,
    steps: list[ExpiryStep],
    survivor: Snapshot,
    watch: ref.Watch,
    shared: Container[int],
) -> int:
    """Delete some at a time, and return the number of steps before another writer interfered."""
    keeps_changelogs = changelogs_live_longer(store.schema.typed_options)
    for count in range(0, len(steps), _STEPS_AT_ONCE):
        some = steps[count : count + _STEPS_AT_ONCE]
        if not store.snapshots.is_same(survivor):
            return count
        is_last = some[-1] is steps[-1]
        oldest = survivor if is_last else steps[count + _STEPS_AT_ONCE].snapshot
        # First: by it an erasure sees that the snapshot which it has replaced expired meanwhile.
        store.snapshots.write_earliest_hint(oldest.id)
        if not _delete_snapshots(store, some, survivor, keeps_changelogs=keeps_changelogs):
            return count
        own = (step.snapshot for step in some if step.snapshot.id not in shared)
        if any(_is_in_main(store, snapshot) for snapshot in own) or watch.has_more():
            return count  # files of these snapshots become orphans, but for those of the last
        if not store.snapshots.is_same(survivor):  # by a rollback whose mark is gone again
            return count
        data_paths = [path for step in some for path in step.data_paths]
        delete_files(store, [*data_paths, *(path for step in some for path in step.metadata_paths)])
        delete_empty_partitions(store, data_paths)
        logger.debug("table %s: snapshots up to %d expired", store.label, some[-1].snapshot.id)
    if keeps_changelogs and (kept := store.changelogs.list_ids()):  # a rollback takes all
        directory = store.paths.changelog_directory
        store.file_io.replace(f"{directory}/{EARLIEST}", str(kept[0]).encode())
        store.file_io.replace(f"{directory}/{LATEST}", str(kept[-1]).encode())
    return len(steps)


def _delete_snapshots(
    store: FileStore, steps: Sequence[ExpiryStep], survivor: Snapshot, *, keeps_changelogs: bool
) -> bool:
    """Delete snapshots one by one; False if the table is rolled back or dropped meanwhile."""
    for count, step in enumerate(steps, 1):
        number, data = step.snapshot.id, snapshot_to_json(step.snapshot)
        is_late = (
            keeps_changelogs
            and publish_once(store.file_io, store.paths.changelog(number), data)
            and store.snapshots.snapshot_or_none(number) is None
        )
        if is_late and store.changelogs.earliest_hint() > number:  # it expired meanwhile
            store.file_io.delete_file(store.paths.changelog(number))
        store.file_io.delete_file(store.paths.snapshot(number))
        if not store.snapshots.is_same(survivor):
            _put_back(store, [each.snapshot for each in steps[:count]], survivor)
            return False
    return True


def _put_back(store: FileStore, deleted: Sequence[Snapshot], survivor: Snapshot) -> None:
    """Restore the target of a rollback, with the table there and no older snapshot left.

    The mark names the target. A rollback that has finished, and removed its mark, found its
    snapshot missing and put it back itself, unless that is the one which was deleted last. A
    rollback to a tag has put another one there.
    """
    tags = store.file_io.list_directory(store.paths.tag_directory)
    marks = rolled_back_to(status.name for status in tags)
    marked = [snapshot for snapshot in deleted if snapshot.id in marks]
    ids, last = store.snapshots.list_ids(), deleted[-1]
    is_replaced = survivor.id not in ids and max(ids, default=0) > survivor.id
    if is_replaced or store.snapshots.is_same(survivor):
        return  # an erasure on HDFS, which has no step that replaces a file
    store.snapshots.forget_earliest()  # numbers are used again
    for snapshot in marked or [last]:
        is_next = not ids or ids[0] == snapshot.id + 1 or (bool(marked) and ids[0] > snapshot.id)
        if is_next and store.schemas.is_same(store.schema):
            path = store.paths.snapshot(snapshot.id)
            publish_once(store.file_io, path, snapshot_to_json(snapshot))


def delete_files(store: FileStore, paths: Iterable[str]) -> None:
    """Delete files of a table; several at once where the storage is far."""
    listed = list(paths)
    for path in listed:
        directory, _, name = path.rpartition("/")
        if directory == store.paths.manifest_directory:
            store.manifests.forget(name)
    delete_owned(store.file_io, store.roots, listed)


def delete_empty_partitions(store: FileStore, paths: Iterable[str]) -> None:
    """Delete the empty directories of buckets and partitions that files were deleted from.

    Only below the table's directory, and only on local storage: elsewhere an empty directory costs
    nothing, and a look at each does.
    """
    if store.file_io.spec.scheme != "file":
        return
    buckets = {path.rpartition("/")[0] for path in paths} if store.schema.partition_keys else ()
    for bucket in buckets:
        directory = bucket
        for _ in range(1 + len(store.schema.partition_keys)):
            inside = directory.startswith(f"{store.paths.table}/")
            if not inside or not store.file_io.delete_empty_directory(directory):
                break
            directory = directory.rpartition("/")[0]


@with_witnesses()
def expire_changelogs(
    store: FileStore,
    *,
    retention: Retention | None = None,
    clock: Clock | None = None,
    dry_run: bool = False,
) -> ExpiredSnapshots:
    """Let the changelogs of a branch expire that are old enough; the newest one always stays."""
    now_ms = (clock or SystemClock()).now_millis()
    watch = ref.Watch.of(store)
    keep = retention or Retention.of_changelogs(store.schema.typed_options)
    newest, oldest = store.snapshots.latest(), store.snapshots.earliest_id()
    # A changelog whose snapshot is still there expires with its snapshot.
    changelogs = [log for log in ref.existing_changelogs(store) if oldest and log.id < oldest]
    if newest is None or oldest is None or not changelogs:
        return ExpiredSnapshots()
    ids = [changelog.id for changelog in changelogs]

    def time_of(number: int) -> int | None:
        changelog = store.changelogs.changelog_or_none(number)
        return _time(changelog or store.snapshots.snapshot_or_none(number))

    first_retained = keep.first_retained(ids[0], newest.id, now_ms=now_ms, time_of=time_of)
    needed = store.consumers.min_next_snapshot()
    held_by = "a consumer" if needed is not None and needed < first_retained else ""
    is_limited = first_retained - ids[0] >= keep.limit
    first_retained = min(first_retained, ids[-1], first_retained if needed is None else needed)
    count = bisect_left(ids, first_retained)
    survivors = (store.snapshots.snapshot(oldest), newest)
    steps = _plan(store, changelogs[:count], changelogs[count:], survivors) if count else []
    if steps and not dry_run:
        # First: by it a slow expiration of snapshots sees that its changelog is expired already.
        hint = f"{store.paths.changelog_directory}/{EARLIEST}"
        store.file_io.replace(hint, str(ids[count]).encode())
        for number, step in enumerate(steps):
            store.file_io.delete_file(store.paths.changelog(step.snapshot.id))
            if watch.has_more() or not store.snapshots.is_same(survivors[0]):
                # Its files may be needed by now: by a new name, or by the target of a rollback.
                return ExpiredSnapshots.of(steps[:number], OVERTAKEN, has_more=True)
            delete_files(store, step.data_paths)
            delete_files(store, step.metadata_paths)
    return ExpiredSnapshots.of(steps, held_by, has_more=is_limited)


def _plan(
    store: FileStore,
    expired: Sequence[Snapshot],
    kept: Sequence[Snapshot],
    survivors: Sequence[Snapshot],
) -> list[ExpiryStep]:
    """Return the files to delete with each changelog; appended files may still be live."""
    holders = Holders.of(store, survivors, kept)
    needed_metadata = holders.metadata(holders.tags)
    steps: list[ExpiryStep] = []
    for changelog in expired:
        step = ExpiryStep(snapshot=changelog)
        going = {
            ref.key_of(entry): entry
            for entry in ref.retained_changelog(store, changelog)
            if entry.kind is FileKind.ADD
        }
        held = holders.needed_files(going.keys())
        tagged = next((tag for tag in holders.tags if tag.id >= changelog.id), None)
        if tagged is not None:
            held |= ref.live_among(store, tagged, going.keys())
        for key, entry in going.items():
            if key not in held:
                step.add(store, entry)
        step.metadata_paths += sorted(
            ref.retained_changelog_paths(store, changelog) - needed_metadata
        )
        steps.append(step)
    return steps
