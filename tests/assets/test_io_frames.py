"""Frames of every kind are stored in tables of every kind, and loaded as the annotated type."""

from typing import Any

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from paimon_assets.assets import PaimonCatalogResource, PaimonIOManager, paimon_input, paimon_output
from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit.asset_tables import data_version_of, failure_text, metadata_of, rows_of
from tests.testkit.io_manager_runs import ANNOTATION, FROM_ARROW, io_run, to_arrow

pytestmark = pytest.mark.slow

COLUMNS = {"id": "BIGINT", "name": "STRING", "n": "INT", "day": "DATE"}
TABLES = {
    "append": Schema.of(COLUMNS),
    "fixed": Schema.of(COLUMNS, primary_keys=["id"], options={"bucket": "2"}),
    "dynamic": Schema.of(COLUMNS, primary_keys=["id"], options={"bucket": "-1"}),
    "partitioned": Schema.of(COLUMNS, partition_keys=["name"]),
}
BIG = 2**53 + 1
"""A number that no float holds."""
KEY = dg.AssetKey(["shop", "orders"])


def orders() -> pa.Table:
    return pa.table(
        {
            "id": pa.array([BIG, 2, 3], pa.int64()),
            "name": pa.array(["a", "b", "b"], pa.string()),
            "n": pa.array([1, None, 3], pa.int32()),
            "day": pa.array([0, None, 365], pa.date32()),
        }
    )


def producer(frame: Any, **options: Any) -> dg.AssetsDefinition:
    @dg.asset(key=KEY, metadata=paimon_output(**options))
    def table() -> Any:
        return frame

    return table


def consumer(annotation: Any, seen: list[pa.Table], **options: Any) -> dg.AssetsDefinition:
    def read(table: Any) -> dg.MaterializeResult[Any]:
        seen.append(to_arrow(table))
        return dg.MaterializeResult()

    read.__annotations__["table"] = annotation
    ins = {"table": dg.AssetIn(KEY, metadata=paimon_input(**options))}
    return dg.asset(ins=ins, name="reader")(read)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("kind", FROM_ARROW)
def test_frame_is_stored_and_loaded(kind: str, table: str, paimon: PaimonCatalogResource) -> None:
    seen: list[pa.Table] = []
    written = producer(FROM_ARROW[kind](orders()), schema=TABLES[table])
    result = io_run([written, consumer(ANNOTATION[kind], seen)], paimon)
    assert result.success, failure_text(result)
    [back] = seen
    assert set(back.column("id").to_pylist()) == {2, 3, BIG}
    assert sorted(back.cast(orders().schema).to_pylist(), key=str) == sorted(
        orders().to_pylist(), key=str
    )
    assert metadata_of(result, KEY)["dagster/row_count"] == 3


@pytest.mark.parametrize("table", TABLES)
def test_second_run_leaves_no_duplicates(table: str, paimon: PaimonCatalogResource) -> None:
    written = producer(orders(), schema=TABLES[table])
    first, again = (io_run(written, paimon) for _ in range(2))
    assert first.success, failure_text(first)
    assert again.success, failure_text(again)
    assert metadata_of(again, KEY)["dagster/row_count"] == 3
    assert len(rows_of(paimon.catalog().get_table("shop.orders"))) == 3


def test_stored_and_loaded_types_may_differ(paimon: PaimonCatalogResource) -> None:
    seen: list[pa.Table] = []
    frame = FROM_ARROW["pandas"](orders())
    result = io_run([producer(frame), consumer(pl.DataFrame, seen)], paimon)
    assert result.success, failure_text(result)
    assert seen[0].column("id").to_pylist()[0] == BIG


def test_input_without_annotation_is_arrow_table(paimon: PaimonCatalogResource) -> None:
    @dg.asset(ins={"table": dg.AssetIn(KEY)})
    def reader(table) -> None:
        assert isinstance(table, pa.Table)

    assert io_run([producer(orders()), reader], paimon).success


