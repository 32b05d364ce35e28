"""Padding against exact arithmetic, overflow, and the counting of wraps."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paimon_assets.engine.data.casting.cast import first_failing
from paimon_assets.engine.data.sequence import UnitCounter, WrapCounter, field_to_long, pad
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.merge.sequence_padding import PaddingConfig
from paimon_assets.engine.spec.options.all_options import SequencePadding
from paimon_assets.engine.spec.types.data_types import DataField, bigint, string, timestamp

FLAG, SECOND, MILLI = (
    SequencePadding.ROW_KIND_FLAG,
    SequencePadding.SECOND_TO_MICRO,
    SequencePadding.MILLIS_TO_MICRO,
)
LONGS = st.integers(-(2**63), 2**63 - 1)
STEPS = st.lists(st.sampled_from(list(SequencePadding)), max_size=3).map(tuple)


def config(*steps, data_type=None, legacy=False):
    field = DataField(id=0, name="seq", type=data_type or bigint())
    return PaddingConfig(field=field, steps=steps, legacy_overflow=legacy)


def longs(*values):
    return np.array(values, dtype=np.int64)


def adds(count):
    return np.ones(count, dtype=np.bool_)


def truncated(number, divisor):
    return abs(number) // divisor * (1 if number >= 0 else -1)


def exactly(value, n, add, steps, *, is_timestamp):
    """Say the rule in numbers without end; the last item tells whether 64 bits were left."""
    inside, divides = True, is_timestamp
    for step in steps:
        if step is FLAG:
            value = value * 2 + add
        else:
            unit = 10**6 if step is SECOND else 10**3
            if step is SECOND and divides:
                value = truncated(value, 1000)
            divides = divides and step is not SECOND
            value = value * unit + (n - truncated(n, unit) * unit)
        inside = inside and -(2**63) <= value < 2**63
        value = (value + 2**63) % 2**64 - 2**63
    return value, inside


@given(LONGS, LONGS, st.booleans(), STEPS, st.booleans())
@example(9223372036854, 999_999, True, (SECOND,), False)
@example(9223372036854, 775_807, True, (SECOND,), False)
@example(9223372036855, -999_999, True, (SECOND,), False)
@example(-9223372036854, -775_808, True, (SECOND,), False)
@example(-(2**63), 0, False, (SECOND,), True)
@example(2**62 - 1, 0, True, (FLAG,), False)
@example(-(2**62), 0, False, (FLAG,), False)
def test_padding_is_the_exact_number_or_an_error(value, n, add, steps, is_timestamp):
    data_type = timestamp(3) if is_timestamp else bigint()
    expected, inside = exactly(value, n, add, steps, is_timestamp=is_timestamp)
    inputs = longs(value), longs(n), np.array([add])
    legacy = pad(*inputs, config=config(*steps, data_type=data_type, legacy=True))
    assert legacy.tolist() == [expected]
    if inside:
        assert pad(*inputs, config=config(*steps, data_type=data_type)).tolist() == [expected]
    else:
        with pytest.raises(InvalidInputError, match="'seq'") as raised:
            pad(*inputs, config=config(*steps, data_type=data_type))
        assert raised.value.kind == "sequence-overflow"
        assert raised.value.details["value"] == value


def test_overflow_names_the_value_that_does_not_fit():
    values = longs(1, 9_223_372_036_854, 2**62)
    with pytest.raises(InvalidInputError, match=str(2**62)):
        pad(values, longs(0, 0, 0), adds(3), config=config(SECOND))


def test_null_sequences_are_counted_and_their_column_named():
    field = DataField(id=0, name="seq", type=bigint())
    with pytest.raises(InvalidInputError, match="'seq' is null in 2 of 3") as raised:
        field_to_long(pa.array([None, 1, None], pa.int64()), field)
    assert raised.value.kind == "sequence-null"


def test_the_offending_text_among_many_is_named():
    field = DataField(id=0, name="seq", type=string())
    texts = pa.array([str(number) for number in range(1000)] + ["99999999999999999999"])
    with pytest.raises(InvalidInputError, match="'99999999999999999999'"):
        field_to_long(texts, field)


def test_a_slice_of_decimals_is_read_from_its_offset():
    from paimon_assets.engine.spec.types.data_types import decimal

    column = pa.array([1, 2, 3, 4]).cast(pa.decimal128(19, 0)).slice(1, 2)
    field = DataField(id=0, name="seq", type=decimal(19, 0))
    assert field_to_long(column, field).tolist() == [2, 3]


@given(st.lists(st.booleans(), min_size=1, max_size=40).filter(lambda flags: not all(flags)))
def test_the_first_failing_value_is_found(passing):
    texts = pa.array(["1" if flag else "x" for flag in passing])
    assert first_failing(texts, lambda part: part.cast(pa.int64())) == passing.index(False)


def model_wraps(seconds, first):
    highest, wrapped = {}, 0
    for n, second in enumerate(seconds, start=first):
        digits = n % 1000
        wrapped += digits <= highest.get(second, -1)
        highest[second] = max(digits, highest.get(second, -1))
    return wrapped


@given(st.data(), st.integers(0, 5000))
def test_wraps_are_counted_however_the_rows_are_flushed(data, first):
    millis = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=40))
    repeats = data.draw(st.sampled_from([1, 30, 120]))
    values = np.repeat(longs(*millis), repeats)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=3)))
    counters = np.arange(first, first + len(values), dtype=np.int64)
    counter = WrapCounter(config=config(MILLI))
    counted = sum(
        counter.count(values[start:end], counters[start:end], adds(end - start))
        for start, end in zip([0, *cuts], [*cuts, len(values)], strict=True)
    )
    assert counted == model_wraps(values.tolist(), first)


def test_a_flag_before_the_counter_keeps_retracts_apart():
    values, counters = longs(7, 7), longs(999, 1000)
    counter = WrapCounter(config=config(FLAG, MILLI))
    assert counter.count(values, counters, np.array([True, False])) == 0
    assert WrapCounter(config=config(MILLI, FLAG)).count(values, counters, adds(2)) == 1


def test_without_a_counter_nothing_wraps():
    assert not config(FLAG).has_counter
    assert WrapCounter(config=config(FLAG)).count(longs(1, 1), longs(999, 1000), adds(2)) == 0


NOTHING = np.iinfo(np.int64).min


def highest_of(numbers):
    """What a bucket that holds these numbers answers."""

    def highest(lows, highs):
        inside = [
            [n for n in numbers if low <= n <= high]
            for low, high in zip(lows.tolist(), highs.tolist(), strict=True)
        ]
        return longs(*[max(each, default=NOTHING) for each in inside])

    return highest


ONE_COUNTER = STEPS.filter(lambda steps: len([step for step in steps if step is not FLAG]) == 1)


@given(st.data(), ONE_COUNTER)
def test_each_write_of_a_unit_goes_on_above_what_the_bucket_holds_of_it(data, steps):
    row = st.tuples(st.integers(-3, 3), st.booleans())
    stored, latest = [], {}
    at = steps.index(SECOND if SECOND in steps else MILLI)
    for _ in range(data.draw(st.integers(1, 4))):  # each is a writer
        counter = UnitCounter(config=config(*steps), highest_stored=highest_of(stored))
        for rows in data.draw(st.lists(st.lists(row, min_size=1, max_size=8), max_size=3)):
            values, flags = longs(*[v for v, _ in rows]), np.array([add for _, add in rows])
            counters, beyond = counter.count(values, flags)
            assert beyond == 0
            numbers = pad(values, counters, flags, config=config(*steps)).tolist()
            for (value, add), number in zip(rows, numbers, strict=True):
                unit = (value, *[add] * at)
                assert number > latest.get(unit, NOTHING)
                latest[unit] = number
            stored.extend(numbers)


def test_rows_beyond_the_digits_of_a_unit_are_counted():
    counter = UnitCounter(config=config(MILLI), highest_stored=highest_of([7_998, 8_005]))
    counters, beyond = counter.count(longs(7, 7, 8, 7), adds(4))
    assert counters.tolist() == [999, 1000, 6, 1001]
    assert beyond == 2


def test_of_a_timestamp_all_milliseconds_of_a_second_are_counted_together():
    second = config(SECOND, data_type=timestamp(3))
    counter = UnitCounter(config=second, highest_stored=highest_of([4_000_041]))
    assert counter.count(longs(4999, 4001, 5000, 4500), adds(4))[0].tolist() == [42, 43, 0, 44]
