"""Columns of a primary-key table that a function makes of its rows."""

import pyarrow as pa
import pytest

from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.evolution.schema_change import update_column_default_value
from paimon_assets.engine.spec.predicate.predicate import equal
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.write.keyed_columns import changes_for_columns
from tests.testkit.evolving import Doubling
from tests.testkit.row_changing import data_files
from tests.testkit.tables import EXECUTOR, compact, new_table, read, write

COLUMNS = {"day": "STRING", "k": "INT", "n": "INT", "at": "INT", "kind": "STRING"}
KEYED = {"bucket": "1", "merge-engine": "partial-update", "fields.at.sequence-group": "n"} | {
    "rowkind.field": "kind"
}
REMOVES = {**KEYED, "partial-update.remove-record-on-sequence-group": "at"}


def keyed(tmp_path, options=REMOVES, **more):
    rows = [("a" if k < 5 else "b", k, k, 1, "+I") for k in range(10)]
    made = new_table(
        tmp_path, COLUMNS, *rows,
        primary_keys=["day", "k"], partition_keys=["day"], options=options, **more,
    )  # fmt: skip
    return made.alter(changes_for_columns(made.schema, SCORE))


@pytest.fixture
def table(tmp_path):
    return keyed(tmp_path)


SCORE = Schema.of({"score": "BIGINT"}).fields


def builder(table):
    return table.new_column_write_builder(["score"], reads=["n"])


def scores(table):
    return [score for _, score in sorted(read(table, ["k", "score"]))]


def change(table, *rows, kinds=None):
    names = ["day", "k", "n", "at"]
    frame = pa.table({name: [row[at] for row in rows] for at, name in enumerate(names)})
    frame = frame.cast(pa.schema([("day", "string"), *((n, "int32") for n in names[1:])]))
    made = table.copy({"write.fill-missing": "true"})
    if "kind" in table.schema.field_names:
        frame = frame.append_column("kind", pa.array(kinds or ["+I"] * len(rows)))
    return made.new_write_builder().write(frame, EXECUTOR).snapshot


def test_records_of_the_columns_are_written_for_rows_behind(table):
    before = data_files(table)
    outcome = builder(table).write(Doubling(), EXECUTOR)
    assert (outcome.report.rows_in, outcome.snapshot.id) == (10, 2)
    assert (outcome.rows.behind, outcome.rows.total) == (10, 10)
    assert scores(table) == [2 * k for k in range(10)]
    assert len(data_files(table) - before) == 2
    again = Doubling()
    assert builder(table).write(again, EXECUTOR).snapshot is None
    assert again.seen == []
    change(table, ("b", 7, 100, 2), ("c", 20, 1, 1))
    rows = builder(table).rows_behind()
    assert (rows.behind, rows.total) == (2, 11)
    assert {name: each.behind for name, each in rows.by_partition.items()} == {
        "day=a": 0, "day=b": 1, "day=c": 1,
    }  # fmt: skip
    builder(table).write(again, EXECUTOR)
    assert again.seen == [2]
    assert scores(table) == [0, 2, 4, 6, 8, 10, 12, 200, 16, 18, 2]
    builder(table).with_all_rows().write(Doubling(3), EXECUTOR)
    assert scores(table)[:2] == [0, 3]
    compact(table)
    assert builder(table).rows_behind().behind == 0
    assert scores(table)[:2] == [0, 3]


def test_a_null_replaces_a_value(table):
    builder(table).write(Doubling(), EXECUTOR)
    change(table, ("a", 3, None, 2))
    builder(table).write(Doubling(), EXECUTOR)
    assert scores(table)[3] is None
    assert builder(table).rows_behind().behind == 0


def test_a_column_more_makes_all_rows_behind(table):
    builder(table).write(Doubling(), EXECUTOR)
    both = Schema.of({"score": "BIGINT", "rank": "BIGINT"}).fields
    more = table.alter(changes_for_columns(table.schema, both))
    made = more.new_column_write_builder(["score", "rank"], reads=["n"])
    made.write(lambda rows: Doubling()(rows).append_column("rank", rows["n"]), EXECUTOR)
    assert sorted(read(more, ["k", "score", "rank"])) == [(k, 2 * k, k) for k in range(10)]
    assert made.rows_behind().behind == 0


