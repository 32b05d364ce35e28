"""Fleet: processes that work on one table on S3 in turn, and are killed at any request.

    python -m tests.testkit.stateful.fleet [--operations 2000] [--seed 1]

A machine travels from process to process with its history. Each process keeps its caches. When one
is killed, another does the step again, and must find the commit, if there was one. Or it leaves the
step, which must have changed nothing. Another writer in the middle of a step is another process,
too. A failure names its world; `--seed N` begins with that one.
"""

import argparse
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from random import Random
from typing import Any

from rich.console import Console

from paimon_assets import EmbeddedExecutor, TableCatalog, open_catalog
from paimon_assets.engine.control.maintenance.orphan_files import clean_orphan_files
from tests.testkit.s3_server import BUCKET, s3_server
from tests.testkit.stateful.changes import CHANGES, CONCURRENT, READS, expire
from tests.testkit.stateful.killing import Death, KillingProxy, Timing
from tests.testkit.stateful.machine import NAME, Action, Machine, drawn_step

PROCESSES = 3
STEPS_OF_A_WORLD = 40
KILLS = 0.5
"""Part of the operations whose process is to die."""
_GIVES_UP = 0.3
"""Part of those killed that are not done again, if nothing was committed."""
_IMPORTED = (
    "boto3", "obstore.store", "pandas", "paimon_assets.engine.data.compact.compact",
    "paimon_assets.engine.data.write.table_write", "paimon_assets.engine.fileio.object_store",
)  # fmt: skip
"""Modules that each process would import otherwise."""
_LEFT_OUT = {"hold", "branch"}
_COMMITS = {"write", "overwrite", "empty", "delete", "update", "merge", "compact", "rescale"}


def look_for_orphans(machine: Machine, _chance: Random) -> None:
    """Clean orphans in the middle of a step: all files are young, and stay."""
    found = clean_orphan_files(machine.table._store, dry_run=False)
    assert found.files == ()


