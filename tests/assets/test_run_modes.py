"""The write mode of a run, as the Launchpad checks it; and rows that are deleted."""

from typing import Any

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from paimon_assets import Schema
from paimon_assets.assets import (
    BatchCheck,
    PaimonCatalogResource,
    PaimonIOManager,
    Verdict,
    WriteConfig,
    WriteMode,
    WriteModeChoice,
    audited_asset,
    paimon_asset,
    paimon_input,
    paimon_output,
)
from tests.testkit.asset_tables import failure_text, metadata_of, pairs_in, run
from tests.testkit.asset_tables import order_rows as rows
from tests.testkit.io_manager_runs import io_run
from tests.testkit.tables import new_table

pytestmark = pytest.mark.slow

KEY = dg.AssetKey(["shop", "orders"])
KEYED = Schema.of({"id": "BIGINT", "v": "STRING"}, primary_keys=["id"], options={"bucket": "1"})
PLAIN = Schema.of({"id": "BIGINT", "v": "STRING"})
BY_VALUE = Schema.of({"id": "BIGINT", "v": "STRING"}, partition_keys=["v"])


FRAMES: list[Any] = [rows((1, "a"), (2, "b"), (3, "c"))]


def table_asset(schema: Schema, **options: Any) -> dg.AssetsDefinition:
    @paimon_asset("shop.orders", schema, **options)
    def orders() -> Any:
        return FRAMES[-1]

    return orders


def returning(asset: dg.AssetsDefinition, frame: Any, paimon: PaimonCatalogResource, **of: Any):
    FRAMES.append(frame)
    try:
        return run(asset, paimon, **of)
    finally:
        FRAMES.pop()


def in_mode(mode: str) -> dict[str, Any]:
    return {"ops": {"shop__orders": {"config": {"mode": mode}}}}


def test_launchpad_has_all_modes() -> None:
    assert [choice.value for choice in WriteModeChoice] == [str(mode) for mode in WriteMode]
    assert all(choice.name == choice.value for choice in WriteModeChoice)


def test_launchpad_checks_mode_of_run(paimon: PaimonCatalogResource) -> None:
    asset = table_asset(PLAIN)

    @dg.asset(key=["shop", "sales"], metadata=paimon_output(schema=PLAIN))
    def sales() -> Any:
        return FRAMES[-1]

    manager = PaimonIOManager(paimon=paimon)
    defs = dg.Definitions([asset, sales], resources={"paimon": paimon, "io_manager": manager})
    job = defs.resolve_implicit_global_asset_job_def()
    outputs = {"outputs": {"result": {"mode": "append"}}}
    given = {"shop__orders": {"config": {"mode": "overwrite"}}, "shop__sales": outputs}
    assert dg.validate_run_config(job, {"ops": given})
    opened: Any = dg.validate_run_config(job, {})
    assert opened["ops"]["shop__orders"]["config"] == {"mode": "append"}
    wrong: dict[str, Any] = {"shop__sales": {"outputs": {"result": {"mode": "appendd"}}}}
    for ops in (in_mode("overwritten")["ops"], wrong):
        with pytest.raises(dg.DagsterInvalidConfigError, match="not in enum type"):
            dg.validate_run_config(job, {"ops": ops})


def test_run_overwrites_foreign_appends(paimon: PaimonCatalogResource) -> None:
    asset = table_asset(PLAIN)
    for _ in range(2):
        assert run(asset, paimon).success
    result = run(asset, paimon, run_config=in_mode("overwrite"))
    assert result.success, failure_text(result)
    assert len(pairs_in(paimon)) == 3


def test_own_config_may_have_mode(paimon: PaimonCatalogResource) -> None:
    class Config(WriteConfig):
        number: int = 1

    @paimon_asset("shop.orders", PLAIN)
    def orders(config: Config) -> pa.Table:
        return rows((config.number, "x"))

    for number, mode in ((1, None), (2, None), (3, "overwrite")):
        config = {"number": number, "mode": mode}
        done = run(orders, paimon, run_config={"ops": {"shop__orders": {"config": config}}})
        assert done.success, failure_text(done)
    assert pairs_in(paimon) == [(3, "x")]


