"""Rewrites of UPDATE, DELETE and MERGE; no session is needed."""

import pytest

from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from tests.testkit.tables import table_schema

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
