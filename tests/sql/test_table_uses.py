"""The tables a query names are found, and replaced in its text and nowhere else."""

import pytest

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.sql.table_uses import find_tables, names_in
from tests.testkit.errors import refused


def number_tables(text, dialect="spark", quote="`"):
    """Return the names found, and the text with numbers for them."""
    query = find_tables(text, dialect)
    places = {use.start: number for number, use in enumerate(query.uses, 1)}
    chosen = query.replace_tables(lambda use: f"<{places[use.start]}>", quote=quote)
    return [".".join(use.name) for use in query.uses], chosen


@pytest.mark.parametrize(
    ("text", "names", "replaced"),
    [
        ("SELECT * FROM db.t", ["db.t"], "SELECT * FROM <1> AS `t`"),
        ("select 'db.t', x FROM `d b`.`t$f` a -- db.t", ["d b.t$f"],
         "select 'db.t', x FROM <1> a -- db.t"),
        ("SELECT x FROM db.t$branch_b$files", ["db.t$branch_b$files"],
         "SELECT x FROM <1> AS `t$branch_b$files`"),
        ("SELECT cat.db.t.x, db.t.s.f, db.t.* FROM cat.db.t", ["cat.db.t"],
         "SELECT `t`.x, `t`.s.f, `t`.* FROM <1> AS `t`"),
        ("SELECT a.t.x, b.t.x FROM a.t, b.t", ["a.t", "b.t"],
         "SELECT `t`.x, `b_t`.x FROM <1> AS `t`, <2> AS `b_t`"),
        ("SELECT * FROM db.t TABLESAMPLE (10 PERCENT) WHERE 1=1", ["db.t"],
         "SELECT * FROM <1> TABLESAMPLE (10 PERCENT) AS `t` WHERE 1=1"),
        ("SELECT * FROM db.t TABLESAMPLE (10 PERCENT) REPEATABLE (3), db.u", ["db.t", "db.u"],
         "SELECT * FROM <1> TABLESAMPLE (10 PERCENT) REPEATABLE (3) AS `t`, <2> AS `u`"),
        ("SELECT * FROM db.t TABLESAMPLE 10% LIMIT 1", ["db.t"],
         "SELECT * FROM <1> TABLESAMPLE 10% AS `t` LIMIT 1"),
        ("WITH c AS (SELECT * FROM db.t) SELECT * FROM c JOIN db.u ON c.x = u.x",
         ["db.t", "db.u"],
         "WITH c AS (SELECT * FROM <1> AS `t`) SELECT * FROM c JOIN <2> AS `u` ON c.x = u.x"),
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", ["t"],
         "WITH t AS (SELECT * FROM <1> AS `t`) SELECT * FROM t"),
        ("SELECT /*+ BROADCAST(t) */ 'ü' FROM db.t WHERE x IN (SELECT y FROM db.u)",
         ["db.t", "db.u"],
         "SELECT /*+ BROADCAST(t) */ 'ü' FROM <1> AS `t` WHERE x IN (SELECT y FROM <2> AS `u`)"),
        ("SELECT 1 FROM db.t UNION ALL SELECT 2 FROM db.t", ["db.t", "db.t"],
         "SELECT 1 FROM <1> AS `t` UNION ALL SELECT 2 FROM <2> AS `t`"),
        ("SELECT * FROM db.t LATERAL VIEW explode(xs) e AS x", ["db.t"],
         "SELECT * FROM <1> AS `t` LATERAL VIEW explode(xs) e AS x"),
        ("VALUES (1, 'db.t')", [], "VALUES (1, 'db.t')"),
    ],
)  # fmt: skip
def test_only_table_names_are_replaced(text, names, replaced):
    assert number_tables(text) == (names, replaced)


def test_other_dialects_have_their_own_quotes():
    assert number_tables('SELECT "d"."t".x FROM "d"."t"', "duckdb", '"') == (
        ["d.t"],
        'SELECT "t".x FROM <1> AS "t"',
    )


def test_unchosen_files_stay():
    query = find_tables("SELECT t.x FROM db.t, view_of_spark")
    chosen = query.replace_tables(lambda use: "here" if len(use.name) > 1 else None)
    assert chosen == "SELECT t.x FROM here AS `t`, view_of_spark"


@pytest.mark.parametrize(
    ("clause", "version", "timestamp"),
    [
        ("VERSION AS OF 3", "3", None),
        ("version as of 'a tag'", "a tag", None),
        ("FOR VERSION AS OF 3", "3", None),
        ("TIMESTAMP AS OF '2024-01-01'", None, "'2024-01-01'"),
        ("TIMESTAMP AS OF TIMESTAMP '2024-01-01'", None, "TIMESTAMP '2024-01-01'"),
        ("TIMESTAMP AS OF current_date() - INTERVAL 1 DAY", None,
         "current_date() - INTERVAL 1 DAY"),
        ("FOR SYSTEM_TIME AS OF 1700000000", None, "1700000000"),
    ],
)  # fmt: skip
def test_time_travel_is_bound_to_its_table(clause, version, timestamp):
    query = find_tables(f"SELECT * FROM db.t {clause} WHERE x = 1")
    assert [(use.version, use.timestamp) for use in query.uses] == [(version, timestamp)]
    assert query.replace_tables(lambda _: "p") == "SELECT * FROM p AS `t` WHERE x = 1"


def test_functions_come_with_their_arguments():
    text = "SELECT * FROM paimon_incremental_query('db.t', greatest(1, 2), 20) q"
    (use,) = find_tables(text).uses
    assert (use.name, use.arguments) == (
        ("paimon_incremental_query",),
        ("'db.t'", "greatest(1, 2)", "20"),
    )
    assert find_tables(text).replace_tables(lambda _: "p") == "SELECT * FROM p q"


@pytest.mark.parametrize("text", ["SELECT FROM WHERE", "DROP TABLE t", "SELECT 1; SELECT 2", ""])
def test_invalid_query_is_refused(text):
    with refused(InvalidInputError, kind="query"):
        find_tables(text)


def test_names_are_those_of_columns():
    found = names_in("SELECT t.a, upper(s.`b c`) FROM db.t WHERE d > (SELECT max(e) FROM u)")
    assert found == {"t", "a", "s", "b c", "d", "e"}
    assert names_in("SELECT t.a + s.b + c + S.d", "s") == {"t", "a", "c"}
