"""Random work of many on one table, of every kind, against its history.

`STATEFUL_STEPS=1000000 STATEFUL_SEED=7` makes more of it, and other work; so does
`python -m tests.testkit.stateful.run`, which also repeats one world.
"""

import os

from tests.testkit.stateful.changes import CHANGES
from tests.testkit.stateful.reads import READS
from tests.testkit.stateful.run import run_in_processes

STEPS = 10_000
PROCESSES = 2
_FEWEST = 50
"""Of each kind of step in a run of the usual size."""


def test_a_table_is_what_its_history_says() -> None:
    steps = int(os.environ.get("STATEFUL_STEPS", STEPS))
    seed = int(os.environ.get("STATEFUL_SEED", "1"))
    report = run_in_processes(seed, steps, PROCESSES)
    assert not report.failures, "\n\n".join(map(str, report.failures))
    assert report.steps >= steps
    if steps >= STEPS:
        assert {name for name, count in report.counts.items() if count >= _FEWEST} >= {
            *CHANGES,
            *READS,
            "somebody else",
        }
