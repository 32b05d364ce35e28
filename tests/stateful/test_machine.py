"""Random work of many on one table, of every kind, against its history.

`make hunt` does more of it; `STATEFUL_STEPS=1000000 STATEFUL_SEED=7` as much as is asked for, and
other work; so does `python -m tests.testkit.stateful.run`, which also repeats one world.
"""

import os

import pytest

from tests.testkit.effort import often
from tests.testkit.stateful.changes import CHANGES, READS
from tests.testkit.stateful.run import run_in_processes

STEPS = 1_000
PROCESSES = 2
_FEWEST = 1 / 200
"""Part of all steps that each kind of step has at least."""


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
