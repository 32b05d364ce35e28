"""A compaction killed at any moment leaves the rows as they were; a rerun ends it."""

import shutil

import numpy as np
import pytest

from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from paimon_assets.engine.table.api import open_catalog, open_table
from tests.testkit.compacting import create, rows_of, some_rows, write
from tests.testkit.effort import is_hunt
from tests.testkit.faults.writers import DEATHS, compact, compact_until_killed, exit_code

STRIDE = 31 if is_hunt() else 67
"""Moments between two deaths that are tried; each table is killed at others."""
MOST_STEPS = 1000

SCENES = {
    "key, with changelog": {"changelog-producer": "lookup"},
    "key, with deletion vectors": {"deletion-vectors.enabled": "true", "write-only": "true"},
    "append": None,
}


@pytest.mark.hunt
@pytest.mark.parametrize("scene", SCENES)
def test_a_compaction_may_die_at_any_moment(scene, tmp_path):
    options = SCENES[scene]
    catalog = open_catalog(str(tmp_path / "template"))
    catalog.create_database("db")
    table = create(catalog, "t", options or {}, keyed=options is not None)
    rng = np.random.default_rng(0)
    write(table, some_rows(rng, 900, 1000))
    if options is not None:
        table.new_compaction_builder().with_strategy("full").run()
    for _ in range(5):
        write(table, some_rows(rng, 10, 1000))
    commits = table.latest_snapshot().id
    before = rows_of(table)
    expected = None
    seen = set()
    for steps in range(sorted(SCENES).index(scene), MOST_STEPS, STRIDE):
        copy = tmp_path / f"copy-{steps}"
        shutil.copytree(table.path, copy)
        code = exit_code(compact_until_killed, str(copy), steps)
        left = open_table(str(copy))
        committed = left.latest_snapshot().id > commits
        if not committed:
            assert rows_of(left) == before
        outcome = compact(left)
        assert outcome.was_already_committed == committed
        assert outcome.snapshot.commit_kind is CommitKind.COMPACT
        assert outcome.snapshot.id == commits + 1
        expected = expected or rows_of(left)
        assert rows_of(left) == expected
        shutil.rmtree(copy)
        seen.add(committed)
        if code == 0:
            break
        assert code in DEATHS
    assert seen == {False, True}
