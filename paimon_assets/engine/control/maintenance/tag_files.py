"""Delete tags with the files that only they kept.

    tag file ─▶ data files ─▶ metadata

A tag whose snapshot still exists keeps nothing alone. Else its files go, but for those that its
neighbours have: the tags before and after it and the oldest snapshot. A file of the tag that none
of them has no other one has, because history is a line. Files of others never go.
Source: `org.apache.paimon.utils.TagManager`, `org.apache.paimon.tag.TagTimeExpire`.
"""

import datetime as dt
from dataclasses import dataclass

from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.concurrent_changes import Watch
from paimon_assets.engine.control.maintenance.expire_snapshots import delete_files
from paimon_assets.engine.control.maintenance.expiry_plan import ExpiryStep, Holders
from paimon_assets.engine.control.maintenance.references import (
    existing_changelogs,
    key_of,
    metadata_paths,
)
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.segments.segment_registry import HOLD_TAG_PREFIX
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.metadata.tag import Tag


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTag:
    """A tag that was deleted, or would be."""

    tag: Tag
    data_files: int = 0
    data_bytes: int = 0
    metadata_files: int = 0


def delete_tag(store: FileStore, name: str, *, dry_run: bool = False) -> DeletedTag:
    """Delete a tag with the files that only it kept.

    Cost:
        Reads the manifests of the tag and of its neighbours, and those of other branches.
    """
    tag = store.tags.get(name)
    if name.startswith(HOLD_TAG_PREFIX):
        raise InvalidInputError(
            f"Tag '{name}' of table '{store.label}' keeps other engines from deleting the files of"
            " a segment, which belong to somebody else; it stays until the expiration of snapshots"
            " finds that nothing else names them.",
            kind="tag-hold",
            details={"table": store.label, "tag": name},
        )
    return drop_tag(store, tag, dry_run=dry_run)


def drop_tag(store: FileStore, tag: Tag, *, dry_run: bool = False) -> DeletedTag:
    """Delete a tag as `delete_tag`, whatever it is for."""
    watch = Watch.of(store)
    step = _plan(store, tag)
    if not dry_run:
        store.tags.delete(tag.name)
        if watch.has_more() or store.file_io.exists(store.paths.snapshot(tag.snapshot.id)):
            return DeletedTag(tag=tag)  # somebody may need its files by now
        delete_files(store, step.data_paths)
        delete_files(store, step.metadata_paths)
    return DeletedTag(
        tag=tag,
        data_files=len(step.data_paths),
        data_bytes=step.data_bytes,
        metadata_files=len(step.metadata_paths),
    )


def expire_tags(
    store: FileStore, *, clock: Clock | None = None, dry_run: bool = False
) -> list[DeletedTag]:
    """Delete the tags whose retention is over; see `delete_tag`."""
    now_ms = (clock or SystemClock()).now_millis()
    now = dt.datetime.fromtimestamp(now_ms / 1000)  # noqa: DTZ006  # tags say the local time
    over = [
        tag.name
        for tag in store.tags.list()
        if tag.create_time is not None
        and tag.time_retained is not None
        and tag.create_time + tag.time_retained < now
    ]
    return [delete_tag(store, name, dry_run=dry_run) for name in over]


def _plan(store: FileStore, tag: Tag) -> ExpiryStep:
    step = ExpiryStep(snapshot=tag.snapshot)
    neighbours = _neighbours(store, tag)
    if neighbours is None:
        return step
    holders = Holders.of(store, neighbours, existing_changelogs(store))
    going = {key_of(entry): entry for entry in FileStoreScan(store).live_files(tag.snapshot)}
    for key in holders.needed(going.keys()):
        del going[key]
    for entry in going.values():
        step.add(store, entry)
    step.metadata_paths += sorted(metadata_paths(store, tag.snapshot) - holders.metadata(()))
    return step


def _neighbours(store: FileStore, tag: Tag) -> list[Snapshot] | None:
    """Return the snapshots that may share files with a tag; None if it keeps none alone.

    A tag later than the oldest snapshot is none of this history: a rollback that was killed left
    it. What it has is for the cleaning of orphans to find.
    """
    number = tag.snapshot.id
    others = [other.snapshot for other in store.tags.list() if other.name != tag.name]
    ids = store.snapshots.list_ids()
    if any(other.id == number for other in others) or (ids and ids[0] <= number):
        return None
    oldest = store.snapshots.snapshot(ids[0]) if ids else None
    if tag.name.startswith(HOLD_TAG_PREFIX):
        # The one of a commit that a rollback overtook is of no line with the others.
        return others if oldest is None else [*others, oldest]
    earlier = max((s for s in others if s.id < number), key=lambda s: s.id, default=None)
    later = min((s for s in others if s.id > number), key=lambda s: s.id, default=None)
    return [snapshot for snapshot in (earlier, later, oldest) if snapshot is not None]
