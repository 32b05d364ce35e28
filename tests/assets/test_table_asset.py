"""A function's frame as a table: created, verified, written once, and shown."""

import datetime as dt
from typing import Any

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from paimon_assets import InvalidInputError, Schema
from paimon_assets.assets import PaimonCatalogResource, paimon_asset
from tests.testkit.asset_tables import (
    PLANES,
    WEATHER,
    FailsOnce,
    asset_of,
    catalog_on,
    data_version_of,
    failure_text,
    lent_instance,
    metadata_of,
    planes,
    rows_of,
    run,
)

pytestmark = pytest.mark.slow

KEY = dg.AssetKey(["air", "planes"])
TWO = planes(("N1", 100, "jet"), ("N2", None, "prop"))
TWO_ROWS = [
    {"tailnum": "N1", "seats": 100, "engine": "jet"},
    {"tailnum": "N2", "seats": None, "engine": "prop"},
]


def planes_asset(frame: Any, **options: Any) -> dg.AssetsDefinition:
    return asset_of("air.planes", PLANES, frame, **options)


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(lambda: TWO, id="table"),
        pytest.param(lambda: TWO.to_batches()[0], id="record-batch"),
        pytest.param(TWO.to_reader, id="reader"),
        pytest.param(lambda: ds.dataset(TWO), id="dataset"),
        pytest.param(lambda: ds.dataset(TWO).scanner(), id="scanner"),
        pytest.param(TWO.to_pandas, id="pandas-with-float-gaps"),
        pytest.param(lambda: TWO.to_pandas().set_index("tailnum"), id="pandas-index"),
        pytest.param(lambda: pl.from_arrow(TWO), id="polars"),
        pytest.param(lambda: pl.from_arrow(TWO).lazy(), id="polars-lazy"),  # type: ignore[union-attr]  # because a table gives a frame
        pytest.param(
            lambda: pl.from_arrow(TWO).with_columns(pl.col("engine").cast(pl.Categorical)),  # type: ignore[union-attr]  # as above
            id="polars-categories",
        ),
    ],
)
def test_every_frame_library_writes_same_rows(frame: Any, paimon: PaimonCatalogResource) -> None:
    result = run(planes_asset(frame), paimon)
    assert result.success, failure_text(result)
    assert rows_of(paimon.catalog().get_table("air.planes")) == TWO_ROWS


def test_second_run_upserts_in_one_snapshot(paimon: PaimonCatalogResource) -> None:
    assert run(planes_asset(TWO), paimon).success
    assert run(planes_asset(planes(("N2", 7, "jet"), ("N3", 8, "jet"))), paimon).success
    table = paimon.catalog().get_table("air.planes")
    assert [row["seats"] for row in rows_of(table)] == [100, 7, 8]
    assert [snapshot.id for snapshot in table.snapshots()] == [1, 2]


def test_definition_has_metadata_of_table_asset() -> None:
    asset = planes_asset(TWO, warehouse="s3://lake/wh", owners=["team:lake"], code_version="3")
    [spec] = asset.specs
    assert spec.key == KEY
    assert spec.group_name == "air"
    assert spec.kinds == {"paimon"}
    assert spec.description == "Planes by tail number."
    assert spec.tags["dagster/storage_kind"] == "paimon"
    assert spec.metadata["dagster/table_name"] == "air.planes"
    assert spec.metadata["dagster/uri"] == "s3://lake/wh/air.db/planes"
    assert asset.op.pool == "paimon/air.planes"
    columns = spec.metadata["dagster/column_schema"]
    assert [(c.name, c.type, c.constraints.nullable) for c in columns.columns] == [
        ("tailnum", "STRING", False),
        ("seats", "INT", True),
        ("engine", "STRING", True),
    ]
    assert columns.columns[0].constraints.other == ["primary key"]
    assert columns.columns[1].description == "Seats for passengers."


def test_options_of_asset_override_those_of_table(paimon: PaimonCatalogResource) -> None:
    asset = planes_asset(TWO, key_prefix=["lake", "air"], group_name="g", kinds={"x"})
    assert asset.key == dg.AssetKey(["lake", "air", "planes"])
    [spec] = asset.specs
    assert (spec.group_name, spec.kinds) == ("g", {"paimon", "x"})
    assert run(asset, paimon).success


def test_upper_case_columns_are_shown_by_run(paimon: PaimonCatalogResource) -> None:
    @paimon_asset("air.upper", Schema.of({"Tail": "STRING"}))
    def upper() -> pa.Table:
        return pa.table({"Tail": ["a"]})

    [spec] = upper.specs
    assert "dagster/column_schema" not in spec.metadata
    shown = metadata_of(run(upper, paimon), upper.key)["dagster/column_schema"]
    assert [column.name for column in shown.columns] == ["Tail"]


