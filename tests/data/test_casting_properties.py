"""Casts of any values: nulls, slices, chunks, round trips, exact arithmetic."""

import datetime as dt
import math
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal, localcontext

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.data.casting.casting import cast_array
from paimon_assets.engine.data.casting.kernels import KERNELS
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.all_options import CastDialect
from paimon_assets.engine.spec.types.cast_rules import supports_cast
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.cast_vectors import same_values

TYPES = (
    "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "BOOLEAN", "STRING", "VARCHAR(3)",
    "CHAR(4)", "BYTES", "BINARY(3)", "DATE", "TIME(2)", "TIMESTAMP(0)", "TIMESTAMP(2)",
    "TIMESTAMP(5)", "TIMESTAMP(9)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", "DECIMAL(5, 2)",
    "DECIMAL(18, 0)", "DECIMAL(38, 10)", "DECIMAL(38, 38)",
)  # fmt: skip
PAIRS = [
    (source, target)
    for source in TYPES
    for target in TYPES
    if source != target and supports_cast(parse_type(source), parse_type(target))
]
BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
dialects = st.sampled_from(list(CastDialect))


def signed_integers(bits):
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def decimals(precision, scale):
    limit = 10**precision - 1
    return st.integers(-limit, limit).map(lambda unscaled: exact(unscaled, scale))


def exact(unscaled, scale):
    with localcontext() as context:
        context.prec = 80
        return Decimal(unscaled).scaleb(-scale)


NUMERIC_TEXTS = st.one_of(
    signed_integers(64).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["1", "0", "t", "no", "2024-02-29", "2024-02-29 23:59:59.9", "x", "", "1e5"]),
)


