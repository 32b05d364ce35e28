"""The YAML component: scaffolded, refreshed once, then loaded without the catalog."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster.components.core.component_tree import ComponentTreeException
from dagster.components.testing.utils import DefsFolderSandbox, create_defs_folder_sandbox

from paimon_assets import FormatError
from paimon_assets.assets import PaimonCatalogResource
from paimon_assets.components import PaimonTablesComponent
from tests.testkit.asset_tables import PLANES, WEATHER, data_snapshot_of, planes
from tests.testkit.tables import new_table, write

pytestmark = [
    pytest.mark.filterwarnings("ignore::dagster.BetaWarning"),
    # Dagster 1.13 parses its own YAML so.
    pytest.mark.filterwarnings("ignore:`parse_obj_as` is deprecated:DeprecationWarning"),
]


@pytest.fixture
def sandbox(paimon: PaimonCatalogResource) -> Iterator[DefsFolderSandbox]:
    """Yield a Dagster project beside a warehouse with two tables."""
    new_table(paimon.catalog(), PLANES, name="air.planes")
    paimon.catalog().create_table("air.weather", WEATHER)
    with create_defs_folder_sandbox() as project:
        yield project


def scaffold(project: DefsFolderSandbox, **params: Any) -> Path:
    return project.scaffold_component(
        component_cls=PaimonTablesComponent, defs_path="lake", scaffold_params=params or None
    )


def refresh(project: DefsFolderSandbox, path: Path) -> None:
    """Refresh the state as `dg utils refresh-defs-state` does."""
    with project.build_component_tree() as tree:
        component = tree.load_component(path)
        assert isinstance(component, PaimonTablesComponent)
        asyncio.run(component.refresh_state(project.project_root))


def keys_of(definitions: dg.Definitions) -> set[str]:
    return {spec.key.to_user_string() for spec in definitions.resolve_all_asset_specs()}


def test_scaffolded_defs_load_unchanged(sandbox: DefsFolderSandbox, warehouse: str) -> None:
    path = scaffold(sandbox)
    with sandbox.load_component_and_build_defs(defs_path=path) as (component, definitions):
        assert isinstance(component, PaimonTablesComponent)
        assert component.warehouse == f"{sandbox.project_root}/warehouse"
        assert keys_of(definitions) == set()
    shutil.copytree(warehouse, f"{sandbox.project_root}/warehouse")
    refresh(sandbox, path)
    with sandbox.load_component_and_build_defs(defs_path=path) as (_, definitions):
        assert keys_of(definitions) == {"lake/air/planes", "lake/air/weather"}


def test_definitions_load_without_catalog(sandbox: DefsFolderSandbox, warehouse: str) -> None:
    path = scaffold(sandbox, warehouse=warehouse, include="air.p*")
    refresh(sandbox, path)
    shutil.rmtree(warehouse)
    with sandbox.load_component_and_build_defs(defs_path=path) as (_, definitions):
        [spec] = definitions.resolve_all_asset_specs()
        assert spec.key == dg.AssetKey(["lake", "air", "planes"])
        assert spec.metadata["dagster/table_name"] == "air.planes"
        [sensor] = definitions.sensors or []
        assert isinstance(sensor, dg.SensorDefinition)
        assert sensor.name == "lake_new_snapshots"
        assert sensor.default_status is dg.DefaultSensorStatus.STOPPED
        with dg.build_sensor_context() as context:
            result: Any = sensor(context)
        assert "1 of 1 could not be read" in result.skip_reason.skip_message


@pytest.mark.way_out("external-tables")
def test_damaged_state_is_refreshed(sandbox: DefsFolderSandbox, warehouse: str) -> None:
    path = scaffold(sandbox, warehouse=warehouse)
    refresh(sandbox, path)
    [state] = [*sandbox.project_root.rglob("state")]
    state.write_text("[]")
    with (
        pytest.raises(ComponentTreeException) as caught,
        sandbox.load_component_and_build_defs(defs_path=path),
    ):
        pass
    assert isinstance(caught.value.__cause__, FormatError)
    assert "Refresh it: dg utils refresh-defs-state" in str(caught.value.__cause__)
    refresh(sandbox, path)
    with sandbox.load_component_and_build_defs(defs_path=path) as (_, definitions):
        assert keys_of(definitions) == {"lake/air/planes", "lake/air/weather"}


def test_component_sensor_finds_new_snapshots(
    sandbox: DefsFolderSandbox, warehouse: str, paimon: PaimonCatalogResource
) -> None:
    path = scaffold(sandbox, warehouse=warehouse)
    refresh(sandbox, path)
    write(paimon.catalog().get_table("air.planes"), planes(("N1", 1, None)))
    with sandbox.load_component_and_build_defs(defs_path=path) as (_, definitions):
        sensor: Any = definitions.resolve_sensor_def("lake_new_snapshots")
        with dg.build_sensor_context() as context:
            result = sensor(context)
    [event] = result.asset_events
    assert data_snapshot_of(event) == 1


def test_attributes_keep_their_text(
    sandbox: DefsFolderSandbox, warehouse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster would turn such texts into numbers and lists."""
    monkeypatch.setenv("LAKE_TOKEN", "0x10")
    path = scaffold(sandbox)
    attributes = {
        "warehouse": warehouse,
        "options": {"a": "4", "b": "1,2", "c": "None", "d": 7, "secret": "{{ env.LAKE_TOKEN }}"},
        "exclude": ["*.weather"],
        "key_prefix": ["lake"],
        "group_name": "others",
        "owners": ["team:lake"],
        "sensor": False,
    }
    described = {"type": "paimon_assets.components.PaimonTablesComponent", "attributes": attributes}
    (path / "defs.yaml").write_text(json.dumps(described))  # which is YAML, too
    with sandbox.load_component_and_build_defs(defs_path=path) as (component, _):
        assert isinstance(component, PaimonTablesComponent)
        expected = {"a": "4", "b": "1,2", "c": "None", "d": "7", "secret": "0x10"}
        assert component.options == expected
        assert not component.defs_state.refresh_if_dev
    refresh(sandbox, path)
    with sandbox.load_component_and_build_defs(defs_path=path) as (_, definitions):
        [spec] = definitions.resolve_all_asset_specs()
        assert spec.key == dg.AssetKey(["lake", "air", "planes"])
        assert (spec.group_name, list(spec.owners)) == ("others", ["team:lake"])
        assert not definitions.sensors
