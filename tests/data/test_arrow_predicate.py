from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.data.read.row_stage import passing_rows
from paimon_assets.engine.spec.predicate import predicate as pred
from tests.testkit.predicate_truth import truth
from tests.testkit.tables import table_schema

SCHEMA = table_schema(
    {
        "i": "TINYINT",
        "s": "STRING",
        "m": "DECIMAL(5, 2)",
        "t": "TIMESTAMP(3)",
        "z": "TIMESTAMP(0) WITH LOCAL TIME ZONE",
        "f": "DOUBLE",
    }
)


def passing(predicate, **columns):
    arrow = to_arrow_schema(SCHEMA.columns(columns))
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(values, field.type)
            for values, field in zip(columns.values(), arrow, strict=True)
        ],
        schema=arrow,
    )
    mask = passing_rows(pred.bind(predicate, SCHEMA), batch.column, SCHEMA.by_name)
    assert mask.null_count == 0
    return mask.to_pylist()


NUMBER = st.none() | st.integers(-2, 2)
FAR = st.sampled_from([2**63 - 1, 2**63, -(2**63) - 1, 10**40, -(10**40)])
FRACTION = st.sampled_from(
    [Decimal(text) for text in ("1.5", "-0.5", "-1.000000001", "1e-90", "-1e-90", "2.0", "1e99")]
)
TEXT = st.none() | st.sampled_from(["", "a", "ab", "b", "a\nb", "a_", "%", "\\"])
LEAF = st.one_of(
    st.builds(
        pred.Comparison,
        st.just("i"),
        st.sampled_from(pred.CompareOp),
        st.none() | st.integers(-300, 300) | FAR | FRACTION,
    ),
    st.builds(pred.Comparison, st.just("s"), st.sampled_from(pred.CompareOp), TEXT),
    st.builds(
        pred.In,
        st.just("i"),
        st.lists(NUMBER | FAR | FRACTION, max_size=3).map(tuple),
        st.booleans(),
    ),
    st.builds(pred.In, st.just("s"), st.lists(TEXT, max_size=3).map(tuple), st.booleans()),
    st.builds(pred.IsNull, st.sampled_from(["i", "s"]), st.booleans()),
    st.builds(pred.StartsWith, st.just("s"), st.sampled_from(["", "a", "b"])),
    st.builds(pred.Like, st.just("s"), st.text("ab%_\n", max_size=4), st.booleans()),
    st.builds(pred.Like, st.just("s"), st.sampled_from([r"\%", r"a\_%", r"%\\"]), st.booleans()),
)
PREDICATE = st.recursive(
    LEAF,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        .map(tuple)
        .flatmap(lambda children: st.sampled_from([pred.And(children), pred.Or(children)]))
    ),
    max_leaves=6,
)


@given(PREDICATE, st.lists(st.tuples(NUMBER, TEXT), max_size=8))
def test_rows_pass_exactly_if_predicate_is_true(predicate, rows):
    numbers, texts = [row[0] for row in rows], [row[1] for row in rows]
    expected = [truth(predicate, {"i": number, "s": text}) is True for number, text in rows]
    assert passing(predicate, i=numbers, s=texts) == expected


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (pred.CompareOp.EQ, [False, False, False, False]),
        (pred.CompareOp.NE, [True, True, True, False]),
        (pred.CompareOp.LT, [True, True, False, False]),
        (pred.CompareOp.LE, [True, True, False, False]),
        (pred.CompareOp.GT, [False, False, True, False]),
        (pred.CompareOp.GE, [False, False, True, False]),
    ],
)
def test_literal_between_two_values_of_unit_sorts_between_them(op, expected):
    literal = "1969-12-31T23:59:59.999500"
    assert passing(pred.Comparison("t", op, literal), t=[-2, -1, 0, None]) == expected


def test_literals_finer_than_seconds_compare_with_distant_times():
    far = 253_402_300_799  # the last second of the year 9999
    assert passing(
        pred.Comparison("z", pred.CompareOp.GT, "2024-01-01T00:00:00.5"), z=[0, far]
    ) == [False, True]
    assert passing(pred.In("z", ("1970-01-01T00:00:00",)), z=[0, far]) == [True, False]
    assert passing(pred.In("z", ("1970-01-01T00:00:00.5",)), z=[0, far]) == [False, False]


def test_decimals_compare_by_value():
    numbers = ["1.20", "1.30", None]
    column = [
        None if number is None else pa.scalar(number).cast(pa.decimal128(5, 2)).as_py()
        for number in numbers
    ]
    assert passing(pred.Comparison("m", pred.CompareOp.LT, "1.234"), m=column) == [
        True,
        False,
        False,
    ]
    assert passing(pred.In("m", ("1.3", "7.777")), m=column) == [False, True, False]


def test_floating_point_compares_as_in_java():
    nan = float("nan")
    values = [1.0, nan, 0.0, -0.0, -5.0, None]
    for literal in (nan, 0.0, -0.0, 1.0, -7.0):
        for op in pred.CompareOp:
            leaf = pred.Comparison("f", op, literal)
            assert passing(leaf, f=values) == [bool(truth(leaf, {"f": value})) for value in values]
        for negated in (False, True):
            among = pred.In("f", (literal, 1.0), negated=negated)
            assert passing(among, f=values) == [bool(truth(among, {"f": v})) for v in values]
    assert passing(pred.Comparison("f", pred.CompareOp.GT, 1.0), f=values).index(True) == 1
    assert passing(pred.Comparison("f", pred.CompareOp.LT, 0.0), f=values)[3]


def test_times_outside_python_are_compared():
    far = 500_000_000_000_000  # the year 17814
    wanted = pred.In(field="t", literals=(far * 10**6, 0))
    assert passing(wanted, t=[far, 1, 0]) == [True, False, True]
