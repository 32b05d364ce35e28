"""Random work of many on one table, of every kind, against its history.

`make hunt` does more of it; `STATEFUL_STEPS=1000000 STATEFUL_SEED=7` as much as is asked for, and
other work; so does `python -m tests.testkit.stateful.run`, which also repeats one world. On S3
processes take turns and are killed; `python -m tests.testkit.stateful.fleet` prints the counts.
"""

import os

import pytest

from tests.testkit.effort import is_hunt, often
from tests.testkit.stateful.changes import CHANGES, READS
from tests.testkit.stateful.fleet import fleet
from tests.testkit.stateful.killing import FILES_WRITTEN
from tests.testkit.stateful.run import run_in_processes

STEPS = 1_000
PROCESSES = 2
_FEWEST = 1 / 200
"""Part of all steps that each kind of step has at least."""
OPERATIONS, KILLS = (2_000, 100) if is_hunt() else (40, 3)


@pytest.mark.hunt
def test_table_equals_its_history() -> None:
    steps = int(os.environ.get("STATEFUL_STEPS", often(STEPS)))
    seed = int(os.environ.get("STATEFUL_SEED", "1"))
    report = run_in_processes(seed, steps, PROCESSES)
    assert not report.failures, "\n\n".join(map(str, report.failures))
    assert report.steps >= steps
    if steps >= STEPS:
        assert {name for name, count in report.counts.items() if count >= steps * _FEWEST} >= {
            *CHANGES,
            *READS,
            "another writer",
        }


@pytest.mark.hunt
@pytest.mark.slow
def test_commit_of_killed_process_is_there_once_or_not_at_all() -> None:
    with fleet() as found:
        found.work(seed=3, operations=OPERATIONS)
    assert found.operations >= OPERATIONS, found
    assert found.kills >= KILLS, found
    assert found.proxy.kills[FILES_WRITTEN], found
    assert found.counts["commit found"], found
