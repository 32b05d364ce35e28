"""Refusals of statements, each with its way out taken."""

from tests.testkit.tables import write
from tests.testkit.ways import Place, take, ways


def run(*statements):
    """Return a call that runs statements, or a query, in a warehouse with a table `db.t`."""

    def call(at):
        table = at.table({"k": "INT", "v": "STRING", "d": "DATE"})
        if table.latest_snapshot() is None:
            write(table, (1, "x", None))
        for text in statements:
            is_query = text.startswith("SELECT")
            at.catalog.sql(text).to_arrow() if is_query else at.catalog.execute(text)

    return call


WAYS = [
    ("expression", "use columns, literals, + - * /",
     run("UPDATE db.t SET k = abs(k)"), run("UPDATE db.t SET k = 0 - k")),
    ("name", "write database.table", run("DROP TABLE x.y.db.t"), run("DROP TABLE db.t")),
    ("procedure", "takes one of version, snapshot and tag",
     run("CALL sys.rollback(table => 'db.t')"),
     run("CALL sys.rollback(table => 'db.t', snapshot => 1)")),
    ("procedure", "it takes", run("CALL sys.create_tag(table => 'db.t')"),
     run("CALL sys.create_tag(table => 'db.t', tag => 'a')")),
    ("procedure", "each once; not 'tg'", run("CALL sys.create_tag(table => 'db.t', tg => 'a')"),
     run("CALL sys.create_tag(table => 'db.t', tag => 'a')")),
    ("procedure", "is a number, not",
     run("CALL sys.create_tag(table => 'db.t', tag => 'a', snapshot => 'x')"),
     run("CALL sys.create_tag(table => 'db.t', tag => 'a', snapshot => 1)")),
    ("procedure", "is not KEY=VALUE",
     run("CALL sys.compact(table => 'db.t', options => 'x')"),
     run("CALL sys.compact(table => 'db.t', options => 'compaction.min.file-num=2')")),
    ("procedure-unsupported", "there are", run("CALL sys.compct(table => 'db.t')"),
     run("CALL sys.compact(table => 'db.t')")),
    ("query", "Name tables as database.table", run("SELECT * FROM t"), run("SELECT * FROM db.t")),
    ("query", "one SELECT, VALUES or WITH", run("SELECT 1; SELECT 2"), run("SELECT 1")),
    ("query", "write TIMESTAMP AS OF '2024-01-31 12:00:00'",
     run("SELECT * FROM db.t TIMESTAMP AS OF now()"),
     run("SELECT * FROM db.t TIMESTAMP AS OF '2999-01-31 12:00:00'")),
    ("statement-unsupported", "drop and create the table",
     run("CREATE OR REPLACE TABLE db.t (k INT)"),
     run("DROP TABLE db.t", "CREATE TABLE db.t (k INT)")),
    ("where", "a DELETE or UPDATE of all rows has no WHERE",
     run("DELETE FROM db.t WHERE true"), run("DELETE FROM db.t")),
]  # fmt: skip


@ways(WAYS)
def test_way_out_of_statement_refusal_works(way, tmp_path):
    take(way, Place(tmp_path))
