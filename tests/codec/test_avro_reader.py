"""Rows of compiled readers against fastavro's records."""

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.codec.avro.avro import RecordSchema, read_rows
from paimon_assets.engine.codec.avro.avro_reader import compile_reader
from paimon_assets.engine.errors import FormatError
from tests.testkit.codec_strategies import check_damage

INNER: Any = {
    "type": "record",
    "name": "org.x.inner",
    "fields": [{"name": "low", "type": "bytes"}, {"name": "high", "type": ["null", "bytes"]}],
}
FIELDS = [
    {"name": "number", "type": "long"},
    {"name": "flag", "type": "boolean"},
    {"name": "text", "type": "string"},
    {"name": "maybe", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
    {"name": "either", "type": ["string", "null", "long"]},
    {"name": "many", "type": {"type": "array", "items": ["null", "long"]}},
    {"name": "first", "type": INNER},
    {"name": "second", "type": ["null", "inner"]},
    {"name": "nothing", "type": "null"},
]
SCHEMA = {"type": "record", "name": "r", "namespace": "org.x", "fields": FIELDS}

longs = st.integers(-(2**63), 2**63 - 1)
inners = st.fixed_dictionaries(
    {"low": st.binary(max_size=300), "high": st.none() | st.binary(max_size=3)}
)
records = st.fixed_dictionaries(
    {
        "number": longs,
        "flag": st.booleans(),
        "text": st.text(max_size=90),
        "maybe": st.none() | longs,
        "either": st.none() | longs | st.text(max_size=3),
        "many": st.lists(st.none() | longs, max_size=3),
        "first": inners,
        "second": st.none() | inners,
        "nothing": st.none(),
    }
)


def avro_bytes(items, schema=SCHEMA):
    plain = json.loads(json.dumps(schema).replace(', "logicalType": "timestamp-millis"', ""))
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(plain), items, codec="null")
    return out.getvalue()


ORDER = [field["name"] for field in (*FIELDS, *INNER["fields"])]


def row(value):
    """Return a record as it is read: values in the schema's order; arrays are tuples."""
    if isinstance(value, dict):
        return tuple(row(value[name]) for name in ORDER if name in value)
    return tuple(value) if isinstance(value, list) else value


def reader_schema(*fields):
    return RecordSchema.of(json.dumps({**SCHEMA, "fields": list(fields)}).encode())


@given(st.lists(records, max_size=4))
def test_rows_equal_those_of_fastavro(items):
    assert list(read_rows(avro_bytes(items), "f", reader_schema(*FIELDS))) == [
        row(item) for item in items
    ]


RECORD = {
    "number": -(2**40), "flag": True, "text": "x" * 70, "maybe": None, "either": 7,
    "many": [1, None, 3], "first": {"low": b"a", "high": None},
    "second": {"low": b"b", "high": b"c"}, "nothing": None,
}  # fmt: skip


def test_unwanted_fields_are_skipped():
    picked = {**INNER, "fields": [INNER["fields"][1], {"name": "new", "type": "int", "default": 0}]}
    fields = ({"name": "second", "type": ["null", picked]}, FIELDS[2])
    assert list(read_rows(avro_bytes([RECORD]), "f", reader_schema(*fields))) == [
        ((b"c", None), "x" * 70)
    ]


def test_field_that_was_not_written_needs_default():
    new = {"name": "new", "type": ["null", "long"]}
    rows = read_rows(avro_bytes([RECORD]), "f", reader_schema(FIELDS[0], {**new, "default": None}))
    assert list(rows) == [(-(2**40), None)]
    with pytest.raises(FormatError, match=r"data-1.*'new' is missing"):
        list(read_rows(avro_bytes([RECORD]), "data-1", reader_schema(new)))


def test_array_in_blocks_with_their_sizes_is_read():
    read = compile_reader({"type": "array", "items": "int"}, None)
    # Blocks: -2 items of 2 bytes, 1 item, the end.
    assert read(bytes([3, 4, 2, 4, 2, 6, 0]), 0) == ((1, 2, 3), 7)


def test_endlessly_nested_types_raise_typed_error():
    nested = "int"
    for _ in range(40):
        nested = {"type": "array", "items": ["null", nested]}
    with pytest.raises(FormatError, match="too deeply"):
        compile_reader(nested, None)


def test_type_unknown_to_metadata_is_refused_by_name():
    with pytest.raises(FormatError, match="'map'"):
        compile_reader({"type": "map", "values": "int"}, None)


@pytest.mark.parametrize(
    ("schema", "damaged"),
    [
        (["null", "bytes"], b"\x04"),
        (["int", "bytes", "null"], b"\x01"),
        ("bytes", b"\x01"),
        ("bytes", b"\x83\x01"),
    ],
    ids=["no-third-branch", "negative-branch", "negative-size", "long-negative-size"],
)
def test_unwritable_value_is_refused(schema, damaged):
    with pytest.raises(FormatError):
        compile_reader(schema, None)(damaged, 0)


def test_truncated_file_is_named():
    data = avro_bytes([RECORD])
    header = len(data.split(data[-16:])[0]) + 16
    for length in range(len(data)):
        if length != header:
            with pytest.raises(FormatError, match="manifest-1"):
                list(read_rows(data[:length], "manifest-1", reader_schema(*FIELDS)))


@given(st.data())
def test_damaged_byte_raises_typed_error(data):
    schema = reader_schema(*FIELDS)
    check_damage(data, avro_bytes([RECORD] * 2), lambda each: list(read_rows(each, "f", schema)))
