"""Bounds of foreign Parquet files that are known to be wrong, read through Spark."""

import io
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.table.segments.segment_import import SegmentSource
from tests.data.test_orc import STRING_AS_CHAR, write_patched
from tests.testkit import footers
from tests.testkit.tables import new_table

native_scans = pytest.importorskip("paimon_assets.spark.shortcuts.native_read.scans")


@pytest.mark.spark
@pytest.mark.parametrize(
    "writer", ["Polars", "parquet-rs version 4.4.0", "parquet-cpp-arrow version 3.0.0", ""]
)
def test_wrong_bounds_of_foreign_files_lose_no_row_on_spark(spark, new_catalog, tmp_path, writer):
    def change(footer):
        footer[6] = (footers.BINARY, writer.encode())
        for groups in footers.parquet_statistics(footer).values():
            for statistics in groups:
                statistics[5] = statistics[6]

    rows = pa.table(
        {"s": ["a", "z"], "d": pa.array([Decimal(1), Decimal(9)], pa.decimal128(30, 0))}
    )
    buffer = io.BytesIO()
    pq.write_table(rows, buffer)
    (tmp_path / "in").mkdir()
    changed = footers.change_parquet_footer(buffer.getvalue(), change)
    (tmp_path / "in" / "0.parquet").write_bytes(changed)
    table = new_table(new_catalog, {"s": "STRING", "d": "DECIMAL(30, 0)"})
    table.segments().add(SegmentSource(path=str(tmp_path / "in")), EmbeddedExecutor(threads=1))
    frame = spark.read.format("paimon_assets").load(table.path)
    assert frame.where("s = 'z'").count() == frame.where("d = 9").count() == 1
    plan = table.new_read_builder().with_filter("s = 'z'").plan()
    assert native_scans.read_natively(spark, plan.context, plan.splits)[0] is None


@pytest.mark.spark
def test_padded_bounds_of_orc_char_lose_no_row_on_spark(spark, new_catalog, tmp_path):
    (tmp_path / "in").mkdir()
    rows = pa.table({"i": [1, 2], "c": ["ab   ", "ab   "]})
    write_patched(tmp_path / "in", rows, kind=STRING_AS_CHAR)
    table = new_table(new_catalog, {"i": "BIGINT", "c": "STRING"})
    source = SegmentSource(path=str(tmp_path / "in"), format="orc")
    table.segments().add(source, EmbeddedExecutor(threads=1))
    frame = spark.read.format("paimon_assets").load(table.path)
    assert frame.where("c = 'ab'").count() == 2
    for where, is_native in (("c = 'ab'", False), ("i > 0", True)):
        builder = table.new_read_builder().with_filter(where)
        plan = builder.with_columns(["i"] if is_native else ["i", "c"]).plan()
        native, left = native_scans.read_natively(spark, plan.context, plan.splits)
        assert (native is not None, len(left)) == (is_native, 0 if is_native else 1)
