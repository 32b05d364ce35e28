"""ANALYZE: statistics of the newest snapshot's rows by an executor, and their commit.

    plan ─▶ one task a split ─▶ summaries, added up ─▶ statistics file ─▶ snapshot (ANALYZE)

Source: `org.apache.paimon.spark.commands.PaimonAnalyzeTableColumnCommand`.
"""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from paimon_assets.engine.contract.tasks.analyze_task import ANALYZE_TASK, RowSummary, join
from paimon_assets.engine.contract.tasks.task_batch import TaskBatch, TaskRunner
from paimon_assets.engine.contract.wire import dump, dump_split, load
from paimon_assets.engine.control.commit.data_version import data_version
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.managers.commit_history import NewUser
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.spec.metadata.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    CommitKind,
    Snapshot,
)
from paimon_assets.engine.spec.metadata.table_statistics import ColumnStatistics, Statistics
from paimon_assets.engine.table.read.read_builder import ReadBuilder


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzeOutcome:
    """The outcome of an ANALYZE."""

    snapshot: Snapshot | None
    """Names the statistics; None if the table has no snapshot to analyze."""
    statistics: Statistics | None
    """None, too, if the snapshot named them before: no row was read."""


def analyze(
    store: FileStore,
    *,
    columns: Iterable[str] | None = None,
    executor: TaskRunner | None = None,
    commit_user: str | None = None,
) -> AnalyzeOutcome:
    """Compute and commit statistics of a table's rows, as a reader sees them.

    Statistics of the newest data are not computed again.

    Args:
        store: The table.
        columns: To sum up; all by default. Rows are counted in any case.
        executor: Who reads; this process by default.
        commit_user: Analyzing again under one name finds the first time.

    Raises:
        NotFoundError: There is no such column.
        CommitConflictError: The schema changed meanwhile (kind `schema-changed`), or others were
            faster too often.
        CommitUnknownError: It may have been committed.

    Cost:
        One read of the columns; memory of a task is that of a merge and 4096 hashes a column.
    """
    user = commit_user or NewUser()
    done = store.snapshots.find_commit(user, BATCH_COMMIT_IDENTIFIER, [CommitKind.ANALYZE])
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
    summary = join((load(RowSummary, answer) for _, answer in answers), len(fields))
    statistics = Statistics(
        snapshot_id=plan.snapshot.id,
        schema_id=store.schema.id,
        merged_record_count=summary.rows,
        merged_record_size=sum(batch.weights),
        columns={
            column.name: _statistics(column.id, summary, number)
            for number, column in enumerate(fields)
        },
    )
    made = FileStoreCommit(store).commit_statistics(
        statistics, commit_user=user, commit_identifier=BATCH_COMMIT_IDENTIFIER
    )
    return AnalyzeOutcome(snapshot=made, statistics=statistics)


def _is_analyzed(store: FileStore, snapshot: Snapshot, columns: Collection[str]) -> bool:
    """Whether a snapshot names statistics of its rows, with all these columns.

    A file that is lost or damaged is as good as none.
    """
    if snapshot.statistics is None:
        return False
    try:
        found = json.loads(store.file_io.read_bytes(store.paths.statistics(snapshot.statistics)))
        analyzed_id, schema_id = int(found["snapshotId"]), int(found["schemaId"])
        is_complete = schema_id == store.schema.id and set(columns) <= set(found["colStats"])
    except (NotFoundError, ValueError, TypeError, LookupError, RecursionError):
        return False
    return is_complete and int(data_version(store, snapshot).partition("-")[0]) <= analyzed_id


def _statistics(column_id: int, summary: RowSummary, number: int) -> ColumnStatistics:
    column = summary.columns[number]
    is_known = column.distinct_count is not None and column.nulls < summary.rows
    return ColumnStatistics(
        column_id=column_id,
        distinct_count=column.distinct_count,
        minimum=None if column.minimum is None else column.minimum[1],
        maximum=None if column.maximum is None else column.maximum[1],
        null_count=column.nulls,
        average_length=summary.average_bytes(column) if is_known else None,
        maximum_length=column.longest_bytes if is_known else None,
    )
