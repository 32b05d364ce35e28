"""numpy ⇄ Arrow keeps every value, whatever the offset."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy

NUMBERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@given(st.sampled_from([*NUMBERS, "float32", "float64", "bool"]), st.data())
def test_values_round_trip_from_any_slice(name, data):
    values = np.array(data.draw(st.lists(st.integers(0, 1), max_size=40)), dtype=name)
    start = data.draw(st.integers(0, len(values)))
    column = from_numpy(values).slice(start)
    assert column.to_pylist() == values[start:].tolist()
    assert to_numpy(column).tolist() == values[start:].tolist()
    assert to_numpy(column).dtype == values.dtype


def test_numbers_share_their_memory():
    values = np.arange(10)
    assert np.shares_memory(to_numpy(from_numpy(values)), values)


def test_strided_numbers_are_copied_in_order():
    assert from_numpy(np.arange(6)[::2]).to_pylist() == [0, 2, 4]


def test_other_types_are_refused():
    with pytest.raises(KeyError):
        from_numpy(np.array(["2024-01-01"], dtype="datetime64[D]"))
    with pytest.raises(KeyError):
        to_numpy(pa.array(["x"]))
