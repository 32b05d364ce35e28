"""Which keys of a table occur more than once: planned here, found by an executor."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from paimon_assets.engine.contract.executor import CountingExecutor
from paimon_assets.engine.contract.repeated_keys import RepeatedKeys
from paimon_assets.engine.table.read.read_builder import Plan, ReadBuilder
from paimon_assets.engine.table.table import Table


def find_duplicates(
    table: Table, key: Sequence[str], executor: CountingExecutor[Any], *, is_merged: bool = True
) -> RepeatedKeys:
    """Find the keys of a table's newest snapshot that occur more than once.

    Nulls count as equal. Merged, it looks at rows as a reader gets them; else at every stored row.

    Cost:
        Memory as `data.repeated_keys` says; on Spark that of a grouped count.
    """
    read = table.new_read_builder().with_columns(key)
    snapshot = table.latest_snapshot()
    if snapshot is not None:
        read = read.at_snapshot(snapshot.id)
    plan = read.plan() if is_merged else unmerged_plan(read)
    return executor.repeated_keys(plan.context, plan.splits, key)


def unmerged_plan(read: ReadBuilder) -> Plan:
    """Plan a read of every stored row, also of those that newer ones replace, with its kind."""
    plan = read.with_row_kinds().plan()
    return replace(plan, splits=tuple(replace(it, is_streaming=True) for it in plan.splits))
