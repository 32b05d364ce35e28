"""The maintenance job: many tables in one run, each by itself, with a summary at the end.

    tables of the form ─▶ one after the other, task after task, each table for a limited time
                          ├▶ an observation of its asset
                          └▶ a line for each task ─▶ summary of the run

A table that fails stops no other; the run fails at the end and names it. Every task can be
repeated: a run that was killed, or a retry, goes on with what is left.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

import dagster as dg
from pydantic import Field

from paimon_assets.assets.compaction import DeclaredTable, tables_named
from paimon_assets.assets.failures import RETRY_WAIT_SECONDS, failure_of
from paimon_assets.assets.resource import DEFAULT_RESOURCE_KEY, PaimonCatalogResource
from paimon_assets.engine.control.catalog import Identifier
from paimon_assets.engine.control.clock import SystemClock
from paimon_assets.engine.errors import (
    CommitConflictError,
    CommitUnknownError,
    InvalidInputError,
    PaimonError,
    StorageError,
)
from paimon_assets.engine.table.maintenance import (
    CHEAP_TASKS,
    Maintenance,
    MaintenanceReport,
    MaintenanceTask,
)

MAINTENANCE_OP = "maintain"
MAINTENANCE_POOL = "paimon/maintenance"
"""One maintenance step at a time, if the pool has a limit."""

_MOST_RETRIES = 1
_RETRIED = (CommitConflictError, CommitUnknownError, StorageError)


class MaintenanceChoice(Enum):
    """What is done for a table; see `MaintenanceTask`."""

    expire_partitions = MaintenanceTask.EXPIRE_PARTITIONS
    compact_manifests = MaintenanceTask.COMPACT_MANIFESTS
    create_tags = MaintenanceTask.CREATE_TAGS
    analyze = MaintenanceTask.ANALYZE
    expire_tags = MaintenanceTask.EXPIRE_TAGS
    expire_snapshots = MaintenanceTask.EXPIRE_SNAPSHOTS
    expire_changelogs = MaintenanceTask.EXPIRE_CHANGELOGS
    clean_orphans = MaintenanceTask.CLEAN_ORPHANS


class MaintenanceConfig(dg.Config):
    """Which tables are maintained, and what is done for them."""

    tables: list[str] = Field(
        default=[],
        description="Tables as database.table; database.* takes all tables of a database. Empty "
        "takes all tables this job declares.",
    )
    tasks: list[MaintenanceChoice] = Field(
        default=[],
        description="What is done for each table, in the order of this schema. Empty does all but "
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
    seconds_per_table: int = Field(
        default=900,
        description="After so long no further piece of work begins for a table; the next run goes "
        "on with it. 0 sets no limit.",
    )
    dry_run: bool = Field(
        default=False, description="Only tell what would be done; delete and commit nothing."
    )

    def check(self) -> None:
        """Refuse what the Launchpad cannot.

        Raises:
            InvalidInputError: Kind `maintenance-config`.
        """
        for name in ("orphans_older_than_hours", "seconds_per_table"):
            if getattr(self, name) < 0:
                raise InvalidInputError(
                    f"The maintenance cannot run: {name} is {getattr(self, name)}; give 0 or more.",
                    kind="maintenance-config",
                )


def maintenance_job(
    tables: Sequence[dg.AssetsDefinition | str | Identifier] = (),
    name: str = "maintenance_job",
    *,
    suggestion: MaintenanceConfig | None = None,
) -> dg.JobDefinition:
    """Return the job that maintains tables of the catalog `paimon`.

    Args:
        tables: Assets or names of tables; the form may name further ones.
        name: Of the job.
        suggestion: What fills the Launchpad.

    Raises:
        InvalidInputError: Something in `tables` is not one table.
    """
    declared = [DeclaredTable.of(table) for table in tables]

    @dg.op(
        name=f"{name}__{MAINTENANCE_OP}",
        pool=MAINTENANCE_POOL,
        required_resource_keys={DEFAULT_RESOURCE_KEY},
        retry_policy=dg.RetryPolicy(max_retries=_MOST_RETRIES, delay=RETRY_WAIT_SECONDS),
        tags={"kind": "paimon"},
    )
    def maintain(context: dg.OpExecutionContext, config: MaintenanceConfig) -> None:
        paimon: PaimonCatalogResource = getattr(context.resources, DEFAULT_RESOURCE_KEY)
        _Run(context=context, config=config, paimon=paimon, declared=declared).run()

    @dg.job(
        name=name,
        config=dg.RunConfig(ops={MAINTENANCE_OP: suggestion or MaintenanceConfig()}),
        description="Expires partitions, snapshots, changelogs and tags by the options of each "
        "table, makes tags that are due, compacts manifests, and finds files that nothing names. "
        "`dry_run` shows what would be done.",
    )
    def job() -> None:
        maintain.alias(MAINTENANCE_OP)()

    return job


class _Run:
    """One step."""

    def __init__(
        self,
        *,
        context: dg.OpExecutionContext,
        config: MaintenanceConfig,
        paimon: PaimonCatalogResource,
        declared: Sequence[DeclaredTable],
    ) -> None:
        self._context = context
        self._config = config
        self._paimon = paimon
        self._declared = declared
        self._lines: list[dg.TableRecord] = []
        self._errors: list[tuple[PaimonError, Identifier]] = []

    def run(self) -> None:
        """Maintain all tables.

        Raises:
            Failure: At the end, if something was wrong with a table.
        """
        try:
            self._config.check()
            targets = self._targets()
        except InvalidInputError as error:
            raise dg.Failure(error.message, allow_retries=False) from error
        for target in targets:
            self._maintain(target)
        summary: dict[str, Any] = {
            "paimon/tables": len(targets),
            "paimon/tables_failed": len(self._errors),
            "paimon/summary": dg.MetadataValue.table(self._lines),
        }
        if not self._errors:
            self._context.add_output_metadata(summary)
            return
        texts = [str(failure_of(error, table).description) for error, table in self._errors]
        raise dg.Failure(
            f"{len(texts)} of {len(targets)} tables failed. {' '.join(texts)}",
            metadata=summary,
            allow_retries=any(isinstance(error, _RETRIED) for error, _ in self._errors),
        )

    def _targets(self) -> list[DeclaredTable]:
        if not self._config.tables:
            return list(self._declared)
        catalog = self._paimon.catalog()
        known = {table.identifier: table for table in self._declared}
        named = [each for text in self._config.tables for each in tables_named(text, catalog)]
        return [known.get(each) or DeclaredTable.of(each) for each in dict.fromkeys(named)]

    def _maintain(self, target: DeclaredTable) -> None:
        """Do all tasks for one table; the first that fails ends it."""
        metadata: dict[str, Any] = {"paimon/dry_run": self._config.dry_run}
        reports = self._reports(target.identifier)
        while True:
            started = time.monotonic()
            try:
                report = next(reports, None)
            except PaimonError as error:
                self._errors.append((error, target.identifier))
                self._line(target, "failed", 0, note=error.message)
                self._context.log.exception("Table %s: %s", target.identifier, error.message)
                break
            if report is None:
                break
            metadata |= self._told(target, report, time.monotonic() - started)
        self._context.log_event(dg.AssetObservation(asset_key=target.asset_key, metadata=metadata))

    def _told(
        self, target: DeclaredTable, report: MaintenanceReport, seconds: float
    ) -> dict[str, Any]:
        note = report.note if report.is_complete else f"time is over; {report.note}".rstrip("; ")
        self._line(target, report.task.value, seconds, report=report, note=note)
        self._context.log.info(
            "Table %s: %s: %d, with %d files and %d bytes, in %.1f s. %s",
            target.identifier,
            report.task.value,
            report.count,
            report.files,
            report.total_bytes,
            seconds,
            note,
        )
        return {
            f"paimon/{report.task.value}": report.count,
            f"paimon/{report.task.value}_bytes": report.total_bytes,
        }

    def _line(
        self,
        target: DeclaredTable,
        task: str,
        seconds: float,
        *,
        report: MaintenanceReport | None = None,
        note: str,
    ) -> None:
        self._lines.append(
            dg.TableRecord(
                {
                    "table": str(target.identifier),
                    "task": task,
                    "count": report.count if report else 0,
                    "files": report.files if report else 0,
                    "bytes": report.total_bytes if report else 0,
                    "seconds": round(seconds, 3),
                    "note": note,
                }
            )
        )

    def _reports(self, identifier: Identifier) -> Iterator[MaintenanceReport]:
        config = self._config
        table = self._paimon.catalog().get_table(identifier)
        limit_ms = config.seconds_per_table * 1000
        work = replace(
            table.maintenance(),
            orphans_older_than_ms=config.orphans_older_than_hours * 3_600_000,
            until_ms=SystemClock().now_millis() + limit_ms if limit_ms else None,
            commit_user=f"dagster:{self._context.run.run_id}:{self._context.node_handle}:{table.name}",
        )
        chosen = {choice.value for choice in config.tasks} or set(CHEAP_TASKS)
        if MaintenanceTask.ANALYZE in chosen:
            work = replace(work, executor=self._paimon.new_executor())
        for task in (task for task in MaintenanceTask if task in chosen):
            if work.is_time_over:
                yield MaintenanceReport(task=task, note="not begun", is_complete=False)
            else:
                yield self._with_dry_run(work, task).run(task)

    def _with_dry_run(self, work: Maintenance, task: MaintenanceTask) -> Maintenance:
        only_counts = task is MaintenanceTask.CLEAN_ORPHANS and not self._config.delete_orphans
        return replace(work, dry_run=self._config.dry_run or only_counts)
