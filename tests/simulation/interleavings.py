"""All interleavings of a few short operations, but for those that differ in nothing.

Calls on different paths commute, and so do two reads. Dynamic partial order reduction with sleep
sets: each run is looked through for pairs of calls whose order mattered and was chance, and only
such an order is turned round in a run to come.
Source: Flanagan and Godefroid, "Dynamic partial-order reduction for model checking software", 2005.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import pytest

from paimon_assets.engine.fileio import request_planner
from tests.simulation.runs import Schedule, run
from tests.simulation.scheduler import Actor, Call, Death

_START = Call("start")


@dataclass(slots=True)
class _Node:
    """A moment at which somebody goes on."""

    pending: dict[str, Call]
    """Actor → the call it makes if it is chosen."""
    asleep: dict[str, Call]
    """Whose turn here leads to nothing new."""
    chosen: str = ""
    todo: set[str] = field(default_factory=set)

    def choose(self, name: str) -> None:
        self.chosen = name
        self.todo.discard(name)


@dataclass(frozen=True, slots=True)
class Explored:
    runs: int
    """Runs to the end, no two of which are alike."""
    pruned: int
    """Runs that were given up, as one like them was made."""
    is_complete: bool


class _Driver:
    def __init__(self, most_runs: int) -> None:
        self.path: list[_Node] = []
        self.depth = 0
        self.most_runs = most_runs

    def choose(self, actors: Sequence[Actor], current: Actor | None) -> Actor:
        if self.depth == len(self.path):
            node = self._next_node(actors)
            awake = [actor for actor in actors if actor.name not in node.asleep]
            if not awake:
                raise Death  # one like this was made
            node.choose(next((each for each in awake if each is current), awake[0]).name)
            self.path.append(node)
        node = self.path[self.depth]
        self.depth += 1
        return next(actor for actor in actors if actor.name == node.chosen)

    def _next_node(self, actors: Sequence[Actor]) -> _Node:
        asleep: dict[str, Call] = {}
        if self.path:
            before = self.path[-1]
            made = before.pending[before.chosen]
            asleep = {name: call for name, call in before.asleep.items() if not _meet(made, call)}
        return _Node({actor.name: actor.call or _START for actor in actors}, asleep)

    def find_races(self) -> None:
        """Note where another one should have come first; see the paper."""
        clocks: dict[str, dict[str, int]] = {}
        steps: list[tuple[str, Call, dict[str, int]]] = []
        for node in self.path:
            name, call = node.chosen, node.pending[node.chosen]
            known = clocks.get(name, {})
            clock, race = dict(known), None
            for place in range(len(steps) - 1, -1, -1):
                other, made, seen = steps[place]
                if other != name and _meet(made, call):
                    if race is None and known.get(other, 0) < seen[other]:
                        race = place
                    for each, count in seen.items():
                        clock[each] = max(clock.get(each, 0), count)
            if race is not None:
                before = self.path[race]
                before.todo.update({name} if name in before.pending else before.pending)
            clock[name] = known.get(name, 0) + 1
            clocks[name] = clock
            steps.append((name, call, clock))

    def turn_round(self) -> bool:
        """Go back to the last moment at which another one has to go on; False if there is none."""
        while self.path:
            node = self.path[-1]
            node.asleep[node.chosen] = node.pending[node.chosen]
            left = sorted(node.todo.difference(node.asleep))
            if left:
                node.choose(left[0])
                return True
            self.path.pop()
        return False


@lru_cache(maxsize=1 << 18)
def _meet(one: Call, other: Call) -> bool:
    return one.touches(other)


def explore(schedule: Schedule, most_runs: int) -> Explored:
    """Run all interleavings of a schedule's scripts, or the first ones; raise what breaks.

    S3 is asked one by one: a listing in place of requests is about all of a table.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request_planner, "_LEAST_LISTED", 1_000)
        return _explore(schedule, most_runs)


def _explore(schedule: Schedule, most_runs: int) -> Explored:
    driver, runs, pruned = _Driver(most_runs), 0, 0
    while runs + pruned < most_runs:
        driver.depth = 0
        try:
            run(schedule, driver.choose, lambda *_: None)
            runs += 1
        except Death:
            pruned += 1
        except Exception as error:
            error.add_note(f"{schedule.scripts}: {[node.chosen for node in driver.path]}")
            raise
        driver.find_races()
        if not driver.turn_round():
            return Explored(runs, pruned, is_complete=True)
    return Explored(runs, pruned, is_complete=False)
