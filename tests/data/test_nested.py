"""Nested columns are split into leaves and joined again: whole, as slices, with nulls."""

import pyarrow as pa
import pytest

from paimon_assets.engine.data.nested import changed_field, leaves_of, parts_of, with_parts

ROW = pa.struct([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.string())])
COLUMNS = [
    pa.array([{"a": 1, "b": "x"}, None, {"a": 2, "b": None}, {"a": 3, "b": "y"}], ROW),
    pa.array([[1, None], None, [], [2]], pa.list_(pa.int32())),
    pa.array([[("k", 1)], None, [], [("l", None), ("m", 2)]], pa.map_(pa.string(), pa.int32())),
    pa.array([[1, 2], None, [3, None], [4, 5]], pa.list_(pa.int32(), 2)),
    pa.array([[{"a": 1, "b": "x"}, None], None, [], [{"a": 2, "b": None}]], pa.list_(ROW)),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: str(column.type))
def test_parts_rebuild_column(column):
    for start, count in ((0, 4), (1, 3), (2, 1), (4, 0)):
        part = column.slice(start, count)
        again = with_parts(part, parts_of(part), part.type)
        again.validate(full=True)
        assert again.type == column.type
        assert again.to_pylist() == part.to_pylist()


def test_elements_of_null_list_are_excluded():
    values, nulls = pa.array([1, 2, 3]), pa.array([False, True, False])
    column = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), values, mask=nulls)
    assert parts_of(column)[0].to_pylist() == [1, 3]
    assert [leaf.to_pylist() for leaf in leaves_of(column)] == [[1, 3]]


def test_fields_are_changed_at_any_depth():
    field = pa.field("f", pa.map_(pa.string(), pa.list_(ROW)))
    upper = changed_field(field, lambda each: each.with_name(each.name.upper()))
    assert upper.name == "F"
    assert upper.type.item_type.value_type.names == ["A", "B"]
    assert not upper.type.item_type.value_type.field("A").nullable
