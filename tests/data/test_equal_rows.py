import math
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.data.merge.equal_rows import equal_values

ITEMS = st.lists(st.sampled_from([None, 1]), max_size=2)
PAIRS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([None, 1])),
    max_size=3,
    unique_by=lambda pair: pair[0],
)
FLOATS = st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")])
TYPES = {
    "double": (pa.float64(), FLOATS),
    "text": (pa.string(), st.sampled_from([None, "", "a", "b"])),
    "bytes": (pa.binary(), st.sampled_from([None, b"", b"a"])),
    "time": (pa.timestamp("us", "UTC"), st.sampled_from([None, 0, 1])),
    "list": (pa.list_(pa.float64()), st.none() | st.lists(FLOATS, max_size=3)),
    "lists": (pa.list_(pa.list_(pa.int64())), st.none() | st.lists(st.none() | ITEMS, max_size=2)),
    "map": (pa.map_(pa.string(), pa.int64()), st.none() | PAIRS),
    "row": (
        pa.struct([pa.field("x", pa.float64()), pa.field("y", pa.list_(pa.string()))]),
        st.none()
        | st.fixed_dictionaries(
            {"x": FLOATS, "y": st.none() | st.lists(st.sampled_from("ab"), max_size=2)}
        ),
    ),
}


def key(value):
    """Return a key that is equal for equal values: floats by their bits, maps in any order."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack(">d", value)
    if isinstance(value, list) and any(isinstance(item, tuple) for item in value):
        return tuple(sorted(map(repr, value)))
    if isinstance(value, list | tuple):
        return tuple(map(key, value))
    if isinstance(value, dict):
        return tuple((name, key(item)) for name, item in sorted(value.items()))
    return value


@pytest.mark.parametrize("name", TYPES)
@given(data=st.data())
def test_values_are_equal_as_in_python(name, data):
    data_type, values = TYPES[name]
    pairs = data.draw(st.lists(st.tuples(values, values), max_size=12))
    left = pa.array([pair[0] for pair in pairs], data_type)
    right = pa.array([pair[1] for pair in pairs], data_type)
    wanted = [key(one) == key(other) for one, other in pairs]
    assert equal_values(left, right).tolist() == wanted
    cut = slice(len(pairs) // 3, None)
    assert equal_values(left[cut], right[cut]).tolist() == wanted[cut]


def test_maps_are_equal_in_any_order():
    maps = pa.map_(pa.string(), pa.int64())
    left = pa.array([[("a", 1), ("b", 2)], [("a", 1), ("b", 2)], [("a", None), ("b", 2)]], maps)
    right = pa.array([[("b", 2), ("a", 1)], [("b", 1), ("a", 2)], [("b", 2), ("a", None)]], maps)
    assert equal_values(left, right).tolist() == [True, False, True]


def test_null_is_not_equal_to_value_stored_below_it():
    null = pa.array(np.array([1]), mask=np.array([True]))
    assert not equal_values(null, pa.array([1])).any()
