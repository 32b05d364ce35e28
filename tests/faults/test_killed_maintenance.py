"""Maintenance killed at any call leaves every readable state as it was; a rerun completes it."""

import shutil

import numpy as np

from paimon_assets.engine.table.api import open_table
from tests.stateful.test_maintenance import Keeper, named_files, needed_exactly, stored_files
from tests.testkit.compacting import create, some_rows
from tests.testkit.faults.writers import DEATHS, exit_code, maintain, maintain_until_killed
from tests.testkit.tables import new_catalog_in, write

STRIDE = 23
MOST_STEPS = 4000


def test_maintenance_survives_kill_at_any_call(tmp_path):
    table = create(new_catalog_in(tmp_path / "template"), "t", {"changelog-producer": "lookup"})
    rng = np.random.default_rng(0)
    for number in range(5):
        write(table, some_rows(rng, 10, 20))
        if number % 2:
            table.new_compaction_builder().with_strategy("full").run()
        if number in (1, 3):
            table.tags.create("old" if number == 1 else "kept")
    keeper = Keeper()
    keeper.check(table)
    for steps in range(0, MOST_STEPS, STRIDE):
        copy = tmp_path / f"copy-{steps}"
        shutil.copytree(table.path, copy)
        code = exit_code(maintain_until_killed, str(copy), steps)
        left = open_table(str(copy))
        keeper.check(left)
        maintain(left._store)
        keeper.check(left)
        stored, needed = stored_files(left._store), needed_exactly(left._store)
        # A file that a remaining manifest names as deleted is no orphan: it goes with the manifest.
        assert needed <= stored <= needed | named_files(left._store)
        assert code != 0 or stored == needed
        assert len(left.snapshots()) == 2
        assert [tag.name for tag in left.tags.list()] == ["kept"]
        shutil.rmtree(copy)
        if code == 0:
            break
        assert code in DEATHS
    assert 10 * STRIDE < steps < MOST_STEPS
