"""We and Java Paimon take turns on one table; both read the rows of the model."""

from itertools import cycle

import pytest

from tests.interop.scenarios import NAMES, SCENARIOS, Scenario
from tests.interop.steps import JavaSide, OurSide, on_paper
from tests.testkit.model import ModelTable
from tests.testkit.oracle import Oracle
from tests.testkit.rows import plain_rows

pytestmark = pytest.mark.interop

TURNS = {"we": "o", "java": "j", "we-java": "oj", "java-we": "jo"}


@pytest.mark.parametrize("turns", TURNS.values(), ids=TURNS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_all_read_commits_of_all(
    scenario: Scenario, turns: str, java: Oracle, ours: OurSide
) -> None:
    table = f"scenarios.{scenario.name}_{turns}"
    theirs = JavaSide(java, ours)
    opened = ours.create(table, scenario.schema)
    model = ModelTable(scenario.schema)
    for step, turn in zip(scenario.steps, cycle(turns), strict=False):
        side = ours if turn == "o" or type(step) in scenario.only_we else theirs
        side.do(table, step)
        on_paper(model, step)
    expected = plain_rows(model.rows(), NAMES)
    assert plain_rows(opened.new_read_builder().to_arrow(), NAMES) == expected
    assert sorted(map(tuple, java.call("rows", table=table)), key=repr) == expected
