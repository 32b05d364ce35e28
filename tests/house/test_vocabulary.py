"""Docstrings, comments, messages and names keep to the glossary of CONTRIBUTING."""

import pytest

from tests.house.vocabulary import FAMILIES, PARTICIPLE, counts, participles_of, words_of

BUDGETS = {
    "paimon_assets": (3, 4, 3, 3, 3),
    "paimon_assets/assets": (38, 22, 13, 14, 28),
    "paimon_assets/cdc": (112, 59, 35, 42, 40),
    "paimon_assets/cli": (7, 3, 5, 5, 7),
    "paimon_assets/engine": (4, 3, 3, 3, 4),
    "paimon_assets/engine/codec": (3, 5, 3, 3, 14),
    "paimon_assets/engine/contract": (5, 3, 3, 3, 6),
    "paimon_assets/engine/control": (4, 34, 12, 9, 60),
    "paimon_assets/engine/data": (4, 7, 3, 4, 32),
    "paimon_assets/engine/fileio": (8, 4, 4, 9, 13),
    "paimon_assets/engine/spec": (5, 4, 4, 5, 13),
    "paimon_assets/engine/table": (10, 4, 4, 13, 34),
    "paimon_assets/iceberg": (4, 3, 3, 7, 18),
    "paimon_assets/server": (4, 3, 4, 3, 18),
    "paimon_assets/spark": (15, 10, 8, 8, 26),
    "jobs/demo": (1, 0, 1, 1, 9),
    "tests/assets": (114, 25, 26, 87, 38),
    "tests/behaviour": (10, 3, 6, 5, 5),
    "tests/cdc": (41, 16, 22, 54, 30),
    "tests/codec": (18, 6, 5, 6, 9),
    "tests": (25, 5, 8, 19, 8),
    "tests/contract": (9, 3, 3, 3, 5),
    "tests/control": (59, 39, 26, 41, 35),
    "tests/data": (61, 12, 19, 40, 30),
    "tests/e2e": (14, 6, 3, 9, 5),
    "tests/faults": (39, 26, 14, 40, 15),
    "tests/fileio": (32, 17, 12, 24, 8),
    "tests/house": (27, 4, 4, 17, 5),
    "tests/iceberg": (27, 21, 11, 8, 9),
    "tests/interop": (62, 12, 15, 33, 23),
    "tests/jobs": (5, 3, 5, 5, 3),
    "tests/lsm": (7, 4, 6, 3, 4),
    "tests/server": (38, 37, 13, 20, 23),
    "tests/simulation": (52, 22, 16, 10, 13),
    "tests/spark": (51, 12, 7, 33, 24),
    "tests/spec": (22, 4, 7, 14, 5),
    "tests/stateful": (16, 4, 4, 8, 6),
    "tests/table": (117, 56, 29, 82, 52),
    "tests/testkit": (121, 49, 30, 69, 39),
    "tools/bench": (15, 4, 2, 5, 10),
    "tools/cdc": (9, 2, 1, 5, 3),
    "tools/fuzz": (33, 11, 6, 27, 16),
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
