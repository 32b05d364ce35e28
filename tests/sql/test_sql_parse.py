"""Statements are parsed into values, or refused by name and with a way out; nothing runs."""

from contextlib import suppress
from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st_

from paimon_assets import Identifier, InvalidInputError, Schema, UnsupportedFeatureError
from paimon_assets.engine.spec.evolution import schema_change as sc
from paimon_assets.engine.table.read.where import parse_expression, parse_where
from paimon_assets.sql import segment_sql
from paimon_assets.sql import statements as st
from paimon_assets.sql.parse import parse_sql
from paimon_assets.sql.table_uses import find_tables
from paimon_assets.sql.words import split_statements, words_of
from tests.testkit.errors import refused

T = Identifier("db", "t")


def parse(text, database="db"):
    return parse_sql(text, st.Names(database=database))


@pytest.mark.parametrize("name", ["t", "db.t", "paimon.db.t", "`db`.`t`", "db . t"])
def test_names_are_tables_of_catalog(name):
    assert parse(f"TRUNCATE TABLE {name}") == st.Truncate(table=T)


@pytest.mark.parametrize("name", ["other.db.t", "a.b.c.d"])
def test_names_of_other_catalogs_are_refused(name):
    with refused(InvalidInputError, "no table of this catalog", kind="name"):
        parse(f"TRUNCATE TABLE {name}")


def test_name_alone_needs_database():
    with pytest.raises(InvalidInputError, match=r"write database\.table"):
        parse("TRUNCATE TABLE t", database=None)


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("-- all\nSELECT * FROM db.t;", st.Select(query="SELECT * FROM db.t")),
        ("INSERT INTO t VALUES (1, 'a;b')", st.Insert(table=T, query="VALUES (1, 'a;b')")),
        ("INSERT INTO TABLE t (a, `b c`) SELECT 1, 2",
         st.Insert(table=T, columns=("a", "b c"), query="SELECT 1, 2")),
        ("insert into t (select 1)", st.Insert(table=T, query="(select 1)")),
        ("INSERT INTO t BY NAME SELECT 1 AS a",
         st.Insert(table=T, by_name=True, query="SELECT 1 AS a")),
        ("INSERT OVERWRITE t PARTITION (p = DATE '2024-01-01', q) SELECT 1",
         st.Insert(table=T, overwrites=True, fixed=(("p", "2024-01-01"),), dynamic=("q",),
                query="SELECT 1")),
        ("DELETE FROM t", st.Delete(table=T, alias=None, where=None)),
        ("DELETE FROM t AS x WHERE x.a IN (SELECT 1)",
         st.Delete(table=T, alias="x", where="x.a IN (SELECT 1)")),
        ("UPDATE t SET a = CASE WHEN b THEN 1 ELSE f(2, 3) END, s.c = 'x' WHERE d = 1",
         st.Update(table=T, alias=None, where="d = 1", assignments=(
             (("a",), "CASE WHEN b THEN 1 ELSE f(2, 3) END"), (("s", "c"), "'x'")))),
        ("CREATE DATABASE IF NOT EXISTS d2 COMMENT 'mine' WITH ('owner' = 'me')",
         st.CreateDatabase(name="d2", if_not_exists=True,
                        options={"comment": "mine", "owner": "me"})),
        ("CREATE SCHEMA d2 WITH DBPROPERTIES (owner = 'me')",
         st.CreateDatabase(name="d2", if_not_exists=False, options={"owner": "me"})),
        ("TRUNCATE TABLE t PARTITION (p = 1)", st.Truncate(table=T, partitions=((("p", 1),),))),
        ("ALTER TABLE t DROP PARTITION (p = 1, q = 'x')",
         st.Truncate(table=T, partitions=((("p", 1), ("q", "x")),))),
        ("ALTER TABLE t RENAME TO u", st.Rename(name=T, target=Identifier("db", "u"))),
        ("DROP TABLE IF EXISTS t", st.Drop(name=T, if_exists=True)),
        ("DROP TABLE t -- old", st.Drop(name=T, if_exists=False)),
        ("DELETE FROM t -- x", st.Delete(table=T, alias=None, where=None)),
        ("DROP VIEW t", st.Drop(name=T, if_exists=False, is_view=True)),
        ("CREATE OR REPLACE VIEW t (a COMMENT 'x', b) COMMENT 'y' AS SELECT 1, 2",
         st.CreateView(name=T, columns=(("a", "x"), ("b", None)), comment="y", replaces=True,
                    query="SELECT 1, 2")),
        ("SHOW TABLES IN d2 LIKE 'a*'",
         st.Show(shown=st.Shown.TABLES, database="d2", pattern="a*")),
        ("SHOW PARTITIONS t PARTITION (p = 1)",
         st.Show(shown=st.Shown.PARTITIONS, table=T, partition=(("p", 1),))),
        ("ANALYZE TABLE t COMPUTE STATISTICS", st.Analyze(table=T, columns=None)),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS", st.Analyze(table=T, columns=())),
        ("CALL sys.rollback('db.t', 3L)",
         st.Call(procedure="rollback", arguments={"0": "db.t", "1": 3})),
        (r"""CALL sys.rollback("it""s", 'a\\b\tc', r'\d', -10L) /* a /* b */ c */ -- d""",
         st.Call(procedure="rollback", arguments={
             "0": 'it"s', "1": "a\\b\tc", "2": r"\d", "3": -10})),
        ("CALL paimon.sys.compact(table => 't', `where` => \"a > 1\")",
         st.Call(procedure="compact", arguments={"table": "t", "where": "a > 1"})),
        ("ALTER TABLE t CREATE TAG IF NOT EXISTS `TAG-1` AS OF VERSION 2 RETAIN 7 DAYS",
         st.Call(procedure="create_tag", arguments={
             "table": "db.t", "if_not_exists": True, "tag": "TAG-1", "snapshot": 2,
             "time_retained": "7 day"})),
        ("ALTER TABLE t RENAME TAG a TO b",
         st.Call(procedure="rename_tag",
                 arguments={"table": "db.t", "tag": "a", "target_tag": "b"})),
    ],
)  # fmt: skip
def test_statements(text, statement):
    assert parse(text) == statement


