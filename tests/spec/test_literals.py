import math

import pytest

from paimon_assets.engine.spec.types.data_types import AtomicType, TypeRoot
from paimon_assets.engine.spec.types.literals import to_internal


@pytest.mark.parametrize("given", [0.1, "0.1"], ids=["number", "text"])
def test_a_float_literal_is_what_a_float_column_stores(given):
    assert to_internal(given, AtomicType(root=TypeRoot.FLOAT), "c") == 0.10000000149011612
    assert to_internal(given, AtomicType(root=TypeRoot.DOUBLE), "c") == 0.1


def test_a_number_beyond_all_floats_is_beyond_all_floats():
    assert to_internal(1e300, AtomicType(root=TypeRoot.FLOAT), "c") == math.inf
