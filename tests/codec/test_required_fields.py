"""Rows whose fields may not be null, inside columns."""

import pyarrow as pa
import pytest

from paimon_assets.engine.codec.arrow.arrow_types import without_nulls_below

ROW = pa.struct([pa.field("a", pa.int32(), nullable=False)])


@pytest.mark.parametrize(
    ("arrow_type", "values"),
    [
        (pa.list_(pa.field("element", ROW, nullable=False)), [[{"a": 1}], None, [{"a": 2}] * 2]),
        (pa.map_(pa.int32(), ROW), [[(1, {"a": 1})], None, [(2, {"a": 2}), (3, None)]]),
        (ROW, [{"a": 1}, None, {"a": 2}]),
        (pa.list_(pa.list_(ROW)), [[[{"a": 1}]], None, [[{"a": 2}, None], None]]),
    ],
)
@pytest.mark.parametrize("start", [0, 1])
def test_slices_keep_their_rows(arrow_type, values, start):
    table = pa.table({"c": pa.array(values, arrow_type)}).slice(start)
    assert without_nulls_below(table).column("c").to_pylist() == values[start:]
