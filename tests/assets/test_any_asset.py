"""Functions of every form, schemas of every form, and inputs without an IO manager."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import dagster as dg
import pandas as pd
import pandera.pandas as pandera
import pyarrow as pa
import pytest

from paimon_assets import InvalidInputError, NotFoundError, Schema
from paimon_assets.assets import (
    PaimonCatalogResource,
    PaimonIOManager,
    PaimonSparkResource,
    paimon_asset,
    paimon_input,
    paimon_output,
)
from tests.testkit.asset_tables import failure_text, metadata_of, rows_of, run

pytestmark = pytest.mark.slow

KEY = dg.AssetKey(["shop", "orders"])
RECORDS = [{"id": 1, "note": "a"}, {"id": 2, "note": None}]
ROWS = pa.table({"id": [1, 2], "note": ["a", None]})


def some_output() -> Any:
    return dg.Output(ROWS, metadata={"own": 7})


def some_result() -> Any:
    return dg.MaterializeResult(value=ROWS, metadata={"own": 7})


async def some_coroutine() -> Any:
    return ROWS


def frames() -> Iterator[Any]:
    yield ROWS.slice(0, 1)
    yield ROWS.slice(1).to_pandas()


def one_output() -> Iterator[Any]:
    yield dg.Output(ROWS, metadata={"own": 7})


async def async_frames() -> AsyncIterator[Any]:
    yield ROWS.slice(0, 1)
    yield ROWS.slice(1)


def records() -> Any:
    return [{"id": 1, "note": "a"}, {"id": 2}]


FORMS = [some_output, some_result, some_coroutine, frames, one_output, async_frames, records]


@pytest.mark.parametrize("schema", [None, {"id": "BIGINT", "note": "STRING"}])
@pytest.mark.parametrize("function", FORMS)
def test_function_of_every_form_commits_one_snapshot(
    function: Any, schema: Any, paimon: PaimonCatalogResource
) -> None:
    asset = paimon_asset("shop.orders", schema, primary_keys="id", name="orders")(function)
    for turn in (1, 2):
        result = run(asset, paimon)
        assert result.success, failure_text(result)
        table = paimon.catalog().get_table("shop.orders")
        assert (rows_of(table), table.schema.primary_keys) == (RECORDS, ("id",))
        assert len(list(table.snapshots())) == turn
        if function in (some_output, some_result, one_output):
            assert metadata_of(result, asset.key)["own"] == 7


class OrderModel(pandera.DataFrameModel):
    """Orders."""

    id: int
    note: str = pandera.Field(nullable=True)


@pytest.mark.parametrize(
    "schema",
    [
        Schema.of({"id": "BIGINT NOT NULL", "note": "STRING"}),
        ROWS.schema,
        {"id": "BIGINT NOT NULL", "note": "STRING"},
        OrderModel,
        OrderModel.to_schema(),
    ],
)
def test_schema_of_every_form_makes_same_columns(
    schema: Any, paimon: PaimonCatalogResource
) -> None:
    asset = paimon_asset("shop.orders", schema)(records)
    assert run(asset, paimon).success
    fields = paimon.catalog().get_table("shop.orders").schema.fields
    assert [str(item.type).removesuffix(" NOT NULL") for item in fields] == ["BIGINT", "STRING"]
    assert KEY in asset.keys


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: paimon_asset(cast("Any", records)), "@paimon_asset needs the name"),
        (paimon_asset, "needs the name of its table"),
        (lambda: paimon_asset("s.t", 7), "A schema is made of a mapping"),
        (lambda: paimon_asset("s.t", Schema.of({"a": "INT"}), primary_keys="a"), "in the Schema"),
        (lambda: paimon_asset("s.t", schema_policy="sync"), "needs a declared schema"),
    ],
)
def test_invalid_declaration_is_refused(call: Any, text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        call()


def test_changed_primary_key_is_refused(paimon: PaimonCatalogResource) -> None:
    assert run(paimon_asset("shop.orders", primary_keys="id")(records), paimon).success
    result = run(paimon_asset("shop.orders", primary_keys="note")(records), paimon)
    assert "has the primary key (id)" in failure_text(result)


def test_table_without_schema_is_made_by_first_frame(paimon: PaimonCatalogResource) -> None:
    frame: list[Any] = [None, [], ROWS]
    asset = paimon_asset("shop.orders", name="orders")(lambda: frame.pop(0))
    for _ in range(2):
        assert run(asset, paimon).success
        assert not paimon.catalog().table_exists("shop.orders")
    assert run(asset, paimon).success
    assert rows_of(paimon.catalog().get_table("shop.orders")) == RECORDS


def test_different_second_frame_is_refused_by_number(paimon: PaimonCatalogResource) -> None:
    def differing() -> Iterator[Any]:
        yield ROWS
        yield ROWS.drop_columns(["note"])

    result = run(paimon_asset("shop.orders")(differing), paimon)
    assert "Frame 2 has the columns id" in failure_text(result)


def test_inputs_of_tables_load_by_catalog_resource(warehouse: str) -> None:
    @paimon_asset("shop.orders", primary_keys="id")
    def orders() -> Any:
        return ROWS

    @paimon_asset("shop.big")
    def big(orders: pd.DataFrame) -> Any:
        return orders[orders.id < 2]

    @dg.asset(ins={"orders": dg.AssetIn(["shop", "orders"])})
    def count(orders: pa.Table) -> int:
        return orders.num_rows

    defs = dg.Definitions(
        [orders, big, count], resources={"paimon": PaimonCatalogResource(warehouse=warehouse)}
    )
    job = defs.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process()
    assert result.success
    assert result.output_for_node("count") == 2
    alone = job.execute_in_process(asset_selection=[dg.AssetKey(["shop", "big"])])
    assert alone.success
    table = PaimonCatalogResource(warehouse=warehouse).catalog().get_table("shop.big")
    assert [row["id"] for row in rows_of(table)] == [1, 1]


def test_spark_resource_refuses_unknown_fields() -> None:
    with pytest.raises(InvalidInputError, match=r"no 'mster'\. Did you mean 'master'"):
        PaimonSparkResource(mster="local[1]")


def test_two_assets_of_one_table_fail_when_definitions_load(warehouse: str) -> None:
    """`dg check defs` builds the repository, as here."""
    one = paimon_asset("shop.orders")(records)
    other = paimon_asset("shop.orders", key=["copy", "orders"])(records)
    resources = {"paimon": PaimonCatalogResource(warehouse=warehouse)}
    with pytest.raises(InvalidInputError, match=r"both write table 'shop\.orders'"):
        dg.Definitions.validate_loadable(dg.Definitions([one, other], resources=resources))
    far = paimon_asset("shop.orders", key=["far", "orders"], resource_key="far")(records)
    both = {**resources, "far": PaimonCatalogResource(warehouse=f"{warehouse}2")}
    dg.Definitions.validate_loadable(dg.Definitions([one, far], resources=both))


def test_upsert_without_key_fails_when_definitions_load() -> None:
    schema = Schema.of({"id": "BIGINT"})
    with pytest.raises(InvalidInputError, match=r"'shop\.orders' has no primary key"):
        paimon_asset("shop.orders", schema, mode="upsert")(records)
    with pytest.raises(InvalidInputError, match=r"'shop\.orders' has no primary key"):
        paimon_output(table="shop.orders", schema=schema, mode="upsert")


def test_partition_expr_of_missing_column_is_named(warehouse: str) -> None:
    @dg.asset(
        key=["shop", "days"],
        partitions_def=dg.StaticPartitionsDefinition(["a"]),
        metadata={"partition_expr": "nope"} | paimon_output(schema=Schema.of({"id": "BIGINT"})),
    )
    def days() -> pa.Table:
        return pa.table({"id": [1]})

    resources = {"io_manager": PaimonIOManager(warehouse=warehouse)}
    result = dg.materialize([days], resources=resources, partition_key="a", raise_on_error=False)
    assert "Metadata 'partition_expr' has the column 'nope'" in failure_text(result)


def test_metadata_keys_of_other_io_managers_are_read_or_refused(warehouse: str) -> None:
    @dg.asset(
        key=["shop", "days"],
        partitions_def=dg.StaticPartitionsDefinition(["a", "b"]),
        metadata={"partition_expr": "note"},
    )
    def days(context: dg.AssetExecutionContext) -> pa.Table:
        return pa.table({"id": [1], "note": [context.partition_key]})

    @dg.asset(ins={"days": dg.AssetIn(["shop", "days"], metadata={"columns": ["id"]})})
    def ids(days: pa.Table) -> pa.Table:
        return pa.table({"names": days.column_names})

    resources = {"io_manager": PaimonIOManager(warehouse=warehouse)}
    for key in ("a", "b"):
        assert dg.materialize([days], resources=resources, partition_key=key).success
    assert dg.materialize([days, ids], selection=[ids], resources=resources).success
    catalog = PaimonCatalogResource(warehouse=warehouse).catalog()
    assert rows_of(catalog.get_table("default.ids")) == [{"names": "id"}]
    assert catalog.get_table("shop.days").count() == 2

    @dg.asset(key=["days"], metadata={"schema": "shop"})
    def other() -> pa.Table:
        return ROWS

    result = dg.materialize([other], resources=resources, raise_on_error=False)
    assert "the table names it" in failure_text(result)
    with pytest.raises(InvalidInputError, match=r"Did you mean 'read\.batch-size'"):
        paimon_input(options={"read.batch-sise": "1"})


def test_health_names_missing_tables_and_is_recorded(paimon: PaimonCatalogResource) -> None:
    assert run(paimon_asset("shop.orders")(records), paimon).success
    catalog = paimon.catalog()
    with pytest.raises(NotFoundError, match=r"No table matches 'nope\.\*'"):
        catalog.health("shop.*", "nope.*")
    assert catalog.record_health("ops.health", catalog.health("shop.*")).count() == 1
