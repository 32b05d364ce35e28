"""Tags: deleted with the files that only they kept, and created by period.

    tag file ─▶ data files ─▶ metadata

A tag whose snapshot still exists keeps nothing alone. Else its files go, but for those that its
neighbours have: the tags before and after it and the oldest snapshot. History is a line, so no
other tag has a file that none of these has. External files never go. Automatic tags get the name of
a period, in local time, at the first snapshot after it:

    daily       2024-01-31       the first snapshot of February 1st
    hourly      2024-01-31 09    the first one at or after 10:00
    two-hours   2024-01-31 08    the first one at or after 10:00

Source: `org.apache.paimon.utils.TagManager`, `org.apache.paimon.tag.TagTimeExpire`,
`org.apache.paimon.tag.TagAutoCreation`, `TagPeriodHandler`.
"""

import datetime as dt
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Self

from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.listeners import follow_change
from paimon_assets.engine.control.maintenance import expire_snapshots as expiry
from paimon_assets.engine.control.maintenance import references as ref
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.segments import HOLD_TAG_PREFIX
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.parallel_requests import with_witnesses
from paimon_assets.engine.spec.metadata.snapshot import Snapshot, Tag
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.values import Value


class DeletedTag(Value):
    """A tag that was deleted, or would be."""

    tag: Tag
    data_files: int = 0
    data_bytes: int = 0
    metadata_files: int = 0


def delete_tag(store: FileStore, name: str, *, dry_run: bool = False) -> DeletedTag:
    """Delete a tag with the files that only it kept. Cost: its manifests, and its neighbours'."""
    tag = store.tags.get(name)
    store.snapshots.check(tag.snapshot)
    if name.startswith(HOLD_TAG_PREFIX):
        message = (
            f"Tag '{name}' of table '{store.label}' keeps other engines from deleting the files of"
            " a segment, which have another owner; it stays until the expiration of snapshots"
            " finds that nothing else names them."
        )
        raise InvalidInputError(message, kind="tag-hold", table=store.label, tag=name)
    if dry_run:
        return drop_tag(store, tag, dry_run=True)
    with store.tags.undoing():
        return drop_tag(store, store.tags.get(name))


@with_witnesses()
def drop_tag(store: FileStore, tag: Tag, *, dry_run: bool = False) -> DeletedTag:
    """Delete a tag as `delete_tag`, a hold tag too, and beside an erasure."""
    watch = ref.Watch.of(store)
    step = _plan(store, tag)
    if not dry_run:
        store.tags.delete(tag.name)
        follow_change(store)
        if watch.has_more() or store.file_io.exists(store.paths.snapshot(tag.snapshot.id)):
            return DeletedTag(tag=tag)  # its files may be needed by now
        expiry.delete_files(store, step.data_paths)
        expiry.delete_files(store, step.metadata_paths)
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


def _plan(store: FileStore, tag: Tag) -> expiry.ExpiryStep:
    step = expiry.ExpiryStep(snapshot=tag.snapshot)
    neighbours = _neighbours(store, tag)
    if neighbours is None:
        return step
    holders = expiry.Holders.of(store, neighbours, ref.existing_changelogs(store))
    going = {ref.key_of(entry): entry for entry in FileStoreScan(store).live_files(tag.snapshot)}
    for key in holders.needed_files(going.keys()):
        del going[key]
    for entry in going.values():
        step.add(store, entry)
    step.metadata_paths += sorted(ref.metadata_paths(store, tag.snapshot) - holders.metadata(()))
    return step


def _neighbours(store: FileStore, tag: Tag) -> list[Snapshot] | None:
    """Return the snapshots that may share files with a tag; None if it keeps none alone.

    A tag later than the oldest snapshot was left by a rollback that was killed; its files are
    orphans.
    """
    number = tag.snapshot.id
    tagged = [other.snapshot for other in store.tags.list() if other.name != tag.name]
    ids = store.snapshots.list_ids()
    if any(other.id == number for other in tagged) or (ids and ids[0] <= number):
        return None
    oldest = store.snapshots.snapshot(ids[0]) if ids else None
    if tag.name.startswith(HOLD_TAG_PREFIX):
        # A commit that a rollback overtook is in no line with the other tags.
        return tagged if oldest is None else [*tagged, oldest]
    earlier = max((s for s in tagged if s.id < number), key=lambda s: s.id, default=None)
    later = min((s for s in tagged if s.id > number), key=lambda s: s.id, default=None)
    return [snapshot for snapshot in (earlier, later, oldest) if snapshot is not None]


_HOURS = {opt.TagPeriod.DAILY: 24, opt.TagPeriod.HOURLY: 1, opt.TagPeriod.TWO_HOURS: 2}


