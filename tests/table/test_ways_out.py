"""Refusals of tables, their rows, files and histories, each with its way out taken."""

import datetime as dt
import json
import sys
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from paimon_assets import (
    EmbeddedExecutor,
    Schema,
    add_column,
    open_catalog,
    open_table,
    set_option,
    update_column_default_value,
    update_column_type,
)
from paimon_assets.engine.contract.wire import dump_split
from paimon_assets.engine.control.rest import http_client
from paimon_assets.engine.executors import new_executor, spark_module
from paimon_assets.engine.spec.predicate.predicate import Like
from paimon_assets.engine.table.upkeep.compaction import bucket_numbers
from paimon_assets.erasure import erase
from tests.testkit.evolving import EVOLVING
from tests.testkit.foreign import add_segment, rows
from tests.testkit.foreign import write as write_file
from tests.testkit.retyped_keys import retype, write_on
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
    """Write to a table that another engine gave a default value."""
    default = {"defaultValue": "x"}
    store_schema(at.table(NUMBERS), lambda stored: stored["fields"][1].update(default)).append(ONE)


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


S3 = {"s3.access-key": "a", "s3.secret-key": "b"}


def split_bytes(at, **how):
    """Return the plan of a table with a row as bytes."""
    return at.table(NUMBERS, (1, 2)).new_read_builder().plan().to_bytes(**how)


def text_plan(at):
    return segment(at, "a.csv").new_read_builder().plan()


def segment(at, name):
    """Return a table with a segment of one file."""
    table = at.table({"a": "INT", "b": "STRING"})
    if not table.segments().listed():
        file = write_file(at.path / "in" / name, rows((1, "x")))
        add_segment(table, file.parent, file.suffix[1:])
    return table.refresh()


def changes(at, mode, *, kinds=False):
    """Read the changes of a table whose files were compacted in between."""
    table = at.table(NUMBERS)
    if table.latest_snapshot() is None:
        write(table, (1, 1))
        write(table, (2, 2))
        compact(table)
    builder = table.refresh().new_read_builder().between(1, 3, mode=mode)
    return read(builder.with_row_kinds() if kinds else builder)


def rescale(at, mode):
    table = keyed_table(at, (1, 1))
    if table.latest_snapshot().id == 1:
        table.alter([set_option("bucket", "2")])
        table.refresh().rescale(EmbeddedExecutor(1), buckets=2)
    return read(keyed_table(at).new_read_builder().between(1, 2, mode=mode))


def column_update(make):
    def call(at):
        table = at.table({**NUMBERS, "s": "INT"}, (1, 2, 3), options=EVOLVING)
        return table.new_column_write_builder(["s"], reads=["k"]).write(make)

    return call


def replace_rows(at, name="db.t", **options):
    table = at.table(NUMBERS, (1, 1), name=name, options=options)
    if table.latest_snapshot().id == 1:
        read(table.new_read_builder().with_consumer("c"))
        table.consumers.reset("c", 2)
        table.overwrite(ONE)
    return table.refresh()


def consume(at, *, kinds=False, **options):
    builder = replace_rows(at).copy(options).new_read_builder().with_consumer("c")
    return read(builder.with_row_kinds() if kinds else builder)


def expire(at):
    table = at.table(NUMBERS, (1, 1), options={"snapshot.num-retained.min": "1",
                                               "snapshot.num-retained.max": "1"})  # fmt: skip
    if table.latest_snapshot().id == 1:
        write(table, (2, 2))
        write(table, (3, 3))
        at.catalog.execute("CALL sys.expire_snapshots(table => 'db.t', retain_max => 1)")
    return table.refresh()


def before_ids(at):
    table = at.table(NUMBERS, (1, 1))
    if table.schema.id == 0:
        table.enable_row_ids()
        write(table.refresh(), (2, 2))
    return table.refresh()


def foreign_in_folder(at):
    path = Path(at.table().path)
    (path / "notes.txt").write_text("mine")
    at.catalog.drop_table("db.t")


def link_in_place(at):
    table = Path(at.table().path)
    table.rename(at.path / "elsewhere")
    table.symlink_to(at.path / "elsewhere")
    at.catalog.drop_table("db.t")


def remove_link(at):
    (at.path / "w" / "db.db" / "t").unlink()
    at.catalog.create_table("db.t", NUMBERS)


