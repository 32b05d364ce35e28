"""Runs: a scene, scripts of actors, and a schedule of their turns and of the calls that fail."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from random import Random
from types import SimpleNamespace
from typing import Self

from paimon_assets import CommitUnknownError, PaimonError, StorageError, open_catalog
from tests.simulation.model import Model, Record
from tests.simulation.operations import ICEBERG, OPERATIONS, TABLE, TAG, Task, create
from tests.simulation.scheduler import Actor, Call, Choose, Death, Scheduler
from tests.simulation.store import Fault, Store
from tests.simulation.world import Kind, World, simulated

_ATTEMPTS = 3
"""How often a task is tried whose process died, or which has no answer."""
_SCENE = ("ingest", "upsert", "append", "append")
_DAY_MS = 24 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """All that is drawn: the same schedule makes the same run."""

    kind: Kind = Kind.DISK
    keyed: bool = True
    iceberg: bool = False
    """Whether commits write Iceberg's metadata, too."""
    scripts: tuple[tuple[str, ...], ...]
    """Of each actor, the names of its operations."""
    turns: tuple[tuple[int, int], ...] = ()
    """(actor, number of its next calls). After the last ones the first actor runs on."""
    faults: tuple[tuple[int, int, Fault], ...] = ()
    """(actor, call, its fault)."""

    @classmethod
    def of(cls, line: str) -> Self:
        """Return the schedule of a line, as in `S3 bare; append+tag -; 0:6 1:4; 0:7:DIE`."""
        words, scripts, turns, faults = (part.split() for part in f"{line};;".split(";")[:4])
        return cls(
            kind=Kind[words[0]],
            keyed="bare" not in words,
            iceberg="iceberg" in words,
            scripts=tuple(tuple(filter(None, each.strip("-").split("+"))) for each in scripts),
            turns=tuple((int(actor), int(n)) for actor, n in (each.split(":") for each in turns)),
            faults=tuple(
                (int(actor), int(call), Fault[name])
                for actor, call, name in (each.split(":") for each in faults)
            ),
        )

    def __str__(self) -> str:
        parts = (
            [self.kind.name, *["bare"] * (not self.keyed), *["iceberg"] * self.iceberg],
            ["+".join(script) or "-" for script in self.scripts],
            [f"{actor}:{calls}" for actor, calls in self.turns],
            [f"{actor}:{call}:{fault.name}" for actor, call, fault in self.faults],
        )
        return "; ".join(map(" ".join, parts)).rstrip("; ")


@dataclass(slots=True)
class Run:
    """One run and its counts."""

    schedule: Schedule
    store: Store
    model: Model
    scheduler: Scheduler
    deaths: int = 0
    faults: int = 0


@lru_cache(maxsize=16)
def scene(kind: Kind, keyed: bool, iceberg: bool) -> Store:
    """Return a storage with a table of four snapshots, a tag, a branch, a neighbour, an orphan."""
    world = World(kind, Store(has_folders=kind is not Kind.S3))
    store = world.store
    root = world.folder
    store.make_folders(root)
    with simulated(world):
        catalog = open_catalog(kind.value)
        catalog.create_database("d")
        # A write is planned, and its files are merged, as they are of a table in use.
        options = {} if keyed else {"bucket": "-1"}
        create(catalog, **options, **(ICEBERG if iceberg else {}))
        for number, name in enumerate(_SCENE, 1):
            OPERATIONS[name if keyed or name != "upsert" else "append"].perform(
                catalog, Task(name, number)
            )
            store.now_ms += 1000
        table = catalog.get_table(TABLE)
        table.tags.create(TAG, 1)
        table.branches.create("side", snapshot_id=2)
        side = SimpleNamespace(get_table=lambda _: table.at_branch("side"))
        OPERATIONS["append"].perform(side, Task("append", 5))  # type: ignore[arg-type]
        for name in ("neighbour/data-1.parquet", "notes.txt", "t/notes.txt", "t/bucket-0/a.txt"):
            path = f"{root}/d.db/{name}"
            store.make_folders(path.rpartition("/")[0])
            store.put(path, b"foreign")
        orphan = "data-00000000-0000-4000-8000-000000000000-0.parquet"
        store.put(f"{root}/d.db/t/bucket-0/{orphan}", b"orphan")
    store.now_ms += _DAY_MS
    return store


