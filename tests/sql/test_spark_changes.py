"""Rewrites of UPDATE, DELETE and MERGE: which rows they name, and by which columns."""

import pytest

from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from tests.testkit.tables import new_table, read, table_schema

changes = pytest.importorskip("paimon_assets.sql.spark.changes")
COLUMNS = {"id": "INT", "s": "ROW<a INT, b ROW<c INT, d INT>>", "v": "INT"}
PLAIN = table_schema(COLUMNS)
KEYED = table_schema(COLUMNS, primary_keys=["id"])


@pytest.mark.parametrize(
    ("assignments", "alias", "expected"),
    [
        ([(("v",), "1 + 1")], "t", {"v": "(1 + 1)"}),
        ([(("T", "V"), "x")], "t", {"v": "(x)"}),
        ([(("s", "a"), "1")], "t", {"s": "named_struct('a', (1), 'b', `t`.`s`.`b`)"}),
        ([(("s", "a"), "1")], "s", {"s": "named_struct('a', (1), 'b', `s`.`s`.`b`)"}),
        (
            [(("t", "s", "b", "d"), "1"), (("s", "a"), "2")],
            "t",
            {"s": "named_struct('a', (2), 'b', named_struct('c', `t`.`s`.`b`.`c`, 'd', (1)))"},
        ),
    ],
)
def test_set_gives_new_values_of_columns(assignments, alias, expected):
    assert changes.assign_columns(PLAIN, assignments, alias, "db.t") == expected


@pytest.mark.parametrize(
    "paths", [[("v",), ("V",)], [("s",), ("s", "a")], [("s", "x")], [("v", "x")], [("nix",)]]
)
def test_contradicting_values_are_refused(paths):
    with pytest.raises(InvalidInputError):
        changes.assign_columns(PLAIN, [(path, "1") for path in paths], "t", "db.t")


def test_rows_are_identified_by_needed_columns():
    assert changes.named_by(PLAIN, ["x.V > 1", " WHERE f(`id`) = 'v'"], "db.t") == ["id", "v"]
    assert changes.named_by(PLAIN, ["t.id = q.v", ""], "db.t", "q") == ["id"]
    assert changes.named_by(PLAIN, ["EXISTS (SELECT 1)"], "db.t") == ["id", "s", "v"]
    assert changes.named_by(KEYED, ["v > rand()"], "db.t") == ["id"]
    with pytest.raises(UnsupportedFeatureError, match="rand"):
        changes.named_by(PLAIN, ["v > rand ()"], "db.t")
    assert changes.named_by(PLAIN, ["brand(v) > 'rand()'"], "db.t") == ["v"]


def test_columns_are_named_by_alias():
    from paimon_assets.engine.control.catalog.catalog import Identifier

    text = "db.t.a = cat.db.t.b AND other.db.t.c = 'db.t.d'"
    found = changes.by_alias(text, Identifier("db", "t"), "x", "cat")
    assert found == "`x`.a = `x`.b AND other.db.t.c = 'db.t.d'"


@pytest.mark.spark
@pytest.mark.parametrize("first", ["DELETE", "UPDATE SET p = 'z'"])
def test_equal_rows_without_key_keep_their_other_columns(spark, new_catalog, first):
    door = pytest.importorskip("paimon_assets.sql.spark.spark_sql")
    rows = [(1, 10, "a"), (1, 11, "a"), (1, 11, "a"), (2, 20, "b")]
    table = new_table(new_catalog, {"id": "BIGINT", "v": "INT", "p": "STRING"}, *rows)
    merge = (
        "MERGE INTO db.t USING (SELECT * FROM VALUES (1, 5), (2, 6) AS x(id, w)) s ON t.id = s.id"
        f" WHEN MATCHED AND s.w = 5 THEN {first} WHEN MATCHED THEN UPDATE SET v = s.w"
    )
    door.spark_sql(spark, new_catalog, merge)
    changed = [] if first == "DELETE" else [(1, 10, "z"), (1, 11, "z"), (1, 11, "z")]
    assert sorted(read(table)) == [*changed, (2, 6, "b")]
    with pytest.raises(InvalidInputError, match="Keep one of each"):
        door.spark_sql(spark, new_catalog, merge.replace("(2, 6)", "(2, 6), (2, 7)"))
