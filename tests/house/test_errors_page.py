"""docs/errors.md lists the kinds of errors that the code raises; tests take their ways out."""

import ast
import re

from tests.house.errors_page import CLASSES, COMMAND, PAGE, ROOT, errors_made, page, text_of
from tests.testkit.syntax import syntax_of

_VERBS = (
    "add alter annotate cast change choose compact compute correct create declare delete do drop"
    " evolve fill filter follow give hand have ingest install keep land leave let load look make"
    " mend move name open overwrite pass pip plan put raise read refresh remove rename repeat"
    " replace reset restore return roll run say set shorten show split start stop take try unset"
    " use write"
)
_WAY = re.compile(rf"(?i)(?:[.;:,(]|\b(?:or|and|else|then)) ?\b(?:{_VERBS.replace(' ', '|')})\b")
_LEAST = 12
"""Characters of a part of a message that are no accident."""


def test_page_lists_all_raised_errors() -> None:
    written = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    assert written == page(), f"docs/errors.md is not what the code raises; run: {COMMAND}"
    assert [name for name in CLASSES if f"| `{name}` |" not in written] == []


def test_way_out_of_each_kind_is_taken() -> None:
    texts = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        is_table = path.match("test_*ways_out.py")
        if is_table or "mark.way_out(" in path.read_text(encoding="utf-8"):
            texts |= _texts(syntax_of(path), is_table=is_table)
    untaken = set()
    for kind, _, arguments in errors_made():
        message = text_of(arguments[0]) if arguments else ""
        parts = (text for text in texts if len(text) >= _LEAST and text in message)
        if _WAY.search(message) and kind not in texts and not any(parts):
            untaken.add(kind)
    assert untaken == set(), "take the way out in a test_*ways_out.py, or mark a test as way_out"


def _texts(module: ast.Module, *, is_table: bool) -> set[str]:
    """Return the texts of a table of ways out, or the kinds that marks of tests name."""
    marks = (
        each for each in ast.walk(module)
        if isinstance(each, ast.Call) and ast.unparse(each.func) == "pytest.mark.way_out"
    )  # fmt: skip
    nodes = (each for mark in ([module] if is_table else marks) for each in ast.walk(mark))
    constants = (each.value for each in nodes if isinstance(each, ast.Constant))
    return {each for each in constants if isinstance(each, str)}
