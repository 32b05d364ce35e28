"""Every interleaving of two short operations keeps every promise.

A hunt goes through more pairs, on every kind of storage, and through three at once.
"""

import pytest

from tests.simulation.interleavings import explore
from tests.simulation.runs import Schedule
from tests.simulation.world import Kind
from tests.testkit.effort import is_hunt

pytestmark = pytest.mark.hunt

PAIRS = (
    ("append", "append"),  # 46 runs on a disk, no two of them alike
    ("compact", "upsert"),  # 46
    ("compact", "compact"),  # 26
    ("delete", "compact"),  # 46
    ("tag", "expire"),  # 26
    ("rollback", "tag"),  # 22
    ("branch", "expire"),  # 82
    ("alter", "append"),  # 10
    ("ingest", "ingest"),  # 34
)
MOST_RUNS = 10_000


@pytest.mark.parametrize("pair", PAIRS, ids=" beside ".join)
def test_all_interleavings_of_two_operations(pair):
    for kind in Kind if is_hunt() else (Kind.DISK,):
        explored = explore(Schedule(kind=kind, scripts=tuple((name,) for name in pair)), MOST_RUNS)
        assert explored.is_complete
        assert explored.runs > 1, "they have nothing in common"
