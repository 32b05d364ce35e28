from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.codec.hashing.bucket_function import bucket_numbers, bucket_of
from paimon_assets.engine.codec.hashing.row_words import row_hash, row_hashes
from paimon_assets.engine.codec.rows.binary_row import row_bytes
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.options.all_options import BucketFunctionType
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.codec_strategies import arrow_columns, atomic_types, texts, typed_rows

DEFAULT, MOD, HIVE = BucketFunctionType.DEFAULT, BucketFunctionType.MOD, BucketFunctionType.HIVE
MILLIS, MICROS = 1_000_000, 1000

# (types, row, murmur hash, bucket of 4, bucket of 10, hive bucket of 10, mod bucket of 10)
JAVA_VECTORS = [
    (["INT"], (1,), 1465514398, 2, 8, 1, 1),
    (["INT"], (-3,), -528982515, 3, 5, 5, 7),
    (["INT"], (0,), -300363099, 3, 9, 0, 0),
    (["INT"], (None,), -1748325344, 0, 4, 0, 0),
    (["BIGINT"], (-17,), 372493698, 2, 8, 6, 3),
    (["STRING"], ("",), 302122119, 3, 9, 0, None),
    (["STRING"], ("abc",), -101922419, 3, 9, 4, None),
    (["STRING"], ("paimon!",), 1379221098, 2, 8, 1, None),
    (["STRING"], ("apache paimon",), -662155390, 2, 0, 4, None),
    (["INT", "STRING"], (7, "x"), -1252423430, 2, 0, 7, None),
    (["STRING", "BIGINT"], ("longer than seven", 42), 1917569503, 3, 3, 7, None),
    (["BOOLEAN"], (True,), 1465514398, 2, 8, 1, None),
    (["DATE"], (19723,), -1439008885, 1, 5, 3, None),
    (["FLOAT"], (1.5,), -173842779, 3, 9, 0, None),
    (["DOUBLE"], (1.5,), 1860889473, 1, 3, 6, None),
    (["DECIMAL(10, 2)"], (Decimal("12.30"),), 610424066, 2, 6, 4, None),
    (["DECIMAL(20, 2)"], (Decimal("-12.30"),), 1175632205, 1, 5, 6, None),
    (["DECIMAL(20, 2)"], (None,), -1380280760, 0, 0, 0, None),
    (["TIMESTAMP(3)"], (1_700_000_000_123 * MILLIS,), -1285420957, 1, 7, None, None),
    (["TIMESTAMP(6)"], (1_700_000_000_123_456 * MICROS,), 1196670069, 1, 9, None, None),
    (["TIMESTAMP(6)"], (None,), -340882661, 1, 1, None, None),
    (["BYTES"], (b"\1\2\3",), 1066645297, 1, 7, 6, None),
]


def types_of(type_texts):
    return [parse_type(text) for text in type_texts]


@pytest.mark.parametrize(
    ("type_texts", "row", "java_hash", "b4", "b10", "hive", "mod"), JAVA_VECTORS
)
def test_hashes_and_buckets_are_those_of_java(type_texts, row, java_hash, b4, b10, hive, mod):
    types = types_of(type_texts)
    assert row_hashes(arrow_columns(types, [row]), types).view(np.int32)[0] == java_hash
    assert (bucket_of(row, types, 4), bucket_of(row, types, 10)) == (b4, b10)
    if hive is not None:
        assert bucket_of(row, types, 10, HIVE) == hive
    if mod is not None:
        assert bucket_of(row, types, 10, MOD) == mod


@given(typed_rows(atomic_types, max_rows=6))
def test_column_hashes_are_murmur_of_rows_bytes(typed):
    types, rows = typed
    expected = [row_hash(row_bytes(row, types)) for row in rows]
    assert row_hashes(arrow_columns(types, rows), types).tolist() == expected


@given(st.lists(st.tuples(texts, st.none() | texts, st.binary(max_size=20)), max_size=40))
def test_texts_of_many_lengths_in_several_columns_keep_their_rows(rows):
    types = types_of(["STRING", "STRING", "BYTES"])
    signed = [np.int64(np.uint32(row_hash(row_bytes(row, types))).view(np.int32)) for row in rows]
    found = bucket_numbers(arrow_columns(types, rows), types, 7)
    assert found.tolist() == [abs(number) % 7 for number in signed]


@given(typed_rows(atomic_types, max_rows=8), st.integers(1, 2**31 - 1), st.data())
def test_chunks_slices_and_dictionaries_hash_same(typed, buckets, data):
    types, rows = typed
    columns = arrow_columns(types, rows)
    expected = bucket_numbers(columns, types, buckets)
    cut = data.draw(st.integers(0, len(rows)))
    chunked = [pa.chunked_array([column[:cut], column[cut:]], column.type) for column in columns]
    encoded = [column.dictionary_encode() for column in columns]
    assert bucket_numbers(chunked, types, buckets).tolist() == expected.tolist()
    assert bucket_numbers(encoded, types, buckets).tolist() == expected.tolist()
    sliced = [column[cut:] for column in columns]
    assert bucket_numbers(sliced, types, buckets).tolist() == expected[cut:].tolist()
    assert expected.dtype == np.int32
    assert ((expected >= 0) & (expected < buckets)).all()
    assert expected.tolist() == [bucket_of(row, types, buckets) for row in rows]


