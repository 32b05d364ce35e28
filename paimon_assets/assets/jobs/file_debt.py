"""A sensor that asks for a compaction only where the files of a table ask for one.

A tick looks at metadata alone, and only at tables with a new snapshot since it looked last. The run
key is that snapshot, so one debt makes one run; a table that is dropped, recreated or expired has
other snapshots, hence other keys. A run that failed is asked for again, after twice the time with
each failure.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from paimon_assets.assets.jobs.compaction import (
    COMPACTION_OP,
    CompactionConfig,
    StrategyChoice,
)
from paimon_assets.assets.jobs.declared_tables import DeclaredTables, TableLike, tables_named
from paimon_assets.assets.resource import DEFAULT_RESOURCE_KEY, catalog_resource
from paimon_assets.assets.sensors import FAILED, REQUEST_TAG, Asked, asked
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import NotFoundError, PaimonError
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.upkeep.table_shape import TableShape

TABLE_TAG = "paimon/table"
"""Tag of a requested run: which table it compacts."""

_SECONDS_PER_TICK = 40.0
"""A tick is cut off by Dagster after 60."""
_ASKED = " asked"
_MOST_DOUBLINGS = 8
_UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]

Ticked = dg.SkipReason | dg.SensorResult


@dataclass(frozen=True, kw_only=True)
class FileDebt:
    """From how much on a table is compacted; None never asks."""

    level_0_runs: int | None = 5
    """Sorted runs on level 0 of one bucket, each of which every read merges."""
    small_files: int | None = 5
    """Files of a table without key that a minor compaction joins; see `TableShape.small_files`."""
    deleted_rows: float | None = 0.2
    """Part of all rows that are deleted, or delete."""
    waiting_files: int | None = 1
    """Files whose rows nobody sees before a compaction gives them a bucket."""

    def due(self, table: Table, snapshot: Snapshot | None) -> "DueCompaction | None":
        """Return the compaction that the files of a snapshot ask for, None if they ask for none.

        What is due by the table's options is done by a minor compaction; where they ask for
        nothing, by a full one. What neither would change is no debt.

        Raises:
            NotFoundError: The snapshot has expired.
            UnsupportedFeatureError: The table is not one this engine compacts.
            FormatError, StorageError: Metadata is damaged, or the storage failed.

        Cost:
            The manifests; twice or three times where something is due.
        """
        reasons = self.reasons(table.shape(snapshot))
        if not reasons:
            return None
        builder = table.new_compaction_builder()
        for strategy in (StrategyChoice.minor, StrategyChoice.full):
            plan = builder.with_strategy(strategy.value).plan()
            if plan.units or plan.waiting:
                return DueCompaction(reason=" and ".join(reasons), strategy=strategy)
        return None

    def reasons(self, shape: TableShape) -> list[str]:
        """Return why a table should be compacted; empty if it should not.

        >>> FileDebt(small_files=3).reasons(TableShape(has_key=False, target_bytes=1))
        []
        """
        found = []
        runs, small = shape.level_0_runs, shape.small_files
        if self.level_0_runs is not None and 0 < self.level_0_runs <= runs:
            found.append(f"{counted(runs, 'run')} on level 0 of a bucket")
        if self.small_files is not None and not shape.has_key and 0 < self.small_files <= small:
            found.append(counted(small, "small file"))
        deleted, rows = shape.deleted_rows, max(1, shape.row_count)
        if self.deleted_rows is not None and deleted and deleted >= self.deleted_rows * rows:
            found.append(f"{deleted:,} of {rows:,} rows deleted")
        waiting = shape.waiting_files
        if self.waiting_files is not None and 0 < self.waiting_files <= waiting:
            found.append(f"{counted(waiting, 'file')} of rows that wait for a bucket")
        return found


@dataclass(frozen=True, kw_only=True)
class DueCompaction:
    """A compaction that a table's files ask for."""

    reason: str
    strategy: StrategyChoice
    """The least that compacts anything."""


def build_file_debt_sensor(
    job: dg.JobDefinition,
    *,
    tables: Sequence[TableLike],
    debt: FileDebt | None = None,
    name: str = "file_debt",
    minimum_interval_seconds: int = 300,
    resource_key: str = DEFAULT_RESOURCE_KEY,
) -> dg.SensorDefinition:
    """Request a run of the compaction job for each table whose files ask for it.

    A table that such a run is compacting is left alone until it ends; if it fails, it is asked for
    again after `minimum_interval_seconds`, then after twice as long, and so on. What is due by the
    table's options is done by a minor compaction; where they ask for nothing, by a full one. It is
    shipped stopped.

    Args:
        job: From `build_compaction_job`.
        tables: Assets or names; `database.*` is every table of a database.
        debt: From how much on; the defaults of `FileDebt`.
        name: The name of the sensor.
        minimum_interval_seconds: Between ticks.
        resource_key: The catalog's.

    Raises:
        InvalidInputError: An asset is not of exactly one table.
    """
    thresholds = debt or FileDebt()
    named = []
    for table in tables:
        known = DeclaredTables.of([table]).tables if isinstance(table, dg.AssetsDefinition) else ()
        named += [str(each.identifier) for each in known] or [str(table)]

    @dg.sensor(
        name=name,
        job_name=job.name,
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=dg.DefaultSensorStatus.STOPPED,
        required_resource_keys={resource_key},
        description=f"Requests a compaction of {', '.join(named)} when file debt asks for it.",
    )
    def look(context: dg.SensorEvaluationContext, **_: Any) -> Ticked:
        tick = _Tick(
            context=context,
            job=job.name,
            debt=thresholds,
            cursor=_Cursor.of(context),
            wait_seconds=minimum_interval_seconds,
        )
        catalog = catalog_resource(context, resource_key).catalog()
        return tick.run(catalog, sorted(set(tick.named(named, catalog)), key=str))

    return look


