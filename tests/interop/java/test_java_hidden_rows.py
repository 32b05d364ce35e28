"""Rows that other files hide: deletion vectors Java writes, and the first row of a key."""

from collections.abc import Sequence

import pytest

from tests.interop.scenarios import LONG, NAMES, ROLLING, VECTORS, Scenario, rows
from tests.interop.steps import Change, Compact, JavaSide, OurSide, Side, Step, Write
from tests.testkit.model import Row
from tests.testkit.oracle import Oracle
from tests.testkit.rows import plain_rows

pytestmark = pytest.mark.interop

FIRST = rows(range(10), "a") + rows(range(5), "twice")
SECOND = rows(range(5, 20), "b")


@pytest.mark.parametrize("width", ["32", "64"])
def test_we_continue_after_java_deletion_vectors(width: str, java: Oracle, ours: OurSide) -> None:
    options = {"bucket": "-1", **ROLLING, **VECTORS, **(LONG if width == "64" else {})}
    scenario = Scenario(name="marked", primary_keys=(), options=options, steps=())
    theirs = JavaSide(java, ours)
    table = ours.create(f"hidden.marked_{width}", scenario.schema)

    def expect(*expected: Sequence[Row]) -> None:
        plain = plain_rows([row for part in expected for row in part], NAMES)
        assert plain_rows(table.new_read_builder().to_arrow(), NAMES) == plain
        assert sorted(map(tuple, java.call("rows", table=table.name)), key=repr) == plain

    ours.do(table.name, Write(rows(range(6), "a")))
    theirs.do(table.name, Write(rows(range(6, 12), "b")))
    assert java.call("delete_first_rows", table=table.name) == 1
    expect(rows(range(1, 6), "a"), rows(range(7, 12), "b"))
    ours.do(table.name, Change((1, 7, 8)))  # beside Java's marks in the same files
    expect(rows(range(2, 6), "a"), rows(range(9, 12), "b"))
    ours.do(table.name, Write(rows(range(20, 23), "c")))
    java.call("delete_first_rows", table=table.name)
    left = (rows(range(2, 6), "a"), rows(range(9, 12), "b"), rows(range(21, 23), "c"))
    expect(*left)
    ours.do(table.name, Change((2,), "new"))
    theirs.do(table.name, Compact())
    new = ({**rows(range(2, 3), "")[0], "text": "new"},)
    expect(new, rows(range(3, 6), "a"), *left[1:])


@pytest.mark.parametrize("turns", ["oj", "jo"])
def test_both_keep_first_row_of_key(turns: str, java: Oracle, ours: OurSide) -> None:
    options = {"bucket": "1", "merge-engine": "first-row", "write-only": "true"}
    scenario = Scenario(name="first_row", options=options, steps=())
    sides: dict[str, Side] = {"o": ours, "j": JavaSide(java, ours)}
    table = ours.create(f"hidden.first_row_{turns}", scenario.schema)
    steps: tuple[Step, ...] = (Write(FIRST), Compact(), Write(SECOND), Compact(is_full=False))
    for number, step in enumerate(steps):
        sides[turns[number % 2]].do(table.name, step)
    found = plain_rows(table.new_read_builder().to_arrow(), NAMES)
    assert sorted(map(tuple, java.call("rows", table=table.name)), key=repr) == found
    first = {(row["day"], row["id"]): row for row in reversed((*FIRST, *SECOND))}
    assert found == plain_rows(first.values(), NAMES)
