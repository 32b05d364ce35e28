"""Tags, branches, rollback and expiration: each side continues after the other."""

from pathlib import Path
from typing import Any

import pytest

from paimon_assets import Schema, Table, open_catalog, set_option
from paimon_assets.engine.codec.rest.structure import changes_to_json
from paimon_assets.erasure import History, erase
from paimon_assets.review import discard, promote
from tests.interop.scenarios import COMPACTED, KEYED, NAMES, Scenario, rows
from tests.interop.steps import Compact, JavaSide, OurSide, Write
from tests.testkit.oracle import Oracle
from tests.testkit.rows import plain_rows, rows_to_arrow

pytestmark = pytest.mark.interop

MAKERS = ("we", "java")
PLAIN = Scenario(name="history", options={**KEYED, "bucket": "2"}, steps=())
MORE = Write(rows(range(100, 110), "more"))


def _create(warehouse: Path, name: str) -> tuple[OurSide, Table]:
    ours = OurSide(warehouse)
    table = ours.create(f"history.{name}", PLAIN.schema)
    for step in (Write(rows(range(20), "a")), Write(rows(range(10, 30), "b")), MORE):
        ours.do(table.name, step)
    return ours, table


def _java(java: Oracle, table: str, **options: str) -> list[Any]:
    return sorted(map(tuple, java.call("rows", table=table, options=options)), key=repr)


def _ours(table: Table, **options: str) -> list[Any]:
    return plain_rows(table.new_read_builder().with_options(options).to_arrow(), NAMES)


def _same(java: Oracle, table: Table, name: str = "", **options: str) -> list[Any]:
    found = _ours(table, **options)
    assert _java(java, name or table.name, **options) == found
    return found


@pytest.mark.parametrize("maker", MAKERS)
def test_tags_are_read_by_both(maker: str, java: Oracle, shared_warehouse: Path) -> None:
    ours, table = _create(shared_warehouse, f"tags_{maker}")
    if maker == "we":
        table.tags.create("t1", 1)
        table.tags.create("t2", 2)
    else:
        for number in (1, 2):
            name = f"t{number}"
            java.call("change", table=table.name, action="create_tag", name=name, snapshot=number)
    ours.do(table.name, MORE)
    for number in (1, 2):
        tagged = _same(java, table, **{"scan.tag-name": f"t{number}"})
        assert tagged == _ours(table, **{"scan.snapshot-id": str(number)})
    between = {"incremental-between": "t1,t2"}
    changes = plain_rows(table.new_read_builder().with_options(between).to_arrow(), NAMES)
    assert changes == _java(java, table.name, **between)
    assert len(table.tags.list()) == 2
    if maker == "we":
        java.call("change", table=table.name, action="delete_tag", name="t1")
    else:
        table.tags.delete("t1")
    assert [tag.name for tag in table.tags.list()] == ["t2"]
    assert [row[0] for row in java.call("rows", table=f"{table.name}$tags")] == ["t2"]


@pytest.mark.parametrize("maker", MAKERS)
def test_branches_are_read_written_and_forwarded_by_both(
    maker: str, java: Oracle, shared_warehouse: Path
) -> None:
    ours, table = _create(shared_warehouse, f"branches_{maker}")
    table.tags.create("t2", 2)
    if maker == "we":
        table.branches.create("b", tag="t2")
        table.branches.create("empty")
    else:
        java.call("change", table=table.name, action="create_branch", name="b", tag="t2")
        java.call("change", table=table.name, action="create_branch", name="empty")
    assert table.branches.list().keys() == {"b", "empty"}
    branch = f"{table.name}$branch_b"
    on_branch = table.at_branch("b")
    assert _same(java, on_branch, branch) == _ours(table, **{"scan.tag-name": "t2"})
    assert _same(java, table.at_branch("empty"), f"{table.name}$branch_empty") == []

    theirs = JavaSide(java, ours)
    theirs.do(branch, Write(rows(range(5), "java")))
    ours.do(branch, Write(rows(range(3, 8), "ours")))
    forked = _same(java, on_branch, branch)
    assert forked != _same(java, table)
    if maker == "we":
        java.call("change", table=table.name, action="fast_forward", name="b")
    else:
        table.branches.fast_forward("b")
    assert _same(java, table) == forked
    for side in (ours, theirs):
        side.do(table.name, MORE)
    assert len(_same(java, table)) == len(forked) + len(MORE.rows)


@pytest.mark.parametrize("target", ["snapshot", "tag"])
@pytest.mark.parametrize("maker", MAKERS)
def test_both_continue_after_rollback(
    maker: str, target: str, java: Oracle, shared_warehouse: Path
) -> None:
    ours, table = _create(shared_warehouse, f"rollback_{target}_{maker}")
    table.tags.create("t1", 1)
    wanted = _ours(table, **{"scan.snapshot-id": "1"})
    if maker == "we":
        table.rollback_to(1 if target == "snapshot" else "t1")
    else:
        action = f"rollback_to_{target}"
        java.call("change", table=table.name, action=action, name="t1", snapshot=1)
    assert _same(java, table) == wanted
    assert [snapshot.id for snapshot in table.snapshots()] == [1]
    JavaSide(java, ours).do(table.name, MORE)
    ours.do(table.name, Write(rows(range(110, 115), "more")))
    assert len(_same(java, table)) == len(wanted) + 15


