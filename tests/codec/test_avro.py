import io
import json
import zlib

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.codec.avro.avro import (
    RecordSchema,
    encode_block,
    read_container,
    write_container,
)
from paimon_assets.engine.errors import FormatError
from tests.testkit.codec_strategies import check_damage, longs, texts

SCHEMA_JSON = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "s", "type": ["null", "string"], "default": None},
        {"name": "t", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
    ],
}
SCHEMA = RecordSchema.of(json.dumps(SCHEMA_JSON).encode())
records = st.lists(
    st.fixed_dictionaries({"n": longs, "s": st.none() | texts, "t": st.none() | longs}), max_size=5
)
SOME = [{"n": number, "s": "x" * number, "t": None} for number in range(50)]


WIDE_JSON = {
    "type": "record",
    "name": "w",
    "fields": [
        {"name": "a", "type": "boolean"},
        {"name": "b", "type": "float"},
        {"name": "c", "type": ["null", "double"]},
        {"name": "d", "type": {"type": "fixed", "name": "x", "size": 2}},
        {"name": "e", "type": {"type": "array", "items": ["null", "long"]}},
        {"name": "f", "type": ["null", {**SCHEMA_JSON, "name": "i"}]},
        {"name": "g", "type": "bytes"},
    ],
}
wide = st.fixed_dictionaries(
    {
        "a": st.booleans(),
        "b": st.floats(width=32, allow_nan=False),
        "c": st.none() | st.floats(allow_nan=False),
        "d": st.binary(min_size=2, max_size=2),
        "e": st.lists(st.none() | longs, max_size=3),
        "f": st.none() | st.fixed_dictionaries({"n": longs, "s": texts, "t": st.none()}),
        "g": st.binary(max_size=200),
    }
)


def by_fastavro(items, codec="null", schema=SCHEMA_JSON):
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), items, codec=codec)
    return out.getvalue()


@given(records)
def test_written_rows_are_read_with_instants_as_numbers(items):
    assert list(read_container(write_container(SCHEMA, items), "f")) == items


@given(st.lists(wide, max_size=5))
def test_blocks_are_those_of_fastavro(items):
    schema, out = fastavro.parse_schema({"type": "array", "items": WIDE_JSON}), io.BytesIO()
    fastavro.schemaless_writer(out, schema, items)
    block = encode_block(RecordSchema.of(json.dumps(WIDE_JSON).encode()), items, lambda data: data)
    assert block.endswith(out.getvalue().removesuffix(b"\0")[1:])


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_number_of_more_than_64_bits_is_not_written(number):
    with pytest.raises(FormatError, match="64 bits"):
        write_container(SCHEMA, [{"n": number}])


def test_another_reader_reads_written_rows():
    reader = fastavro.reader(io.BytesIO(write_container(SCHEMA, SOME)))
    assert list(reader) == SOME
    assert reader.codec == "zstandard"
    assert json.loads(reader.metadata["avro.schema"]) == SCHEMA_JSON


def test_many_records_are_split_into_blocks_in_order():
    items = [{"n": number, "s": None, "t": None} for number in range(2500)]
    data = write_container(SCHEMA, items)
    assert [block.num_records for block in fastavro.block_reader(io.BytesIO(data))] == [
        1000,
        1000,
        500,
    ]
    assert list(read_container(data, "f")) == items


def test_equal_records_give_equal_bytes():
    assert write_container(SCHEMA, SOME) == write_container(SCHEMA, SOME)
    assert write_container(SCHEMA, SOME) != write_container(SCHEMA, SOME[1:])


def test_file_without_records_is_header():
    assert list(fastavro.reader(io.BytesIO(write_container(SCHEMA, [])))) == []


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard", "bzip2", "xz"])
def test_every_codec_is_read(codec):
    assert list(read_container(by_fastavro(SOME, codec), "f")) == SOME


def test_snappy_is_read_and_its_checksum_checked():
    plain = by_fastavro(SOME)
    sync = plain[-16:]
    head, block, _ = plain.split(sync)
    count_and_size, payload = block[:3], block[3:]
    packed = bytes(pa.Codec("snappy").compress(payload))

    def snappy_file(checksum):
        body = packed + checksum.to_bytes(4, "big")
        size = bytes([len(body) << 1 & 0x7F | 0x80, len(body) >> 6])
        renamed = head.replace(b"\x08null", b"\x0csnappy")
        return renamed + sync + count_and_size[:1] + size + body + sync

    assert list(read_container(snappy_file(zlib.crc32(payload)), "f")) == SOME
    with pytest.raises(FormatError, match="checksum"):
        list(read_container(snappy_file(zlib.crc32(payload) ^ 1), "f"))


def test_records_in_union_with_null_are_read():
    data = by_fastavro(SOME, schema=["null", SCHEMA_JSON])
    assert [{**record, "t": None} for record in read_container(data, "f")] == SOME


def test_unknown_codec_is_named():
    data = by_fastavro(SOME).replace(b"\x08null", b"\x08lzma")
    with pytest.raises(FormatError, match=r"manifest-1.*'lzma'"):
        list(read_container(data, "manifest-1"))


@pytest.mark.parametrize("codec", ["null", "zstandard"])
def test_truncated_file_is_named(codec):
    data = by_fastavro(SOME, codec)
    header = len(data.split(data[-16:])[0]) + 16
    for length in range(len(data)):
        if length == header:
            continue  # a header without blocks is a whole file without records
        with pytest.raises(FormatError, match="manifest-1"):
            list(read_container(data[:length], "manifest-1"))


@given(st.data(), st.sampled_from(["null", "zstandard", "deflate"]))
def test_damaged_byte_raises_typed_error(data, codec):
    check_damage(data, by_fastavro(SOME, codec), lambda each: list(read_container(each, "f")))
