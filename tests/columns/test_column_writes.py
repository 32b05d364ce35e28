"""Columns that a function makes of the rows there are: all of them, or those that are behind."""

import pyarrow as pa
import pytest

from paimon_assets.engine.control.maintenance.expire_snapshots import Retention, expire_snapshots
from paimon_assets.engine.errors import InvalidInputError, NotFoundError
from paimon_assets.engine.spec.evolution.schema_change import add_column
from paimon_assets.engine.spec.predicate.predicate import equal
from tests.testkit.errors import refused
from tests.testkit.evolving import EVOLVING, Doubling, update
from tests.testkit.row_changing import data_files
from tests.testkit.tables import compact, new_table, read, write

COLUMNS = {"day": "STRING", "k": "INT", "n": "INT"}


@pytest.fixture
def table(tmp_path):
    rows = [("a" if k < 5 else "b", k, k) for k in range(10)]
    made = new_table(tmp_path, COLUMNS, *rows, partition_keys=["day"], options=EVOLVING)
    return made.alter([add_column("score", "BIGINT")])


def builder(table):
    return table.new_column_write_builder(["score"], reads=["k", "n"])


def scores(table):
    return [score for _, score in sorted(read(table, ["k", "score"]))]


def test_only_column_is_written_in_one_snapshot(table):
    before = data_files(table)
    outcome = builder(table).write(Doubling())
    assert (outcome.report.rows_in, outcome.snapshot.id) == (10, 2)
    assert scores(table) == [2 * k for k in range(10)]
    assert len(data_files(table) - before) == 2
    assert before < data_files(table)


def test_second_run_writes_ranges_that_are_behind(table):
    builder(table).write(Doubling())
    again = Doubling()
    assert builder(table).write(again).snapshot is None
    assert again.seen == []
    update(table, {"n": 100}, "k = 7")
    write(table, ("c", 20, 1, None))
    assert vars_of(builder(table).rows_behind()) == (6, 11)
    assert builder(table).write(again).snapshot is not None
    assert again.seen == [[5, 6, 7, 8, 9], [20]]
    assert scores(table) == [0, 2, 4, 6, 8, 10, 12, 200, 16, 18, 2]
    assert builder(table).rows_behind().behind == 0
    update(table, {"score": 0}, "k = 1")
    assert builder(table).rows_behind().behind == 0  # another value by hand is as new
    builder(table).with_all_rows().write(Doubling(3))
    assert scores(table)[:2] == [0, 3]


def vars_of(rows):
    return rows.behind, rows.total


def test_rows_of_partition(table):
    builder(table).with_partitions(equal("day", "b")).write(Doubling())
    assert scores(table) == [None] * 5 + [10, 12, 14, 16, 18]
    assert vars_of(builder(table).rows_behind()) == (5, 10)


def test_ranges_are_given_some_at_time(table):
    write(table, *[("a", k, k, None) for k in range(10, 13)])
    seen = Doubling()
    builder(table).with_rows_at_once(4).write(seen)
    assert sorted(map(len, seen.seen)) == [3, 5, 5]
    seen = Doubling()
    builder(table).with_all_rows().with_rows_at_once(8).write(seen)
    assert sorted(map(len, seen.seen)) == [5, 8]


def test_concurrently_changed_inputs_are_read_again(table):
    seen = Doubling(then=lambda: update(table, {"n": 50}, "k = 1"))
    builder(table).write(seen)
    assert scores(table)[1] == 100
    assert len(seen.seen) == 4
    seen = Doubling(then=lambda: update(table, {"k": 30}, "n = 9"))
    builder(table).with_all_rows().write(seen)
    assert max(read(table, ["k", "score"])) == (30, 18)
    seen = Doubling(then=lambda: write(table, ("a", 40, 1, None)))
    builder(table).with_all_rows().write(seen)
    assert len(seen.seen) == 2
    assert max(read(table, ["k", "score"])) == (40, None)


def test_retry_finds_its_commit(table):
    named = builder(table).with_commit_user("me")
    first = named.write(Doubling()).snapshot
    again = named.with_all_rows().write(Doubling(7))
    assert (again.snapshot, again.was_already_committed) == (first, True)


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (
            lambda rows: rows.slice(1).select([]).append_column("score", rows["n"][1:]),
            "column-rows",
        ),
        (lambda rows: rows, "input-columns"),
        (lambda rows: pa.table({"score": ["x"] * rows.num_rows}), "input-type"),
    ],
)
def test_unfit_values_are_refused_and_leave_no_file(table, function, kind):
    before = data_files(table)
    with refused(InvalidInputError, kind=kind):
        builder(table).write(function)
    assert data_files(table) == before


def test_columns_must_exist_and_not_be_partition_keys(table):
    with pytest.raises(NotFoundError, match="'scores' does not exist"):
        table.new_column_write_builder(["scores"]).write(Doubling())
    with pytest.raises(InvalidInputError, match="is a partition key"):
        table.new_column_write_builder(["day"]).write(Doubling())


def test_compaction_does_not_hide_ranges_that_are_behind(table):
    builder(table).write(Doubling())
    compact(table)
    assert builder(table).rows_behind().behind == 0
    update(table, {"n": 100}, "k = 7")
    compact(table)
    assert vars_of(builder(table).rows_behind()) == (5, 10)
    builder(table).write(Doubling())
    assert scores(table)[7] == 200
    assert builder(table).rows_behind().behind == 0


@pytest.mark.parametrize("is_expired", [False, True])
@pytest.mark.parametrize("change", ["append", "update"])
def test_joined_ranges_keep_concurrently_changed_rows_behind(table, change, is_expired):
    """The run wrote another range than the one that changed, and a compaction joins them."""
    write(table, ("a", 10, 10, None))

    def beside():
        if change == "append":
            write(table, ("a", 11, 11, None))
        else:
            update(table, {"n": 100}, "k = 10")

    if change == "update":
        builder(table).write(Doubling())
        write(table, ("a", 11, 11, None))
    builder(table).write(Doubling(then=beside))
    compact(table, "full")
    if is_expired:  # nothing shows which rows the commits changed
        keep = Retention(min_count=1, max_count=1, time_ms=0, limit=99)
        expire_snapshots(builder(table).store, retention=keep)
    assert builder(table).rows_behind().behind == (12 if is_expired else 2)
    builder(table).write(Doubling())
    assert scores(table)[10:] == [20 if change == "append" else 200, 22]


def test_compaction_leaves_columns_of_several_functions_current(table):
    table = table.alter([add_column("rank", "BIGINT")])
    other = table.new_column_write_builder(["rank"], reads=["n"])
    builder(table).write(Doubling())
    write(table, ("a", 10, 10, None, None))
    builder(table).write(Doubling())
    other.write(lambda rows: pa.table({"rank": rows["n"].cast("int64")}))
    compact(table, "full")
    assert (builder(table).rows_behind().behind, other.rows_behind().behind) == (0, 0)
    update(table, {"n": 100}, "k = 7")
    compact(table, "full")
    assert (builder(table).rows_behind().behind, other.rows_behind().behind) == (5, 5)
