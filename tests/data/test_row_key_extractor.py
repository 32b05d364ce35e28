"""Every row finds the partition it names and the bucket that one value alone would find."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.codec.hashing.bucket_function import bucket_of
from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.data.write import row_key_extractor
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.types.data_types import integer, string
from tests.testkit.tables import table_schema
from tests.testkit.write_contexts import context_of

COLUMNS = {"p": "STRING", "q": "INT", "k": "INT"}


def partitioned_schema(**options):
    return table_schema(
        COLUMNS,
        partition_keys=["p", "q"],
        primary_keys=["p", "q", "k"],
        options={"bucket": "3", **options},
    )


def batch_of(rows):
    columns = list(zip(*rows, strict=True)) or [[], [], []]
    types = [pa.string(), pa.int32(), pa.int32()]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "", "ä/b", None]),
        st.one_of(st.none(), st.integers(-2, 2)),
        st.integers(-(2**31), 2**31 - 1),
    ),
    max_size=40,
)


@given(ROWS, st.dictionaries(st.sampled_from(["a", "b", ""]), st.integers(1, 9), max_size=2))
def test_rows_are_routed_independently(rows, own_buckets):
    types = [string(), integer()]
    own = {serialize_row([p, 1], types): total for p, total in own_buckets.items()}
    context = context_of("/t", partitioned_schema(), partition_buckets=tuple(own.items()))
    partitions, ids, buckets = row_key_extractor.assign_buckets(context, batch_of(rows))
    assert len(set(partitions)) == len(partitions)
    assert set(ids.tolist()) == set(range(len(partitions)))
    assert ids.dtype.name == buckets.dtype.name == "int32"
    for (p, q, k), partition_id, bucket in zip(rows, ids, buckets, strict=True):
        expected = serialize_row([p, q], types)
        assert partitions[partition_id] == expected
        assert bucket == bucket_of([k], [integer()], own.get(expected, 3))
        assert row_key_extractor.total_buckets(context, expected) == own.get(expected, 3)


def test_unpartitioned_append_table_has_one_bucket_of_unknown_count():
    context = context_of("/t", table_schema(COLUMNS))
    partitions, ids, buckets = row_key_extractor.assign_buckets(
        context, batch_of([("a", 1, 2)] * 3)
    )
    assert (partitions, ids.tolist(), buckets.tolist()) == ([bytes(12)], [0, 0, 0], [0, 0, 0])
    assert row_key_extractor.total_buckets(context, bytes(12)) == -1
    assert row_key_extractor.bucket_path(context, bytes(12), 0) == "/t/bucket-0"


def test_partition_values_that_are_no_paths_are_escaped():
    schema = partitioned_schema(**{"data-file.path-directory": "data"})
    row = serialize_row(["a/b=%", None], [string(), integer()])
    path = row_key_extractor.bucket_path(context_of("/t", schema), row, 2)
    assert path == "/t/data/p=a%2Fb%3D%25/q=__DEFAULT_PARTITION__/bucket-2"


def test_partition_value_too_long_for_directory_is_refused():
    context = context_of("/t", partitioned_schema())
    fits, too_long = (serialize_row(["ä" * n, 1], [string(), integer()]) for n in (126, 127))
    assert row_key_extractor.bucket_path(context, fits, 0).startswith("/t/p=ä")
    with pytest.raises(InvalidInputError, match=r"column 'p'.*256 bytes.*Shorten") as raised:
        row_key_extractor.bucket_path(context, too_long, 0)
    assert raised.value.kind == "partition-value"


@pytest.mark.parametrize(
    ("options", "option"),
    [({"bucket": "2"}, "bucket"), ({"bucket": "-1", "sequence.field": "q"}, "sequence.field")],
)
@pytest.mark.way_out("bucket-mode")
def test_keys_that_may_change_partition_are_refused_with_way_out(options, option):
    schema = table_schema(COLUMNS, primary_keys=["k"], partition_keys=["p"], options=options)
    context = context_of("/t", schema)
    with pytest.raises(UnsupportedFeatureError, match="lacks the partition column 'p'") as raised:
        row_key_extractor.assign_buckets(context, batch_of([]))
    assert raised.value.details["option"] == option
    schema = table_schema(COLUMNS, primary_keys=["k", "p"], partition_keys=["p"], options=options)
    row_key_extractor.assign_buckets(context_of("/t", schema), batch_of([]))