def test_flink_create_table_is_parsed():
    flink = parse(
        "CREATE TABLE t (id INT, p STRING, PRIMARY KEY (id, p) NOT ENFORCED) COMMENT 'x'"
        " PARTITIONED BY (p) WITH ('bucket' = '2')"
    )
    spark = parse(
        "CREATE TABLE t (id INT, p STRING) COMMENT 'x' PARTITIONED BY (p)"
        " TBLPROPERTIES ('bucket' = '2', 'primary-key' = 'id,p')"
    )
    assert flink == spark
    with pytest.raises(InvalidInputError, match="either PRIMARY KEY"):
        parse("CREATE TABLE t (id INT, PRIMARY KEY (id)) WITH ('primary-key' = 'id')")
    query = parse("CREATE TABLE t WITH a AS (SELECT 1) SELECT * FROM a")
    assert query.query == "WITH a AS (SELECT 1) SELECT * FROM a"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("SET TBLPROPERTIES ('a.b' = 'x', c = 2, 'comment' = 'y')",
         [sc.set_option("a.b", "x"), sc.set_option("c", "2"), sc.UpdateComment(comment="y")]),
        ("UNSET TBLPROPERTIES ('a', 'comment')",
         [sc.remove_option("a"), sc.UpdateComment(comment=None)]),
        ("ADD COLUMNS (a INT COMMENT 'x', b STRING AFTER a)",
         [sc.add_column("a", "INT", comment="x"), sc.add_column("b", "STRING", after="a")]),
        ("RENAME COLUMN v.value.a TO b",
         [sc.RenameColumn(field_names=("v", "value", "a"), new_name="b")]),
        ("DROP COLUMNS (a, b)", [sc.drop_column("a"), sc.drop_column("b")]),
        ("ALTER COLUMN a TYPE DOUBLE", [sc.update_column_type("a", "DOUBLE")]),
        ("ALTER COLUMN a COMMENT 'x'", [sc.update_column_comment("a", "x")]),
        ("ALTER COLUMN a FIRST", [sc.move_column("a", first=True)]),
        ("ALTER COLUMN a AFTER b", [sc.move_column("a", after="b")]),
        ("ALTER COLUMN a SET DEFAULT 5", [sc.update_column_default_value("a", "5")]),
        ("ALTER COLUMN a DROP NOT NULL", [sc.update_column_nullability("a", nullable=True)]),
    ],
)  # fmt: skip
def test_changes_of_schema(change, expected):
    assert parse(f"ALTER TABLE t {change}") == st.AlterTable(table=T, changes=tuple(expected))


