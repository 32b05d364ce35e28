"""Expire changelogs that outlived their snapshots; see `retention` for how long they stay.

    changelog file ─▶ its data files ─▶ its list and manifests ─▶ the next one ─▶ hint to the oldest

Source: `org.apache.paimon.table.ExpireChangelogImpl`.
"""

from bisect import bisect_left
from collections.abc import Sequence

from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.concurrent_changes import Watch
from paimon_assets.engine.control.maintenance.expire_snapshots import (
    OVERTAKEN,
    ExpiredSnapshots,
    delete_files,
)
from paimon_assets.engine.control.maintenance.expiry_plan import ExpiryStep, Holders
from paimon_assets.engine.control.maintenance.references import (
    existing_changelogs,
    key_of,
    live_among,
    retained_changelog,
    retained_changelog_paths,
)
from paimon_assets.engine.control.maintenance.retention import Retention
from paimon_assets.engine.spec.metadata.manifest import FileKind
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.paths import EARLIEST


def expire_changelogs(
    store: FileStore,
    *,
    retention: Retention | None = None,
    clock: Clock | None = None,
    dry_run: bool = False,
) -> ExpiredSnapshots:
    """Let the changelogs of a branch expire that are old enough; the newest one always stays.

    Args, returns, raises:
        As `expire_snapshots`.
    """
    now_ms = (clock or SystemClock()).now_millis()
    watch = Watch.of(store)
    keep = retention or Retention.of_changelogs(store.schema.typed_options)
    newest, oldest = store.snapshots.latest(), store.snapshots.earliest_id()
    # One that its snapshot did not outlive yet is the snapshot's.
    changelogs = [log for log in existing_changelogs(store) if oldest and log.id < oldest]
    if newest is None or oldest is None or not changelogs:
        return ExpiredSnapshots()
    ids = [changelog.id for changelog in changelogs]
    first_retained = keep.first_retained(
        ids[0], newest.id, now_ms=now_ms, time_of=lambda number: _time_of(store, number)
    )
    needed = store.consumers.min_next_snapshot()
    held_by = "a consumer" if needed is not None and needed < first_retained else ""
    first_retained = min(first_retained, ids[-1], first_retained if needed is None else needed)
    count = bisect_left(ids, first_retained)
    survivors = (store.snapshots.snapshot(oldest), newest)
    steps = _plan(store, changelogs[:count], changelogs[count:], survivors) if count else []
    if steps and not dry_run:
        for number, step in enumerate(steps):
            store.file_io.delete_file(store.paths.changelog(step.snapshot.id))
            if watch.has_more() or not store.snapshots.is_same(survivors[0]):
                # Somebody may need its files by now: a new name, or what a rollback went to.
                return ExpiredSnapshots.of(steps[:number], OVERTAKEN)
            delete_files(store, step.data_paths)
            delete_files(store, step.metadata_paths)
        hint = f"{store.paths.changelog_directory}/{EARLIEST}"
        store.file_io.replace(hint, str(ids[count]).encode())
    return ExpiredSnapshots.of(steps, held_by)


def _time_of(store: FileStore, number: int) -> int | None:
    found = store.changelogs.changelog_or_none(number) or store.snapshots.snapshot_or_none(number)
    return None if found is None else found.time_millis


def _plan(
    store: FileStore,
    expired: Sequence[Snapshot],
    kept: Sequence[Snapshot],
    survivors: Sequence[Snapshot],
) -> list[ExpiryStep]:
    """Return the files to delete with each changelog.

    Appended files that serve as changelog may still be live in snapshots and tags.
    """
    holders = Holders.of(store, survivors, kept)
    needed_metadata = holders.metadata(holders.tags)
    steps: list[ExpiryStep] = []
    for changelog in expired:
        step = ExpiryStep(snapshot=changelog)
        going = {
            key_of(entry): entry
            for entry in retained_changelog(store, changelog)
            if entry.kind is FileKind.ADD
        }
        held = holders.needed(going.keys())
        tagged = next((tag for tag in holders.tags if tag.id >= changelog.id), None)
        if tagged is not None:
            held |= live_among(store, tagged, going.keys())
        for key, entry in going.items():
            if key not in held:
                step.add(store, entry)
        step.metadata_paths += sorted(retained_changelog_paths(store, changelog) - needed_metadata)
        steps.append(step)
    return steps
