"""Docstrings, comments, messages and names keep to the glossary of CONTRIBUTING."""

import pytest

from tests.house.vocabulary import FAMILIES, PARTICIPLE, counts, participles_of, words_of

BUDGETS = {
    "paimon_assets": (0, 1, 0, 0, 0),
    "paimon_assets/assets": (1, 2, 0, 0, 0),
    "paimon_assets/engine/contract": (1, 0, 0, 0, 0),
    "paimon_assets/engine/control": (0, 0, 0, 0, 3),
    "paimon_assets/engine/data": (0, 1, 0, 0, 0),
    "paimon_assets/engine/fileio": (1, 0, 0, 0, 0),
    "paimon_assets/engine/spec": (0, 0, 0, 0, 2),
    "paimon_assets/engine/table": (0, 0, 0, 0, 4),
    "paimon_assets/spark": (0, 2, 0, 0, 0),
    "tests": (12, 1, 1, 7, 1),
    "tests/behaviour": (0, 0, 0, 2, 0),
    "tests/control": (0, 0, 0, 0, 2),
    "tests/e2e": (0, 0, 0, 1, 0),
    "tests/faults": (0, 0, 6, 0, 0),
    "tests/house": (2, 0, 1, 0, 0),
    "tests/iceberg": (0, 0, 1, 0, 2),
    "tests/jobs": (2, 0, 0, 2, 0),
    "tests/lsm": (1, 0, 0, 0, 0),
    "tests/simulation": (2, 0, 0, 1, 2),
    "tests/testkit": (0, 0, 0, 0, 6),
    "tools/bench": (0, 1, 0, 0, 0),
    "tools/fuzz": (0, 6, 4, 1, 3),
    "tools/soak": (0, 0, 4, 0, 1),
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
