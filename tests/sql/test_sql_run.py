"""Statements that need no query engine have the effects of the table API."""

import pytest

from paimon_assets.engine.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from paimon_assets.sql.parse import parse_sql
from paimon_assets.sql.statements import Names, loss_of
from tests.testkit import tables

CREATE = (
    "CREATE TABLE db.t (id BIGINT, v INT, p STRING) PARTITIONED BY (p)"
    " TBLPROPERTIES ('primary-key' = 'p,id', 'bucket' = '1')"
)
ROWS = [(1, 10, "a"), (2, 20, "a"), (3, 30, "b")]


@pytest.fixture
def catalog(new_catalog):
    new_catalog.execute(CREATE)
    write(new_catalog, ROWS)
    return new_catalog


def write(catalog, rows):
    tables.write(catalog.get_table("db.t"), *rows)


def rows(catalog, name="db.t"):
    return tables.read(catalog.get_table(name))


def show(catalog, statement):
    return [tuple(row.values()) for row in catalog.execute(statement).to_pylist()]


def test_rows_are_deleted_and_updated(catalog):
    (done,) = catalog.execute("UPDATE db.t AS x SET v = x.v + 1 WHERE x.id < 3").to_pylist()
    assert (done["statement"], done["name"], done["snapshot_id"], done["rows_matched"]) == (
        "UPDATE", "db.t", 2, 2,
    )  # fmt: skip
    assert done["commit_user"] == catalog.get_table("db.t").latest_snapshot().commit_user
    catalog.execute("DELETE FROM db.t WHERE t.id = 1 AND db.t.p = 'a'")
    assert rows(catalog) == [(2, 21, "a"), (3, 30, "b")]
    with pytest.raises(InvalidInputError, match="'p' = 'b'"):
        catalog.execute("DELETE FROM db.t WHERE \"p\" = 'b'")
    catalog.execute('TRUNCATE TABLE db.t PARTITION (p = "b")')
    assert rows(catalog) == [(2, 21, "a")]
    catalog.execute("DELETE FROM db.t WHERE upper(p) = 'B'")
    assert rows(catalog) == [(2, 21, "a")]
    catalog.execute("DELETE FROM db.t WHERE CAST(v AS STRING) LIKE '2%' AND upper(t.p) = 'A'")
    assert rows(catalog) == []
    catalog.execute("DELETE FROM t", database="db")
    assert rows(catalog) == []


def test_schemas_are_changed(catalog):
    catalog.execute("ALTER TABLE db.t ADD COLUMNS (w STRING COMMENT 'x' FIRST)")
    catalog.execute("ALTER TABLE db.t RENAME COLUMN v TO u")
    catalog.execute("ALTER TABLE db.t ALTER COLUMN u TYPE BIGINT")
    catalog.execute("ALTER TABLE db.t SET TBLPROPERTIES ('comment' = 'c', 'bucket' = '2')")
    catalog.execute("ALTER TABLE db.t RENAME TO db.s")
    assert rows(catalog, "db.s") == [(None, 1, 10, "a"), (None, 2, 20, "a"), (None, 3, 30, "b")]
    schema = catalog.get_table("db.s").schema
    assert (schema.comment, schema.options["bucket"]) == ("c", "2")
    assert show(catalog, "DESCRIBE db.s") == [
        ("w", "string", "x"),
        ("id", "bigint", None),
        ("u", "bigint", None),
        ("p", "string", None),
        ("# Partition Information", "", ""),
        ("# col_name", "data_type", "comment"),
        ("p", "string", None),
    ]


def test_existing_objects_are_shown(catalog):
    catalog.views.create("db.w", "SELECT 1 AS a", {"a": "INT"})
    assert show(catalog, "SHOW DATABASES") == [("db",)]
    assert show(catalog, "SHOW TABLES IN db") == [("db", "t", False)]
    assert show(catalog, "SHOW TABLES IN db LIKE 'x*|T'") == [("db", "t", False)]
    assert show(catalog, "SHOW VIEWS IN db") == [("db", "w", False)]
    assert show(catalog, "SHOW PARTITIONS db.t") == [("p=a",), ("p=b",)]
    assert show(catalog, "SHOW PARTITIONS db.t PARTITION (p = 'b')") == [("p=b",)]
    assert show(catalog, "SHOW COLUMNS FROM db.t") == [("id",), ("v",), ("p",)]
    assert ("bucket", "1") in show(catalog, "SHOW TBLPROPERTIES db.t")
    assert show(catalog, "DESCRIBE db.w") == [("a", "int", None)]


