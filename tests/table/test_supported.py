"""`docs/supported.md` and the code say the same: neither can change alone."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from paimon_assets.engine.errors import PaimonError
from tests.testkit.refusals import REFUSALS, Place, Provocation
from tests.testkit.syntax import syntax_of

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "supported.md"
TOO_LARGE = {"merge-source-size"}
"""Takes too much memory to be provoked."""


def _refusal_rows() -> Iterator[tuple[str, str]]:
    """Yield (feature, kind) of the table of refusals; every row has five filled cells."""
    section = DOCUMENT.read_text(encoding="utf-8").partition("\n## What is refused\n")[2]
    for row in [line for line in section.splitlines() if line.startswith("|")][2:]:
        feature, kind, reason, way_out = (cell.strip() for cell in row.strip("|").split(" | "))
        assert feature, row
        assert reason, row
        assert way_out, row
        yield feature, kind.strip("`")


ROWS_OF_DOCUMENT = dict(_refusal_rows())


def _provocation(feature: str) -> Provocation:
    found = [provoke for start, provoke in REFUSALS.items() if feature.startswith(start)]
    assert len(found) == 1, f"{feature}: provoked by {len(found)} tests"
    return found[0]


@pytest.mark.parametrize(("feature", "kind"), ROWS_OF_DOCUMENT.items())
def test_documented_refusals_have_their_kinds(feature, kind, catalog, tmp_path):
    with pytest.raises(PaimonError) as caught:
        _provocation(feature)(Place(catalog, tmp_path))
    assert caught.value.kind == kind, caught.value.message


def test_provoked_refusals_are_documented():
    for start in REFUSALS:
        assert [feature for feature in ROWS_OF_DOCUMENT if feature.startswith(start)], start


def _kinds_in_code() -> Iterator[tuple[str, str]]:
    """Yield (a pattern of the kind, where) of every `UnsupportedFeatureError` of the code."""
    for path in sorted((ROOT / "paimon_assets").rglob("*.py")):
        for node in ast.walk(syntax_of(path)):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func).removeprefix("errors.")
            where = f"{path.relative_to(ROOT)}:{node.lineno}"
            if name == "UnsupportedFeatureError":
                kinds = [keyword.value for keyword in node.keywords if keyword.arg == "kind"]
                yield (_pattern(kinds[0]) if kinds else "", where)
            elif name == "_refuse" and path.name == "features.py":
                yield f"unsupported-{_pattern(node.args[2])}", where


def _pattern(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=value):
            return re.escape(str(value))
        case ast.JoinedStr(values=values):
            return "".join(map(_pattern, values))
        case ast.Name(id="NO_ATOMIC_PUBLISH"):
            return "no-atomic-publish"
        case _:
            return "[a-z_-]+"


def test_refusals_of_code_are_documented():
    kinds = {*ROWS_OF_DOCUMENT.values(), *TOO_LARGE}
    assert all(f"`{kind}`" in DOCUMENT.read_text(encoding="utf-8") for kind in TOO_LARGE)
    missing = [
        where
        for pattern, where in _kinds_in_code()
        if not any(re.fullmatch(pattern, kind) for kind in kinds)
    ]
    assert missing == []