def test_create_table():
    found = parse(
        "CREATE TABLE IF NOT EXISTS t (id BIGINT NOT NULL COMMENT 'key', at TIMESTAMP,"
        " s STRUCT<a: INT, `b c`: MAP<STRING, TIMESTAMP_NTZ>>, d DECIMAL(10, 2) DEFAULT 1.5,"
        " p STRING DEFAULT 'it''s') USING paimon PARTITIONED BY (p) COMMENT 'all'"
        " TBLPROPERTIES ('primary-key' = 'p, id', 'bucket' = 2)"
    )
    assert isinstance(found, st.CreateTable)
    schema = found.schema
    assert [(f.name, str(f.type), f.description, f.default_value) for f in schema.fields] == [
        ("id", "BIGINT NOT NULL", "key", None),
        ("at", "TIMESTAMP(6) WITH LOCAL TIME ZONE", None, None),
        ("s", "ROW<a INT, b c MAP<STRING, TIMESTAMP(6)>>", None, None),
        ("d", "DECIMAL(10, 2)", None, "1.5"),
        ("p", "STRING", None, "it's"),
    ]
    assert (schema.primary_keys, schema.partition_keys) == (("p", "id"), ("p",))
    assert (schema.options, schema.comment, found.if_not_exists) == ({"bucket": "2"}, "all", True)


def test_merge_keeps_its_whens_in_their_order():
    found = parse(
        "MERGE INTO t USING db.s VERSION AS OF 1 AS s ON t.a = s.a"
        " WHEN MATCHED AND t.a = 5 THEN UPDATE SET b = CASE WHEN s.b > 1 THEN 1 END, t.c = s.c"
        " WHEN MATCHED THEN DELETE"
        " WHEN NOT MATCHED AND c > 'c9' THEN INSERT (a, b) VALUES (a, b * 1.1)"
        " WHEN NOT MATCHED THEN INSERT *"
        " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET b = 0"
    )
    assert (found.source, found.source_alias, found.on) == (
        "db.s VERSION AS OF 1 AS s",
        "s",
        "t.a = s.a",
    )
    assert found.whens == (
        st.When(meets=st.Meets.MATCHED, condition="t.a = 5", acts=st.Acts.UPDATE,
             values=(("b", "CASE WHEN s.b > 1 THEN 1 END"), ("c", "s.c"))),
        st.When(meets=st.Meets.MATCHED, condition=None, acts=st.Acts.DELETE),
        st.When(meets=st.Meets.NOT_MATCHED, condition="c > 'c9'", acts=st.Acts.INSERT,
             values=(("a", "a"), ("b", "b * 1.1"))),
        st.When(meets=st.Meets.NOT_MATCHED, condition=None, acts=st.Acts.INSERT),
        st.When(meets=st.Meets.NOT_BY_SOURCE, condition=None, acts=st.Acts.UPDATE,
             values=(("b", "0"),)),
    )  # fmt: skip


@pytest.mark.parametrize("source", ["s", "db.s", "(SELECT 1 AS a) s", "(SELECT 1 AS a) AS s"])
def test_source_of_merge_has_name(source):
    found = parse(f"MERGE INTO t USING {source} ON t.a = s.a WHEN MATCHED THEN DELETE")
    assert (found.source, found.source_alias) == (source, "s")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("CREATE OR REPLACE TABLE t (a INT)", "REPLACE TABLE"),
        ("REPLACE TABLE t (a INT)", "REPLACE TABLE"),
        ("CREATE TABLE t (a INT) LOCATION '/x'", "LOCATION"),
        ("CREATE TABLE t (a INT) USING csv", "USING csv"),
        ("CREATE TEMPORARY VIEW v AS SELECT 1", "TEMPORARY VIEW"),
        ("CREATE FUNCTION f AS 'x'", "CREATE FUNCTION"),
        ("ALTER TABLE t ADD PARTITION (a = 1)", "ADD PARTITION"),
        ("ALTER TABLE t ADD COLUMN a INT DEFAULT 1", "ADD COLUMN ... DEFAULT"),
        ("ALTER DATABASE d SET LOCATION '/x'", "ALTER DATABASE"),
        ("COPY INTO t FROM '/x'", "COPY"),
        ("SHOW FUNCTIONS", "SHOW FUNCTIONS"),
        ("DESCRIBE DATABASE db", "DESCRIBE DATABASE"),
        ("MSCK REPAIR TABLE t", "MSCK"),
        ("USE db", "USE"),
        ("SET a = b", "SET"),
        ("EXPLAIN SELECT 1", "EXPLAIN"),
    ],
)
def test_unsupported_format_is_refused_by_name(text, name):
    with pytest.raises(UnsupportedFeatureError) as refused:
        parse(text)
    assert refused.value.kind == "statement-unsupported"
    assert name in refused.value.message
    assert "; " in refused.value.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "Expected a statement, found the end"),
        ("hello", "found 'hello'"),
        ("TRUNCATE TABLE t; DROP TABLE t", "Expected the end, found 'DROP'"),
        ("INSERT INTO t", "Expected VALUES or a query"),
        ("UPDATE t SET a", "Expected =, found the end"),
        ("CREATE TABLE t (a INT, a INT)", "column 'a' once"),
        ("CREATE TABLE t (a WHAT)", "WHAT"),
        ("CREATE TABLE t", "columns, LIKE or AS"),
        ("MERGE INTO t USING s ON t.a = s.a", "WHEN MATCHED"),
        ("MERGE INTO t USING (SELECT 1) ON x WHEN MATCHED THEN DELETE", "an alias of the source"),
        ("CALL other.compact('t')", "a procedure of sys"),
        ("CALL sys.compact(table => f(x))", "is no literal"),
        ("SHOW TABLES LIKE x", "a pattern"),
        ("ALTER TABLE t DROP PARTITION (p)", "a value of the partition column 'p'"),
    ],
)
def test_value_that_is_null_for_spark_is_refused(text, expected):
    with pytest.raises(InvalidInputError, match=expected):
        parse(text)


