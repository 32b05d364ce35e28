"""Public names are shown in use, by doctests."""

import doctest
import inspect
import re
import sys
from importlib import import_module

import pytest

from paimon_assets.engine.errors import PaimonError

DOORS = ("", *[".assets", ".cdc", ".columns", ".erasure", ".review", ".spark", ".sql", ".testing"])
RETURNED = {"DiffExample", "EraseReport", "ErasedPlace", "Promotion", "RowDiff", "TableDiff"}
"""Results of functions that have examples."""


def _has_docstring(item: object) -> bool:
    return inspect.isfunction(item) or (inspect.isclass(item) and not issubclass(item, PaimonError))


def _examples(items: list[object]) -> str:
    texts = (getattr(item, "__doc__", None) or "" for item in items)
    return "".join(e.source for text in texts for e in doctest.DocTestParser().get_examples(text))


def _is_shown(name: str, item: object) -> bool:
    """Whether the docstrings of an item, of its methods or of its module use it."""
    module = sys.modules[item.__module__]
    neighbours = [each for _, each in inspect.getmembers(module, _has_docstring)]
    by_name = re.search(rf"\b{name}\b", _examples([module, *neighbours]))
    return bool(_examples([item, *vars(item).values()]) or by_name)


@pytest.mark.parametrize("door", DOORS)
def test_public_names_have_examples(door: str) -> None:
    package = import_module(f"paimon_assets{door}")
    items = {name: getattr(package, name) for name in {*package.__all__} - RETURNED}
    public = {name: item for name, item in items.items() if _has_docstring(item)}
    assert public
    assert {name for name, item in public.items() if not _is_shown(name, item)} == set()
