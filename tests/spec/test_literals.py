import math

import pytest

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.types.data_types import AtomicType, TypeRoot
from paimon_assets.engine.spec.types.literals import default_refusal, to_internal
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.cast_vectors import VECTORS, bytes_of, type_of


@pytest.mark.parametrize("given", [0.1, "0.1"], ids=["number", "text"])
def test_float_literal_equals_stored_float(given):
    assert to_internal(given, AtomicType(root=TypeRoot.FLOAT), "c") == 0.10000000149011612
    assert to_internal(given, AtomicType(root=TypeRoot.DOUBLE), "c") == 0.1


def test_number_beyond_floats_compares_beyond_floats():
    assert to_internal(1e300, AtomicType(root=TypeRoot.FLOAT), "c") == math.inf


@pytest.mark.parametrize("root", [TypeRoot.INT, TypeRoot.DOUBLE, TypeRoot.DECIMAL])
@pytest.mark.parametrize("text", ["1_0", "١", "１"])
def test_python_only_digits_are_not_numbers(root: TypeRoot, text: str) -> None:
    with pytest.raises(InvalidInputError, match="not a value of that type"):
        to_internal(text, AtomicType(root=root), "n")
    assert to_internal("10", AtomicType(root=root), "n") == 10


def test_nanoseconds_of_text_are_kept():
    wanted = {
        "1970-01-01 00:00:00.101473979": 101_473_979,
        "1969-12-31T23:59:59.999999999": -1,
        "1970-01-01 00:00:00.1234567+00:00": 123_456_700,
        "1970-01-01 00:00:00.123456": 123_456_000,
    }
    data_type = AtomicType(root=TypeRoot.TIMESTAMP, precision=9)
    assert {text: to_internal(text, data_type, "c") for text in wanted} == wanted


FROM_TEXT = [
    row
    for row in VECTORS
    if row["src_type"] == "STRING"
    and row["input"] != "NULL"
    and row["expected_java"] != "UNSUPPORTED"
]


@pytest.mark.parametrize("row", FROM_TEXT, ids=lambda row: f"{row['input']}-{row['dst_type']}")
def test_default_equals_javas_cast_from_text(row):
    refusal = default_refusal(type_of(row["dst_type"]), bytes_of(row["input"]).decode())
    becomes_null = row["expected_java"] == "NULL"
    assert (refusal is not None) == (row["expected_java"].startswith("ERROR") or becomes_null)


def test_nested_columns_take_no_default():
    assert default_refusal(parse_type("ARRAY<INT>"), "[1]") is not None