def test_segments_are_added_shown_and_deleted_by_statements(catalog, tmp_path):
    catalog.create_table("db.t", Schema.of({"a": "INT", "s": "STRING"}))
    folder = tmp_path / "it's"
    folder.mkdir()
    (folder / "1").write_text("1;'x;y'\n")
    quoted = str(folder).replace("'", "''")
    added = catalog.execute(
        f"alter table `db`.t Add Segment options('PATH'='{quoted}', 'format'='CSV',"
        r" 'sep'=';', header=false, 'quote'='\'');"
    )
    assert added.column("ID").to_pylist() == ["0"]
    assert catalog.get_table("db.t").to_arrow().to_pylist() == [{"a": 1, "s": "x;y"}]
    [shown] = catalog.execute("SHOW SEGMENTS FOR TABLE db.t LIMIT 5").to_pylist()
    assert (shown["File Format"], shown["Path"]) == ("csv", f"file:{folder}")
    assert shown["Options"] == "sep=;, header=false, quote='"
    assert shown["Load Start Time"].endswith(" UTC")
    gone = catalog.execute("DELETE FROM TABLE db.t WHERE SEGMENT.ID IN (0)").to_pylist()
    assert [row["Status"] for row in gone] == ["Marked for Delete"]
    assert catalog.get_table("db.t").to_arrow().num_rows == 0


def test_statements_show_and_clean_deleted_segments(catalog, tmp_path):
    catalog.create_table("db.t", Schema.of({"value": "STRING"}))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1").write_text("x")
        options = f"'path'='{tmp_path}/{name}', 'format'='text'"
        catalog.execute(f"ALTER TABLE db.t ADD SEGMENT OPTIONS({options})")
    catalog.execute("DELETE FROM TABLE db.t WHERE SEGMENT.ID IN (0)")
    shown = catalog.execute("show history segments on db.t").to_pylist()
    assert [(row["ID"], row["Visibility"], row["Merged To"]) for row in shown] == [
        ("1", "true", "NA"),
        ("0", "false", "NA"),
    ]
    ask = "CLEAN FILES FOR TABLE db.t"
    assert catalog.execute(ask).num_rows == 0
    for options in ("options('Force'='true', 'dryrun'='TRUE')", "OPTIONS(force=true);"):
        assert catalog.execute(f"{ask} {options}").column("ID").to_pylist() == ["0"]
    assert catalog.execute(f"{ask} OPTIONS('force'='true')").num_rows == 0
    assert catalog.execute("SHOW SEGMENTS FOR TABLE db.t").column("ID").to_pylist() == ["1"]
    assert (tmp_path / "a" / "1").read_text() == "x"


def test_segments_table_has_options(catalog, tmp_path):
    table = catalog.create_table("db.t", Schema.of({"value": "STRING"}))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1").write_text("a|b")
    options = f"'path'='{tmp_path}/in', 'format'='text', 'lineSep'='|'"
    catalog.execute(f"ALTER TABLE db.t ADD SEGMENT OPTIONS({options})")
    [row] = table.system_table("segments").to_arrow().to_pylist()
    assert (row["row_count"], row["options"]) == (2, "lineSep=|")


