from decimal import Decimal

import pyarrow as pa
import pytest

from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.predicate.predicate import (
    And,
    CompareOp,
    Comparison,
    In,
    IsNull,
    Or,
    StartsWith,
    bind,
)
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema
from paimon_assets.engine.table.read.where import parse_where


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
        ("(a) = (-(1))", Comparison("a", CompareOp.EQ, -1)),
        (
            "a = TIMESTAMP '2024-01-01 00:00:00'",
            Comparison("a", CompareOp.EQ, "2024-01-01 00:00:00"),
        ),
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
    "text",
    ["", "a =", "a + 1 = 2", "a like '%x'", "f(a) = 1", "a = b", "select 1", "t.a = 1",
     "a not like 'x%'", "a like 'x%' escape '!'", "a ilike 'x%'", "a like any ('x%')",
     "a between symmetric 2 and 1", "a = cast(1.5 as int)", "a = 1; a = 2"],
)  # fmt: skip
def test_what_is_not_a_filter_is_refused(text):
    with pytest.raises(InvalidInputError, match="filter"):
        parse_where(text)


def test_like_is_for_texts():
    schema = first_table_schema(Schema.of({"a": "INT"}), time_millis=0)
    with pytest.raises(InvalidInputError, match="'a' is INT"):
        bind(parse_where("a like '1%'"), schema)


@pytest.mark.parametrize("text", ["f = 0.1", "f <= 0.1", "f >= 0.1", "f in (0.1)"])
def test_a_float_column_holds_the_literal_it_was_written_with(new_catalog, text):
    table = new_catalog.create_table("db.t", Schema.of({"f": "FLOAT"}))
    rows = pa.table({"f": pa.array([0.1], pa.float32())})
    table.new_write_builder().write(rows, EmbeddedExecutor())
    assert table.new_read_builder().with_filter(text).to_arrow().num_rows == 1
