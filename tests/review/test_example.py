"""The workflow of examples/branch_deployments, walked with its own commands.

Production and each pull request are copies of the project, in processes of their own, on one
warehouse. GitHub's part is a script that keeps the comment.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testkit.tables import new_catalog_in, read, write

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "examples" / "branch_deployments"
WORKFLOW = ".github/workflows/data.yml"
FORKING_DAGSTER = ROOT / "tests" / "testkit" / "forking_dagster"
MAIN, PREVIEW = [(1, 9.5), (2, 3.0)], [(1, 19.0), (2, 3.0)]


class Checkout:
    """A copy of the project, perhaps changed by a pull request, and the commands that run there."""

    def __init__(self, folder: Path, factor: int = 1) -> None:
        self.folder = folder / f"factor-{factor}"
        self.warehouse = folder / "warehouse"
        shutil.copytree(PROJECT, self.folder)
        code = self.folder / "definitions.py"
        changed = code.read_text().replace('"FACTOR", "1"', f'"FACTOR", "{factor}"')
        assert f'"FACTOR", "{factor}"' in changed
        code.write_text(changed)
        gh = self.folder / "bin" / "gh"
        gh.parent.mkdir()
        gh.write_text('#!/bin/sh\necho "$1 $2 $3" > calls\ncp "$5" commented.md\n')
        gh.chmod(0o755)
        (self.folder / "home").mkdir()

    def run(self, command: str, **environment: str) -> int:
        places = [self.folder / "bin", FORKING_DAGSTER, Path(sys.executable).parent]
        path = os.pathsep.join(map(str, [*places, os.environ["PATH"]]))
        own = {
            "PATH": path,
            "DAGSTER_HOME": str(self.folder / "home"),
            "PAIMON_WAREHOUSE": str(self.warehouse),
        }
        done = subprocess.run(
            ["bash", "-e", "-c", command],
            cwd=self.folder, env={**os.environ, **own, **environment}, check=False,
        )  # fmt: skip
        return done.returncode

    def event(self, action: str, *, merged: bool = False, number: int = 7) -> int:
        """Run the steps of the workflow for an event; return the exit code of the last."""
        workflow = yaml.safe_load((self.folder / WORKFLOW).read_text())
        assert action in workflow[True]["pull_request"]["types"]  # YAML reads `on` as true
        values = {
            "github.event.action": action,
            "github.event.pull_request.merged": merged,
            "github.event.pull_request.number": number,
            "github.token": "token",
        }

        def text(template: str) -> str:
            return re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda name: str(values[name[1]]), template)

        def applies(condition: str) -> bool:
            [left, *more] = re.split(r" && ", condition)
            name, operator, word = left.split()
            flags = [(values[name] == word.strip("'")) is (operator == "==")]
            flags += [bool(values[one.lstrip("!")]) is not one.startswith("!") for one in more]
            return all(flags)

        steps = [step for step in workflow["jobs"]["data"]["steps"] if "if" in step]
        [step] = [step for step in steps if applies(step["if"])]
        assert len(steps) == 3
        branch = {"BRANCH": text(workflow["env"]["BRANCH"])}
        own = {name: text(value) for name, value in step.get("env", {}).items()}
        return self.run(step["run"], **branch, **own)

    def comment(self) -> str:
        return (self.folder / "commented.md").read_text()


@pytest.fixture
def production(tmp_path):
    """Return the project in production, which has written its tables."""
    checkout = Checkout(tmp_path)
    assert checkout.run("dagster asset materialize --select '*' -f definitions.py") == 0
    return checkout


def tables(warehouse, suffix=""):
    catalog = new_catalog_in(warehouse, "shop")
    return [read(catalog.get_table(f"shop.{name}{suffix}")) for name in ("prices", "totals")]


def branches(warehouse):
    table = new_catalog_in(warehouse, "shop").get_table("shop.prices")
    return [*table.branches.list(), *table.tags.list()]


def test_pull_request_is_opened_extended_and_merged(production, tmp_path):
    change = Checkout(tmp_path, factor=2)
    assert change.event("opened") == 0
    assert tables(production.warehouse) == [MAIN, [(12.5,)]]
    assert tables(production.warehouse, "$branch_pr-7") == [PREVIEW, [(22.0,)]]
    assert "### `shop.prices`: `main@latest` → `pr-7@latest`" in change.comment()
    assert "| price | 1 |" in change.comment()
    assert (change.folder / "calls").read_text() == "pr comment 7\n"
    assert change.event("synchronize") == 0
    assert "| price | 1 |" in change.comment()
    assert change.event("closed", merged=True) == 0
    assert tables(production.warehouse) == [PREVIEW, [(22.0,)]]
    assert branches(production.warehouse) == []


def test_closed_pull_request_leaves_nothing(production, tmp_path):
    change = Checkout(tmp_path, factor=2)
    assert change.event("opened") == 0
    assert change.event("closed") == 0
    assert tables(production.warehouse) == [MAIN, [(12.5,)]]
    assert branches(production.warehouse) == []


def test_pull_request_that_main_has_overtaken_is_refused(production, tmp_path):
    change = Checkout(tmp_path, factor=2)
    assert change.event("opened") == 0
    table = new_catalog_in(production.warehouse, "shop").get_table("shop.prices")
    write(table, (3, 1.0))
    assert change.event("synchronize") == 0
    assert "**Refused**: main has moved" in change.comment()
    assert change.event("closed", merged=True) == 6
    assert tables(production.warehouse) == [[*MAIN, (3, 1.0)], [(12.5,)]]


def test_page_shows_files_of_project():
    page = (ROOT / "docs" / "review" / "branch-deployments.md").read_text()
    for name in ("definitions.py", WORKFLOW):
        [block] = re.findall(rf'```\w+ title="{re.escape(name)}"\n(.*?)```', page, re.DOTALL)
        assert block == (PROJECT / name).read_text()
