"""Exclusions of the differential fuzz have a row in docs/supported.md, and every row a place."""

import importlib
from functools import reduce
from pathlib import Path

import pytest

from tools.fuzz.known import LEFT_OUT, REFUSALS

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "supported.md"


def rows(title: str) -> list[list[str]]:
    """Return the cells of the table of a section."""
    section = DOCUMENT.read_text(encoding="utf-8").partition(f"\n## {title}\n")[2]
    lines = section.partition("\n## ")[0].splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")]
    return cells[2:]


def test_exclusions_of_fuzz_are_those_of_document():
    found = {
        topic: [start for start in LEFT_OUT if topic.startswith(start)]
        for topic, *_ in rows("Where Java 1.4.2 disagrees with itself")
    }
    assert {topic: starts for topic, starts in found.items() if len(starts) != 1} == {}
    assert {start for starts in found.values() for start in starts} == set(LEFT_OUT)


@pytest.mark.parametrize("place", sorted(set(LEFT_OUT.values())))
def test_exclusions_of_fuzz_exist(place):
    module, *names = place.split(".")
    assert reduce(getattr, names, importlib.import_module(f"tools.fuzz.{module}"))


def test_refusals_of_fuzz_are_in_document():
    assert {kind.strip("`") for _, kind, *_ in rows("What is refused")} >= REFUSALS
