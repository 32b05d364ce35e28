"""Procedures are made of operations: parameters by type, listed in docs/sql/sql.md."""

import inspect

import pytest

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.sql.procedures import PROCEDURES, parameters_of, parse_value
from tests.house.procedures_table import COMMAND, PAGE, table

TEXTS = ("1", "1 d", "full", "keep", "a=b")
"""Of these each type takes one."""


def test_page_lists_procedures() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert table() in written, f"docs/sql/sql.md is not what the operations say; run: {COMMAND}"


@pytest.mark.parametrize("name", PROCEDURES)
def test_call_can_give_every_parameter(name: str) -> None:
    for parameter in parameters_of(PROCEDURES[name]):
        assert any(_fits(parameter, text) for text in TEXTS), parameter.name
    from_caller = inspect.getfullargspec(PROCEDURES[name]).kwonlyargs
    assert {*from_caller} <= {"catalog", "executor"}


def _fits(parameter: inspect.Parameter, text: str) -> bool:
    try:
        parse_value(parameter, text)
    except InvalidInputError:
        return False
    return True
