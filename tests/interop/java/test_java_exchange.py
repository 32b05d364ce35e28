"""Splits and commit messages as bytes: one side plans or writes, the other reads or commits."""

import base64

import pytest
from msgspec.structs import replace

from paimon_assets import CommitConflictError, Table
from tests.interop.scenarios import NAMES, SCENARIOS, Scenario, rows
from tests.interop.steps import JavaSide, OurSide, Write
from tests.testkit.java_messages import JAVA_MESSAGE_VERSION, dump_java_messages, load_java_messages
from tests.testkit.oracle import Oracle
from tests.testkit.rows import plain_rows, rows_to_arrow

pytestmark = pytest.mark.interop

CHOSEN = {"compacted", "dynamic", "vectors", "vectors_64", "append_compacted", "in_orc"}
FIRST = rows(range(20), "a")
MORE = rows(range(20, 40), "more")


def _plain(java_rows: list[list[object]]) -> list[tuple[object, ...]]:
    return sorted(map(tuple, java_rows), key=repr)


@pytest.mark.parametrize("scenario", [s for s in SCENARIOS if s.name in CHOSEN], ids=str)
def test_plans_are_exchanged_with_java(scenario: Scenario, java: Oracle, ours: OurSide) -> None:
    name = f"exchange.splits_{scenario.name}"
    table = ours.create(name, scenario.schema)
    for step in scenario.steps[:-1]:
        ours.do(name, step)
    plan = table.new_read_builder().plan()
    expected = plain_rows(table.new_read_builder().to_arrow(), NAMES)
    each = (replace(plan, splits=(split,)).to_bytes() for split in plan.splits)
    texts = [base64.b64encode(data).decode() for data in each]
    assert _plain(java.call("rows_of_splits", table=name, splits=texts)) == expected

    javas = b"".join(base64.b64decode(text) for text in java.call("splits", table=name))
    builder = table.new_read_builder()
    found = builder.read(builder.plan_from(javas), ours.executor).read_all()
    assert plain_rows(found, NAMES) == expected


def _create(ours: OurSide, name: str, bucket: str) -> Table:
    scenario = Scenario(name=name, options={"bucket": bucket}, steps=())
    table = ours.create(f"exchange.{name}", scenario.schema)
    ours.do(table.name, Write(FIRST))
    return table


@pytest.mark.parametrize("bucket", ["2", "-1"])
def test_java_commits_our_messages(bucket: str, java: Oracle, ours: OurSide) -> None:
    table = _create(ours, f"ours_{bucket.strip('-')}", bucket)
    builder = table.new_write_builder()
    result = ours.executor.map_rows(builder.prepare(), rows_to_arrow(MORE, table.schema))
    data = base64.b64encode(dump_java_messages(result.messages)).decode()
    java.call("commit_messages", table=table.name, version=JAVA_MESSAGE_VERSION, data=data)
    expected = plain_rows([*FIRST, *MORE], NAMES)
    assert plain_rows(table.new_read_builder().to_arrow(), NAMES) == expected
    assert _plain(java.call("rows", table=table.name)) == expected


def test_we_commit_javas_messages(java: Oracle, ours: OurSide) -> None:
    table = _create(ours, "javas", "2")
    scratch = JavaSide(java, ours).scratch(table.name, MORE)
    version, text = java.call("messages", source=scratch, target=table.name)
    table.new_write_builder().commit(load_java_messages(base64.b64decode(text), version))
    expected = plain_rows([*FIRST, *MORE], NAMES)
    assert plain_rows(table.new_read_builder().to_arrow(), NAMES) == expected
    assert _plain(java.call("rows", table=table.name)) == expected


def test_we_refuse_javas_messages_that_leave_index_beside_old_one(
    java: Oracle, ours: OurSide
) -> None:
    table = _create(ours, "javas_dynamic", "-1")
    scratch = JavaSide(java, ours).scratch(table.name, MORE)
    version, text = java.call("messages", source=scratch, target=table.name)
    with pytest.raises(CommitConflictError) as raised:
        table.new_write_builder().commit(load_java_messages(base64.b64decode(text), version))
    assert raised.value.kind == "index-changed"
    assert plain_rows(table.new_read_builder().to_arrow(), NAMES) == plain_rows(FIRST, NAMES)
