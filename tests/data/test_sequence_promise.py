"""Which columns keep the promise of their padding, though readers order by the column first.

The promise, step by step: a counter's unit (without one, the value itself) decides, then the flag
where it stands before the counter, then arrival. What is accepted keeps it; what is refused does
not, by an example.
"""

from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.data.sequence import field_to_long, pad
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.evolution.schema_validation import validate_schema
from paimon_assets.engine.spec.merge.sequence_padding import PaddingConfig
from paimon_assets.engine.spec.options.all_options import SequencePadding
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.types.type_text import parse_type
from paimon_assets.engine.table.api import open_catalog
from tests.testkit.compacting import compact
from tests.testkit.effort import often

FLAG, SECOND, MILLI = (
    SequencePadding.ROW_KIND_FLAG,
    SequencePadding.SECOND_TO_MICRO,
    SequencePadding.MILLIS_TO_MICRO,
)
EPOCH = datetime(1970, 1, 1)
STEPS = st.lists(st.sampled_from(list(SequencePadding)), min_size=1, max_size=3).map(tuple)


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


def promised(value, add, n, steps):
    """What must decide between records of one key."""
    counters = [step for step in steps if step is not FLAG]
    if not counters:
        return (value, add, n)
    flag_counts = FLAG in steps[: steps.index(counters[0])]
    unit = timedelta(seconds=1) if SECOND in steps else timedelta(milliseconds=1)
    units = (value - EPOCH) // unit if isinstance(value, datetime) else int(value // 1)
    return (units, add if flag_counts else False, n)


def as_read(records, seq_type, steps):
    """Order (value, add) records as every reader does: by the column, then by the number."""
    source = DataField(id=0, name="seq", type=parse_type(seq_type))
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
    said = [promised(value, add, n, steps) for n, (value, add) in enumerate(records)]
    by_read = sorted(range(len(records)), key=read.__getitem__)
    return all(said[a] < said[b] for a, b in pairwise(by_read))


@given(st.data())
@settings(max_examples=often(100))
def test_an_accepted_pair_lets_the_promised_record_win(data):
    seq_type = data.draw(st.sampled_from(sorted(VALUES)))
    steps = data.draw(STEPS.filter(lambda steps: is_accepted(seq_type, steps)))
    records = data.draw(st.lists(st.tuples(VALUES[seq_type], st.booleans()), max_size=8))
    assert keeps_promise(records, seq_type, steps)


def at(**past):
    return EPOCH + timedelta(seconds=9, **past)


@pytest.mark.parametrize(
    ("seq_type", "steps", "records"),
    [
        ("TIMESTAMP(6)", (MILLI,), [(at(microseconds=2), True), (at(microseconds=1), True)]),
        ("TIMESTAMP(6)", (FLAG, MILLI), [(at(microseconds=2), False), (at(microseconds=1), True)]),
        ("TIMESTAMP(3)", (SECOND,), [(at(milliseconds=2), True), (at(milliseconds=1), True)]),
        ("TIMESTAMP(0)", (FLAG, SECOND), [(at(), True), (at(), False)]),
        ("DECIMAL(10, 2)", (MILLI,), [(Decimal("1.50"), True), (Decimal("1.25"), True)]),
    ],
)
def test_a_refused_pair_would_break_its_promise(seq_type, steps, records):
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
def test_a_table_keeps_what_is_promised_over_many_writes(tmp_path_factory, seq_type, steps, data):
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
            order = (*promised(value, kind == "+I", payload, steps), kind == "+I", payload)
            best[key] = max(best.get(key, order), order)
        if data.draw(st.integers(0, 3)) == 0:
            compact(table, "full")  # forgets what was deleted, and when
            best = {key: order for key, order in best.items() if order[-2]}
    rows = table.new_read_builder().with_columns(["k", "v"]).to_arrow().to_pylist()
    expected = {key: payload for key, (*_, adds, payload) in best.items() if adds}
    assert {row["k"]: row["v"] for row in rows} == expected
