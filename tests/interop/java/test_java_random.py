"""Random steps by us and by Java Paimon in turns: after each, both read the rows of the model."""

import random

import pytest

from tests.interop import scenarios
from tests.interop.steps import Change, Compact, Empty, JavaSide, OurSide, Step, Write, on_paper
from tests.testkit.model import ModelTable
from tests.testkit.oracle import Oracle
from tests.testkit.rows import plain_rows

pytestmark = pytest.mark.interop

STEPS = 14
LOOKUP = {"changelog-producer": "lookup"}
TABLES = {
    "keyed": (True, {"bucket": "2", **scenarios.KEYED}),
    "dynamic": (True, {**scenarios.KEYED, **scenarios.DYNAMIC}),
    "with_changelog": (True, {"bucket": "1", **scenarios.KEYED, **LOOKUP, "write-only": "true"}),
    "orc": (True, {"bucket": "1", **scenarios.KEYED, "file.format": "orc"}),
    "append": (False, {"bucket": "-1", **scenarios.ROLLING}),
    "append_vectors": (False, {"bucket": "-1", **scenarios.ROLLING, **scenarios.VECTORS}),
    "append_vectors_64": (
        False,
        {"bucket": "-1", **scenarios.ROLLING, **scenarios.VECTORS, **scenarios.LONG},
    ),
    "append_buckets": (False, {**scenarios.BUCKETS, **scenarios.ROLLING}),
}


def _step(draw: random.Random, is_keyed: bool) -> Step:
    first = draw.randrange(60)
    few = range(first, first + draw.randint(1, 25))
    day = draw.choice("abc")
    match draw.choices(range(7), weights=(8, 3, 2, 1, 3, 2, 2))[0]:
        case 0:
            return Write(scenarios.rows(few, f"t{draw.randrange(100)} ", days="abc"))
        case 1 if is_keyed:
            return Write(scenarios.rows(few, "gone", kind="-D", days="abc"))
        case 2:
            return Write(
                scenarios.rows(few, "over", days=day), replaces=draw.choice([{}, {"day": day}])
            )
        case 3:
            return Empty(({"day": day},))
        case 4:
            return Compact(is_full=draw.random() < 0.5)
        case 5:
            return Change(tuple(few)[:6])
        case 6:
            return Change(tuple(few)[:6], f"u{draw.randrange(100)}")
        case _:
            return Write(scenarios.rows(few, "more", days="abc"))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", TABLES)
def test_both_read_commits_of_both(kind: str, seed: int, java: Oracle, ours: OurSide) -> None:
    is_keyed, options = TABLES[kind]
    scenario = scenarios.Scenario(
        name=kind,
        options=options,
        primary_keys=("day", "id") if is_keyed else (),
        partition_keys=("day",),
        steps=(),
    )
    name = f"random.{kind}_{seed}"
    theirs = JavaSide(java, ours)
    table = ours.create(name, scenario.schema)
    model = ModelTable(scenario.schema)
    draw = random.Random(f"{kind} {seed}")  # noqa: S311 - test data
    done = []
    for _ in range(STEPS):
        step, is_ours = _step(draw, is_keyed), draw.random() < 0.5
        (ours if is_ours else theirs).do(name, step)
        on_paper(model, step)
        done.append((is_ours, step))
        expected = plain_rows(model.rows(), scenarios.NAMES)
        assert plain_rows(table.new_read_builder().to_arrow(), scenarios.NAMES) == expected, done
        assert sorted(map(tuple, java.call("rows", table=name)), key=repr) == expected, done
