"""Statements on Spark: their answers, and the tables afterwards."""

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from click.testing import CliRunner

from paimon_assets import EmbeddedExecutor, Schema
from paimon_assets.cli.main import main
from paimon_assets.engine import errors
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
from tests.testkit import foreign

pytestmark = pytest.mark.spark
door = pytest.importorskip("paimon_assets.sql.spark.spark_sql")
pyspark_types = pytest.importorskip("pyspark.sql.types")

KEYED = (
    "CREATE TABLE db.t (id BIGINT, v INT, p STRING) PARTITIONED BY (p)"
    " TBLPROPERTIES ('primary-key' = 'p,id', 'bucket' = '1')"
)
PLAIN = "CREATE TABLE db.a (id BIGINT, v INT, p STRING)"
VECTORS = f"{PLAIN} TBLPROPERTIES ('deletion-vectors.enabled' = 'true')"
ROWS = "VALUES (1, 10, 'a'), (2, 20, 'a'), (3, 30, 'b')"


@pytest.fixture
def sql(spark, new_catalog):
    """Run a statement, return its rows as tuples, sorted; and leave nothing in the session."""

    def run(text, **options):
        frame = door.spark_sql(spark, new_catalog, text, **options)
        return sorted((tuple(row) for row in frame.collect()), key=repr)

    before = [table.name for table in spark.catalog.listTables()]
    yield run
    assert [table.name for table in spark.catalog.listTables()] == before


@pytest.fixture(params=["keyed", "plain", "vectors"])
def any_table(request, sql, new_catalog):
    """A table of each kind, with three rows."""
    create = {"keyed": KEYED, "plain": PLAIN, "vectors": VECTORS}[request.param]
    sql(create.replace("db.a", "db.t"))
    fill(new_catalog)
    return new_catalog.get_table("db.t")


def fill(catalog, name="db.t"):
    """Write the rows of `ROWS` without Spark."""
    ids, values = pa.array([1, 2, 3]), pa.array([10, 20, 30], pa.int32())
    rows = pa.table({"id": ids, "v": values, "p": ["a", "a", "b"]})
    catalog.get_table(name).new_write_builder().write(rows, EmbeddedExecutor(threads=1))


def rows_of(catalog, *columns, name="db.t"):
    """Return the rows of a table as sorted tuples, read without Spark."""
    rows = catalog.get_table(name).new_read_builder().to_arrow()
    picked = rows.select(columns) if columns else rows
    return sorted((tuple(row.values()) for row in picked.to_pylist()), key=repr)


def run(sql, text):
    """Return a statement's result: snapshot, rows written, matched and inserted."""
    ((_, _, snapshot, user, *rows),) = sql(text)
    assert (user is None) == (snapshot is None)
    return snapshot, *rows


def test_tables_are_selected_from(sql):
    sql(KEYED)
    sql(f"INSERT INTO db.t {ROWS}")
    sql("CREATE TABLE db.u (k BIGINT, w STRING)")
    sql("INSERT INTO db.u VALUES (1, 'one'), (3, '{three}')")
    assert sql("SELECT * FROM db.t") == [(1, 10, "a"), (2, 20, "a"), (3, 30, "b")]
    joined = "SELECT db.t.id, u.w FROM paimon.db.t JOIN `db`.`u` ON db.t.id = db.u.k"
    assert sql(joined) == [(1, "one"), (3, "{three}")]
    assert sql("WITH t AS (SELECT id FROM db.t WHERE p = 'b') SELECT * FROM t") == [(3,)]
    assert sql("SELECT id FROM t WHERE id IN (SELECT k FROM u) AND '{x}' = '{x}'",
               database="db") == [(1,), (3,)]  # fmt: skip
    assert sql("SELECT count(*), sum(v) FROM db.t AS x GROUP BY x.p") == [(1, 30), (2, 30)]
    assert sql("SELECT 1 UNION ALL SELECT count(*) FROM db.t") == [(1,), (3,)]
    assert sql("VALUES (1, 'x')") == [(1, "x")]


def test_times_of_day_are_selected_or_left_out(sql, new_catalog):
    if not hasattr(pyspark_types, "TimeType"):
        pytest.skip("Spark before 4.1 has no TIME")
    rows = pa.table({"id": [1, 2], "at": pa.array([dt.time(3), None], pa.time32("ms"))})
    new_catalog.create_table("db.times", rows.schema).append(rows)
    assert sql("SELECT id FROM db.times WHERE id > 1") == [(2,)]
    assert sql("SELECT count(*) FROM db.times") == [(2,)]
    assert sql("SELECT at FROM db.times WHERE id = 1") == [(dt.time(3),)]


