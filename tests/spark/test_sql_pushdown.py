"""Queries read what they need of their tables, and answer as they do over whole tables."""

import datetime as dt
from decimal import Decimal

import pytest

from paimon_assets.engine.spec.predicate.predicate import (
    And,
    CompareOp,
    Comparison,
    In,
    IsNull,
    Or,
    StartsWith,
    all_of,
    conjuncts,
)
from paimon_assets.engine.spec.schema.schema import Schema

pytestmark = pytest.mark.spark
door = pytest.importorskip("paimon_assets.spark.sql.spark_sql")
pushdown = pytest.importorskip("paimon_assets.spark.sql.pushdown")

CREATE = (
    "CREATE TABLE db.t (id BIGINT NOT NULL, v INT NOT NULL, name STRING NOT NULL, d DATE,"
    " ts TIMESTAMP_NTZ NOT NULL, at TIMESTAMP, amount DECIMAL(20, 2) NOT NULL, x DOUBLE,"
    " tags ARRAY<STRING> NOT NULL, ok BOOLEAN NOT NULL, b BINARY NOT NULL)"
    " TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')"
)
ROW = (
    "SELECT id, {v} AS v, concat('n', id), CASE WHEN id % 4 = 0 THEN NULL ELSE"
    " date_add(DATE'2024-01-01', CAST(id AS INT)) END, TIMESTAMP_NTZ'2024-01-01 00:00:00' +"
    " make_dt_interval(0, CAST(id AS INT)), TIMESTAMP'2024-01-01 00:00:00', id * 1.25, id / 3,"
    " array('a'), id % 2 = 0, X'01' FROM range({first}, {last})"
)
QUERIES = [
    "SELECT * FROM db.t",
    "SELECT count(*) FROM db.t",
    "SELECT count(v), count(d), count(tags) FROM db.t",
    "SELECT id, name FROM db.t WHERE id = 7",
    "SELECT v FROM db.t WHERE 7 < id AND name LIKE 'n1%' OR d IS NULL",
    "SELECT id FROM db.t WHERE id IN (1, 2, NULL) OR id IN (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)",
    "SELECT id FROM db.t WHERE id NOT IN (1, 2) AND d >= DATE'2024-01-15' AND NOT ok",
    "SELECT id FROM db.t WHERE ts < TIMESTAMP_NTZ'2024-01-01 09:00:00' AND amount > 5.5",
    "SELECT id FROM db.t WHERE at = TIMESTAMP'2024-01-01 00:00:00' AND x > 1.5 AND id < v",
    "SELECT a.id, b.name FROM db.t a LEFT JOIN db.t b ON a.id = b.v WHERE a.v < 105",
    "SELECT a.id FROM db.t a FULL JOIN db.t b ON a.id = b.id + 10 WHERE b.id < 5 OR b.id IS NULL",
    "WITH w AS (FROM db.t) SELECT x.id, y.v FROM w x JOIN w y ON x.id = y.id WHERE y.v > 9",
    "SELECT id FROM db.t WHERE v = (SELECT max(v) FROM db.t WHERE id < 9)",
    "SELECT id FROM db.t a WHERE EXISTS (SELECT 1 FROM db.t b WHERE b.id = a.id + 1 AND b.ok)",
    "SELECT id FROM db.t WHERE id NOT IN (SELECT v FROM db.t WHERE v IS NOT NULL)",
    "SELECT id FROM db.t WHERE id < 4 UNION ALL SELECT v FROM db.t WHERE id > 17",
    "SELECT ok, sum(amount) FROM db.t WHERE id > 3 GROUP BY ok HAVING count(*) > 2",
    "SELECT id, row_number() OVER (ORDER BY v, id) FROM db.t WHERE id > 3",
    "SELECT id, tag FROM db.t LATERAL VIEW explode(tags) AS tag WHERE id < 3",
    "SELECT id FROM db.t WHERE ok ORDER BY v, id LIMIT 3",
    "SELECT a.id FROM db.t VERSION AS OF 1 AS a LEFT ANTI JOIN db.t b ON a.v = b.v",
    "SELECT id FROM db.t WHERE id = 3 AND id = 4",
    "SELECT id FROM db.w WHERE name = 'n12'",
    "SELECT rowkind, id FROM db.t$audit_log WHERE rowkind = '+I' AND id > 11",
    "SELECT count(*) FROM db.t$audit_log",
    "SELECT v FROM db.t$ro WHERE id = 4",
    "SELECT name FROM paimon_incremental_query('db.t', 1, 2) WHERE v > 112",
    "SELECT id, r FROM db.t JOIN own ON r = id WHERE v < 5",
]


@pytest.fixture
def filled(spark, new_catalog):
    """A table of 20 keys, of which some were written twice, and a view of it."""

    def run(text):
        return door.spark_sql(spark, new_catalog, text)

    run(CREATE)
    run("INSERT INTO db.t " + ROW.format(v="id", first=0, last=15))
    run("INSERT INTO db.t " + ROW.format(v="id + 100", first=10, last=20))
    run("CREATE VIEW db.w AS SELECT *, v * 2 AS twice FROM db.t WHERE id > 2")
    return run


