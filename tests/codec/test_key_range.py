import math
from itertools import pairwise

import pytest

from paimon_assets.engine.codec.rows.binary_row import comparable_key, key_range, serialize_row
from paimon_assets.engine.spec.types.data_types import AtomicType, TypeRoot, bigint, string
from tests.testkit.builders import data_file

DOUBLE = AtomicType(root=TypeRoot.DOUBLE)


def comparable(types, *values):
    return comparable_key(serialize_row(values, types), types)


@pytest.mark.parametrize("root", [TypeRoot.FLOAT, TypeRoot.DOUBLE])
def test_floating_point_is_ordered_as_java_does(root):
    types = [AtomicType(root=root)]
    ascending = [None, -math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan]
    keys = [comparable(types, value) for value in ascending]
    assert all(below < above for below, above in pairwise(keys))


def test_nan_is_one_value():
    assert comparable([DOUBLE], math.nan) == comparable([DOUBLE], -math.nan)


def test_a_later_column_decides_only_between_equal_ones():
    types = [DOUBLE, bigint()]
    assert comparable(types, -0.0, 9) < comparable(types, 0.0, 1)
    assert comparable(types, math.nan, 1) < comparable(types, math.nan, 2)


def test_the_range_of_a_file_is_its_smallest_and_largest_key():
    types = [string()]
    file = data_file(min_key=serialize_row(["a"], types), max_key=serialize_row(["b"], types))
    assert key_range(file, types) == (comparable(types, "a"), comparable(types, "b"))
