"""Runs of an asset that are killed, or write at once: all of a run's rows are there, or none."""

import itertools
import shutil
from pathlib import Path
from typing import Any

import pytest

from paimon_assets.engine.table.api import open_catalog
from tests.testkit.effort import is_hunt
from tests.testkit.faults import materializing
from tests.testkit.faults.writers import DEATHS, SURVIVED, exit_code, fork_server

STRIDE = 43 if is_hunt() else 199
"""Calls between two deaths."""
BEFORE, NEW = [1, 2], [3, 4]

pytestmark = pytest.mark.filterwarnings(
    # Dagster 1.13 calls its own deprecated attribute when it sets up nested resources.
    "ignore:InitResourceContext.dagster_run:DeprecationWarning"
)


def numbers(warehouse: Path) -> list[int]:
    table = open_catalog(str(warehouse)).get_table(materializing.TABLE)
    found: list[Any] = table.new_read_builder().to_arrow()["n"].to_pylist()
    return sorted(found)


@pytest.mark.hunt
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_materialization_survives_kill_at_any_call(mode: str, tmp_path: Path) -> None:
    template = tmp_path / "template"
    assert materializing.materialize(str(template), mode, BEFORE)
    after = [*BEFORE, *NEW] if mode == "append" else NEW
    codes = set()
    for steps in itertools.count(STRIDE // 2, STRIDE):
        warehouse = tmp_path / str(steps)
        shutil.copytree(template, warehouse)
        code = exit_code(materializing.materialize_until_killed, str(warehouse), mode, NEW, steps)
        assert code in DEATHS
        codes.add(code)
        found = numbers(warehouse)
        assert found in (BEFORE, after)
        assert materializing.materialize(str(warehouse), mode, NEW)
        again = sorted([*found, *NEW]) if mode == "append" else NEW
        assert numbers(warehouse) == again, "another run writes anew"
        if code == SURVIVED:
            break
    assert codes - {SURVIVED}, "none died"


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_concurrent_runs_commit(mode: str, tmp_path: Path) -> None:
    """Each has staged its rows before any commits: none is lost, and none is torn."""
    assert materializing.materialize(str(tmp_path / "w"), mode, [])
    context = fork_server()
    wait = context.Barrier(3)
    writes = [[10 * number, 10 * number + 1] for number in range(1, 4)]
    processes = [
        context.Process(
            target=materializing.materialize_beside, args=(str(tmp_path / "w"), mode, write, wait)
        )
        for write in writes
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    found = numbers(tmp_path / "w")
    if mode == "append":
        assert found == sorted(itertools.chain(*writes))
    else:
        assert found in writes
