"""Keys of dynamic partitions, made from the partitions of a table."""

from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from paimon_assets import EmbeddedExecutor, InvalidInputError, Schema, Table
from paimon_assets.assets import (
    PaimonCatalogResource,
    build_partition_keys_sensor,
    paimon_asset,
    paimon_output,
)
from paimon_assets.assets.partition_key_sensor import partition_key_of
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from tests.testkit.asset_tables import failure_text, lent_instance, rows_of, run
from tests.testkit.tables import new_table

SALES = Schema.of({"shop": "STRING", "n": "INT"}, partition_keys=["shop"])
SHOPS = dg.DynamicPartitionsDefinition(name="shops")
UPSTREAM = dg.AssetSpec(["shop", "sales"], metadata=paimon_output(table="shop.sales"))


@pytest.fixture
def table(paimon: PaimonCatalogResource) -> Table:
    return new_table(paimon.catalog(), SALES, name="shop.sales")


def put(table: Table, *shops: str | None) -> None:
    rows = pa.table({"shop": pa.array(shops, pa.string()), "n": pa.array([1] * len(shops))})
    table.new_write_builder().write(rows.cast(to_arrow_schema(SALES.fields)), EmbeddedExecutor())


@paimon_asset("shop.totals", SALES, partitions_def=SHOPS, partition_column="shop", mode="overwrite")
def totals(context: dg.AssetExecutionContext) -> pa.Table:
    return pa.table({"shop": [context.partition_key], "n": pa.array([7], pa.int32())})


def test_each_new_partition_gets_key_and_run(table: Table, paimon: PaimonCatalogResource) -> None:
    sensor = build_partition_keys_sensor(
        UPSTREAM, partitions_def=SHOPS, column="shop", target=totals
    )
    assert sensor.default_status is dg.DefaultSensorStatus.STOPPED
    defs = dg.Definitions([totals, UPSTREAM], sensors=[sensor], resources={"paimon": paimon})
    with lent_instance() as instance:

        def tick(cursor: str | None) -> Any:
            with dg.build_sensor_context(
                instance=instance,
                cursor=cursor,
                resources={"paimon": paimon},
                repository_def=defs.get_repository_def(),
            ) as context:
                return sensor(context)

        assert "nothing new" in tick(None).skip_message
        put(table, "it's", "b", None, "")
        first = tick(None)
        [request] = first.dynamic_partitions_requests
        assert request.partition_keys == ["b", "it's"]
        assert [each.partition_key for each in first.run_requests] == ["b", "it's"]
        instance.add_dynamic_partitions("shops", request.partition_keys)
        assert "nothing new" in tick(first.cursor).skip_message
        put(table, "b")
        again = tick(first.cursor)
        assert not again.run_requests
        assert "2 keys" in again.skip_reason.skip_message
        put(table, "c")
        [request] = tick(again.cursor).dynamic_partitions_requests
        assert request.partition_keys == ["c"]
        done = run(totals, paimon, instance=instance, partition_key="it's")
        assert done.success, failure_text(done)
    assert rows_of(paimon.catalog().get_table("shop.totals")) == [{"shop": "it's", "n": 7}]


def test_unknown_partition_column_is_named(table: Table, paimon: PaimonCatalogResource) -> None:
    put(table, "a")
    sensor = build_partition_keys_sensor(UPSTREAM, partitions_def=SHOPS, column="n")
    with (
        lent_instance() as instance,
        dg.build_sensor_context(instance=instance, resources={"paimon": paimon}) as context,
        pytest.raises(InvalidInputError, match="'n' is no partition column"),
    ):
        sensor(context)


@pytest.mark.parametrize(
    ("kind", "value", "key"),
    [
        ("INT", -3, "-3"),
        ("DATE", 19723, "2024-01-01"),
        ("BOOLEAN", True, "true"),
        ("STRING", "2024", "2024"),
        ("STRING", None, ""),
        ("TIMESTAMP(3)", 1704070800000000000, "2024-01-01 01:00:00"),
    ],
)
def test_value_becomes_its_key(kind: str, value: Any, key: str) -> None:
    assert partition_key_of(value, Schema.of({"p": kind}).fields[0]) == key
