"""Deletes in data-evolution tables: by deletion vectors of the oldest file of a range."""

import pyarrow as pa
import pytest

from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.evolution.schema_change import add_column
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from paimon_assets.engine.table.read.where import parse_expression
from paimon_assets.engine.table.write.row_change import WhenMatched
from tests.testkit import evolving
from tests.testkit.evolving import EVOLVING, beside, update
from tests.testkit.tables import EXECUTOR, arrow, compact, new_table, read, write

MARKED = {**EVOLVING, "deletion-vectors.enabled": "true"}
COLUMNS = {"k": "INT", "v": "STRING", "n": "INT"}


@pytest.fixture
def table(tmp_path):
    made = new_table(tmp_path, COLUMNS, *[(k, "a", k) for k in range(5)], options=MARKED)
    write(made, *[(k, "b", k) for k in range(5, 8)])
    return made


def files(table):
    return evolving.files(table, "first_row_id", "row_count", "write_cols")


def ids(table):
    return [row[0] for row in sorted(read(table, ["_ROW_ID"]))]


def test_deleted_row_ids_are_not_reused(table):
    outcome = table.delete("k IN (1, 6)")
    assert (outcome.rows_matched, outcome.files_deleted, outcome.files_added) == (2, 0, 0)
    assert table.latest_snapshot().commit_kind is CommitKind.OVERWRITE
    assert ids(table) == [0, 2, 3, 4, 5, 7]
    assert table.count() == 6
    table.delete("_ROW_ID >= 4 AND k < 6")
    assert ids(table) == [0, 2, 3, 7]
    write(table, (9, "c", 9))
    assert ids(table) == [0, 2, 3, 7, 8]
    assert table.delete("k = 1").snapshot is None


def test_column_write_keeps_deleted_rows_deleted(table):
    table.delete("k = 2")
    update(table, {"v": "x"}, "k IN (1, 6)")
    update(table, {"n": parse_expression("n * 10")}, None)
    table.delete("v = 'x' AND k = 1")
    rows = [(0, "a", 0), (3, "a", 30), (4, "a", 40), (5, "b", 50), (6, "x", 60), (7, "b", 70)]
    assert sorted(read(table)) == rows
    assert sorted(read(table, ["n"])) == [(row[2],) for row in rows]
    assert read(table, ["k"], "n = 20 OR n = 60") == [(6,)]
    assert read(table, ["v"], "_ROW_ID IN (1, 2, 6)") == [("x",)]
    assert table.count() == 6
    assert table.count("n < 45") == 3
    table = table.alter([add_column("score", "INT")])
    update(table, {"score": 1}, "k > 5")
    assert sorted(read(table, ["k", "score"]))[-2:] == [(6, 1), (7, 1)]


def test_fully_deleted_files_are_removed(table):
    update(table, {"v": "x"}, "k = 6")
    table.delete("k = 5")
    outcome = table.delete("k > 4")
    assert (outcome.rows_matched, outcome.files_deleted) == (2, 2)
    assert files(table) == [(0, 5, None)]
    assert ids(table) == [0, 1, 2, 3, 4]
    table.delete("k >= 0")
    assert files(table) == read(table) == []
    write(table, (1, "a", 1))
    assert ids(table) == [8]


@pytest.mark.parametrize("is_scattered", [False, True])
def test_compaction_marks_rows_in_joined_files(table, is_scattered):
    table.delete("k IN (0, 6)")
    if is_scattered:
        table.delete("k = 7")
        write(table, (8, "c", 8))
    update(table, {"n": 100}, "k = 4")
    before = sorted(read(table, [*COLUMNS, "_ROW_ID"]))
    compact(table)
    assert files(table) == [(0, 9 if is_scattered else 8, None)]
    assert sorted(read(table, [*COLUMNS, "_ROW_ID"])) == before
    table.delete("k = 3")
    update(table, {"v": "y"}, "k > 3")
    found = sorted(read(table, [*COLUMNS, "_ROW_ID"]))
    assert found == [(*r[:1], "y" if r[0] > 3 else r[1], *r[2:]) for r in before if r[0] != 3]


