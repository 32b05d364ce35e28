"""Updates of some columns of data-evolution tables write files of these columns alone."""

import pytest

from paimon_assets.engine.errors import CommitConflictError, UnsupportedFeatureError
from paimon_assets.engine.spec.evolution.schema_change import add_column
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from paimon_assets.engine.table.read.where import parse_expression
from paimon_assets.engine.table.write.row_change import WhenMatched
from tests.testkit import evolving
from tests.testkit.evolving import EVOLVING, beside, update
from tests.testkit.row_changing import Meddling
from tests.testkit.tables import EXECUTOR, arrow, compact, new_table, read, write

COLUMNS = {"k": "INT", "v": "STRING", "n": "INT"}


@pytest.fixture
def table(tmp_path):
    made = new_table(tmp_path, COLUMNS, *[(k, "a", k) for k in range(5)], options=EVOLVING)
    write(made, *[(k, "b", k) for k in range(5, 8)])
    return made


def files(table):
    facts = ("first_row_id", "max_sequence_number", "row_count", "write_cols")
    return evolving.files(table, *facts)


def test_update_writes_only_its_columns(table):
    outcome = update(table, {"v": "x"}, "k = 2")
    assert (outcome.rows_matched, outcome.rows_written, outcome.files_deleted) == (1, 5, 0)
    assert files(table) == [(0, 1, 5, None), (0, 3, 5, ("v",)), (5, 2, 3, None)]
    assert table.latest_snapshot().commit_kind is CommitKind.APPEND
    assert table.latest_snapshot().next_row_id == 8
    rows = [(k, "x" if k == 2 else "a" if k < 5 else "b", k) for k in range(8)]
    assert sorted(read(table)) == rows
    assert read(table, ["k"], "v = 'x'") == [(2,)]
    assert table.count() == 8


def test_update_may_read_and_write_several_columns(table):
    update(table, {"n": parse_expression("k * 10 + n"), "v": "y"}, "k IN (1, 6)")
    assert sorted(read(table))[1] == (1, "y", 11)
    assert sorted(read(table))[6] == (6, "y", 66)
    update(table, {"n": parse_expression("n + 1")}, None)
    assert [row[2] for row in sorted(read(table))] == [1, 12, 3, 4, 5, 6, 67, 8]


def test_rows_are_changed_by_their_ids_and_by_keys(table):
    update(table, {"v": "x"}, "_ROW_ID IN (0, 7)")
    assert sorted(read(table, ["k", "_ROW_ID"], "v = 'x'")) == [(0, 0), (7, 7)]
    source = arrow({"k": "INT", "n": "INT", "v": "STRING"}, (3, 33, "m"), (9, 99, "new"))
    outcome = table.new_row_change_builder().merge(source, on=["k"])
    assert (outcome.rows_matched, outcome.rows_inserted) == (1, 1)
    assert sorted(read(table, [*COLUMNS, "_ROW_ID"]))[3] == (3, "m", 33, 3)
    assert max(read(table, [*COLUMNS, "_ROW_ID"])) == (9, "new", 99, 8)
    by_id = arrow({"_ROW_ID": "BIGINT", "n": "INT"}, (8, 1), (2, 2))
    table.new_row_change_builder().merge(by_id, on=["_ROW_ID"], inserts=False)
    assert sorted(read(table, ["k", "n"], "k IN (2, 9)")) == [(2, 2), (9, 1)]


def test_added_column_is_filled_alone(table):
    table = table.alter([add_column("score", "BIGINT")])
    assert set(read(table, ["score"])) == {(None,)}
    update(table, {"score": parse_expression("n * 2")}, "k >= 6")
    assert sorted(read(table, ["k", "score"]))[5:] == [(5, None), (6, 12), (7, 14)]
    assert files(table)[-1] == (5, 3, 3, ("score",))


def test_partitions_and_renamed_columns(tmp_path):
    rows = [(k, "ab"[k % 2], k) for k in range(6)]
    table = new_table(tmp_path, COLUMNS, *rows, partition_keys=["v"], options=EVOLVING)
    update(table, {"n": 0}, "v = 'a' AND k > 2")
    assert sorted(read(table)) == [(k, v, 0 if k == 4 else n) for k, v, n in rows]
    assert len(files(table)) == 3
    update(table, {"n": parse_expression("k")}, "v = 'a'")
    assert sorted(read(table)) == rows
    table.drop_partitions([{"v": "a"}])
    assert sorted(read(table)) == rows[1::2]


def test_writers_of_different_columns_are_both_kept(table):
    outcome = beside(
        table,
        lambda change: change.update({"v": "x"}, None, EXECUTOR),
        lambda: update(table, {"n": 0}, None),
    )
    assert outcome.plans == 1
    assert set(read(table, ["v", "n"])) == {("x", 0)}


