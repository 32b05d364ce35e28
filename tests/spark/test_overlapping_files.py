"""Overlapping files of key tables as Spark's own reader reads them, beside the engine's merge."""

from random import Random

import pytest

from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.spec.evolution.schema_change import RenameColumn
from tests.testkit.retyped_keys import retype, write_on
from tests.testkit.rows import plain_rows
from tests.testkit.spark_settings import session_with
from tests.testkit.tables import arrow, compact, new_table, read, write

native_scans = pytest.importorskip("paimon_assets.spark.shortcuts.native_read.scans")
pushdown = pytest.importorskip("paimon_assets.sql.spark.pushdown")
sql = pytest.importorskip("paimon_assets.sql.spark.spark_sql")
executor_module = pytest.importorskip("paimon_assets.spark.executor")

COLUMNS = {"id": "BIGINT", "part": "STRING", "value": "INT"}
ROWS = [{"id": n, "part": "ab"[n % 2], "value": n or None} for n in range(9)]
OVERLAPPING: tuple[dict[str, str], ...] = (
    {},
    {"sequence.field": "value"},
    {"ignore-delete": "true"},
    {"bucket": "-1"},
    {"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"},
    {"snapshot.time-retained": "1 h", "file.compression": "snappy", "bucket": "3"},
)


@pytest.mark.spark
@pytest.mark.parametrize("keys", [["id"], ["part", "id"]])
def test_spark_merges_overlapping_files_as_engine(spark, new_catalog, keys):
    draw = Random(54)  # noqa: S311
    for number, options in enumerate(OVERLAPPING):
        declared = {"bucket": "2", "rowkind.field": "op", "read.batch-size": "5", **options}
        table = new_table(
            new_catalog,
            {**COLUMNS, "op": "STRING"},
            name=f"db.t{number}",
            primary_keys=keys,
            partition_keys=keys[:-1],
            options=declared,
        )
        for commit in range(draw.randint(2, 5)):
            ids = draw.sample(range(200), 70)
            ops = [draw.choice(["+I", "+U", "+I", "-D"]) for _ in ids]
            rows = zip(ids, ops, strict=True)
            write(
                table,
                *(
                    {"id": n, "part": "ab"[n % 2], "value": draw.choice([None, 1, 2]), "op": op}
                    for n, op in rows
                ),
            )
            if commit == 1 and draw.random() < 0.5:
                compact(table)
            if commit == 2:
                table = table.alter([RenameColumn(field_names=("value",), new_name="renamed")])
                table = table.alter([RenameColumn(field_names=("renamed",), new_name="value")])
        plan, names = table.new_read_builder().plan(), table.schema.field_names
        expected = plain_rows(table.new_read_builder().to_arrow(), names)
        assert not native_scans.read_natively(spark, plan.context, plan.splits)[0]
        runner = EmbeddedExecutor() if number % 2 else executor_module.SparkExecutor(spark)
        native, left = native_scans.read_natively(spark, plan.context, plan.splits, runner)
        assert left == []
        assert plain_rows(native.toArrow(), names) == expected
        # Twice in a query; now from the bits that are kept.
        joined = sql.spark_sql(
            spark,
            new_catalog,
            f"SELECT a.* FROM db.t{number} a JOIN db.t{number} b ON a.id = b.id WHERE b.id < 300",
        )
        assert plain_rows(joined.toArrow(), names) == expected


@pytest.mark.spark
def test_overlapping_files_of_equal_size_are_distinguished(spark, new_catalog):
    options = {"bucket": "1", "write-only": "true"}
    table = new_table(new_catalog, COLUMNS, primary_keys=["id"], options=options)
    for start in (0, 0, 1, 2):
        write(table, *({"id": start + n, "part": "a", "value": start} for n in range(3)))
    plan, names = table.new_read_builder().plan(), table.schema.field_names
    sizes = [file.file_size for split in plan.splits for file in split.data_files]
    assert len(set(sizes)) < len(sizes)
    native, left = native_scans.read_natively(spark, plan.context, plan.splits, EmbeddedExecutor())
    assert left == []
    expected = plain_rows(table.new_read_builder().to_arrow(), names)
    assert plain_rows(native.toArrow(), names) == expected


