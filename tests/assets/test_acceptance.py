"""The lists of promises and of expected features name tests that exist."""

import ast
import re
from pathlib import Path

import pytest

from tests.testkit.syntax import syntax_of

TESTS = Path(__file__).parents[1]
PROMISES = (TESTS / "assets" / "acceptance.md").read_text()
FEATURES = (TESTS.parent / "docs" / "dagster-features.md").read_text()
NAMED = re.findall(r"`([\w/]+\.py)::([\w:]+)`", PROMISES + FEATURES)


def defined_in(body: list[ast.stmt], prefix: str = "") -> set[str]:
    """Return the names of functions; of methods as `Class::function`."""
    found = set()
    for node in body:
        if isinstance(node, ast.ClassDef):
            found |= defined_in(node.body, f"{node.name}::")
        elif isinstance(node, ast.FunctionDef):
            found.add(prefix + node.name)
    return found


def test_lists_name_tests() -> None:
    assert len(NAMED) > 50


def test_features_have_answer_and_test() -> None:
    table = FEATURES.split("## ")[0].split("|---|---|---|\n")[1].strip().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert len(rows) == 45
    assert {answer for _, answer, _ in rows} <= {"yes", "partly", "no"}
    assert all(test for _, answer, test in rows if answer != "no")


@pytest.mark.parametrize("path", sorted({path for path, _ in NAMED}))
def test_named_tests_exist(path: str) -> None:
    names = {name for of, name in NAMED if of == path}
    assert names <= defined_in(syntax_of(TESTS / path).body)