def test_materialization_shows_numbers_of_table(paimon: PaimonCatalogResource) -> None:
    run(planes_asset(TWO), paimon)
    overlapping = planes(("N2", 7, "jet"), ("N3", 8, "jet"))
    result = run(planes_asset(overlapping, code_version="9"), paimon)
    shown = metadata_of(result, KEY)
    table = paimon.catalog().get_table("air.planes")
    expected = {
        "dagster/table_name": "air.planes",
        "dagster/uri": table.path,
        "dagster/row_count": 3,
        "dagster/size_bytes": sum(entry.file.file_size for entry in table.state.live_files()),
        "paimon/snapshot_id": 2,
        "paimon/schema_id": 0,
        "paimon/commit_kind": "APPEND",
        "paimon/added_rows": 2,
        "paimon/stored_rows": 4,
        "paimon/total_files": len(table.state.live_files()),
        "paimon/rows_in": 2,
        "paimon/rows_written": 2,
    }
    assert {key: shown.get(key) for key in expected} == expected
    assert 1 <= shown["paimon/added_files"] < shown["paimon/total_files"]
    recent = shown["paimon/recent_snapshots"]
    assert [record.data["snapshot"] for record in recent] == [2, 1]
    assert data_version_of(result, KEY).startswith("2-")


def test_snapshot_names_run_that_wrote_it(paimon: PaimonCatalogResource) -> None:
    result = run(planes_asset(TWO, code_version="9"), paimon)
    snapshot = paimon.catalog().get_table("air.planes").latest_snapshot()
    assert snapshot is not None
    properties = {key: v for key, v in snapshot.properties.items() if key.startswith("dagster.")}
    assert properties == {
        "dagster.run-id": result.run_id,
        "dagster.job": "__ephemeral_asset_job__",
        "dagster.asset-key": "air/planes",
        "dagster.code-version": "9",
        "dagster.step-key": "air__planes",
    }
    assert snapshot.commit_user == f"dagster:{result.run_id}:air__planes:"


def test_run_without_rows_creates_table_and_commits_nothing(paimon: PaimonCatalogResource) -> None:
    result = run(planes_asset(lambda: None), paimon)
    assert result.success, failure_text(result)
    table = paimon.catalog().get_table("air.planes")
    assert table.latest_snapshot() is None
    assert metadata_of(result, KEY)["paimon/rows_in"] == 0
    run(planes_asset(TWO), paimon)
    assert data_version_of(run(planes_asset(lambda: None), paimon), KEY).startswith("1-")


def test_function_takes_context_config_resources_and_inputs(paimon: PaimonCatalogResource) -> None:
    class Seats(dg.Config):
        seats: int = 3

    @dg.asset
    def names() -> list[str]:
        return ["N8", "N9"]

    @paimon_asset("air.planes", PLANES, ins={"names": dg.AssetIn("names")})
    def air_planes(
        context: dg.AssetExecutionContext,
        config: Seats,
        names: list[str],
        lake: PaimonCatalogResource,
    ) -> pa.Table:
        assert lake.executor == "embedded"
        context.log.info("asked for %d seats", config.seats)
        return planes(*[(name, config.seats, None) for name in names])

    with lent_instance() as instance:
        result = dg.materialize(
            [names, air_planes],
            resources={"lake": paimon},
            run_config=dg.RunConfig(ops={"air__planes": Seats(seats=5)}),
            instance=instance,
        )
    assert result.success, failure_text(result)
    found = rows_of(paimon.catalog().get_table("air.planes"))
    assert [(row["tailnum"], row["seats"]) for row in found] == [("N8", 5), ("N9", 5)]


def test_result_has_its_own_metadata_and_checks(paimon: PaimonCatalogResource) -> None:
    spec = dg.AssetCheckSpec("enough", asset=KEY)

    @paimon_asset("air.planes", PLANES, check_specs=[spec])
    def air_planes() -> dg.MaterializeResult[pa.Table]:
        checked = dg.AssetCheckResult(passed=True, check_name="enough")
        return dg.MaterializeResult(value=TWO, metadata={"mine": 7}, check_results=[checked])

    result = run(air_planes, paimon)
    assert result.success, failure_text(result)
    assert metadata_of(result, KEY)["mine"] == 7
    assert [evaluation.passed for evaluation in result.get_asset_check_evaluations()] == [True]
    assert len(rows_of(paimon.catalog().get_table("air.planes"))) == 2


