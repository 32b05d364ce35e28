"""The maintenance job: many tables in one run, each by itself, with a summary at the end.

    tables of the form ─▶ one after the other, task after task, each table for a limited time
                          ├▶ an observation of its asset
                          └▶ a line for each task ─▶ summary of the run

A table that fails stops no other; the run fails at the end and names it. Every task can be
repeated: after a kill, the next run or a retry does the rest.
"""

from collections.abc import Collection, Iterator, Sequence
from enum import Enum

import dagster as dg
from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import Field

from paimon_assets.assets import translator as naming
from paimon_assets.assets.failures import (
    RETRY_WAIT_SECONDS,
    TRY_AGAIN,
    failure_of,
    naming_arguments,
)
from paimon_assets.assets.jobs.declared_tables import DeclaredTable, DeclaredTables, TableLike
from paimon_assets.assets.jobs.table_picture import size_text
from paimon_assets.assets.metadata import Metadata, grid
from paimon_assets.assets.resource import PaimonCatalogResource, catalog_resource
from paimon_assets.engine import errors
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.control.clock import SystemClock
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.upkeep import maintenance
from paimon_assets.engine.table.upkeep.many_tables import Line, TableUpkeep, line_of, maintain_table

MAINTENANCE_OP = "maintain"
MAINTENANCE_POOL = "paimon/maintenance"
"""One maintenance step at a time, if the pool has a limit."""

_MOST_RETRIES = 1


class MaintenanceChoice(Enum):
    """A task of the maintenance job; see `MaintenanceTask`."""

    expire_partitions = maintenance.MaintenanceTask.EXPIRE_PARTITIONS
    compact_manifests = maintenance.MaintenanceTask.COMPACT_MANIFESTS
    create_tags = maintenance.MaintenanceTask.CREATE_TAGS
    analyze = maintenance.MaintenanceTask.ANALYZE
    expire_tags = maintenance.MaintenanceTask.EXPIRE_TAGS
    expire_snapshots = maintenance.MaintenanceTask.EXPIRE_SNAPSHOTS
    expire_changelogs = maintenance.MaintenanceTask.EXPIRE_CHANGELOGS
    drop_rejected = maintenance.MaintenanceTask.DROP_REFUSED
    clean_orphans = maintenance.MaintenanceTask.CLEAN_ORPHANS
    iceberg = maintenance.MaintenanceTask.ICEBERG


class MaintenanceConfig(dg.Config):
    """The config of a maintenance run: tables and tasks.

    >>> MaintenanceConfig(tables=["sales.*"], tasks=[MaintenanceChoice.expire_snapshots]).tables
    ['sales.*']
    """

    tables: list[str] = Field(
        default=[],
        description="Tables as database.table; database.* takes all tables of a database. Empty "
        "takes all tables this job declares.",
    )
    tasks: list[MaintenanceChoice] = Field(
        default=[],
        description="Tasks for each table, in the order of this schema. Empty does all but "
        "analyze, which reads whole tables.",
    )
    orphans_older_than_hours: int = Field(
        default=24,
        description="Files no snapshot names are orphans when they are this old; younger ones may "
        "belong to a write that still runs.",
    )
    delete_orphans: bool = Field(
        default=False, description="Delete orphans; if not, they are only counted."
    )
    refused_older_than_hours: int = Field(
        default=168,
        description="Batches that an audit kept out stay so long, with their files; then they are "
        "dropped.",
    )
    seconds_per_table: int = Field(
        default=900,
        description="After so long no further piece of work begins for a table; the next run does "
        "the rest. 0 sets no limit.",
    )
    dry_run: bool = Field(
        default=False, description="Only report the due work; delete and commit nothing."
    )

    def check(self) -> None:
        """Refuse values that the Launchpad cannot refuse by itself.

        Raises:
            InvalidInputError: Kind `maintenance-config`.
        """
        for name in ("orphans_older_than_hours", "refused_older_than_hours", "seconds_per_table"):
            if getattr(self, name) < 0:
                raise errors.InvalidInputError(
                    f"The maintenance cannot run: {name} is {getattr(self, name)}; give 0 or more.",
                    kind="maintenance-config",
                )


@naming_arguments
def build_maintenance_job(
    tables: Sequence[TableLike] | TableLike = (),
    name: str = "maintenance_job",
    *,
    suggestion: MaintenanceConfig | None = None,
    translator: naming.PaimonTranslator = naming.DEFAULT_TRANSLATOR,
    resource_key: str = naming.DEFAULT_RESOURCE_KEY,
) -> dg.JobDefinition:
    """Return the job that maintains tables of a catalog.

    >>> build_maintenance_job(["sales.orders"], "upkeep").name
    'upkeep'

    Args:
        tables: Assets or names of tables; the form may name further ones.
        name: The name of the job.
        suggestion: Config that fills the Launchpad.
        translator: Names the assets of tables that are given by name.
        resource_key: The catalog's.

    Raises:
        InvalidInputError: Something in `tables` is not one table.
    """
    declared = DeclaredTables.of(tables, translator)

    @dg.op(
        name=f"{name}__{MAINTENANCE_OP}",
        pool=MAINTENANCE_POOL,
        required_resource_keys={resource_key},
        retry_policy=dg.RetryPolicy(max_retries=_MOST_RETRIES, delay=RETRY_WAIT_SECONDS),
        tags={"kind": "paimon"},
    )
    def maintain(context: dg.OpExecutionContext, config: MaintenanceConfig) -> None:
        paimon = catalog_resource(context, resource_key)
        _Run(context=context, config=config, paimon=paimon, declared=declared).run()

    @dg.job(
        name=name,
        config=dg.RunConfig(ops={MAINTENANCE_OP: suggestion or MaintenanceConfig()}),
        description="Expires partitions, snapshots, changelogs and tags by the options of each "
        "table, makes tags that are due, compacts manifests, drops batches that were refused long "
        "ago, and finds files that nothing names. `dry_run` shows the due work.",
    )
    def job() -> None:
        maintain.alias(MAINTENANCE_OP)()

    return job


