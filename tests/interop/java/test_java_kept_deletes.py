"""Deletes that our full compactions keep: Java reads, writes and compacts such tables on top."""

import pytest

from paimon_assets.engine.spec.schema.schema import Schema
from tests.interop.steps import Compact, JavaSide, OurSide, Write
from tests.testkit.model import Row
from tests.testkit.oracle import Oracle
from tests.testkit.rows import plain_rows

pytestmark = pytest.mark.interop

COLUMNS = {"id": "INT NOT NULL", "kind": "STRING", "t": "INT", "text": "STRING"}
LOG = {"bucket": "2", "rowkind.field": "kind", "sequence.field": "t", "write-only": "true"}


def rows(ids: range, kind: str, t: int, text: str) -> tuple[Row, ...]:
    return tuple({"id": n, "kind": kind, "t": t, "text": text} for n in ids)


def deletes(ours: OurSide, name: str) -> int:
    return sum(entry.file.delete_row_count or 0 for entry in ours.open(name).state.live_files())


@pytest.mark.parametrize("padding", ["", "row-kind-flag"])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
@pytest.mark.parametrize("writer", ["we", "java"])
def test_java_takes_no_kept_delete_for_row(
    producer: str, file_format: str, padding: str, writer: str, java: Oracle, ours: OurSide
) -> None:
    name = f"kept.{producer}_{file_format}_{writer}_{len(padding)}"
    options = {**LOG, "changelog-producer": producer, "file.format": file_format}
    if padding:
        options["sequence.auto-padding"] = padding
    table = ours.create(name, Schema.of(COLUMNS, primary_keys=["id"], options=options))
    theirs = JavaSide(java, ours)
    late_side = ours if writer == "we" else theirs

    def expect(*expected: tuple[Row, ...]) -> None:
        plain = plain_rows([row for part in expected for row in part], tuple(COLUMNS))
        assert plain_rows(table.new_read_builder().to_arrow(), tuple(COLUMNS)) == plain
        assert sorted(map(tuple, java.call("rows", table=name)), key=repr) == plain

    ours.do(name, Write(rows(range(40), "+I", 1, "a")))
    ours.do(name, Write(rows(range(10), "-D", 9, "a")))
    ours.do(name, Compact())
    assert deletes(ours, name) == 10
    expect(rows(range(10, 40), "+I", 1, "a"))
    late_side.do(name, Write(rows(range(5, 15), "+U", 5, "late")))
    left = rows(range(10, 15), "+U", 5, "late"), rows(range(15, 40), "+I", 1, "a")
    expect(*left)
    theirs.do(name, Compact(is_full=False))
    expect(*left)
    ours.do(name, Compact())
    assert deletes(ours, name) == 10
    expect(*left)
    late_side.do(name, Write(rows(range(3), "+I", 10, "new")))
    new = rows(range(3), "+I", 10, "new")
    expect(new, *left)
    theirs.do(name, Compact())
    assert deletes(ours, name) == 0
    expect(new, *left)


@pytest.mark.parametrize("compactor", ["we", "java"])
def test_kept_delete_is_no_row_in_changelog(compactor: str, java: Oracle, ours: OurSide) -> None:
    name = f"kept.changelog_{compactor}"
    options = {**LOG, "bucket": "1", "changelog-producer": "lookup"}
    table = ours.create(name, Schema.of(COLUMNS, primary_keys=["id"], options=options))
    side = ours if compactor == "we" else JavaSide(java, ours)
    ours.do(name, Write(rows(range(6), "+I", 1, "a")))
    ours.do(name, Write(rows(range(4), "-D", 9, "a")))
    ours.do(name, Compact())
    assert deletes(ours, name) == 4
    before = len(table.snapshots())
    late, gone = rows(range(1), "+U", 5, "late"), rows(range(2, 3), "-D", 10, "gone")
    side.do(name, Write(late + rows(range(1, 2), "+I", 10, "new") + gone))
    side.do(name, Write(rows(range(4, 5), "+U", 10, "updated")))
    side.do(name, Compact(is_full=False))
    ends = (before, len(table.snapshots()))
    changes = [("+I", 1, "new"), ("+U", 4, "updated"), ("-U", 4, "a")]
    between = table.new_read_builder().between(*ends, "changelog").with_row_kinds()
    assert plain_rows(between.to_arrow(), ("rowkind", "id", "text")) == changes
    options = {
        "incremental-between": ",".join(map(str, ends)),
        "incremental-between-scan-mode": "changelog",
    }
    seen = java.call("rows", table=f"{name}$audit_log", options=options)
    assert sorted((row[0], row[1], row[-1]) for row in seen) == changes
