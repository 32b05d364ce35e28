"""Java sees the rows that we delete, update and merge, and continues; and the other way round."""

from typing import Any

import pytest

from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.read.where import parse_expression
from tests.interop.steps import Compact, JavaSide, OurSide, Write
from tests.testkit.oracle import Oracle
from tests.testkit.rows import plain_rows, rows_to_arrow

pytestmark = pytest.mark.interop

COLUMNS = {"day": "STRING", "id": "BIGINT", "n": "INT"}
VECTORS = {"deletion-vectors.enabled": "true"}
BUCKETS = {"bucket": "2", "bucket-key": "id"}
TABLES: dict[str, tuple[list[str], list[str], dict[str, str]]] = {
    "vectors": ([], ["day"], VECTORS),
    "vectors_64": ([], [], {**VECTORS, "deletion-vectors.bitmap64": "true"}),
    "vectors_buckets": ([], [], {**BUCKETS, **VECTORS}),
    "rewrite": ([], ["day"], {}),
    "rewrite_buckets": ([], [], BUCKETS),
    "fixed": (["day", "id"], ["day"], {"bucket": "2"}),
    "dynamic": (["day", "id"], ["day"], {"bucket": "-1"}),
}


def _rows(start: int, end: int) -> tuple[dict[str, Any], ...]:
    return tuple(
        {"day": "ab"[n % 2], "id": n, "n": None if n % 5 == 0 else n} for n in range(start, end)
    )


@pytest.mark.parametrize("kind", TABLES)
def test_java_sees_changed_rows_and_continues(kind: str, java: Oracle, ours: OurSide) -> None:
    keys, partition_keys, options = TABLES[kind]
    name = f"rowchanges.{kind}"
    schema = Schema.of(COLUMNS, primary_keys=keys, partition_keys=partition_keys, options=options)
    table = ours.create(name, schema)
    javas = JavaSide(java, ours)

    def same() -> list[tuple[object, ...]]:
        found = plain_rows(table.new_read_builder().to_arrow(), COLUMNS)
        assert sorted(map(tuple, java.call("rows", table=name)), key=repr) == found
        return found

    def change() -> Any:
        return table.new_row_change_builder()

    ours.do(name, Write(_rows(0, 12)))
    javas.do(name, Write(_rows(12, 20)))
    change().delete("n BETWEEN 3 AND 8 OR id = 14")
    assert len(same()) == 14
    change().update({"n": parse_expression("id * 100")}, "id > 16")
    assert {row[2] for row in same() if int(str(row[1])) > 16} == {1700, 1800, 1900}
    source = rows_to_arrow(({"day": "a", "id": 2, "n": 7}, {"day": "b", "id": 77, "n": 8}), schema)
    taken = {"n": parse_expression("source.n")}
    change().merge(source, on=["day", "id"], when_matched=taken)
    assert ("a", 2, 7) in same()
    if options == VECTORS:
        java.call("delete_first_rows", table=name)
        left = len(same())
        change().delete("id IN (10, 11, 16)")
        assert len(same()) == left - 3
    javas.do(name, Write(_rows(20, 24)))
    before = same()
    javas.do(name, Compact())
    assert same() == before
    change().delete("id >= 20")
    assert same() == [row for row in before if int(str(row[1])) < 20]