def test_output_of_io_manager_has_mode(paimon: PaimonCatalogResource) -> None:
    @dg.asset(key=KEY, metadata=paimon_output(schema=PLAIN))
    def orders() -> pa.Table:
        return rows((1, "a"))

    for mode in ("append", "append"):
        config = {"ops": {"shop__orders": {"outputs": {"result": {"mode": mode}}}}}
        done = io_run(orders, paimon, run_config=config)
        assert done.success, failure_text(done)
    assert pairs_in(paimon) == [(1, "a"), (1, "a")]
    assert io_run(orders, paimon).success
    assert pairs_in(paimon) == [(1, "a")]


KEYS = pa.table({"id": pa.array([2, 3, 3, 9, None], pa.int64())})


@pytest.mark.parametrize(
    ("schema", "frame", "left"),
    [
        (KEYED, KEYS, [(1, "a")]),
        (KEYED, KEYS.to_reader(2), [(1, "a")]),
        (KEYED, pd.DataFrame({"id": [2, 3], "v": ["other", "?"]}), [(1, "a")]),
        (PLAIN, pl.LazyFrame({"id": [2]}), [(1, "a"), (3, "c")]),
        (PLAIN, rows((2, "b"), (3, "other")), [(1, "a"), (3, "c")]),
        (BY_VALUE, rows((1, "a"), (1, "a")), [(2, "b"), (3, "c")]),
        (KEYED, rows(), [(1, "a"), (2, "b"), (3, "c")]),
    ],
)
def test_rows_are_deleted(
    schema: Schema, frame: Any, left: list[tuple[int, str]], paimon: PaimonCatalogResource
) -> None:
    asset = table_asset(schema)
    assert run(asset, paimon).success
    done = returning(asset, frame, paimon, run_config=in_mode("delete"))
    assert done.success, failure_text(done)
    assert pairs_in(paimon) == left
    assert metadata_of(done, KEY)["paimon/rows_deleted"] == 3 - len(left)


def test_run_deletes_only_rows_of_its_partition(paimon: PaimonCatalogResource) -> None:
    parts = dg.StaticPartitionsDefinition(["a", "b", "c"])

    @dg.asset(
        key=KEY,
        partitions_def=parts,
        metadata=paimon_output(schema=BY_VALUE, partition_column="v", mode="delete"),
    )
    def orders() -> Any:
        return FRAMES[-1]

    new_table(paimon.catalog(), BY_VALUE, FRAMES[0], name="shop.orders")
    assert "outside" in failure_text(io_run(orders, paimon, partition_key="a"))
    assert len(pairs_in(paimon)) == 3
    FRAMES.append(rows((1, "a")))
    done = io_run(orders, paimon, partition_key="a")
    FRAMES.pop()
    assert done.success, failure_text(done)
    assert pairs_in(paimon) == [(2, "b"), (3, "c")]


def test_delete_from_missing_table_is_refused(paimon: PaimonCatalogResource) -> None:
    @dg.asset(key=KEY, metadata=paimon_output(mode="delete"))
    def orders() -> pa.Table:
        return rows((1, "a"))

    assert "shop.orders" in failure_text(io_run(orders, paimon))
    assert not paimon.catalog().table_exists("shop.orders")


def test_deletes_with_checks_or_consumers_are_refused(paimon: PaimonCatalogResource) -> None:
    assert run(table_asset(KEYED), paimon).success
    check = BatchCheck(name="any", evaluate=lambda _: Verdict(passed=True, description=""))
    metadata = paimon_input(consumer="c")

    @audited_asset(key=KEY, metadata=paimon_output(mode="delete"), before_commit=[check])
    def checked_orders() -> pa.Table:
        return rows((1, "a"))

    @dg.asset(
        key=["shop", "copy"],
        ins={"orders": dg.AssetIn(KEY, metadata=metadata)},
        metadata=paimon_output(schema=KEYED, mode="delete"),
    )
    def consuming(orders: pa.Table) -> pa.Table:
        return orders

    assert "checks judge each batch" in failure_text(io_run(checked_orders, paimon))
    assert "an input has a consumer" in failure_text(io_run([dg.AssetSpec(KEY), consuming], paimon))
    assert len(pairs_in(paimon)) == 3