@dataclass(frozen=True, kw_only=True)
class _Cursor:
    """The cursor of a file-debt sensor."""

    seen: Mapping[str, str]
    """Table → the key of the snapshot that was looked at last, and whether a run was asked for."""
    first: str = ""
    """Table to begin with: the tick before ran out of time there."""

    @staticmethod
    def of(context: dg.SensorEvaluationContext) -> "_Cursor":
        """Read the cursor; one that cannot be read is as good as none."""
        try:
            found = json.loads(context.cursor or "{}")
            return _Cursor(seen=dict(found["seen"]), first=str(found["first"]))
        except (ValueError, KeyError, TypeError):
            return _Cursor(seen={})


@dataclass(kw_only=True)
class _Tick:
    """One look at all tables."""

    context: dg.SensorEvaluationContext
    job: str
    debt: FileDebt
    cursor: _Cursor
    wait_seconds: int
    requests: list[dg.RunRequest] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """Why tables are not requested, where that is not that nothing is new."""
    seen: dict[str, str] = field(default_factory=dict)

    def named(self, texts: Sequence[str], catalog: TableCatalog) -> Iterator[Identifier]:
        """Yield the tables that names and patterns mean; what cannot be found is reported."""
        for text in texts:
            try:
                yield from tables_named(text, catalog)
            except PaimonError as error:
                self.said.append(error.message)

    def run(self, catalog: TableCatalog, tables: Sequence[Identifier]) -> Ticked:
        """Look at the tables, as many as the time allows."""
        started, next_first = time.monotonic(), ""
        late = [table for table in tables if str(table) >= self.cursor.first]
        ordered = [*late, *(table for table in tables if table not in late)]
        self.seen = {
            str(table): self.cursor.seen[str(table)]
            for table in tables
            if str(table) in self.cursor.seen
        }
        for table in ordered:
            if time.monotonic() - started > _SECONDS_PER_TICK:
                next_first = str(table)
                self.said.append(f"the next tick goes on with {table}")
                break
            try:
                self._look(catalog, table)
            except PaimonError as error:  # one table that cannot be read stops no other
                self.said.append(f"{table} could not be looked at: {error.message}")
        cursor = json.dumps({"seen": self.seen, "first": next_first}, sort_keys=True)
        skip = None
        if not self.requests:
            skip = "; ".join(self.said) or f"No file debt in {counted(len(tables), 'table')}."
        return dg.SensorResult(run_requests=self.requests, skip_reason=skip, cursor=cursor)

    def _look(self, catalog: TableCatalog, identifier: Identifier) -> None:
        try:
            table = catalog.get_table(identifier)
        except NotFoundError:  # not there yet, or no more
            self.seen.pop(str(identifier), None)
            return
        snapshot = table.latest_snapshot()
        if snapshot is None:
            return
        key = f"{table.name}:{snapshot.name}"
        seen = self.seen.get(table.name)
        if seen == key:
            return
        instance = self.context.instance
        if seen == f"{key}{_ASKED}" and not self._is_to_be_tried_again(asked(instance, key)):
            return
        if self._is_being_compacted(table.name):
            self.said.append(f"{table.name} is being compacted")
            return
        self.seen[table.name] = key
        due = self.debt.due(table, snapshot)
        if due is not None:
            self._request(table, snapshot, asked(instance, key), due)

    def _is_to_be_tried_again(self, before: Asked) -> bool:
        """Whether the compaction of this very snapshot failed, and long enough ago."""
        if before.status not in FAILED:
            return False
        doubled = 1 << min(before.times - 1, _MOST_DOUBLINGS)
        return time.time() - (before.ended or 0) >= self.wait_seconds * doubled

    def _is_being_compacted(self, table: str) -> bool:
        running = dg.RunsFilter(
            job_name=self.job, tags={TABLE_TAG: table}, statuses=list(_UNFINISHED)
        )
        return bool(self.context.instance.get_runs(filters=running, limit=1))

    def _request(self, table: Table, snapshot: Snapshot, before: Asked, due: DueCompaction) -> None:
        if before.times and before.status not in FAILED:
            return  # by a tick whose cursor is lost
        why = f"{table.name} at snapshot {snapshot.id} has {due.reason}"
        self.context.log.info("%s: %s compaction.", why, due.strategy.value)
        config = CompactionConfig(tables=[table.name], strategy=due.strategy)
        self.requests.append(
            dg.RunRequest(
                run_key=before.run_key,
                run_config=dg.RunConfig(ops={COMPACTION_OP: config}),
                tags={TABLE_TAG: table.name, REQUEST_TAG: before.key},
            )
        )
        self.seen[table.name] = f"{before.key}{_ASKED}"