def test_compaction_of_ranges_with_gap_that_share_index_file(table):
    write(table, *[(k, "c", k) for k in range(8, 12)])
    write(table, *[(k, "d", k) for k in range(12, 15)])
    table.delete("k IN (0, 13)")
    table.delete("k >= 5 AND k < 12 AND k <> 9")
    table.delete("k = 9")
    update(table, {"v": "x"}, "k IN (1, 14)")
    before = sorted(read(table, [*COLUMNS, "_ROW_ID"]))
    compact(table)
    assert files(table) == [(0, 5, None), (12, 3, None)]
    assert sorted(read(table, [*COLUMNS, "_ROW_ID"])) == before
    table.delete("k IN (1, 12)")
    assert [row[0] for row in sorted(read(table))] == [2, 3, 4, 14]


def test_merges_delete(table):
    table.delete("k = 0")
    keys = arrow({"k": "INT"}, (1,), (6,), (0,), (20,))
    change = table.new_row_change_builder()
    outcome = change.merge(keys, on=["k"], when_matched=WhenMatched.DELETE, inserts=False)
    assert outcome.rows_matched == 2
    assert [row[0] for row in sorted(read(table))] == [2, 3, 4, 5, 7]
    by_id = arrow({"_ROW_ID": "BIGINT"}, (2,), (7,))
    change.merge(by_id, on=["_ROW_ID"], when_matched=WhenMatched.DELETE, inserts=False)
    assert ids(table) == [3, 4, 5]


@pytest.mark.parametrize("nullable", ["INT", "INT NOT NULL"])
def test_column_is_written_for_remaining_rows(tmp_path, nullable):
    columns = {"k": "INT", "n": nullable}
    table = new_table(tmp_path, columns, *[(k, 0) for k in range(5)], options=MARKED)
    write(table, *[(k, 0) for k in range(5, 8)])
    table.delete("k IN (0, 3, 7)")
    builder = table.new_column_write_builder(["n"], reads=["k"])
    assert builder.rows_behind().total == 5

    def values(rows):
        return pa.table({"n": pa.array([k + 1 for k in rows["k"].to_pylist()], pa.int32())})

    builder.write(values)
    assert sorted(read(table)) == [(k, k + 1) for k in (1, 2, 4, 5, 6)]
    assert builder.rows_behind().behind == 0
    compact(table)
    assert sorted(read(table)) == [(k, k + 1) for k in (1, 2, 4, 5, 6)]


@pytest.mark.parametrize(
    ("other", "plans", "left"),
    [
        (lambda table: update(table, {"v": "x"}, "k = 2"), 1, [0, 1, 4, 5, 6, 7]),
        (lambda table: update(table, {"n": 9}, "k = 2"), 2, [0, 1, 2, 4, 5, 6, 7]),
        (lambda table: table.delete("k = 4"), 2, [0, 1, 5, 6, 7]),
        (lambda table: table.delete("k < 5"), 2, [5, 6, 7]),
        (compact, 2, [0, 1, 4, 5, 6, 7]),
    ],
    ids=["other column", "same column", "same file", "whole file", "compaction"],
)
def test_concurrent_delete(table, other, plans, left):
    outcome = beside(table, lambda c: c.delete("n IN (2, 3)", EXECUTOR), lambda: other(table))
    assert outcome.plans == plans
    assert [row[0] for row in sorted(read(table))] == left


def test_concurrent_update_and_delete_keep_both(table):
    outcome = beside(
        table, lambda c: c.update({"v": "x"}, "k < 3", EXECUTOR), lambda: table.delete("k = 1")
    )
    assert outcome.plans == 1
    assert sorted(read(table, ["k", "v"]))[:3] == [(0, "x"), (2, "x"), (3, "a")]


def test_column_for_rows_of_removed_file_is_written_again(table):
    outcome = beside(
        table, lambda c: c.delete("k >= 5", EXECUTOR), lambda: update(table, {"v": "x"}, "k = 6")
    )
    assert outcome.plans == 2
    assert files(table) == [(0, 5, None)]


def test_partitions_and_rows_of_them(tmp_path):
    rows = [(k, "ab"[k % 2], k) for k in range(6)]
    table = new_table(tmp_path, COLUMNS, *rows, partition_keys=["v"], options=MARKED)
    update(table, {"n": 0}, "k = 2")
    table.delete("k IN (1, 2)")
    assert sorted(read(table)) == [rows[0], *rows[3:]]
    assert table.delete("v = 'a'").rows_matched == 2
    assert sorted(read(table)) == [rows[3], rows[5]]


def test_missing_deletion_vectors_name_way_out(tmp_path):
    table = new_table(tmp_path, COLUMNS, (1, "a", 1), options=EVOLVING)
    with pytest.raises(UnsupportedFeatureError, match="deletion-vectors"):
        table.delete("k = 1")
