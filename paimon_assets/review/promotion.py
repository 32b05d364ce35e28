"""Branches of many tables under one name: a preview of a change, until it is promoted or discarded.

    first write ─▶ tag `preview-NAME` of main's newest snapshot ─▶ branch NAME that begins with it
    promote     ─▶ main is still at that tag, in all tables ─▶ each takes its branch's snapshots
    discard     ─▶ the branches go, then the tags; files that only they named are orphans

The tag keeps the files that main and the branch share, and shows whether main has moved since.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from paimon_assets.engine.contract.executor import TaskRunner
from paimon_assets.engine.control.maintenance.tag_files import drop_tag
from paimon_assets.engine.errors import CommitConflictError, NotFoundError
from paimon_assets.engine.spec.paths import MAIN_BRANCH
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.table import Table, preview_tag
from paimon_assets.engine.table.upkeep.many_tables import EVERY_TABLE, tables_named
from paimon_assets.review.comparison import LATEST, TableDiff, diff


class Promotion(Value):
    """One table of a promotion."""

    table: str
    diff: TableDiff
    """From main to the branch."""
    refusal: str = ""
    """Why main cannot become the branch; empty if it can, or has."""
    is_promoted: bool = False

    def markdown(self) -> str:
        """Return the text of a comment."""
        return f"{self.diff.markdown()}{f'**Refused**: {self.refusal}.' if self.refusal else ''}"


def promote(
    catalog: TableCatalog,
    branch: str,
    tables: Sequence[str] = (),
    *,
    dry_run: bool = False,
    executor: TaskRunner | None = None,
) -> list[Promotion]:
    """Make the tables equal to their branches, or none of them if main has moved in one.

    >>> promote(catalog, "preview", dry_run=True), discard(catalog, "preview")
    ([], [])

    A commit of main meanwhile is kept: it is built on the branch, or its table is refused.

    Raises:
        NotFoundError: There is no such table.
    """
    opened = list(_with_branch(catalog, branch, tables))
    report = [
        Promotion(
            table=table.name,
            diff=diff(table, f"{MAIN_BRANCH}@{LATEST}", f"{branch}@{LATEST}", executor=executor),
            refusal=_refusal(table, branch),
        )
        for table in opened
    ]
    if dry_run or any(one.refusal for one in report):
        return report
    return [_promote_table(*each, branch) for each in zip(opened, report, strict=True)]


def discard(catalog: TableCatalog, branch: str, tables: Sequence[str] = ()) -> list[str]:
    """Delete a branch of all tables, and return their names; a cleaning removes the files.

    Raises:
        NotFoundError: There is no such table.
    """
    opened = list(_with_branch(catalog, branch, tables))
    for table in opened:
        _discard(table, branch)
    return [table.name for table in opened]


def _with_branch(catalog: TableCatalog, branch: str, tables: Sequence[str]) -> Iterator[Table]:
    """Yield the tables that have a branch, or its tag."""
    names = [name for text in tables or [EVERY_TABLE] for name in tables_named(text, catalog)]
    for name in dict.fromkeys(names):
        table = catalog.get_table(name)
        if table.branches.exists(branch) or table.tags.get_or_none(preview_tag(branch)) is not None:
            yield table


def _refusal(table: Table, branch: str) -> str:
    base, newest = table.tags.get_or_none(preview_tag(branch)), table.latest_snapshot()
    if not table.branches.exists(branch):
        return ""
    theirs = table.at_branch(branch).new_read_builder().store.snapshots
    number = 0 if newest is None else newest.id
    is_theirs = newest is not None and newest == theirs.snapshot_or_none(number)
    if not is_theirs and newest != (None if base is None else base.snapshot):
        since = "an empty table" if base is None else f"snapshot {base.snapshot.id}"
        return f"main has moved from {since} to snapshot {number} since the branch began"
    if min(theirs.list_ids(), default=0) > number + 1:
        return "the branch's first snapshots have expired"
    own = {schema.id: schema for schema in table.at_branch(branch).schemas()}
    lost = [s.id for s in table.schemas() if s.id not in own or own[s.id].fields != s.fields]
    return f"main has the schema {lost[0]}, which the branch lacks" if lost else ""


def _promote_table(table: Table, one: Promotion, branch: str) -> Promotion:
    if table.branches.exists(branch) and table.at_branch(branch).latest_snapshot() is not None:
        try:
            table.branches.fast_forward(branch, keeps_main=True)
        except CommitConflictError as error:
            return replace(one, refusal=error.message.removesuffix("."))
    _discard(table, branch)
    try:
        table.refresh()  # of a table that is gone, nothing above was refused
    except NotFoundError:
        return replace(one, refusal="the table was dropped or renamed meanwhile")
    return replace(one, is_promoted=True)


def _discard(table: Table, branch: str) -> None:
    if table.branches.exists(branch):
        table.branches.delete(branch)
    if (tag := table.tags.get_or_none(preview_tag(branch))) is not None:
        drop_tag(table.maintenance().store, tag)  # beside an erasure, too
