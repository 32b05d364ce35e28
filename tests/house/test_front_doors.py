"""Importing a part loads no more than it needs. Linters cannot see this: parents are run first."""

import ast
import json
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

from paimon_assets.cli.main import COMMANDS, main
from tests.house.cli_page import COMMAND, PAGE, page
from tests.testkit.syntax import syntax_of

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("dagster", "pyspark", "pandas", "polars")
LIGHT_DOORS = {
    "paimon_assets": (*HEAVY, "pyarrow", "numpy"),
    "paimon_assets.engine": (*HEAVY, "pyarrow", "numpy"),
    "paimon_assets.engine.spec.metadata.snapshot": (*HEAVY, "pyarrow", "numpy", "fastavro"),
    "paimon_assets.engine.lsm": (*HEAVY, "pyarrow", "numpy", "fastavro"),
    "paimon_assets.engine.data.worker": (
        *HEAVY,
        "paimon_assets.engine.control",
        "paimon_assets.engine.table",
    ),
    "paimon_assets.engine.table.table": (*HEAVY, "pyarrow", "numpy", "sqlglot"),
    "paimon_assets.engine.table.api": (*HEAVY, "pyarrow", "numpy", "sqlglot"),
    "paimon_assets.engine.table.write.write_builder": (*HEAVY, "sqlglot"),
    "paimon_assets.engine.table.read.read_builder": (*HEAVY, "sqlglot"),
    "paimon_assets.engine.table.upkeep.compaction": (*HEAVY, "sqlglot"),
    "paimon_assets.cli.main": (*HEAVY, "pyarrow", "numpy", "rich", "sqlglot", "starlette"),
    "paimon_assets.server.serve": HEAVY,
    "paimon_assets.spark.worker": (
        *("dagster", "pandas", "polars"),
        "paimon_assets.engine.control",
        "paimon_assets.engine.table",
    ),
}
"""Module → modules that an import of it in a fresh interpreter does not load."""


@pytest.mark.parametrize("module", sorted(LIGHT_DOORS))
def test_public_import_is_light(module: str) -> None:
    program = f"import sys, json, {module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert set(json.loads(done.stdout.splitlines()[-1])).isdisjoint(LIGHT_DOORS[module])


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("paimon_assets.SparkExecutor", "pyspark", "spark"),
        ("paimon_assets.assets.paimon_asset", "dagster", "dagster"),
    ],
)
def test_missing_package_names_its_extra(name: str, package: str, extra: str) -> None:
    door, _, wanted = name.rpartition(".")
    program = f"import sys; sys.modules['{package}'] = None; from {door} import {wanted}"
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.endswith(f"'{wanted}' needs the package '{package}': "
                         f"pip install 'paimon-assets[{extra}]'")  # fmt: skip


DOORS = ["paimon_assets", "paimon_assets.assets", "paimon_assets.cdc", "paimon_assets.spark"]


@pytest.mark.parametrize("door", DOORS)
def test_public_names_equal_those_of_type_checkers(door: str) -> None:
    package = import_module(door)
    assert dir(package) == package.__all__
    tree = syntax_of(Path(str(package.__file__)))
    imports = {
        alias.asname: getattr(import_module(str(statement.module)), alias.name)
        for block in tree.body
        if isinstance(block, ast.If)
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert imports
    assert {name: getattr(package, name) for name in package.__all__} == imports
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = package.nothing


def test_pages_name_only_public_api() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    named = [
        (page.name, module)
        for page in pages
        for module in re.findall(
            r"^from (paimon_assets[\w.]*) import", page.read_text(), re.MULTILINE
        )
    ]
    assert named
    assert [where for where in named if where[1].count(".") > 1] == []


def test_command_summaries_are_their_own() -> None:
    for named in COMMANDS.values():
        for name, (_, summary) in named.items():
            command = main.get_command(click.Context(main), name)
            assert command is not None
            assert command.name == name
            assert (command.help or "").partition("\n")[0] == summary


def test_every_command_prints_json_on_demand() -> None:
    def leaves(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
        if not isinstance(command, click.Group):
            yield path, command
            return
        for name, below in command.commands.items():
            yield from leaves(below, f"{path} {name}")

    without = [
        path
        for named in COMMANDS.values()
        for name in named
        if (command := main.get_command(click.Context(main), name)) is not None
        for path, leaf in leaves(command, name)
        if all("--json" not in option.opts for option in leaf.params)
    ]
    assert without == ["serve", "follow", "completion"]


def test_command_page_is_current() -> None:
    written = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    assert written == page(), f"docs/cli.md is not what the commands say; run: {COMMAND}"


def test_command_is_in_its_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, name = project["scripts"]["paimon-assets"].partition(":")
    assert callable(getattr(import_module(module), name))


def test_package_runs_as_its_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["paimon_assets", "--help"])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_module("paimon_assets", run_name="__main__")
    assert stopped.value.code == 0
    assert "serve" in capsys.readouterr().out
