"""Expiring, cleaning, tags and statistics by each side in turn: nothing the other needs is gone."""

from pathlib import Path
from typing import Any

import pytest

from paimon_assets.engine.table.table import Table
from tests.interop.scenarios import CHANGES, COMPACTED, KEYED, NAMES, VECTORS, Scenario, rows
from tests.interop.steps import Chore, Compact, JavaSide, Keep, OurSide, Side, Write
from tests.testkit.oracle import Oracle
from tests.testkit.rows import plain_rows

pytestmark = pytest.mark.interop

MAKERS = ("we", "java")
KINDS = {
    "changelog": {"changelog-producer": "lookup"},
    "vectors": VECTORS,
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "12"},
}
CHORES = (Chore.ANALYZE, Chore.COMPACT_MANIFESTS, Chore.EXPIRE, Chore.CLEAN_ORPHANS)
_UUID = "00000000-0000-4000-8000-000000000000"
ORPHANS = (
    f"bucket-0/data-{_UUID}-0.parquet",
    f"manifest/manifest-{_UUID}-0",
    f"index/index-{_UUID}-0",
)


def _same(java: Oracle, table: Table, **options: str) -> list[Any]:
    found = plain_rows(table.new_read_builder().with_options(options).to_arrow(), NAMES)
    theirs = java.call("rows", table=table.name, options=options)
    assert sorted(map(tuple, theirs), key=repr) == found
    return found


def _same_history(java: Oracle, table: Table) -> list[int]:
    """Return the snapshots both know."""
    ids = [snapshot.id for snapshot in table.snapshots()]
    assert [row[0] for row in java.call("rows", table=f"{table.name}$snapshots")] == ids
    return ids


def _create(
    java: Oracle, warehouse: Path, name: str, options: dict[str, str]
) -> tuple[dict[str, Side], Table]:
    ours = OurSide(warehouse)
    scenario = Scenario(name=name, options={"bucket": "2", **KEYED, **options}, steps=())
    table = ours.create(f"maintenance.{name}", scenario.schema)
    return {"we": ours, "java": JavaSide(java, ours)}, table


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_all_rows_are_read_after_maintenance(
    kind: str, maker: str, java: Oracle, shared_warehouse: Path
) -> None:
    sides, table = _create(java, shared_warehouse, f"{kind}_{maker}", KINDS[kind])
    other = sides[next(name for name in MAKERS if name != maker)]
    for step in COMPACTED[:-1]:
        sides["we"].do(table.name, step)
    table.tags.create("t2", 2)
    tagged = _same(java, table, **{"scan.tag-name": "t2"})
    expected = _same(java, table)
    for chore in CHORES:
        sides[maker].do(table.name, Keep(chore))
        assert _same(java, table) == expected
    assert len(_same_history(java, table)) == 1
    assert _same(java, table, **{"scan.tag-name": "t2"}) == tagged
    statistics = java.call("change", table=table.name, action="statistics")
    assert statistics["rows"] == len(expected)

    for step in (Compact(), Write(rows(range(200, 210), "more")), Compact(is_full=False)):
        other.do(table.name, step)
    assert len(_same_history(java, table)) > 1
    expected = _same(java, table)
    other.do(table.name, Keep(Chore.EXPIRE))
    other.do(table.name, Keep(Chore.CLEAN_ORPHANS))
    assert len(_same_history(java, table)) == 1
    assert _same(java, table) == expected
    assert _same(java, table, **{"scan.tag-name": "t2"}) == tagged
    if maker == "we":
        java.call("change", table=table.name, action="delete_tag", name="t2")
    else:
        table.tags.delete("t2")
    sides[maker].do(table.name, Keep(Chore.CLEAN_ORPHANS))
    assert _same(java, table) == expected


def test_we_write_on_manifests_that_java_compacted(java: Oracle, shared_warehouse: Path) -> None:
    """Java's snapshot copies our properties, with the base."""
    sides, table = _create(java, shared_warehouse, "manifests", {"manifest.merge-min-count": "2"})
    for step in (*CHANGES, Compact()):
        sides["we"].do(table.name, step)
    for number in (300, 310):
        sides["java"].do(table.name, Keep(Chore.COMPACT_MANIFESTS))
        sides["we"].do(table.name, Write(rows(range(number, number + 2), "more")))
        _same(java, table)


def test_java_reads_our_statistics(java: Oracle, shared_warehouse: Path) -> None:
    sides, table = _create(java, shared_warehouse, "statistics", {})
    for step in CHANGES:
        sides["we"].do(table.name, step)
    table.analyze()
    statistics = java.call("change", table=table.name, action="statistics")
    assert statistics["snapshot"] == len(CHANGES)
    found = _same(java, table)
    assert statistics["rows"] == len(found)
    ids, days = [row[1] for row in found], {row[0] for row in found}
    assert statistics["columns"]["id"] == [len(ids), str(min(ids)), str(max(ids)), 0]
    assert statistics["columns"]["day"][0] == len(days)


@pytest.mark.parametrize("maker", MAKERS)
def test_each_finds_same_orphans(maker: str, java: Oracle, shared_warehouse: Path) -> None:
    sides, table = _create(java, shared_warehouse, f"orphans_{maker}", KINDS["dynamic"])
    for number, step in enumerate(COMPACTED):
        sides[MAKERS[number % 2]].do(table.name, step)
    table.tags.create("t2", 2)
    sides["we"].do(table.name, Keep(Chore.EXPIRE))
    home = Path(table.path)
    sides[maker].do(table.name, Keep(Chore.CLEAN_ORPHANS))  # Java's compaction may leave some
    before = {path for path in home.rglob("*") if path.is_file()}
    for name in ORPHANS:
        (home / name).write_bytes(b"nobody knows me")
    sides[maker].do(table.name, Keep(Chore.CLEAN_ORPHANS))
    assert {path for path in home.rglob("*") if path.is_file()} == before
    _same(java, table)
    _same(java, table, **{"scan.tag-name": "t2"})