def test_second_writer_of_column_plans_again(table):
    outcome = beside(
        table,
        lambda change: change.update({"n": parse_expression("n + 1")}, None, EXECUTOR),
        lambda: update(table, {"n": parse_expression("n * 10")}, "k < 5"),
    )
    assert outcome.plans == 2
    assert [row[0] for row in sorted(read(table, ["n"]))] == [1, 6, 7, 8, 11, 21, 31, 41]


def test_read_column_conflicts_like_written_one(table):
    outcome = beside(
        table,
        lambda change: change.update({"v": "big"}, "n > 6", EXECUTOR),
        lambda: update(table, {"n": 0}, "k = 7"),
    )
    assert (outcome.plans, outcome.snapshot) == (2, None)
    assert read(table, ["k"], "v = 'big'") == []


def test_dropped_rows_conflict_and_appended_ones_do_not(table):
    outcome = beside(
        table,
        lambda change: change.update({"v": "x"}, None, EXECUTOR),
        lambda: write(table, (9, "c", 9)),
    )
    assert outcome.plans == 1
    assert read(table, ["k"], "v <> 'x'") == [(9,)]
    outcome = beside(
        table, lambda change: change.update({"v": "y"}, None, EXECUTOR), table.truncate
    )
    assert (outcome.snapshot, read(table)) == (None, [])


def test_conflict_that_stays_is_raised(table):
    def between(_latest):
        update(table, {"n": parse_expression("n + 1")}, "k = 0")

    change = table.new_row_change_builder().with_condition(between)
    with pytest.raises(CommitConflictError, match="changed column 'n' of rows 0 to 4"):
        change.update({"n": 5}, None, EXECUTOR)


def test_deletes_are_refused(table):
    for change in (
        lambda: table.delete("k = 1"),
        lambda: table.new_row_change_builder().merge(
            arrow({"k": "INT"}, (1,)), on=["k"], when_matched=WhenMatched.DELETE
        ),
    ):
        with pytest.raises(UnsupportedFeatureError, match="Cannot delete rows of"):
            change()


def test_compaction_joins_ranges_and_their_columns(table):
    update(table, {"v": "x"}, "k IN (2, 6)")
    before = sorted(read(table, [*COLUMNS, "_ROW_ID"]))
    outcome = compact(table)
    assert files(table) == [(0, 3, 8, None)]
    assert outcome.snapshot.next_row_id == 8
    assert sorted(read(table, [*COLUMNS, "_ROW_ID"])) == before
    assert compact(table).snapshot is None
    update(table, {"n": 0}, "k = 1")
    write(table, (8, "c", 8))
    compact(table)
    assert files(table) == [(0, 6, 9, None)]
    assert sorted(read(table, ["k", "n", "_ROW_ID"]))[1] == (1, 0, 1)
    assert compact(table, "minor").snapshot is None


def test_partitions_and_gaps_are_not_joined(tmp_path):
    rows = [(k, "ab"[k % 2], k) for k in range(6)]
    table = new_table(tmp_path, COLUMNS, *rows, partition_keys=["v"], options=EVOLVING)
    update(table, {"n": 7}, None)
    write(table, (6, "a", 6))
    compact(table)
    assert [each[:3] for each in files(table)] == [(0, 2, 3), (3, 2, 3), (6, 3, 1)]
    assert sorted(read(table, ["k", "_ROW_ID"])) == [
        (0, 0), (1, 3), (2, 1), (3, 4), (4, 2), (5, 5), (6, 6),
    ]  # fmt: skip


def test_update_during_joining_compaction_plans_again(table):
    outcome = beside(
        table, lambda change: change.update({"v": "x"}, "k = 2", EXECUTOR), lambda: compact(table)
    )
    assert outcome.plans == 2
    assert [each[:3] for each in files(table)] == [(0, 2, 8), (0, 4, 8)]
    assert read(table, ["k"], "v = 'x'") == [(2,)]


def test_update_during_compaction_of_its_range_stays(tmp_path):
    table = new_table(tmp_path, COLUMNS, *[(k, "a", k) for k in range(3)], options=EVOLVING)
    update(table, {"n": 9}, "k = 0")
    outcome = beside(
        table, lambda change: change.update({"v": "x"}, "k = 2", EXECUTOR), lambda: compact(table)
    )
    assert outcome.plans == 1
    assert sorted(read(table)) == [(0, "a", 9), (1, "a", 1), (2, "x", 2)]


def test_compaction_during_update_plans_again(table):
    compact(table, executor=Meddling(lambda: update(table, {"v": "x"}, "k = 2")))
    assert read(table, ["k"], "v = 'x'") == [(2,)]
    assert sorted(read(table, ["k", "_ROW_ID"])) == [(k, k) for k in range(8)]
    assert len({each[0] for each in files(table)}) == 1