@pytest.mark.spark
def test_views_of_many_tables_are_kept_by_bytes(spark, new_catalog, monkeypatch):
    batches = []

    class CountingExecutor(EmbeddedExecutor):
        def map_tasks(self, batch):
            batches.append(batch)
            return super().map_tasks(batch)

    monkeypatch.setattr(pushdown, "EmbeddedExecutor", CountingExecutor)
    views = pushdown.SessionCache(20 * pushdown._LEAST_VIEW_BYTES)
    monkeypatch.setattr(pushdown, "_views", views)
    options = {"bucket": "1", "write-only": "true"}
    table = new_table(new_catalog, COLUMNS, primary_keys=["id"], options=options)
    for _ in range(22):
        write(table, *ROWS[:2])

    def read_masked(snapshots):
        for snapshot in snapshots:
            read = table.new_read_builder().at_version(str(snapshot))
            with session_with(spark, **{"spark.paimon_assets.readHere": "16 mb"}):
                assert pushdown.relation(spark, read) is not None
        return len(batches)

    assert read_masked(range(2, 22)) == 20
    assert read_masked(range(2, 22)) == 20
    # The 21st takes the place of the oldest.
    assert read_masked([22]) == 21
    assert read_masked(range(3, 23)) == 21
    assert read_masked([2]) == 22


@pytest.mark.spark
def test_kept_views_show_each_snapshot(spark, new_catalog):
    options = {"bucket": "1", "write-only": "true"}
    table = new_table(new_catalog, COLUMNS, *ROWS, primary_keys=["id"], options=options)
    text = (
        "SELECT count(*) AS n, sum(a.value) AS new, sum(b.value) AS old FROM db.t a"
        " JOIN db.t VERSION AS OF 1 b USING (id) JOIN db.t c USING (id)"
    )
    (first,) = sql.spark_sql(spark, new_catalog, text).collect()
    before = [table.name for table in spark.catalog.listTables()]
    for number in (1, 2):
        write(table, {"id": 3, "part": "b", "value": 3 + number})
        for _ in range(2):
            rows = sql.spark_sql(spark, new_catalog, text)
            assert rows.collect() == [(9, first.old + number, first.old)]
    assert [table.name for table in spark.catalog.listTables()] == before
    with session_with(spark, **{native_scans.NATIVE_READ: "false"}):
        assert pushdown.relation(spark, table.new_read_builder()) is None


@pytest.mark.spark
def test_engine_merges_files_of_another_key_type(spark, new_catalog):
    columns = {"id": "INT", "v": "STRING"}
    options = {"bucket": "1"}
    table = new_table(new_catalog, columns, primary_keys="id", options=options)
    write(table, *((number, f"old{number}") for number in range(5, 25)))
    retype(table, "id", "STRING")
    table = new_catalog.get_table("db.t")
    write_on(table, arrow(table.schema, *((str(number), f"new{number}") for number in (7, 10, 23))))
    table = table.refresh()
    expected = read(table, ["v"])
    assert len(expected) == 20
    plan = table.new_read_builder().with_columns(["v"]).plan()
    native, left = native_scans.read_natively(spark, plan.context, plan.splits, EmbeddedExecutor())
    assert (native, left) == (None, list(plan.splits))
    joined = "SELECT a.v FROM db.t a LEFT ANTI JOIN db.t b ON a.v = concat(b.v, 'x')"
    assert sorted(map(tuple, sql.spark_sql(spark, new_catalog, joined).collect())) == expected


@pytest.mark.spark
def test_engine_reads_rows_of_several_records(spark, new_catalog):
    options = {"merge-engine": "partial-update", "bucket": "1"}
    table = new_table(new_catalog, COLUMNS, *ROWS, primary_keys="id", options=options)
    write(table, *ROWS[:4])
    plan = table.new_read_builder().plan()
    runner = EmbeddedExecutor()
    assert native_scans.read_natively(spark, plan.context, plan.splits, runner) == (
        None,
        list(plan.splits),
    )