def highest(at):
    return Path(at.table(NUMBERS, (1, 1)).path, "schema", f"schema-{2**63 - 1}")


def change_highest(at):
    """Change a table whose newest schema has the highest number."""
    path = highest(at)
    document = json.loads((path.parent / "schema-0").read_text())
    path.write_text(json.dumps({**document, "id": 2**63 - 1}))
    at.table().alter([add_column("m", "INT")])


def lose(at, *, narrow=True):
    table = at.table({"k": "INT", "n": "BIGINT"})
    if table.latest_snapshot() is None:
        write(table, (1, 2**40))
    return table.alter_checked([update_column_type("n", "INT")])


def external_split(at):
    return segment(at, "1.parquet").new_read_builder().plan().splits[0]


def damage_index(at, **options):
    indexed = {"file-index.bloom-filter.columns": "k", "file-index.in-manifest-threshold": "1 b"}
    table = at.table(NUMBERS, (1, 2), options=indexed)
    for path in Path(table.path).glob("bucket-0/*.index"):
        path.write_bytes(b"x" * path.stat().st_size)
    return table.copy(options).to_arrow(where="k = 1")


def expire_days(formatter):
    text = formatter.replace("'", "''")
    return lambda at: (
        at.table({"k": "INT", "d": "STRING"}, (1, "2024-01-01T"), partition_keys=["d"]),
        at.catalog.execute(
            "CALL sys.expire_partitions(table => 'db.t', expiration_time => '1 d',"
            f" timestamp_formatter => '{text}')"
        ),
    )


def without(package, call):
    """Return a call while a package cannot be imported."""

    def call_without(at):
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            return call(at)

    return call_without


def frame_of(at):
    return at.table(NUMBERS, (1, 2)).new_read_builder().to_polars()


def store_schema(table, change):
    """Change the first schema as another engine would have written it."""
    path = Path(table.path, "schema", "schema-0")
    stored = json.loads(path.read_text())
    change(stored)
    path.write_text(json.dumps(stored))
    return table.refresh()


def iceberg(storage):
    def call(at):
        kept = {"metadata.iceberg.storage": "hive-catalog"}
        table = store_schema(at.table(NUMBERS), lambda stored: stored["options"].update(kept))
        if storage:
            table = table.alter([set_option("metadata.iceberg.storage", storage)])
        table.append(ONE)

    return call


def variant_table(at):
    """Return a table whose file stores parts of a VARIANT column as columns."""
    parts = "ROW<metadata BYTES, value BYTES, typed_value BIGINT>"
    row = (1, {"metadata": b"\x01\x00\x00", "value": b"\x00", "typed_value": 7})
    table = at.table({"k": "INT", "v": parts}, row)
    return store_schema(table, lambda stored: stored["fields"][1].update(type="VARIANT"))


def map_rows(rows):
    return lambda at: EmbeddedExecutor(1).map_rows(
        at.table(NUMBERS).new_write_builder().prepare(), rows
    )


def key_type_again(at):
    """Return a table whose key has a type again that it had before."""
    table = keyed_table(at, (1, 1))
    if table.schema.id == 0:
        retype(table.refresh(), "k", "BIGINT NOT NULL")
        write_on(table.refresh(), pa.table({"k": [1], "n": pa.array([2], pa.int32())}))
        retype(table.refresh(), "k", "INT NOT NULL")
    return table.refresh()


def orc_times(file_format):
    far = pa.table({"t": pa.array([-1], pa.timestamp("us"))})
    return lambda at: at.table({"t": "TIMESTAMP(6)"}, name=f"db.{file_format}",
                               options={"file.format": file_format}).append(far)  # fmt: skip