def test_system_tables_and_functions_are_selected_from(sql, new_catalog):
    sql(KEYED)
    fill(new_catalog)
    sql("INSERT INTO db.t VALUES (1, 11, 'a')")
    kinds = "SELECT snapshot_id, commit_kind FROM db.t$snapshots"
    assert sql(kinds) == [(1, "APPEND"), (2, "APPEND")]
    assert sql("SELECT count(*) FROM db.`t$files` WHERE level = 0") == [(3,)]
    assert sql("SELECT count(*) FROM db.`t$files` VERSION AS OF 1") == [(2,)]
    assert sql("SELECT table_name FROM sys.tables") == [("t",)]
    assert sql("SELECT rowkind, id, v FROM db.t$audit_log WHERE id = 1") == [("+I", 1, 11)]
    assert sql("SELECT id, v FROM paimon_incremental_query('db.t', 1, 2)") == [(1, 11)]
    with pytest.raises(errors.UnsupportedFeatureError, match="paimon_incremental_to_auto_tag"):
        sql("SELECT * FROM paimon_incremental_to_auto_tag('db.t', 'x')")


def test_older_versions_are_selected(sql, new_catalog):
    sql(KEYED)
    fill(new_catalog)
    sql("CALL sys.create_tag('db.t', 'first')")
    sql("INSERT INTO db.t VALUES (4, 40, 'b')")
    for target in ("VERSION AS OF 1", "VERSION AS OF 'first'", "FOR VERSION AS OF 1L"):
        assert sql(f"SELECT count(*) FROM db.t {target} WHERE id > 0") == [(3,)]
    one = new_catalog.get_table("db.t").snapshots()[0].time_millis
    at = dt.datetime.fromtimestamp(one / 1000, tz=dt.UTC).isoformat()
    assert sql(f"SELECT count(*) FROM db.t TIMESTAMP AS OF '{at}' AS x") == [(3,)]
    later = "SELECT count(*) FROM db.t TIMESTAMP AS OF current_timestamp() + INTERVAL 1 DAY"
    assert sql(later) == [(4,)]
    with pytest.raises(errors.NotFoundError):
        sql("SELECT * FROM db.t VERSION AS OF 9")


def test_spark_names_keep_their_meaning(spark, sql, new_catalog):
    sql(PLAIN)
    spark.range(2).createOrReplaceTempView("numbers")
    try:
        assert sql("INSERT INTO db.a SELECT id, 1, 'x' FROM numbers")[0][4] == 2
        assert door.spark_sql(spark, new_catalog, "SELECT id FROM numbers", database="db").count()
        assert sql("SELECT count(*) FROM db.a, range(3)") == [(6,)]
    finally:
        spark.catalog.dropTempView("numbers")
    with pytest.raises(errors.NotFoundError, match=r"db\.nix"):
        sql("SELECT * FROM db.nix")


def test_rows_are_inserted(sql, new_catalog):
    sql(KEYED)
    assert run(sql, f"INSERT INTO db.t {ROWS}") == (1, 3, None, None)
    sql("INSERT INTO db.t (p, id) VALUES ('c', 4)")
    sql("INSERT INTO db.t PARTITION (p = 'd') VALUES (5, 50)")
    sql("INSERT INTO db.t BY NAME SELECT 'e' AS P, 6L AS id")
    sql("INSERT INTO db.t SELECT id + 10, v, p FROM db.t WHERE id = 1")
    assert sql("SELECT * FROM db.t WHERE id > 3 OR id = 11") == [
        (11, 10, "a"), (4, None, "c"), (5, 50, "d"), (6, None, "e"),
    ]  # fmt: skip


def test_defaults_are_written(sql):
    sql("CREATE TABLE db.d (a INT, b STRING DEFAULT 'x', c INT DEFAULT 5)")
    sql("INSERT INTO db.d (a) VALUES (1)")
    sql("INSERT INTO db.d VALUES (2, DEFAULT, 6)")
    sql("ALTER TABLE db.d ALTER COLUMN c SET DEFAULT 7")
    sql("INSERT INTO db.d VALUES (3, 'DEFAULT', DEFAULT)")
    assert sql("SELECT * FROM db.d") == [(1, "x", 5), (2, "x", 6), (3, "DEFAULT", 7)]