def values_of(text):
    """Return (values of a type, the Arrow type to write them as)."""
    data_type = parse_type(text)
    arrow_type = to_arrow_type(data_type)
    if text in BITS:
        return signed_integers(BITS[text]), arrow_type
    if text.startswith("DECIMAL"):
        return decimals(data_type.precision, data_type.scale), arrow_type
    if text.startswith("TIMESTAMP"):
        step = 10 ** ({"s": 0, "ms": 3, "us": 6, "ns": 9}[arrow_type.unit] - data_type.precision)
        return signed_integers(60).map(lambda count: count // step * step), pa.int64()
    return {
        "FLOAT": (st.floats(width=32), arrow_type),
        "DOUBLE": (st.floats(), arrow_type),
        "BOOLEAN": (st.booleans(), arrow_type),
        "DATE": (st.integers(-(10**6), 4 * 10**6), pa.int32()),
        "TIME(2)": (st.integers(0, 86_399_999), pa.int32()),
        "BYTES": (st.binary(max_size=6), arrow_type),
        "BINARY(3)": (st.binary(min_size=3, max_size=3), arrow_type),
        "VARCHAR(3)": (st.text("aé中😀1", max_size=3), arrow_type),
        "CHAR(4)": (st.text("aé中😀1", min_size=4, max_size=4), arrow_type),
        "STRING": (NUMERIC_TEXTS, arrow_type),
    }[text]


def column_of(text, values, arrow_type):
    return pa.array(values, arrow_type).view(to_arrow_type(parse_type(text)))


def outcome(column, source, target, dialect):
    """Return the cast column, or the message of its error."""
    try:
        return cast_array(column, parse_type(source), parse_type(target), dialect=dialect)
    except InvalidInputError as error:
        return error.message


@given(st.data(), st.sampled_from(PAIRS), dialects)
def test_nulls_slices_and_chunks_do_not_change_results(data, pair, dialect):
    source, target = pair
    values, arrow_type = values_of(source)
    listed = data.draw(st.lists(st.none() | values, max_size=12))
    column = column_of(source, listed, arrow_type)
    whole = outcome(column, source, target, dialect)
    cut = data.draw(st.integers(0, len(listed)))
    parts = [
        outcome(part, source, target, dialect) for part in (column.slice(0, cut), column.slice(cut))
    ]
    if isinstance(whole, str):
        assert whole in parts
        return
    assert not any(isinstance(part, str) for part in parts)
    assert same_values(whole, pa.concat_arrays(parts))
    assert len(whole) == len(column)
    kept = np.array([value is None for value in listed], dtype=bool)
    assert whole.is_null().to_numpy(zero_copy_only=False)[kept].all()
    if source not in ("BYTES", "BINARY(3)"):  # bytes become text unchecked
        whole.validate(full=True)


@given(st.sampled_from(PAIRS), dialects)
def test_columns_of_no_rows_and_of_nulls_only_are_cast(pair, dialect):
    source, target = pair
    arrow_type = to_arrow_type(parse_type(source))
    for column in (pa.nulls(0, arrow_type), pa.nulls(3, arrow_type), pa.nulls(9, arrow_type)[4:]):
        found = outcome(column, source, target, dialect)
        assert found.null_count == len(column)
        assert found.type == to_arrow_type(parse_type(target))


def test_properties_cover_every_kernel():
    covered = {KERNELS[parse_type(one).root, parse_type(other).root] for one, other in PAIRS}
    assert covered == set(KERNELS.values())


@given(st.data(), st.sampled_from(sorted(BITS)), st.sampled_from(sorted(BITS)), dialects)
def test_integers_keep_low_bits(data, source, target, dialect):
    value = data.draw(signed_integers(BITS[source]))
    found = outcome(
        column_of(source, [value], to_arrow_type(parse_type(source))), source, target, dialect
    )
    half = 2 ** (BITS[target] - 1)
    assert found.to_pylist() == [(value + half) % (2 * half) - half]


def java(values, source, target):
    plain = values_of(source)[1]
    found = cast_array(column_of(source, values, plain), parse_type(source), parse_type(target))
    assert found.type == to_arrow_type(parse_type(target))
    return found


@pytest.mark.parametrize(
    "text",
    [
        t
        for t in TYPES
        if ("STRING", t) in PAIRS
        and t not in ("VARCHAR(3)", "CHAR(4)", "BYTES", "BINARY(3)", "BOOLEAN", "TIME(2)")
    ],
)
@given(data=st.data())
def test_values_round_trip_through_text(text, data):
    values, arrow_type = values_of(text)
    if text == "DATE":
        values = st.integers(-719_528, 2_932_896)
    elif text.startswith("TIMESTAMP"):
        values = values.filter(lambda count: is_four_digit_year(count, text))
    column = column_of(text, data.draw(st.lists(st.none() | values, max_size=5)), arrow_type)
    as_text = cast_array(column, parse_type(text), parse_type("STRING"))
    assert same_values(cast_array(as_text, parse_type("STRING"), parse_type(text)), column)


@given(st.integers(-719_528, 2_932_896), st.integers(0, 2))
def test_late_dates_show_last_four_digits_of_year(day, cycles):
    days = [day, day + cycles * 3_652_425]  # as many in every 10,000 years
    same, late = java(days, "DATE", "STRING").to_pylist()
    assert same == late


def is_four_digit_year(count, text):
    units = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
    seconds = count // units[to_arrow_type(parse_type(text)).unit]
    return -62_135_596_800 <= seconds < 253_402_300_800


@given(st.lists(st.floats(width=64), min_size=1, max_size=5))
def test_double_texts_read_back_and_have_javas_form(values):
    for value, text in zip(values, java(values, "DOUBLE", "STRING").to_pylist(), strict=True):
        named = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
        assert repr(named.get(text, value)) == repr(value)
        if text in named:
            continue
        assert float(text) == value
        significand, _, exponent = text.partition("E")
        whole, _, part = significand.lstrip("-").partition(".")
        assert part
        assert part == "0" or not part.endswith("0")
        assert bool(exponent) is not (value == 0 or 1e-3 <= abs(value) < 1e7)
        assert not exponent or (len(whole) == 1 and whole != "0")


@given(st.floats(-1e15, 1e15), st.sampled_from([(18, 0), (18, 4), (38, 10), (5, 2), (9, 9)]))
def test_doubles_become_decimals_by_digits_that_show(value, digits):
    precision, scale = digits
    assume(value != round(value) or abs(value) < 2**53)
    found = java([value], "DOUBLE", f"DECIMAL({precision}, {scale})").to_pylist()
    assert found == [round_decimal(Decimal(repr(value)), precision, scale, ROUND_HALF_UP)]


@given(st.integers(-(10**9), 10**9), st.integers(0, 4))
def test_halves_become_decimals_away_from_zero(unscaled, scale):
    value = float(f"{unscaled}5e-{scale + 1}")
    found = java([value], "DOUBLE", f"DECIMAL(18, {scale})").to_pylist()
    assert found == [round_decimal(Decimal(repr(value)), 18, scale, ROUND_HALF_UP)]


def round_decimal(value, precision, scale, mode):
    with localcontext() as context:
        context.prec = 120
        result = value.quantize(Decimal(1).scaleb(-scale), mode)
        return result if abs(result) < Decimal(10) ** (precision - scale) else None


LONG_EXPONENTS = st.integers(-1100, 900)
DECIMALS = ["DECIMAL(5, 2)", "DECIMAL(18, 0)", "DECIMAL(38, 10)", "DECIMAL(38, 38)",
            "DECIMAL(20, 5)", "DECIMAL(18, 18)", "DECIMAL(1, 0)"]  # fmt: skip


@given(st.data(), st.sampled_from(DECIMALS), st.sampled_from(DECIMALS))
def test_decimals_are_rounded_half_up_or_null(data, source, target):
    from_type, to_type = parse_type(source), parse_type(target)
    listed = data.draw(st.lists(decimals(from_type.precision, from_type.scale), max_size=4))
    found = cast_array(pa.array(listed, to_arrow_type(from_type)), from_type, to_type)
    wanted = [round_decimal(v, to_type.precision, to_type.scale, ROUND_HALF_UP) for v in listed]
    assert found.to_pylist() == wanted


@given(st.data(), st.sampled_from(DECIMALS), st.sampled_from(sorted(BITS)), dialects)
def test_decimals_become_integers_without_fraction(data, source, target, dialect):
    data_type = parse_type(source)
    value = data.draw(decimals(data_type.precision, data_type.scale))
    found = cast_array(
        pa.array([value], to_arrow_type(data_type)), data_type, parse_type(target), dialect=dialect
    )
    half = 2 ** (BITS[target] - 1)
    whole = int(round_decimal(value, 38, 0, ROUND_DOWN))
    assert found.to_pylist() == [(whole + half) % (2 * half) - half]


@pytest.mark.parametrize("scale", range(20))
def test_decimals_of_more_than_18_digits_become_nearest_double(scale):
    unscaled = np.random.default_rng(scale).integers(-(2**63) + 1, 2**63, 100).tolist()
    values = [exact(each, scale) for each in unscaled]
    source = parse_type(f"DECIMAL(19, {scale})")
    found = cast_array(pa.array(values, to_arrow_type(source)), source, parse_type("DOUBLE"))
    assert found.to_pylist() == [float(value) for value in values]


@given(st.text("0123456789aF", max_size=20), st.text("0123456789aF", max_size=4), LONG_EXPONENTS)
def test_hexadecimal_texts_become_nearest_double(whole, part, exponent):
    text = f"-0x{whole}.{part}p{exponent}"
    if whole or part:
        assert java([text], "STRING", "DOUBLE").to_pylist() == [float.fromhex(text)]
    else:
        with pytest.raises(InvalidInputError):
            java([text], "STRING", "DOUBLE")


@given(st.data(), st.sampled_from(sorted(BITS)), st.sampled_from(DECIMALS), dialects)
def test_integers_become_decimals_exactly_or_null(data, source, target, dialect):
    listed = data.draw(st.lists(signed_integers(BITS[source]), max_size=4))
    from_type, to_type = parse_type(source), parse_type(target)
    found = cast_array(
        pa.array(listed, to_arrow_type(from_type)), from_type, to_type, dialect=dialect
    )
    wanted = [
        round_decimal(Decimal(v), to_type.precision, to_type.scale, ROUND_DOWN) for v in listed
    ]
    assert found.to_pylist() == wanted


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "-", "+"]),
            st.text("0123456789", max_size=45),
            st.text("0123456789", max_size=45) | st.text("04٣९", max_size=9),
            st.integers(-60, 60) | st.just(0),
        ).filter(lambda parts: parts[1] or parts[2]),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(DECIMALS),
)
def test_decimal_texts_of_any_length_are_rounded_half_up_or_null(parts, target):
    texts = [f"{s}{w}.{p}" + (f"E{e:+}" if e else "") for s, w, p, e in parts]
    to_type = parse_type(target)
    wanted = [rounded_text(text, to_type.precision, to_type.scale) for text in texts]
    assert java(texts, "STRING", target).to_pylist() == wanted


