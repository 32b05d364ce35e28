"""Random histories of tables with Iceberg metadata, read by foreign readers after each commit.

    python -m tools.iceberg.fuzz [--histories 200] [--steps 15] [--seed 1] [--java] [--spark]
        [--history N [--only 3,5,9]]

pyiceberg and duckdb read after each step that Iceberg is up with; Java Paimon at the end of each
history, and Iceberg's own reader on Spark all that are left at the end. A finding names its history
and the few steps that show it.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from paimon_assets import Table, open_catalog
from tests.iceberg.kit.histories import MORE_KINDS, History, seen_alike
from tests.interop.environment import ICEBERG_JARS, ROOT, iceberg_python, java_jar, java_peer
from tests.testkit.oracle import Oracle

_MEMORY = Path("/dev/shm")  # noqa: S108  # mkdtemp makes a folder of its own there
_KINDS = sorted(MORE_KINDS)
_MOST_RUNS_TO_SHRINK = 25


class Hunt:
    """Readers that live as long as the hunt, and the tables of its histories."""

    def __init__(self, home: Path, seed: int, *, java: bool, running: ExitStack) -> None:
        self.home, self.seed, self.counts = home, seed, Counter[str]()
        self.warehouse = home / "warehouse"
        self.catalog = open_catalog(str(self.warehouse))
        self.catalog.create_database("db")
        serve = [str(iceberg_python()), "-m", "tests.interop.peers.serve", "iceberg", str(home)]
        started = running.enter_context
        self.iceberg = started(Oracle(serve, exchange=home, working_directory=ROOT))
        self.java = (
            started(Oracle(java_peer(self.warehouse), exchange=home, working_directory=ROOT))
            if java
            else None
        )

    def play(self, number: int, steps: Iterable[int]) -> tuple[str, History]:
        """Go through a history; return the faults as a text, empty for none."""
        seed = self.seed * 1_000_000 + number
        for old in (self.warehouse / "db.db", self.warehouse / "iceberg" / "db"):
            for path in old.glob(f"t{seed}*"):
                shutil.rmtree(path)
        storage = ("table-location", "hadoop-catalog")[number // len(_KINDS) % 2]
        options = {
            "metadata.iceberg.storage": storage,
            "metadata.iceberg.format-version": "23"[number // 2 % 2],
        }
        kind = _KINDS[number % len(_KINDS)]
        history = History(self.catalog, kind, seed, options, nested=number % 3 == 0)
        try:
            for step in history.run(steps):
                self.counts[step.split("-")[0]] += 1
                self._look(history.table, step)
            if self._is_fresh(history.table) and self.java is not None:
                rows = self.java.call("rows", table=history.table.name)
                assert len(rows) == history.table.count(), "java"
                self.counts["read by java"] += 1
        except Exception:  # noqa: BLE001 - whatever it is, it is the finding
            return traceback.format_exc(limit=-4), history
        return "", history

    def _look(self, table: Table, step: str) -> None:
        if table.latest_snapshot() is None:
            return
        if table.state.iceberg_behind():
            number = self.counts["behind"] = self.counts["behind"] + 1
            if number % 2 and step != "off":
                table.compact(full=True)
        if self._is_fresh(table):
            seen_alike(table, self.iceberg)
            self.counts["compared"] += 1

    @staticmethod
    def _is_fresh(table: Table) -> bool:
        return table.latest_snapshot() is not None and not table.state.iceberg_behind()

    def shrunk(self, number: int, steps: Sequence[int], error: str) -> tuple[Sequence[int], str]:
        """Leave out steps as long as the last line of the error stays."""
        runs, size = 0, max(1, len(steps) // 2)
        while size and runs < _MOST_RUNS_TO_SHRINK:
            for start in range(len(steps) - size, -1, -size):
                runs += 1
                fewer = [*steps[:start], *steps[start + size :]]
                found, _ = self.play(number, fewer)
                if found and found.splitlines()[-1][:60] == error.splitlines()[-1][:60]:
                    steps, error = fewer, found
            size //= 2
        return steps, error

    def by_spark(self) -> str:
        """Let Iceberg's reader on Spark read its Hadoop catalog."""
        tables = [
            self.catalog.get_table(f"db.{name}")
            for name in self.catalog.list_tables("db")
            if self.warehouse.joinpath("iceberg", "db", name).exists()
        ]
        tables = [table for table in tables if self._is_fresh(table)]
        queries = [f"SELECT count(*) FROM lake.{table.name}" for table in tables]
        home = str(self.warehouse / "iceberg")
        done = subprocess.run(
            [
                *(sys.executable, "-m", "tests.interop.peers.iceberg_hadoop"),
                *(str(java_jar(ICEBERG_JARS[0])), home, *queries),
            ],
            capture_output=True, text=True, cwd=ROOT, check=False,
        )  # fmt: skip
        if done.returncode:
            return done.stderr[-2000:]
        wrong = [
            f"{table.name}: {rows[0][0]}, ours {table.count()}"
            for table, rows in zip(tables, json.loads(done.stdout), strict=True)
            if rows[0][0] != table.count()
        ]
        self.counts["read by spark"] += len(tables)
        return "\n".join(wrong)


def main(arguments: Sequence[str]) -> int:
    """Run as a program and print findings and figures; return how many findings there are."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--histories", type=int, default=200)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first history")
    parser.add_argument("--java", action="store_true", help="Java Paimon reads, too")
    parser.add_argument("--spark", action="store_true", help="Iceberg on Spark reads, too")
    parser.add_argument("--history", type=int, help="this history only")
    parser.add_argument("--only", help="these steps of it only, as numbers with commas")
    options = parser.parse_args(arguments)
    console, began, findings = Console(markup=False, highlight=False), time.monotonic(), 0
    numbers = range(options.first, options.first + options.histories)
    steps: Sequence[int] = range(options.steps)
    if options.history is not None:
        numbers = range(options.history, options.history + 1)
        steps = [int(each) for each in options.only.split(",")] if options.only else steps
    home = Path(tempfile.mkdtemp(prefix="iceberg-", dir=_MEMORY if _MEMORY.is_dir() else None))
    try:
        with ExitStack() as running:
            hunt = Hunt(home, options.seed, java=options.java, running=running)
            for done, number in enumerate(numbers, 1):
                error, history = hunt.play(number, steps)
                line = f"{time.monotonic() - began:.0f} s: {number} {history.kind}"
                console.print(f"{line}: {', '.join(history.steps)}", soft_wrap=True)
                if error:
                    findings += 1
                    few, error = (steps, error) if options.only else hunt.shrunk(
                        number, [*steps][: len(history.steps) + 1], error
                    )  # fmt: skip
                    only = ",".join(map(str, few))
                    again = f"--seed {options.seed} --history {number} --only {only}"
                    console.print(f"=== {again}\n{error}", soft_wrap=True)
                if done % 10 == 0:
                    console.print(f"{done} histories: {dict(hunt.counts)}", soft_wrap=True)
            wrong = hunt.by_spark() if options.spark else ""
            if wrong:
                findings += 1
                console.print(f"=== Spark\n{wrong}", soft_wrap=True)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    counts = dict(sorted(hunt.counts.items()))
    console.print(f"{len(numbers)} histories, findings: {findings}; {counts}", soft_wrap=True)
    return findings


if __name__ == "__main__":
    raise SystemExit(min(1, main(sys.argv[1:])))
