"""`make bench`: the same work by our engine, its peers and plain pyarrow, side by side.

python -m tools.bench [--scale 0.1] [--repeat 3] [--engines ours,plain] [--steps pk_write,…]
"""

import argparse
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.interop.environment import ROOT, peer_python
from tools.bench.child import STEPS
from tools.bench.report import Measurement, disagreements, machine, print_report, summarise
from tools.bench.workload import load_input

HOME = ROOT / ".bench"
SLOW_SECONDS = 20.0
"""A step that takes longer is run once."""
ONLY_DECODES = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The folder of an engine's code, and the environment that runs it."""

    module: str
    is_peer: bool
    """Runs in the peers' environment."""


ENGINES = {
    "ours": Engine(module="tools.bench.engines.ours", is_peer=False),
    "plain": Engine(module="tools.bench.engines.plain", is_peer=False),
    "pypaimon-rust": Engine(module="tests.interop.peers.rust_peer", is_peer=True),
    "pypaimon": Engine(module="tests.interop.peers.pypaimon_peer", is_peer=True),
    "pypaimon-native": Engine(module="tests.interop.peers.pypaimon_native_peer", is_peer=True),
}

OTHERS = ("planning", "commits", "compaction")
"""Modules `bench_…` that print tables of their own, each in a process of its own."""


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of all row counts")
    parser.add_argument("--repeat", type=int, default=3, help="runs of a step; the median counts")
    parser.add_argument("--engines", default=",".join(ENGINES), help="'ours' is always measured")
    parser.add_argument("--steps", default=",".join(STEPS), help="with the writes they build on")
    parser.add_argument("--spark", action="store_true", help="measure the Spark executor too")
    parser.add_argument("--also", default=",".join(OTHERS), help="benchmarks of their own")
    parser.add_argument("--out", type=Path, help="also write all measurements as JSON")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.engines.split(",") if name not in ENGINES]
    if unknown:
        parser.error(f"unknown engines {unknown}; there are {', '.join(ENGINES)}")
    unknown = [name for name in options.also.split(",") if name and name not in OTHERS]
    if unknown:
        parser.error(f"unknown benchmarks {unknown}; there are {', '.join(OTHERS)}")
    return options


def _measure(engine: str, step: str, scale: float, repetition: int) -> Measurement:
    """Run one step in a child process."""
    described = ENGINES[engine]
    python = str(peer_python()) if described.is_peer else sys.executable
    request = {
        "module": described.module,
        "step": step,
        "scale": scale,
        "repetition": repetition,
        "warehouse": str(HOME / "warehouse" / engine),
        "inputs": str(HOME / "input"),
    }
    done = subprocess.run(
        [python, "-m", "tools.bench.child", json.dumps(request)],
        cwd=ROOT, check=False, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{engine} {step} failed:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return Measurement(
        engine=engine,
        step=step,
        seconds=result["seconds"],
        cpu_seconds=result["cpu_seconds"],
        peak_mib=result["peak_mib"],
        rows=result["rows"],
        checksum=(result["sum_id"], result["sum_qty"]),
        version=result["version"],
    )


def _measure_all(console: Console, options: argparse.Namespace) -> list[Measurement]:
    engines = ["ours", *(name for name in options.engines.split(",") if name != "ours")]
    steps = [name for name in STEPS if name in options.steps.split(",")]
    done: list[Measurement] = []
    slow: set[str] = set()
    """Tables whose writing was slow: only their first copy exists."""
    for step in steps:
        for engine in engines:
            copies = f"{engine} {STEPS[step].table}"
            for repetition in range(1 if copies in slow else options.repeat):
                run = _measure(engine, step, options.scale, repetition)
                done.append(run)
                console.print(f"{engine:15} {step:13} {run.seconds:8.2f} s", style="dim")
                if run.seconds > SLOW_SECONDS:
                    slow.add(copies)
                    break
    return done


def main(arguments: list[str]) -> int:
    """Measure and print; never judges."""
    options = _parse(arguments)
    console = Console(width=max(140, Console().width))
    console.print(machine())
    for kind in {step.input for step in STEPS.values() if step.input}:
        load_input(kind, options.scale, HOME / "input")
    shutil.rmtree(HOME / "warehouse", ignore_errors=True)
    measurements = _measure_all(console, options)
    shutil.rmtree(HOME / "warehouse", ignore_errors=True)
    engines = list(dict.fromkeys(run.engine for run in measurements))
    steps = list(dict.fromkeys(run.step for run in measurements))
    summaries = summarise(measurements)
    print_report(console, summaries, engines, steps)
    for engine in engines:
        version = next(run.version for run in measurements if run.engine == engine)
        console.print(f"{engine}: {version}")
    compared = [engine for engine in engines if engine != ONLY_DECODES]
    for sentence in disagreements(summaries, compared, steps):
        console.print(sentence, style="red")
    if options.out:
        options.out.write_text(json.dumps([_as_json(run) for run in measurements], indent=1))
    failed = 0
    for name in filter(None, options.also.split(",")):
        command = [sys.executable, "-m", f"tools.bench.bench_{name}"]
        failed |= subprocess.run(command, cwd=ROOT, check=False).returncode
    return failed | (_measure_spark(options) if options.spark else 0)


def _measure_spark(options: argparse.Namespace) -> int:
    """Let the Spark executor's benchmark print its own table, in a process of its own."""
    sizes = ["--scale", str(options.scale), "--repeat", str(options.repeat)]
    command = [sys.executable, "-m", "tools.bench.bench_connector", *sizes]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def _as_json(run: Measurement) -> dict[str, Any]:
    return {name: getattr(run, name) for name in run.__slots__}


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
