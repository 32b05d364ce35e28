import csv
import datetime as dt
from ctypes import c_float
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.spec.partition import escape, partition_path, unescape, value_text
from paimon_assets.engine.spec.paths import TablePaths
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.types.literals import to_internal
from paimon_assets.engine.spec.types.type_text import parse_type


@given(st.text())
def test_escaped_text_holds_no_separator_and_is_restored(text):
    assert not set(escape(text)) & set("/=\\\n:*?")
    assert unescape(escape(text)) == text


def test_escaped_form_equals_java():
    assert escape("a/b c=%:中é") == "a%2Fb c%3D%25%3A中é"


@pytest.mark.parametrize(
    ("type_text", "value", "legacy", "new"),
    [
        ("DATE", dt.date(2024, 1, 1), "19723", "2024-01-01"),
        ("INT", -7, "-7", "-7"),
        ("BOOLEAN", True, "true", "true"),
        ("DECIMAL(5, 2)", Decimal("12.30"), "12.30", "12.30"),
        ("DOUBLE", 1.5, "1.5", "1.5"),
        ("TIMESTAMP(0)", dt.datetime(1, 1, 1), "0001-01-01T00:00", "0001-01-01 00:00:00"),
        (
            "TIMESTAMP(3)",
            dt.datetime(2024, 1, 1, 0, 0, 0, 123000),
            "2024-01-01T00:00:00.123",
            "2024-01-01 00:00:00.123",
        ),
        ("TIMESTAMP(3)", dt.datetime(2024, 1, 1), "2024-01-01T00:00", "2024-01-01 00:00:00.000"),
    ],
)
def test_values_become_directory_texts_java_writes(type_text, value, legacy, new):
    data_type = parse_type(type_text)
    internal = to_internal(value, data_type, "c")
    assert value_text(internal, data_type, legacy=True) == legacy
    assert value_text(internal, data_type, legacy=False) == new


def test_null_empty_and_blank_values_share_default_directory():
    field = DataField(id=0, name="p", type=parse_type("STRING"))
    for value in (None, "", "  "):
        path = partition_path([field], [value], default_name="__DEFAULT__", legacy=True)
        assert path == "p=__DEFAULT__"


def test_binary_partition_values_have_directory():
    assert value_text(b"a\xff", parse_type("BYTES"), legacy=False) == "a\ufffd"


def test_bucket_directories_follow_partition():
    paths = TablePaths(table="/w/db.db/t", data_directory="data")
    assert paths.bucket("a=1/b=2", 3) == "/w/db.db/t/data/a=1/b=2/bucket-3"
    assert TablePaths(table="/w/t").bucket("", -2) == "/w/t/bucket-postpone"


GOLDEN = Path(__file__).parents[1] / "golden" / "cast_vectors.csv"


def float_vectors():
    with GOLDEN.open(encoding="utf-8", newline="") as lines:
        return [
            (row["src_type"], row["input"], row["expected_java"].strip("'"))
            for row in csv.DictReader(lines)
            if row["src_type"] in ("FLOAT", "DOUBLE") and row["dst_type"] == "STRING"
        ]


@pytest.mark.parametrize(("root", "text", "expected"), float_vectors())
def test_floats_become_directory_texts_java_writes(root, text, expected):
    value = c_float(float(text)).value if root == "FLOAT" else float(text)
    assert value_text(value, parse_type(root), legacy=True) == expected


def test_folders_of_floats_have_texts_of_java_17():
    """Not always the shortest: beyond 2^53 (of FLOAT 2^24), and among the smallest."""
    with GOLDEN.with_name("float_texts.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    found = [
        value_text(float.fromhex(row["bits"]), parse_type(row["type"]), legacy=True) for row in rows
    ]
    assert found == [row["text"] for row in rows]
    assert value_text(5e-324, parse_type("DOUBLE"), legacy=True) == "4.9E-324"
    zeros = [value_text(zero, parse_type("FLOAT"), legacy=True) for zero in (0.0, -0.0, 0.0)]
    assert zeros == ["0.0", "-0.0", "0.0"]
    assert value_text(1e23, parse_type("DOUBLE"), legacy=False) == "9.999999999999999E22"


@pytest.mark.parametrize(
    ("kind", "millis", "text"),
    [
        ("TIME(0)", 3_600_000, "01:00:00"),
        ("TIME(0)", 3_600_500, "01:00:00"),
        ("TIME(3)", 3_600_000, "01:00:00.0"),
        ("TIME(3)", 3_600_500, "01:00:00.5"),
        ("TIME(3)", 3_723_004, "01:02:03.004"),
        ("TIME(9)", 86_399_999, "23:59:59.999"),
    ],
)
def test_time_is_named_as_java_casts_it_to_text(kind, millis, text):
    assert value_text(millis, parse_type(kind), legacy=False) == text
    assert value_text(millis, parse_type(kind), legacy=True) == str(millis)
