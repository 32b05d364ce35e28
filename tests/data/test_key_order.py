import itertools
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.data.key_order import order_within_groups, order_words, sort_keys

SHORT = st.text(alphabet="ab\x00é\U0001f600", max_size=4)
LONG = st.sampled_from(["", "shared/prefix/"]).flatmap(
    lambda prefix: st.text(alphabet="abcé", max_size=14).map(lambda text: prefix + text)
)
DECIMALS = st.integers(-(10**38) + 1, 10**38 - 1).map(
    lambda number: Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -3))
)
SMALL_DECIMALS = st.integers(-999, 999).map(lambda number: Decimal(number).scaleb(-2))
TIMES = st.datetimes()
COLUMNS = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "bool": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.dates()),
    "timestamp": (pa.timestamp("us"), TIMES),
    "time": (pa.time32("ms"), st.times().map(lambda time: time.replace(microsecond=0))),
    "decimal": (pa.decimal128(10, 2), SMALL_DECIMALS),
    "wide decimal": (pa.decimal128(38, 3), DECIMALS),
    "double": (pa.float64(), st.floats()),
    "float": (pa.float32(), st.floats(width=32)),
    "short string": (pa.string(), SHORT),
    "long string": (pa.string(), LONG),
    "large string": (pa.large_string(), LONG),
    "bytes": (pa.binary(), st.binary(max_size=12)),
}


def rank(value):
    """Key order in plain Python: nulls first, text by UTF-8 bytes, one zero, NaN last."""
    if value is None:
        return (0,)
    if isinstance(value, str):
        return (1, value.encode())
    if isinstance(value, float):
        return (1, math.isnan(value), 0.0 if math.isnan(value) else value)
    return (1, value)


def total_rank(value):
    """The order of Java's compareTo: -0.0 is below 0.0."""
    is_number = isinstance(value, float) and not math.isnan(value)
    return (*rank(value), math.copysign(1, value) if is_number else 0.0)


@st.composite
def keys(draw, *, most=3):
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=most))
    count = draw(st.integers(0, 30))
    columns = []
    for name in names:
        data_type, values = COLUMNS[name]
        values = values if draw(st.booleans()) else st.none() | values
        pool = draw(st.lists(values, min_size=1, max_size=8))
        rows = draw(st.lists(st.sampled_from(pool), min_size=count, max_size=count))
        columns.append(pa.array([draw(values), *rows], data_type).slice(1))
    return columns


def rows_of(columns):
    return [
        tuple(rank(value) for value in row)
        for row in zip(*map(pa.Array.to_pylist, columns), strict=True)
    ]


@given(keys())
def test_order_equals_stable_sort(columns):
    rows = rows_of(columns)
    assert sort_keys(columns).order.tolist() == sorted(range(len(rows)), key=rows.__getitem__)


@given(keys())
def test_group_starts_exactly_where_key_changes(columns):
    rows = rows_of(columns)
    found = sort_keys(columns)
    ordered = [rows[row] for row in found.order]
    expected = [at == 0 or ordered[at] != ordered[at - 1] for at in range(len(ordered))]
    assert found.starts.tolist() == expected


@given(keys(most=2), st.data())
def test_rows_of_one_key_follow_further_columns_with_nulls_first(columns, data):
    name = data.draw(st.sampled_from(["int64", "long string", "double", "wide decimal"]))
    data_type, values = COLUMNS[name]
    count = len(columns[0])
    values = values.filter(lambda value: value == value)  # NaN has a test below
    then = data.draw(st.lists(st.none() | values, min_size=count, max_size=count))
    descending = data.draw(st.booleans())
    then_column = pa.array(then, data_type)
    order = order_within_groups(sort_keys(columns), [then_column], descending=descending)

    rows = rows_of(columns)
    if descending:
        by_then = sorted(
            (row for row in range(count) if then[row] is not None),
            key=lambda row: rank(then[row]),
            reverse=True,
        )
        by_then = [row for row in range(count) if then[row] is None] + by_then
    else:
        by_then = sorted(range(count), key=lambda row: rank(then[row]))
    got = [(rows[row], rank(then[row])) for row in order]
    expected = [(rows[row], rank(then[row])) for row in sorted(by_then, key=rows.__getitem__)]
    assert got == expected
    # Stable: of rows that are equal in everything the earlier one is first.
    for before, after in itertools.pairwise(order):
        if rows[before] == rows[after] and rank(then[before]) == rank(then[after]):
            assert before < after


@given(keys(most=1))
def test_words_of_column_order_and_distinguish_its_values(columns):
    ranks = [total_rank(value) for value in columns[0].to_pylist()]
    words = order_words(columns[0]).tolist()
    for left, left_word in zip(ranks, words, strict=True):
        for right, right_word in zip(ranks, words, strict=True):
            assert (left < right) == (left_word < right_word)


def test_chunked_and_dictionary_columns_are_sorted_as_their_values():
    chunked = pa.chunked_array([["b", "a"], ["c"]])
    assert sort_keys([chunked]).order.tolist() == [1, 0, 2]
    assert sort_keys([chunked.dictionary_encode()]).order.tolist() == [1, 0, 2]
    assert sort_keys([pa.chunked_array([], pa.int32())]).order.tolist() == []


def test_large_unsorted_column_is_sorted_stably():
    values = np.random.default_rng(5).integers(0, 1000, 50_000)
    assert (sort_keys([pa.array(values)]).order == np.argsort(values, kind="stable")).all()


def test_sorted_runs_are_merged_stably():
    runs = [np.arange(0, 3000, step) for step in (1, 2, 3, 3)]
    for key in (np.concatenate(runs), np.concatenate([*runs, [7, 5]])):
        by_key = sort_keys([pa.array(key), pa.array([None] * len(key), pa.string())])
        expected = np.lexsort((np.arange(len(key)), key))
        assert by_key.order.tolist() == expected.tolist()
        assert np.flatnonzero(by_key.starts).tolist() == [
            0, *(np.flatnonzero(np.diff(key[expected])) + 1).tolist(),
        ]  # fmt: skip


def test_texts_with_equal_prefix_compare_by_remainder():
    texts = [f"https://example.org/{number % 7:020d}" for number in range(100)]
    found = sort_keys([pa.array(texts)])
    assert int(found.starts.sum()) == 7
    assert [texts[row] for row in found.order] == sorted(texts)


NUMBERS = st.none() | st.sampled_from([1.0, 5.0, -0.0, 0.0, float("nan")])


def is_smaller(left, right, sign):
    """Compare as Java's generated code: `a > b ? 1 : a < b ? -1 : 0`, null below all."""
    if left is None or right is None:
        return left is None and right is not None
    return sign * left < sign * right


@given(st.lists(st.lists(NUMBERS, min_size=1, max_size=6), max_size=3), st.booleans())
def test_nan_and_zeros_tie(keys, descending):
    """The last record of a key wins when they are compared in order of arrival."""
    rows = [(key, value) for key, values in enumerate(keys) for value in values]
    columns = list(zip(*rows, strict=True)) or [(), ()]
    by_key = sort_keys([pa.array(columns[0], pa.int64())])
    then = [pa.array(columns[1], pa.float64()), np.arange(len(rows))]
    order = order_within_groups(by_key, then, descending=descending).tolist()
    winners = {rows[row][0]: row for row in order}
    at = 0
    for key, values in enumerate(keys):
        best = 0
        for place, value in enumerate(values):
            best = best if is_smaller(value, values[best], -1 if descending else 1) else place
        assert winners[key] == at + best
        at += len(values)
