"""Removed segments: their registry entries and tags are deleted when no snapshot reads them.

    snapshots and tags expire ─▶ hold tags, oldest first ─▶ rows of the registry

A hold tag keeps the expiration of other engines from external files. With a snapshot that engine
deletes the files that the next one names as deleted, with a tag its live files; it spares the live
files of the nearest tag and of the oldest snapshot. So a hold is deleted when no file of it is
named any more by a snapshot, a changelog, another kind of tag, or a branch. Of files that holds
alone name, the newest hold that has one stays while another of them does. A file that is live in
the newest snapshot counts for none: its removal makes a hold of its own. A hold whose snapshot
exists stays. A row of the registry is deleted last, when no snapshot, tag or branch has a file of
the segment.
"""

from collections.abc import Collection

from msgspec.structs import replace

from paimon_assets.engine.codec.json.segment_json import SegmentList
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance import references as ref
from paimon_assets.engine.control.maintenance.tag_files import drop_tag
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.segments import (
    HOLD_TAG_PREFIX,
    SegmentRegistry,
    external_entries,
    is_live_in,
)
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.fileio.parallel_requests import with_witnesses
from paimon_assets.engine.spec.metadata.snapshot import Snapshot, Tag
from paimon_assets.engine.spec.paths import MAIN_BRANCH
from paimon_assets.engine.spec.segments.segment import Segment, SegmentStatus
from paimon_assets.engine.spec.values import Value

_SETTLED = (SegmentStatus.SUCCESS, SegmentStatus.MARKED_FOR_DELETE)


class RemovedSegments(Value):
    """The deleted entries, or those of a dry run."""

    segments: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    files: int = 0
    """Files of the table's own that only these tags kept, and metadata."""

    @property
    def count(self) -> int:
        """How many segments and tags."""
        return len(self.segments) + len(self.tags)

    def __str__(self) -> str:
        return f"{len(self.segments)} forgotten, {len(self.tags)} hold tags deleted"


@with_witnesses()
def forget_removed(store: FileStore, *, dry_run: bool = False) -> RemovedSegments:
    """Delete the entries of segments that no snapshot of a branch reads, and their tags.

    Cost: three listings without segments; a few, and the manifests of the newest snapshot, if none
    is over. Else those of each hold tag, the deltas of all snapshots, and of each tag the manifests
    of the segments' partitions.
    """
    watch = ref.Watch.of(store)
    tags = [*(status.name for status in watch.tags), *(name for _, name in watch.managed_tags)]
    has_holds = any(HOLD_TAG_PREFIX in name for name in tags)
    if not has_holds and not SegmentRegistry(store=store).load().segments:
        return RemovedSegments()
    newest, ids = store.snapshots.latest(), store.snapshots.list_ids()
    if newest is None or not ids:
        return RemovedSegments()
    try:
        holds = _needless_holds(store, ids[0], newest)
        if watch.has_more():
            return RemovedSegments()  # the list may lack a renamed tag; next run continues
        dropped = [drop_tag(store, tag, dry_run=dry_run) for tag in holds]
        names = frozenset(tag.name for tag in holds)
        segments = _needless_segments(store, newest, names)
    except NotFoundError:
        if store.snapshots.list_ids()[:1] == ids[:1]:
            raise
        return RemovedSegments()  # snapshots expire at the same time; the next run continues
    if watch.has_more():
        segments = []
    if segments and not dry_run:

        def keep_segments(listed: SegmentList) -> SegmentList:
            stay = tuple(segment for segment in listed.segments if segment not in segments)
            return replace(listed, segments=stay)

        SegmentRegistry(store=store).update(keep_segments)
    return RemovedSegments(
        segments=tuple(segment.id for segment in segments),
        tags=tuple(tag.name for tag in holds),
        files=sum(1 + tag.data_files + tag.metadata_files for tag in dropped),
    )


