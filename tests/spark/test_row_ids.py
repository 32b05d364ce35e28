"""Tables whose rows have ids, changed and compacted by tasks of Spark as by this process."""

import pyarrow as pa
import pytest

from paimon_assets.engine.table.read.where import parse_expression
from tests.testkit.tables import new_table, read

pytestmark = pytest.mark.spark
merging = pytest.importorskip("paimon_assets.spark.dataframes.merge")
executors = pytest.importorskip("paimon_assets.spark.executor")

TRACKED = {"row-tracking.enabled": "true"}
EVOLVING = {**TRACKED, "data-evolution.enabled": "true"}
NAMES = ["k", "n", "_ROW_ID", "_SEQUENCE_NUMBER"]


def append(spark, executor, table, start, end):
    frame = spark.range(start, end).selectExpr("CAST(id AS INT) AS k", "CAST(id AS INT) AS n")
    table.new_write_builder().write(frame.coalesce(1), executor)


@pytest.mark.parametrize("options", [TRACKED, EVOLVING], ids=["tracked", "evolving"])
def test_rows_keep_their_ids(spark, tmp_path, options):
    table = new_table(tmp_path, {"k": "INT", "n": "INT"}, options=options)
    executor = executors.SparkExecutor(spark)
    append(spark, executor, table, 0, 5)
    append(spark, executor, table, 5, 8)
    assert sorted(read(table, NAMES)) == [(k, k, k, 1 if k < 5 else 2) for k in range(8)]
    change = table.new_row_change_builder()
    change.update({"n": parse_expression("n * 10")}, "_ROW_ID IN (2, 6)", executor)
    rows = [(k, k * 10 if k in (2, 6) else k, k) for k in range(8)]
    assert sorted(read(table, NAMES[:3])) == rows
    source = spark.createDataFrame([(1, 11), (9, 99)], "k INT, n INT")
    merging.merge_dataframe(change, source, on=["k"])
    rows[1] = (1, 11, 1)
    assert sorted(read(table, NAMES[:3])) == [*rows, (9, 99, 8)]
    table.new_compaction_builder().with_strategy("full").run(executor)
    assert sorted(read(table, NAMES[:3])) == [*rows, (9, 99, 8)]
    assert len(table.new_read_builder().plan().splits[0].data_files) == 1


def test_columns_are_written_by_its_tasks(spark, tmp_path):
    rows = [(k, k) for k in range(6)]
    table = new_table(tmp_path, {"k": "INT", "n": "INT"}, *rows, options=EVOLVING)
    write = table.new_column_write_builder(["n"], reads=["k"]).with_all_rows()
    write.write(lambda given: pa.table({"n": given["k"]}), executors.SparkExecutor(spark))
    assert sorted(read(table, ["k", "n"])) == rows
    assert table.latest_snapshot().id == 2
