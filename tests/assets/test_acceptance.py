"""The list of promises names tests that exist."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
NAMED = re.findall(r"`([\w/]+\.py)::([\w:]+)`", (TESTS / "assets" / "acceptance.md").read_text())


def defined_in(body: list[ast.stmt], prefix: str = "") -> set[str]:
    """Names of functions, those of classes as `Class::function`."""
    found = set()
    for node in body:
        if isinstance(node, ast.ClassDef):
            found |= defined_in(node.body, f"{node.name}::")
        elif isinstance(node, ast.FunctionDef):
            found.add(prefix + node.name)
    return found


def test_the_list_is_read() -> None:
    assert len(NAMED) > 50


@pytest.mark.parametrize("path", sorted({path for path, _ in NAMED}))
def test_every_test_it_names_exists(path: str) -> None:
    names = {name for of, name in NAMED if of == path}
    assert names <= defined_in(ast.parse((TESTS / path).read_text()).body)
