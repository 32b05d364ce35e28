from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.codec.arrow.arrow_values import internals, to_scalar
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.codec_strategies import arrow_columns, atomic_types, typed_rows, values


@given(st.data(), atomic_types)
def test_values_round_trip_through_scalars_of_column_type(data, data_type):
    value = data.draw(values(data_type))
    scalar = to_scalar(value, data_type)
    assert scalar.type == to_arrow_type(data_type)
    assert internals(pa.array([scalar]), data_type) == [value]


@given(typed_rows(atomic_types, max_rows=5))
def test_columns_give_their_values(typed):
    types, rows = typed
    columns = arrow_columns(types, rows)
    found = [internals(column, data_type) for column, data_type in zip(columns, types, strict=True)]
    assert list(zip(*found, strict=True)) == rows


@pytest.mark.parametrize(
    ("type_text", "value", "column_value"),
    [
        ("TIMESTAMP(0)", 1_500_000_000, pa.scalar(1, pa.timestamp("s"))),
        ("TIMESTAMP(3)", 1_000_001, pa.scalar(1, pa.timestamp("ms"))),
        ("INT", 2**31, pa.scalar(2**31 - 1, pa.int32())),
        ("DECIMAL(4, 2)", Decimal("12.345"), pa.scalar(Decimal("12.34"), pa.decimal128(4, 2))),
        ("DECIMAL(4, 2)", Decimal(1000), pa.scalar(Decimal("99.99"), pa.decimal128(4, 2))),
    ],
)
def test_unholdable_literal_compares_correctly(type_text, value, column_value):
    scalar = to_scalar(value, parse_type(type_text))
    assert pc.less(column_value, scalar).as_py()
    assert not pc.equal(column_value, scalar).as_py()
    assert internals(pa.array([scalar]), parse_type(type_text)) == [value]


@pytest.mark.parametrize("value", [2**63, 10**18 + 2**64, 10**40])
def test_number_beyond_bigint_compares_correctly(value):
    most = pa.scalar(2**63 - 1, pa.int64())
    assert pc.less(most, to_scalar(value, parse_type("BIGINT"))).as_py()
    assert pc.greater(most, to_scalar(-value - 1, parse_type("BIGINT"))).as_py()


@pytest.mark.parametrize(
    ("type_text", "value"), [("BIGINT", "x"), ("TIMESTAMP(9)", 2**63), ("STRING", 5)]
)
def test_literal_without_arrow_type_is_refused(type_text, value):
    with pytest.raises(InvalidInputError):
        to_scalar(value, parse_type(type_text))


def test_other_arrow_widths_are_read():
    assert internals(pa.array([1], pa.time32("s")), parse_type("TIME(0)")) == [1000]
    assert internals(pa.array([86_400_000], pa.date64()), parse_type("DATE")) == [1]
    assert internals(pa.chunked_array([["a"], ["b"]]), parse_type("STRING")) == ["a", "b"]
    encoded = pa.array(["a", None]).dictionary_encode()
    assert internals(encoded, parse_type("STRING")) == ["a", None]
