import contextlib
import datetime as dt
import io
from decimal import Decimal

import pyarrow as pa
import pyarrow.orc as orc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_assets.engine.codec import orc_footer
from paimon_assets.engine.codec.orc_footer import read_orc_footer
from paimon_assets.engine.errors import FormatError
from tests.testkit.effort import often

_CODECS = ["uncompressed", "zlib", "snappy", "zstd", "lz4"]
_TABLE = pa.table(
    {
        "n": pa.array([3, None, -7], pa.int64()),
        "inner": pa.array([{"n": 9}, None, {"n": None}]),
        "s": ["b", None, "é"],
        "d": pa.array([Decimal("1.25"), None, Decimal(-3)], pa.decimal128(20, 2)),
        "x": [dt.date(1960, 1, 1), None, dt.date(2020, 1, 1)],
        "f": [1.0, None, float("nan")],
        "t": pa.array([1, None, 2], pa.timestamp("us")),
        "gone": pa.array([None] * 3, pa.int32()),
    }
)


def _orc(table, codec="zstd"):
    sink = io.BytesIO()
    orc.write_table(table, sink, compression=codec)
    return sink.getvalue()


def _footer(data):
    return read_orc_footer(lambda at, count: data[at : at + count], len(data), "a.orc")


@pytest.mark.parametrize("codec", _CODECS)
def test_rows_nulls_and_bounds_of_the_columns_that_have_an_order(codec):
    footer = _footer(_orc(_TABLE, codec))
    assert footer.row_count == 3
    found = {name: (c.value_count, c.minimum, c.maximum) for name, c in footer.columns.items()}
    assert list(found) == _TABLE.column_names
    assert found["n"] == (2, -7, 3)
    assert found["s"] == (2, "b", "é")
    assert found["d"] == (2, Decimal(-3), Decimal("1.25"))
    assert found["x"] == (2, -3653, 18262)
    assert found["f"] == (2, None, None)
    assert found["t"] == (2, None, None)
    assert found["gone"] == (0, None, None)
    assert found["inner"][1:] == (None, None)


@settings(max_examples=often(15))
@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1))
def test_the_bounds_of_integers_are_exact(numbers):
    column = _footer(_orc(pa.table({"n": pa.array(numbers, pa.int64())}))).columns["n"]
    known = [number for number in numbers if number is not None]
    assert column.value_count == len(known)
    assert (column.minimum, column.maximum) == ((min(known), max(known)) if known else (None, None))


@settings(max_examples=often(24))
@given(st.data())
def test_damaged_footers_are_an_error_of_ours(data):
    good = _orc(_TABLE)
    cut = data.draw(st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[-1 - data.draw(st.integers(0, 60))] ^= data.draw(st.integers(1, 255))
    for damaged in (good[:cut], bytes(bad)):
        # A flipped bit may go unnoticed; anything else than an error of ours may not be raised.
        with contextlib.suppress(FormatError):
            _footer(damaged)


def test_an_error_names_the_file():
    with pytest.raises(FormatError, match=r"a\.orc"):
        _footer(b"ORC")


@pytest.mark.parametrize("size", [1, 40, 5000, 1 << 18])
def test_chunks_of_lz4_end_where_they_did_though_they_do_not_say(size):
    plain = (b"ab" * size)[:size]
    chunk = bytes(pa.Codec("lz4_raw").compress(plain))
    mark = (len(chunk) << 1).to_bytes(3, "little")
    assert orc_footer._decompressed(mark + chunk, 4, 1 << 18) == plain
