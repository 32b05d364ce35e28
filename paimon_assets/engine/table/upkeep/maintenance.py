"""Maintenance of a table: tasks that expire, tag, compact and clean, in a fixed order.

A task commits or deletes piece by piece. After `until_ms` no further piece begins; the next run
continues there. A task without work does nothing.
"""

import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from functools import partial
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from paimon_assets.engine.contract.executor import TaskBatch, TaskRunner
from paimon_assets.engine.contract.report_tasks import ANALYZE_TASK, RowSummary, join_summaries
from paimon_assets.engine.contract.wire import dump, dump_split, load
from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.commit.changes import data_version
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.listeners import behind, find_followed, listeners
from paimon_assets.engine.control.maintenance import expire_partitions as partitions
from paimon_assets.engine.control.maintenance import expire_snapshots as snapshots
from paimon_assets.engine.control.maintenance import orphan_files, tag_files
from paimon_assets.engine.control.maintenance.removed_segments import forget_removed
from paimon_assets.engine.control.managers.commit_history import NewUser
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.spec.metadata import snapshot as snap
from paimon_assets.engine.spec.options import all_options as opts
from paimon_assets.engine.spec.options.option import Option
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import counted, shorten
from paimon_assets.engine.table.read.read_builder import ReadBuilder


class AnalyzeOutcome(Value):
    """The outcome of an ANALYZE."""

    snapshot: snap.Snapshot | None
    """Names the statistics; None if the table has no snapshot to analyze."""
    statistics: snap.Statistics | None
    """None, too, if the snapshot named them before: no row was read."""


def analyze(
    store: FileStore,
    *,
    columns: Iterable[str] | None = None,
    executor: TaskRunner | None = None,
    commit_user: str | None = None,
) -> AnalyzeOutcome:
    """Compute and commit statistics (`Table.analyze`).

        plan ─▶ one task a split ─▶ summaries, added up ─▶ statistics file ─▶ snapshot (ANALYZE)

    Source: `org.apache.paimon.spark.commands.PaimonAnalyzeTableColumnCommand`.
    """
    user = commit_user or NewUser()
    done = find_followed(store, user, snap.BATCH_COMMIT_IDENTIFIER, [snap.CommitKind.ANALYZE])
    if done is not None:
        return AnalyzeOutcome(snapshot=done, statistics=None)
    plan = ReadBuilder(store=store).with_columns(columns).plan()
    if plan.snapshot is None:
        return AnalyzeOutcome(snapshot=None, statistics=None)
    if _is_analyzed(store, plan.snapshot, {field.name for field in plan.context.fields}):
        return AnalyzeOutcome(snapshot=plan.snapshot, statistics=None)
    batch = TaskBatch(
        name=ANALYZE_TASK,
        shared=dump(plan.context),
        payloads=tuple(dump_split(split) for split in plan.splits),
        weights=tuple(split.file_bytes for split in plan.splits),
        file_io=plan.context.file_io,
        subject=f"{store.label}, snapshot {plan.snapshot.id}",
    )
    fields = plan.context.fields
    answers = (executor or EmbeddedExecutor()).map_tasks(batch)
    summary = join_summaries((load(RowSummary, answer) for _, answer in answers), len(fields))
    statistics = snap.Statistics(
        snapshot_id=plan.snapshot.id,
        schema_id=store.schema.id,
        merged_record_count=summary.rows,
        merged_record_size=sum(batch.weights),
        columns={
            column.name: _statistics(column.id, summary, number)
            for number, column in enumerate(fields)
        },
    )
    snapshot = FileStoreCommit(store).commit_statistics(
        statistics, commit_user=user, commit_identifier=snap.BATCH_COMMIT_IDENTIFIER
    )
    return AnalyzeOutcome(snapshot=snapshot, statistics=statistics)


def _is_analyzed(store: FileStore, snapshot: snap.Snapshot, columns: Collection[str]) -> bool:
    """Whether a snapshot names statistics of its rows, with all these columns."""
    if snapshot.statistics is None:
        return False
    try:
        document = json.loads(store.file_io.read_bytes(store.paths.statistics(snapshot.statistics)))
        analyzed_id, schema_id = int(document["snapshotId"]), int(document["schemaId"])
        is_complete = schema_id == store.schema.id and set(columns) <= set(document["colStats"])
    except (NotFoundError, ValueError, TypeError, LookupError, RecursionError):
        return False  # it is lost or damaged
    return is_complete and int(data_version(store, snapshot).partition("-")[0]) <= analyzed_id


