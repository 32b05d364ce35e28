"""Merge engines are named in their traits and their merge functions alone."""

import ast
import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paimon_assets.engine.data.merge.function import merge_function_of
from paimon_assets.engine.spec.merge.engine_traits import ENGINE_TRAITS, EngineTraits
from paimon_assets.engine.spec.options.all_options import MergeEngine
from tests.testkit.syntax import syntax_of

PACKAGE = Path(__file__).resolve().parents[2] / "paimon_assets"


_MAY_NAME_ONE = re.compile(rf"MergeEngine|MERGE_ENGINE|\.engine\b(?!\.)|{'|'.join(MergeEngine)}")


@functools.cache
def _trees() -> dict[str, ast.Module]:
    return {
        str(path.relative_to(PACKAGE)): syntax_of(text)
        for path in sorted(PACKAGE.rglob("*.py"))
        if _MAY_NAME_ONE.search(text := path.read_text(encoding="utf-8"))
    }


def _home(named: Any) -> str:
    return str(Path(inspect.getfile(named)).relative_to(PACKAGE))


DECLARED, TRAITS, MAKER = map(_home, (MergeEngine, EngineTraits, merge_function_of))


def _modules_with(found: Callable[[ast.AST], bool]) -> set[str]:
    return {name for name, tree in _trees().items() if any(map(found, ast.walk(tree)))}


def _names_an_engine(node: ast.AST) -> bool:
    names = {ast.Name: "id", ast.alias: "name", ast.Attribute: "attr"}
    return getattr(node, names.get(type(node), ""), None) == "MergeEngine"


def _spells_an_engine(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value in set(MergeEngine)


def _reads_the_option(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Name(id=name), *_]):
            return name == "MERGE_ENGINE"
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Attribute(attr=name), *_]):
            return name == "MERGE_ENGINE"
        case _:
            return False


def _branches_on_an_engine(node: ast.AST) -> bool:
    match node:
        case ast.Match(subject=asked):
            parts = [asked]
        case ast.Compare(left=left, comparators=comparators):
            parts = [left, *comparators]
        case ast.Subscript(slice=key):
            parts = [key]
        case _:
            return False
    return any(isinstance(part, ast.Attribute) and part.attr == "engine" for part in parts)


def test_every_engine_has_its_traits() -> None:
    assert {engine: traits.engine for engine, traits in ENGINE_TRAITS.items()} == {
        engine: engine for engine in MergeEngine
    }


def test_engine_is_named_in_traits_and_function_factory() -> None:
    assert _modules_with(_names_an_engine) == {DECLARED, TRAITS, MAKER}
    assert _modules_with(_spells_an_engine) == {DECLARED}


def test_code_branches_on_traits() -> None:
    assert _modules_with(_reads_the_option) == {TRAITS}
    assert _modules_with(_branches_on_an_engine) == {MAKER}
