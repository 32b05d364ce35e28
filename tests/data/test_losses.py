"""A value that a cast is reported to keep can be recovered from the result: every cast vector."""

import datetime as dt
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.data.cast_losses import losses_of, show
from paimon_assets.engine.data.casting.casting import CastSettings, cast_column
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.all_options import CastDialect
from paimon_assets.engine.spec.types.cast_fit import Loss, keeps_all, loss_within
from paimon_assets.engine.spec.types.cast_rules import supports_cast
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.cast_vectors import VECTORS, NotInArrowError, scalar_of, type_of

DIALECTS = tuple(CastDialect)


def losses(values, source, target, dialect=CastDialect.JAVA):
    source, target = parse_type(source), parse_type(target)
    array = pa.array(values, to_arrow_type(source))
    found = losses_of(array, source, target, CastSettings(dialect=dialect))
    kinds = np.full(len(values), "", object)
    for loss, rows in found.rows.items():
        kinds[rows] = loss.name
    return list(kinds)


CASES = (
    ("INT", "TINYINT", {127: "", 128: "OVERFLOW", -129: "OVERFLOW", None: ""}),
    ("BIGINT", "DOUBLE", {2**53: "", 2**53 + 1: "TRUNCATED", 2**63 - 1: "TRUNCATED"}),
    ("BIGINT", "FLOAT", {2**24: "", 2**24 + 1: "TRUNCATED"}),
    ("INT", "BOOLEAN", {0: "", 1: "", 2: "TRUNCATED"}),
    ("INT", "DECIMAL(3, 1)", {99: "", 100: "NULLED"}),
    ("INT", "VARCHAR(2)", {12: "", 123: "TRUNCATED", -12: "TRUNCATED"}),
    ("INT", "CHAR(4)", {7: ""}),
    ("BIGINT", "TIMESTAMP(3)", {0: "", 2**62: "OVERFLOW"}),
    ("BIGINT", "TIMESTAMP(9)", {9223372036: "", 9223372037: "FAILED"}),
    (
        "DOUBLE",
        "INT",
        {1.0: "", 1.5: "TRUNCATED", 2.0**31: "OVERFLOW", -(2.0**31): "", float("nan"): "OVERFLOW"},
    ),
    ("DOUBLE", "BIGINT", {2.0**63: "OVERFLOW", -(2.0**63): "", float("inf"): "OVERFLOW"}),
    ("FLOAT", "INT", {2147483648.0: "OVERFLOW", -2147483648.0: ""}),
    (
        "DOUBLE",
        "FLOAT",
        {0.5: "", 0.1: "TRUNCATED", 1e39: "OVERFLOW", float("inf"): "", float("nan"): ""},
    ),
    ("DOUBLE", "DECIMAL(4, 2)", {0.1: "", 1.005: "TRUNCATED", 100.0: "NULLED"}),
    ("DOUBLE", "DECIMAL(4, 2)", {float("nan"): "FAILED", 0.25: "", float("inf"): "FAILED"}),
    ("BOOLEAN", "DECIMAL(1, 1)", {True: "NULLED", False: ""}),
    ("STRING", "INT", {"7": "", "+07": "", "1.": "", "1.9": "TRUNCATED", "x": "FAILED"}),
    ("STRING", "DOUBLE", {"1.5": "", "1e999": "OVERFLOW", "-Infinity": "", "inf": "FAILED"}),
    ("STRING", "DECIMAL(4, 2)", {"1.50": "", "1.555": "TRUNCATED", "100": "NULLED", "?": "FAILED"}),
    ("STRING", "DATE", {"2024-02-29": "", "2024-02-29 10:00:00": "TRUNCATED", "x": "FAILED"}),
    ("STRING", "TIMESTAMP(0)", {"2024-01-01 00:00:00.00": "", "1970-01-01 0:0:0.1": "TRUNCATED"}),
    ("STRING", "VARCHAR(2)", {"ab": "", "äb": "", "abc": "TRUNCATED"}),
    ("STRING", "CHAR(3)", {"ab": "", "abcd": "TRUNCATED"}),
    ("STRING", "VARBINARY(2)", {"ab": "", "äb": "TRUNCATED"}),
    ("BYTES", "STRING", {b"ab": "", b"\xff": "FAILED"}),
    ("BYTES", "BINARY(2)", {b"a": "", b"abc": "TRUNCATED"}),
)  # fmt: skip


@pytest.mark.parametrize(("source", "target", "expected"), CASES)
def test_each_loss_has_name(source, target, expected):
    assert losses(list(expected), source, target) == list(expected.values())


