"""Docstrings, comments, messages and names keep to the glossary of CONTRIBUTING."""

import pytest

from tests.house.vocabulary import FAMILIES, PARTICIPLE, counts, participles_of, words_of

BUDGETS = {
    "paimon_assets": (0, 1, 0, 0, 0),
    "paimon_assets/assets": (139, 47, 35, 38, 25),
    "paimon_assets/cdc": (109, 56, 32, 39, 37),
    "paimon_assets/cli": (32, 9, 7, 10, 4),
    "paimon_assets/engine": (16, 8, 8, 3, 1),
    "paimon_assets/engine/codec": (0, 2, 0, 0, 11),
    "paimon_assets/engine/contract": (2, 0, 0, 0, 3),
    "paimon_assets/engine/control": (99, 86, 49, 35, 57),
    "paimon_assets/engine/data": (24, 32, 16, 15, 29),
    "paimon_assets/engine/fileio": (43, 18, 17, 21, 10),
    "paimon_assets/engine/spec": (2, 1, 1, 2, 10),
    "paimon_assets/engine/table": (53, 67, 16, 39, 31),
    "paimon_assets/iceberg": (1, 0, 0, 4, 15),
    "paimon_assets/server": (1, 0, 1, 0, 15),
    "paimon_assets/spark": (85, 31, 18, 20, 23),
    "resources": (2, 0, 1, 1, 0),
    "jobs": (6, 0, 0, 0, 0),
    "jobs/demo": (24, 2, 1, 9, 9),
    "tests/assets": (111, 22, 23, 84, 35),
    "tests/behaviour": (7, 0, 3, 2, 2),
    "tests/cdc": (38, 13, 19, 51, 27),
    "tests/codec": (15, 3, 2, 3, 6),
    "tests": (22, 2, 5, 16, 5),
    "tests/contract": (6, 0, 0, 0, 2),
    "tests/control": (56, 36, 23, 38, 32),
    "tests/data": (58, 9, 16, 37, 27),
    "tests/e2e": (11, 3, 0, 6, 2),
    "tests/faults": (37, 25, 11, 45, 12),
    "tests/fileio": (29, 14, 9, 21, 5),
    "tests/house": (24, 1, 1, 14, 2),
    "tests/iceberg": (24, 18, 8, 5, 6),
    "tests/interop": (59, 9, 12, 30, 20),
    "tests/jobs": (2, 0, 2, 2, 0),
    "tests/lsm": (4, 1, 3, 0, 1),
    "tests/server": (35, 34, 10, 17, 20),
    "tests/simulation": (49, 19, 13, 7, 10),
    "tests/spark": (48, 9, 4, 30, 21),
    "tests/spec": (19, 1, 4, 11, 2),
    "tests/stateful": (14, 1, 1, 5, 3),
    "tests/table": (114, 53, 26, 79, 49),
    "tests/testkit": (118, 46, 27, 70, 36),
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
