"""Killed runs of a change log: the table is as before or after, and exact after the next run."""

import itertools
import shutil
from pathlib import Path
from typing import Any

import pytest

from paimon_assets.engine.table.api import open_catalog
from tests.cdc.kit.change_logs import GONE, debezium, land
from tests.testkit.effort import is_hunt
from tests.testkit.faults.following import TABLE, follow, follow_until_killed
from tests.testkit.faults.writers import DEATHS, SURVIVED, exit_code

STRIDE = 7 if is_hunt() else 131
"""Calls between two kills."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        # Dagster 1.13 calls its own deprecated attribute when it sets up nested resources.
        "ignore:InitResourceContext.dagster_run:DeprecationWarning"
    ),
]
BEFORE = {1: ("a", "long 1", None), 2: ("a", "long 2", None), 3: ("a", "x", None)}
CHANGES = {
    "keys, deletes, a new column": (
        [
            debezium("u", 20, id=1, state="b", note=GONE, price="7"),
            debezium("d", 30, id=2),
            debezium("c", 30, id=12, state="a", note=GONE),
            "no record",
            debezium("d", 40, id=3),
            debezium("c", 50, id=4, state="d", note="y", price="9"),
        ],
        {1: ("b", "long 1", "7"), 12: ("a", "long 2", None), 4: ("d", "y", "9")},
    ),
    "a truncate": (
        [debezium("t", 20), debezium("c", 30, id=9, state="z", note="only", price="1")],
        {9: ("z", "only", "1")},
    ),
}


def rows_of(home: Path, table: str = TABLE) -> dict[int, tuple[Any, ...]]:
    rows = open_catalog(str(home / "lake")).get_table(table).to_arrow().to_pylist()
    return {row["id"]: (row["state"], row["note"], row.get("price")) for row in rows}


@pytest.mark.hunt
@pytest.mark.parametrize("name", CHANGES)
def test_killed_run_leaves_rows_before_or_after(name: str, tmp_path: Path) -> None:
    changes, after = CHANGES[name]
    template = tmp_path / "template"
    (template / "landing").mkdir(parents=True)
    rows = [(1, "long 1"), (2, "long 2"), (3, "x")]
    first = [debezium("c", 10, id=key, state="a", note=note) for key, note in rows]
    land(template / "landing", "1", *first)
    assert follow(str(template))
    assert rows_of(template) == BEFORE
    land(template / "landing", "2", *changes)
    codes = set()
    for steps in itertools.count(STRIDE // 2, STRIDE):
        home = tmp_path / str(steps)
        shutil.copytree(template, home)
        code = exit_code(follow_until_killed, str(home), steps)
        assert code in DEATHS
        codes.add(code)
        assert rows_of(home) in (BEFORE, after)
        assert follow(str(home))
        assert rows_of(home) == after
        assert follow(str(home))
        assert rows_of(home) == after
        if "no record" in changes:
            letters = open_catalog(str(home / "lake")).get_table("d.letters").to_arrow()
            assert letters.num_rows == 1
        if code == SURVIVED:
            break
    assert codes - {SURVIVED}, "no run was killed"
