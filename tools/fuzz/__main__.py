"""Random tables, random steps by us and by Java Paimon in turns, everything compared.

    python -m tools.fuzz [--steps 20000] [--seed 1] [--table N [--only 3,5,9]]

A finding names its table and the few steps that show it; `--table` and `--only` do them again.
"""

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Self

from rich.console import Console

from tests.interop.environment import ROOT, java_jar, java_peer
from tests.interop.steps import OurSide
from tests.testkit.oracle import Oracle
from tools.fuzz import moments, moves
from tools.fuzz.game import DATABASE, Game
from tools.fuzz.tables import draw_table

MOVES: dict[str, tuple[int, Callable[[Game, Random], None]]] = {
    "write": (30, moves.write),
    "overwrite": (5, moves.overwrite),
    "empty": (2, moves.empty),
    "compact": (10, moves.compact),
    "keep": (5, moves.keep),
    "expire": (4, moves.expire),
    "delete": (5, moves.delete),
    "update": (5, moves.update),
    "merge": (5, moves.merge),
    "delete first rows": (2, moves.delete_first),
    "put columns": (4, moves.put_columns),
    "alter": (8, moves.alter),
    "tag": (4, moments.tag),
    "roll back": (1, moments.roll_back),
    "branch": (4, moments.branch),
    "segment": (4, moves.add_segment),
    "travel": (5, moments.travel),
    "changes": (5, moments.changes),
}
"""Name → weight, and operation."""

STEPS_OF_A_TABLE = 25
_MOST_RUNS_TO_SHRINK = 40
_MEMORY = Path("/dev/shm")  # noqa: S108  # mkdtemp makes a folder of its own there
_NAMES = [name for name, (weight, _) in MOVES.items() for _ in range(weight)]


@dataclass(frozen=True, slots=True)
class Finding:
    """Where the sides disagree."""

    seed: str
    steps: tuple[int, ...]
    trace: tuple[str, ...]
    error: str
    place: str
    """Rough name of the failure: shrinking keeps to it."""

    def __str__(self) -> str:
        seed, table = self.seed.split("/")
        only = ",".join(map(str, self.steps))
        lines = "\n".join(self.trace)
        return f"=== --seed {seed} --table {table} --only {only}\n{lines}\n{self.error}"


@dataclass(slots=True)
class Report:
    tables: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    """Operations that each side did, and was not refused."""
    features: Counter[str] = field(default_factory=Counter)
    """Tables that had a format, a type, an option."""
    findings: list[Finding] = field(default_factory=list)

    @property
    def steps(self) -> int:
        return sum(self.counts[name] for name in MOVES)

    @property
    def coverage(self) -> str:
        parts = {"done": self.done, "tables with": self.features}
        return "\n".join(
            f"{title}: " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
            for title, counts in parts.items()
        )

    def __str__(self) -> str:
        return (
            f"{self.steps} steps on {self.tables} tables {dict(self.kinds.most_common())},"
            f" {self.counts['filters']} filters; {dict(self.counts.most_common())};"
            f" refused: {dict(self.refusals.most_common())}; findings: {len(self.findings)}"
        )


class Fuzz:
    """A Java process in the zone of the table, on one warehouse, where tables come and go."""

    def __init__(self, home: Path) -> None:
        self.home, self.warehouse = home, home / "warehouse"
        self._zone, self._java = "", ExitStack()
        self.java: Oracle | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._java.close()

    def _in(self, zone: str) -> Oracle:
        if self.java is None or self._zone != zone:
            self._java.close()
            oracle = Oracle(
                java_peer(self.warehouse, zone=zone), exchange=self.home, working_directory=ROOT
            )
            self._zone, self.java = zone, self._java.enter_context(oracle)
        return self.java

    def play(self, seed: str, steps: Sequence[int], report: Report | None = None) -> Finding | None:
        """Do some steps on a fresh table; return the failure, if there was one."""
        drawn = draw_table(seed)
        done: list[int] = []
        game = None
        try:
            game = Game(OurSide(self.warehouse), self._in(drawn.zone), drawn)
            for number in () if drawn.refused else steps:
                done.append(number)
                self._step(game, number)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
            return _finding(seed, done, game, drawn, error)
        finally:
            if report is not None and game is not None:
                report.counts += game.counts
                report.refusals += game.refusals
                report.done += game.done
                report.features.update(drawn.features())
                report.tables += 1
                report.kinds[drawn.kind] += 1
            shutil.rmtree(self.warehouse / f"{DATABASE}.db", ignore_errors=True)
        return None

    def _step(self, game: Game, number: int) -> None:
        chance = Random(f"{game.drawn.seed}/{number}")  # noqa: S311
        name = chance.choice(_NAMES)
        game.trace.append(f"{number:3} {name}")
        game.counts[name] += 1
        MOVES[name][1](game, chance)
        game.ask(chance)

    def shrunk(self, finding: Finding) -> Finding:
        """Leave out steps as long as the same failure remains."""
        runs, size = 0, max(1, len(finding.steps) // 2)
        while size and runs < _MOST_RUNS_TO_SHRINK:
            for start in range(len(finding.steps) - size, -1, -size):
                runs += 1
                fewer = finding.steps[:start] + finding.steps[start + size :]
                found = self.play(finding.seed, fewer)
                if found is not None and found.place == finding.place:
                    finding = found
            size //= 2
        return finding


def _finding(
    seed: str, done: list[int], game: Game | None, drawn: object, error: Exception
) -> Finding:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "interop/fuzz" in f.filename]
    text = str(error).strip() or repr(error)
    kind = getattr(error, "kind", None) or " ".join(text.split()[:8])[:100]
    text = "".join(traceback.format_exception(error)[-4:])
    trace = () if game is None else tuple(game.trace)
    return Finding(
        seed=seed,
        steps=tuple(done),
        trace=(str(drawn), *trace),
        error=text[:4000],
        place=f"{type(error).__name__} {frames[-1].name if frames else ''} {kind if game else ''}",
    )


def main(arguments: Sequence[str]) -> int:
    """Run as a program and print findings and figures; return how many findings there are."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--table", type=int, help="this table only")
    parser.add_argument("--only", help="these steps of it only, as numbers with commas")
    parser.add_argument("--first", type=int, default=0, help="the number of the first table")
    parser.add_argument("--stop", type=int, default=10, help="after so many findings")
    options = parser.parse_args(arguments)
    console, began, report = Console(markup=False, highlight=False), time.monotonic(), Report()
    java_jar()
    home = Path(tempfile.mkdtemp(prefix="fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None))
    try:
        with Fuzz(home) as fuzz:
            number = options.first if options.table is None else options.table
            while report.steps < options.steps and len(report.findings) < options.stop:
                only = options.only and [int(each) for each in options.only.split(",")]
                steps = only or range(STEPS_OF_A_TABLE)
                found = fuzz.play(f"{options.seed}/{number}", steps, report)
                if found is not None:
                    again = found.place in {each.place for each in report.findings}
                    report.findings.append(found if only or again else fuzz.shrunk(found))
                    console.print(str(report.findings[-1]), soft_wrap=True)
                if options.table is not None:
                    break
                number += 1
                if number % 20 == 0:
                    console.print(f"{time.monotonic() - began:.0f} s: {report}", soft_wrap=True)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    console.print(f"{time.monotonic() - began:.0f} s: {report}", soft_wrap=True)
    console.print(report.coverage, soft_wrap=True)
    return len(report.findings)


if __name__ == "__main__":
    raise SystemExit(min(1, main(sys.argv[1:])))