def rounded_text(text, precision, scale):
    with localcontext() as context:
        context.prec = 300
        result = Decimal(text).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
        return result if abs(result) < Decimal(10) ** (precision - scale) else None


@given(
    st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59)),
    st.sampled_from([0, 1, 3, 4, 6]),
    st.booleans(),
)
def test_timestamp_texts_are_cut_to_precision(time, precision, is_short):
    text = time.strftime("%m-%d %H:%M:%S.%f")
    text = f"{time.year:04}-{text}"
    if is_short:  # one digit where one is enough, which Arrow does not read
        text = f"{time.year:04}-{time.month}-{time.day} {time.hour}:{time.minute}"
        text += f":{time.second}.{time.microsecond:06}"
    step = 10 ** (6 - precision)
    cut = time.replace(microsecond=time.microsecond // step * step)
    assert java([text], "STRING", f"TIMESTAMP({precision})").to_pylist() == [cut]


@given(st.lists(st.floats(width=32) | st.floats(), min_size=1, max_size=4))
def test_floating_point_becomes_integers_by_saturation_in_java(values):
    def saturate(value, bits):
        if math.isnan(value):
            return 0
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        return max(low, min(high, int(max(-1e30, min(1e30, value)))))

    assert java(values, "DOUBLE", "BIGINT").to_pylist() == [saturate(v, 64) for v in values]
    in_32 = [saturate(v, 32) for v in values]
    assert java(values, "DOUBLE", "INT").to_pylist() == in_32
    assert java(values, "DOUBLE", "TINYINT").to_pylist() == [(v + 128) % 256 - 128 for v in in_32]