def _statistics(column_id: int, summary: RowSummary, number: int) -> snap.ColumnStatistics:
    column = summary.columns[number]
    is_known = column.distinct_count is not None and column.nulls < summary.rows
    return snap.ColumnStatistics(
        column_id=column_id,
        distinct_count=column.distinct_count,
        minimum=None if column.minimum is None else column.minimum[1],
        maximum=None if column.maximum is None else column.maximum[1],
        null_count=column.nulls,
        average_length=summary.average_bytes(column) if is_known else None,
        maximum_length=column.longest_bytes if is_known else None,
    )


logger = logging.getLogger(__name__)


class MaintenanceTask(StrEnum):
    """A task of maintenance; tasks run in this order."""

    EXPIRE_PARTITIONS = "expire_partitions"
    """Empty partitions older than `partition.expiration-time`, if the table sets it."""
    COMPACT_MANIFESTS = "compact_manifests"
    """Merge manifests into few, with live entries only."""
    CREATE_TAGS = "create_tags"
    """Create automatic tags that are due, if the table sets `tag.automatic-creation`."""
    ANALYZE = "analyze"
    """Compute statistics of all rows; reads the whole table."""
    EXPIRE_TAGS = "expire_tags"
    EXPIRE_SNAPSHOTS = "expire_snapshots"
    """Also removes segments that no snapshot or tag can read, from the list of segments."""
    EXPIRE_CHANGELOGS = "expire_changelogs"
    DROP_REFUSED = "drop_rejected"
    """Delete old batches that an audit rejected, with their files."""
    CLEAN_ORPHANS = "clean_orphans"
    ICEBERG = "iceberg"
    """Write Iceberg metadata of the newest snapshot, if the table has such and it is behind."""


CHEAP_TASKS = tuple(task for task in MaintenanceTask if task is not MaintenanceTask.ANALYZE)
"""The tasks that read no rows."""


class MaintenanceReport(Struct, frozen=True):
    """The report of a task, or of its dry run."""

    task: MaintenanceTask
    count: int = 0
    """Snapshots, tags, changelogs, partitions, batches, rows or files, depending on the task."""
    files: int = 0
    """Files that were deleted."""
    total_bytes: int = 0
    """The total bytes of data files and orphans; metadata is not counted."""
    note: str = ""
    """For people; empty if there is nothing to add."""
    is_complete: bool = True
    """False if the time ended before the work."""

    @property
    def full_note(self) -> str:
        """The note, and whether the time ended before the work."""
        return self.note if self.is_complete else f"time is over; {self.note}".rstrip("; ")


_RULES: Mapping[MaintenanceTask, tuple[Option[Any], ...]] = {
    MaintenanceTask.EXPIRE_PARTITIONS: (
        opts.PARTITION_EXPIRATION_TIME,
        opts.PARTITION_EXPIRATION_STRATEGY,
    ),
    MaintenanceTask.COMPACT_MANIFESTS: (opts.MANIFEST_TARGET_FILE_SIZE,),
    MaintenanceTask.CREATE_TAGS: (opts.TAG_AUTOMATIC_CREATION, opts.TAG_CREATION_PERIOD),
    MaintenanceTask.EXPIRE_SNAPSHOTS: (
        opts.SNAPSHOT_TIME_RETAINED,
        opts.SNAPSHOT_NUM_RETAINED_MAX,
        opts.SNAPSHOT_NUM_RETAINED_MIN,
    ),
    MaintenanceTask.EXPIRE_CHANGELOGS: (
        opts.CHANGELOG_TIME_RETAINED,
        opts.CHANGELOG_NUM_RETAINED_MAX,
        opts.CHANGELOG_NUM_RETAINED_MIN,
    ),
}
"""Options of the table that make a task due, which a dry run tells."""

_Report = Callable[..., MaintenanceReport]
"""Makes the report of a task of its numbers."""


