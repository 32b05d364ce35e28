"""The check of JSON before Arrow's reader: objects, not too deep, in UTF-8."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.codec.json import record_check
from paimon_assets.engine.codec.json.record_check import MOST_LEVELS, check_records, checked_records

_TEXTS = st.text(st.sampled_from('"\\{}[]n\nüa €'), max_size=6)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)
_OBJECTS = st.dictionaries(_TEXTS, _VALUES, max_size=4)


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def lines(records: list[object], *, ascii_only: bool) -> bytes:
    return "\n".join(json.dumps(each, ensure_ascii=ascii_only) for each in records).encode()


@given(st.lists(_OBJECTS, max_size=5), st.integers(1, 9), st.booleans())
def test_objects_pass_unchanged_across_blocks(records, size, ascii_only):
    data = lines(records, ascii_only=ascii_only)
    assert b"".join(checked_records(pieces(data, size), is_lines=True)) == data


@given(
    st.lists(_OBJECTS, max_size=4), st.none() | _TEXTS | st.lists(_VALUES, max_size=2), st.data()
)
def test_other_roots_are_refused_with_their_line(records, root, data):
    place = data.draw(st.integers(0, len(records)))
    text = lines([*records[:place], root, *records[place:]], ascii_only=False)
    size = data.draw(st.integers(1, 9))
    with pytest.raises(pa.ArrowInvalid, match=f"line {place + 1}: a record is an object, not "):
        list(checked_records(pieces(text, size)))


@given(st.integers(MOST_LEVELS - 2, MOST_LEVELS + 2), st.booleans(), st.integers(1, 400))
def test_depth_is_limited_outside_of_texts(levels, is_list, size):
    opening, closing = ("[", "]") if is_list else ('{"a":', "}")
    nested = opening * (levels - 1) + "1" + closing * (levels - 1)
    data = f'{{"{"[" * 500}": 1}}\n{{"v": {nested}}}'.encode()
    if levels <= MOST_LEVELS:
        assert b"".join(checked_records(pieces(data, size))) == data
        return
    with pytest.raises(pa.ArrowInvalid, match=f"line 2: a value nests deeper than {MOST_LEVELS}"):
        list(checked_records(pieces(data, size)))


@given(st.lists(_OBJECTS, min_size=1, max_size=3), st.integers(1, 9), st.data())
def test_invalid_utf8_is_refused(records, size, data):
    text = lines([*records, {"v": "ü"}], ascii_only=False)
    place = data.draw(st.integers(0, len(text)))
    text = (
        text[:place]
        + data.draw(st.sampled_from([b"\xff", b"\xc3", b"\xed\xa0\x80"]))
        + text[place:]
    )
    with pytest.raises(pa.ArrowInvalid, match="not valid UTF-8"):
        list(checked_records(pieces(text, size)))


def test_multiline_record_is_refused_in_several_blocks(monkeypatch):
    data = b'{"a":\nnull}\n' * 3
    monkeypatch.setattr(record_check, "BLOCK_BYTES", len(data))
    assert b"".join(checked_records([data], is_lines=True)) == data
    with pytest.raises(pa.ArrowInvalid, match="set multiLine=true"):
        list(checked_records([data, b"{}\n"], is_lines=True))
    check_records(data + b"{}\n")
