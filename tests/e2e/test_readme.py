"""The code of README and of docs/assets.md runs as printed; README's links lead to files."""

import ast
import importlib
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_assets import Schema
from paimon_assets.assets import PaimonCatalogResource
from paimon_assets.engine.table.api import open_catalog
from tests.testkit.syntax import syntax_of

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
ASSETS = (ROOT / "docs" / "assets.md").read_text()
MAX_WORDS = {"README.md": 700, "ARCHITECTURE.md": 1500, "docs/guarantees.md": 2000}
MAX_WORDS_OF_A_DECISION = 250

# Dagster 1.13 calls its own deprecated attribute when it sets up nested resources.
pytestmark = pytest.mark.filterwarnings("ignore:InitResourceContext.dagster_run:DeprecationWarning")


def snippet(containing: str, page: str = README) -> str:
    """Return the first Python block of a page that contains a text."""
    blocks: list[str] = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    return next(block for block in blocks if containing in block)


def names_of(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102 - it is our own text
    return names


def test_own_table_takes_ten_lines():
    lines = [line for line in snippet("def orders()").splitlines() if line.strip()]
    assert len(lines) <= 10


def test_own_table_materializes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    names = names_of(snippet("def orders()"))
    resource = names["PaimonCatalogResource"](warehouse="warehouse", executor="embedded")
    result = dg.materialize([names["orders"]], resources={"paimon": resource})
    assert result.success
    rows = open_catalog("warehouse").get_table("shop.orders").new_read_builder().to_arrow()
    assert sorted(rows.to_pydict()["id"]) == [1, 2]
    assert set(rows.to_pydict()["amount"]) == {9.9, 20.0}


def test_printed_commands_run(tmp_path):
    (tmp_path / "definitions.py").write_text(snippet("def orders()"))
    [block] = re.findall(r"```\n(dagster asset.*?)```", README, flags=re.DOTALL)
    programs = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    environment.update({"PYTHONPATH": str(ROOT), "DAGSTER_HOME": str(tmp_path)})
    for line in block.splitlines():
        done = subprocess.run(
            shlex.split(line),
            check=False,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    assert "APPEND" in done.stdout


def test_own_table_needs_only_dagster(tmp_path):
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


def test_skill_in_wheel_runs_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    package = ROOT / "paimon_assets"
    skill = (package / "SKILL.md").read_text()
    code = snippet("build_file_ingestion_asset", skill)
    names = names_of(code)
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "a.csv").write_text("id,amount\n1,2.5\n")
    run = names["defs"].resolve_implicit_global_asset_job_def().execute_in_process()
    assert run.success
    catalog = open_catalog("warehouse")
    assert catalog.get_table("shop.big").to_arrow().to_pylist() == [{"id": 2, "amount": 20.0}]
    assert catalog.get_table("shop.payments").to_arrow().num_rows == 1
    for door in re.findall(r"`(paimon_assets[.\w]*)`", (package / "llms.txt").read_text() + skill):
        if "." not in door or "component" in door:
            importlib.import_module(door)
        else:
            assert importlib.util.find_spec(door) is not None
    for component in re.findall(r"dg scaffold defs (\S+)\.(\w+)", skill):
        assert getattr(importlib.import_module(component[0]), component[1])


def test_landed_files_become_table_in_one_call(tmp_path, monkeypatch):
    schema = Schema.of({"id": "BIGINT", "amount": "DOUBLE"}, primary_keys=["id"])
    code = snippet("file_ingestion_asset", ASSETS).replace("/data/landing/orders", str(tmp_path))
    names: dict[str, Any] = {"ORDERS": schema}
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102 - it is our own text
    pq.write_table(pa.table({"id": [7], "amount": [1.5]}), tmp_path / "a.parquet")
    monkeypatch.chdir(tmp_path)
    resource = PaimonCatalogResource(warehouse="warehouse", executor="embedded")
    for _ in range(2):
        assert dg.materialize([names["landed_orders"]], resources={"paimon": resource}).success
    rows = open_catalog("warehouse").get_table("shop.orders").new_read_builder().to_arrow()
    assert rows.to_pylist() == [{"id": 7, "amount": 1.5}]


def test_frames_go_through_io_manager(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    defs = names_of(snippet("PaimonIOManager", ASSETS))["defs"]
    assets = [defs.resolve_assets_def(["shop", "sales"]), defs.resolve_assets_def("big_sales")]
    for asset, day in zip(assets, ["2024-01-02", None], strict=True):
        done = dg.materialize(
            assets, selection=[asset], resources=defs.resources, partition_key=day
        )
        assert done.success
    catalog = open_catalog("warehouse")
    rows = catalog.get_table("default.big_sales").new_read_builder().to_arrow()
    assert rows.to_pylist() == [{"shop": "eu", "len": 1}]


def test_failed_check_keeps_previous_state(tmp_path):
    names = names_of(snippet("def orders()", ASSETS) + snippet("before_commit=", ASSETS))
    resource = PaimonCatalogResource(warehouse=str(tmp_path), executor="embedded")
    checked, resources = names["checked_orders"], {"paimon": resource}
    assert not dg.materialize([checked], resources=resources, raise_on_error=False).success
    assert resource.catalog().get_table("shop.orders").latest_snapshot() is None


def test_scaffolded_component_exists():
    scaffolded = re.findall(r"dg scaffold defs ([\w.]+)\.(\w+) ", ASSETS)
    assert len(scaffolded) > 3
    for module, name in scaffolded:
        assert issubclass(getattr(importlib.import_module(module), name), dg.Component)


def test_pictures_and_links_exist():
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    local = [target for target in targets if "://" not in target]
    assert len(local) > 4
    assert [target for target in local if not (ROOT / target).exists()] == []


def test_commands_of_readme_exist():
    commands = re.findall(r"`make ([a-z-]+)`|^make ([a-z-]+)", README, flags=re.MULTILINE)
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for pair in commands:
        assert f"make {pair[0] or pair[1]} " in listed.stdout


@pytest.mark.parametrize("page", sorted(MAX_WORDS))
def test_page_is_short(page):
    assert len((ROOT / page).read_text().split()) <= MAX_WORDS[page]


def test_decision_is_one_page_with_its_cost():
    pages = [path for path in (ROOT / "docs" / "decisions").glob("*.md") if path.stem != "index"]
    assert pages
    for path in pages:
        text = path.read_text()
        assert re.findall("^## (.*)$", text, flags=re.MULTILINE) == ["Problem", "Choice", "Price"]
        assert len(text.split()) <= MAX_WORDS_OF_A_DECISION


def test_every_package_has_docstring_with_its_modules():
    packages = sorted((ROOT / "paimon_assets").rglob("__init__.py"))
    assert len(packages) > 50
    missing = []
    for path in packages:
        docstring = ast.get_docstring(syntax_of(path))
        assert docstring, f"{path} has no docstring"
        for name in _modules_of_the_index(docstring):
            places = [
                root / name.replace(".", "/") for root in (path.parent, ROOT / "paimon_assets")
            ]
            if not any(place.is_dir() or place.with_suffix(".py").exists() for place in places):
                missing.append(f"{path.parent.name}: {name}")
    assert missing == []


def _modules_of_the_index(docstring: str) -> list[str]:
    """Return the names in the right column behind "Concept → modules:" or "... → packages:"."""
    _, found, index = docstring.partition("Concept → ")
    if not found:
        return []
    rows = index.split("\n\n")[0].splitlines()[1:]
    right = [re.sub(r"^(    \S.*?  +| {8,})", "", re.sub(r" \(.*?\)", "", row)) for row in rows]
    return re.findall(r"[^\s,]+", " ".join(right))
