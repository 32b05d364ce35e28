"""Branch coverage per package by the tests that need no JVM, held to floors.

    python -m tools.branch_coverage            # measure, for minutes
    python -m tools.branch_coverage --report   # the table of the last run
    python -m tools.branch_coverage --raise    # the same, and floors rise to it

The exit code is 1 if a package is below its floor in tools/coverage_floors.csv.
"""

import csv
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parents[1]
FLOORS = Path(__file__).with_name("coverage_floors.csv")
_OMITTED = "--ignore=tests/house/test_imports.py"  # a process that is measured loads more modules
SLACK = 1.0
"""Percent below a measurement, for lines that depend on the order of threads."""


def package_of(path: str) -> str:
    """Return the folder that a floor is for.

    >>> package_of("paimon_assets/engine/data/merge/lists.py"), package_of("jobs/tables.py")
    ('paimon_assets/engine/data', 'jobs')
    """
    parts = Path(path).parts[:-1]
    return "/".join(parts[: 3 if "engine" in parts else 2])


def percentages(report: dict[str, Any]) -> dict[str, float]:
    """Return the percentage of lines and branches that ran, per package."""
    every, ran = Counter[str](), Counter[str]()
    for path, file in report["files"].items():
        numbers, package = file["summary"], package_of(path)
        every[package] += numbers["num_statements"] + numbers["num_branches"]
        ran[package] += numbers["covered_lines"] + numbers["covered_branches"]
    return {package: 100 * ran[package] / count for package, count in every.items() if count}


def _coverage(*arguments: str) -> int:
    return subprocess.run(
        [sys.executable, "-m", "coverage", *arguments], cwd=ROOT, check=False
    ).returncode


def _report() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "coverage.json")
        if _coverage("json", "--quiet", "-o", str(path)):
            raise SystemExit("there is no measurement: leave --report out")
        return percentages(json.loads(path.read_text(encoding="utf-8")))


@click.command()
@click.option("--report", "has_run", is_flag=True, help="Do not run the tests again.")
@click.option("--raise", "is_raised", is_flag=True, help="Raise floors to the last run.")
def main(*, has_run: bool, is_raised: bool) -> None:
    """Print the coverage of each package."""
    if not (has_run or is_raised):
        _coverage("erase")
        if _coverage("run", "-m", "pytest", "-nauto", "--dist=loadfile", "-q", "--check", _OMITTED):
            raise SystemExit("tests failed")
        _coverage("combine", "--quiet")
    with FLOORS.open(encoding="utf-8") as file:
        floors = {package: int(floor) for package, floor in csv.reader(file)}
    measured = _report()
    for package, percent in sorted(measured.items()):
        click.echo(f"{percent:6.1f}  floor {floors.get(package, 0):3}  {package}")
    if is_raised:
        floors |= {p: max(floors.get(p, 0), int(each - SLACK)) for p, each in measured.items()}
        lines = [f"{package},{floors[package]}\n" for package in sorted(measured)]
        FLOORS.write_text("".join(lines), encoding="utf-8")
    below = [package for package, percent in measured.items() if percent < floors.get(package, 0)]
    if below:
        raise SystemExit(f"below the floor: {', '.join(below)}")


if __name__ == "__main__":
    main()
