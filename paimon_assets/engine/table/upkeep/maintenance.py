"""Maintenance: what keeps a table healthy, task by task, in the order that frees the most.

A task is done in pieces, each of them whole: stopped after any of them (`until_ms`), the next run
goes on where this one was. Repeating a task that is done finds nothing to do.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from paimon_assets.engine.contract.tasks.task_batch import TaskRunner
from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.auto_tags import create_auto_tags
from paimon_assets.engine.control.maintenance.compact_manifests import compact_manifests
from paimon_assets.engine.control.maintenance.expire_changelogs import expire_changelogs
from paimon_assets.engine.control.maintenance.expire_partitions import expire_partitions
from paimon_assets.engine.control.maintenance.expire_snapshots import (
    ExpiredSnapshots,
    expire_snapshots,
)
from paimon_assets.engine.control.maintenance.orphan_files import DAY_MS, clean_orphan_files
from paimon_assets.engine.control.maintenance.past_segments import forget_past
from paimon_assets.engine.control.maintenance.refused_batches import (
    DEFAULT_RETENTION_MS,
    drop_refused,
)
from paimon_assets.engine.control.maintenance.retention import Retention
from paimon_assets.engine.control.maintenance.tag_files import expire_tags
from paimon_assets.engine.control.managers.commit_history import NewUser
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.upkeep.analyze import analyze

logger = logging.getLogger(__name__)


class MaintenanceTask(StrEnum):
    """A task of maintenance; tasks run in this order."""

    EXPIRE_PARTITIONS = "expire_partitions"
    """Empty partitions older than `partition.expiration-time`, if the table sets it."""
    COMPACT_MANIFESTS = "compact_manifests"
    """Write what is live into few manifests."""
    CREATE_TAGS = "create_tags"
    """Make automatic tags that are due, if the table sets `tag.automatic-creation`."""
    ANALYZE = "analyze"
    """Compute statistics of all rows; reads the whole table."""
    EXPIRE_TAGS = "expire_tags"
    EXPIRE_SNAPSHOTS = "expire_snapshots"
    """With the segments, and the tags that hold their files, that nothing can read any more."""
    EXPIRE_CHANGELOGS = "expire_changelogs"
    DROP_REFUSED = "drop_refused"
    """Drop batches that an audit kept out and that are old enough, with their files."""
    CLEAN_ORPHANS = "clean_orphans"


CHEAP_TASKS = tuple(task for task in MaintenanceTask if task is not MaintenanceTask.ANALYZE)
"""The tasks that read no rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceReport:
    """The report of a task, made or planned."""

    task: MaintenanceTask
    count: int = 0
    """Snapshots, tags, changelogs, partitions, batches, rows or files: what the task is about."""
    files: int = 0
    """Files that were deleted."""
    total_bytes: int = 0
    """The total bytes of data files and orphans; metadata is not counted."""
    note: str = ""
    """What a person should know; empty if all went as always."""
    is_complete: bool = True
    """False if there was no time left."""


