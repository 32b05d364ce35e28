"""Tests are named by case and expected result, in few words."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.testkit.syntax import syntax_of

TESTS = Path(__file__).resolve().parents[1]
LONGEST = 70


def _names(source: str) -> Iterator[str]:
    for node in ast.walk(syntax_of(source)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.name


def _has_article(name: str) -> bool:
    return re.search(r"_(?:a|an|the)_", name) is not None


def test_names_are_short_and_have_no_articles() -> None:
    assert _has_article("test_a_lost_race_is_retried")
    assert not _has_article("test_append_retries_after_lost_race")
    names = {
        f"{path.name}::{name}"
        for path in TESTS.rglob("test_*.py")
        for name in _names(path.read_text(encoding="utf-8"))
    }
    assert [name for name in names if len(name.partition("::")[2]) > LONGEST] == []
    assert [name for name in names if _has_article(name.partition("::")[2])] == []
