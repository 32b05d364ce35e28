import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.predicate.prune import UNKNOWN, Bounds, exactly, may_match
from tests.testkit.predicate_truth import truth
from tests.testkit.tables import table_schema

values = st.integers(-3, 3) | st.none()
leaves = st.one_of(
    st.builds(pred.Comparison, st.sampled_from("ab"), st.sampled_from(pred.CompareOp), values),
    st.builds(
        pred.In, st.sampled_from("ab"), st.lists(values, max_size=3).map(tuple), st.booleans()
    ),
    st.builds(pred.IsNull, st.sampled_from("ab"), st.booleans()),
)
predicates = st.recursive(
    leaves,
    lambda inner: st.lists(inner, min_size=1, max_size=3).flatmap(
        lambda parts: st.sampled_from([pred.And(tuple(parts)), pred.Or(tuple(parts))])
    ),
    max_leaves=6,
)


def bounds(rows, field):
    present = [row[field] for row in rows if row[field] is not None]
    return Bounds(
        minimum=min(present, default=None),
        maximum=max(present, default=None),
        null_count=len(rows) - len(present),
        row_count=len(rows),
    )


rows_strategy = st.lists(st.fixed_dictionaries({"a": values, "b": values}), min_size=1, max_size=5)


@given(predicates, rows_strategy)
def test_file_with_passing_row_is_never_skipped(predicate, rows):
    if any(truth(predicate, row) for row in rows):
        assert may_match(predicate, lambda field: bounds(rows, field))
        assert may_match(predicate, lambda field: UNKNOWN)


@given(leaves, values)
def test_single_known_value_is_decided_exactly(leaf, value):
    row = {"a": value, "b": value}
    assert may_match(leaf, lambda field: exactly(value)) == (truth(leaf, row) is True)


@pytest.mark.parametrize(
    ("low", "high", "prefix", "expected"),
    [
        ("aa", "bb", "ab", True),
        ("aa", "bb", "b", True),
        ("aa", "bb", "c", False),
        ("b", "c", "ab", False),
        ("abc", "abd", "ab", True),
        (None, None, "x", True),
    ],
)
def test_prefix_is_compared_with_truncated_bounds(low, high, prefix, expected):
    known = Bounds(minimum=low, maximum=high)
    assert may_match(pred.StartsWith("s", prefix), lambda field: known) is expected
    assert may_match(pred.Like("s", f"{prefix}%_"), lambda field: known) is expected
    assert may_match(pred.Like("s", f"{prefix}%_", negated=True), lambda field: known)


@pytest.mark.parametrize("pattern", ["a%", "%b", "a_", "b", r"a\%", "%"])
@pytest.mark.parametrize("value", ["a", "ab", "a%", "b", "", None])
@pytest.mark.parametrize("negated", [False, True])
def test_pattern_decides_single_known_value_exactly(pattern, value, negated):
    leaf = pred.Like("s", pattern, negated)
    assert may_match(leaf, lambda field: exactly(value)) == (truth(leaf, {"s": value}) is True)


def test_only_whole_conjuncts_on_given_columns_are_kept():
    a, b = pred.Comparison("a", pred.CompareOp.GT, 1), pred.Comparison("b", pred.CompareOp.GT, 1)
    assert pred.only_on(pred.And((a, b, pred.Or((a, b)))), ["a"]) == a
    assert pred.only_on(pred.Or((a, b)), ["a"]) is None


@given(predicates)
def test_renaming_back_restores_predicate(predicate):
    there = pred.rename(predicate, {"a": "x", "b": "y"})
    assert pred.fields_of(there) <= {"x", "y"}
    assert pred.rename(there, {"x": "a", "y": "b"}) == predicate


def test_binding_turns_literals_into_internal_values():
    schema = table_schema({"d": "DATE", "t": "TIMESTAMP(3)", "m": "DECIMAL(5, 2)"})
    bound = pred.bind(
        pred.And(
            (
                pred.Comparison("d", pred.CompareOp.EQ, "1970-01-02"),
                pred.Comparison("t", pred.CompareOp.EQ, "1970-01-01 00:00:01"),
                pred.In("m", (1, "2.50")),
            )
        ),
        schema,
    )
    day, second, money = bound.children
    assert day.literal == 1
    assert second.literal == 1_000_000_000
    assert [str(value) for value in money.literals] == ["1", "2.50"]
    assert pred.bind(bound, schema) == bound


FLOATS = [float("-inf"), -1.5, -0.0, 0.0, 5e-324, 2.0, float("inf"), float("nan")]
"""In Java's order."""
PLACES = {
    pred.CompareOp.EQ: lambda a, b: a == b,
    pred.CompareOp.NE: lambda a, b: a != b,
    pred.CompareOp.LT: lambda a, b: a < b,
    pred.CompareOp.LE: lambda a, b: a <= b,
    pred.CompareOp.GT: lambda a, b: a > b,
    pred.CompareOp.GE: lambda a, b: a >= b,
}


def test_known_float_is_decided_exactly():
    for place, value in enumerate(FLOATS):
        held = {"p": exactly(value)}.__getitem__
        for other, literal in enumerate(FLOATS):
            for op, holds in PLACES.items():
                found = may_match(pred.Comparison("p", op, literal), held)
                assert found == holds(place, other), (value, op, literal)
            assert may_match(pred.In("p", (literal, 7.0)), held) == (place == other)
            assert may_match(pred.In("p", (literal, 7.0), negated=True), held) == (place != other)


def test_bounds_that_hold_nan_rule_nothing_out():
    held = {"p": Bounds(minimum=1.0, maximum=float("nan"), null_count=0, row_count=2)}.__getitem__
    assert may_match(pred.Comparison("p", pred.CompareOp.GT, 7.0), held)
