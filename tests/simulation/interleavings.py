"""All interleavings of a few short operations, but for those that differ in nothing.

Calls on different paths commute, and so do two reads; a write that changes nothing is a read.
Dynamic partial order reduction with sleep sets: each run is looked through for pairs of calls whose
order mattered and was chance, and only such an order is turned round in a run to come. Two orders
that lead to the same state (the same files, the same answers to each actor) go on alike: the second
one ends there, and the calls that followed the first time take part in its races.
Source: Flanagan and Godefroid, "Dynamic partial-order reduction for model checking software", 2005;
Yang, Chen, Gopalakrishnan and Kirby, "Efficient stateful dynamic partial order reduction", 2008.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pytest

from paimon_assets.engine.fileio import request_planner
from tests.simulation.runs import Run, Schedule, run
from tests.simulation.scheduler import START, Actor, Call, Death
from tests.simulation.store import Store


@dataclass(slots=True)
class _Node:
    """A state, in which one actor makes the next call."""

    key: Hashable
    pending: dict[str, Call]
    """Actor → the call it makes if it is chosen."""
    asleep: dict[str, Call]
    """Whose turn here leads to nothing new."""
    at_first: frozenset[str] = frozenset()
    """Actors asleep when it was reached."""
    chosen: str = ""
    made: Call = START
    """The call that was made; it writes if it changed something."""
    clock: dict[str, int] = field(default_factory=dict)
    """Actor → the number of its calls that this one has to follow."""
    todo: set[str] = field(default_factory=set)
    below: int = 0
    """The calls that were made here and later, as bits."""

    def choose(self, name: str) -> None:
        self.chosen, self.made, self.clock = name, START, {}
        self.todo.discard(name)


@dataclass(frozen=True, slots=True)
class Explored:
    runs: int
    """Runs to the end."""
    pruned: int
    """Runs that ended in a state of an earlier run."""
    is_complete: bool


class Explorer:
    """Chooses the actor of each call, in one run after the other."""

    def __init__(self) -> None:
        self._history: Callable[[], Hashable] = str
        self._path: list[_Node] = []
        self._depth = self._known_below = 0
        self._store = Store()
        self._files: tuple[int, int] = (-1, 0)
        self._bits: dict[tuple[str, Call], int] = {}
        self._calls: list[tuple[str, Call]] = []
        self._steps: dict[str, list[int]] = {}
        self._visited: dict[Hashable, list[tuple[frozenset[str], int]]] = {}

    def begin(self, store: Store, history: Callable[[], Hashable] = str) -> None:
        """Take the storage of the next run, and the rest that its verdict depends on."""
        self._history = history
        self._store, self._files, self._depth, self._known_below = store, (-1, 0), 0, 0

    def choose(self, actors: Sequence[Actor], current: Actor | None) -> Actor:
        self._note_call()
        if self._depth == len(self._path):
            node = self._next_node(actors)
            for asleep, below in self._visited.get(node.key, ()):
                if asleep <= node.at_first:
                    self._known_below = below
                    raise Death  # the rest is known
            awake = [actor for actor in actors if actor.name not in node.asleep]
            if not awake:
                raise Death  # one like this was made
            node.choose(next((each for each in awake if each is current), awake[0]).name)
            self._path.append(node)
        node = self._path[self._depth]
        self._depth += 1
        return next(actor for actor in actors if actor.name == node.chosen)

    def _note_call(self) -> None:
        node = self._path[self._depth - 1] if self._depth else None
        if node is not None and node.pending[node.chosen] is not START:
            node.made = self._store.made

    def _next_node(self, actors: Sequence[Actor]) -> _Node:
        asleep: dict[str, Call] = {}
        if self._path:
            last = self._path[-1]
            asleep = {n: call for n, call in last.asleep.items() if not _meet(last.made, call)}
        if self._files[0] != self._store.version:
            self._files = self._store.version, self._store.digest()
        seen = tuple((actor.name, actor.calls, actor.seen) for actor in actors)
        key = hash((self._files[1], self._store.now_ms, seen, self._history()))
        pending = {actor.name: actor.call or START for actor in actors}
        return _Node(key, pending, asleep, frozenset(asleep))

    def find_races(self) -> None:
        """Note where another one should have come first; see the papers."""
        self._note_call()
        self._steps = {}
        for place, node in enumerate(self._path):
            name, steps = node.chosen, self._steps.setdefault(node.chosen, [])
            if not node.clock:  # else it is of a run before
                node.clock = self._race(name, node.made)
                node.clock[name] = len(steps) + 1
                node.below |= self._bit(name, node.made)
            steps.append(place)
        for bit, (name, call) in enumerate(self._calls):
            if self._known_below >> bit & 1:
                self._race(name, call)
        self._path[-1].below |= self._known_below

    def _race(self, name: str, call: Call) -> dict[str, int]:
        """Note the last call that a call could have come before; return its clock."""
        own = self._steps.get(name)
        known = self._path[own[-1]].clock if own else {}
        clock, race = dict(known), -1
        for other, places in self._steps.items():
            for place in reversed(places if other != name else ()):
                before = self._path[place]
                if before.clock[other] <= known.get(other, 0):
                    break
                if _meet(before.made, call):
                    race = max(race, place)
                    for each, count in before.clock.items():
                        clock[each] = max(clock.get(each, 0), count)
                    break
        if race >= 0:
            before = self._path[race]
            before.todo.update({name} if name in before.pending else before.pending)
        return clock

    def _bit(self, name: str, call: Call) -> int:
        key = name, call
        if key not in self._bits:
            self._bits[key] = 1 << len(self._calls)
            self._calls.append(key)
        return self._bits[key]

    def turn_round(self) -> bool:
        """Go back to the last state in which another one has to go on; False if there is none."""
        while self._path:
            node = self._path[-1]
            node.asleep[node.chosen] = node.made
            left = sorted(node.todo.difference(node.asleep))
            if left:
                node.choose(left[0])
                return True
            self._path.pop()
            self._visited.setdefault(node.key, []).append((node.at_first, node.below))
            if self._path:
                self._path[-1].below |= node.below
        return False

    def explore(self, run_once: Callable[[], Any], most_runs: int) -> Explored:
        """Make runs until none is left."""
        runs = pruned = 0
        while runs + pruned < most_runs:
            try:
                run_once()
                runs += 1
            except Death:
                pruned += 1
            except Exception as error:
                error.add_note(f"{[node.chosen for node in self._path]}")
                raise
            self.find_races()
            if not self.turn_round():
                return Explored(runs, pruned, is_complete=True)
        return Explored(runs, pruned, is_complete=False)


@lru_cache(maxsize=1 << 18)
def _meet(one: Call, other: Call) -> bool:
    return one.touches(other)


def explore(schedule: Schedule, most_runs: int) -> Explored:
    """Run all interleavings of a schedule's scripts, or the first ones; raise the first error.

    S3 is asked one by one: a listing in place of requests is about all of a table.
    """
    explorer = Explorer()

    def run_once() -> Run:
        return run(schedule, explorer.choose, lambda *_: None, begin)

    def begin(each: Run) -> None:
        explorer.begin(each.store, each.model.history)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request_planner, "_LEAST_LISTED", 1_000)
        return explorer.explore(run_once, most_runs)
