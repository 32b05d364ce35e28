"""Padding: exact arithmetic, overflow, wraps, every vector of Java, and the promise of columns.

The vectors are those of the last Java version that had padding. The promise: a counter's unit
(without one, the value itself) decides, then the flag if it is before the counter, then arrival.
Accepted padding keeps it, though readers order by the column first; refused padding breaks it, by
an example.
"""

import csv
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paimon_assets import EmbeddedExecutor, InvalidInputError, open_catalog
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.codec.arrow.arrow_values import first_failing
from paimon_assets.engine.data.sequence import UnitCounter, WrapCounter, field_to_long, pad
from paimon_assets.engine.spec.evolution.schema_validation import validate_schema
from paimon_assets.engine.spec.merge.sequence_padding import PaddingConfig
from paimon_assets.engine.spec.options.all_options import SequencePadding, parse_paddings
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema
from paimon_assets.engine.spec.types import data_types as types
from paimon_assets.engine.spec.types.literals import to_internal
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.compacting import compact
from tests.testkit.effort import often
from tests.testkit.errors import refused
from tests.testkit.model import parse_row_kind

FLAG, SECOND, MILLI = (
    SequencePadding.ROW_KIND_FLAG,
    SequencePadding.SECOND_TO_MICRO,
    SequencePadding.MILLIS_TO_MICRO,
)
LONGS = st.integers(-(2**63), 2**63 - 1)
STEPS = st.lists(st.sampled_from(list(SequencePadding)), max_size=3).map(tuple)


def config(*steps, data_type=None, legacy=False):
    field = types.DataField(id=0, name="seq", type=data_type or types.bigint())
    return PaddingConfig(field=field, steps=steps, legacy_overflow=legacy)


def longs(*values):
    return np.array(values, dtype=np.int64)


def adds(count):
    return np.ones(count, dtype=np.bool_)


def truncate(number, divisor):
    return abs(number) // divisor * (1 if number >= 0 else -1)


def exactly(value, n, add, steps, *, is_timestamp):
    """Pad with unbounded integers; return the low 64 bits, and whether every step fits them."""
    inside, divides = True, is_timestamp
    for step in steps:
        if step is FLAG:
            value = value * 2 + add
        else:
            unit = 10**6 if step is SECOND else 10**3
            if step is SECOND and divides:
                value = truncate(value, 1000)
            divides = divides and step is not SECOND
            value = value * unit + (n - truncate(n, unit) * unit)
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
def test_padding_is_exact_or_refused(value, n, add, steps, is_timestamp):
    data_type = types.timestamp(3) if is_timestamp else types.bigint()
    expected, inside = exactly(value, n, add, steps, is_timestamp=is_timestamp)
    inputs = longs(value), longs(n), np.array([add])
    legacy = pad(*inputs, config=config(*steps, data_type=data_type, legacy=True))
    assert legacy.tolist() == [expected]
    if inside:
        assert pad(*inputs, config=config(*steps, data_type=data_type)).tolist() == [expected]
    else:
        with refused(InvalidInputError, "'seq'", kind="sequence-overflow") as raised:
            pad(*inputs, config=config(*steps, data_type=data_type))
        assert raised.value.details["value"] == value


