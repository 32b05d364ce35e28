"""Run worlds, and shrink failures.

    python -m tests.testkit.stateful.run [--steps 1000000] [--seed 1] [--processes 2] [--world N]

A failure names its world and the few steps that show it; `--world` does them again.
"""

import argparse
import multiprocessing
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from rich.console import Console

from tests.testkit.stateful.changes import CHANGES, CONCURRENT, READS
from tests.testkit.stateful.machine import Action, Machine

STEPS_OF_A_WORLD = 60
_MOST_RUNS_TO_SHRINK = 150
_MEMORY = Path("/dev/shm")  # noqa: S108  # mkdtemp makes a folder of its own there
"""Where Linux keeps files in memory: a world makes hundreds of small ones and is gone soon."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Where table and history disagree."""

    seed: int
    steps: tuple[int, ...]
    """The fewest that were found to show it."""
    trace: tuple[str, ...]
    error: str
    place: str
    """Last line of the machine it came from: shrinking keeps to it."""

    def __str__(self) -> str:
        lines = "\n".join(self.trace)
        return f"world {self.seed}, steps {list(self.steps)}\n{lines}\n{self.error}"


@dataclass(slots=True)
class Report:
    steps: int = 0
    worlds: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)


def _actions() -> dict[str, Action]:
    return {
        f"{name}{number}": action
        for name, (weight, action) in {**CHANGES, **READS}.items()
        for number in range(weight)
    }


def act_concurrently(machine: Machine, chance: Random) -> None:
    chance.choice(CONCURRENT)(machine, chance)


def run_world(seed: int, steps: Sequence[int]) -> tuple[Machine, Failure | None]:
    """Do some steps in a fresh world; return the failure, if there was one."""
    home = _MEMORY if _MEMORY.is_dir() else None
    directory = Path(tempfile.mkdtemp(prefix="world-", dir=home))
    machine = Machine(directory, seed)
    actions = _actions()
    try:
        for step in steps:
            machine.step(step, actions, act_concurrently)
        machine.check_everything()
    except Exception as error:  # noqa: BLE001 - any error is a finding
        return machine, _failure(machine, steps, error)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return machine, None


def _failure(machine: Machine, steps: Sequence[int], error: Exception) -> Failure:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "stateful" in frame.filename]
    text = "".join(traceback.format_exception(error)[-9:])
    drawn = machine.world
    world = f"{drawn.engine}, {drawn.options}, {drawn.schema.partition_keys}"
    return Failure(
        seed=machine.seed,
        steps=tuple(steps),
        trace=(world, *machine.trace),
        error=text,
        place=f"{type(error).__name__} {ours[-1].name}",
    )


def shrunk(failure: Failure) -> Failure:
    """Leave out steps as long as the same failure remains."""
    runs, size = 0, max(1, len(failure.steps) // 2)
    while size and runs < _MOST_RUNS_TO_SHRINK:
        for start in range(len(failure.steps) - size, -1, -size):
            runs += 1
            fewer = failure.steps[:start] + failure.steps[start + size :]
            _, found = run_world(failure.seed, fewer)
            if found is not None and found.place == failure.place:
                failure = found
        size //= 2
    return failure


def run(seeds: Iterator[int] | range, steps: int) -> Report:
    """Run worlds until so many steps are done, or one fails."""
    report = Report()
    for seed in seeds:
        machine, failure = run_world(seed, range(STEPS_OF_A_WORLD))
        report.steps += sum(machine.counts.values())
        report.worlds += 1
        report.counts += machine.counts
        if failure is not None:
            report.failures.append(shrunk(failure))
            break
        if report.steps >= steps:
            break
    return report


def run_in_processes(seed: int, steps: int, processes: int) -> Report:
    """Share the worlds among processes."""
    count = -(-steps // STEPS_OF_A_WORLD)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    whole = Report()
    with context.Pool(processes) as pool:
        shares = [
            (range(seed + number, seed + count, processes), steps) for number in range(processes)
        ]
        for report in pool.starmap(run, shares):
            whole.steps += report.steps
            whole.worlds += report.worlds
            whole.counts += report.counts
            whole.failures += report.failures
    return whole


def main() -> None:
    """Run as a program and print figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--world", type=int, help="run this world only")
    options = parser.parse_args()
    console, began = Console(markup=False, highlight=False), time.monotonic()
    if options.world is not None:
        report = run(range(options.world, options.world + 1), options.steps)
    else:
        report = run_in_processes(options.seed, options.steps, options.processes)
    for failure in report.failures:
        console.print(str(failure), soft_wrap=True)
    console.print(
        f"{report.steps} steps in {report.worlds} worlds, {time.monotonic() - began:.0f} s: "
        f"{dict(report.counts.most_common())}; failures: {len(report.failures)}"
    )
    raise SystemExit(bool(report.failures))


if __name__ == "__main__":
    main()
