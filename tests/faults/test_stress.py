"""Eight processes write, overwrite, delete and compact at once.

Longer: `python -m tests.testkit.faults.stress`.
"""

from pathlib import Path

import pytest

from tests.testkit.effort import often
from tests.testkit.faults.stress import SCHEMAS, faults_of, run
from tests.testkit.tables import new_table

LOST = {
    "CommitConflictError commit-retries",
    "CommitConflictError file-gone",
    "CommitConflictError index-changed",
    "CommitConflictError bucket-changed",
}
"""Who was slower than others too often may give up, and says so."""


@pytest.mark.hunt
@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_what_is_acknowledged_is_what_is_read(name: str, tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMAS[name], name=f"d.{name}")
    tries = often(3)
    outcome = run(table.path, workers=8, seconds=often(120), tries=tries)
    assert faults_of(table, outcome) == []
    assert len(outcome.deeds) + outcome.nothing_done + outcome.errors.total() == 8 * tries
    kinds = {deed.kind for deed in outcome.deeds}
    assert {"write", "overwrite"} < kinds  # whether there is a row to delete is chance
    assert set(outcome.errors) <= LOST
