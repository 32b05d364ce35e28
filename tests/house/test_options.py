"""Each option is declared once, in `spec/options`; the index and docs/options.md list it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from paimon_assets.engine.spec.options.all_options import ALL_OPTIONS, Option, Use
from tests.house.options_page import COMMAND, PAGE, option_modules, options_of, page
from tests.testkit.syntax import syntax_of

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ROOT / "paimon_assets" / "engine"
KEYS = {key for option in ALL_OPTIONS for key in (option.key, *option.fallback_keys)}
WORDS = {key for key in KEYS if "." not in key and "-" not in key}
"""Keys that are words of their own, such as `bucket`: they also name columns of system tables."""


@pytest.mark.parametrize("option", ALL_OPTIONS, ids=lambda option: option.key)
def test_every_option_has_description(option: Option[object]) -> None:
    assert option.description.endswith(".")
    assert len(option.description) > len("Means.")


def test_no_key_is_named_twice() -> None:
    keys = [key for option in ALL_OPTIONS for key in (option.key, *option.fallback_keys)]
    assert sorted(keys) == sorted(set(keys))


def test_index_lists_every_option() -> None:
    everywhere = [option.key for module in option_modules() for option in options_of(module)]
    assert sorted(everywhere) == sorted(option.key for option in ALL_OPTIONS)


def test_options_page_is_current() -> None:
    written = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    assert written == page(), f"docs/options.md is not what the options say; run: {COMMAND}"


@pytest.mark.parametrize(
    ("use", "folders"),
    [(Use.WRITE, ("data/read", "control/scan")), (Use.READ, ("data/write", "control/commit"))],
)
def test_options_are_obeyed_by_engines_on_page(use: Use, folders: tuple[str, ...]) -> None:
    names = {
        name
        for module in option_modules()
        for name, value in vars(module).items()
        if isinstance(value, Option) and value.use is use
    }
    found = [
        f"{path.relative_to(ENGINE)}: {name}"
        for folder in folders
        for path in sorted((ENGINE / folder).rglob("*.py"))
        for name in sorted(names & set(re.findall(r"\w+", path.read_text(encoding="utf-8"))))
    ]
    assert found == []


def _literals(path: Path) -> Iterator[ast.Constant]:
    """Yield the texts of a module, without the `kind` of errors: that is a name of its own."""
    tree = syntax_of(path)
    kinds = {
        keyword.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "kind"
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node not in kinds:
            yield node


def test_option_literals_stay_in_option_table() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}"
        for path in sorted(ENGINE.rglob("*.py"))
        if not path.name.endswith(("options.py", "add_ons.py"))
        for node in _literals(path)
        if node.value in KEYS - WORDS
    ]
    assert found == []