@pytest.mark.parametrize("annotation", [dict, list[int], int])
def test_annotation_without_frame_type_is_refused(
    annotation: Any, paimon: PaimonCatalogResource
) -> None:
    text = failure_text(io_run([producer(orders()), consumer(annotation, [])], paimon))
    assert "cannot be loaded as" in text
    assert "pandas.DataFrame, polars.DataFrame" in text


def test_value_without_rows_is_refused(paimon: PaimonCatalogResource) -> None:
    text = failure_text(io_run(producer([1, 2], schema=TABLES["append"]), paimon))
    assert "A list of rows holds dicts, column → value, not int64" in text
    assert paimon.catalog().get_table("shop.orders").latest_snapshot() is None


def test_none_writes_nothing_and_empty_frame_overwrites(paimon: PaimonCatalogResource) -> None:
    schema = TABLES["append"]
    assert io_run(producer(None), paimon).success, "no table, no frame"
    assert io_run(producer(orders(), schema=schema), paimon).success
    result = io_run(producer(None, schema=schema), paimon)
    assert metadata_of(result, KEY)["paimon/rows_in"] == 0
    assert data_version_of(result, KEY).startswith("1-")
    assert io_run(producer(orders().slice(0, 0), schema=schema), paimon).success
    assert rows_of(paimon.catalog().get_table("shop.orders")) == []


def test_nulls_keep_integers_exact(paimon: PaimonCatalogResource) -> None:
    frame = pa.table({"id": pa.array([BIG, None], pa.int64()), "ok": [True, None]})
    types: list[str] = []

    @dg.asset(ins={"table": dg.AssetIn(KEY)})
    def reader(table: pd.DataFrame) -> None:
        types.extend(str(dtype) for dtype in table.dtypes)
        assert table["id"][0] == BIG

    result = io_run([producer(frame), reader], paimon)
    assert result.success, failure_text(result)
    assert types == ["Int64", "boolean"]


@pytest.mark.parametrize("name", ["select", "Upper", "with.dot", "naïve ü", "with`tick"])
def test_columns_of_any_name_are_read(name: str, paimon: PaimonCatalogResource) -> None:
    seen: list[pa.Table] = []
    frame = pa.table({name: [1, 2], "other": ["x", "y"]})
    reads = consumer(pl.LazyFrame, seen, columns=[name])
    result = io_run([producer(frame), reads], paimon)
    assert result.success, failure_text(result)
    assert seen[0].to_pylist() == [{name: 1}, {name: 2}]


def test_lazy_frame_pushes_columns_filters_and_limits(paimon: PaimonCatalogResource) -> None:
    lengths: list[Any] = []

    @dg.asset(ins={"table": dg.AssetIn(KEY)})
    def reader(table: pl.LazyFrame) -> None:
        assert table.select("name").collect().columns == ["name"]
        assert table.filter(pl.col("n") > 1).select("id").collect().to_series().to_list() == [3]
        assert table.head(2).collect().height == 2
        assert table.filter(pl.col("n") > 1).head(1).collect()["id"].to_list() == [3]
        assert table.head(1).filter(pl.col("n") > 1).collect().height == 0
        lengths.append(table.select(pl.len()).collect().item())

    result = io_run([producer(orders()), reader], paimon)
    assert result.success, failure_text(result)
    assert lengths == [3]


def test_output_of_op_is_table(paimon: PaimonCatalogResource) -> None:
    seen: list[pa.Table] = []

    @dg.op(out=dg.Out(metadata=paimon_output(table="ops.made")))
    def make() -> pa.Table:
        return orders()

    @dg.op(ins={"table": dg.In(metadata=paimon_input(columns=["id"]))})
    def take(table: pa.Table) -> None:
        seen.append(table)

    @dg.job(resource_defs={"io_manager": PaimonIOManager(paimon=paimon, database="plain")})
    def job() -> None:
        take(make())

    assert job.execute_in_process().success
    assert seen[0].column_names == ["id"]
    assert paimon.catalog().list_tables("ops") == ["made"]
