"""pypaimon and pypaimon-rust read tables with everything that keeps state between commits."""

import pytest

from tests.interop.scenarios import NAMES, SCENARIOS, Scenario
from tests.interop.steps import OurSide, on_paper
from tests.testkit.model import ModelTable
from tests.testkit.oracle import Oracle
from tests.testkit.rows import plain_rows

pytestmark = pytest.mark.interop

NOT_BY_PYPAIMON = {"vectors_64": "knows deletion vectors of 32 bits only"}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_peers_read_our_changes(
    scenario: Scenario, pypaimon: Oracle, rust: Oracle, ours: OurSide
) -> None:
    table = f"scenarios.{scenario.name}"
    opened = ours.create(table, scenario.schema)
    model = ModelTable(scenario.schema)
    for step in scenario.steps:
        ours.do(table, step)
        on_paper(model, step)
    expected = plain_rows(model.rows(), NAMES)
    assert plain_rows(opened.new_read_builder().to_arrow(), NAMES) == expected
    assert plain_rows(rust.read(table), NAMES) == expected
    if scenario.name not in NOT_BY_PYPAIMON:
        assert plain_rows(pypaimon.read(table), NAMES) == expected