@dataclass(frozen=True, kw_only=True)
class Maintenance:
    """Maintenance of one branch of a table.

    >>> table.maintenance().run(MaintenanceTask.EXPIRE_SNAPSHOTS)  # doctest: +SKIP
    """

    store: FileStore
    dry_run: bool = False
    """Report what would be done; delete and commit nothing."""
    orphans_older_than_ms: int = DAY_MS
    """Younger files may belong to a write that is still to be committed."""
    refused_older_than_ms: int = DEFAULT_RETENTION_MS
    """How long batches stay that an audit kept out."""
    expire_before: int | None = None
    """Id of a snapshot: all before it expire and no other, whatever the table's options say."""
    until_ms: int | None = None
    """Epoch milliseconds after which no further piece is begun."""
    clock: Clock = field(default_factory=SystemClock)
    commit_user: str = field(default_factory=NewUser)
    """Who commits what tasks commit; under one name each of them commits once."""
    executor: TaskRunner | None = None
    """Who reads rows; this process by default."""

    def run(self, task: MaintenanceTask) -> MaintenanceReport:
        """Do one task as far as time allows.

        Raises:
            InvalidInputError: The table's options contradict each other.
            NotFoundError: A snapshot or tag that stays lacks a manifest; nothing of it was deleted.
            CommitConflictError: Others were faster too often.
            StorageError: The storage failed; call it again.
            CommitUnknownError: What the task commits may have been committed.
            UnsupportedFeatureError: The task commits, and the table is not one this engine writes.
            FormatError: A metadata file is damaged; names it.
        """
        tasks: dict[MaintenanceTask, Callable[[], MaintenanceReport]] = {
            MaintenanceTask.EXPIRE_PARTITIONS: self._expire_partitions,
            MaintenanceTask.COMPACT_MANIFESTS: self._compact_manifests,
            MaintenanceTask.CREATE_TAGS: self._create_tags,
            MaintenanceTask.ANALYZE: self._analyze,
            MaintenanceTask.EXPIRE_TAGS: self._expire_tags,
            MaintenanceTask.EXPIRE_SNAPSHOTS: self._expire_snapshots,
            MaintenanceTask.EXPIRE_CHANGELOGS: self._expire_changelogs,
            MaintenanceTask.DROP_REFUSED: self._drop_refused,
            MaintenanceTask.CLEAN_ORPHANS: self._clean_orphans,
        }
        report = tasks[task]()
        logger.debug("table %s: %s", self.store.label, report)
        return report

    @property
    def is_time_over(self) -> bool:
        """Whether no further piece may begin."""
        return self.until_ms is not None and self.clock.now_millis() >= self.until_ms

    def _expire_partitions(self) -> MaintenanceReport:
        gone = expire_partitions(
            self.store,
            commit_user=f"{self.commit_user}:partitions",
            clock=self.clock,
            dry_run=self.dry_run,
        )
        return MaintenanceReport(
            task=MaintenanceTask.EXPIRE_PARTITIONS,
            count=len(gone.partitions),
            files=gone.files,
            total_bytes=gone.total_bytes,
            note=", ".join(gone.partitions),
        )

    def _compact_manifests(self) -> MaintenanceReport:
        done = compact_manifests(
            self.store, commit_user=f"{self.commit_user}:manifests", dry_run=self.dry_run
        )
        return MaintenanceReport(
            task=MaintenanceTask.COMPACT_MANIFESTS,
            count=done.before - done.after,
            note=f"{done.before} manifests became {done.after}" if done.snapshot else "",
        )

    def _create_tags(self) -> MaintenanceReport:
        made = create_auto_tags(self.store, dry_run=self.dry_run)
        gone = [tag.tag.name for tag in made.deleted]
        return MaintenanceReport(
            task=MaintenanceTask.CREATE_TAGS,
            count=len(made.created),
            files=sum(tag.data_files + tag.metadata_files for tag in made.deleted),
            total_bytes=sum(tag.data_bytes for tag in made.deleted),
            note="; ".join(
                f"{what} {', '.join(names)}"
                for what, names in (("made", made.created), ("deleted", gone))
                if names
            ),
        )

    def _analyze(self) -> MaintenanceReport:
        if self.dry_run:
            note = "a dry run reads no rows"
            return MaintenanceReport(task=MaintenanceTask.ANALYZE, note=note)
        user = f"{self.commit_user}:analyze"
        found = analyze(self.store, executor=self.executor, commit_user=user).statistics
        rows = (found.merged_record_count or 0) if found else 0
        return MaintenanceReport(
            task=MaintenanceTask.ANALYZE, count=rows, note=counted(rows, "row") if found else ""
        )

    def _expire_snapshots(self) -> MaintenanceReport:
        keep = Retention.of_snapshots(self.store.schema.typed_options)
        keep = replace(keep, before=self.expire_before)

        def piece() -> ExpiredSnapshots:
            return expire_snapshots(
                self.store, retention=keep, clock=self.clock, dry_run=self.dry_run
            )

        report = self._in_pieces(MaintenanceTask.EXPIRE_SNAPSHOTS, piece)
        if not report.is_complete:
            return report
        past = forget_past(self.store, dry_run=self.dry_run)
        notes = (report.note, f"segments over: {past}" if past.count else "")
        return replace(report, files=report.files + past.files, note="; ".join(filter(None, notes)))

    def _expire_changelogs(self) -> MaintenanceReport:
        def piece() -> ExpiredSnapshots:
            return expire_changelogs(self.store, clock=self.clock, dry_run=self.dry_run)

        return self._in_pieces(MaintenanceTask.EXPIRE_CHANGELOGS, piece)

    def _in_pieces(
        self, task: MaintenanceTask, piece: Callable[[], ExpiredSnapshots]
    ) -> MaintenanceReport:
        """Expire as often as `snapshot.expire.limit` needs; a dry run reports the first piece."""
        count = files = total_bytes = 0
        while True:
            done = piece()
            count += len(done.snapshot_ids)
            files += done.data_files + done.metadata_files
            total_bytes += done.data_bytes
            is_complete = not done.snapshot_ids or self.dry_run
            if is_complete or self.is_time_over:
                break
        note = f"held by {done.held_by}" if done.held_by else ""
        return MaintenanceReport(
            task=task,
            count=count,
            files=files,
            total_bytes=total_bytes,
            note=note,
            is_complete=is_complete,
        )

    def _expire_tags(self) -> MaintenanceReport:
        gone = expire_tags(self.store, clock=self.clock, dry_run=self.dry_run)
        return MaintenanceReport(
            task=MaintenanceTask.EXPIRE_TAGS,
            count=len(gone),
            files=sum(tag.data_files + tag.metadata_files for tag in gone),
            total_bytes=sum(tag.data_bytes for tag in gone),
            note=", ".join(tag.tag.name for tag in gone),
        )

    def _drop_refused(self) -> MaintenanceReport:
        gone = drop_refused(
            self.store,
            before_millis=self.clock.now_millis() - self.refused_older_than_ms,
            dry_run=self.dry_run,
        )
        return MaintenanceReport(
            task=MaintenanceTask.DROP_REFUSED,
            count=len(gone.branches),
            files=gone.files,
            total_bytes=gone.data_bytes,
            note=", ".join(gone.branches),
        )

    def _clean_orphans(self) -> MaintenanceReport:
        found = clean_orphan_files(
            self.store,
            older_than_ms=self.orphans_older_than_ms,
            dry_run=self.dry_run,
            clock=self.clock,
        )
        return MaintenanceReport(
            task=MaintenanceTask.CLEAN_ORPHANS,
            count=len(found.files),
            files=len(found.files),
            total_bytes=found.total_bytes,
        )