def test_different_stored_schema_is_refused_by_difference(paimon: PaimonCatalogResource) -> None:
    run(planes_asset(TWO), paimon)
    other = Schema.of(
        {"tailnum": "STRING", "seats": "BIGINT", "year": "INT"},
        primary_keys=["tailnum"],
        options={"bucket": "4"},
    )

    @paimon_asset("air.planes", other)
    def air_planes() -> pa.Table:
        raise AssertionError("the function must not run")

    text = failure_text(run(air_planes, paimon))
    assert "column 'seats' is declared BIGINT but stored INT" in text
    assert "column 'year' INT is declared but not in the table" in text
    assert "column 'engine' STRING is in the table but not declared" in text
    assert "option 'bucket' is declared '4' but stored '2'" in text


def test_invalid_rows_fail_once_and_are_not_committed(paimon: PaimonCatalogResource) -> None:
    calls = []

    def frame() -> pd.DataFrame:
        calls.append(1)
        return pd.DataFrame({"tailnum": ["N1"], "seats": [1.5], "engine": ["jet"]})

    policy = dg.RetryPolicy(max_retries=2, delay=0)
    result = run(planes_asset(frame, retry_policy=policy), paimon)
    assert "Column 'seats'" in failure_text(result)
    assert len(calls) == 1
    assert paimon.catalog().get_table("air.planes").latest_snapshot() is None


def test_invalid_frame_is_refused_by_its_type(paimon: PaimonCatalogResource) -> None:
    text = failure_text(run(planes_asset(lambda: {"a": 1}), paimon))
    assert "The rows are a builtins.dict" in text


def test_retried_step_reports_commit_without_computing_again(warehouse: str) -> None:
    file_io = FailsOnce(after_publish_of="/snapshot-1")
    calls = []

    def frame() -> pa.Table:
        calls.append(1)
        return TWO

    paimon = catalog_on(file_io, warehouse)
    result = run(planes_asset(frame), paimon)
    assert file_io.has_failed
    assert result.success, failure_text(result)
    assert len(calls) == 1, "the retry found the commit and did not compute again"
    shown = metadata_of(result, KEY)
    assert (shown["paimon/already_committed"], shown["paimon/snapshot_id"]) == (True, 1)
    assert [s.id for s in paimon.catalog().get_table("air.planes").snapshots()] == [1]


def test_retried_step_evaluates_its_checks_without_write(warehouse: str) -> None:
    file_io = FailsOnce(after_publish_of="/snapshot-1")

    @paimon_asset("air.planes", PLANES, check_specs=[dg.AssetCheckSpec("enough", asset=KEY)])
    def air_planes() -> dg.MaterializeResult[pa.Table]:
        checked = dg.AssetCheckResult(passed=True, check_name="enough")
        return dg.MaterializeResult(value=TWO, check_results=[checked])

    paimon = catalog_on(file_io, warehouse)
    result = run(air_planes, paimon)
    assert file_io.has_failed
    assert result.success, failure_text(result)
    assert [evaluation.passed for evaluation in result.get_asset_check_evaluations()] == [True]
    assert [s.id for s in paimon.catalog().get_table("air.planes").snapshots()] == [1]


def test_unknown_option_is_refused_at_definition() -> None:
    with pytest.raises(InvalidInputError, match="Did you mean 'partitions_def'"):
        planes_asset(TWO, partition_defs=1)


def test_another_run_writes_again(paimon: PaimonCatalogResource) -> None:
    @paimon_asset("air.weather", WEATHER)
    def weather() -> pa.Table:
        return pa.table({"origin": ["EWR"], "temp": [1.5], "day": [dt.date(2013, 1, 1)]})

    run(weather, paimon)
    shown = metadata_of(run(weather, paimon), weather.key)
    assert shown["dagster/row_count"] == 2


def test_partition_column_must_exist_and_needs_partitions_def() -> None:
    days = dg.DailyPartitionsDefinition("2013-01-01")
    with pytest.raises(InvalidInputError, match="none of its columns"):
        paimon_asset("a.b", WEATHER, partitions_def=days, partition_column="nope")
    with pytest.raises(InvalidInputError, match="needs both"):
        paimon_asset("a.b", WEATHER, partitions_def=days)
    with pytest.raises(InvalidInputError, match="needs both"):
        paimon_asset("a.b", WEATHER, partition_column="day")


def test_table_name_without_database_is_refused_at_definition() -> None:
    with pytest.raises(InvalidInputError, match="names no table"):
        paimon_asset("planes", PLANES)


def test_options_of_dagster_are_passed_on_and_kinds_are_added() -> None:
    @dg.failure_hook
    def alert(_: dg.HookContext) -> None: ...

    options: Any = {"name": "late", "pool": "slow", "hooks": {alert}, "kinds": {"pandas"}}

    @paimon_asset("air.weather", WEATHER, executor="embedded", **options)
    def weather() -> Any: ...

    assert weather.key == dg.AssetKey("late")
    assert weather.op.pool == "slow"
    assert weather.hook_defs == {alert}
    assert {"paimon", "pandas"} <= weather.get_asset_spec().kinds
