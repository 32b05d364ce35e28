"""Write, audit, publish through the IO manager: a rejected batch is readable, never current."""

from typing import Any

import dagster as dg
import pandera.pyarrow as pap
import polars as pl
import pyarrow as pa
import pytest

from paimon_assets import CommitUnknownError, Schema
from paimon_assets.assets import (
    CheckOptions,
    PaimonCatalogResource,
    PaimonIOManager,
    audited_asset,
    build_pandera_checks,
    failures,
    paimon_output,
)
from paimon_assets.assets.tables import table_write
from paimon_assets.engine.control.maintenance.orphan_files import staged_names
from tests.testkit.asset_tables import failure_text, lent_instance, metadata_of, rows_of
from tests.testkit.io_manager_runs import FROM_ARROW, io_run

pytestmark = pytest.mark.slow

KEY = dg.AssetKey(["shop", "sales"])
SALES = Schema.of({"day": "STRING", "amount": "BIGINT"}, partition_keys=["day"])
POSITIVE = pap.DataFrameSchema({"amount": pap.Column(int, pap.Check.gt(0))}, name="positive")
CHECKS = build_pandera_checks(None, POSITIVE, when="before_commit")
DAYS = dg.StaticPartitionsDefinition(["d1", "d2"])


def sales(*rows: tuple[str, int]) -> pa.Table:
    return pa.table({"day": [day for day, _ in rows], "amount": [amount for _, amount in rows]})


GOOD, BAD = sales(("d1", 1), ("d1", 2)), sales(("d1", 3), ("d1", -4))


def sales_asset(*frames: Any, checks: Any = CHECKS, **options: Any) -> dg.AssetsDefinition:
    """Return an asset that writes the next frame in each run."""
    left = iter(frames)
    output = paimon_output(schema=SALES, mode=options.pop("mode", "overwrite"))

    @audited_asset(before_commit=checks, key=KEY, metadata={**output, **options.pop("more", {})})
    def some_sales() -> pl.DataFrame:
        frame: pl.DataFrame = next(left)
        return frame

    return some_sales


def amounts(paimon: PaimonCatalogResource) -> list[int]:
    return [row["amount"] for row in rows_of(paimon.catalog().get_table("shop.sales"))]


@pytest.mark.parametrize("kind", FROM_ARROW)
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_rejected_batch_leaves_table_and_stays_readable(
    mode: str, kind: str, paimon: PaimonCatalogResource
) -> None:
    asset = sales_asset(*(FROM_ARROW[kind](rows) for rows in (GOOD, BAD, GOOD)), mode=mode)
    first = io_run(asset, paimon)
    assert first.success, failure_text(first)
    [evaluation] = first.get_asset_check_evaluations()
    assert (evaluation.passed, evaluation.blocking) == (True, True)
    table = paimon.catalog().get_table("shop.sales")
    assert table.branches.list() == {}

    refused = io_run(asset, paimon)
    assert not refused.success
    assert not refused.get_asset_materialization_events()
    assert [snapshot.id for snapshot in table.snapshots()] == [1]
    assert amounts(paimon) == [1, 2]
    [branch] = staged_names(table.branches.list())
    assert branch.startswith(f"audit_{refused.run_id[:8]}_")
    assert sorted(row["amount"] for row in rows_of(table.at_branch(branch))) == [-4, 3]
    text = failure_text(refused)
    assert "1 of 2 rows of the batch failed greater_than(0) in column 'amount', such as -4" in text
    assert f"shop.sales$branch_{branch}" in text

    assert io_run(asset, paimon).success
    assert amounts(paimon) == ([1, 1, 2, 2] if mode == "append" else [1, 2])


def test_check_results_are_in_log(paimon: PaimonCatalogResource) -> None:
    asset = sales_asset(BAD, GOOD)
    [key] = asset.check_keys
    assert key == dg.AssetCheckKey(KEY, "positive")
    with lent_instance() as instance:
        outcomes = []
        for _ in range(2):
            result = io_run(asset, paimon, instance=instance)
            record = instance.get_latest_asset_check_evaluation_record(key)
            assert record is not None
            assert record.run_id == result.run_id
            assert record.event is not None
            evaluation = record.event.asset_check_evaluation
            assert evaluation is not None
            assert evaluation.blocking
            materialized = instance.get_latest_materialization_event(KEY) is not None
            outcomes.append((evaluation.passed, materialized))
    assert outcomes == [(False, False), (True, True)]


def test_nonblocking_check_reports_and_commits(paimon: PaimonCatalogResource) -> None:
    checks = build_pandera_checks(
        None, POSITIVE, when="before_commit", options=CheckOptions(blocking=False)
    )
    result = io_run(sales_asset(BAD, checks=checks), paimon)
    assert result.success, failure_text(result)
    [evaluation] = result.get_asset_check_evaluations()
    assert not evaluation.passed
    assert amounts(paimon) == [-4, 3]


