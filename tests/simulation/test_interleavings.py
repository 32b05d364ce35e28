"""Every interleaving of two short operations keeps every promise.

A hunt runs those that take long, too, and all on every kind of storage.
"""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulation.interleavings import Explorer, explore
from tests.simulation.runs import Schedule
from tests.simulation.scheduler import Call, Scheduler
from tests.simulation.store import Store
from tests.simulation.world import Kind
from tests.testkit.effort import is_hunt

pytestmark = pytest.mark.hunt

PAGE = Path(__file__).parents[2] / "docs" / "interleavings.md"
MOST_IN_THE_SUITE, MOST_RUNS = 100, 40_000


def documented_pairs():
    """Return pair → runs on a disk, of the table in the docs."""
    lines = PAGE.read_text(encoding="utf-8").partition("| pair | orders |\n|---|---|\n")[2]
    rows = [line.strip("| ").split(" | ") for line in lines.partition("\n\n")[0].splitlines()]
    return {tuple(pair.split(" + ")): int(runs.replace(",", "")) for pair, runs in rows}


PAIRS = [
    pytest.param(
        *(pair, runs),
        marks=pytest.mark.hunt_only if runs > MOST_IN_THE_SUITE else (),
        id=" beside ".join(pair),
    )
    for pair, runs in documented_pairs().items()
]


@pytest.mark.parametrize(("pair", "runs"), PAIRS)
def test_all_interleavings_of_two_operations(pair, runs):
    scripts = tuple((name,) for name in pair)
    explored = explore(Schedule(scripts=scripts), MOST_RUNS)
    assert explored.is_complete
    assert runs / 2 <= explored.runs <= runs * 2, f"docs/interleavings.md has {runs} runs of {pair}"
    for kind in (Kind.S3, Kind.HDFS) if is_hunt() else ():
        assert explore(Schedule(kind=kind, scripts=scripts), MOST_RUNS).is_complete


CALLS = st.tuples(st.sampled_from(("read", "write", "create", "delete")), st.sampled_from("ab"))
PROGRAMS = st.lists(
    st.lists(CALLS | st.just(("list", "")), min_size=1, max_size=3), min_size=2, max_size=3
)


@given(PROGRAMS)
def test_reduced_orders_reach_all_states(programs):
    few, explorer = set(), Explorer()
    explored = explorer.explore(
        lambda: few.add(_end_of(programs, explorer.choose, explorer.begin)), 10_000
    )
    assert explored.is_complete
    assert few == set(_ends(programs))


def _ends(programs):
    """Yield how runs in every order end: each call is a turn, and so is the start."""

    def orders(left):
        if not any(left):
            yield ()
        for at, turns in enumerate(left):
            if turns:
                for order in orders([*left[:at], turns - 1, *left[at + 1 :]]):
                    yield (str(at), *order)

    for order in orders([len(program) + 1 for program in programs]):
        names = iter(order)
        yield _end_of(
            programs, lambda actors, _, names=names: {a.name: a for a in actors}[next(names)]
        )


def _end_of(programs, choose, begin=lambda *_: None):
    store, scheduler = Store(), Scheduler(choose)
    store.make_folders("/f")
    store.put("/f/a", b"0")
    store.scheduler = scheduler
    ends = {}

    def body(program, actor):
        effects = {
            "read": lambda path: store.file(path).data,
            "write": lambda path: store.put(path, str(actor.seen).encode()),
            "create": lambda path: store.put(path, str(actor.seen).encode(), is_new=True),
            "delete": store.delete_if_there,
            "list": store.names_in,
        }
        for kind, name in program:
            path = f"/f/{name}".rstrip("/")
            call = Call(kind, path, writes=kind in ("write", "create", "delete"))
            with suppress(OSError):
                store.call(call, lambda kind=kind, path=path: effects[kind](path))
        ends[actor.name] = actor.seen

    begin(store, lambda: tuple(sorted(ends.items())))
    for number, program in enumerate(programs):
        scheduler.spawn(str(number), 0, lambda actor, program=program: body(program, actor))
    scheduler.run()
    return store.digest(), tuple(sorted(ends.items()))
