"""Refusals of declarations, writes and reads, each with its way out taken."""

import datetime as dt
import json
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa

from paimon_assets import EmbeddedExecutor, Schema, add_column, update_column_default_value
from paimon_assets.engine.spec.predicate.predicate import Like
from paimon_assets.engine.table.upkeep.compaction import bucket_numbers
from tests.testkit.tables import compact, read, write
from tests.testkit.ways import Place, take, ways

NUMBERS = {"k": "INT", "n": "INT"}
DAYS = {"partition_keys": ["d"]}
ONE = pa.table({"k": pa.array([1], pa.int32()), "n": pa.array([2], pa.int32())})


def keyed_table(at, *rows, columns=NUMBERS, name="db.t", **options):
    """Return a table with a key and one bucket."""
    declared = {"bucket": "1", **options}
    return at.table(columns, *rows, name=name, primary_keys=["k"], options=declared)


def merge_kinds(at, engine, **more):
    """Write a row, then its retraction, to a table of a merge engine."""
    options = {"merge-engine": engine, "rowkind.field": "rk", **more}
    columns = {"k": "INT", "n": "INT", "rk": "STRING"}
    table = keyed_table(at, columns=columns, name=f"db.t{len(more)}", **options)
    write(table, (1, 10, "+I"))
    write(table, (1, 0, "-U"))
    compact(table)
    return read(table)


def create(at, schema, name="db.t", **declared):
    return at.catalog.create_table(name, Schema.of(schema, **declared))


def arrow_table(columns):
    return lambda at: at.catalog.create_table("db.t", pa.schema(columns))


def append(rows, columns=NUMBERS, name="db.t", **options):
    return lambda at: at.table(columns, name=name, options=options).append(rows)


def scan(**how):
    return lambda at: at.table(NUMBERS, (1, 2)).scan(**how).to_arrow()


def builder(at, *rows, **declared):
    return at.table(NUMBERS, *rows, **declared).new_read_builder()


def with_default(at):
    """Return a table that another engine gave a default value."""
    table = at.table(NUMBERS)
    path = Path(table.path, "schema", "schema-0")
    stored = json.loads(path.read_text())
    stored["fields"][1]["defaultValue"] = "x"
    path.write_text(json.dumps(stored))
    table.refresh().append(ONE)


def set_default(text):
    return lambda at: at.table(NUMBERS).alter([update_column_default_value("n", text)]).append(ONE)


def two_structs(name):
    fields = [pa.field("x", pa.int32()), pa.field(name, pa.int32())]
    return arrow_table({"a": pa.struct(fields)})


def rolled_back(at):
    table = at.table(NUMBERS, (1, 1))
    write(table, (2, 2))
    table.consumers.reset("c", 3)
    table.rollback_to(1)
    return builder(at).with_consumer("c").plan()


def foreign_database(at):
    at.table()
    at.catalog.drop_table("db.t")
    (at.path / "w" / "db.db" / "notes").mkdir()
    at.catalog.drop_database("db")


def frames(*frames_):
    return lambda at: at.table(NUMBERS).append(iter(frames_))


def day_table(at, name="db.p", **declared):
    return at.table({"k": "INT", "d": "STRING"}, name=name, **{**DAYS, **declared})


MAXIMUM = {"fields.n.aggregate-function": "max"}
PRODUCT = {"fields.n.aggregate-function": "product"}
IGNORE = {"fields.n.ignore-retract": "true"}
REMOVE = {"partial-update.remove-record-on-delete": "true"}
PANDAS = pd.DataFrame({"k": [1], "n": [2]})