def test_metadata_of_function_is_kept(paimon: PaimonCatalogResource) -> None:
    asset = sales_asset(dg.MaterializeResult(value=GOOD, metadata={"mine": 7}))
    assert metadata_of(io_run(asset, paimon), KEY)["mine"] == 7
    asset = sales_asset(dg.Output(GOOD, metadata={"mine": 8}))
    assert metadata_of(io_run(asset, paimon), KEY)["mine"] == 8


@pytest.mark.parametrize("nothing", [None, dg.MaterializeResult()])
def test_run_without_rows_passes(nothing: Any, paimon: PaimonCatalogResource) -> None:
    result = io_run(sales_asset(nothing), paimon)
    assert result.success, failure_text(result)
    [evaluation] = result.get_asset_check_evaluations()
    assert evaluation.description == "There were no rows to judge."


def test_partitions_are_judged_one_by_one(paimon: PaimonCatalogResource) -> None:
    left = iter([GOOD, BAD, sales(("d2", 5))])

    @audited_asset(
        before_commit=CHECKS,
        name="sales",
        key_prefix="shop",
        partitions_def=DAYS,
        metadata=paimon_output(schema=SALES, partition_column="day"),
    )
    def some_sales(context: dg.AssetExecutionContext) -> pa.Table:
        """Sales of a day."""
        assert context.partition_key
        return next(left)

    assert some_sales.specs_by_key[KEY].description == "Sales of a day."
    assert [
        io_run(some_sales, paimon, partition_key=day).success for day in ("d1", "d1", "d2")
    ] == [True, False, True]
    assert amounts(paimon) == [1, 2, 5]


@pytest.mark.parametrize("mode", ["append", "overwrite", "overwrite_partitions"])
def test_retry_after_commit_reports_same_batch(
    mode: str, paimon: PaimonCatalogResource, monkeypatch: pytest.MonkeyPatch
) -> None:
    lenient = build_pandera_checks(
        None, POSITIVE, when="before_commit", options=CheckOptions(blocking=False)
    )

    def dies_once(*args: Any, **options: Any) -> Any:
        monkeypatch.undo()
        raise CommitUnknownError("The answer was lost.")

    monkeypatch.setattr(table_write, "result_of_write", dies_once)
    monkeypatch.setattr(failures, "RETRY_WAIT_SECONDS", 0)
    result = io_run(sales_asset(BAD, BAD, checks=lenient, mode=mode), paimon)
    assert result.success, failure_text(result)
    assert metadata_of(result, KEY)["paimon/already_committed"] is True
    [evaluation] = result.get_asset_check_evaluations()
    is_known = mode != "overwrite_partitions"
    assert evaluation.passed is not is_known
    assert [snapshot.id for snapshot in paimon.catalog().get_table("shop.sales").snapshots()] == [1]


@pytest.mark.way_out("io-manager")
def test_io_manager_without_checks_is_refused(paimon: PaimonCatalogResource) -> None:
    result = dg.materialize(
        [sales_asset(GOOD)], resources={"io_manager": dg.mem_io_manager}, raise_on_error=False
    )
    assert "its IO manager is none of PaimonIOManager" in failure_text(result)
    assert paimon.catalog().list_databases() == []
    assert io_run(sales_asset(GOOD), paimon).success


def test_first_frame_of_table_is_judged(paimon: PaimonCatalogResource) -> None:
    @audited_asset(before_commit=CHECKS, key=KEY)
    def some_sales() -> pa.Table:
        return BAD

    manager = PaimonIOManager(paimon=paimon, mode="append")
    assert not io_run(some_sales, paimon, manager=manager).success
    table = paimon.catalog().get_table("shop.sales")
    assert table.latest_snapshot() is None
    assert len(staged_names(table.branches.list())) == 1


class Doubling(dg.Config):
    factor: int


def test_function_takes_context_config_resources_and_inputs(paimon: PaimonCatalogResource) -> None:
    upstream = sales_asset(GOOD)

    @audited_asset(
        before_commit=CHECKS, key=["shop", "more"], ins={"sales": dg.AssetIn(KEY)}, group_name="g"
    )
    def more(
        context: dg.AssetExecutionContext,
        config: Doubling,
        paimon: PaimonCatalogResource,
        sales: pl.DataFrame,
    ) -> pl.DataFrame:
        assert context.asset_key == dg.AssetKey(["shop", "more"])
        assert "sales" in paimon.catalog().list_tables("shop")
        return sales.with_columns(pl.col("amount") * config.factor)

    assert more.group_names_by_key[dg.AssetKey(["shop", "more"])] == "g"
    assert io_run(upstream, paimon).success
    good, bad = (
        io_run(
            [upstream, more],
            paimon,
            run_config=dg.RunConfig({"shop__more": Doubling(factor=factor)}),
            selection=[more],
        )
        for factor in (2, -1)
    )
    assert good.success, failure_text(good)
    assert "failed greater_than(0)" in failure_text(bad)
    rows = rows_of(paimon.catalog().get_table("shop.more"))
    assert [row["amount"] for row in rows] == [2, 4]
