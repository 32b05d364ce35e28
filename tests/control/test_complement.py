"""The complement of a predicate is true exactly where the predicate is not."""

from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.control.row_change import complement
from paimon_assets.engine.spec.predicate.predicate import (
    And,
    CompareOp,
    Comparison,
    In,
    IsNull,
    Or,
    StartsWith,
)
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema
from tests.testkit.predicate_truth import truth

SCHEMA = first_table_schema(
    Schema.of({"a": "INT", "b": "INT", "t": "STRING", "x": "DOUBLE"}), time_millis=0
)
NUMBERS = st.integers(0, 3)
LEAVES = st.one_of(
    st.builds(Comparison, st.sampled_from("ab"), st.sampled_from(CompareOp), NUMBERS),
    st.builds(In, st.sampled_from("ab"), st.lists(NUMBERS, max_size=2).map(tuple), st.booleans()),
    st.builds(IsNull, st.sampled_from("ab"), st.booleans()),
)
PREDICATES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(tuple).map(And),
        st.lists(inner, min_size=1, max_size=3).map(tuple).map(Or),
    ),
    max_leaves=6,
)


@given(predicate=PREDICATES, a=NUMBERS | st.none(), b=NUMBERS | st.none())
def test_a_row_passes_either_one(predicate, a, b):
    others = complement(predicate, SCHEMA)
    row = {"a": a, "b": b}
    assert others is not None
    assert (truth(predicate, row) is True) is not (truth(others, row) is True)


def test_some_predicates_have_none():
    for leaf in (
        StartsWith("t", "x"),
        Comparison("x", CompareOp.LT, 1.0),
        In("x", (1.0,)),
        Comparison("a", CompareOp.NE, None),
        In("a", (1, None), negated=True),
    ):
        assert complement(leaf, SCHEMA) is None
        assert complement(Or((IsNull("a"), leaf)), SCHEMA) is None
