"""Threads that run one at a time: each storage call, clock reading and wait is a turn.

An actor is one process of ours. Before each of its calls an actor is chosen, which holds the
baton until its own next call. So the choices alone decide a run, and the same choices repeat it. A
process dies in a call: its storage is closed to the code that unwinds, and its memory is gone.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from random import Random
from threading import Lock, Thread
from typing import Any


class Death(BaseException):
    """The end of a process; nothing catches it."""


@dataclass(frozen=True, slots=True)
class Call:
    """The next call of an actor to the storage."""

    kind: str
    path: str = ""
    target: str = ""
    """The new name of a file that moves."""
    writes: bool = False
    is_tree: bool = False
    """Whether all below the path is meant, too."""
    names: bool = True
    """Whether a listing of the folder has other names after it."""
    among: frozenset[str] | None = None
    """The names that it looks up, of a listing whose names are known."""

    def touches(self, other: "Call") -> bool:
        """Whether the order of two calls may matter: one writes the paths of the other."""
        if not (self.writes or other.writes):
            return False
        return any(
            _meets(self, mine, other, theirs)
            for mine in filter(None, (self.path, self.target))
            for theirs in filter(None, (other.path, other.target))
        )


START = Call("start")


def _meets(one: Call, mine: str, other: Call, theirs: str) -> bool:
    if (
        mine == theirs
        or _lists(one, mine, theirs, other.names)
        or _lists(other, theirs, mine, one.names)
    ):
        return True
    return (one.is_tree and theirs.startswith(f"{mine}/")) or (
        other.is_tree and mine.startswith(f"{theirs}/")
    )


def _lists(call: Call, folder: str, path: str, names: bool) -> bool:
    parent, _, name = path.rpartition("/")
    is_listed = call.among is None or name in call.among
    return call.kind == "list" and names and parent == folder and is_listed and counts(name)


def counts(name: str) -> bool:
    """Whether a name in a listing counts: of hidden files those of tags and undoing; no hints."""
    return name.startswith((".rollback", ".undo", ".tag-")) or not name.startswith(
        (".", "LATEST", "EARL")
    )


@dataclass(slots=True, eq=False)
class Actor:
    """A process: its memory, its chance, the call it is about to make."""

    name: str
    random: Random
    call: Call | None = None
    calls: int = 0
    seen: int = 0
    """Another one for other answers to its calls."""
    is_dead: bool = False
    memory: dict[Any, Any] = field(default_factory=dict)
    baton: Lock = field(default_factory=Lock)

    def die(self) -> None:
        """End the process, in the midst of a call."""
        self.is_dead = True
        raise Death

    def begin_again(self) -> None:
        """Be a new process: nothing is remembered."""
        self.memory.clear()
        self.is_dead = False


Choose = Callable[[Sequence[Actor], Actor | None], Actor]
"""(actors that have not ended, the one of the last call) → the next one."""


class Scheduler:
    """Runs actors, one at a time, as `choose` decides."""

    def __init__(self, choose: Choose, *, most_calls: int = 50_000) -> None:
        self._choose = choose
        self._most_calls = most_calls
        self.actors: list[Actor] = []
        self.current: Actor | None = None
        self.calls = 0
        self.failure: BaseException | None = None
        self._done = Lock()
        self._threads: list[Thread] = []

    def spawn(self, name: str, seed: object, body: Callable[[Actor], None]) -> Actor:
        """Add an actor; it begins when it is chosen."""
        actor = Actor(name, Random(f"{seed} {name}"))  # noqa: S311 - the same for the same seed
        actor.baton.acquire()
        self.actors.append(actor)
        self._threads.append(Thread(target=self._run, args=(actor, body), daemon=True))
        return actor

    def run(self) -> None:
        """Run until all actors have ended; raise the first error."""
        self._done.acquire()
        for thread in self._threads:
            thread.start()
        self._hand_on()
        self._done.acquire()
        for thread in self._threads:
            thread.join()
        if self.failure is not None:
            raise self.failure

    def turn(self, call: Call) -> None:
        """Let other actors run; return at the next turn of the current one."""
        me = self.current
        assert me is not None
        if me.is_dead:
            raise Death
        me.call = call
        self.calls += 1
        me.calls += 1
        if self.calls > self._most_calls:
            self.fail(AssertionError(f"no end after {self.calls} calls"))
        if self.failure is None:
            other = self._next_actor(me)
            if other is not me:
                self.current = other
                other.baton.release()
                me.baton.acquire()
        if self.failure is not None:
            raise Death

    def observe(self, answer: Hashable) -> None:
        """Note an answer to the actor whose turn it is."""
        assert self.current is not None
        self.current.seen = hash((self.current.seen, answer))

    def chance(self, below: int) -> int:
        """Draw a number for the actor whose turn it is."""
        assert self.current is not None
        return self.current.random.randrange(below)

    def fail(self, failure: BaseException) -> None:
        """Let everything end, because something is broken."""
        self.failure = self.failure or failure

    def _run(self, actor: Actor, body: Callable[[Actor], None]) -> None:
        actor.baton.acquire()
        try:
            if self.failure is None:
                body(actor)
        except Death:
            pass
        except BaseException as error:  # noqa: BLE001 - `run` raises it
            self.fail(error)
        self.actors.remove(actor)
        self._hand_on()

    def _hand_on(self) -> None:
        if not self.actors:
            self._done.release()
            return
        self.current = self._next_actor(None)
        self.current.baton.release()

    def _next_actor(self, current: Actor | None) -> Actor:
        try:
            return self.actors[0] if self.failure else self._choose(self.actors, current)
        except BaseException as error:  # noqa: BLE001 - `run` raises it
            self.fail(error)
            return current or self.actors[0]