@pytest.mark.way_out("sequence-overflow")
def test_overflow_names_value_that_does_not_fit():
    values = longs(1, 9_223_372_036_854, 2**62)
    with pytest.raises(InvalidInputError, match=str(2**62)):
        pad(values, longs(0, 0, 0), adds(3), config=config(SECOND))
    assert len(pad(values // 10**10, longs(0, 0, 0), adds(3), config=config(SECOND))) == 3


@pytest.mark.way_out("sequence-null")
def test_null_sequences_are_counted_and_their_column_named():
    field = types.DataField(id=0, name="seq", type=types.bigint())
    with refused(InvalidInputError, "'seq' is null in 2 of 3", kind="sequence-null"):
        field_to_long(pa.array([None, 1, None], pa.int64()), field)
    assert field_to_long(pa.array([0, 1, 0], pa.int64()), field).tolist() == [0, 1, 0]


def test_offending_text_is_named():
    field = types.DataField(id=0, name="seq", type=types.string())
    texts = pa.array([str(number) for number in range(1000)] + ["99999999999999999999"])
    with pytest.raises(InvalidInputError, match="'99999999999999999999'"):
        field_to_long(texts, field)


def test_slice_of_decimals_is_read_from_its_offset():
    from paimon_assets.engine.spec.types.data_types import decimal

    column = pa.array([1, 2, 3, 4]).cast(pa.decimal128(19, 0)).slice(1, 2)
    field = types.DataField(id=0, name="seq", type=decimal(19, 0))
    assert field_to_long(column, field).tolist() == [2, 3]


@given(st.lists(st.booleans(), min_size=1, max_size=40).filter(lambda flags: not all(flags)))
def test_first_failing_value_is_found(passing):
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
def test_wraps_are_counted_over_flushes(data, first):
    millis = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=40))
    repeats = data.draw(st.sampled_from([1, 30, 120]))
    values = np.repeat(longs(*millis), repeats)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=9)))
    counters = np.arange(first, first + len(values), dtype=np.int64)
    counter = WrapCounter(config=config(MILLI))
    counted = sum(
        counter.count(values[start:end], counters[start:end], adds(end - start))
        for start, end in zip([0, *cuts], [*cuts, len(values)], strict=True)
    )
    assert counted == model_wraps(values.tolist(), first)


def test_flag_before_counter_separates_retractions():
    values, counters = longs(7, 7), longs(999, 1000)
    counter = WrapCounter(config=config(FLAG, MILLI))
    assert counter.count(values, counters, np.array([True, False])) == 0
    assert WrapCounter(config=config(MILLI, FLAG)).count(values, counters, adds(2)) == 1


def test_digits_after_wrap_are_compared_with_highest_of_unit():
    counter = WrapCounter(config=config(MILLI))
    flushes = [(7, 999), (7, 1000), (8, 1001), (8, 1002), (7, 1003)]
    counts = [counter.count(longs(value), longs(count), adds(1)) for value, count in flushes]
    assert counts == [0, 1, 0, 0, 1]


def test_layout_without_counter_never_wraps():
    assert not config(FLAG).has_counter
    assert WrapCounter(config=config(FLAG)).count(longs(1, 1), longs(999, 1000), adds(2)) == 0


NOTHING = np.iinfo(np.int64).min


def highest_of(numbers):
    """Return the answer of a bucket that holds these numbers."""

    def highest(lows, highs):
        inside = [
            [n for n in numbers if low <= n <= high]
            for low, high in zip(lows.tolist(), highs.tolist(), strict=True)
        ]
        return longs(*[max(each, default=NOTHING) for each in inside])

    return highest


ONE_COUNTER = STEPS.filter(lambda steps: len([step for step in steps if step is not FLAG]) == 1)


@given(st.data(), ONE_COUNTER)
def test_unit_counter_continues_at_highest_number(data, steps):
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


def test_rows_beyond_unit_digits_are_counted():
    counter = UnitCounter(
        config=config(MILLI), highest_stored=highest_of([6_999, 7_998, 8_005, 9_000])
    )
    counters, beyond = counter.count(longs(7, 7, 8, 7, 9, 6), adds(6))
    assert counters.tolist() == [999, 1000, 6, 1001, 1, 1000]
    assert beyond == 3


