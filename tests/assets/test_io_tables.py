"""Assets of the IO manager have the metadata, checks and jobs of table assets."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from paimon_assets import InvalidInputError, assets
from paimon_assets.assets.jobs.compaction import COMPACTION_OP, StrategyChoice
from tests.testkit.asset_tables import (
    PLANES,
    asset_of,
    failure_text,
    instance_beside,
    metadata_of,
    planes,
)
from tests.testkit.io_manager_runs import io_run

TWO = planes(("N1", 100, "jet"), ("N2", None, "prop"))


def by_hand(**options: Any) -> dg.AssetsDefinition:
    def fleet() -> pa.Table:
        return TWO

    settings: Any = {"metadata": assets.paimon_output(schema=PLANES, mode="append"), **options}
    asset: dg.AssetsDefinition = dg.asset(**settings)(fleet)
    return asset


def manager(paimon: assets.PaimonCatalogResource) -> assets.PaimonIOManager:
    return assets.PaimonIOManager(paimon=paimon, database="air")


def fleet_asset(paimon: assets.PaimonCatalogResource, **options: Any) -> dg.AssetsDefinition:
    [asset] = assets.as_table_assets([by_hand(**options)], io_manager=manager(paimon))
    assert isinstance(asset, dg.AssetsDefinition)
    return asset


def test_io_manager_asset_has_metadata_of_paimon_asset(
    paimon: assets.PaimonCatalogResource,
) -> None:
    wanted = asset_of(
        "air.fleet", PLANES, key="fleet", executor="embedded", warehouse=paimon.warehouse
    )
    asset = fleet_asset(paimon)
    have, want = asset.get_asset_spec(), wanted.get_asset_spec()
    assert {key: have.metadata[key] for key in want.metadata} == dict(want.metadata)
    assert (have.kinds, have.tags, have.description) == (want.kinds, want.tags, want.description)
    assert have.group_name == want.group_name == "air"
    assert asset.op.pool == wanted.op.pool == "paimon/air.fleet"
    assert have.metadata["dagster/uri"] == f"{paimon.warehouse}/air.db/fleet"
    columns = have.metadata["dagster/column_schema"].columns
    assert columns[1].description == "Seats for passengers."


def test_values_of_definition_are_kept(paimon: assets.PaimonCatalogResource) -> None:
    asset = fleet_asset(
        paimon,
        kinds={"polars"},
        pool="mine",
        group_name="ours",
        description="Ours.",
        metadata=assets.paimon_output(table="sky.fleet", executor="spark"),
    )
    spec = asset.get_asset_spec()
    assert spec.kinds == {"polars", "paimon", "spark"}
    assert (asset.op.pool, spec.group_name, spec.description) == ("mine", "ours", "Ours.")
    assert spec.metadata["dagster/table_name"] == "sky.fleet"


def test_io_manager_asset_is_checked_and_compacted_in_its_pool(
    paimon: assets.PaimonCatalogResource,
) -> None:
    asset = fleet_asset(paimon, pool="mine")
    checks = [assets.build_row_count_check(asset, 2), assets.build_schema_check(asset, PLANES)]
    result = io_run([asset, *checks], paimon, manager=manager(paimon))
    assert result.success, failure_text(result)
    assert [check.passed for check in result.get_asset_check_evaluations()] == [True, True]
    assert metadata_of(result, asset.key)["dagster/table_name"] == "air.fleet"
    job = assets.build_compaction_job([asset], "c", suggestion=assets.CompactionConfig())
    assert "mine" in {node.name: node.definition for node in job.nodes}[COMPACTION_OP].pools
    config = assets.CompactionConfig(strategy=StrategyChoice.full)
    defs = dg.Definitions(
        [asset], jobs=[job], resources={"paimon": paimon, "io_manager": manager(paimon)}
    )
    with instance_beside(paimon) as instance:
        run = defs.resolve_job_def("c").execute_in_process(
            instance=instance, run_config=dg.RunConfig(ops={COMPACTION_OP: config})
        )
    compacted = [event.asset_key for event in run.get_asset_materialization_events()]
    observed = [event.asset_key for event in run.get_asset_observation_events()]
    assert [*compacted, *observed] == [asset.key]


def test_multi_asset_is_several_tables(paimon: assets.PaimonCatalogResource) -> None:
    @dg.multi_asset(
        outs={
            name: dg.AssetOut(metadata=assets.paimon_output(mode="append")) for name in ("a", "b")
        }
    )
    def both() -> tuple[pa.Table, pa.Table]:
        return TWO, TWO

    [asset] = assets.as_table_assets([both], io_manager=manager(paimon))
    assert isinstance(asset, dg.AssetsDefinition)
    assert [spec.metadata["dagster/table_name"] for spec in asset.specs] == ["air.a", "air.b"]
    job = assets.build_compaction_job([asset], "c")
    assert {node.name for node in job.nodes} == {COMPACTION_OP}
    assert asset.op.pool == "paimon/both"
    [compact] = job.nodes
    assert {"paimon/both", "paimon/compaction"} == compact.definition.pools


def test_assets_without_tables_pass_unchanged(paimon: assets.PaimonCatalogResource) -> None:
    @dg.asset(io_manager_key="other")
    def elsewhere() -> int:
        return 1

    @dg.asset
    def nothing() -> None: ...

    given = [elsewhere, nothing, asset_of("air.planes", PLANES), dg.AssetSpec("external")]
    assert assets.as_table_assets(given, io_manager=manager(paimon)) == given


def test_key_of_one_part_names_way_to_table() -> None:
    with pytest.raises(InvalidInputError, match="as_table_assets"):
        assets.build_row_count_check(by_hand(), 2)


def test_two_assets_of_one_table_are_refused(paimon: assets.PaimonCatalogResource) -> None:
    @dg.asset(key=["x", "air", "fleet"])
    def first() -> Any: ...

    @dg.asset(key=["y", "air", "fleet"])
    def second() -> Any: ...

    with pytest.raises(InvalidInputError, match=r"'x/air/fleet' and 'y/air/fleet'.*'air.fleet'"):
        assets.as_table_assets([first, second], io_manager=manager(paimon))
    third = asset_of("air.fleet", PLANES)
    fourth = asset_of("air.fleet", PLANES, key="fleet")
    with pytest.raises(InvalidInputError, match="'air/fleet' and 'fleet'"):
        assets.refuse_shared_tables([third, fourth])
    assets.refuse_shared_tables([third])
    spec = next(iter(third.specs)).replace_attributes(key="seen", code_version=None)
    observed = assets.build_observable_tables([spec], paimon.catalog)
    assets.refuse_shared_tables([third, observed])


def _fleet_asset(**options: Any) -> dg.AssetsDefinition:
    asset: dg.AssetsDefinition = dg.asset(**options)(fleet)
    return asset


def fleet() -> pa.Table:
    return TWO


@pytest.mark.parametrize(
    "other",
    [
        {"key": ["x", "air", "fleet"]},
        {"key": "copy", "metadata": assets.paimon_output(table="air.fleet")},
        {"key": ["x", "air", "fleet"], "io_manager_key": "second"},
        None,
    ],
)
def test_second_stored_asset_of_table_is_refused_before_commit(
    paimon: assets.PaimonCatalogResource, other: dict[str, Any] | None
) -> None:
    second = _fleet_asset(**other) if other else asset_of("air.fleet", PLANES, key="typed")
    resources = {"io_manager": manager(paimon), "second": manager(paimon), "paimon": paimon}
    defs = dg.Definitions([_fleet_asset(), second], resources=resources)
    with pytest.raises(InvalidInputError, match=r"both write table 'air\.fleet'"):
        assets.refuse_shared_tables(defs)
    result = defs.resolve_implicit_global_asset_job_def().execute_in_process(raise_on_error=False)
    failures = [event for event in result.all_events if event.is_step_failure]
    assert len(failures) == 2
    assert "both write table 'air.fleet'" in str(failures)
    assert "air" not in paimon.catalog().list_databases()


def test_tables_of_one_name_in_two_warehouses_are_not_shared(
    paimon: assets.PaimonCatalogResource, tmp_path: Path
) -> None:
    far = assets.PaimonIOManager(warehouse=str(tmp_path / "far"))
    second = _fleet_asset(key=["x", "air", "fleet"], io_manager_key="far")
    resources = {"io_manager": manager(paimon), "far": far}
    defs = dg.Definitions([_fleet_asset(), second], resources=resources)
    assets.refuse_shared_tables(defs)
    assert defs.resolve_implicit_global_asset_job_def().execute_in_process().success


def test_manager_takes_fields_of_its_catalog(tmp_path: Path) -> None:
    @dg.asset(key=["air", "seats"])
    def seats() -> pa.Table:
        return pa.table({"id": [1]})

    manager = assets.PaimonIOManager(warehouse=str(tmp_path))
    assert dg.materialize([seats], resources={"io_manager": manager}).success
    assert manager.paimon.catalog().get_table("air.seats").to_arrow().num_rows == 1
    with pytest.raises(InvalidInputError, match="has the catalog as 'paimon'"):
        assets.PaimonIOManager(paimon=manager.paimon, warehouse="x")


def test_unknown_field_is_refused_with_nearest_name() -> None:
    with pytest.raises(InvalidInputError, match=r"'warehous'\. Did you mean 'warehouse'"):
        assets.PaimonCatalogResource(warehous="x")
    with pytest.raises(InvalidInputError, match="no 'path'"):
        assets.PaimonCatalogResource(path="x")
    with pytest.raises(InvalidInputError, match=r"'mod'\. Did you mean 'mode'"):
        assets.PaimonIOManager(warehouse="x", mod="append")
    with pytest.raises(InvalidInputError, match=r"'warehose'\. Did you mean 'warehouse'"):
        assets.PaimonIOManager(warehose="x")


_LOCATION = """
import dagster as dg
import pyarrow as pa
from paimon_assets.assets import PaimonIOManager

@dg.asset(key=["air", "fleet"])
def one() -> pa.Table: ...

@dg.asset(key=["x", "air", "fleet"])
def two() -> pa.Table: return pa.table({"id": [1]})

io_manager = PaimonIOManager(warehouse="memory://shared", executor="embedded")
defs = dg.Definitions([one, two], resources={"io_manager": io_manager})
"""


def test_run_refuses_table_of_two_assets(tmp_path: Path) -> None:
    (tmp_path / "location.py").write_text(_LOCATION)
    command = [sys.executable, "-m", "dagster", "asset", "materialize", "-f", "location.py"]
    environment = {**os.environ, "DAGSTER_HOME": ""}
    outcome = subprocess.run(
        [*command, "--select", "x/air/fleet"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode
    text = outcome.stdout + outcome.stderr
    assert "Assets 'air/fleet' and 'x/air/fleet' both write table 'air.fleet'" in text
