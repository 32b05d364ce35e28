"""Every vector of sequence padding, as the last Java version that had it computed them."""

import csv
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.data.sequence import field_to_long, pad
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.merge.sequence_padding import PaddingConfig
from paimon_assets.engine.spec.options.all_options import parse_paddings
from paimon_assets.engine.spec.types.data_types import TIMESTAMP_ROOTS, DataField, TypeRoot
from paimon_assets.engine.spec.types.literals import to_internal
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.model import parse_row_kind

GOLDEN = Path(__file__).parents[1] / "golden" / "sequence_vectors.csv"
VECTORS = list(csv.DictReader(GOLDEN.read_text(encoding="utf-8").splitlines()))
NANOS_PER_UNIT = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
MORE = [
    # field_type, field_value, auto_padding, incr_id, row_kind, expected_sequence
    ("INT", "1685548953", "second-to-micro", "0", "+I", "1685548953000000"),
    ("INT", "1685548953", "second-to-micro", "999999", "+I", "1685548953999999"),
    ("BIGINT", "-1", "row-kind-flag", "0", "-U", "-2"),
    ("DECIMAL(2,1)", "1.0", "second-to-micro", "5", "+I", "1000005"),
    ("DECIMAL(3,2)", "-9.99", "", "0", "+I", "-9"),
    ("DECIMAL(38,0)", "18446744073709551617", "", "0", "+I", "1"),
    ("BIGINT", "9223372036855", "second-to-micro", "0", "+I", "-9223372036854551616"),
    ("FLOAT", "2.81", "millis-to-micro", "5", "+I", "2005"),
    ("DOUBLE", "nan", "", "0", "+I", "0"),
    ("DOUBLE", "-1e30", "", "0", "+I", str(-(2**63))),
    ("INT", "1685548953", "second-to-micro,row-kind-flag", "5", "-U", "3371097906000010"),
    ("INT", "1685548953", "second-to-micro,row-kind-flag", "6", "-D", "3371097906000012"),
    # only the first second-to-micro looks at the type; after another step it still divides
    ("TIMESTAMP(0)", "1970-01-01 00:00:02", "second-to-micro,second-to-micro", "3", "+I",
     "2000003000003"),
    ("TIMESTAMP(0)", "1970-01-01 00:00:02", "row-kind-flag,second-to-micro", "3", "+I", "4000003"),
    ("STRING", "9223372036854775808", "", "0", "+I", "ERROR(NumberFormatException)"),
    ("STRING", "-009223372036854775808", "", "0", "+I", str(-(2**63))),
    ("STRING", "-", "", "0", "+I", "ERROR(NumberFormatException)"),
    ("STRING", " 1", "", "0", "+I", "ERROR(NumberFormatException)"),
    ("BOOLEAN", "true", "", "0", "+I", "ERROR(UnsupportedOperationException)"),
]  # fmt: skip
ALL = VECTORS + [dict(zip(VECTORS[0], row, strict=True)) for row in MORE]


def data_type_of(text):
    zoned = text.replace("TIMESTAMP_LTZ", "TIMESTAMP") + " WITH LOCAL TIME ZONE"
    return parse_type(zoned if text.startswith("TIMESTAMP_LTZ") else text)


def column_of(text, data_type):
    arrow_type = to_arrow_type(data_type)
    if text == "NULL":
        return pa.nulls(1, arrow_type)
    if data_type.root is TypeRoot.VARBINARY:
        return pa.array([bytes.fromhex(text[2:])], arrow_type)
    if data_type.root is TypeRoot.DECIMAL:
        return pa.array([Decimal(text)], arrow_type)
    if data_type.root in TIMESTAMP_ROOTS:
        seconds, _, fraction = text.partition(".")
        nanos = to_internal(seconds, data_type, "s") + int(fraction.ljust(9, "0") or 0)
        count = nanos // NANOS_PER_UNIT[arrow_type.unit]
        return pa.array([count], pa.int64()).cast(arrow_type)
    value = to_internal(text, data_type, "s")
    stored = pa.array([value])
    return (
        stored.cast(pa.int32()).cast(arrow_type)
        if data_type.root is TypeRoot.DATE
        else (stored.cast(arrow_type))
    )


@pytest.mark.parametrize("vector", ALL, ids=lambda vector: " ".join(vector.values()))
def test_the_number_is_what_java_made(vector):
    data_type = data_type_of(vector["field_type"])
    field = DataField(id=0, name="s", type=data_type)
    steps = parse_paddings(vector["auto_padding"]) if vector["auto_padding"] else ()
    config = PaddingConfig(field=field, steps=steps, legacy_overflow=True)
    counters = np.array([int(vector["incr_id"])], dtype=np.int64)
    is_add = np.array([parse_row_kind(vector["row_kind"]).is_add])
    column = column_of(vector["field_value"], data_type)
    if vector["expected_sequence"].startswith("ERROR"):
        with pytest.raises(InvalidInputError, match="'s'"):
            field_to_long(column, field)
        return
    padded = pad(field_to_long(column, field), counters, is_add, config=config)
    assert padded.tolist() == [int(vector["expected_sequence"])]


def test_the_file_holds_all_vectors():
    assert len(VECTORS) == 63
    assert sum(vector["expected_sequence"].startswith("ERROR") for vector in VECTORS) == 8