WAYS = [
    ("aggregate-division", "Set 'fields.n.ignore-retract' to true",
     lambda at: merge_kinds(at, "aggregation", **PRODUCT),
     lambda at: merge_kinds(at, "aggregation", **PRODUCT, **IGNORE)),
    ("retraction", "Set 'ignore-delete' to true to skip them",
     lambda at: merge_kinds(at, "first-row"),
     lambda at: merge_kinds(at, "first-row", **{"ignore-delete": "true"})),
    ("retraction", "'partial-update.remove-record-on-delete' to true to remove rows",
     lambda at: merge_kinds(at, "partial-update"),
     lambda at: merge_kinds(at, "partial-update", **REMOVE)),
    ("retraction", "Set 'fields.n.ignore-retract' to true",
     lambda at: merge_kinds(at, "aggregation", **MAXIMUM),
     lambda at: merge_kinds(at, "aggregation", **MAXIMUM, **IGNORE)),
    ("arrow-type", "cast the column first",
     arrow_table({"a": pa.duration("s")}), arrow_table({"a": pa.int64()})),
    ("arrow-type", "rename one of them", two_structs("x"), two_structs("y")),
    ("branch-empty", "Write to it, or delete it",
     lambda at: (at.table().branches.create("b"), at.table().branches.fast_forward("b")),
     lambda at: (write(at.table().at_branch("b"), (1, "a")),
                 at.table().branches.fast_forward("b"))),
    ("branch-empty", "or delete it",
     lambda at: (at.table().branches.create("b"), at.table().branches.fast_forward("b")),
     lambda at: at.table().branches.delete("b")),
    ("buckets", "write numbers and ranges, such as 0-99, 205",
     lambda _: bucket_numbers("a-b"), lambda _: bucket_numbers("0-99, 205")),
    ("cluster-order", "name 1 to 16 different columns to sort by",
     lambda at: compact(at.table(NUMBERS, (1, 1)), "sort"),
     lambda at: at.table().new_compaction_builder().with_order(["k"], "order").run(
         EmbeddedExecutor(1))),
    ("column-exists", "choose another name",
     lambda at: at.table(NUMBERS).alter([add_column("n", "INT")]),
     lambda at: at.table().alter([add_column("m", "INT")])),
    ("consumer-ahead", "Reset the consumer", rolled_back,
     lambda at: (at.table().consumers.reset("c", 2), builder(at).with_consumer("c").plan())),
    ("database-not-empty", "or drop the database with cascade", foreign_database,
     lambda at: at.catalog.drop_database("db", cascade=True)),
    ("default-value", "Change or drop the default", with_default, set_default("7")),
    ("default-value", "Change or drop the default", with_default, set_default(None)),
    ("frame-columns", "give every frame the same columns",
     frames(ONE, ONE.select(["k"])), frames(ONE, ONE)),
    ("frame-columns", "drop or rename them",
     append(pd.DataFrame([[1, 2]], columns=["1", 1]), {"1": "INT"}),
     append(pd.DataFrame([[1]], columns=[1]), {"1": "INT"})),
    ("frame-columns", "drop or rename one of them",
     append(PANDAS.set_index("k", drop=False)), append(PANDAS.set_index("k"))),
    ("frame-columns", "rename it",
     append(PANDAS.rename(columns={"n": "\ud800"})), append(PANDAS)),
    ("frame-type", "holds dicts, column → value",
     append([(1, 2)]), append([{"k": 1, "n": 2}])),
    ("frame-type", "expected a pyarrow Table", append(7), append(ONE)),
    ("frame-values", "cast it first",
     append(pl.DataFrame({"k": [object()], "n": [1]})),
     append(pl.DataFrame({"k": [1], "n": [1]}))),
    ("input-columns", "drop or rename one of them",
     lambda at: at.catalog.create_table("db.t", pa.schema([("k", pa.int8()), ("k", pa.int8())])),
     lambda at: at.catalog.create_table("db.t", pa.schema([("k", pa.int8()), ("j", pa.int8())]))),
    ("literal", "LIKE takes texts only",
     scan(where="k LIKE '1%'"), scan(where="CAST(k AS STRING) LIKE '1%'")),
    ("merge-duplicates", "Keep one of each",
     lambda at: keyed_table(at, (1, 2)).new_row_change_builder().merge(
         pa.concat_tables([ONE, ONE]), on=["k"]),
     lambda at: keyed_table(at).new_row_change_builder().merge(ONE, on=["k"])),
    ("name", "write database.table",
     lambda at: at.catalog.get_table("t"), lambda at: (at.table(), at.catalog.get_table("db.t"))),
    ("option-value", "expected none, counts, full or truncate(n)",
     append(ONE, name="db.a", **{"metadata.stats-mode": "some"}),
     append(ONE, name="db.b", **{"metadata.stats-mode": "truncate(4)"})),
    ("option-value", "give a text, a number or a truth value",
     lambda at: create(at, NUMBERS, options={"bucket": None}),
     lambda at: create(at, NUMBERS, options={"bucket": 1, "bucket-key": "k"})),
    ("overwrite-partition", "Leave these rows out, or overwrite dynamically",
     lambda at: day_table(at).overwrite([{"k": 1, "d": "b"}], {"d": "a"}),
     lambda at: write(day_table(at).new_write_builder().with_dynamic_overwrite(), (1, "b"))),
    ("partition-spec", "to empty it, truncate it",
     lambda at: day_table(at).drop_partitions([]), lambda at: day_table(at).truncate()),
    ("partition-spec", "its partition keys: d",
     lambda at: day_table(at).drop_partitions([{"k": "1"}]),
     lambda at: (write(day_table(at), (1, "a")),
                 day_table(at).drop_partitions([{"d": "a"}]))),
    ("partition-value", "Shorten the value, or partition by another column",
     lambda at: write(day_table(at), (1, "x" * 300)),
     lambda at: write(day_table(at), (1, "x" * 30))),
    ("primary-key", "Use upsert",
     lambda at: keyed_table(at).append(ONE), lambda at: keyed_table(at).upsert(ONE)),
    ("primary-key", "upsert(rows, on=['id'])",
     lambda at: at.table(NUMBERS).upsert(ONE), lambda at: at.table().upsert(ONE, on=["k"])),
    ("rollback-schema", "Roll the table back to an earlier snapshot first",
     lambda at: (at.table(NUMBERS, (1, 1)).alter([add_column("m", "INT")]),
                 write(at.table(), (1, 1, 1)), at.table().rollback_schema(0)),
     lambda at: (at.table().rollback_to(1), at.table().rollback_schema(0))),
    ("row-kind", "Set 'ignore-delete' to drop them",
     append(pa.table({"k": [1], "rk": ["-D"]}), {"k": "INT", "rk": "STRING"}, "db.a",
              **{"rowkind.field": "rk"}),
     append(pa.table({"k": [1], "rk": ["-D"]}), {"k": "INT", "rk": "STRING"}, "db.b",
              **{"rowkind.field": "rk", "ignore-delete": "true"})),
    ("row-kind", "expected one of +I, -U, +U, -D",
     lambda at: write(keyed_table(at, columns={"k": "INT", "rk": "STRING"},
                            **{"rowkind.field": "rk"}), (1, "x")),
     lambda at: write(keyed_table(at), (1, "+I"))),
    ("row-kind", "expected one of +I, -U, +U, -D",
     lambda at: write(keyed_table(at, columns={"k": "INT", "rk": "STRING"},
                            **{"rowkind.field": "rk"}), (1, None)),
     lambda at: write(keyed_table(at), (1, "-D"))),
    ("row-update", "Delete the rows and write them again",
     lambda at: keyed_table(at, (1, 2), **{"merge-engine": "partial-update", **REMOVE})
     .new_row_change_builder().update({"n": None}, "k = 1"),
     lambda at: (keyed_table(at).delete("k = 1"), keyed_table(at).upsert(pa.table(
         {"k": pa.array([1], pa.int32()), "n": pa.nulls(1, pa.int32())})))),
    ("rows-wait", "Compact the table first",
     lambda at: keyed_table(at, (1, 2), bucket="-2", **{
         "postpone.batch-write-fixed-bucket": "false"}).delete("k = 1"),
     lambda at: (compact(keyed_table(at)), keyed_table(at).delete("k = 1"))),
    ("schema", "A schema is made of a mapping, such as {'id': 'BIGINT'",
     lambda at: at.catalog.create_table("db.t", [("id", "BIGINT")]),
     lambda at: at.catalog.create_table("db.t", {"id": "BIGINT"})),
    ("snapshot-not-found", "there are", lambda at: builder(at, (1, 1)).at_snapshot(7).plan(),
     lambda at: builder(at).at_snapshot(1).plan()),
    ("system-database", "use another name",
     lambda at: at.catalog.create_database("sys"), lambda at: at.catalog.create_database("sys2")),
    ("system-table", "open it by get_system_table",
     lambda at: (at.table(), at.catalog.get_table("db.t$files")),
     lambda at: at.catalog.get_system_table("db.t$files").to_arrow()),
    ("system-table-not-found", "there are",
     lambda at: at.table().system_table("file"), lambda at: at.table().system_table("files")),
    ("tag-not-found", "is called so", lambda at: builder(at, (1, 1)).at_version("x").plan(),
     lambda at: builder(at).at_version("1").plan()),
    ("tag-time", "give a time above zero",
     lambda at: at.table(NUMBERS, (1, 1)).tags.create("a", time_retained=dt.timedelta(0)),
     lambda at: at.table().tags.create("a", time_retained=dt.timedelta(days=1))),
    ("time-travel", "leave out one of both",
     lambda at: builder(at, (1, 1), (2, 2)).between(0, 1).read_optimized().plan(),
     lambda at: (builder(at).between(0, 1).plan(), builder(at).read_optimized().plan())),
    ("unsupported-scan-mode", "Name a snapshot, a tag or a time",
     lambda at: builder(at, (1, 1)).with_options({"scan.creation-time-millis": "1"}).plan(),
     lambda at: builder(at).with_options({"scan.snapshot-id": "1"}).plan()),
    ("update-column", "needs a column to set",
     lambda at: keyed_table(at, (1, 2)).new_row_change_builder().update({}, None),
     lambda at: keyed_table(at).new_row_change_builder().update({"n": 3}, None)),
    ("update-column", "delete the rows and write them again",
     lambda at: keyed_table(at, (1, 2)).new_row_change_builder().update({"k": 2}, None),
     lambda at: (keyed_table(at).delete("k = 1"), write(keyed_table(at), (2, 2)))),
    ("where", "write two of them for one",
     lambda at: at.table().to_arrow(where=Like("v", r"a\b")),
     lambda at: at.table().to_arrow(where=Like("v", r"a\\b"))),
    ("where", "use comparisons of a column with a literal",
     scan(where="k IN (SELECT 1)"), scan(where="k IN (1, 2)")),
    ("where", "Give a text such as",
     scan(where=7), scan(where="k > 3 AND n IN (1)")),
]  # fmt: skip


@ways(WAYS)
def test_way_out_of_refusal_works(way, tmp_path):
    take(way, Place(tmp_path))
