"""The README's code runs as it stands there, and its pictures exist."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pandera.pyarrow as pap
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_assets.assets import PaimonCatalogResource, build_pandera_checks
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import open_catalog

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
SNIPPETS: list[str] = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)

# Dagster 1.13 calls its own deprecated attribute when it sets up nested resources.
pytestmark = pytest.mark.filterwarnings("ignore:InitResourceContext.dagster_run:DeprecationWarning")


def snippet(containing: str) -> str:
    [found] = [text for text in SNIPPETS if containing in text]
    return found


def names_of(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102 - it is our own text
    return names


def test_the_table_of_your_own_takes_ten_lines():
    lines = [line for line in snippet("def orders()").splitlines() if line.strip()]
    assert len(lines) <= 10


def test_the_table_of_your_own_materializes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    names = names_of(snippet("def orders()"))
    resource = names["PaimonCatalogResource"](warehouse="warehouse", executor="embedded")
    result = dg.materialize([names["orders"]], resources={"paimon": resource})
    assert result.success
    rows = open_catalog("warehouse").get_table("shop.orders").new_read_builder().to_arrow()
    assert sorted(rows.to_pydict()["id"]) == [1, 2]
    assert set(rows.to_pydict()["amount"]) == {9.9, 20.0}


def test_the_table_of_your_own_needs_no_more_than_dagster(tmp_path):
    program = (
        "import sys\n"
        "for name in ('pyspark', 'polars', 'duckdb'): sys.modules[name] = None\n"
        "class NoPandas:\n"
        "    def find_spec(name, *_):\n"
        "        if name.split('.')[0] == 'pandas': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, NoPandas)\n"
        + snippet("def orders()")
        + "\nassert dg.materialize([orders], resources=defs.resources).success\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment, check=True)
    rows = open_catalog(str(tmp_path / "warehouse")).get_table("shop.orders")
    assert rows.new_read_builder().count() == 2


def test_files_that_land_are_a_table_in_one_call(tmp_path, monkeypatch):
    schema = names_of(snippet("def orders()"))["ORDERS"]
    code = snippet("file_ingestion_asset").replace("/data/landing/orders", str(tmp_path))
    names: dict[str, Any] = {"ORDERS": schema}
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102 - it is our own text
    pq.write_table(pa.table({"id": [7], "amount": [1.5]}), tmp_path / "a.parquet")
    monkeypatch.chdir(tmp_path)
    resource = PaimonCatalogResource(warehouse="warehouse", executor="embedded")
    for _ in range(2):
        assert dg.materialize([names["orders"]], resources={"paimon": resource}).success
    rows = open_catalog("warehouse").get_table("shop.orders").new_read_builder().to_arrow()
    assert rows.to_pylist() == [{"id": 7, "amount": 1.5}]


def test_frames_go_through_the_io_manager(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    defs = names_of(snippet("PaimonIOManager"))["defs"]
    assets = [defs.resolve_assets_def(["shop", "sales"]), defs.resolve_assets_def("big_sales")]
    for asset, day in zip(assets, ["2024-01-02", None], strict=True):
        done = dg.materialize(
            assets, selection=[asset], resources=defs.resources, partition_key=day
        )
        assert done.success
    catalog = open_catalog("warehouse")
    rows = catalog.get_table("default.big_sales").new_read_builder().to_arrow()
    assert rows.to_pylist() == [{"shop": "eu", "len": 1}]


def test_what_else_a_table_does(tmp_path):
    catalog = open_catalog(str(tmp_path / "warehouse"))
    catalog.create_database("shop")
    schema = Schema.of({"id": "INT", "dt": "STRING", "price": "INT"}, partition_keys=["dt"])
    table = catalog.create_table("shop.sales", schema)
    numbers = pa.array([1, 2], pa.int32())
    rows = pa.table({"id": numbers, "dt": ["2024-01-01"] * 2, "price": numbers})
    executor = EmbeddedExecutor()
    first = table.new_write_builder().write(rows, executor).snapshot
    assert first is not None
    table.tags.create("v1", first)
    folder = tmp_path / "sales" / "dt=2024-01-02"
    folder.mkdir(parents=True)
    pq.write_table(rows.select(["id", "price"]), folder / "a.parquet")
    code = snippet("new_compaction_builder").replace("/data/sales", str(folder.parent))
    names: dict[str, Any] = {"table": table, "rows": rows, "executor": executor}
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102 - it is our own text
    read = catalog.get_table("shop.sales").new_read_builder().to_arrow()
    assert read["price"].to_pylist() == [1, 2]


def test_a_batch_that_fails_its_check_never_becomes_current(tmp_path):
    names = names_of(snippet("def orders()"))
    names["schema"] = pap.DataFrameSchema({"amount": pap.Column(float, pap.Check.lt(10))})
    names["build_pandera_checks"] = build_pandera_checks
    code = snippet("before_commit=") + "def checked():\n    return pa.table(ROWS)\n"
    names["ROWS"] = {"id": [1, 2], "amount": [9.9, 20.0]}
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102 - it is our own text
    resource = PaimonCatalogResource(warehouse=str(tmp_path), executor="embedded")
    resources = {"paimon": resource}
    assert not dg.materialize([names["checked"]], resources=resources, raise_on_error=False).success
    assert resource.catalog().get_table("shop.orders").latest_snapshot() is None


def test_the_component_that_is_scaffolded_is_one():
    [(module, name)] = re.findall(r"dg scaffold defs ([\w.]+)\.(\w+) ", README)
    component = getattr(importlib.import_module(module), name)
    assert issubclass(component, dg.Component)


def test_pictures_and_links_exist():
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    local = [target for target in targets if "://" not in target]
    assert len(local) > 4
    assert [target for target in local if not (ROOT / target).exists()] == []


def test_the_commands_of_the_readme_exist():
    commands = re.findall(r"`make ([a-z-]+)`|^make ([a-z-]+)", README, flags=re.MULTILINE)
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for pair in commands:
        assert f"make {pair[0] or pair[1]} " in listed.stdout


def test_the_index_of_the_architecture_names_what_exists():
    index = (ROOT / "ARCHITECTURE.md").read_text().split("## Where things are")[1].split("\n## ")[0]
    package = ROOT / "paimon_assets"
    sources = [
        str(path.relative_to(ROOT)) for path in (*package.rglob("*.py"), *ROOT.glob("jobs/*"))
    ]
    rooms = [
        str(path.relative_to(ROOT))
        for path in (*package.rglob("*/"), ROOT / "jobs", ROOT / "resources")
    ]
    named = re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:\.py)?)/?`", index.replace("`all_options`", ""))
    places = sources + rooms
    missing = [
        name for name in named if not any(f"/{place}".endswith(f"/{name}") for place in places)
    ]
    assert missing == []
    ambiguous = [
        name
        for name in re.findall(r"`([a-z_]+\.py)`", index.split("What crosses rooms")[1])
        if sum(source.endswith(f"/{name}") for source in sources) > 1
    ]
    assert ambiguous == []
    assert len(named) > 80