def test_rows_are_overwritten(spark, sql, new_catalog):
    sql(KEYED)
    fill(new_catalog)
    sql("INSERT OVERWRITE db.t PARTITION (p = 'a') VALUES (7, 70)")
    assert sql("SELECT * FROM db.t") == [(3, 30, "b"), (7, 70, "a")]
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        sql("INSERT OVERWRITE db.t VALUES (8, 80, 'b')")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert sql("SELECT * FROM db.t") == [(7, 70, "a"), (8, 80, "b")]
    sql("INSERT OVERWRITE TABLE db.t VALUES (9, 90, 'c')")
    assert sql("SELECT * FROM db.t") == [(9, 90, "c")]


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ("VALUES (1, 2)", "insert-columns"),
        ("(id, id) VALUES (1, 2)", "insert-columns"),
        ("VALUES ('one', 2, 'x')", "input-type"),
        ("VALUES (1, 3000000000, 'x')", "input-value"),
        ("VALUES (1, DATE '2024-01-01', 'x')", "input-type"),
        ("(nix) VALUES (1)", "column-not-found"),
        ("PARTITION (v = 1) VALUES (1, 'x')", "partition-spec"),
        ("SELECT 1; SELECT 2", "query"),
    ],
)
def test_rows_that_do_not_fit_are_refused(sql, new_catalog, rows, kind):
    sql(KEYED)
    with pytest.raises(errors.PaimonError) as refused:
        sql(f"INSERT INTO db.t {rows}")
    assert refused.value.kind == kind
    assert new_catalog.get_table("db.t").latest_snapshot() is None


def test_value_that_does_not_fit_is_null_by_try_cast(sql):
    sql(KEYED)
    with pytest.raises(errors.PaimonError, match="try_cast\\(… AS INT\\), which is null"):
        sql("INSERT INTO db.t VALUES (1, 3000000000, 'x')")
    sql("INSERT INTO db.t VALUES (1, try_cast(3000000000 AS INT), 'x')")
    assert sql("SELECT * FROM db.t") == [(1, None, "x")]


def test_rows_are_deleted(sql, any_table, new_catalog):
    assert run(sql, "DELETE FROM db.t WHERE id = 1")[0] == 2
    assert rows_of(new_catalog, "id") == [(2,), (3,)]
    assert run(sql, "DELETE FROM db.t AS x WHERE x.v / 10 IN (SELECT 2) AND length(p) = 1") == (
        3, None, 1, None,
    )  # fmt: skip
    assert rows_of(new_catalog, "id") == [(3,)]
    assert run(sql, "DELETE FROM db.t WHERE upper(p) = 'X'")[0] is None
    sql("DELETE FROM db.t")
    assert rows_of(new_catalog, "id") == []


def test_no_row_is_deleted_beside_segments_of_another_format(sql, new_catalog, tmp_path):
    sql("CREATE TABLE db.o (a INT, b STRING)")
    foreign.write(tmp_path / "l" / "1.orc", foreign.rows((1, "x")))
    foreign.add_segment(new_catalog.get_table("db.o"), tmp_path / "l", "orc")
    for where in ("", " WHERE true", " WHERE a = 1", " WHERE length(b) = 1"):
        with pytest.raises(errors.UnsupportedFeatureError, match="mixed format segments"):
            sql(f"DELETE FROM db.o{where}")
    assert rows_of(new_catalog, name="db.o") == [(1, "x")]
    sql("TRUNCATE TABLE db.o")
    assert rows_of(new_catalog, name="db.o") == []


def test_deletes_that_compaction_keeps_are_no_rows(sql, new_catalog):
    options = {"bucket": "1", "sequence.field": "v", "sequence.delete-retention": "7 d"}
    columns = {"id": "BIGINT", "v": "INT", "p": "STRING"}
    table = new_catalog.create_table(
        "db.t", Schema.of(columns, primary_keys=["id"], options=options)
    )
    fill(new_catalog)
    sql("DELETE FROM db.t WHERE id = 1")
    assert table.compact(full=True).deletes_kept == 1
    late = pa.table({"id": [1, 4], "v": pa.array([5, 40], pa.int32()), "p": ["late", "c"]})
    table.new_write_builder().write(late, EmbeddedExecutor(threads=1))
    for _ in range(2):
        assert sql("SELECT id FROM db.t") == [(2,), (3,), (4,)]
        assert sql("SELECT count(*) FROM db.t") == [(3,)]
        assert sql("SELECT v FROM db.t WHERE p = 'late' OR v = 40") == [(40,)]
        assert sql("SELECT count(*) FROM (SELECT id FROM db.t LIMIT 2)") == [(2,)]
        assert table.compact(full=True).deletes_kept in (0, 1)