def lost_file(at, *, again=False):
    """Read a plan whose file went with its snapshot."""
    table = at.table(NUMBERS, (1, 1), options={"snapshot.num-retained.min": "1"})
    builder = table.new_read_builder()
    plan = builder.plan()
    if not again:
        table.overwrite(ONE)
        at.catalog.execute("CALL sys.expire_snapshots(table => 'db.t', retain_max => 1)")
    return list(EmbeddedExecutor(1).map_splits(plan.context, plan.splits))


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
    ("column-rows", "Return one for each, in their order",
     column_update(lambda part: pa.table({"s": pa.nulls(0, pa.int32())})),
     column_update(lambda part: pa.table({"s": part["k"]}))),
    ("consumer-overwrite", "Read row kinds (`with_row_kinds`", consume,
     lambda at: consume(at, kinds=True)),
    ("consumer-overwrite", "'streaming-read-overwrite' to false", consume,
     lambda at: consume(at, **{"streaming-read-overwrite": "false"})),
    ("consumer-overwrite", "or delete the consumer", consume,
     lambda at: (at.table().consumers.delete("c"), consume(at))),
    ("dataset", "use its scanner",
     lambda at: at.table(NUMBERS, (1, 2)).scan().to_dataset().sort_by("k"),
     lambda at: at.table().scan().to_dataset().scanner().to_table().sort_by("k")),
    ("delete-retention", "Leave it out, or set it to 0",
     lambda at: at.table(NUMBERS, options={"sequence.delete-retention": "1 d"}),
     lambda at: at.table(NUMBERS, options={"sequence.delete-retention": "0 s"})),
    ("file-index", "'file-index.read.enabled' to false",
     damage_index, lambda at: damage_index(at, **{"file-index.read.enabled": "false"})),
    ("foreign-files", "Move them first", foreign_in_folder,
     lambda at: (Path(at.table().path, "notes.txt").rename(at.path / "notes.txt"),
                 at.catalog.drop_table("db.t"))),
    ("foreign-files", "drop the table with cascade", foreign_in_folder,
     lambda at: at.catalog.drop_table("db.t", cascade=True)),
    ("folder-link", "remove the link by hand", link_in_place,
     remove_link),
    ("incremental-rewritten", "Keep row kinds",
     lambda at: changes(at, "diff"), lambda at: changes(at, "diff", kinds=True)),
    ("incremental-rewritten", "'incremental-between-scan-mode' to delta",
     lambda at: changes(at, "diff"), lambda at: changes(at, "delta")),
    ("incremental-rescaled", "or the changes by another 'incremental-between-scan-mode'",
     lambda at: rescale(at, "diff"), lambda at: rescale(at, "delta")),
    ("incremental-rescaled", "Read both states",
     lambda at: rescale(at, "diff"),
     lambda at: [read(keyed_table(at).new_read_builder().at_snapshot(number))
                 for number in (1, 2)]),
    ("partition-time", "and quotes around other letters",
     expire_days("yyyy-QQ"), expire_days("yyyy-MM-dd'T'")),
    ("path", "write file:///absolute/path",
     lambda at: open_table(f"file://host{at.table().path}"),
     lambda at: open_table(f"file://{at.table().path}")),
    ("path", "give it by options such as 's3.access-key'",
     lambda at: open_catalog("s3://key:secret@bucket/w"),
     lambda at: open_catalog("s3://bucket/w", {"s3.access-key": "a", "s3.secret-key": "b"})),
    ("rollback-row-ids", "Make a branch of it",
     lambda at: before_ids(at).rollback_to(1),
     lambda at: (before_ids(at).branches.create("b", snapshot_id=1),
                 read(before_ids(at).at_branch("b")))),
    ("schema-overflow", "Choose a type that holds the values", lose,
     lambda at: at.table().alter_checked([update_column_type("n", "DECIMAL(20, 0)")])),
    ("schema-overflow", "mend them", lose,
     lambda at: (at.table().new_row_change_builder().update({"n": 3}, "k = 1"), lose(at))),
    ("snapshot-expired", "Start there",
     lambda at: read(expire(at).new_read_builder().between(1, 3)),
     lambda at: read(expire(at).new_read_builder().between(
         expire(at).snapshots()[0].id, 3))),
    ("split-empty", "Do not send a plan without splits",
     lambda at: at.table(NUMBERS).new_read_builder().plan_from(b""),
     lambda at: (write(at.table(), (1, 2)),
                 at.table().new_read_builder().plan_from(split_bytes(at)))),
    ("split-table", "Read it with the table it was planned for",
     lambda at: at.table(NUMBERS, name="db.u").new_read_builder().plan_from(split_bytes(at)),
     lambda at: at.table().new_read_builder().plan_from(split_bytes(at))),
    ("split-text", "`to_bytes(for_java=False)`",
     lambda at: text_plan(at).to_bytes(), lambda at: text_plan(at).to_bytes(for_java=False)),
    ("split-text", "or write the rows to the table", lambda at: text_plan(at).to_bytes(),
     lambda at: (at.table().segments().delete([0]), write(at.table(), (1, "x")),
                 at.table().new_read_builder().plan().to_bytes())),
    ("split-version", "Write a newer version of the split",
     lambda at: dump_split(external_split(at), 2), lambda at: dump_split(external_split(at), 8)),
    ("input-columns", "drop or rename them",
     lambda at: at.table(NUMBERS).append(pa.Table.from_arrays([ONE["k"]] * 2, ["k", "k"])),
     lambda at: at.table().append(ONE)),
    ("partition-value", "'partition.legacy-name' = true; set it to false",
     lambda at: write(at.table({"k": "INT", "d": "BYTES"}, **DAYS), (1, b"a")),
     lambda at: write(at.table().alter([set_option("partition.legacy-name", "false")]),
                      (1, b"a"))),
    ("path", "give the folder of the warehouse",
     lambda _: open_catalog(" "), lambda at: open_catalog(str(at.path))),
    ("path", "shorten it", lambda at: open_table(f"{at.path}/{'x' * 300}"),
     lambda at: open_table(at.table().path)),
    ("table-not-found", "`list_tables` and `paimon-assets ls` show the names",
     lambda at: (at.table(), at.catalog.health("x.*")),
     lambda at: at.catalog.health(*(f"db.{name}" for name in at.catalog.list_tables("db")))),
    ("half-character", "Correct it", lambda at: create(at, NUMBERS, comment="\ud800"),
     lambda at: create(at, NUMBERS, comment="x")),
    ("erase-data-evolution", "Write the rows that stay to a new table",
     lambda at: erase(at.table(NUMBERS, (1, 1), (2, 2), options=EVOLVING), "k = 1"),
     lambda at: (at.table(NUMBERS, name="db.u").append(at.table().to_arrow(where="k <> 1")),
                 at.catalog.drop_table("db.t"))),
    ("number-highest", "If no writer made that file, delete it",
     change_highest,
     lambda at: (highest(at).unlink(missing_ok=False), at.table().alter([add_column("m", "INT")]))),
    ("number-highest", "else copy the table",
     change_highest,
     lambda at: at.table(NUMBERS, name="db.u").append(at.table().to_arrow())),
    ("library-missing", "install paimon-assets[polars]", without("polars", frame_of), frame_of),
    ("spark-missing", "or choose the executor 'embedded'",
     without("pyspark.none", lambda _: spark_module("pyspark.none")),
     lambda _: new_executor("embedded", list)),
    ("rest-package", "pip install 'paimon-assets[rest]'",
     without("requests", lambda _: http_client._session(-1)),
     lambda _: http_client._session(-1)),
    ("storage-scheme", "Correct the path",
     lambda _: open_catalog("nosuch://w").list_databases(),
     lambda at: open_catalog(f"file://{at.path}").list_databases()),
    ("storage-endpoint", "write it like http://host:9000",
     lambda _: open_catalog("s3://b/w", {**S3, "s3.endpoint": "ftp://host"}).list_databases(),
     lambda _: open_catalog("s3://b/w", {**S3, "s3.endpoint": "http://host:9000"})),
    ("catalog-lock", "Without the option",
     lambda at: open_catalog(str(at.path), {"lock.enabled": "true"}).list_databases(),
     lambda at: open_catalog(str(at.path)).list_databases()),
    ("input-rows", "make one by pyarrow.table(…)", map_rows([{"k": 1}]), map_rows(ONE)),
    ("unsupported-iceberg-catalog", "or set table-location",
     iceberg(None), iceberg("table-location")),
    ("variant-shredded", "Leave the column out",
     lambda at: read(variant_table(at)), lambda at: read(variant_table(at), ["k"])),
    ("key-type-change", "Overwrite the table", lambda at: read(key_type_again(at)),
     lambda at: (key_type_again(at).overwrite(ONE), read(key_type_again(at)))),
    ("orc-timestamp", "' to parquet", orc_times("orc"), orc_times("parquet")),
    ("file-not-found", "Plan the read again", lost_file, lambda at: lost_file(at, again=True)),
]  # fmt: skip


@ways(WAYS)
def test_way_out_of_refusal_works(way, tmp_path):
    take(way, Place(tmp_path))