def test_decimals_and_times():
    day = dt.datetime(1970, 1, 2)
    time = day + dt.timedelta(milliseconds=500)
    assert losses(
        [Decimal("1.00"), Decimal("1.50"), Decimal("300.00")], "DECIMAL(5, 2)", "TINYINT"
    ) == ["", "TRUNCATED", "OVERFLOW"]
    assert losses(
        [Decimal("0.50"), Decimal("0.55"), Decimal("99.95")], "DECIMAL(4, 2)", "DECIMAL(3, 1)"
    ) == ["", "TRUNCATED", "NULLED"]
    assert losses([Decimal("0.55")], "DECIMAL(4, 2)", "FLOAT") == [""]
    assert losses([day, time], "TIMESTAMP(6)", "DATE") == ["", "TRUNCATED"]
    assert losses([day, time], "TIMESTAMP(6)", "BIGINT") == ["", "TRUNCATED"]
    assert losses([day, time], "TIMESTAMP(6)", "TIMESTAMP(0)") == ["", "TRUNCATED"]
    assert losses([day + dt.timedelta(days=25_000)], "TIMESTAMP(6)", "INT") == ["OVERFLOW"]
    assert losses([day.date()], "DATE", "TIMESTAMP(3)") == [""]


def test_lengths_count_in_java_only():
    assert losses(["abc"], "STRING", "VARCHAR(2)", CastDialect.CPP) == [""]


def test_many_failures_are_counted_up_to_bound():
    found = losses_of(pa.array(["x"] * 10_000), parse_type("STRING"), parse_type("INT"))
    failed = int(found.rows[Loss.FAILED].sum())
    assert 900 < failed < 1_100
    assert failed + found.unjudged == 10_000
    assert found.result.null_count == 10_000


def test_values_are_shown_readably():
    assert show(pa.array([b"\x01", None]), parse_type("BYTES")) == ["0x01", None]
    assert show(pa.array([1.0]), parse_type("DOUBLE")) == ["1.0"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_losses_equal_cast_vectors(dialect):
    """Kept means: not null, not an error, and bounds of one value never say otherwise."""
    column = f"expected_{dialect}"
    judged = 0
    for row in VECTORS:
        source, target = type_of(row["src_type"]), type_of(row["dst_type"])
        if row["input"] == "NULL" or not supports_cast(source, target):
            continue
        try:
            array = scalar_of(row["input"], source)
        except NotInArrowError:
            continue
        found = losses_of(array, source, target, CastSettings(dialect=dialect))
        kinds = {loss for loss, rows in found.rows.items() if rows[0]}
        judged += 1
        if row[column].startswith("ERROR"):
            assert kinds == {Loss.FAILED}, row
        elif row[column] == "NULL":
            assert kinds == {Loss.NULLED}, row
        if keeps_all(source, target):
            assert not kinds, row
    assert judged > 1000


NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(9, 3)")
VALUES = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.integers(-300, 300), st.floats(allow_nan=False, width=32)
)


@given(st.sampled_from(NUMBERS), st.sampled_from(NUMBERS), st.lists(VALUES, min_size=1, max_size=9))
def test_bounds_agree_with_values(source, target, values):
    held, wanted = parse_type(source), parse_type(target)
    if source.startswith("DECIMAL"):
        values = [0 if np.isinf(float(value)) else value for value in values]
    doubles = pa.array([float(v) for v in values])
    numbers = pa.array(values, pa.int64()) if all(isinstance(v, int) for v in values) else doubles
    kind = "BIGINT" if numbers.type == pa.int64() else "DOUBLE"
    array = cast_column(numbers, parse_type(kind), held).drop_null()
    if not len(array):
        return
    found = losses_of(array, held, wanted)
    lossy = {loss for loss, rows in found.rows.items() if rows.any()}
    ordered = sorted(array.to_pylist())
    answer = loss_within(held, wanted, ordered[0], ordered[-1])
    if answer is False:
        assert not lossy
    if isinstance(answer, Loss):
        assert answer in lossy
    if source == target or keeps_all(held, wanted):
        assert not lossy
    kept = ~np.logical_or.reduce([*found.rows.values(), np.zeros(len(array), bool)])
    if wanted.root.value in ("TINYINT", "SMALLINT", "INT", "BIGINT"):
        for before, after, is_kept in zip(
            array.to_pylist(), found.result.to_pylist(), kept, strict=True
        ):
            if is_kept:
                assert Fraction(before) == after
            else:
                finite = np.isfinite(float(before))
                assert not finite or Fraction(before) != after


@pytest.mark.parametrize("values", [["1", "x", "3"], ["x"]])
def test_values_beside_failing_one_are_cast(values):
    found = losses_of(pa.array(values), parse_type("STRING"), parse_type("INT"))
    assert [v for v in found.result.to_pylist() if v is not None] == [1, 3][: len(values) - 1]
    with pytest.raises(InvalidInputError):
        cast_column(pa.array(values), parse_type("STRING"), parse_type("INT"))