def test_queries_answer_as_over_whole_tables(spark, new_catalog, filled, monkeypatch):
    # Somebody else's stage that looks like a place.
    own = spark.range(1).mapInArrow(lambda batches: batches, "r bigint")
    own.union(spark.range(3)).createOrReplaceTempView("own")

    def answers():
        return [sorted(map(repr, filled(text).collect())) for text in QUERIES]

    narrow = answers()
    # Now every table is read whole.
    monkeypatch.setattr("paimon_assets.spark.sql.frames.shows_plans", lambda _: False)
    for text, found, whole in zip(QUERIES, narrow, answers(), strict=True):
        assert found == whole, text
    assert sum(map(len, narrow)) > len(QUERIES)
    spark.catalog.dropTempView("own")


DAY = (dt.date(2024, 1, 15) - dt.date(1970, 1, 1)).days
NOON = (dt.datetime(2024, 1, 1, 12) - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)


@pytest.fixture
def needed(spark, new_catalog):
    """The columns and the filter that a query of `{t}` needs, once for each time it names it."""
    new_catalog.create_table(
        "db.t",
        Schema.of(
            {"id": "BIGINT NOT NULL", "s": "STRING", "d": "DATE", "n": "DECIMAL(9, 2)"}
            | {"ts": "TIMESTAMP(6)", "x": "DOUBLE", "ok": "BOOLEAN"},
            primary_keys=["id"],
        ),
    )

    def run(text):
        places = pushdown.Placeholders(session=spark)
        read = new_catalog.get_table("db.t").new_read_builder()
        given = {name: places.frame(read) for name in ("t", "u") if f"{{{name}}}" in text}
        found = pushdown.needs(spark.sql(text, **given), places.reads)
        return [(need.columns, need.predicate) for _, need in sorted(found.items())]

    return run


@pytest.mark.parametrize(
    ("where", "predicate"),
    [
        ("id = 7", Comparison("id", CompareOp.EQ, 7)),
        ("7 >= id", Comparison("id", CompareOp.LE, 7)),
        ("id IN (1, 2)", In("id", (1, 2))),
        ("s LIKE 'a%'", And((IsNull("s", negated=True), StartsWith("s", "a")))),
        (
            "d = DATE'2024-01-15'",
            And((IsNull("d", negated=True), Comparison("d", CompareOp.EQ, DAY))),
        ),
        (
            "ts > TIMESTAMP_NTZ'2024-01-01 12:00:00'",
            And((IsNull("ts", negated=True), Comparison("ts", CompareOp.GT, NOON * 1000))),
        ),
        (
            "n = 1.5",
            And((IsNull("n", negated=True), Comparison("n", CompareOp.EQ, Decimal("1.50")))),
        ),
        ("s IS NULL OR id < 3", Or((IsNull("s"), Comparison("id", CompareOp.LT, 3)))),
        ("id = 7 AND x > 1.5", Comparison("id", CompareOp.EQ, 7)),
        ("id = 7 OR x > 1.5", None),
        ("id % 2 = 0", None),
        ("id < octet_length(s)", None),
        ("rand() < id", None),
    ],
)
def test_rows_are_filtered_as_far_as_both_engines_agree(needed, where, predicate):
    ((_, found),) = needed(f"SELECT * FROM {{t}} WHERE {where}")
    plain = [p for p in conjuncts(found) if p != IsNull("x", negated=True)]
    if predicate is None:
        assert [p for p in plain if not isinstance(p, IsNull)] == []
    else:
        assert all_of(plain) == predicate


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT * FROM {t}", [None]),
        ("SELECT count(*) FROM {t}", [set()]),
        ("SELECT s FROM {t} WHERE x > 1", [{"s", "x"}]),
        ("SELECT s FROM (SELECT *, n + 1 AS more FROM {t})", [{"s"}]),
        ("SELECT sum(n) FROM {t} GROUP BY ok", [{"n", "ok"}]),
        ("SELECT t.s FROM {t} t JOIN {u} u ON t.id = u.n", [{"id", "s"}, {"n"}]),
        ("WITH w AS (FROM {t}) SELECT a.s FROM w a JOIN w b ON a.id = b.n", [{"id", "s", "n"}]),
        ("SELECT s FROM {t} WHERE id = (SELECT max(n) FROM {u})", [{"id", "s"}, {"n"}]),
        ("SELECT s FROM {t} UNION ALL SELECT s FROM {u}", [{"s"}, {"s"}]),
        ("SELECT * FROM {t} UNION ALL SELECT * FROM {u}", [None, None]),
    ],
)
def test_columns_nobody_looks_at_are_not_read(needed, query, columns):
    assert [found for found, _ in needed(query)] == columns