class Maintenance(Value):
    """Maintenance of one branch of a table.

    >>> table.maintenance().run(MaintenanceTask.EXPIRE_SNAPSHOTS)  # doctest: +SKIP
    """

    store: FileStore
    dry_run: bool = False
    """Only report; delete and commit nothing."""
    orphans_older_than_ms: int = orphan_files.DAY_MS
    """Younger files may belong to a write that will still be committed."""
    refused_older_than_ms: int = orphan_files.DEFAULT_RETENTION_MS
    """The least age of rejected batches that are deleted."""
    expire_before: int | None = None
    """Id of a snapshot: exactly those before it expire, whatever the table's options are."""
    until_ms: int | None = None
    """Epoch milliseconds after which no further piece begins."""
    clock: Clock = field(default_factory=SystemClock)
    commit_user: str = field(default_factory=NewUser)
    """Commit user of the tasks; under one name each task commits once."""
    executor: TaskRunner | None = None
    """Reads rows for ANALYZE; this process by default."""

    def run(self, task: MaintenanceTask) -> MaintenanceReport:
        """Run one task as far as time allows.

        Raises:
            InvalidInputError: The table's options contradict each other.
            NotFoundError: A retained snapshot or tag lacks a manifest; none of its files was
                deleted.
            CommitConflictError: Other commits won too often.
            StorageError: The storage failed; run the task again.
            CommitUnknownError: The task may have committed.
            UnsupportedFeatureError: The task commits, and this engine cannot write the table.
            FormatError: A metadata file is damaged; names it.
        """
        tasks: dict[MaintenanceTask, Callable[[_Report], MaintenanceReport]] = {
            MaintenanceTask.EXPIRE_PARTITIONS: self._expire_partitions,
            MaintenanceTask.COMPACT_MANIFESTS: self._compact_manifests,
            MaintenanceTask.CREATE_TAGS: self._create_tags,
            MaintenanceTask.ANALYZE: self._analyze,
            MaintenanceTask.EXPIRE_TAGS: self._expire_tags,
            MaintenanceTask.EXPIRE_SNAPSHOTS: self._expire_snapshots,
            MaintenanceTask.EXPIRE_CHANGELOGS: partial(
                self._in_pieces, snapshots.expire_changelogs
            ),
            MaintenanceTask.DROP_REFUSED: self._drop_rejected,
            MaintenanceTask.CLEAN_ORPHANS: self._clean_orphans,
            MaintenanceTask.ICEBERG: self._iceberg,
        }
        report = tasks[task](partial(MaintenanceReport, task))
        if self.dry_run and report.count:
            report = replace(
                report, note="; ".join(filter(None, (report.note, self._reason(task))))
            )
        logger.debug("table %s: %s", self.store.label, report)
        return report

    def _reason(self, task: MaintenanceTask) -> str:
        """Return the rule by which a task removes things, as its plan shows it."""
        if task is MaintenanceTask.CLEAN_ORPHANS:
            return f"nothing names them, and they are {_hours(self.orphans_older_than_ms)} old"
        if task is MaintenanceTask.DROP_REFUSED:
            return f"refused {_hours(self.refused_older_than_ms)} ago"
        if task is MaintenanceTask.EXPIRE_TAGS:
            return "their own time is over"
        options, rules = self.store.schema.typed_options, _RULES[task]
        texts = [f"{rule.key} = {options.text(rule)}" for rule in rules if options.has(rule)]
        return f"by {', '.join(texts) or f'the default of {rules[0].key}'}"

    @property
    def is_time_over(self) -> bool:
        """Whether the run's time is over, so that no further piece begins."""
        return self.until_ms is not None and self.clock.now_millis() >= self.until_ms

    def _expire_partitions(self, report: _Report) -> MaintenanceReport:
        user = f"{self.commit_user}:partitions"
        expired = partitions.expire_partitions(
            self.store, commit_user=user, clock=self.clock, dry_run=self.dry_run
        )
        names = expired.partitions
        return report(len(names), expired.files, expired.total_bytes, ", ".join(names))

    def _compact_manifests(self, report: _Report) -> MaintenanceReport:
        user = f"{self.commit_user}:manifests"
        manifests = partitions.compact_manifests(self.store, commit_user=user, dry_run=self.dry_run)
        count = manifests.before - manifests.after
        is_due = manifests.snapshot is not None or count
        note = f"{manifests.before} manifests to {manifests.after}" if is_due else ""
        return report(count, note=note)

    def _create_tags(self, report: _Report) -> MaintenanceReport:
        tags = tag_files.create_auto_tags(self.store, dry_run=self.dry_run)
        names = {"created": tags.created, "deleted": [tag.tag.name for tag in tags.deleted]}
        note = "; ".join(f"{verb} {', '.join(each)}" for verb, each in names.items() if each)
        return report(len(tags.created), *_sizes(tags.deleted), note)

    def _analyze(self, report: _Report) -> MaintenanceReport:
        if self.dry_run:
            return report(note="a dry run reads no rows")
        user = f"{self.commit_user}:analyze"
        statistics = analyze(self.store, executor=self.executor, commit_user=user).statistics
        if statistics is None:
            return report()
        rows = statistics.merged_record_count or 0
        return report(rows, note=counted(rows, "row"))

    def _expire_snapshots(self, report: _Report) -> MaintenanceReport:
        retention = snapshots.Retention.of_snapshots(self.store.schema.typed_options)
        retention = replace(retention, before=self.expire_before)
        expired = self._in_pieces(partial(snapshots.expire_snapshots, retention=retention), report)
        if not expired.is_complete:
            return expired
        segments = forget_removed(self.store, dry_run=self.dry_run)
        notes = (expired.note, f"segments over: {segments}" if segments.count else "")
        note = "; ".join(filter(None, notes))
        count, files = expired.count + segments.count, expired.files + segments.files
        return replace(expired, count=count, files=files, note=note)

    def _in_pieces(
        self, piece: Callable[..., snapshots.ExpiredSnapshots], report: _Report
    ) -> MaintenanceReport:
        """Expire as often as `snapshot.expire.limit` needs; a dry run reports the first piece."""
        count = files = total_bytes = 0
        while True:
            expired = piece(self.store, clock=self.clock, dry_run=self.dry_run)
            count += len(expired.snapshot_ids)
            files += expired.data_files + expired.metadata_files
            total_bytes += expired.data_bytes
            is_complete = not expired.has_more or self.dry_run
            if is_complete or self.is_time_over:
                break
        note = f"held by {expired.held_by}" if expired.held_by else ""
        return report(count, files, total_bytes, note, is_complete)

    def _expire_tags(self, report: _Report) -> MaintenanceReport:
        tags = tag_files.expire_tags(self.store, clock=self.clock, dry_run=self.dry_run)
        return report(len(tags), *_sizes(tags), ", ".join(tag.tag.name for tag in tags))

    def _drop_rejected(self, report: _Report) -> MaintenanceReport:
        before_millis = self.clock.now_millis() - self.refused_older_than_ms
        batches = orphan_files.drop_rejected(
            self.store, before_millis=before_millis, dry_run=self.dry_run
        )
        names = batches.branches
        return report(len(names), batches.files, batches.data_bytes, ", ".join(names))

    def _clean_orphans(self, report: _Report) -> MaintenanceReport:
        orphans = orphan_files.clean_orphan_files(
            self.store,
            older_than_ms=self.orphans_older_than_ms,
            dry_run=self.dry_run,
            clock=self.clock,
        )
        count, note = len(orphans.files), ""
        if names := orphans.foreign:
            note = f"{counted(len(names), 'foreign file')} left: {shorten(names)}"
            logger.info("table %s: foreign files, left: %s", self.store.label, ", ".join(names))
        return report(count, count, orphans.total_bytes, note)

    def _iceberg(self, report: _Report) -> MaintenanceReport:
        before = behind(self.store)
        if not before:
            return report()
        left = before
        if not self.dry_run:
            for listener in listeners(self.store.schema.options):
                listener.repair(self.store)
            left = behind(self.store) or 0
        note = f"{left} commits behind" if left else "up to date"
        return report(before - (0 if self.dry_run else left), note=note)


def _sizes(tags: Collection[tag_files.DeletedTag]) -> tuple[int, int]:
    """Return the number of files, and bytes of data files, deleted with tags."""
    files = sum(tag.data_files + tag.metadata_files for tag in tags)
    return files, sum(tag.data_bytes for tag in tags)


def _hours(millis: int) -> str:
    return f"more than {millis / 3_600_000:g} hours"
