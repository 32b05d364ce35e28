"""The health of a catalog as an asset: numbers for the plots, and one check for all tables."""

import datetime as dt
from pathlib import Path

import dagster as dg
import pytest

from paimon_assets.assets import FileDebt, HealthLimits, build_table_health_asset
from paimon_assets.engine.embedded import EmbeddedExecutor
from tests.testkit.asset_tables import PLANES, WEATHER, metadata_of, planes, run

KEY = dg.AssetKey("table_health")


@pytest.fixture
def catalog(paimon):
    catalog = paimon.catalog()
    catalog.create_database("ops")
    table = catalog.create_table("ops.planes", PLANES)
    for _ in range(6):
        table.new_write_builder().write(planes(("N1", 1, "Jet")), EmbeddedExecutor())
    catalog.create_table("ops.weather", WEATHER)
    return catalog


def check_of(result):
    [check] = result.get_asset_check_evaluations()
    return check


def test_run_shows_numbers_and_worst_tables(paimon, catalog):
    metadata = metadata_of(result := run(build_table_health_asset(), paimon), KEY)
    assert (metadata["paimon/tables"], metadata["paimon/tables_due"]) == (2, 1)
    assert (metadata["paimon/lowest_score"], metadata["paimon/total_files"]) == (41, 6)
    plotted = sorted(name for name, value in metadata.items() if isinstance(value, int | float))
    assert plotted[:3] == [
        "paimon/lowest_score",
        "paimon/score/ops.planes",
        "paimon/score/ops.weather",
    ]
    assert metadata["paimon/summary"].startswith("1 of 2 tables need upkeep. ops.planes: 6 runs")
    worst, second = (line.data for line in metadata["paimon/worst_tables"])
    assert (worst["table"], second["table"]) == ("ops.planes", "ops.weather")
    assert worst["reason"] == "6 runs on level 0 of a bucket (limit 5): run compact"
    check = check_of(result)
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert check.description.startswith("1 of 2 tables need upkeep. ops.planes: 6 runs")


def test_limits_and_names_select_tables(paimon, catalog):
    lenient = HealthLimits(debt=FileDebt(level_0_runs=20), late_expiry=dt.timedelta(days=9))
    for asset in (
        build_table_health_asset(limits=lenient),
        build_table_health_asset(tables=["ops.w*"]),
    ):
        assert check_of(run(asset, paimon)).passed


def test_unreadable_table_fails_check(paimon, catalog):
    (Path(catalog.get_table("ops.planes").path) / "snapshot" / "snapshot-6").write_text("{")
    check = check_of(run(build_table_health_asset(), paimon))
    assert not check.passed
    assert "ops.planes: cannot be read" in check.description


def test_runs_are_recorded_on_request(paimon, catalog):
    asset = build_table_health_asset(record="ops.health", tables=["ops.planes"])
    assert asset.asset_deps[KEY] == {dg.AssetKey(["ops", "planes"])}
    assert asset.group_names_by_key[KEY] == "upkeep"
    for _ in range(2):
        run(asset, paimon)
    assert catalog.get_table("ops.health").to_arrow()["score"].to_pylist() == [41, 41]