def test_shown_statement_creates_same(catalog):
    ((text,),) = show(catalog, "SHOW CREATE TABLE db.t")
    before = catalog.get_table("db.t").schema
    catalog.execute("DROP TABLE db.t")
    catalog.execute(text)
    after = catalog.get_table("db.t").schema
    assert after.fields == before.fields
    assert (after.primary_keys, after.partition_keys, after.options) == (
        before.primary_keys,
        before.partition_keys,
        before.options,
    )
    catalog.execute("CREATE TABLE db.like_t LIKE db.t TBLPROPERTIES ('bucket' = '3')")
    assert catalog.get_table("db.like_t").schema.options["bucket"] == "3"


def test_databases_are_created_and_dropped(new_catalog):
    new_catalog.execute("CREATE DATABASE IF NOT EXISTS d2")
    new_catalog.execute("CREATE DATABASE IF NOT EXISTS d2")
    new_catalog.execute("CREATE TABLE d2.t (a INT)")
    with pytest.raises(InvalidInputError):
        new_catalog.execute("DROP DATABASE d2")
    new_catalog.execute("DROP DATABASE d2 CASCADE")
    new_catalog.execute("DROP DATABASE IF EXISTS d2")
    assert new_catalog.list_databases() == ["db"]


def test_tags_branches_and_rollbacks(catalog):
    catalog.execute("ALTER TABLE db.t CREATE TAG one RETAIN 7 DAYS")
    write(catalog, [(4, 40, "b")])
    catalog.execute("CALL sys.create_tag('db.t', 'two', 2)")
    assert show(catalog, "SHOW TAGS db.t") == [("one",), ("two",)]
    catalog.execute("ALTER TABLE db.t RENAME TAG two TO deux")
    catalog.execute("ALTER TABLE db.t CREATE OR REPLACE TAG deux AS OF VERSION 1")
    assert catalog.get_table("db.t").tags.get("deux").snapshot.id == 1
    catalog.execute("CALL sys.delete_tag(table => 'db.t', tag => 'deux')")
    catalog.execute("CALL sys.create_branch('db.t', 'b1', 'one')")
    assert list(catalog.get_table("db.t").branches.list()) == ["b1"]
    catalog.execute("CALL sys.rename_branch('db.t', 'b1', 'b2')")
    catalog.execute("CALL sys.delete_branch('db.t', 'b2')")
    assert list(catalog.get_table("db.t").branches.list()) == []
    assert show(catalog, "CALL sys.rollback(table => 'db.t', tag => 'one')") == [(2, 1)]
    assert rows(catalog) == ROWS
    assert show(catalog, "SHOW TAGS db.t") == [("one",)]


def test_tables_are_maintained(catalog):
    write(catalog, [(4, 40, "b")])
    no_column = "CALL sys.compact(table => 'db.t', where => '\"p\" = \"b\"')"
    with pytest.raises(InvalidInputError, match="'p' = 'b'"):
        catalog.execute(no_column)
    compact = "CALL sys.compact(table => 'db.t', where => 'p = \"b\"')"
    assert show(catalog, compact) == [(True,)]
    table = catalog.get_table("db.t")
    assert sorted(entry.file.level > 0 for entry in table.state.live_files()) == [False, True]
    before = len(table.snapshots())
    expire = "CALL sys.expire_snapshots(table => 'db.t', retain_max => 1, retain_min => 1)"
    assert show(catalog, expire) == [(before - 1,)]
    orphans = "CALL sys.remove_orphan_files('db.t', dry_run => true)"
    assert show(catalog, orphans) == [(0, 0)]
    assert show(catalog, "CALL sys.compact_manifest('db.t')") == [(True,)]
    (done,) = catalog.execute("ANALYZE TABLE db.t COMPUTE STATISTICS").to_pylist()
    assert done["snapshot_id"] == catalog.get_table("db.t").latest_snapshot().id
    assert len(rows(catalog)) == 4


