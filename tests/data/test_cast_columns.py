"""Casts of nested columns, whole and as slices."""

import pyarrow as pa
import pytest

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.data.casting.casting import CastSettings, cast_column
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.options.all_options import CastDialect
from paimon_assets.engine.spec.types.data_types import DataField, RowType, VectorType
from paimon_assets.engine.spec.types.type_text import parse_type


def array_of(element):
    return parse_type({"type": "ARRAY", "element": element})


def map_of(key, value):
    return parse_type({"type": "MAP", "key": key, "value": value})


def row_of(*columns):
    fields = (DataField(id=number, name=name, type=t) for number, name, t in columns)
    return RowType(fields=tuple(fields))


INNER = row_of((5, "x", parse_type("INT")))
INNER_CHANGED = row_of((6, "new", parse_type("DATE")), (5, "y", parse_type("STRING")))
CASES = [
    (array_of("INT"), array_of("STRING"), [[1, None], None, [], [3]],
     [["1", None], None, [], ["3"]]),
    (map_of("STRING", "INT"), map_of("STRING", "BIGINT NOT NULL"),
     [[("a", 1)], None, [], [("b", 2), ("c", 3)]], [[("a", 1)], None, [], [("b", 2), ("c", 3)]]),
    (map_of("STRING", "DOUBLE"), map_of("STRING", "BOOLEAN"),
     [[("a", 0.0)], None, [("b", None)], []], [[("a", False)], None, [("b", None)], []]),
    (VectorType(element=parse_type("FLOAT"), length=2),
     VectorType(element=parse_type("DOUBLE"), length=2),
     [[1, 2], None, [3, 4], [5, 6]], [[1.0, 2.0], None, [3.0, 4.0], [5.0, 6.0]]),
    (row_of((1, "a", parse_type("INT")), (2, "in", INNER)),
     row_of((2, "in", INNER_CHANGED), (1, "b", parse_type("STRING"))),
     [{"a": 1, "in": {"x": 7}}, None, {"a": None, "in": None}, {"a": 2, "in": {"x": None}}],
     [{"in": {"new": None, "y": "7"}, "b": "1"}, None, {"in": None, "b": None},
      {"in": {"new": None, "y": None}, "b": "2"}]),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target", "values", "wanted"), CASES)
def test_nested_columns_are_cast_inside(source, target, values, wanted):
    column = pa.array(values, to_arrow_type(source))
    for start, length in ((0, 4), (1, 3), (1, 1), (2, 2), (4, 0)):
        found = cast_column(column.slice(start, length), source, target)
        found.validate(full=True)
        assert found.type == to_arrow_type(target)
        assert found.to_pylist() == wanted[start : start + length]


def test_values_of_null_lists_are_not_looked_at():
    texts = pa.array(["1", "no number", "3"])
    column = pa.ListArray.from_arrays(
        pa.array([0, 1, 2, 3], pa.int32()), texts, mask=pa.array([False, True, False])
    ).cast(to_arrow_type(array_of("STRING")))
    assert cast_column(column, array_of("STRING"), array_of("INT")).to_pylist() == [[1], None, [3]]


def test_settings_reach_nested_values():
    column = pa.array([[1e7]], to_arrow_type(array_of("DOUBLE")))
    settings = CastSettings(dialect=CastDialect.CPP)
    found = cast_column(column, array_of("DOUBLE"), array_of("STRING"), settings)
    assert found.to_pylist() == [["10000000"]]


def test_what_cannot_be_cast_inside_is_refused_by_both_names():
    column = pa.array([[1]], to_arrow_type(array_of("INT")))
    with pytest.raises(UnsupportedFeatureError, match="INT cannot become DATE"):
        cast_column(column, array_of("INT"), array_of("DATE"))
    texts = pa.array([["x"]], to_arrow_type(array_of("STRING")))
    with pytest.raises(InvalidInputError, match="'x' of type STRING is not a valid INT"):
        cast_column(texts, array_of("STRING"), array_of("INT"))
