"""Keys that may change partition: the written rows and their places."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.codec.rows.binary_row import deserialize_row
from paimon_assets.engine.data.write import dynamic_buckets, moving_keys
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.types.data_types import string
from tests.testkit.tables import table_schema
from tests.testkit.write_contexts import context_of

COLUMNS = {"k": "INT", "n": "STRING", "p": "STRING", "v": "INT"}
TYPES = [pa.int32(), pa.string(), pa.string(), pa.int32()]


def crossing(engine="deduplicate", **options):
    options = {"bucket": "-1", "merge-engine": engine, **options}
    return table_schema(COLUMNS, primary_keys=["k", "n"], partition_keys=["p"], options=options)


def batch_of(rows):
    columns = list(zip(*rows, strict=True)) or [[]] * 4
    arrays = [pa.array(column, kind) for column, kind in zip(columns, TYPES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))


def placed_rows(placed):
    """Return (target partition, bucket, kind, row) in order."""
    rows, kinds, (partitions, numbers, buckets) = placed
    found = []
    for row, kind, number, bucket in zip(rows.to_pylist(), kinds, numbers, buckets, strict=True):
        (partition,) = deserialize_row(partitions[number], [string()])
        assert row["p"] == partition
        found.append((partition, int(bucket), int(kind), (row["k"], row["n"], row["v"])))
    return found


class JavaAssigner:
    """The same, row after row, as Java's `GlobalIndexAssigner` does it."""

    def __init__(self, engine):
        self.engine = engine
        self.home = {}

    def assign(self, rows):
        out = []
        for k, n, p, v in rows:
            before = self.home.get((k, n), p)
            if before == p:
                self.home[k, n] = p
                out.append((p, 0, (k, n, v)))
            elif self.engine == "deduplicate":
                self.home[k, n] = p
                out += [(before, 3, (k, n, v)), (p, 0, (k, n, v))]
            elif self.engine != "first-row":
                out.append((before, 0, (k, n, v)))
        return out


ROWS = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.sampled_from(["", "a key of some length"]),
        st.sampled_from(["x", "y", None]),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=30,
)


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation", "first-row"])
@given(batches=st.lists(ROWS, min_size=1, max_size=4), target=st.sampled_from(["1", "3", "100"]))
def test_rows_have_buckets_of_java(engine, batches, target):
    schema = crossing(engine, **{"dynamic-bucket.target-row-num": target})
    assigner = moving_keys.KeyAssigner(context=context_of("/t", schema))
    java = JavaAssigner(engine)
    lying = {}
    for batch in batches:
        found = placed_rows(assigner.assign(batch_of(batch), None))
        assert [(p, kind, row) for p, _, kind, row in found] == java.assign(batch)
        for p, bucket, kind, (k, n, _) in found:
            assert lying.setdefault((k, n), (p, bucket)) == (p, bucket)
            if kind == 3:
                del lying[k, n]
    assert {key: p for key, (p, _) in lying.items()} == java.home


def test_assigner_finds_stored_keys():
    context = context_of("/t", crossing())
    first = moving_keys.KeyAssigner(context=context)
    rows = batch_of([(n, "n", "xy"[n % 2], 0) for n in range(50)])
    placed, _, (partitions, numbers, buckets) = first.assign(rows, None)
    known = [
        (partitions[number], int(bucket) + 7, placed.slice(row, 1))
        for row, (number, bucket) in enumerate(zip(numbers, buckets, strict=True))
    ]
    second = moving_keys.KeyAssigner(context=context)
    second.load(known)
    again = placed_rows(second.assign(batch_of([(n, "n", "x", 1) for n in range(4)]), None))
    assert again == [
        ("x", 7, 0, (0, "n", 1)),
        ("y", 7, 3, (1, "n", 1)),
        ("x", 7, 0, (1, "n", 1)),
        ("x", 7, 0, (2, "n", 1)),
        ("y", 7, 3, (3, "n", 1)),
        ("x", 7, 0, (3, "n", 1)),
    ]


def test_assigners_share_keys_and_buckets():
    context = context_of("/t", crossing(**{"dynamic-bucket.target-row-num": "2"}))
    rows = batch_of([(n, "n", "x", 0) for n in range(40)])
    share = moving_keys.KeyAssigner.assigner_of(dynamic_buckets.key_hashes(context.schema, rows), 3)
    seen = []
    for number in range(3):
        assigner = moving_keys.KeyAssigner(context=context, assigner=number, assigners=3)
        buckets = assigner.assign(rows.filter(pa.array(share == number)), None)[2].buckets
        assert set(buckets % 3) == {number}
        assert np.bincount(buckets).max() == 2
        seen += buckets.tolist()
    assert len(seen) == 40


@pytest.mark.way_out("key-index")
def test_too_many_keys_are_refused_with_way_out():
    rows = batch_of([(n, "n", "x", 0) for n in range(1000)])

    def assign(memory):
        schema = crossing(**{"lookup.cache-max-memory-size": memory})
        return moving_keys.KeyAssigner(context=context_of("/t", schema)).assign(rows, None)

    with pytest.raises(InvalidInputError, match=r"lookup\.cache-max-memory-size") as raised:
        assign("1 kb")
    assert raised.value.kind == "key-index"
    assert len(assign("1 mb")[2].buckets) == 1000


def test_keys_that_share_hash_are_distinguished():
    index = moving_keys.KeyIndex()
    hashes = np.array([7, 7, 7, 1], dtype=np.int32)
    keys = [pa.array(["a", "b", "c", "d"])]
    row_buckets = np.arange(4, dtype=np.int32)
    index.put(index.find(hashes, keys), row_buckets, row_buckets * 10)
    asked = [pa.array(["c", "x", "a", "d", "b"])]
    found = index.find(np.array([7, 7, 7, 1, 7], dtype=np.int32), asked)
    assert found.partitions.tolist() == [2, dynamic_buckets.UNKNOWN, 0, 3, 1]
    assert found.buckets[[0, 2, 3, 4]].tolist() == [20, 0, 30, 10]