def test_chunked_dictionaries_with_nulls_hash_same():
    types = types_of(["STRING"])
    first, second = pa.array(["a", None, "b"]), pa.array(["b", "c", None])
    chunked = pa.chunked_array([first.dictionary_encode(), second.dictionary_encode()])
    expected = bucket_numbers([pa.chunked_array([first, second])], types, 1000).tolist()
    assert bucket_numbers([chunked], types, 1000).tolist() == expected


def test_other_arrow_widths_hash_same():
    types = types_of(["STRING", "INT", "TIMESTAMP(3)"])
    plain: list[Any] = [
        pa.array(["abc"]),
        pa.array([1], pa.int32()),
        pa.array([1], pa.timestamp("ms")),
    ]
    other: list[Any] = [
        pa.array(["abc"], pa.large_string()),
        pa.array([1], pa.int64()),
        pa.array([1_000_000], pa.timestamp("ns")),
    ]
    assert bucket_numbers(other, types, 999) == bucket_numbers(plain, types, 999)


@pytest.mark.parametrize("function", BucketFunctionType)
def test_unfit_value_has_no_bucket(function):
    with pytest.raises(InvalidInputError):
        bucket_of([2**31], types_of(["INT"]), 4, function)
    with pytest.raises(InvalidInputError, match="INT cannot be int64"):
        bucket_numbers([pa.array([2**31])], types_of(["INT"]), 4, function)


def test_no_rows_have_no_buckets():
    assert len(bucket_numbers([pa.array([], pa.int64())], types_of(["BIGINT"]), 4)) == 0


def test_many_slices_keep_row_order():
    values = np.arange(100_000) * 7919
    found = bucket_numbers([pa.array(values)], types_of(["BIGINT"]), 16)
    for position in (0, 1, 32_767, 32_768, 99_999):
        assert found[position] == bucket_of([int(values[position])], types_of(["BIGINT"]), 16)


def java_text_hash(data):
    state = 0
    for byte in data:
        state = state * 31 + (byte - 256 if byte > 127 else byte)
    return state


@given(st.lists(texts, min_size=1, max_size=20))
def test_hive_hashes_texts_by_their_signed_bytes(values):
    found = bucket_numbers([pa.array(values)], types_of(["STRING"]), 97, HIVE)
    expected = [(java_text_hash(text.encode()) & 0x7FFFFFFF) % 97 for text in values]
    assert found.tolist() == expected


def big_integer_hash(number):
    state, magnitude = 0, abs(number)
    for shift in range(96, -1, -32):
        state = 31 * state + (magnitude >> shift & 0xFFFFFFFF)
    return -state if number < 0 else state


@given(st.integers(-(10**30), 10**30), st.integers(0, 12))
def test_hive_hashes_decimals_without_their_trailing_zeros(number, zeros):
    if abs(number * 10**zeros) >= 10**38:
        return
    unscaled, scale = number * 10**zeros, 12
    while scale and unscaled % 10 == 0:
        unscaled, scale = unscaled // 10, scale - 1
    expected = ((31 * big_integer_hash(unscaled) + scale) & 0x7FFFFFFF) % 101
    column = pa.array([unscaled_decimal(number * 10**zeros, 12)], pa.decimal128(38, 12))
    assert bucket_numbers([column], types_of(["DECIMAL(38, 12)"]), 101, HIVE).tolist() == [expected]


def unscaled_decimal(number, scale):
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.integers(1, 1000))
def test_mod_is_floor_modulus(values, buckets):
    found = bucket_numbers([pa.array(values, pa.int64())], types_of(["BIGINT"]), buckets, MOD)
    assert found.tolist() == [value % buckets for value in values]


def test_zero_and_minus_zero_share_hive_bucket():
    first, second = bucket_numbers([pa.array([0.0, -0.0])], types_of(["DOUBLE"]), 1000, HIVE)
    assert first == second


@pytest.mark.parametrize(
    ("type_texts", "buckets", "function"),
    [
        (["STRING"], 4, MOD),
        (["INT", "INT"], 4, MOD),
        (["INT"], 0, DEFAULT),
        (["INT"], -1, DEFAULT),
        ([], 4, DEFAULT),
    ],
)
def test_impossible_bucketings_are_refused(type_texts, buckets, function):
    types = types_of(type_texts)
    with pytest.raises(InvalidInputError):
        bucket_numbers(arrow_columns(types, [(None,) * len(types)]), types, buckets, function)


def test_hive_refuses_timestamps_and_arrays():
    with pytest.raises(UnsupportedFeatureError):
        bucket_of([0], types_of(["TIMESTAMP(3)"]), 4, HIVE)
    array_type = parse_type("ARRAY<INT>")
    with pytest.raises(UnsupportedFeatureError):
        bucket_numbers([pa.array([[1]], pa.list_(pa.int32()))], [array_type], 4)
