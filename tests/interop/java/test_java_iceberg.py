"""Tables with Iceberg metadata: Java Paimon reads and writes them beside us."""

import pytest

from paimon_assets import Schema
from tests.interop.steps import Compact, JavaSide, OurSide, Side, Write
from tests.testkit import iceberg_reader as reader
from tests.testkit.oracle import Oracle

pytestmark = pytest.mark.interop

COLUMNS = {"id": "BIGINT", "v": "STRING"}


@pytest.mark.parametrize("keys", [[], ["id"]])
def test_java_reads_and_commits_in_turn(java: Oracle, ours: OurSide, keys: list[str]) -> None:
    name = f"iceberg.t{len(keys)}"
    options = {"metadata.iceberg.storage": "table-location", "bucket": "1" if keys else "-1"}
    table = ours.create(name, Schema.of(COLUMNS, primary_keys=keys, options=options))
    theirs = JavaSide(java, ours)
    sides: tuple[Side, ...] = (ours, theirs, ours, theirs, ours)
    for number, side in enumerate(sides):
        side.do(name, Write(({"id": number, "v": "x"}, {"id": number + 10, "v": None})))
    ours.do(name, Compact(is_full=True))
    table = ours.open(name)
    document = reader.newest(f"{table._store.table_path}/metadata")
    assert reader.rows(document) == reader.ours(table.to_arrow())
    assert table.state.iceberg_behind() == 0
    assert len(java.call("rows", table=name)) == len(table.to_arrow()) == 10
