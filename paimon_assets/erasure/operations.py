"""CALL sys.erase; see `sql.operations`."""

from typing import Any

from paimon_assets.engine.add_ons import JobReport
from paimon_assets.engine.table.read.spark_dialect import SparkSql
from paimon_assets.engine.table.read.where import parse_where
from paimon_assets.engine.table.system.metadata import answer
from paimon_assets.engine.table.table import Table
from paimon_assets.erasure import run


def erase(
    table: Table,
    where: str,
    history: run.History = run.History.KEEP,
    dry_run: bool = False,
    *,
    executor: Any,
) -> run.EraseReport:
    """Erase rows from all snapshots, tags, changelogs and branches, and from all their files."""
    filter_ = parse_where(where, SparkSql)
    return run.erase(table, filter_, history=history, dry_run=dry_run, executor=executor)


SHOWN = {
    erase: lambda report: answer(
        "branch STRING, kind STRING, name STRING, files BIGINT, rows BIGINT",
        [
            *([p.branch, p.kind, p.name, p.files, p.rows] for p in report.places),
            *([None, "outside", text, None, None] for text in report.outside),
        ],
    )
}
"""Operation → the rows that its CALL shows."""
REPORTS = {
    erase: lambda report: JobReport(
        failure="" if report.is_complete else f"Rows may be left: {'; '.join(report.outside)}",
        markdown="\n".join(f"- {line}" for line in report.lines()),
    )
}
"""Operation → the report of a job on its result."""