def test_rows_of_a_partition_some_at_a_time(table):
    seen = Doubling()
    builder(table).with_partitions(equal("day", "b")).write(seen, EXECUTOR)
    assert scores(table) == [None] * 5 + [10, 12, 14, 16, 18]
    change(table, *[("c", k, k, 1) for k in range(10, 13)])
    builder(table).with_rows_at_once(4).write(seen, EXECUTOR)
    assert seen.seen == [5, 5, 3]


def test_an_input_that_is_written_meanwhile_leaves_the_row_behind(table):
    builder(table).write(Doubling(then=lambda: change(table, ("a", 1, 50, 2))), EXECUTOR)
    assert scores(table)[1] == 2
    assert builder(table).rows_behind().behind == 1
    builder(table).write(Doubling(), EXECUTOR)
    assert scores(table)[1] == 100


def test_of_two_runs_at_a_time_the_later_counts_and_what_is_older_stays_behind(table):
    def other():
        change(table, ("a", 1, 50, 2))
        builder(table).write(Doubling(), EXECUTOR)

    builder(table).write(Doubling(then=other), EXECUTOR)
    builder(table).write(Doubling(), EXECUTOR)
    assert scores(table)[:3] == [0, 100, 4]
    assert builder(table).rows_behind().behind == 0


@pytest.mark.parametrize("remove", ["record", "partition"])
def test_a_row_that_is_removed_meanwhile_is_not_born_again(table, remove):
    def then():
        if remove == "record":
            change(table, ("a", 1, 1, 3), kinds=["-D"])
        else:
            table.drop_partitions([{"day": "b"}])

    seen = Doubling(then=then)
    builder(table).write(seen, EXECUTOR)
    left = [k for k in range(10) if (k != 1 if remove == "record" else k < 5)]
    assert sorted(read(table, ["k", "score"])) == [(k, 2 * k) for k in left]
    assert sum(seen.seen) == 10 + len(left)


def test_where_nothing_removes_a_row_a_delete_does_not_disturb(tmp_path):
    table = keyed(tmp_path, KEYED)
    seen = Doubling(then=lambda: change(table, ("a", 1, 1, 3), kinds=["-D"]))
    builder(table).write(seen, EXECUTOR)
    assert seen.seen == [10]
    assert builder(table).rows_behind().behind == 1  # its input is null now


def test_columns_of_others_and_their_defaults_stay(tmp_path):
    made = new_table(
        tmp_path, {"k": "INT", "n": "INT", "m": "INT"}, (1, 2, None), primary_keys="k",
        options={"bucket": "1", "merge-engine": "partial-update"},
    )  # fmt: skip
    made = made.alter(
        [update_column_default_value("m", "7"), *changes_for_columns(made.schema, SCORE)]
    )
    write(
        made.copy({"write.fill-missing": "true"}),
        pa.table({"k": pa.array([2], "int32"), "m": pa.array([5], "int32")}),
    )
    builder(made).write(Doubling(), EXECUTOR)
    assert sorted(read(made, ["k", "n", "m", "score"])) == [(1, 2, None, 4), (2, None, 5, None)]


@pytest.mark.parametrize(
    ("options", "columns", "way"),
    [
        ({"merge-engine": "deduplicate"}, {}, "'merge-engine' = partial-update"),
        ({"merge-engine": "aggregation"}, {}, "'merge-engine' = partial-update"),
        ({"merge-engine": "first-row"}, {}, "'merge-engine' = partial-update"),
        ({"partial-update.remove-record-on-delete": "true"}, {}, "remove-record-on-sequence"),
        ({}, {"n": "INT NOT NULL"}, "nullable=True"),
        ({}, {}, "set 'fields.score_version.sequence-group' = 'score'"),
        ({"fields.score_version.sequence-group": "score,n"}, {}, "no sequence group of their own"),
        ({"fields.n.sequence-group": "score"}, {}, "whose one field is DECIMAL"),
    ],
)
def test_tables_where_it_cannot_be_right_are_refused(tmp_path, options, columns, way):
    columns = {
        "k": "INT",
        "n": "INT",
        "score": "BIGINT",
        "score_version": "DECIMAL(38, 0)",
    } | columns
    options = {"bucket": "1", "merge-engine": "partial-update"} | options
    table = new_table(tmp_path, columns, primary_keys="k", options=options)
    write(table, (1, 1, None, None))
    with pytest.raises(UnsupportedFeatureError, match=way):
        builder(table).write(Doubling(), EXECUTOR)
    assert table.refresh().latest_snapshot().id == 1
