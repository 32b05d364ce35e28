import contextlib
import datetime as dt
import io
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_assets.engine.codec import orc_footer
from paimon_assets.engine.codec.orc_footer import read_orc_footer, read_times
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
def test_footer_has_rows_nulls_and_bounds(codec):
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
def test_bounds_of_integers_are_exact(numbers):
    column = _footer(_orc(pa.table({"n": pa.array(numbers, pa.int64())}))).columns["n"]
    known = [number for number in numbers if number is not None]
    assert column.value_count == len(known)
    assert (column.minimum, column.maximum) == ((min(known), max(known)) if known else (None, None))


@settings(max_examples=often(24))
@given(st.data())
def test_damaged_footer_raises_typed_error(data):
    good = _orc(_TABLE)
    cut = data.draw(st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[-1 - data.draw(st.integers(0, 60))] ^= data.draw(st.integers(1, 255))
    for damaged in (good[:cut], bytes(bad)):
        # A flipped bit may go unnoticed; anything else than an error of ours may not be raised.
        with contextlib.suppress(FormatError):
            _footer(damaged)


def test_error_names_file():
    with pytest.raises(FormatError, match=r"a\.orc"):
        _footer(b"ORC")


@pytest.mark.parametrize("size", [1, 40, 5000, 1 << 18])
def test_lz4_chunks_end_without_stored_length(size):
    plain = (b"ab" * size)[:size]
    chunk = bytes(pa.Codec("lz4_raw").compress(plain))
    mark = (len(chunk) << 1).to_bytes(3, "little")
    assert orc_footer._decompress(mark + chunk, 4, 1 << 18) == plain


LAST = 9_000_000_000 * 10**6
STEPS = st.integers(0, 3) | st.integers(0, 10**6) | st.integers(0, 10**13)


def decode(data: bytes, column: int = 1) -> list[int | None]:
    """Decode all stripes; microseconds."""
    footer = read_orc_footer(lambda at, count: data[at : at + count], len(data), "a.orc")
    found: list[int | None] = []
    for stripe in range(len(footer.stripes)):
        seconds, nanos, valid = read_times(
            footer, lambda at, count: data[at : at + count], stripe, column, "a.orc"
        )
        micros = seconds * 10**6 + nanos // 1000
        found += [
            int(each) if is_valid else None for each, is_valid in zip(micros, valid, strict=True)
        ]
    return found


def orc_bytes(
    values: list[int | None], compression: Any = "uncompressed", version: Any = "0.12"
) -> bytes:
    """Write one column as ORC."""
    sink = io.BytesIO()
    column = pa.array(values, pa.timestamp("us"))
    orc.write_table(pa.table({"t": column}), sink, compression=compression, file_version=version)
    return sink.getvalue()


@st.composite
def columns(draw: st.DrawFn) -> list[int | None]:
    """Runs that repeat, rise, fall, jump, and hold few large numbers among small ones."""
    values: list[int | None] = []
    for _ in range(draw(st.integers(1, 4))):
        count, start = draw(st.integers(1, 40)), draw(st.integers(0, LAST // 2))
        match draw(st.sampled_from(("same", "steps", "down", "any", "outliers", "nulls"))):
            case "same":
                values += [start] * count
            case "steps":
                step = draw(STEPS)
                values += [start + step * number for number in range(count)]
            case "down":
                values += [start - start // 50 * number for number in range(count)]
            case "any":
                values += draw(st.lists(st.integers(0, LAST), min_size=1, max_size=count))
            case "outliers":
                values += [start + number % 7 for number in range(count * 8)]
                values += [LAST, start]
            case _:
                values += [None] * count
    return values


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "snappy", "zstd", "lz4"])
def test_codecs(compression: str) -> None:
    values = [n * 1_234_567 if n % 3 else None for n in range(1000)]
    assert decode(orc_bytes(values, compression)) == values


@given(columns(), st.sampled_from(["0.11", "0.12"]))
@settings(max_examples=often(60), deadline=None)
def test_every_kind_of_run_is_decoded(values: list[int | None], version: str) -> None:
    assert decode(orc_bytes(values, version=version)) == values


def test_many_rows_with_outliers() -> None:
    chance = np.random.default_rng(3)
    values = chance.integers(0, 200, 5000) * 10**6
    values[chance.integers(0, 5000, 60)] = LAST - 5
    assert decode(orc_bytes(values.tolist())) == values.tolist()


def test_damaged_streams_are_named() -> None:
    data = orc_bytes([n * n * 7_654_321 for n in range(400)])
    refused = set()
    for at in range(0, len(data) - 40, 3):
        damaged = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]
        with contextlib.suppress(FormatError):
            refused.add(at)
            decode(damaged)
            refused.remove(at)
    assert refused


@pytest.mark.parametrize("count", [1, 3, 4, 9, 600])
@pytest.mark.parametrize("steps", [0, 1_000])
def test_negative_nanoseconds_of_writer_in_cpp_are_read(count: int, steps: int) -> None:
    """Before 1970 it cuts toward zero, and leaves the sign to the fraction."""
    values: list[int | None] = [-62_135_596_800_000_000 + 999_000 + n * steps for n in range(count)]
    assert decode(orc_bytes(values)) == values
    early: list[int | None] = [-1_000 - n * 1_000_000 for n in range(count)]
    assert decode(orc_bytes(early)) == early
