"""Changes between two snapshots are the same here and in Java, with changelogs of either.

A diff differs: Java returns rows as they were stored, +I even for a known key, and the record that
deleted; we return +U, and the deleted row.
"""

from itertools import cycle, pairwise

import pytest

from paimon_assets.engine.table.table import Table
from tests.interop.scenarios import COMPACTED, KEYED, Scenario
from tests.interop.steps import JavaSide, OurSide
from tests.testkit.oracle import Oracle
from tests.testkit.rows import plain_rows

pytestmark = pytest.mark.interop

NAMES = ("rowkind", "day", "id", "kind", "text")
TURNS = {"we": "o", "java": "j", "we-java": "oj", "java-we": "jo"}
PRODUCERS = ("none", "input", "lookup", "full-compaction")

Changes = list[tuple[object, ...]]


def _ours(table: Table, start: int, end: int, mode: str) -> Changes:
    builder = table.new_read_builder().between(start, end, mode).with_row_kinds()
    return plain_rows(builder.to_arrow(), NAMES)


def _javas(java: Oracle, table: str, start: int, end: int, mode: str) -> Changes:
    options = {"incremental-between": f"{start},{end}", "incremental-between-scan-mode": mode}
    rows = java.call("rows", table=f"{table}$audit_log", options=options)
    return sorted(map(tuple, rows), key=repr)


def _comparable(diff: Changes) -> Changes:
    """Return new rows as inserts, and the keys of those that are gone."""
    return sorted((k, *row[:2]) if k == "-D" else ("+I", *row) for k, *row in diff)


@pytest.mark.parametrize("turns", TURNS.values(), ids=TURNS)
@pytest.mark.parametrize("producer", PRODUCERS)
def test_changes_are_reported_alike(producer: str, turns: str, java: Oracle, ours: OurSide) -> None:
    name = f"changes.{producer.replace('-', '_')}_{turns}"
    options = {**KEYED, "bucket": "2", "changelog-producer": producer, "write-only": "true"}
    scenario = Scenario(name=name, options=options, steps=COMPACTED)
    theirs = JavaSide(java, ours)
    table = ours.create(name, scenario.schema)
    for step, turn in zip(scenario.steps, cycle(turns), strict=False):
        (ours if turn == "o" else theirs).do(name, step)
    newest = len(table.snapshots())
    for start, end in {*pairwise(range(newest + 1)), (0, newest), (1, newest - 1), (2, newest)}:
        between = (start, end)
        for mode in ("changelog", "delta"):
            changes = _ours(table, *between, mode)
            assert changes == _javas(java, name, *between, mode), (mode, between)
        if start:  # Java has no state before the first snapshot
            diff = _javas(java, name, *between, "diff")
            assert _comparable(_ours(table, *between, "diff")) == _comparable(diff), between
    assert bool(_ours(table, 0, newest, "changelog")) == (producer != "none")
