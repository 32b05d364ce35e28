"""A sensor that asks for a compaction only where the files of a table ask for one.

A tick reads metadata alone, and only of tables with a new snapshot since the last tick. The run key
is that snapshot, so one debt makes one run; a table that is dropped, recreated or expired has other
snapshots, hence other keys. A failed run is requested again, after twice the time each time.
"""

from collections.abc import Iterator, Sequence

import dagster as dg
from msgspec import Struct, field

from paimon_assets.assets import sensors
from paimon_assets.assets.failures import naming_arguments
from paimon_assets.assets.jobs.compaction import COMPACTION_OP, CompactionConfig, StrategyChoice
from paimon_assets.assets.jobs.declared_tables import DeclaredTables, TableLike, several
from paimon_assets.assets.resource import PaimonCatalogResource
from paimon_assets.assets.translator import DEFAULT_RESOURCE_KEY, identifier_of, is_pattern
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import NotFoundError, PaimonError
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.predicate.predicate import Predicate, only_on
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.system.table_health import FileDebt
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.upkeep.many_tables import tables_named

TABLE_TAG = "paimon/table"
"""Tag of a requested run: which table it compacts."""

_REQUESTED = " asked"
_UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def due_compaction(
    debt: FileDebt, table: Table, snapshot: Snapshot | None, where: Predicate | None = None
) -> "DueCompaction | None":
    """Return the compaction that is due for the files of a snapshot, None if none is.

    With `where`, for the partitions that may hold rows that pass.

    A minor compaction does the work that is due by the table's options; where nothing is due, a
    full one. Files that neither would change are no backlog.

    Cost:
        The manifests; twice or three times where something is due.
    """
    reasons = debt.reasons(table.state.shape(snapshot, where))
    if not reasons:
        return None
    on_partition = only_on(where, table.schema.partition_keys)
    builder = table.new_compaction_builder().with_filter(on_partition)
    for strategy in (StrategyChoice.minor, StrategyChoice.full):
        plan = builder.with_strategy(strategy.value).plan()
        if plan.units or plan.waiting:
            return DueCompaction(reason=" and ".join(reasons), strategy=strategy)
    return None


class DueCompaction(Value):
    """A compaction that a table's files ask for."""

    reason: str
    strategy: StrategyChoice
    """The least that compacts anything."""


@naming_arguments
def build_file_debt_sensor(
    job: dg.JobDefinition,
    *,
    tables: Sequence[TableLike] | TableLike,
    debt: FileDebt | None = None,
    name: str | None = None,
    minimum_interval_seconds: int = 300,
    resource_key: str = DEFAULT_RESOURCE_KEY,
) -> dg.SensorDefinition:
    """Request a run of the compaction job for each table whose files ask for it.

    >>> sensor = build_file_debt_sensor(compaction_job, tables=["shop.*"])

    A table that such a run is compacting is left alone until it ends; if it fails, it is asked for
    again after `minimum_interval_seconds`, then after twice as long, and so on. A minor compaction
    does the work that is due by the table's options; where they ask for nothing, a full one runs.
    It is shipped stopped.

    Args:
        job: From `build_compaction_job`.
        tables: Assets or names; `database.*` is every table of a database.
        debt: From how much on; the defaults of `FileDebt`.
        name: The name of the sensor; `<job>_file_debt` by default.
        minimum_interval_seconds: Between ticks.
        resource_key: The catalog's.

    Raises:
        InvalidInputError: An asset is not of exactly one table.
    """
    thresholds = debt or FileDebt()
    named: list[str] = []
    for table in several(tables):
        if isinstance(table, dg.AssetsDefinition):
            named += [str(each.identifier) for each in DeclaredTables.of([table]).tables]
        else:
            named.append(str(table if is_pattern(table) else identifier_of(table)))

    def tick(context: dg.SensorEvaluationContext, paimon: PaimonCatalogResource) -> sensors.Ticked:
        state = _Tick(
            context=context, job=job.name, debt=thresholds, wait_seconds=minimum_interval_seconds
        )
        return state.run(paimon.catalog(), named)

    return sensors.define_sensor(
        name or f"{job.name}_file_debt",
        f"Requests a compaction of {', '.join(named)} when file debt asks for it.",
        tick,
        resource_key=resource_key,
        seconds=minimum_interval_seconds,
        job_name=job.name,
    )


class _Tick(Struct, kw_only=True):
    context: dg.SensorEvaluationContext
    job: str
    debt: FileDebt
    wait_seconds: int
    requests: list[dg.RunRequest] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Why tables are not requested, other than that nothing is new."""
    seen: dict[str, str] = field(default_factory=dict)
    """Table → the key of its snapshot at the last look, and whether a run was requested."""

    def run(self, catalog: TableCatalog, names: Sequence[str]) -> dg.SensorResult:
        """Look at the tables of names and patterns, as many as the time allows."""
        cursor = sensors.Cursor.of_json(self.context.cursor, str)
        tables = sorted(set(self._tables(catalog, names)), key=str)
        known = {str(table) for table in tables}
        self.seen = {name: key for name, key in cursor.seen.items() if name in known}
        problems, first = sensors.visit_tables(
            tables, cursor.first, lambda table: self._look(catalog, table)
        )
        for table, error in problems.items():
            self.notes.append(f"{table} could not be looked at: {error.message}")
        if first:
            self.notes.append(f"the next tick continues with {first}")
        skip = None
        if not self.requests:
            skip = "; ".join(self.notes) or f"No file debt in {counted(len(tables), 'table')}."
        text = sensors.Cursor(seen=self.seen, first=first).to_json()
        return dg.SensorResult(run_requests=self.requests, skip_reason=skip, cursor=text)

    def _tables(self, catalog: TableCatalog, names: Sequence[str]) -> Iterator[Identifier]:
        for name in names:
            try:
                yield from tables_named(name, catalog)
            except PaimonError as error:
                self.notes.append(error.message)

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
        if seen == f"{key}{_REQUESTED}" and not self._is_retry_due(
            sensors.requests_of(instance, key)
        ):
            return
        if self._is_being_compacted(table.name):
            self.notes.append(f"{table.name} is being compacted")
            return
        self.seen[table.name] = key
        due = due_compaction(self.debt, table, snapshot)
        if due is not None:
            self._request(table, snapshot, sensors.requests_of(instance, key), due)

    def _is_retry_due(self, before: sensors.Requests) -> bool:
        if before.status not in sensors.FAILED:
            return False
        return sensors.retry_wait(before.ended, self.wait_seconds, before.times) <= 0

    def _is_being_compacted(self, table: str) -> bool:
        running = dg.RunsFilter(
            job_name=self.job, tags={TABLE_TAG: table}, statuses=list(_UNFINISHED)
        )
        return bool(self.context.instance.get_runs(filters=running, limit=1))

    def _request(
        self, table: Table, snapshot: Snapshot, before: sensors.Requests, due: DueCompaction
    ) -> None:
        if before.times and before.status not in sensors.FAILED:
            return  # by a tick whose cursor is lost
        why = f"{table.name} at snapshot {snapshot.id} has {due.reason}"
        self.context.log.info("%s: %s compaction.", why, due.strategy.value)
        config = CompactionConfig(tables=[table.name], strategy=due.strategy)
        self.requests.append(
            dg.RunRequest(
                run_key=before.run_key,
                run_config=dg.RunConfig(ops={COMPACTION_OP: config}),
                tags={TABLE_TAG: table.name, sensors.REQUEST_TAG: before.key},
            )
        )
        self.seen[table.name] = f"{before.key}{_REQUESTED}"
