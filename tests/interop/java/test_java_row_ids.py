"""Row ids that we give are those of Java, which goes on with the table; and the other way round."""

import pytest

from paimon_assets import Schema
from tests.interop.steps import JavaSide, OurSide, Side, Write
from tests.testkit.oracle import Oracle
from tests.testkit.tables import read

pytestmark = pytest.mark.interop

TRACKED = {"row-tracking.enabled": "true"}
EVOLVING = {**TRACKED, "data-evolution.enabled": "true"}
COLUMNS = {"k": "INT", "v": "STRING"}
NAMES = [*COLUMNS, "_ROW_ID", "_SEQUENCE_NUMBER"]


def of_java(java: Oracle, table: str):
    return sorted(map(tuple, java.call("rows", table=f"{table}$row_tracking")))


@pytest.mark.parametrize("options", [TRACKED, EVOLVING], ids=["tracked", "evolving"])
def test_both_append_and_ids_go_on(options, java: Oracle, ours: OurSide):
    name = f"ids.java_{len(options)}"
    table = ours.create(name, Schema.of(COLUMNS, options=options))
    sides: list[Side] = [ours, JavaSide(java, ours)]
    for number in range(4):
        rows = [{"k": 2 * number + n, "v": str(n)} for n in range(2)]
        sides[number % 2].do(name, Write(tuple(rows)))
    expected = [(k, str(k % 2), k, k // 2 + 1) for k in range(8)]
    assert sorted(read(table, NAMES)) == expected
    assert of_java(java, name) == expected