class _Run(Struct, kw_only=True):
    context: dg.OpExecutionContext
    config: MaintenanceConfig
    paimon: PaimonCatalogResource
    declared: DeclaredTables
    lines: list[Line] = field(default_factory=list)
    failures: list[tuple[errors.PaimonError, Identifier]] = field(default_factory=list)

    def run(self) -> None:
        """Maintain all tables; raises Failure at the end, if something was wrong with one."""
        try:
            self.config.check()
            targets = self.declared.choose(self.config.tables, self.paimon.catalog())
        except errors.InvalidInputError as error:
            raise dg.Failure(error.message, allow_retries=False) from error
        for target in targets:
            if self._is_there(target):
                self._maintain(target)
        summary: Metadata = {
            "paimon/tables": len(targets),
            "paimon/tables_failed": len(self.failures),
        }
        if self.lines:
            summary["paimon/summary"] = grid(self.lines)
        if not self.failures:
            self.context.add_output_metadata(summary)
            return
        texts = [str(failure_of(error, table).description) for error, table in self.failures]
        raise dg.Failure(
            f"{len(texts)} of {counted(len(targets), 'table')} failed. {' '.join(texts)}",
            metadata=summary,
            allow_retries=any(isinstance(error, TRY_AGAIN) for error, _ in self.failures),
        )

    def _is_there(self, target: DeclaredTable) -> bool:
        """Whether there is anything to maintain; a table that the form names must exist."""
        try:
            if self.config.tables or self.paimon.catalog().table_exists(target.identifier):
                return True
        except errors.PaimonError:  # reported where it is maintained
            return True
        note = "not there yet"
        self.lines.append(line_of(target.identifier, "none", note=note))
        self.context.log.info("Table %s is %s.", target.identifier, note)
        return False

    def _maintain(self, target: DeclaredTable) -> None:
        identifier, orphans = target.identifier, self.config.delete_orphans
        done = maintain_table(identifier, self._open, self._tasks, delete_orphans=orphans)
        if done.error is not None:
            self.failures.append((done.error, identifier))
            text = done.error.message
            self.context.log.error("Table %s: %s", identifier, text, exc_info=done.error)
        # Of many tables those are looked for where something happened.
        self.lines += done.shown
        if done.reports:
            self._report(target, done)

    def _report(self, target: DeclaredTable, done: TableUpkeep) -> None:
        dry = "Dry run: " if self.config.dry_run else ""
        text = f"{dry}{'; '.join(_texts(done.reports)) or 'Nothing to do'}."
        self.context.log.info("Table %s: %s", target.identifier, text)
        lines = [{key: line[key] for key in line if key != "table"} for line in done.shown]
        metadata: Metadata = {"paimon/dry_run": self.config.dry_run}
        if lines:
            metadata["paimon/tasks"] = grid(lines)
        if not self.config.dry_run:
            metadata |= _deletion_numbers(done.reports, with_orphans=self.config.delete_orphans)
        self.context.log_event(
            dg.AssetObservation(asset_key=target.asset_key, description=text, metadata=metadata)
        )

    @property
    def _tasks(self) -> Collection[maintenance.MaintenanceTask]:
        return [choice.value for choice in self.config.tasks] or maintenance.CHEAP_TASKS

    def _open(self, identifier: Identifier) -> maintenance.Maintenance:
        config = self.config
        table = self.paimon.catalog().get_table(identifier)
        limit_ms = config.seconds_per_table * 1000
        return replace(
            table.maintenance(),
            dry_run=config.dry_run,
            orphans_older_than_ms=config.orphans_older_than_hours * 3_600_000,
            refused_older_than_ms=config.refused_older_than_hours * 3_600_000,
            until_ms=SystemClock().now_millis() + limit_ms if limit_ms else None,
            commit_user=f"dagster:{self.context.run.run_id}:{self.context.node_handle}:{table.name}",
            executor=self.paimon.new_executor()
            if maintenance.MaintenanceTask.ANALYZE in self._tasks
            else None,
        )


def _texts(reports: Sequence[maintenance.MaintenanceReport]) -> Iterator[str]:
    """Yield a line for each task that had something to do."""
    for report in reports:
        note = report.full_note
        if report.count or note:
            size = f", {size_text(report.total_bytes)}" if report.total_bytes else ""  # of metadata
            files = f" ({counted(report.files, 'file')}{size})" if report.files else ""
            shown = f"{report.task.value}: {report.count:,}{files}"
            yield f"{shown}, {note}" if note else shown


def _deletion_numbers(
    reports: Sequence[maintenance.MaintenanceReport], *, with_orphans: bool
) -> Metadata:
    """Return the numbers of deletions: Dagster plots them on the page of the table."""
    orphans = maintenance.MaintenanceTask.CLEAN_ORPHANS
    deleting = [one for one in reports if with_orphans or one.task is not orphans]
    files, size = sum(one.files for one in deleting), sum(one.total_bytes for one in deleting)
    numbers = {"paimon/deleted_files": files, "paimon/deleted_bytes": size}
    return {name: number for name, number in numbers.items() if number}