def test_rows_are_updated(sql, any_table, new_catalog):
    assert run(sql, "UPDATE db.t SET v = v + 1 WHERE id < 3") == (2, None, 2, None)
    up = "UPDATE db.t AS x SET v = CASE WHEN x.v > 20 THEN 0 ELSE length(p) END WHERE id % 2 = 1"
    assert run(sql, up) == (3, None, 2, None)
    sql("UPDATE db.t SET v = (SELECT max(v) FROM db.t) WHERE db.t.id = 2")
    assert rows_of(new_catalog) == [(1, 1, "a"), (2, 21, "a"), (3, 0, "b")]


def quoted_rows(sql):
    """Return the rows of a table whose texts look like its columns."""
    return sql("SELECT id, b, c FROM db.q")


@pytest.fixture(params=["'primary-key' = \"id\", ", ""], ids=["keyed", "plain"])
def quotes(request, sql):
    """A table that was declared with double quotes, with rows written with them."""
    sql(
        'CREATE TABLE db.q (id INT, b STRING COMMENT "the b", c STRING DEFAULT "d") COMMENT "x"'
        f' TBLPROPERTIES ({request.param}"bucket" = "1", "bucket-key" = \'id\')'
    )
    sql("INSERT INTO db.q SELECT 1, \"c\", 'x' UNION ALL SELECT 2, 'x', \"it's\"")
    return request.param


def test_double_quotes_are_texts_and_backticks_names(sql, new_catalog, quotes):
    table = new_catalog.get_table("db.q")
    assert (table.schema.comment, table.schema.fields[1].description) == ("x", "the b")
    assert table.schema.fields[2].default_value == "d"
    assert quoted_rows(sql) == [(1, "c", "x"), (2, "x", "it's")]
    sql("DELETE FROM db.q WHERE \"b\" = 'x'")
    assert quoted_rows(sql) == [(1, "c", "x"), (2, "x", "it's")]
    sql('UPDATE db.q SET b = "c" WHERE `b` = "x"')
    assert quoted_rows(sql) == [(1, "c", "x"), (2, "c", "it's")]
    sql('UPDATE db.q SET b = upper("c"), c = `b` WHERE q.id IN (1, 3)')
    assert quoted_rows(sql) == [(1, "C", "c"), (2, "c", "it's")]
    sql(
        'MERGE INTO db.q USING (SELECT 1 AS id, "b" AS w UNION ALL SELECT 5, "e") s'
        ' ON q.id = s.id AND q.b <> "b" WHEN MATCHED AND s.w = "b" THEN UPDATE SET b = "q.c"'
        ' WHEN NOT MATCHED THEN INSERT (id, b, c) VALUES (s.id, "s.w", s.w)'
    )
    assert quoted_rows(sql) == [(1, "q.c", "c"), (2, "c", "it's"), (5, "s.w", "e")]
    sql("DELETE FROM db.q WHERE \"c\" = 'c' AND c IN (\"c\", 'e')")
    assert quoted_rows(sql) == [(2, "c", "it's")]
    with pytest.raises(errors.InvalidInputError):
        sql("INSERT INTO db.q (id, \"b\") VALUES (6, 'x')")


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("spark.sql.ansi.doubleQuotedIdentifiers", '"c"'),
        ("spark.sql.parser.escapedStringLiterals", r"'\n'"),
    ],
)
def test_texts_with_other_meaning_in_session_are_refused(spark, sql, new_catalog, setting, text):
    sql("CREATE TABLE db.q (b STRING, c STRING)")
    sql("INSERT INTO db.q VALUES ('x', 'y')")
    spark.conf.set(setting, "true")
    try:
        for change in (f"UPDATE db.q SET b = {text}", f"DELETE FROM db.q WHERE {text} = c"):
            with pytest.raises(errors.UnsupportedFeatureError, match=setting):
                sql(change)
        sql("UPDATE db.q SET b = '\"z\"'")
    finally:
        spark.conf.unset(setting)
    assert rows_of(new_catalog, name="db.q") == [('"z"', "y")]


