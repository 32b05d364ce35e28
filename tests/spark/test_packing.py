import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.spark.packing import (
    POSITION_COLUMN,
    Packed,
    chunks,
    in_position_order,
    pack,
    pieces,
    take_positions,
    unpack,
    without_dictionaries,
)


def numbered(positions):
    values = [f"row {position}" for position in positions]
    return pa.RecordBatch.from_pydict(
        {"value": values, POSITION_COLUMN: pa.array(positions, pa.int64())}
    )


def test_a_packed_batch_comes_back_equal_with_any_type():
    batch = pa.RecordBatch.from_pydict(
        {
            "nanos": pa.array([1, None], pa.timestamp("ns")),
            "time": pa.array([1, None], pa.time32("ms")),
            "nested": [{"a": [1, 2]}, None],
        }
    )
    assert unpack(pack(batch), batch.schema).equals(batch)
    assert unpack(pack(batch.slice(1)), batch.schema).equals(batch.slice(1))


@given(st.integers(0, 300), st.integers(1, 500))
def test_pieces_join_to_the_batch_and_keep_the_limit(rows, limit):
    batch = pa.RecordBatch.from_pydict({"n": pa.array(range(rows), pa.int64())})
    cut = list(pieces(batch, limit))
    assert [n for piece in cut for n in piece["n"].to_pylist()] == list(range(rows))
    assert all(piece.nbytes <= max(limit, 8) + 8 for piece in cut)


@given(st.lists(st.integers(0, 50), max_size=20), st.integers(1, 400))
def test_chunks_keep_every_batch_in_order(sizes, limit):
    batches = [pa.RecordBatch.from_pydict({"n": pa.array([n] * n, pa.int64())}) for n in sizes]
    collected = list(chunks(batches, limit))
    assert [batch.num_rows for chunk in collected for batch in chunk] == sizes
    assert all(sum(batch.nbytes for batch in chunk[:-1]) < limit for chunk in collected)


@given(st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=12), max_size=12))
def test_rows_come_in_the_order_of_their_positions_however_batches_overlap(groups):
    batches = [numbered(sorted(group)) for group in groups]
    packed = sorted(
        (Packed(int(batch[POSITION_COLUMN][0].as_py()), batch) for batch in batches),
        key=lambda piece: piece.position,
    )
    merged = [value for batch in in_position_order(packed) for value in batch["value"].to_pylist()]
    assert merged == [f"row {n}" for n in sorted(n for group in groups for n in group)]


def test_batches_that_do_not_overlap_pass_without_a_copy():
    first, second = numbered([1, 2]), numbered([3, 4])
    merged = list(in_position_order([Packed(1, first), Packed(3, second)]))
    assert [batch["value"].buffers()[2].address for batch in merged] == [
        batch["value"].buffers()[2].address for batch in (first, second)
    ]


def test_a_row_without_a_position_is_refused():
    batch = pa.RecordBatch.from_pydict({POSITION_COLUMN: pa.array([1, None], pa.int64())})
    with pytest.raises(InvalidInputError) as caught:
        take_positions(batch)
    assert caught.value.kind == "row-position"


def test_positions_are_split_off():
    rest, positions = take_positions(numbered([5, 7]))
    assert rest.schema.names == ["value"]
    assert positions.dtype == np.int64
    assert positions.tolist() == [5, 7]


def test_dictionaries_become_plain_columns():
    schema = pa.schema([("a", pa.dictionary(pa.int8(), pa.string())), ("b", pa.int8())])
    assert without_dictionaries(schema).types == [pa.string(), pa.int8()]
