"""Each project of examples/ loads, and runs as in its README."""

import datetime as dt
import sys
import tomllib
from decimal import Decimal
from importlib import import_module
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_assets import open_catalog, update_column_type

PRICE = Decimal("9.90")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
pytestmark = [
    pytest.mark.filterwarnings("ignore:InitResourceContext.dagster_run:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*is currently in beta"),
]


@pytest.fixture
def definitions(tmp_path, monkeypatch, request):
    """Return the definitions of the project a test names, loaded in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PAIMON_EXECUTOR", "embedded")
    monkeypatch.syspath_prepend(EXAMPLES / request.param)
    yield import_module("definitions").defs
    del sys.modules["definitions"]


def materialize_all(definitions, **arguments):
    assets = definitions.resolve_asset_graph().assets_defs
    return dg.materialize(assets, **arguments).success


def rows_of(table):
    return open_catalog("warehouse").get_table(table).new_read_builder().to_arrow()


@pytest.mark.parametrize("definitions", ["change_log"], indirect=True)
def test_unordered_changes_example_runs(definitions):
    def land(name, *changes):
        names = ["id", "status", "op", "op_time"]
        rows = [dict(zip(names, change, strict=True)) | {"amount": PRICE} for change in changes]
        Path("landing/2026").mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows), f"landing/2026/{name}.parquet")

    noon = dt.datetime(2026, 1, 5, 12)
    land("2", (1, "paid", "+U", noon), (2, "new", "+I", noon))
    land("1", (1, "new", "-U", noon), (2, "draft", "+I", noon - dt.timedelta(hours=1)))
    assert materialize_all(definitions)
    rows = rows_of("shop.orders").sort_by("id")
    assert rows["status"].to_pylist() == ["paid", "new"]
    compaction = definitions.resolve_job_def("compaction_job")
    assert compaction.execute_in_process().success


@pytest.mark.parametrize("definitions", ["io_manager"], indirect=True)
def test_daily_frames_example_runs(definitions):
    for day in ("2026-01-02", "2026-01-03", "2026-01-03"):
        key = dg.AssetKey(["shop", "sales"])
        assert materialize_all(definitions, partition_key=day, selection=[key])
    assert materialize_all(definitions, selection=[dg.AssetKey(["shop", "large_sales"])])
    assert rows_of("shop.large_sales").to_pylist() == [{"shop": "us", "sales": 2, "amount": 40.0}]


@pytest.mark.parametrize("definitions", ["archive"], indirect=True)
def test_folder_example_runs(definitions):
    for year in (2024, 2025):
        Path(f"archive/year={year}").mkdir(parents=True)
        rows = pa.table({"id": [year], "amount": [1.5]})
        pq.write_table(rows, f"archive/year={year}/a.parquet")
        assert materialize_all(definitions)
    assert rows_of("shop.sales")["id"].to_pylist() == [2024, 2025]
    table = open_catalog("warehouse").get_table("shop.sales")
    [amount] = table.plan_alter([update_column_type("amount", "INT")]).columns
    assert amount.lost == 2


@pytest.mark.parametrize(
    "project", sorted(path.parent.name for path in EXAMPLES.glob("*/README.md"))
)
def test_project_lists_its_dependencies(project):
    described = tomllib.loads((EXAMPLES / project / "pyproject.toml").read_text())
    ours = tomllib.loads((EXAMPLES.parent / "pyproject.toml").read_text())["project"]
    [needed] = described["project"]["dependencies"]
    extras = needed.removeprefix("paimon-assets[").removesuffix("]").split(",")
    assert set(extras) <= set(ours["optional-dependencies"])
    assert f"[{project}]({project})" in (EXAMPLES / "README.md").read_text()
