"""Java's roaring bitmaps of 64 bits; its own bytes are in `tests/data/test_aggregated_sets.py`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from paimon_assets.engine.codec.bitmaps.roaring import read_java_bitmap64, write_java_bitmap64
from paimon_assets.engine.errors import FormatError

numbers = st.builds(
    lambda bits, shift: bits << shift & 2**64 - 1, st.integers(0, 400), st.sampled_from([0, 16, 40])
) | st.integers(0, 2**64 - 1)


@given(st.sets(numbers, max_size=80), st.booleans())
def test_numbers_round_trip(members, has_run):
    bitmap = BitMap64([*members, *(range(2**33, 2**33 + 70_000) if has_run else ())])
    assert read_java_bitmap64(write_java_bitmap64(bitmap)) == bitmap


@pytest.mark.parametrize("branches", [1, 4, 5, 16, 17, 48, 49, 256])
@pytest.mark.parametrize("shift", [16, 24, 56])
def test_trees_of_every_width_are_read(branches, shift):
    bitmap = BitMap64([5 << 8 | branch << shift for branch in range(branches)])
    assert read_java_bitmap64(write_java_bitmap64(bitmap)) == bitmap


def test_many_values_of_container_are_bits():
    bitmap = BitMap64(range(0, 60_000, 3))
    data = write_java_bitmap64(bitmap)
    assert 8192 < len(data) < 8300
    assert read_java_bitmap64(data) == bitmap


def test_empty_bitmap_is_one_zero():
    assert write_java_bitmap64(BitMap64()) == b"\0"
    assert read_java_bitmap64(b"\0") == BitMap64()


def test_truncated_bitmap_is_refused():
    data = write_java_bitmap64(BitMap64([1, 2**20, 2**40, *range(2**50, 2**50 + 5000)]))
    trailer = 16  # the number of containers, again
    for length in range(len(data) - trailer):
        with pytest.raises(FormatError, match="no roaring bitmap of 64 bits"):
            read_java_bitmap64(data[:length])
