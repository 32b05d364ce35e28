"""CALL sys.diff, sys.promote and sys.discard; see `sql.operations`."""

from collections.abc import Sequence
from typing import Any

from paimon_assets.engine.add_ons import JobReport
from paimon_assets.engine.spec.paths import branch_name
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.system.metadata import answer, texts
from paimon_assets.engine.table.table import Table
from paimon_assets.review import comparison, promotion
from paimon_assets.review.comparison import LATEST, TableDiff
from paimon_assets.review.promotion import Promotion


def diff(table: Table, from_version: str, to_version: str = LATEST, *, executor: Any) -> TableDiff:
    """Count the rows that differ between two states: `latest`, an id, a tag, or `branch@` one."""
    return comparison.diff(table, from_version, to_version, executor=executor, examples=0)


def promote(
    branch: str,
    tables: Sequence[str] = (),
    dry_run: bool = False,
    *,
    catalog: TableCatalog,
    executor: Any,
) -> list[Promotion]:
    """Make all tables equal to their branches of a name, unless main has moved in one of them."""
    return promotion.promote(
        catalog, branch_name(branch), tables, dry_run=dry_run, executor=executor
    )


def discard(branch: str, tables: Sequence[str] = (), *, catalog: TableCatalog) -> list[str]:
    """Delete the branches of a name, of all tables."""
    return promotion.discard(catalog, branch_name(branch), tables)


SHOWN = {
    diff: lambda difference: answer(
        "partition STRING, added BIGINT, removed BIGINT, changed BIGINT",
        [[name, rows.added, rows.removed, rows.changed] for name, rows in difference.numbers],
    ),
    promote: lambda report: answer(
        "table STRING, promoted BOOLEAN, rows BIGINT, refusal STRING",
        [[one.table, one.is_promoted, one.diff.rows.rows, one.refusal] for one in report],
    ),
    discard: lambda names: texts("discarded", names),
}
"""Operation → the rows that its CALL shows."""
REPORTS = {
    diff: lambda difference: JobReport(markdown=difference.markdown()),
    promote: lambda report: JobReport(
        failure=" ".join(f"{one.table}: {one.refusal}." for one in report if one.refusal),
        markdown="\n".join(one.markdown() for one in report),
    ),
}
"""Operation → the report of a job on its result."""