class AutoTags(Value):
    """The outcome of automatic tagging, made or planned."""

    created: tuple[str, ...]
    deleted: tuple[DeletedTag, ...]


class Periods(Value):
    """The periods of a table's automatic tags, and how they are called."""

    hours: int
    form: str
    """As `strftime` takes it."""

    @classmethod
    def of(cls, options: opt.Options) -> Self:
        period = options.get(opt.TAG_CREATION_PERIOD)
        formatter = options.get(opt.TAG_PERIOD_FORMATTER)
        day = "%Y-%m-%d" if formatter is opt.TagPeriodFormat.WITH_DASHES else "%Y%m%d"
        space = "" if formatter is opt.TagPeriodFormat.WITHOUT_DASHES_AND_SPACES else " "
        form = day if period is opt.TagPeriod.DAILY else f"{day}{space}%H"
        return cls(hours=_HOURS[period], form=form)

    @property
    def length(self) -> dt.timedelta:
        return dt.timedelta(hours=self.hours)

    def begin(self, time: dt.datetime) -> dt.datetime:
        hour = time.hour - time.hour % self.hours
        return time.replace(hour=hour, minute=0, second=0, microsecond=0)

    def name(self, begin: dt.datetime) -> str:
        return begin.strftime(self.form)

    def of_name(self, name: str) -> dt.datetime | None:
        """Return the begin of the period a tag is called by, None for other tags."""
        try:
            begin = dt.datetime.strptime(name, self.form)  # noqa: DTZ007  # local, as names are
        except ValueError:
            return None
        return begin if self.name(begin) == name else None


def due_tags(
    periods: Periods,
    times: Iterable[tuple[Snapshot, dt.datetime]],
    tagged: Iterable[dt.datetime],
    delay: dt.timedelta,
    *,
    completes: bool = False,
) -> Iterator[tuple[str, Snapshot]]:
    """Yield the tags that snapshots deserve."""
    begins = sorted(tagged)
    for snapshot, time in times:
        past = bisect_right(begins, time)
        last = begins[past - 1] if past else None
        if last is None or time - delay >= last + 2 * periods.length:
            if last is None or not completes:
                last = periods.begin(time) - 2 * periods.length
            last += periods.length
            insort(begins, last)
            yield periods.name(last), snapshot


def create_auto_tags(store: FileStore, *, dry_run: bool = False) -> AutoTags:
    """Make the automatic tags that are due on a branch, and delete the oldest beyond the limit."""
    options = store.schema.typed_options
    mode = options.get(opt.TAG_AUTOMATIC_CREATION)
    if mode is opt.TagCreation.NONE:
        return AutoTags(created=(), deleted=())
    periods = Periods.of(options)
    tagged = _auto_tags(store, periods)
    last_id = tagged[-1].snapshot_id if tagged else 0
    begins = [tag.begin for tag in tagged]
    later = [snapshot for snapshot in ref.existing_snapshots(store) if snapshot.id > last_id]
    delay = dt.timedelta(milliseconds=options.get(opt.TAG_CREATION_DELAY))
    completes = options.get(opt.TAG_AUTOMATIC_COMPLETION)
    times = []
    for snapshot in later:
        millis = snapshot.watermark if mode is opt.TagCreation.WATERMARK else snapshot.time_millis
        if millis is not None and millis >= 0:  # a watermark may be the least of all numbers
            times.append((snapshot, dt.datetime.fromtimestamp(millis / 1000)))  # noqa: DTZ006
    due = list(due_tags(periods, times, begins, delay, completes=completes))
    if dry_run:
        return AutoTags(created=tuple(name for name, _ in due), deleted=())
    kept_ms = options.get(opt.TAG_DEFAULT_TIME_RETAINED)
    retention = None if kept_ms is None else dt.timedelta(milliseconds=kept_ms)
    for name, snapshot in due:
        store.tags.create(name, snapshot, time_retained=retention, ignore_if_exists=True)
    if due:
        follow_change(store)
    most = options.get(opt.TAG_NUM_RETAINED_MAX)
    over = [] if most is None else _auto_tags(store, periods)[: -most or None]
    gone = tuple(delete_tag(store, tag.name) for tag in over)
    return AutoTags(created=tuple(name for name, _ in due), deleted=gone)


class _AutoTag(NamedTuple):
    snapshot_id: int
    begin: dt.datetime
    name: str


def _auto_tags(store: FileStore, periods: Periods) -> list[_AutoTag]:
    return sorted(
        _AutoTag(tag.snapshot.id, begin, tag.name)
        for tag in store.tags.list()
        if (begin := periods.of_name(tag.name)) is not None
    )
