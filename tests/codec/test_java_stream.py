import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.codec.rows import java_stream
from paimon_assets.engine.errors import FormatError, InvalidInputError
from tests.testkit.codec_strategies import longs


@given(st.text())
def test_texts_round_trip_modified_utf8(text):
    assert java_stream.decode_modified_utf8(java_stream.encode_modified_utf8(text)) == text


@given(st.text())
def test_modified_utf8_holds_no_zero_byte_and_no_four_byte_character(text):
    encoded = java_stream.encode_modified_utf8(text)
    assert 0 not in encoded
    assert all(byte < 0xF0 for byte in encoded)


def test_bytes_that_are_not_modified_utf8_are_refused():
    with pytest.raises(FormatError):
        java_stream.decode_modified_utf8(b"\xff")


@given(st.booleans(), st.integers(-(2**31), 2**31 - 1), longs, st.text())
def test_written_index_is_read(boolean, number, long, text):
    out = java_stream.DataOutput()
    out.write_boolean(boolean)
    out.write_int(number)
    out.write_long(long)
    out.write_utf(text)
    out.write_bytes(text.encode())
    source = java_stream.DataInput(out.to_bytes())
    assert source.read_boolean() == boolean
    assert source.read_int() == number
    assert source.read_long() == long
    assert source.read_utf() == text
    assert source.read_bytes() == text.encode()
    assert source.at_end()


def test_numbers_are_big_endian():
    out = java_stream.DataOutput()
    out.write_int(1)
    out.write_long(-2)
    assert out.to_bytes().hex() == "00000001" + "fffffffffffffffe"


def test_text_of_more_than_65535_bytes_is_refused():
    with pytest.raises(InvalidInputError):
        java_stream.DataOutput().write_utf("ä" * 40_000)


@pytest.mark.parametrize("data", [b"", b"\0\0\0", b"\0\0\0\5abc", b"\xff\xff\xff\xff"])
def test_length_beyond_end_is_refused(data):
    with pytest.raises(FormatError):
        java_stream.DataInput(data).read_bytes()