def test_statement_variants_are_parsed():
    shown = parse("SHOW SEGMENTS ON db.t")
    assert shown == segment_sql.ShowSegments(table=T)
    added = parse('ALTER TABLE t ADD SEGMENT OPTIONS("path"="/a", partition = \'d:int\')')
    assert isinstance(added, segment_sql.AddSegment)
    assert (added.source.path, added.source.format) == ("/a", "parquet")
    assert added.source.partition == "d:int"
    before = parse("DELETE FROM TABLE t WHERE SEGMENT.STARTTIME BEFORE '1970-01-01 00:00:02'")
    assert before == segment_sql.DeleteSegments(table=T, before_ms=2000)
    ids = parse("delete from table t where segment.id in (1, '2');")
    assert ids == segment_sql.DeleteSegments(table=T, ids=(1, 2))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found the end"),
        ("ALTER TABLE db.t ADD SEGMENT OPTIONS('path' '/a')", "Expected =, found"),
        ("ALTER TABLE db.t ADD SEGMENT OPTIONS('path'='/a', 'PATH'='/b')", "'PATH' once"),
        ("ALTER TABLE db.t ADD SEGMENT OPTIONS('path'='/a)", "Expected a value"),
        ("SHOW SEGMENTS FOR TABLE db.t LIMIT x", "Expected a number, found 'x'"),
        ("SHOW SEGMENTS FOR TABLE db.t; DROP TABLE db.t", "Expected the end, found 'DROP'"),
        ("CLEAN FILES FOR TABLE db.t OPTIONS('segment_ids'='0')", "'dryrun' instead of 'segment_"),
        ("CLEAN FILES FOR TABLE db.t OPTIONS('force'='yes')", "true or false instead of 'yes'"),
        ("DELETE FROM TABLE db.t WHERE a = 1", "found '.'"),
        ("DELETE FROM TABLE db.t WHERE SEGMENT.ID IN ()", "Expected an id"),
        ("DELETE FROM TABLE db.t WHERE SEGMENT.STARTTIME BEFORE 'soon'", "instead of 'soon'"),
    ],
)
def test_unsupported_clauses_are_refused(text, message):
    with refused(InvalidInputError, message, kind="statement"):
        parse(text)


_PAIRS = ("''", '""', "‘’", "’’", "“”", "””")
_SIX = (
    "ALTER TABLE t ADD SEGMENT OPTIONS ('path'='hdfs://h/a/b', 'format'='parquet')",
    "ALTER TABLE t ADD SEGMENT OPTIONS ('path'='/a', 'partition'='day:int,hour:int')",
    "ALTER TABLE t ADD SEGMENT OPTIONS ('path'='/a', 'partition'='day=1 and hour=2')",
    "ALTER TABLE t ADD SEGMENT OPTIONS ('path'='/a', 'partition'='day=1,hour=2', 'format'='text')",
    "ALTER TABLE t ADD SEGMENT OPTIONS ('path'='/a b/ü', 'format'='csv')",
    "ALTER TABLE t ADD SEGMENT OPTIONS ('path'='/a/day=1/hour=2', 'partition'='day:int,hour:int')",
    "DELETE FROM TABLE t WHERE SEGMENT.STARTTIME BEFORE '2024-01-01 00:00:00'",
    "CLEAN FILES FOR TABLE t OPTIONS ('force'='true')",
)


@given(st_.sampled_from(_SIX), st_.lists(st_.sampled_from(_PAIRS), min_size=6, max_size=6))
def test_typographic_quotes_are_parsed(statement, pairs):
    parts = statement.split("'")
    printed = parts[0]
    for number, part in enumerate(parts[1:]):
        pair = pairs[number // 2]
        printed += pair[number % 2] + part
    names = st.Names(database="db")
    assert parse_sql(printed, names) == parse_sql(statement, names)
    assert split_statements(f"{printed};\n{printed}") == [printed, printed]


def test_typographic_quotes_inside_text_are_kept():
    [text] = [word.text for word in words_of("'it’s “so” ‘'") if word.kind == "text"]
    assert text == "it’s “so” ‘"


_PIECES = (
    "SELECT f ( ) '' 'a' => , 1 FROM t a ` \" . * AS CAST [ ] { } : :: -> INTERVAL CASE WHEN END"
    " OVER ? @ $1 WITH VALUES - \x00 é"
)
_TEXTS = st_.lists(st_.sampled_from(_PIECES.split()), min_size=1, max_size=9).map(" ".join)


@given(_TEXTS, st_.sampled_from(["spark", "duckdb"]))
@example("SELECT f('' => 1)", "duckdb")
def test_invalid_query_raises_typed_error(text, dialect):
    for parse in (partial(find_tables, dialect=dialect), parse_where, parse_expression):
        with suppress(InvalidInputError):
            parse(text)