def readable_segments(store: FileStore) -> set[int]:
    """Return the ids of segments that can be read: live ones, and by time travel or a branch."""
    watch = ref.Watch.of(store)
    listed = SegmentRegistry(store=store).load().segments
    newest = store.snapshots.latest()
    past = [] if newest is None else _needless_segments(store, newest, frozenset())
    if watch.has_more():
        past = []  # a renamed tag may have passed by
    return {each.id for each in listed if each.status in _SETTLED and each not in past}


def _needless_holds(store: FileStore, oldest_id: int, newest: Snapshot) -> list[Tag]:
    """Return the hold tags that protect nothing any more, oldest first."""
    holds = [tag for tag in store.tags.list() if tag.name.startswith(HOLD_TAG_PREFIX)]
    holds.sort(key=lambda hold: (hold.snapshot.id, hold.name))
    if not holds or holds[0].snapshot.id >= oldest_id:
        return []
    files = {
        hold.name: {
            ref.key_of(entry)
            for entry in external_entries(store, FileStoreScan(store).live_files(hold.snapshot))
        }
        for hold in holds
    }
    gone = set[ref.FileKey]().union(*files.values())
    gone -= ref.live_among(store, newest, gone)
    protectors = {key: name for name in files for key in files[name] & gone}  # the newest of each
    named = _named_segments(store, gone, frozenset(files))
    stay = {
        hold.name
        for hold in holds
        if hold.snapshot.id >= oldest_id or not named.isdisjoint(files[hold.name])
    }
    named = gone & set[ref.FileKey]().union(*(files[name] for name in stay))
    while more := {protectors[key] for key in named} - stay:
        # Whoever deletes a hold that stays must find its other files spared, too.
        stay |= more
        named = gone & set[ref.FileKey]().union(*(files[name] for name in stay))
    return [hold for hold in holds if hold.name not in stay]


def _named_segments(
    store: FileStore, candidates: Collection[ref.FileKey], besides: frozenset[str]
) -> set[ref.FileKey]:
    if not candidates:
        return set()
    named = ref.named_by_branch(store, candidates, besides=besides)
    return named.union(
        *(ref.named_by_branch(branch, candidates) for branch in ref.other_branches(store))
    )


def _needless_segments(
    store: FileStore, newest: Snapshot, besides: frozenset[str]
) -> list[Segment]:
    """Return the segments that no snapshot, tag or branch has; some tags do not count."""
    if store.paths.branch != MAIN_BRANCH:
        return []
    listed = SegmentRegistry(store=store).load().segments
    settled = [segment for segment in listed if segment.status in _SETTLED]
    keys: dict[int, set[ref.FileKey]] = {
        segment.id: {(segment.partition, 0, file.file_name) for file in segment.files}
        for segment in settled
        if segment.is_visible_to_paimon
    }
    every = set[ref.FileKey]().union(*keys.values())
    live = ref.live_among(store, newest, every)
    past = {number: files for number, files in keys.items() if files.isdisjoint(live)}
    named = _named_segments(store, set[ref.FileKey]().union(*past.values()), besides)
    texts = {
        segment.id
        for segment in settled
        if segment.removed is not None and not segment.is_visible_to_paimon
    }
    readers = _readers(store, besides) if texts else []
    return [
        segment
        for segment in settled
        if (segment.id in past and named.isdisjoint(past[segment.id]))
        or (
            segment.id in texts
            and not any(is_live_in(branch, segment, reader) for branch, reader in readers)
        )
    ]


def _readers(store: FileStore, besides: frozenset[str]) -> list[tuple[FileStore, Snapshot]]:
    readers = []
    for branch in (store, *ref.other_branches(store)):
        readers += [(branch, snapshot) for snapshot in ref.existing_snapshots(branch)]
        for tag in branch.tags.list():
            if branch is not store or tag.name not in besides:
                readers.append((branch, tag.snapshot))
    return readers
