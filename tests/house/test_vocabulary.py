"""Docstrings, comments, messages and names keep to the glossary of CONTRIBUTING."""

import pytest

from tests.house.vocabulary import FAMILIES, PARTICIPLE, counts, participles_of, words_of

BUDGETS = {
    "paimon_assets": (0, 1, 0, 0, 0),
    "paimon_assets/assets": (1, 2, 0, 0, 0),
    "paimon_assets/cdc": (0, 0, 0, 0, 2),
    "paimon_assets/cli": (4, 0, 2, 2, 0),
    "paimon_assets/engine/codec": (0, 2, 0, 0, 0),
    "paimon_assets/engine/contract": (1, 0, 0, 0, 0),
    "paimon_assets/engine/control": (0, 0, 0, 0, 3),
    "paimon_assets/engine/data": (0, 1, 0, 0, 0),
    "paimon_assets/engine/fileio": (1, 0, 0, 0, 0),
    "paimon_assets/engine/spec": (0, 0, 0, 0, 2),
    "paimon_assets/engine/table": (0, 0, 0, 0, 4),
    "paimon_assets/iceberg": (1, 0, 0, 4, 1),
    "paimon_assets/server": (1, 0, 1, 0, 5),
    "paimon_assets/spark": (0, 2, 0, 0, 0),
    "jobs/demo": (1, 0, 1, 1, 9),
    "tests/assets": (50, 10, 3, 41, 35),
    "tests/behaviour": (6, 0, 0, 2, 2),
    "tests/cdc": (30, 8, 8, 42, 27),
    "tests/codec": (2, 2, 1, 1, 6),
    "tests": (12, 1, 1, 7, 5),
    "tests/contract": (3, 0, 0, 0, 2),
    "tests/control": (0, 0, 0, 0, 2),
    "tests/data": (27, 4, 8, 16, 27),
    "tests/e2e": (6, 2, 0, 2, 2),
    "tests/faults": (28, 20, 8, 29, 12),
    "tests/fileio": (17, 9, 3, 5, 5),
    "tests/house": (2, 0, 1, 0, 0),
    "tests/iceberg": (16, 12, 2, 2, 6),
    "tests/interop": (4, 2, 1, 19, 20),
    "tests/jobs": (2, 0, 0, 2, 0),
    "tests/lsm": (1, 0, 0, 0, 1),
    "tests/server": (21, 14, 5, 4, 19),
    "tests/simulation": (2, 0, 0, 1, 10),
    "tests/spark": (24, 4, 1, 14, 21),
    "tests/spec": (3, 1, 0, 1, 2),
    "tests/stateful": (12, 1, 0, 3, 3),
    "tests/table": (46, 20, 7, 42, 50),
    "tests/testkit": (0, 0, 0, 0, 7),
    "tools/bench": (3, 1, 0, 1, 10),
    "tools/cdc": (0, 2, 0, 1, 3),
    "tools/fuzz": (9, 7, 4, 22, 16),
    "tools/iceberg": (2, 1, 1, 1, 0),
    "tools/server": (4, 0, 0, 0, 3),
    "tools/soak": (15, 9, 8, 2, 4),
}
"""Words that are left of each family of `FAMILIES`, then functions named by a participle; they
only shrink. `python -m tests.house.vocabulary` prints them."""
PLANTED = '''"""What stands here."""
def _told(who): ...  # of others
def assign_buckets(rows): return "the moment it goes"
'''


@pytest.mark.parametrize("package", sorted({*BUDGETS, *counts()}))
def test_package_keeps_to_its_budget_of_words(package: str) -> None:
    families = [*FAMILIES, PARTICIPLE]
    budget = dict(zip(families, BUDGETS.get(package, (0,) * len(families)), strict=True))
    numbers = {family: counts()[package][family] for family in families}
    assert {family: n for family, n in numbers.items() if n > budget[family]} == {}


def test_planted_words_are_found() -> None:
    words = [text for _, text in words_of(PLANTED, has_messages=True)]
    found = {
        family: sum(len(each.findall(text)) for text in words) for family, each in FAMILIES.items()
    }
    assert found == {"what": 1, "person": 2, "place": 2, "tale": 2}
    assert [*participles_of(PLANTED)] == [(2, "_told")]


def test_messages_count_where_users_see_them() -> None:
    words = [text for _, text in words_of(PLANTED, has_messages=False)]
    assert "the moment it goes" not in words