STEPS: dict[str, Action] = {
    f"{name}{number}": action
    for name, (weight, action) in {**CHANGES, **READS}.items()
    for number in range(weight if name in CHANGES else weight // 4)
    if name not in _LEFT_OUT
}
TURNS: dict[str, Action] = {
    f"{action.__name__}{number}": action
    for number, action in enumerate((*CONCURRENT, expire, look_for_orphans))
}


def _kind(name: str) -> str:
    return name.rstrip("0123456789")


class TravellingMachine(Machine):
    """A machine that is sent from process to process."""

    connection: Connection
    catalog: TableCatalog

    def __getstate__(self) -> dict[str, Any]:
        left = {"table", "catalog", "connection"}
        kept = {name: value for name, value in vars(self).items() if name not in left}
        return {**kept, "_writer_turn": None}

    def hands_alone(self) -> EmbeddedExecutor:
        super().hands_alone()
        return EmbeddedExecutor(threads=2)

    def ask_another(self, chance: Random) -> None:
        """Let another process do something now."""
        own = {"history": self.history, "user": self.user, "is_again": self.is_again}
        self.connection.send(("turn", chance.random(), self))
        there = self.connection.recv()
        vars(self.history).update(vars(there.history))
        vars(self).update({**vars(there), **own})
        self.table = self.catalog.get_table(NAME)

    def check_once(self) -> None:
        """Compare the table with its history after a death."""
        made = self.table.snapshots()
        assert [snapshot.id for snapshot in made] == sorted(self.history.versions)
        assert sum(snapshot.commit_user == self.user for snapshot in made) <= 1
        self.agree(self.table.new_read_builder().to_arrow(), self.history.rows())


@dataclass(frozen=True, slots=True)
class Work:
    """An action that a process does with a machine."""

    seed: int
    name: str = ""
    """Of an action; empty for the beginning and the end of a world."""
    number: int | None = None
    """Of a step; None for a turn in the middle of another."""
    chance: float = 0.0
    """Of a turn."""
    user: str = ""
    is_again: bool = False
    gives_up: bool = False

    @property
    def is_operation(self) -> bool:
        """Whether it changes the table; only then it may die."""
        return bool(self.name) and _kind(self.name) not in READS

    def do(self, machine: TravellingMachine) -> None:
        machine.user, machine.is_again = self.user, self.is_again
        if not self.name:
            machine.check_everything()
            return
        newest = machine.table._store.snapshots.latest()
        is_there = newest is not None and newest.id > machine.history.newest
        if self.gives_up and not is_there:
            pass
        elif self.number is not None:
            machine.step(self.number, STEPS, lambda _, chance: machine.ask_another(chance))
        else:
            TURNS[self.name](machine, Random(self.chance))  # noqa: S311
        if self.is_again:
            outcome = f"commit {'found' if is_there else 'absent'}"
            machine.counts[outcome] += 1
            machine.note(f"{self}: {outcome}")
            machine.check_once()


def work(connection: Connection, options: Mapping[str, str]) -> None:
    """Work for the fleet, for as long as it asks."""
    while True:
        place, task, seed, machine = connection.recv()
        try:
            catalog = open_catalog(place, options)
            if machine is None:
                machine = TravellingMachine(catalog, seed)
            else:
                machine.connection, machine.catalog = connection, catalog
                machine.table = catalog.get_table(NAME)
                task.do(machine)
            connection.send(("done", None, machine))
        except Exception as error:  # noqa: BLE001 - any error is a finding
            story = () if machine is None else (machine.world, *machine.trace)
            text = "".join(traceback.format_exception(error)[-12:])
            lines = "\n".join(map(str, story))
            connection.send(("failed", f"world {seed}\n{lines}\n{task}\n{text}", None))


class FleetError(AssertionError):
    """Table and history disagree; the message has the world and its steps."""


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    connection: Connection
    key: str

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


@dataclass(slots=True)
class Fleet:
    """Processes, and the proxy between them and the server."""

    proxy: KillingProxy
    options: Mapping[str, str]
    idle: list[_Worker] = field(default_factory=list)
    busy: int = 0
    started: int = 0
    operations: int = 0
    worlds: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def kills(self) -> int:
        return self.proxy.kills.total()

    def work(self, seed: int, operations: int) -> None:
        """Do so many operations, in as many worlds as that takes."""
        while self.operations < operations:
            self._live(seed, operations)
            seed += 1

    def _live(self, seed: int, operations: int) -> None:
        machine = self._do(Work(seed), None)
        for number in range(STEPS_OF_A_WORLD):
            if self.operations >= operations:
                break
            name, has_turn, _ = drawn_step(seed, number, STEPS)
            task = Work(seed, name, number, user=f"step-{number}")
            machine = self._do(task, machine, lives=has_turn)
        machine = self._do(Work(seed), machine)
        self.counts += machine.counts
        self.worlds += 1

    def _do(self, task: Work, machine: Any, *, lives: bool = False) -> Any:
        """Let a process work; let another one go on where it dies."""
        chance = Random(f"{task.seed}/{task.user}/death")  # noqa: S311
        late: list[str] = []
        self.operations += task.is_operation
        while True:
            worker = self._take(chance)
            death = Death.draw(worker.process.pid or 0, chance)
            dies = task.is_operation and not lives and chance.random() < KILLS
            self.proxy.watch(worker.key, death if dies else None)
            worker.connection.send((f"s3://{BUCKET}/world-{task.seed}", task, task.seed, machine))
            answer = self._answer(worker, task)
            self.busy -= 1
            if self.proxy.watch(worker.key, None):
                worker.end()
            elif answer is None:
                raise FleetError(f"world {task.seed}: a process ended at {task}")
            else:
                self.idle.append(worker)
            if answer is not None:
                for key in late:
                    self.proxy.wait_for_requests(key)
                return answer
            late.append(worker.key)
            gives_up = _kind(task.name) in _COMMITS and chance.random() < _GIVES_UP
            task = replace(task, is_again=True, gives_up=gives_up)
            if gives_up or _kind(task.name) == "roll back" or death.timing is not Timing.LATE:
                self.proxy.wait_for_requests(worker.key)

    def _answer(self, worker: _Worker, task: Work) -> Any:
        """Return the machine of a process that did its work; None if it died."""
        while True:
            try:
                kind, value, machine = worker.connection.recv()
            except (EOFError, ConnectionError):
                return None
            if kind == "done":
                return machine
            if kind == "failed":
                raise FleetError(value)
            is_read = _kind(task.name) in READS
            names = [name for name in TURNS if not (is_read and _kind(name) == "expire")]
            name = Random(value).choice(names)  # noqa: S311
            turn = Work(task.seed, name, chance=value, user=f"{task.user}, turn")
            worker.connection.send(self._do(turn, machine))

    def _take(self, chance: Random) -> _Worker:
        while len(self.idle) + self.busy < PROCESSES:
            self.idle.append(self._start())
        self.busy += 1
        return self.idle.pop(chance.randrange(len(self.idle)))

    def _start(self) -> _Worker:
        context = get_context("forkserver")
        context.set_forkserver_preload([__name__, *_IMPORTED])
        self.started += 1
        key = f"process-{self.started}"
        ours, theirs = context.Pipe()
        arguments = (theirs, {**self.options, "s3.access-key": key})
        process = context.Process(target=work, args=arguments, daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours, key)

    def __str__(self) -> str:
        killed, done = (dict(found.most_common()) for found in (self.proxy.kills, self.counts))
        return (
            f"{self.operations} operations and {self.kills} kills in {self.worlds} worlds; "
            f"killed: {killed}; done: {done}"
        )


@contextmanager
def fleet() -> Iterator[Fleet]:
    """Run a server and a fleet on it."""
    with s3_server() as options, KillingProxy(options["s3.endpoint"]).running() as proxy:
        found = Fleet(proxy, {**options, "s3.endpoint": proxy.uri})
        try:
            yield found
        finally:
            for worker in found.idle:
                worker.end()


def main() -> None:
    """Run as a program and print figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--operations", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    console, began = Console(markup=False, highlight=False), time.monotonic()
    with fleet() as found:
        found.work(options.seed, options.operations)
        console.print(f"{found}; {time.monotonic() - began:.0f} s", soft_wrap=True)


if __name__ == "__main__":
    main()