def test_we_continue_after_java_expiration(java: Oracle, ours: OurSide) -> None:
    options = {**KEYED, "bucket": "2", "changelog-producer": "lookup"}
    table = ours.create(
        "history.expired", Scenario(name="expired", options=options, steps=()).schema
    )
    for step in COMPACTED[:-1]:
        ours.do(table.name, step)
    table.tags.create("t1", 1)
    first = _same(java, table, **{"scan.tag-name": "t1"})
    expected = _same(java, table)
    assert java.call("change", table=table.name, action="expire", keep=1) > 0
    assert len(table.snapshots()) == 1
    assert _same(java, table) == expected
    assert _same(java, table, **{"scan.tag-name": "t1"}) == first
    ours.do(table.name, COMPACTED[-1])
    assert _same(java, table) == expected


def test_fallback_branch_may_have_own_key(java: Oracle, ours: OurSide) -> None:
    columns = {"day": "STRING", "id": "INT", "v": "INT"}
    table = ours.create("history.fallback", Schema.of(columns, partition_keys=["day"]))
    java.call("put", table=table.name, rows=[["a", 7, 70], ["a", 7, 71]])
    java.call("change", table=table.name, action="create_branch", name="stream")
    branch = f"{table.name}$branch_stream"
    keyed = {"primary-key": "day,id", "bucket": "1"}
    changes = changes_to_json([set_option(*each) for each in keyed.items()])
    java.call("alter", table=branch, changes=changes)
    for batch in ([["a", 1, 0], ["b", 1, 10], ["b", 2, 20]], [["b", 1, 11]]):
        java.call("put", table=branch, rows=batch)
    table.alter([set_option("scan.fallback-branch", "stream")])
    opened = ours.open(table.name)
    expected = [("a", 7, 70), ("a", 7, 71), ("b", 1, 11), ("b", 2, 20)]
    assert _java(java, table.name) == expected
    assert plain_rows(opened.new_read_builder().to_arrow(), columns) == expected


ERASED: dict[str, dict[str, str]] = {
    "plain": {},
    "vectors": {"deletion-vectors.enabled": "true"},
    "changelogs": {"changelog-producer": "lookup"},
    "dynamic": {"bucket": "-1"},
    "indexes": {"file-index.bloom-filter.columns": "text"},
    "partial": {"merge-engine": "partial-update", "rowkind.field": "", "ignore-delete": "true"},
}


@pytest.mark.parametrize("kind", ERASED)
@pytest.mark.parametrize("history", ["keep", "expire"])
def test_java_reads_and_writes_after_erasure(
    kind: str, history: str, java: Oracle, shared_warehouse: Path
) -> None:
    ours = OurSide(shared_warehouse)
    options = {**KEYED, "bucket": "2", **ERASED[kind]}
    chosen = {key: value for key, value in options.items() if value}
    name = f"history.erased_{kind}_{history}"
    table = ours.create(name, Scenario(name=name, options=chosen, steps=()).schema)
    for step in COMPACTED:
        ours.do(table.name, step)
    table.tags.create("t1", table.snapshots()[1].id)
    before = _ours(table)
    report = erase(table, "id = 21 or text = 'c17'", history=History(history))
    assert report.rows > 2
    left = [row for row in before if row[1] not in (17, 21)]
    assert _same(java, table) == left
    states = [{"scan.snapshot-id": str(snapshot.id)} for snapshot in table.snapshots()]
    for state in [*states, *({"scan.tag-name": tag.name} for tag in table.tags.list())]:
        assert all(row[1] not in (17, 21) for row in _same(java, table, **state))
    JavaSide(java, ours).do(table.name, Write(rows(range(17, 25), "java")))
    JavaSide(java, ours).do(table.name, Compact())
    ours.do(table.name, Compact())
    assert {row[1] for row in _same(java, table)} == {row[1] for row in left} | {*range(17, 25)}


def test_java_reads_and_writes_after_promotion_discarding_and_erasure(
    java: Oracle, shared_warehouse: Path
) -> None:
    ours, table = _create(shared_warehouse, "promoted")
    theirs, branch = JavaSide(java, ours), f"{table.name}$branch_pr"
    previews = open_catalog(str(shared_warehouse), preview="pr")
    previews.get_table(table.name).upsert(rows_to_arrow(rows(range(25, 35), "pr"), table.schema))
    theirs.do(branch, Write(rows(range(33, 40), "java")))
    main, changed = _same(java, table), _same(java, table.at_branch("pr"), branch)
    assert main != changed
    catalog = open_catalog(str(shared_warehouse))
    [promotion] = promote(catalog, "pr", [table.name])
    assert (promotion.is_promoted, promotion.diff.rows.added) == (True, 10)
    assert _same(java, table) == changed
    assert java.call("rows", table=f"{table.name}$branches") == []
    theirs.do(table.name, Write(rows(range(38, 45), "more")))
    ours.do(table.name, MORE)
    theirs.do(table.name, Compact())

    previews.get_table(table.name).upsert(rows_to_arrow(rows(range(5), "pr"), table.schema))
    theirs.do(table.name, Write(rows(range(3, 6), "main")))
    moved = _same(java, table)
    assert "main has moved" in promote(catalog, "pr", [table.name])[0].refusal
    assert discard(catalog, "pr", [table.name]) == [table.name]
    assert _same(java, table) == moved
    assert java.call("rows", table=f"{table.name}$branches") == []

    table.refresh().tags.create("t", 2)
    erase(table, "id = 33", orphans_older_than_ms=0)
    assert _same(java, table) == [row for row in moved if row[1] != 33]
    for snapshot in table.snapshots():
        state = _same(java, table, **{"scan.snapshot-id": str(snapshot.id)})
        assert all(row[1] != 33 for row in state)
    theirs.do(table.name, Write(rows(range(33, 35), "last")))
    ours.do(table.name, Compact())
    assert {row[1] for row in _same(java, table)} == {row[1] for row in moved}