def run(
    schedule: Schedule,
    choose: Choose,
    fault_of: Callable[[Actor, Call], Fault | None],
    begin: Callable[[Run], object] = lambda _: None,
) -> Run:
    """Run the scripts of a schedule; AssertionError if something broke."""
    store = scene(schedule.kind, schedule.keyed, schedule.iceberg).copy()
    droppable = any(name in ("drop", "rename") for script in schedule.scripts for name in script)
    foreign = {path for path, file in store.below("") if file.data == b"foreign"}
    for path in [path for path in foreign if droppable and "/t/" in path]:
        store.delete(path)
        foreign.discard(path)
    world = World(schedule.kind, store)
    scheduler = Scheduler(choose)
    model = Model(world, scheduler, frozenset(foreign))
    result = Run(schedule, store, model, scheduler)

    def drawn_fault(call: Call) -> Fault | None:
        actor = scheduler.current
        assert actor is not None
        fault = fault_of(actor, call)
        result.faults += fault is not None
        return fault

    with simulated(world):
        model.look_around()
        model.first = frozenset(model.roots)
        for number, script in enumerate(schedule.scripts):
            tasks = [Task(name, 100 * (number + 1) + n) for n, name in enumerate(script)]
            scheduler.spawn(str(number), number, _Body(result, tasks))
        store.scheduler, store.fault_of, store.watch = scheduler, drawn_fault, model.look
        begin(result)
        try:
            scheduler.run()
        finally:
            store.scheduler = None
        store.settle()
        model.check_end()
    return result


@dataclass(frozen=True, slots=True)
class _Body:
    """The body of an actor: its tasks, one after the other, in one process after the other."""

    run: Run
    tasks: Sequence[Task]

    def __call__(self, actor: Actor) -> None:
        for task in self.tasks:
            record = Record(task, self.run.scheduler.calls)
            self.run.model.records.append(record)
            may_be_done = False
            for _ in range(_ATTEMPTS):
                try:
                    record.value = self._perform(task)
                    record.outcome, record.error = "done", None
                    break
                except Death:
                    if self.run.scheduler.failure is not None:
                        raise
                    self.run.deaths += 1
                    record.stumbled = may_be_done = True
                    actor.begin_again()
                except CommitUnknownError as error:
                    record.error, record.stumbled, may_be_done = error, True, True
                except PaimonError as error:
                    record.error = error
                    record.outcome = "unknown" if may_be_done else "refused"
                    if not isinstance(error, StorageError):
                        break
                    record.stumbled = True
            else:
                record.outcome = "unknown" if may_be_done else record.outcome
            record.ended = self.run.scheduler.calls

    def _perform(self, task: Task) -> object:
        return OPERATIONS[task.name].perform(open_catalog(self.run.schedule.kind.value), task)


def replay(schedule: Schedule) -> Run:
    """Run a schedule as it says."""
    return _with(schedule, _Replayed(schedule))


def draw(seed: int, schedule: Schedule, recorder: "list[Schedule] | None" = None) -> Run:
    """Run a schedule whose turns and faults a seed draws, and record them."""
    drawn = _Drawn(schedule, Random(seed))  # noqa: S311 - the same again for the same seed
    try:
        return _with(schedule, drawn)
    finally:
        if recorder is not None:
            recorder.append(drawn.recorded())


def _with(schedule: Schedule, driver: "_Replayed | _Drawn") -> Run:
    return run(schedule, driver.choose, driver.fault_of)


