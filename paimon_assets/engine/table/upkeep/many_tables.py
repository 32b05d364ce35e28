"""The maintenance of many tables: each by itself, so that a table that fails stops no other."""

import time
from collections.abc import Callable, Collection, Mapping
from fnmatch import fnmatchcase
from typing import Protocol

from msgspec import field
from msgspec.structs import replace

from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError, PaimonError
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.upkeep.maintenance import (
    CHEAP_TASKS,
    Maintenance,
    MaintenanceReport,
    MaintenanceTask,
)

Line = Mapping[str, str | int | float]
"""A line of the report on many tables."""
EVERY_TABLE = "*"
_WILD = set("*?")


class TableUpkeep(Value):
    """The maintenance of one table, or its dry run."""

    table: Identifier
    lines: list[Line] = field(default_factory=list)
    """A line for each task, and one for the error."""
    reports: list[MaintenanceReport] = field(default_factory=list)
    error: PaimonError | None = None

    @property
    def shown(self) -> list[Line]:
        """The lines of tasks that had something to do or to say."""
        return [line for line in self.lines if line["count"] or line["note"]]

    @property
    def is_due(self) -> bool:
        """Whether a task, of a dry run, would commit or delete something."""
        orphans = MaintenanceTask.CLEAN_ORPHANS  # only counted
        return any(one.task is not orphans and (one.count or one.files) for one in self.reports)


class TableNames(Protocol):
    """Databases and tables by name; errors are those of `api.TableCatalog`."""

    def list_databases(self) -> list[str]:
        """Return the names of the databases."""

    def list_tables(self, database: str) -> list[str]:
        """Return the names of the tables of a database."""


def tables_named(text: str, catalog: TableNames) -> list[Identifier]:
    """Return the table that a name means, or all that fit a pattern such as `database.*`.

    Raises:
        InvalidInputError: No table fits the pattern (kind `table-pattern`), or it is no name.
    """
    text = text.strip()
    if not _WILD & set(text):
        return [Identifier.parse(text)]
    database, dot, _ = text.partition(".")
    databases = catalog.list_databases() if _WILD & set(database) or not dot else [database]
    names = [Identifier(each, table) for each in databases for table in catalog.list_tables(each)]
    matches = [name for name in names if fnmatchcase(str(name), text)]
    if not matches and text != EVERY_TABLE:
        message = f"No table fits '{text}'; `paimon-assets ls` shows the names."
        raise InvalidInputError(message, kind="table-pattern")
    return matches


def maintain_table(
    table: Identifier,
    open_work: Callable[[Identifier], Maintenance],
    tasks: Collection[MaintenanceTask] = CHEAP_TASKS,
    *,
    delete_orphans: bool = False,
) -> TableUpkeep:
    """Run tasks for one table, in the order of `MaintenanceTask`; the first that fails ends it."""
    done, started = TableUpkeep(table=table), time.monotonic()
    try:
        work = open_work(table)
        for task in (task for task in MaintenanceTask if task in tasks):
            if work.is_time_over:
                report = MaintenanceReport(task=task, note="not begun", is_complete=False)
            elif task is MaintenanceTask.CLEAN_ORPHANS and not delete_orphans:
                report = replace(work, dry_run=True).run(task)
                note = "counted, not deleted" if report.count else report.note
                report = replace(report, note=note)
            else:
                report = work.run(task)
            done.reports.append(report)
            before, started = started, time.monotonic()
            done.lines.append(
                line_of(table, task.value, report, report.full_note, seconds=started - before)
            )
    except PaimonError as error:
        done.lines.append(line_of(table, "failed", note=error.message))
        return replace(done, error=error)
    return done


def line_of(
    table: Identifier,
    task: str,
    report: MaintenanceReport | None = None,
    note: str = "",
    *,
    seconds: float = 0,
) -> Line:
    """Return a line of the report."""
    return {
        "table": str(table),
        "task": task,
        "count": report.count if report else 0,
        "files": report.files if report else 0,
        "bytes": report.total_bytes if report else 0,
        "seconds": round(seconds, 3),
        "note": note,
    }
