import math
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine import errors
from paimon_assets.engine.codec.rows.binary_row import (
    comparable_key,
    deserialize_row,
    key_range,
    row_bytes,
    row_values,
    serialize_columns,
    serialize_row,
)
from paimon_assets.engine.spec.metadata.data_file import EMPTY_ROW
from paimon_assets.engine.spec.types.data_types import AtomicType, TypeRoot, bigint, string
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit import codec_strategies
from tests.testkit.builders import data_file
from tests.testkit.codec_strategies import values

SENTENCE = (
    "Two roads diverged in a wood, and I took the one less traveled by, "
    "And that has made all the difference."
)
NO_NULLS = "0000000000000000"
JAVA_ROWS = [
    ([], (), f"00000000 {NO_NULLS}"),
    (["INT"], (10,), f"00000001 {NO_NULLS} 0a00000000000000"),
    (["STRING", "INT"], ("Alice", 1), f"00000002 {NO_NULLS} 416c696365 0000 85 0100000000000000"),
    (
        ["STRING", "INT"],
        (SENTENCE, 1),
        f"00000002 {NO_NULLS} 6800000018000000 0100000000000000 {SENTENCE.encode().hex()}",
    ),
    (["STRING"], ("abcdefg",), f"00000001 {NO_NULLS} 61626364656667 87"),
    (["STRING"], ("abcdefgh",), f"00000001 {NO_NULLS} 0800000010000000 6162636465666768"),
    (["STRING"], ("",), f"00000001 {NO_NULLS} 0000000000000080"),
    (
        ["STRING", "BIGINT"],
        (None, 5),
        "00000002 0001000000000000 0000000000000000 0500000000000000",
    ),
    (["DECIMAL(10, 2)"], (Decimal("12.30"),), f"00000001 {NO_NULLS} ce04000000000000"),
    (
        ["DECIMAL(20, 2)"],
        (Decimal("-12.30"),),
        f"00000001 {NO_NULLS} 0200000010000000 fb32 {'00' * 14}",
    ),
    (["DECIMAL(20, 2)"], (None,), f"00000001 0001000000000000 0000000010000000 {'00' * 16}"),
    (["TIMESTAMP(3)"], (1_700_000_000_123_000_000,), f"00000001 {NO_NULLS} 7b68e5cf8b010000"),
    (
        ["TIMESTAMP(6)"],
        (1_700_000_000_123_456_000,),
        f"00000001 {NO_NULLS} 40f5060010000000 7b68e5cf8b010000",
    ),
    (["TIMESTAMP(6)"], (None,), f"00000001 0001000000000000 0000000010000000 {'00' * 8}"),
]


@pytest.mark.parametrize(("type_texts", "row", "expected"), JAVA_ROWS)
def test_rows_have_bytes_java_gives_them(type_texts, row, expected):
    types = [parse_type(text) for text in type_texts]
    assert serialize_row(row, types).hex() == expected.replace(" ", "")
    assert deserialize_row(bytes.fromhex(expected), types) == row


def test_row_without_fields_is_empty_row():
    assert serialize_row((), ()) == EMPTY_ROW


@given(codec_strategies.typed_rows())
def test_rows_round_trip(typed):
    types, [row] = typed
    assert deserialize_row(serialize_row(row, types), types) == row


@given(codec_strategies.typed_rows())
def test_row_size_is_multiple_of_eight(typed):
    types, [row] = typed
    assert len(row_bytes(row, types)) % 8 == 0


@given(st.lists(st.none() | st.integers(-9, 9), min_size=50, max_size=130))
def test_null_bits_fill_words_by_arity(row):
    types = [parse_type("INT")] * len(row)
    data = serialize_row(row, types)
    assert deserialize_row(data, types) == tuple(row)
    assert len(data) == 4 + (8 if len(row) <= 56 else 16 if len(row) <= 120 else 24) + 8 * len(row)


@given(codec_strategies.typed_rows(codec_strategies.atomic_types, max_rows=4))
def test_arrow_columns_give_bytes_of_their_rows(typed):
    types, rows = typed
    expected = [serialize_row(row, types) for row in rows]
    assert serialize_columns(codec_strategies.arrow_columns(types, rows), types) == expected


def test_other_arrow_widths_of_type_give_same_bytes():
    types = [parse_type("STRING"), parse_type("TIMESTAMP(3)")]
    plain = [pa.array(["a"]), pa.array([5], pa.timestamp("ms"))]
    other = [pa.array(["a"]).dictionary_encode(), pa.array([5_000_000], pa.timestamp("ns"))]
    assert serialize_columns(other, types) == serialize_columns(plain, types)


@given(st.binary(max_size=80), st.lists(codec_strategies.nested_types, max_size=4))
def test_arbitrary_bytes_are_values_or_typed_error(data, types):
    try:
        row_values(data, types)
    except errors.FormatError:
        return


@given(codec_strategies.typed_rows(), st.data())
def test_truncated_row_raises_typed_error(typed, data):
    types, [row] = typed
    whole = serialize_row(row, types)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    try:
        deserialize_row(cut, types)
    except errors.FormatError:
        return


def test_wrong_arity_is_refused():
    with pytest.raises(errors.FormatError, match="has 1 fields where 2"):
        deserialize_row(serialize_row([1], [parse_type("INT")]), [parse_type("INT")] * 2)


@pytest.mark.parametrize(
    ("type_text", "value"),
    [
        ("INT", 2**31),
        ("INT", "1"),
        ("STRING", 1),
        ("BYTES", 7),
        ("DECIMAL(4, 2)", Decimal("123.45")),
        ("DECIMAL(4, 2)", Decimal("1.234")),
        ("DECIMAL(4, 2)", 1.5),
    ],
)
def test_value_of_another_type_is_refused(type_text, value):
    with pytest.raises(errors.InvalidInputError):
        serialize_row([value], [parse_type(type_text)])


def test_maps_are_refused_but_their_nulls_are_written():
    map_type = parse_type("MAP<INT, INT>")
    with pytest.raises(errors.UnsupportedFeatureError):
        serialize_row([("a",)], [map_type])
    assert deserialize_row(serialize_row([None], [map_type]), [map_type]) == (None,)


@given(st.data(), codec_strategies.nested_types)
def test_encoder_raises_typed_errors(data, data_type):
    value = data.draw(values(data.draw(codec_strategies.nested_types)))
    try:
        serialize_row([value], [data_type])
    except errors.PaimonError:
        return


DOUBLE = AtomicType(root=TypeRoot.DOUBLE)


def comparable(types, *values):
    return comparable_key(serialize_row(values, types), types)


@pytest.mark.parametrize("root", [TypeRoot.FLOAT, TypeRoot.DOUBLE])
def test_floating_point_is_ordered_as_java_does(root):
    types = [AtomicType(root=root)]
    ascending = [None, -math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan]
    keys = [comparable(types, value) for value in ascending]
    assert all(below < above for below, above in pairwise(keys))


def test_nans_of_both_signs_are_equal():
    assert comparable([DOUBLE], math.nan) == comparable([DOUBLE], -math.nan)


def test_later_column_breaks_ties():
    types = [DOUBLE, bigint()]
    assert comparable(types, -0.0, 9) < comparable(types, 0.0, 1)
    assert comparable(types, math.nan, 1) < comparable(types, math.nan, 2)


def test_key_range_is_smallest_and_largest_key():
    types = [string()]
    file = data_file(min_key=serialize_row(["a"], types), max_key=serialize_row(["b"], types))
    assert key_range(file, types) == (comparable(types, "a"), comparable(types, "b"))