@dataclass(slots=True)
class _Replayed:
    schedule: Schedule
    turn: int = 0
    left: int | None = None

    def choose(self, actors: Sequence[Actor], _: Actor | None) -> Actor:
        while self.turn < len(self.schedule.turns):
            number, calls = self.schedule.turns[self.turn]
            self.left = calls if self.left is None else self.left
            actor = next((each for each in actors if each.name == str(number)), None)
            if self.left and actor is not None:
                self.left -= 1
                return actor
            self.turn, self.left = self.turn + 1, None
        return actors[0]

    def fault_of(self, actor: Actor, _: Call) -> Fault | None:
        key = (int(actor.name), actor.calls)
        fault = next((f for a, c, f in self.schedule.faults if (a, c) == key), None)
        if fault is Fault.DIE:
            actor.die()
        return fault


_COMMON = (
    "append", "upsert", "overwrite", "delete", "compact", "expire", "clean", "tag", "branch",
    "ingest", "serve", "alter", "follow", "promote", "rescale", "untag", "retag",
)  # fmt: skip
_ON_KEYS = ("upsert", "rescale")
"""Those of tables with a key."""
_RARE = ("rollback", "forward", "erase", "rename", "drop")
"""One of a run, as a rule: they undo commits, write all states again, or take the table away."""
_ON_OBJECTS = _RARE[:3]
"""Those that an object store may run beside writers."""


def drawn_schedule(seed: int) -> Schedule:
    """Draw a storage and scripts; turns and faults are drawn during the run."""
    random = Random(seed)  # noqa: S311 - the same again for the same seed
    kind, keyed = random.choice(list(Kind)), random.random() < _KEYED
    iceberg = random.random() < _ICEBERG
    common = [name for name in _COMMON if keyed or name not in _ON_KEYS]
    scripts = [
        [random.choice(common) for _ in range(random.randint(1, 3))]
        for _ in range(random.randint(2, 5))
    ]
    rare = random.choice(_ON_OBJECTS if kind is Kind.S3 else _RARE)
    if random.random() < _RARELY:
        scripts[0][0] = rare
    if scripts[0][0] == "erase" and random.random() < _RARELY:
        scripts[1][0] = random.choice(_RARE[:2])
    if "forward" in (scripts[0][0], scripts[1][0]):
        # Both write schema files of the same numbers: a person does not alter main meanwhile.
        scripts = [[name if name != "alter" else "append" for name in each] for each in scripts]
    return Schedule(kind=kind, keyed=keyed, iceberg=iceberg, scripts=tuple(map(tuple, scripts)))


_KEYED, _RARELY, _ICEBERG = 0.7, 0.5, 0.4
_SWITCHES = (0.01, 0.05, 0.2, 0.6)
_FAULTS = (0.0, 0.0, 0.002, 0.01)
_OBJECT_FAULTS = (Fault.FAIL, Fault.LOSE, Fault.TWICE, Fault.LATE, Fault.DIE, Fault.DIE)


_REPEATED = ("publish", "part", "complete", "abort")
"""Calls that a client may send twice, or a network deliver late."""


@dataclass(slots=True)
class _Drawn:
    schedule: Schedule
    random: Random
    turns: list[list[int]] = field(default_factory=list)
    faults: list[tuple[int, int, Fault]] = field(default_factory=list)
    switches: float = 0.0
    fails: float = 0.0

    def __post_init__(self) -> None:
        self.switches, self.fails = self.random.choice(_SWITCHES), self.random.choice(_FAULTS)

    def choose(self, actors: Sequence[Actor], current: Actor | None) -> Actor:
        if current is None or current not in actors or self.random.random() < self.switches:
            current = self.random.choice(actors)
        number = int(current.name)
        if self.turns and self.turns[-1][0] == number:
            self.turns[-1][1] += 1
        else:
            self.turns.append([number, 1])
        return current

    def fault_of(self, actor: Actor, call: Call) -> Fault | None:
        if self.random.random() >= self.fails:
            return None
        fault = self.random.choice(_OBJECT_FAULTS)
        if fault in (Fault.TWICE, Fault.LATE) and call.kind not in _REPEATED:
            fault = Fault.FAIL
        self.faults.append((int(actor.name), actor.calls, fault))
        if fault is Fault.DIE:
            actor.die()
        return fault

    def recorded(self) -> Schedule:
        turns = tuple((number, calls) for number, calls in self.turns)
        return replace(self.schedule, turns=turns, faults=tuple(self.faults))
