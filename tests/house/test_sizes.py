"""Files and functions stay small enough to be read at once; entry points hold no logic."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.testkit.syntax import syntax_of

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("paimon_assets", "resources", "jobs", "tests", "tools")
MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 100
MAX_LINES = {"resources": 400, "jobs": 600}
"""Lines of the folders that hold choices, not logic; the demo is a program of its own."""
BUDGETS = {
    "core": (82_439, 367),
    "paimon_assets/cdc": (9_831, 44),
    "paimon_assets/columns": (1_091, 7),
    "paimon_assets/components": (1_423, 8),
    "paimon_assets/erasure": (1_413, 8),
    "paimon_assets/iceberg": (2_819, 19),
    "paimon_assets/review": (1_217, 8),
    "paimon_assets/server": (3_583, 18),
    "paimon_assets/sql": (5_058, 23),
    "paimon_assets/testing": (106, 1),
    "tests and tools": (110_782, 601),
}
"""Lines and modules at most; they only shrink. The core goes towards 80,000 lines."""


def _sources(folder: str) -> Iterator[Path]:
    yield from sorted((ROOT / folder).rglob("*.py"))


def _all_sources() -> list[Path]:
    return [path for folder in FOLDERS for path in _sources(folder)]


def _line_count(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what has statements of its own, however deep; expressions have none."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            yield from _statements(child)


def _members(part: str) -> list[Path]:
    if part == "core":
        return [
            path
            for path in _sources("paimon_assets")
            if not any(str(path.relative_to(ROOT)).startswith(f"{name}/") for name in BUDGETS)
        ]
    if part == "tests and tools":
        return [*_sources("tests"), *_sources("tools")]
    return [*_sources(part)]


@pytest.mark.parametrize("part", BUDGETS)
def test_package_keeps_to_its_budget(part: str) -> None:
    """What does not fit into the core is an add-on, or replaces something."""
    lines, modules = BUDGETS[part]
    paths = _members(part)
    assert paths
    assert (sum(map(_line_count, paths)) <= lines, len(paths) <= modules) == (True, True)


def test_no_file_is_longer_than_800_lines() -> None:
    sizes = {str(path.relative_to(ROOT)): _line_count(path) for path in _all_sources()}
    assert sizes, "no sources were found"
    assert {name: size for name, size in sizes.items() if size > MAX_FILE_LINES} == {}


def test_no_function_is_longer_than_100_lines() -> None:
    long = {}
    for path in _all_sources():
        if _line_count(path) <= MAX_FUNCTION_LINES:
            continue
        for node in _statements(syntax_of(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MAX_FUNCTION_LINES:
                    long[f"{path.relative_to(ROOT)}:{node.name}"] = lines
    assert long == {}


@pytest.mark.parametrize("folder", sorted(MAX_LINES))
def test_entry_points_stay_thin(folder: str) -> None:
    total = sum(_line_count(path) for path in _sources(folder) if "demo" not in path.parts)
    assert total <= MAX_LINES[folder]


@pytest.mark.parametrize("folder", ["resources", "jobs"])
def test_entry_points_hold_no_classes(folder: str) -> None:
    classes = [
        f"{path.relative_to(ROOT)}:{node.name}"
        for path in _sources(folder)
        if "demo" not in path.parts
        for node in ast.walk(syntax_of(path))
        if isinstance(node, ast.ClassDef)
    ]
    assert classes == []