@pytest.mark.parametrize(
    "literal",
    [*("'it''s'", "'a' 'b'", r"'it\'s'", r"'a\\b'", r"'a\tb\nc'", r"'\d\u00e4'", r"r'a\tb'"),
     '"it\'s"', '"a""b"', r'"a\"b"', r"'\%'", "'-- c'", "DATE \"2024-01-01\""],
)  # fmt: skip
def test_texts_are_converted_as_in_spark(spark, sql, new_catalog, literal):
    if literal in ("'it''s'", '"a""b"') and spark.version < "4.1":
        pytest.skip("Spark before 4.1 has two texts side by side there")
    sql("CREATE TABLE db.q (id INT, b STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    sql("INSERT INTO db.q VALUES (1, 'b')")
    [[text]] = spark.sql(f"SELECT CAST({literal} AS STRING)").collect()
    sql(f"UPDATE db.q SET b = {literal}")
    assert rows_of(new_catalog, name="db.q") == [(1, text)]
    sql(f"DELETE FROM db.q WHERE b <> {literal}")
    assert rows_of(new_catalog, name="db.q") == [(1, text)]
    sql(f"DELETE FROM db.q WHERE b = {literal}")
    assert rows_of(new_catalog, name="db.q") == []


def test_fields_of_structs_are_updated(sql):
    sql("CREATE TABLE db.s (id INT, s STRUCT<c1: INT, c2: STRING>)"
        " TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")  # fmt: skip
    sql("INSERT INTO db.s VALUES (1, named_struct('c1', 1, 'c2', 'x')), (2, NULL)")
    sql("UPDATE db.s SET s.c2 = 'new' WHERE s.c1 = 1")
    assert sql("SELECT id, s.c1, s.c2 FROM db.s") == [(1, 1, "new"), (2, None, None)]
    with pytest.raises(errors.InvalidInputError, match="'nix'"):
        sql("UPDATE db.s SET s.nix = 'new'")


SOURCE = "(SELECT * FROM VALUES (1, 100, 'a'), (3, 300, 'b'), (4, 400, 'c') AS x(id, v, p)) s"


def test_rows_are_merged(sql, any_table, new_catalog):
    text = (
        f"MERGE INTO db.t USING {SOURCE} ON t.id = s.id AND t.p = s.p"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert run(sql, text) == (2, None, 2, 1)
    assert rows_of(new_catalog) == [
        (1, 100, "a"), (2, 20, "a"), (3, 300, "b"), (4, 400, "c"),
    ]  # fmt: skip


def test_first_matching_when_applies(sql, any_table, new_catalog):
    text = (
        f"MERGE INTO db.t USING {SOURCE} ON db.t.id = s.id AND t.p = s.p"
        " WHEN MATCHED AND t.v = 10 THEN UPDATE SET v = s.v + t.v"
        " WHEN MATCHED AND s.v > 200 THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET v = 0"
        " WHEN NOT MATCHED AND s.v > 1000 THEN INSERT *"
        " WHEN NOT MATCHED THEN INSERT (id, p) VALUES (s.id * 10, s.p)"
        " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = -1"
    )
    assert run(sql, text) == (2, None, 3, 1)
    assert rows_of(new_catalog) == [(1, 110, "a"), (2, -1, "a"), (40, None, "c")]


@pytest.mark.way_out("column-not-found")
def test_merges_that_only_insert_or_delete(sql, any_table, new_catalog):
    insert = f"MERGE INTO db.t USING {SOURCE} ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
    assert run(sql, insert) == (2, None, 0, 1)
    assert run(sql, insert) == (None, None, 0, 0)
    delete = "MERGE INTO db.t USING (SELECT 1 AS k UNION ALL SELECT 1) s ON id = k"
    with pytest.raises(errors.InvalidInputError, match="needs; name the columns to set"):
        sql(f"{delete} WHEN MATCHED THEN UPDATE SET *")
    assert run(sql, f"{delete} WHEN NOT MATCHED THEN INSERT (id, p) VALUES (k, 'x')")[2:] == (0, 0)
    assert run(sql, f"{delete} WHEN MATCHED THEN DELETE") == (3, None, 1, 0)
    assert rows_of(new_catalog, "id") == [(2,), (3,), (4,)]


def test_one_row_is_changed_by_one_source_row(sql, any_table, new_catalog):
    source = "(SELECT * FROM VALUES (1, 5), (1, 6) AS x(k, w)) s"
    with pytest.raises(errors.InvalidInputError) as refused:
        sql(f"MERGE INTO db.t USING {source} ON id = k WHEN MATCHED THEN UPDATE SET v = w")
    assert refused.value.kind == "merge-duplicates"
    assert new_catalog.get_table("db.t").latest_snapshot().id == 1


def test_key_in_one_on_alternative_is_no_source_key(sql, new_catalog):
    sql("CREATE TABLE db.k (id INT, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    sql("INSERT INTO db.k VALUES (1, 10), (2, 20)")
    merge = (
        "MERGE INTO db.k USING (SELECT 7 AS id, 10 AS v) s"
        " ON k.v = s.v OR k.v = 0 AND k.id = s.id WHEN MATCHED THEN UPDATE SET *"
    )
    with pytest.raises(errors.PaimonError) as refused:
        sql(merge)
    assert refused.value.kind == "update-column"
    assert rows_of(new_catalog, name="db.k") == [(1, 10), (2, 20)]
    assert run(sql, merge.replace("k.v = s.v OR k.v = 0 AND", "(k.v > 0) AND"))[2] == 0


def test_column_of_on_is_set_to_other_values(sql, new_catalog):
    sql(PLAIN)
    fill(new_catalog, "db.a")
    sql(
        "MERGE INTO db.a USING (SELECT 10 AS v, 'z' AS p) s ON a.v <=> s.v"
        " WHEN MATCHED THEN UPDATE SET v = a.v + 5, p = s.p"
        " WHEN NOT MATCHED BY SOURCE AND a.p = 'b' THEN UPDATE SET v = -1"
    )
    assert rows_of(new_catalog, name="db.a") == [(1, 15, "z"), (2, 20, "a"), (3, -1, "b")]


def test_key_is_set_to_itself_or_refused(sql, new_catalog):
    sql("CREATE TABLE db.k (id INT, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    sql("INSERT INTO db.k VALUES (1, 10), (2, 20)")
    merge = "MERGE INTO db.k USING (SELECT 1 AS id, 5 AS v) s ON k.id <=> s.id WHEN MATCHED"
    with pytest.raises(errors.PaimonError) as refused:
        sql(f"{merge} THEN UPDATE SET id = 7, v = s.v")
    assert refused.value.kind == "update-column"
    sql(
        f"{merge} AND k.v = 20 THEN UPDATE SET v = 0"
        " WHEN MATCHED THEN UPDATE SET id = (s.id), v = s.v"
    )
    assert rows_of(new_catalog, name="db.k") == [(1, 5), (2, 20)]


def test_row_of_key_is_not_deleted_and_inserted_at_once(sql, new_catalog):
    sql("CREATE TABLE db.k (id INT, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    sql("INSERT INTO db.k VALUES (1, 10), (2, 20)")
    merge = (
        "MERGE INTO db.k USING (SELECT * FROM VALUES (1, 11), (2, 20), (3, 30) AS x(id, v)) s"
        " ON k.id = s.id AND k.v = s.v"
        " WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    with pytest.raises(errors.InvalidInputError, match="key alone in ON, and insert") as refused:
        sql(merge)
    assert refused.value.kind == "merge-duplicates"
    sql(merge.replace(" AND k.v = s.v", " WHEN MATCHED THEN UPDATE SET *"))
    assert rows_of(new_catalog, name="db.k") == [(1, 11), (2, 20), (3, 30)]


@pytest.mark.way_out("change-null", "sql-needs-spark")
def test_nulls_match_no_row(sql, new_catalog):
    sql(PLAIN)
    rows = "INSERT INTO db.a VALUES (1, NULL, 'a'), (2, 2, 'b')"
    with pytest.raises(errors.UnsupportedFeatureError, match="run it by spark_sql"):
        new_catalog.execute(rows)
    sql(rows)
    with pytest.raises(errors.InvalidInputError) as refused:
        sql("DELETE FROM db.a WHERE coalesce(v, 0) < 1")
    assert (refused.value.kind, refused.value.details["column"]) == ("change-null", "v")
    sql("DELETE FROM db.a WHERE v IS NULL")
    assert sql("SELECT id FROM db.a") == [(2,)]
    with pytest.raises(errors.UnsupportedFeatureError, match="rand"):
        sql("DELETE FROM db.a WHERE rand() < 2")


def test_concurrent_changes_are_read_again(sql, new_catalog, monkeypatch):
    sql(KEYED)
    fill(new_catalog)
    changes = pytest.importorskip("paimon_assets.sql.spark.changes")
    looked = changes.Seen.of
    seen = []

    def look_and_be_overtaken(table, frames):
        found = looked(table, frames)
        if not seen:
            sql("UPDATE db.t SET v = 1000 WHERE id = 1")
        seen.append(found.snapshot.id)
        return found

    monkeypatch.setattr(changes.Seen, "of", look_and_be_overtaken)
    sql("UPDATE db.t SET v = greatest(v, 5) + 1 WHERE id = 1")
    assert seen == [1, 2]
    assert sql("SELECT v FROM db.t WHERE id = 1") == [(1001,)]


def test_tables_are_created_with_rows(sql, new_catalog):
    sql(KEYED)
    fill(new_catalog)
    made = "CREATE TABLE db.c PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'p,id') AS"
    assert run(sql, f"{made} SELECT id, p, v * 2 AS w FROM db.t")[:2] == (1, 3)
    assert sql("SELECT * FROM db.c") == [(1, "a", 20), (2, "a", 40), (3, "b", 60)]
    schema = new_catalog.get_table("db.c").schema
    assert (schema.primary_keys, schema.partition_keys) == (("p", "id"), ("p",))
    with pytest.raises(errors.AlreadyExistsError):
        sql("CREATE TABLE db.c AS SELECT 1 AS a")
    with pytest.raises(errors.InvalidInputError, match="either columns"):
        sql("CREATE TABLE db.e (id INT) AS SELECT 1 AS a")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        sql("CREATE TABLE db.e AS SELECT id, 1 / (v - 10) AS x FROM db.t")
    assert new_catalog.list_tables("db") == ["c", "t"]


def test_views_are_read(sql, new_catalog):
    sql(KEYED)
    fill(new_catalog)
    sql("CREATE VIEW w (n, total) COMMENT 'sums' AS SELECT p, sum(v) FROM t GROUP BY p",
        database="db")  # fmt: skip
    sql("CREATE VIEW db.x AS SELECT n FROM db.w AS w WHERE w.total > 0")
    assert sql("SELECT * FROM db.w") == [("a", 30), ("b", 30)]
    assert sql("SELECT x.n FROM db.x JOIN db.t ON x.n = t.p") == [("a",), ("a",), ("b",)]
    view = new_catalog.views.get("db.w")
    assert (view.comment, [str(f.type) for f in view.fields]) == ("sums", ["STRING", "BIGINT"])
    assert "`db`.`t`" in view.dialects["spark"]
    sql("CREATE OR REPLACE VIEW db.w (n, total) AS SELECT 'z', 1L")
    assert sql("SELECT * FROM db.x") == [("z",)]
    with pytest.raises(errors.AlreadyExistsError):
        sql("CREATE VIEW db.t AS SELECT 1 AS a")
    sql("ALTER VIEW db.x RENAME TO db.y")
    sql("DROP VIEW db.y")
    assert sql("SHOW VIEWS IN db") == [("db", "w", False)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT value AS a FROM text.`{file}`",
        "SELECT value AS a FROM mine",
        "SELECT java_method('java.lang.System', 'getProperty', 'user.home') AS a",
        "SELECT (SELECT max(value) FROM text.`{file}`) AS a",
    ],
)
def test_view_reads_nothing_but_catalog(sql, spark, new_catalog, tmp_path, query):
    secret = tmp_path / "secret"
    secret.write_text("x")
    spark.read.text(str(secret)).createOrReplaceTempView("mine")
    query = query.format(file=secret)
    try:
        assert sql(query)  # of the user's own
        new_catalog.views.create("db.v", query, {"a": "STRING"})
        with pytest.raises(errors.InvalidInputError) as refused:
            sql("SELECT * FROM db.v")
    finally:
        spark.catalog.dropTempView("mine")
    assert refused.value.kind == "view-outside"


@pytest.mark.way_out("view-columns", "view-version")
def test_views_of_other_engines_are_read_where_spark_can(sql, new_catalog):
    types = {"a": "INT"}
    new_catalog.views.create("db.v", "SELECT broken FROM", types, dialects={"spark": "SELECT 1 a"})
    assert sql("SELECT * FROM db.v") == [(1,)]
    new_catalog.views.create("db.one", "SELECT * FROM two", types)
    new_catalog.views.create("db.two", "SELECT * FROM db.one", types)
    with pytest.raises(errors.InvalidInputError, match=r"db\.one -> db\.two -> db\.one") as refused:
        sql("SELECT * FROM db.one")
    assert refused.value.kind == "view-cycle"
    new_catalog.views.create("db.wide", "SELECT 1 AS a, 2 AS b", types)
    with pytest.raises(errors.InvalidInputError) as refused:
        sql("SELECT * FROM db.wide")
    assert refused.value.kind == "view-columns"
    sql("CREATE OR REPLACE VIEW db.wide AS SELECT 1 AS a, 2 AS b")
    assert sql("SELECT * FROM db.wide") == [(1, 2)]
    with pytest.raises(errors.InvalidInputError, match="no versions; say AS OF of its tables"):
        sql("SELECT * FROM db.v VERSION AS OF 1")
    sql("CREATE TABLE db.late AS SELECT 7 AS a")
    assert sql("SELECT * FROM db.late VERSION AS OF 1") == [(7,)]


def test_other_statements_return_frames(sql, new_catalog):
    sql(KEYED)
    fill(new_catalog)
    assert sql("SHOW TABLES IN db") == [("db", "t", False)]
    assert sql("SHOW PARTITIONS db.t") == [("p=a",), ("p=b",)]
    assert sql("CALL sys.compact(table => 'db.t', order_strategy => 'none')") == [(True,)]
    assert sql("SELECT count(*) FROM db.`t$files` WHERE level = 5") == [(2,)]
    assert sql("SHOW TAGS db.t") == []
    assert sql("SHOW TABLES", database="db") == [("db", "t", False)]


def test_plain_tables_are_clustered(sql, new_catalog):
    sql(PLAIN)
    fill(new_catalog, "db.a")
    call = "CALL sys.compact(table => 'a', order_strategy => 'zorder', order_by => 'id,v')"
    assert sql(call, database="db") == [(True,)]
    assert sql("SELECT count(*) FROM db.a") == [(3,)]


def test_tables_get_unique_names(spark, sql, new_catalog):
    sql(KEYED)
    fill(new_catalog)
    sql("CREATE VIEW db.w AS SELECT max(v) AS m FROM db.t")
    names = door.register_views(spark, new_catalog)
    try:
        assert names == ["db_t", "db_w"]
        assert spark.sql("SELECT count(*) FROM db_t JOIN db_w ON v = m").collect()[0][0] == 1
    finally:
        for name in names:
            spark.catalog.dropTempView(name)


def test_command_line_runs_statements_on_spark(spark, warehouse, new_catalog, monkeypatch):
    monkeypatch.setenv("SPARK_MASTER", "local[2]")

    def run(statement):
        done = CliRunner().invoke(
            main, ["-w", warehouse, "sql", "--executor", "spark", "--json", statement]
        )
        assert done.exit_code == 0, done.output
        return json.loads(done.output)

    run(PLAIN)
    run(f"INSERT INTO db.a {ROWS}")
    assert run("SELECT id FROM db.a WHERE v = 30") == [{"id": 3}]


def test_notebook_has_magic(spark, new_catalog):
    magic = pytest.importorskip("paimon_assets.sql.spark.spark_sql")

    class Shell:
        def register_magic_function(self, function, magic_kind, magic_name):
            self.known = {(magic_kind, magic_name): function}

    shell = Shell()
    magic.load_magic(spark, new_catalog, database="db", shell=shell)
    run = shell.known["line_cell", "paimon_sql"]
    run(PLAIN)
    assert [tuple(row) for row in run("", "SHOW TABLES").collect()] == [("db", "a", False)]
    with pytest.raises(errors.InvalidInputError) as refused:
        magic.load_magic(spark, new_catalog)
    assert refused.value.kind == "notebook"


pushdown = pytest.importorskip("paimon_assets.sql.spark.pushdown")

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
def query_filled(spark, new_catalog):
    """A table of 20 keys, of which some were written twice, and a view of it."""

    def run(text):
        return door.spark_sql(spark, new_catalog, text)

    run(CREATE)
    run("INSERT INTO db.t " + ROW.format(v="id", first=0, last=15))
    run("INSERT INTO db.t " + ROW.format(v="id + 100", first=10, last=20))
    run("CREATE VIEW db.w AS SELECT *, v * 2 AS twice FROM db.t WHERE id > 2")
    return run


def test_pushed_down_queries_equal_whole_tables(spark, new_catalog, query_filled, monkeypatch):
    # A foreign stage that looks like a placeholder.
    own = spark.range(1).mapInArrow(lambda batches: batches, "r bigint")
    own.union(spark.range(3)).createOrReplaceTempView("own")

    def answers():
        return [sorted(map(repr, query_filled(text).collect())) for text in QUERIES]

    narrow = answers()
    # Now every table is read whole.
    monkeypatch.setattr("paimon_assets.sql.spark.frames.shows_plans", lambda _: False)
    for text, found, whole in zip(QUERIES, narrow, answers(), strict=True):
        assert found == whole, text
    assert sum(map(len, narrow)) > len(QUERIES)
    spark.catalog.dropTempView("own")


DAY = (dt.date(2024, 1, 15) - dt.date(1970, 1, 1)).days
NOON = (dt.datetime(2024, 1, 1, 12) - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)


@pytest.fixture
def needs(spark, new_catalog):
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
        read = new_catalog.get_table("db.t").new_read_builder()
        names = [name for name in ("t", "u") if f"{{{name}}}" in text]
        places = {n: pushdown.placeholder(spark, read, at) for at, n in enumerate(names, 1)}
        found = pushdown.needs(spark.sql(text, **places), [read] * len(names))
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
def test_filters_are_pushed_down_where_engines_agree(needs, where, predicate):
    ((_, found),) = needs(f"SELECT * FROM {{t}} WHERE {where}")
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
def test_unneeded_columns_are_not_read(needs, query, columns):
    assert [found for found, _ in needs(query)] == columns
