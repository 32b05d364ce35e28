"""Tables whose catalog keeps their versions, written, changed and read by Spark."""

import pytest

from paimon_assets.engine.spec.evolution.schema_change import add_column
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.read.where import parse_expression
from tests.testkit.rows import plain_rows, rows_to_arrow
from tests.testkit.served_catalog import Answer, ServedCatalog

executors = pytest.importorskip("paimon_assets.spark.executor")

pytestmark = pytest.mark.spark

COLUMNS = {"part": "STRING", "id": "INT", "value": "INT"}
SCHEMA = Schema.of(
    COLUMNS, primary_keys=["part", "id"], partition_keys=["part"], options={"bucket": "-1"}
)


def rows(start, value):
    named = [{"part": "ab"[n % 2], "id": n, "value": value} for n in range(start, start + 6)]
    return rows_to_arrow(named, SCHEMA)


def test_spark_writes_compacts_changes_and_reads_what_a_server_keeps(spark, tmp_path):
    server = ServedCatalog(str(tmp_path / "warehouse"))
    catalog = TableCatalog(server)
    catalog.create_database("db")
    table = catalog.create_table("db.t", SCHEMA)
    executor = executors.SparkExecutor(spark)
    server.answers.append(Answer.LOST_AFTER)
    for start, value in ((0, 1), (3, 2)):
        table.new_write_builder().write(spark.createDataFrame(rows(start, value)), executor)
    table.new_compaction_builder().with_strategy("full").run(executor)
    table.alter([add_column("more", "INT")])
    table = catalog.get_table("db.t")
    change = table.new_row_change_builder()
    assert change.update({"value": parse_expression("value * 10")}, "id = 8", executor)
    assert change.delete("id < 2", executor).rows_matched == 2
    plan = table.new_read_builder().with_columns(list(COLUMNS)).plan()
    found = executor.to_dataframe(plan.context, plan.splits).toArrow()
    expected = [("ab"[n % 2], n, 1 if n < 3 else 20 if n == 8 else 2) for n in range(2, 9)]
    assert plain_rows(found, COLUMNS) == sorted(expected, key=repr)
    assert [snapshot.id for snapshot in table.snapshots()] == list(range(1, 6))
    assert server.bypassed == []