@pytest.mark.parametrize(
    ("stored", "add", "counter"),
    [(15_999, True, 1000), (15_999, False, 1000), (14_000, False, 1)],
    ids=["last +U", "last +U, then -U", "first -U"],
)
def test_stored_numbers_at_ends_of_unit_are_seen(stored, add, counter):
    padding = UnitCounter(config=config(MILLI, FLAG), highest_stored=highest_of([stored]))
    counters, beyond = padding.count(longs(7), np.array([add]))
    assert (counters.tolist(), beyond) == ([counter], counter // 1000)


def test_milliseconds_of_second_share_counter():
    second = config(SECOND, data_type=types.timestamp(3))
    counter = UnitCounter(config=second, highest_stored=highest_of([4_000_041]))
    assert counter.count(longs(4999, 4001, 5000, 4500), adds(4))[0].tolist() == [42, 43, 0, 44]


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
    ("DOUBLE", "1e19", "", "0", "+I", str(2**63 - 1)),
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
    if data_type.root is types.TypeRoot.VARBINARY:
        return pa.array([bytes.fromhex(text[2:])], arrow_type)
    if data_type.root is types.TypeRoot.DECIMAL:
        return pa.array([Decimal(text)], arrow_type)
    if data_type.root in types.TIMESTAMP_ROOTS:
        seconds, _, fraction = text.partition(".")
        nanos = to_internal(seconds, data_type, "s") + int(fraction.ljust(9, "0") or 0)
        count = nanos // NANOS_PER_UNIT[arrow_type.unit]
        return pa.array([count], pa.int64()).cast(arrow_type)
    stored = pa.array([to_internal(text, data_type, "s")])
    return (
        stored.cast(pa.int32()).cast(arrow_type)
        if data_type.root is types.TypeRoot.DATE
        else (stored.cast(arrow_type))
    )


@pytest.mark.parametrize("vector", ALL, ids=lambda vector: " ".join(vector.values()))
def test_number_equals_javas(vector):
    data_type = data_type_of(vector["field_type"])
    field = types.DataField(id=0, name="s", type=data_type)
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


def test_vectors_are_complete():
    assert len(VECTORS) == 63
    assert sum(vector["expected_sequence"].startswith("ERROR") for vector in VECTORS) == 8


EPOCH = datetime(1970, 1, 1)


def instants(step_micros):
    """A few neighbouring instants on both sides of the epoch."""
    near = st.integers(-2_000_000 // step_micros, 2_000_000 // step_micros) | st.integers(-3, 3)
    return near.map(lambda n: EPOCH + timedelta(microseconds=n * step_micros))


VALUES = {
    "BIGINT": st.integers(-5, 5),
    "DECIMAL(18, 0)": st.integers(-5, 5).map(Decimal),
    "DECIMAL(10, 2)": st.integers(-250, 250).map(lambda n: Decimal(n) / 100),
    "TIMESTAMP(0)": instants(1_000_000),
    "TIMESTAMP(3)": instants(1_000),
    "TIMESTAMP(6)": instants(1),
}


def table_schema(seq_type, steps, **more):
    return Schema.of(
        {"k": "INT", "seq": seq_type, "op": "STRING", "v": "INT"},
        primary_keys=["k"],
        options={
            "bucket": "1",
            "sequence.field": "seq",
            "rowkind.field": "op",
            "sequence.auto-padding": ",".join(steps),
            **more,
        },
    )


def is_accepted(seq_type, steps):
    try:
        validate_schema(first_table_schema(table_schema(seq_type, steps), time_millis=0))
    except InvalidInputError:
        return False
    return True


def promised_order(value, add, n, steps):
    """Return the key that must order the records of one key."""
    counters = [step for step in steps if step is not FLAG]
    if not counters:
        return (value, add, n)
    flag_counts = FLAG in steps[: steps.index(counters[0])]
    unit = timedelta(seconds=1) if SECOND in steps else timedelta(milliseconds=1)
    units = (value - EPOCH) // unit if isinstance(value, datetime) else int(value // 1)
    return (units, add if flag_counts else False, n)


def as_read(records, seq_type, steps):
    """Order (value, add) records as every reader does: by the column, then by the number."""
    source = types.DataField(id=0, name="seq", type=parse_type(seq_type))
    column = pa.array([value for value, _ in records], to_arrow_type(source.type))
    numbers = pad(
        field_to_long(column, source),
        np.arange(len(records), dtype=np.int64),
        np.array([add for _, add in records]),
        config=PaddingConfig(field=source, steps=steps, legacy_overflow=False),
    )
    # Of equal numbers without a counter the later wins.
    orders = zip([value for value, _ in records], numbers.tolist(), strict=True)
    return [(*order, n) for n, order in enumerate(orders)]


def keeps_promise(records, seq_type, steps):
    read = as_read(records, seq_type, steps)
    orders = [promised_order(value, add, n, steps) for n, (value, add) in enumerate(records)]
    by_read = sorted(range(len(records)), key=read.__getitem__)
    return all(orders[a] < orders[b] for a, b in pairwise(by_read))


@given(st.data())
@settings(max_examples=often(100))
def test_accepted_pair_keeps_padding_promise(data):
    seq_type = data.draw(st.sampled_from(sorted(VALUES)))
    steps = data.draw(STEPS.filter(lambda steps: steps and is_accepted(seq_type, steps)))
    records = data.draw(st.lists(st.tuples(VALUES[seq_type], st.booleans()), max_size=8))
    assert keeps_promise(records, seq_type, steps)


BEFORE_1970 = EPOCH - timedelta(seconds=1)


def at(**past):
    return EPOCH + timedelta(seconds=9, **past)


@pytest.mark.parametrize(
    ("seq_type", "steps", "records"),
    [
        ("TIMESTAMP(6)", (MILLI,), [(at(microseconds=2), True), (at(microseconds=1), True)]),
        ("TIMESTAMP(6)", (FLAG, MILLI), [(at(microseconds=2), False), (at(microseconds=1), True)]),
        ("TIMESTAMP(3)", (SECOND,), [(at(milliseconds=2), True), (at(milliseconds=1), True)]),
        ("TIMESTAMP(0)", (FLAG, SECOND), [(at(), True), (at(), False)]),
        ("TIMESTAMP(0)", (FLAG, MILLI, SECOND), [(BEFORE_1970, True), (BEFORE_1970, False)]),
        ("DECIMAL(10, 2)", (MILLI,), [(Decimal("1.50"), True), (Decimal("1.25"), True)]),
    ],
)
def test_refused_pair_breaks_padding_promise(seq_type, steps, records):
    assert not is_accepted(seq_type, steps)
    assert not keeps_promise(records, seq_type, steps)


@pytest.mark.parametrize(
    ("seq_type", "steps"),
    [
        ("TIMESTAMP(6)", (FLAG,)),
        ("DECIMAL(18, 0)", (FLAG,)),
        ("DECIMAL(10, 2)", (FLAG,)),
        ("BIGINT", (SECOND,)),
        ("TIMESTAMP(0)", (SECOND,)),
        ("TIMESTAMP(3)", (MILLI,)),
        ("TIMESTAMP(3)", (FLAG, MILLI)),
        ("BIGINT", (SECOND, FLAG)),
    ],
)
@given(data=st.data())
@settings(max_examples=often(12), deadline=None)
def test_table_keeps_padding_promises_over_writes(tmp_path_factory, seq_type, steps, data):
    few = st.sampled_from(data.draw(st.lists(VALUES[seq_type], min_size=2, max_size=4)))
    record = st.tuples(st.integers(0, 2), few, st.sampled_from(["+I", "-U"]))
    commits = data.draw(st.lists(st.lists(record, min_size=1, max_size=6), min_size=1, max_size=6))
    catalog = open_catalog(str(tmp_path_factory.mktemp("warehouse")))
    catalog.create_database("db")
    buffer = {"write-buffer-size": data.draw(st.sampled_from(["1", "1 mb"]))}
    table = catalog.create_table("db.t", table_schema(seq_type, steps, **buffer))
    best: dict[int, tuple[object, ...]] = {}
    arrival = 0
    for commit in commits:
        payloads = list(range(arrival, arrival + len(commit)))
        arrival += len(commit)
        keys, values, kinds = zip(*commit, strict=True)
        columns = {
            "k": pa.array(keys, pa.int32()),
            "seq": pa.array(values, to_arrow_type(parse_type(seq_type))),
            "op": pa.array(kinds),
            "v": pa.array(payloads, pa.int32()),
        }
        table.new_write_builder().write(pa.table(columns), EmbeddedExecutor())
        for key, value, kind, payload in zip(keys, values, kinds, payloads, strict=True):
            order = (*promised_order(value, kind == "+I", payload, steps), kind == "+I", payload)
            best[key] = max(best.get(key, order), order)
        if data.draw(st.integers(0, 3)) == 0:
            compact(table, "full")  # keeps deletes and their order
    rows = table.new_read_builder().with_columns(["k", "v"]).to_arrow().to_pylist()
    expected = {key: payload for key, (*_, adds, payload) in best.items() if adds}
    assert {row["k"]: row["v"] for row in rows} == expected
