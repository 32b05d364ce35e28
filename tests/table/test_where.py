from decimal import Decimal

import pytest

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.predicate import (
    And,
    CompareOp,
    Comparison,
    In,
    IsNull,
    Or,
    StartsWith,
)
from paimon_assets.engine.table.where import parse_where


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1", Comparison("a", CompareOp.EQ, 1)),
        ("2.5 <= a", Comparison("a", CompareOp.GE, Decimal("2.5"))),
        ("a <> -1", Comparison("a", CompareOp.NE, -1)),
        ("d >= DATE '2024-01-01'", Comparison("d", CompareOp.GE, "2024-01-01")),
        ("a in (1, 2)", In("a", (1, 2))),
        ("a not in ('x')", In("a", ("x",), negated=True)),
        ("a is not null", IsNull("a", negated=True)),
        ("name like 'ab%'", StartsWith("name", "ab")),
        ('"Select" = true', Comparison("Select", CompareOp.EQ, literal=True)),
        ("active", Comparison("active", CompareOp.EQ, literal=True)),
        (
            "not (a = 1 and b > 2)",
            Or((Comparison("a", CompareOp.NE, 1), Comparison("b", CompareOp.LE, 2))),
        ),
        (
            "a between 1 and 2",
            And((Comparison("a", CompareOp.GE, 1), Comparison("a", CompareOp.LE, 2))),
        ),
    ],
)
def test_a_filter_is_read_as_sql_means_it(text, expected):
    assert parse_where(text) == expected


@pytest.mark.parametrize(
    "text", ["", "a =", "a + 1 = 2", "a like '%x'", "f(a) = 1", "a = b", "select 1", "t.a = 1"]
)
def test_what_is_not_a_filter_is_refused(text):
    with pytest.raises(InvalidInputError, match="filter"):
        parse_where(text)
