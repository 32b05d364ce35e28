import pytest

from paimon_assets.engine.spec.types.literals import default_refusal
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.cast_vectors import VECTORS, bytes_of, type_of

FROM_TEXT = [
    row
    for row in VECTORS
    if row["src_type"] == "STRING"
    and row["input"] != "NULL"
    and row["expected_java"] != "UNSUPPORTED"
]


@pytest.mark.parametrize("row", FROM_TEXT, ids=lambda row: f"{row['input']}-{row['dst_type']}")
def test_a_default_is_what_java_casts_from_text(row):
    refusal = default_refusal(type_of(row["dst_type"]), bytes_of(row["input"]).decode())
    becomes_null = row["expected_java"] == "NULL"
    assert (refusal is not None) == (row["expected_java"].startswith("ERROR") or becomes_null)


def test_nested_columns_take_no_default():
    assert default_refusal(parse_type("ARRAY<INT>"), "[1]") is not None