def test_consumers_are_reset(catalog):
    catalog.execute("CALL sys.reset_consumer('db.t', 'me', 1)")
    assert catalog.get_table("db.t").consumers.list() == {"me": 1}
    catalog.execute("CALL sys.clear_consumers('db.t', 'm.*')")
    assert catalog.get_table("db.t").consumers.list() == {}


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("SELECT 1", UnsupportedFeatureError, "--executor spark"),
        ("INSERT INTO db.t VALUES (1)", UnsupportedFeatureError, "--executor spark"),
        ("CREATE TABLE db.u AS SELECT 1 AS a", UnsupportedFeatureError, "--executor spark"),
        ("CALL sys.migrate_table('x')", UnsupportedFeatureError, "sys.migrate_table is not taken"),
        ("CALL sys.compact()", InvalidInputError, "needs 'table'"),
        ("CALL sys.compact('db.t', tabel => 'x')", InvalidInputError, "not 'tabel'"),
        ("CALL sys.rollback('db.t')", InvalidInputError, "one of version, snapshot and tag"),
        ("CALL sys.expire_snapshots('db.t', retain_max => 'x')", InvalidInputError, "'x'"),
        ("CALL sys.create_tag('db.t', 'x', time_retained => 'soon')", InvalidInputError, "soon"),
        ("CALL sys.compact('db.t', compact_strategy => 'most')", InvalidInputError, "'most'"),
        ("CALL sys.rollback('db.t', snapshot => 'x')", InvalidInputError, "is a number, not 'x'"),
        ("CALL sys.clear_consumers('db.t', '[')", InvalidInputError, "includingConsumers"),
        ("CALL sys.compact_database('[')", InvalidInputError, "including_databases"),
        ("DELETE FROM db.nix WHERE a = 1", NotFoundError, "nix"),
        ("DELETE FROM db.t WHERE left(p, 1) = 'A'", InvalidInputError, "not supported"),
        ("UPDATE db.t SET id = 2", InvalidInputError, "primary key"),
        ("TRUNCATE TABLE db.t PARTITION (v = 1)", InvalidInputError, "not partitioned by"),
        ("ALTER TABLE db.t ADD COLUMN v INT", InvalidInputError, "'v'"),
    ],
)
def test_refused_statement_changes_nothing(catalog, statement, error, message):
    with pytest.raises(error, match=message):
        catalog.execute(statement)
    table = catalog.get_table("db.t")
    assert (table.latest_snapshot().id, table.schema.id, table.tags.list()) == (1, 0, [])
    assert catalog.list_tables("db") == ["t"]


def test_cleaning_dry_run_deletes_and_asks_nothing():
    def loss(arguments):
        return loss_of(parse_sql(f"CALL sys.remove_orphan_files({arguments})", Names()))

    named, upper = "table => 'db.t', dry_run => true", "DRY_RUN=>'TRUE', table=>'t'"
    for dry in (named, upper, "'db.t', '', true"):
        assert loss(dry) is None
    for real in ("table => 'db.t'", "'db.t', '', false", "table => 'db.t', dry_run => false"):
        assert "deletes" in loss(real)


@pytest.mark.parametrize("executor", [None, "command"])
def test_buckets_are_rescaled_by_call_and_command(tmp_path, invoke, executor):
    catalog = tables.new_catalog_in(tmp_path / "w")
    catalog.execute(CREATE)
    write(catalog, [*ROWS, *((number, 1, "b") for number in range(10, 40))])

    def counts():
        table = catalog.get_table("db.t")
        found = table.state.live_files()
        return {(table.state.partition_text(e.partition)["p"], e.total_buckets) for e in found}

    before = rows(catalog)
    if executor is None:
        catalog.execute("CALL sys.rescale('db.t', 3, 'p=a')")
        assert counts() == {("a", 3), ("b", 1)}
        named = "table => 'db.t', bucket_num => 4, partitions => 'p=a;p=b'"
        catalog.execute(f"CALL sys.rescale({named})")
    else:
        assert "snapshot 2" in invoke("rescale", "db.t", "--buckets", "3", "--partition", "p=a")
        assert counts() == {("a", 3), ("b", 1)}
        invoke("rescale", "db.t", "--buckets", "4")
        assert "nothing to rescale" in invoke("rescale", "db.t", "--buckets", "4")
    assert counts() == {("a", 4), ("b", 4)}
    assert rows(catalog) == before
    with pytest.raises(InvalidInputError, match="not partitioned by column 'x'"):
        catalog.execute("CALL sys.rescale('db.t', 2, 'x=1')")
